"""Checks: what holds, what does not, and that NaN never does; ratios of times by turns, in any clock."""

import json
from math import inf, nan

import pytest

from concrete_score.bench import Check, checks
from concrete_score.bench.checks import ratio_of_minima


@pytest.mark.parametrize(
    ("check", "ok"),
    [
        (Check.at_most("a", 1.0, 1.0), True),
        (Check.at_most("a", 1.0001, 1.0), False),
        (Check.at_most("a", -inf, 1.0), True),
        (Check.at_least("a", 1.0, 1.0), True),
        (Check.at_least("a", 0.9999, 1.0), False),
        (Check.within("a", 0.5, 0.5, 0.6), True),
        (Check.within("a", 0.6, 0.5, 0.6), True),
        (Check.within("a", 0.7, 0.5, 0.6), False),
        (Check.within("a", 0.4, 0.5, 0.6), False),
        (Check.equal("a", 64, 64), True),
        (Check.equal("a", 63, 64), False),
        (Check.equal("a", True, True), True),
        (Check.equal("a", False, True), False),
        (Check.at_most("a", nan, 1.0), False),
        (Check.at_least("a", nan, 1.0), False),
        (Check.within("a", nan, 0.0, 1.0), False),
        (Check.equal("a", nan, nan), False),
    ],
)
def test_verdicts(check, ok):
    assert check.ok is ok
    assert (" not " in str(check)) is not ok


def test_json_has_exactly_four_keys():
    shown = json.loads(json.dumps(Check.within("slope", 1.0, 0.9, 1.1).to_json()))
    assert shown == {"name": "slope", "value": 1.0, "bound": [0.9, 1.1], "ok": True}


def test_work_and_yardstick_take_turns_and_minima_are_compared(monkeypatch):
    called, clock = [], iter([0.0, 9.0, 10.0, 13.0, 20.0, 26.0, 30.0, 32.0])
    monkeypatch.setattr(checks, "perf_counter", lambda: next(clock))
    value = ratio_of_minima(lambda: called.append("a"), lambda: called.append("b"), repeats=2)
    assert called == ["a", "b"] * 3
    assert value == 6 / 2


def test_a_clock_of_ones_own_is_the_one_that_counts():
    ticks = iter(float(tick) for tick in range(1000))
    spent = {"work": 3, "yardstick": 1}

    def advance(name):
        for _ in range(spent[name]):
            next(ticks)

    ratio = ratio_of_minima(lambda: advance("work"), lambda: advance("yardstick"), 2, clock=lambda: next(ticks))
    assert ratio == 4 / 2
