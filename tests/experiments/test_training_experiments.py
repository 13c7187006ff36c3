"""The training experiments at the smallest size that can still fail."""

from dataclasses import replace

import pytest

from concrete_score.experiments import Settings, guard, one_dimensional


def test_the_enumerated_objective_finds_sixteen_categories():
    case = next(case for case in one_dimensional.CASES if case.name == "enumerated")
    found = one_dimensional.train_one(replace(case, quick_steps=500), Settings(quick=True))
    assert found["total_variation"] < 0.12
    assert found["steps"] == 500


@pytest.mark.parametrize(("quick", "holding"), [(False, [True, True, False, False]), (True, [True] * 4)])
def test_each_case_is_held_to_the_bound_of_its_size(monkeypatch, quick, holding):
    monkeypatch.setattr(one_dimensional, "train_one", lambda case, settings: {"total_variation": 0.004})
    found = one_dimensional.run(Settings(quick=quick))
    assert [check.ok for check in found.checks] == holding
    assert list(found.ours) == [case.name for case in one_dimensional.CASES]


@pytest.mark.slow
def test_the_guard_catches_the_blow_up(data_dir):
    found = guard.run(Settings(quick=True))
    assert all(check.ok for check in found.checks), [str(check) for check in found.checks]
