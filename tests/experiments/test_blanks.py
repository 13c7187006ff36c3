"""Rows with blanks, small: what is lost, what fills them, and the measures by which both are judged."""

import pytest
import torch

from concrete_score.experiments import blanks
from concrete_score.experiments.result import Settings
from concrete_score.experiments.tables import mixed_network
from concrete_score.fitted import Fitted
from concrete_score.models import MADE
from concrete_score.randomness import generator
from concrete_score.samplers.completions import Cells
from concrete_score.spaces import Space
from concrete_score.targets import random_network


@pytest.mark.slow
def test_a_known_network_is_approached_through_blanks(tmp_path, monkeypatch):
    monkeypatch.setattr(blanks, "BOUNDED", 10)
    found = blanks.run(Settings(quick=True, store=tmp_path))
    assert [str(check) for check in found.checks if not check.ok] == []
    assert found.ours["network-0"]["cells"] > 500


def test_the_truth_itself_has_nothing_to_lose():
    truth = random_network([3, 2, 4, 2], 2, generator(0, "network"))
    rows = truth.sample(400, generator(0, "rows"))
    observed = torch.rand(rows.shape, generator=generator(0, "blanks")) >= 0.3
    found = blanks.filled_cells(truth, Fitted(truth, truth.space), rows, observed, Settings())
    assert abs(found["excess_loss"]) < 1e-9
    assert found["coverage"] == pytest.approx(found["stated"], abs=0.04)


def test_sets_are_the_smallest_that_hold_enough():
    probs = torch.tensor([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7], [1.0, 0.0, 0.0]])
    stated, covered = blanks.sets(Cells(torch.arange(3), torch.zeros(3), probs.log()), torch.tensor([2, 0, 0]))
    assert stated.tolist() == pytest.approx([0.9, 0.9, 1.0])
    assert covered.tolist() == [False, False, True]


def test_the_gap_of_the_bound_is_that_of_its_draws():
    space = Space((5, 5, 3))
    model = MADE(space, 8, 1, generator=generator(1, "weights"), dtype=torch.float64)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2.0)
    rows = torch.tensor([[0, 1, 2], [2, 2, 1]])
    observed = torch.tensor([[False, False, True]]).expand(2, -1)
    found = blanks.bound_slope(model, rows, observed, generator(0, "draws"))
    assert found["slope"] == pytest.approx(-1, abs=0.15)
    assert all(a > b > 0 for a, b in zip(found["gaps"], found["gaps"][1:], strict=False))


def test_mixed_networks_are_the_same_each_time():
    first, again = mixed_network(1), mixed_network(1)
    assert first.parents == again.parents
    assert all(torch.equal(a, b) for a, b in zip(first.tables, again.tables, strict=True))
