"""``csm bench``."""

import json

import pytest

from concrete_score.bench import Check, suite


@pytest.fixture
def instant(monkeypatch):
    """Figures that take no time, one of them beyond its bound and one not a number."""
    values = {"startup": 0.2, "draw": 9.0, "neighbors": float("nan")}
    monkeypatch.setattr(suite, "take", lambda name: Check.at_most(name, values[name], 1.0))


@pytest.mark.usefixtures("instant")
def test_json_holds_value_bound_and_verdict_of_each(csm):
    code, out, err = csm("bench", "startup", "draw", "neighbors", "--json", "--quiet")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "checks": [
            {"name": "startup", "value": 0.2, "bound": 1.0, "ok": True},
            {"name": "draw", "value": 9.0, "bound": 1.0, "ok": False},
            {"name": "neighbors", "value": None, "bound": 1.0, "ok": False},
        ]
    }


@pytest.mark.usefixtures("instant")
def test_only_the_named_ones(csm):
    assert [check["name"] for check in json.loads(csm("bench", "draw", "--json").out)["checks"]] == ["draw"]
    assert "startup" not in csm("bench", "draw").out


def test_unknown_figure_gets_the_nearest(misused):
    assert "did you mean 'startup'?" in misused("bench", "startp")
