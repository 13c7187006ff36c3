"""Rows given conditions, small; and that wrong rows would be noticed."""

import torch

from concrete_score.experiments import conditions
from concrete_score.experiments.result import Settings
from concrete_score.randomness import generator
from concrete_score.spaces import Space


def test_rows_meet_and_follow_their_conditions(tmp_path):
    found = conditions.run(Settings(quick=True, store=tmp_path))
    assert [str(check) for check in found.checks if not check.ok] == []
    assert found.ours["rare-0"]["method"] == "importance"
    assert found.ours["small-0"]["method"]["made, weighted draws"] == "importance"


def test_free_rows_would_be_noticed(monkeypatch):
    """Rows of the model itself violate the condition and lie far from the conditional."""

    def free(way, rows, random):
        return conditions.SMALL.uniform(rows, random)

    monkeypatch.setattr(conditions, "_drawn", free)
    found = conditions.small(Settings(quick=True), 0)
    assert found["violations"] > 1_000
    assert min(found["distance"].values()) > 0.3


def test_a_random_condition_fixes_rules_out_and_weighs():
    space = Space((3, 4, 5, 2))
    evidence = conditions.random_condition(space, generator(1))
    left = [
        len(evidence.log_weights[d, :size][evidence.log_weights[d, :size] > -torch.inf])
        for d, size in enumerate(space.sizes)
    ]
    assert left.count(1) >= 1
    assert evidence.num_states < space.num_states / 2
