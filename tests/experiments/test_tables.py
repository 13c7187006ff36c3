"""Known truths and planted mistakes, small: the figures a newcomer relies on."""

import pytest
import torch

from concrete_score.experiments import tables
from concrete_score.experiments.result import Settings
from concrete_score.fitted import Fitted
from concrete_score.models import Table
from concrete_score.randomness import generator
from concrete_score.spaces import Space
from concrete_score.targets.bayesian_network import asia


@pytest.mark.slow
def test_known_truths_are_approached(tmp_path):
    found = tables.run(Settings(quick=True, store=tmp_path))
    assert [str(check) for check in found.checks if not check.ok] == []
    assert found.ours["asia"]["kl"] > 0
    assert found.ours["mixed-0"]["gap"] > 0


def test_the_truth_itself_has_nothing_to_lose():
    network = asia()
    found = tables.blanked_cells(network, Fitted(network, network.space), Settings())
    assert (found["excess_loss"], found["accuracy_lost"]) == (0.0, 0.0)
    assert 0 < found["loss"] < 0.6931


def test_wrong_conditionals_would_be_noticed():
    network, gen = asia(), generator(0, "z")
    fitted = Fitted(network, network.space)

    class Biased(Fitted):
        def sample(self, n, generator, given=None, sampler=None, progress=None):
            drawn = super().sample(n, generator, given, sampler, progress)
            drawn.states[: n // 20, 0] = 1  # one row in twenty has been to Asia
            return drawn

    given = tables.CONDITIONS["either=yes"]
    assert tables._conditional_z(fitted, network, given, gen) < 4.5
    assert tables._conditional_z(Biased(network, network.space), network, given, gen) > 10


def test_planted_cells_are_found(data_dir, tmp_path):
    found = tables.run_explain(Settings(quick=True, store=tmp_path))
    assert [str(check) for check in found.checks if not check.ok] == []


def test_one_cell_of_each_row_is_planted_and_ties_count_against_us():
    rows = torch.zeros((50, 4), dtype=torch.uint8)
    wrong, site = tables.planted(rows, generator(0, "rows"))
    assert torch.equal(wrong.sum(1), torch.ones(50, dtype=torch.int64))
    assert torch.equal(wrong.argmax(1), site)
    assert len(site.unique()) == 4

    flat = Fitted(Table(Space.bits(4)), Space.bits(4))  # every flip is as welcome as any other
    assert torch.equal(tables.rank_of(flat, wrong, site), torch.full((50,), 3))
