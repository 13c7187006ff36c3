"""The training experiments at the smallest size that can still fail."""

from dataclasses import replace

import pytest

from concrete_score.experiments import Settings, guard, one_dimensional


def test_the_enumerated_objective_finds_sixteen_categories():
    case = next(case for case in one_dimensional.CASES if case.name == "enumerated")
    found = one_dimensional.train_one(replace(case, quick_steps=1500), Settings(quick=True))
    assert found["total_variation"] < 0.02
    assert found["steps"] == 1500


def test_samples_improve_on_the_untrained_network(monkeypatch):
    monkeypatch.setattr(one_dimensional, "ROWS", 2000)
    monkeypatch.setattr(one_dimensional, "HELD_OUT", 500)
    case = one_dimensional.CASES[1]
    few, more = (
        one_dimensional.train_one(replace(case, quick_steps=steps), Settings(quick=True))["total_variation"]
        for steps in (4, 300)
    )
    assert more < 0.7 * few


@pytest.mark.slow
def test_the_guard_catches_the_blow_up(data_dir):
    found = guard.run(Settings(quick=True))
    assert all(check.ok for check in found.checks), [str(check) for check in found.checks]
