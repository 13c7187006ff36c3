"""Exact and ancestral draws: independent, of the right distribution, conditional where sites are clamped."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.models import MADE, Energy
from concrete_score.models.score import DensityScore
from concrete_score.neighborhoods import hamming
from concrete_score.samplers import Ancestral, Exact
from concrete_score.spaces import Space
from concrete_score.targets import Ising, pmf
from tests.samplers.checks import assert_counts_follow, assert_keeps, assert_stochastic, masks, step_counts
from tests.strategies import generators, pmfs, spaces


@settings(max_examples=20)
@given(data=st.data())
def test_exact_draws_follow_the_conditional_whatever_the_state(data):
    space = data.draw(spaces())
    density = pmf(data.draw(pmfs(space)), space)
    clamped = data.draw(st.none() | masks(space))
    matrix = Exact(density).transition_matrix(clamped)
    assert_stochastic(matrix)
    assert_keeps(matrix, density.probabilities, reversible=True)
    if clamped is None:
        torch.testing.assert_close(matrix, density.probabilities.expand_as(matrix))
    rows = space.enumerate()
    counts = step_counts(Exact(density), rows, max(20, 6000 // len(rows)), data.draw(generators()), clamped)
    assert_counts_follow(counts, matrix)


def test_exact_draws_of_an_unnormalized_density():
    model = Energy(Space((3, 2)), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wanted = model.log_density(model.space.enumerate()).detach().softmax(0)
    counts = step_counts(Exact(model), model.space.enumerate()[:1], 20000, torch.Generator().manual_seed(1))
    assert_counts_follow(counts, wanted[None])


def test_ancestral_draws_are_the_models_own_and_conditional_where_its_order_allows():
    space, g = Space((3, 2, 2)), torch.Generator().manual_seed(0)
    model = MADE(space, generator=g, dtype=torch.float64)
    table = pmf(model.log_density(space.enumerate()).detach().exp(), space)
    rows = space.enumerate()
    for clamped in (None, torch.tensor([True, False, False])):
        counts = step_counts(Ancestral(model), rows, 1000, g, clamped)
        assert_counts_follow(counts, Exact(table).transition_matrix(clamped))
    kernel = Ancestral(model)
    late = kernel.init(rows, torch.tensor([False, False, True]))
    with pytest.raises(InputError, match="first in the model's order"):
        kernel.step(late, g)


def test_bad_pieces_are_refused_before_any_work():
    p = pmf([0.5, 0.5, 0.0])
    with pytest.raises(InputError, match="density model to enumerate"):
        Exact(DensityScore(p, hamming(p.space)))
    with pytest.raises(InputError, match="states to enumerate"):
        Exact(Ising((30, 30), 0.3))
    with pytest.raises(InputError, match="positive probability"):
        Exact(p).init([[2]])
    with pytest.raises(InputError, match="draws its own samples"):
        Ancestral(Ising((3, 3), 0.3))
    with pytest.raises(InputError, match="sample_given"):
        Ancestral(p).init([[0]], torch.tensor([True]))


@pytest.mark.parametrize("build", [Exact, Ancestral])
def test_starts_and_clamped_values_outside_the_space_are_refused(build):
    model = MADE(Space((3, 2)), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    kernel = build(model)
    with pytest.raises(InputError, match="expected a value from 0"):
        kernel.init([[3, 0]], torch.tensor([[True, False]]))
    with pytest.raises(InputError, match="clamped"):
        kernel.init([[0, 0]], torch.tensor([[1, 0]]))
    with pytest.raises(InputError, match="clamped"):
        kernel.init([[0, 0]], torch.tensor([[True]]))
