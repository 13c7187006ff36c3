"""Benchmarks take turns, name their figures, and run at small size; bounds are judged by ``csm bench``, not here."""

from importlib import import_module

import pytest

from concrete_score.bench import FIGURES, chosen, graphs, timing
from concrete_score.errors import InputError


def test_work_and_yardstick_take_turns_and_minima_are_compared(monkeypatch):
    called, clock = [], iter([0.0, 9.0, 10.0, 13.0, 20.0, 26.0, 30.0, 32.0])
    monkeypatch.setattr(timing, "perf_counter", lambda: next(clock))
    value = timing.ratio_of_minima(lambda: called.append("a"), lambda: called.append("b"), repeats=2)
    assert called == ["a", "b"] * 3
    assert value == 6 / 2


def test_unknown_name_gets_the_nearest():
    with pytest.raises(InputError, match="did you mean 'draw'"):
        chosen(["startup", "drew"])


def test_all_unless_named_and_every_name_leads_to_a_function():
    assert chosen() == list(FIGURES)
    for target in FIGURES.values():
        module, _, attribute = target.partition(":")
        assert callable(getattr(import_module(module), attribute))


@pytest.mark.parametrize("figure", [graphs.draw_over_clone, graphs.neighbors_over_fill])
def test_graph_figures_at_small_size(figure):
    check = figure(rows=100)
    assert check.value > 0
    assert "100" in check.name
