"""Table: any distribution, by its logits."""

import pytest
import torch
from hypothesis import given
from scipy import stats

from concrete_score.errors import InputError
from concrete_score.models import Table
from concrete_score.protocols import DensityModel, Samplable
from concrete_score.spaces import Space
from tests.strategies import generators, spaces


@given(spaces(), generators())
def test_log_density_is_the_log_softmax_or_the_logits(space, generator):
    table = Table(space, generator, dtype=torch.float64)
    assert isinstance(table, DensityModel)
    assert isinstance(table, Samplable)
    states = space.enumerate()
    torch.testing.assert_close(table.log_density(states), table.logits.log_softmax(0))
    raw = Table(space, normalized=False, dtype=torch.float64)
    raw.load_state_dict(table.state_dict())
    assert not raw.normalized
    assert torch.equal(raw.log_density(states), table.logits)
    deep = states.reshape(1, space.num_states, 1, -1)
    assert torch.equal(table.log_density(deep).flatten(), table.log_density(states))


def test_it_starts_uniform():
    space = Space((2, 3))
    torch.testing.assert_close(Table(space).log_density(space.enumerate()).exp(), torch.full((6,), 1 / 6))


def test_from_pmf_keeps_zeros_and_normalizes():
    weights = torch.tensor([0.0, 2.0, 6.0], dtype=torch.float64)
    table = Table.from_pmf(Space((3,)), weights)
    torch.testing.assert_close(table.log_density(Space((3,)).enumerate()).exp(), weights / 8)
    assert table.log_density(torch.tensor([0])) == -torch.inf


def test_samples_follow_the_pmf_and_avoid_its_zeros():
    space = Space((3, 1, 4))
    weights = torch.rand(12, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    weights[[0, 5, 11]] = 0.0
    table = Table.from_pmf(space, weights)
    drawn = space.index(table.sample(40_000, torch.Generator().manual_seed(4)))
    counts = torch.bincount(drawn, minlength=12)
    assert (counts[weights == 0] == 0).all()
    kept = weights > 0
    expected = 40_000 * (weights / weights.sum())[kept]
    assert stats.chisquare(counts[kept].numpy(), expected.numpy()).pvalue > 1e-3


@pytest.mark.parametrize(
    "weights", [[1.0, -1.0], [0.0, 0.0], [1.0, float("nan")], [1.0, float("inf")], [1.0, 1.0, 1.0]]
)
def test_what_is_no_pmf_is_refused(weights):
    with pytest.raises(InputError, match="pmf: expected"):
        Table.from_pmf(Space((2,)), torch.tensor(weights))


def test_a_space_too_large_is_refused():
    with pytest.raises(InputError, match="at most 4194304 states"):
        Table(Space.bits(23))
