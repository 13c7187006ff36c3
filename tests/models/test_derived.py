"""The score model of a density equals brute force, evaluates no more rows than it must, and carries gradients."""

from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score import registry
from concrete_score.errors import InputError
from concrete_score.models import MADE, DensityScore, Energy, Table
from concrete_score.neighborhoods import hamming, moore
from concrete_score.protocols import DensityModel, ScoreModel
from concrete_score.spaces import Space
from tests.strategies import generators, registered


@dataclass
class Counting:
    """A density that counts the rows of each pass."""

    model: DensityModel
    rows: list[int] = field(default_factory=list)
    normalized: bool = True

    @property
    def space(self):
        return self.model.space

    def log_density(self, x):
        self.rows.append(x[..., 0].numel())
        return self.model.log_density(x)


@pytest.mark.parametrize("name", registry.names("neighborhoods"))
@given(data=st.data())
def test_ratios_equal_brute_force_on_every_registered_neighborhood(name, data):
    neighborhood = data.draw(registered(name))
    space, states = neighborhood.space, neighborhood.space.enumerate()
    density = Counting(Table(space, data.draw(generators()), dtype=torch.float64))
    chunk = data.draw(st.sampled_from([1, 7, 64, 2**18]))
    score = DensityScore(density, neighborhood, chunk)
    assert isinstance(score, ScoreModel)
    found, valid = score.log_ratios(states), neighborhood.valid(states)
    log_pmf = density.model.logits.log_softmax(0)
    brute = torch.zeros_like(found)
    for i, k in valid.nonzero().tolist():
        brute[i, k] = log_pmf[space.index(neighborhood.neighbor(states[i], torch.tensor(k)))] - log_pmf[i]
    torch.testing.assert_close(found, brute)
    assert (found[~valid] == 0.0).all()
    assert sum(density.rows) == len(states) + int(valid.sum())


def test_memory_is_bounded_by_the_chunk_and_a_large_chunk_is_one_pass():
    neighborhood = hamming(Space.bits(20))
    x = neighborhood.space.uniform(30, torch.Generator().manual_seed(0))
    made = MADE(neighborhood.space, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    small, large = Counting(made), Counting(made)
    few = DensityScore(small, neighborhood, chunk=100).log_ratios(x)
    many = DensityScore(large, neighborhood).log_ratios(x)
    torch.testing.assert_close(few, many)
    assert large.rows == [30 * 21]
    # 100 sites are 5 states; a pass may also carry the row they belong to.
    assert max(small.rows) <= 6
    assert sum(small.rows) == 30 * 21


def test_gradients_are_those_of_the_two_densities():
    space = Space((3, 2, 2))
    model = Energy(space, (5,), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    neighborhood, x = moore(space), space.enumerate()
    weight = torch.randn(12, neighborhood.num_slots, generator=torch.Generator().manual_seed(1)).double()
    direct = model.log_density(neighborhood.neighbors(x)) - model.log_density(x)[:, None]
    expected = torch.autograd.grad((weight * direct).sum(), list(model.parameters()))
    derived = DensityScore(model, neighborhood, chunk=50).log_ratios(x)
    for one, two in zip(torch.autograd.grad((weight * derived).sum(), list(model.parameters())), expected, strict=True):
        torch.testing.assert_close(one, two)


def test_leading_axes_are_kept():
    space = Space((3, 2))
    score = DensityScore(Table(space, torch.Generator().manual_seed(0)), hamming(space))
    x = space.enumerate().reshape(2, 3, 2)
    assert torch.equal(score.log_ratios(x).reshape(6, 3), score.log_ratios(x.reshape(6, 2)))
    assert torch.equal(score.log_ratios(x[1, 2]), score.log_ratios(x)[1, 2])


def test_mistakes_are_told():
    with pytest.raises(InputError, match="density and neighborhood on the same space"):
        DensityScore(Table(Space((2,))), hamming(Space((3,))))
    with pytest.raises(InputError, match="chunk: expected at least 1"):
        DensityScore(Table(Space((2,))), hamming(Space((2,))), chunk=0)
