"""Figure 5: the four neighborhoods are what they say, and each learns the wave."""

import pytest
import torch

from concrete_score.experiments import Settings, figure5
from concrete_score.experiments.figure5 import TITLES, held_against, neighborhood
from concrete_score.spaces import Space
from concrete_score.targets.toys import sine


def test_three_cycles_of_all_categories_in_different_orders_and_one_complete_graph():
    space, walks = Space((16,)), set()
    for name in TITLES:
        around = neighborhood(name, space)
        assert around.connected()
        assert around.num_slots == (15 if name == "complete" else 1)
        if name != "complete":
            at, walk = torch.tensor([0]), [0]
            while (at := around.neighbor(at, torch.tensor(0))).item():
                walk.append(at.item())
            assert sorted(walk) == list(range(16))
            walks.add(tuple(walk))
    assert len(walks) == 3
    assert tuple(range(16)) in walks


def test_the_bound_is_the_truths_own_log_likelihood():
    truth = sine()
    found = held_against(truth, truth.log_pmf)
    assert found["log_likelihood"] == pytest.approx(-truth.entropy())
    assert found["below_bound"] == pytest.approx(0, abs=1e-12)
    assert held_against(truth, torch.zeros(16).double())["below_bound"] == pytest.approx(0.1769, abs=1e-4)
    impossible = torch.zeros(16).double()
    impossible[0] = -torch.inf
    assert held_against(truth, impossible)["below_bound"] is None


@pytest.mark.parametrize("name", TITLES)
def test_every_neighborhood_learns_the_wave(name):
    found = figure5.learn(Settings(quick=True), name, "full", 300)
    assert found["below_bound"] < 0.05
    assert found["steps"] == 300


def test_the_papers_algorithms_learn_it_too():
    found = figure5.learn(Settings(quick=True), "complete", "sampled", 300)
    assert found["below_bound"] < 0.02


def test_the_figure_and_its_checks(monkeypatch):
    monkeypatch.setattr(figure5, "QUICK_STEPS", {"full": 3, "sampled": 3})
    found = figure5.run(Settings(quick=True))
    assert len(found.checks) == 8
    assert not any(check.ok for check in found.checks)  # three steps are not enough
    assert found.images["figure5"].startswith(b"\x89PNG")
    assert found.ours["bound"] == pytest.approx(-sine().entropy())
    assert "cycle, permuted" in found.text
