"""Figure 3 at the smallest size that can fail, and the pieces it stands on."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.experiments import Settings, figure3
from concrete_score.experiments.plane import (
    Plane,
    held_against,
    learn,
    line_departure,
    mixed,
    pack,
    training_settings,
    unmixed,
    unpack,
)

SMALL = replace(figure3.QUICK, bins=11, rows=3_000, lr=5e-2)


@pytest.fixture(scope="module")
def plane():
    return Plane("8gaussians", 11, 3_000, 0)


@given(st.lists(st.integers(0, 3), max_size=30))
def test_counts_come_back(counts):
    assert unpack(pack(counts), len(counts)) == counts


def test_counts_of_another_size_are_refused():
    with pytest.raises(InputError, match="3 counts"):
        unpack("0x2", 3)


@given(st.floats(0.01, 0.9), st.integers(0, 20))
def test_what_was_mixed_in_is_taken_out_exactly(share, seed):
    p = torch.rand(7, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    p = p / p.sum()
    clean, clipped = unmixed(mixed(p, share), share)
    torch.testing.assert_close(clean, p, rtol=0, atol=1e-12)
    assert clipped <= 1e-12
    floor = torch.zeros(7, dtype=torch.float64)
    floor[0] = 1.0
    bare, lost = unmixed(floor, share)  # six states are below the floor that was added to them
    assert bare.tolist() == floor.tolist()
    assert lost == pytest.approx(6 * share / 7 / (1 - share))


def test_held_out_draws_hold_each_state_once_for_the_uniform_share(plane):
    rows = plane.held_out(0.1)
    assert len(rows) == 10 * 121
    assert rows[-121:].equal(plane.space.enumerate())
    assert len(plane.held_out(0.0)) == 9 * 121
    assert not torch.equal(plane.held_out(0.0)[:50], plane.toy.sample(50, torch.Generator().manual_seed(0)))


def test_departure_from_uniform_looks_at_lines_with_draws_only():
    plane = Plane("2spirals", 21, 300, 0)
    weight = plane.draws.probabilities.reshape(21, 21)
    assert (weight.sum(1) == 0).any()
    assert (weight.sum(0) == 0).any()
    logits = torch.zeros(21, 21, dtype=torch.float64)
    empty = torch.outer(weight.sum(1) == 0, weight.sum(0) == 0)
    logits[empty] = 9.0  # in no row and no column that holds draws
    assert line_departure(plane, logits.reshape(-1)) == pytest.approx(0, abs=1e-12)
    logits[int(weight.sum(1).argmax()), 0] += 9.0
    assert line_departure(plane, logits.reshape(-1)) > 0.5


def test_distances_are_zero_at_the_truth_and_one_at_the_draws(plane):
    truth = held_against(plane, plane.truth.log_pmf)
    assert truth["total_variation"] == pytest.approx(0, abs=1e-12)
    assert truth["kl"] == pytest.approx(0, abs=1e-12)
    share = 0.1
    draws = held_against(plane, mixed(plane.draws.probabilities, share).log(), share)
    assert draws["ratio"] == pytest.approx(1, abs=1e-9)
    assert draws["kl"] is None  # the draws leave states empty, which the truth does not
    assert 0 < draws["kl_mixed"] < 0.1


def test_mixed_csm_finds_the_draws_and_keeps_what_held_out_draws_like(plane):
    share = 0.1
    objective = figure3.csm_on_grid(plane.space, mixed(plane.draws.probabilities, share))
    found = learn(plane, objective, training_settings(600, 2e-2, 0), share=share)
    assert held_against(plane, found.last, share)["ratio"] == pytest.approx(1, abs=0.03)
    assert found.path[0][1] > 3
    assert found.path[-1] == (600, pytest.approx(1, abs=0.03))
    assert 0 < found.ended.best_step <= 600


def test_an_unbounded_objective_is_shown_to_be_so(monkeypatch):
    monkeypatch.setattr(figure3, "QUICK", SMALL)
    found = figure3.train_one(Settings(quick=True), "2spirals", "csm")
    start, ten, twenty = found["ray"]
    assert start > ten > twenty
    assert twenty / ten > 1e4
    assert found["last"]["ratio"] > found["ratio"]


@pytest.mark.parametrize("method", ["ratio_elsewhere", "marginal_elsewhere"])
def test_the_uncorrected_two_lead_from_anywhere_to_uniform(monkeypatch, method):
    monkeypatch.setattr(figure3, "QUICK", replace(SMALL, lr=2e-2))
    found = figure3.train_one(Settings(quick=True), "checkerboard", method)
    assert found["departure_from_uniform"] < 0.1
    assert found["ratio"] > 3


def test_every_method_of_every_toy_is_there_with_its_checks(monkeypatch):
    monkeypatch.setattr(figure3, "QUICK", replace(SMALL, lr=0.5))
    found = figure3.run(Settings(quick=True))
    assert list(found.ours) == list(figure3.TOYS)
    assert set(figure3.METHODS) <= set(found.ours["2spirals"])
    assert "samples" not in found.ours["2spirals"]["csm"]
    assert len(found.checks) == 3 * (4 + 4 + 2 * 2 + 1)
    assert all(data.startswith(b"\x89PNG") for data in found.images.values())
    assert set(found.images) == {"figure3", "figure3-divergence"}
    assert "no lower bound" in found.text


def test_a_bad_result_fails_its_check():
    unbounded = {"ray": [1.0, -1.0, -1.1], "ended": "steps", "last": {"ratio": 1.0}, "ratio": 1.0}
    told = {"ratio": 2.0, "departure_from_uniform": 0.2}
    found = {name: unbounded if method.unbounded else told for name, method in figure3.METHODS.items()}
    assert not any(check.ok for check in figure3.checks_of("2spirals", found, Settings()))


@pytest.mark.slow
def test_the_quick_figure_holds():
    found = figure3.run(Settings(quick=True))
    assert [str(check) for check in found.checks if not check.ok] == []
