"""Gibbs from scores as from densities; the parallel heat bath follows its matrix, and its bias falls with the share."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.models import DensityScore, mlp
from concrete_score.neighborhoods import cycle_two_way, grid, hamming
from concrete_score.protocols import Enumerable, Kernel
from concrete_score.samplers import Gibbs, systematic
from concrete_score.samplers.gibbs import HeatBath, conditionals
from concrete_score.spaces import Space
from concrete_score.targets import Ising, pmf
from tests.samplers.checks import (
    assert_counts_follow,
    assert_keeps,
    assert_stochastic,
    masks,
    relaxed_targets,
    stationary,
    step_counts,
)
from tests.strategies import generators, pmfs, spaces


@settings(max_examples=20)
@given(data=st.data())
def test_gibbs_from_scores_is_gibbs_from_the_density(data):
    space = data.draw(spaces().filter(lambda s: s.num_states > 1))
    density = pmf(data.draw(pmfs(space)), space)
    wanted = Gibbs(density).transition_matrix()
    kernel = Gibbs(DensityScore(density, hamming(space)))
    torch.testing.assert_close(kernel.transition_matrix(), wanted, atol=1e-10, rtol=0)
    rows = space.enumerate()
    assert_counts_follow(step_counts(kernel, rows, max(20, 6000 // len(rows)), data.draw(generators())), wanted)


@settings(max_examples=15)
@given(data=st.data())
def test_a_systematic_sweep_keeps_the_target_and_its_reversal_is_the_other_order(data):
    space = data.draw(spaces(min_sites=2))
    density = pmf(data.draw(pmfs(space)), space)
    pi, sweep = density.probabilities, systematic(density)
    matrix = sweep.transition_matrix()
    assert_keeps(matrix, pi, reversible=False)
    flow = pi[:, None] * matrix
    torch.testing.assert_close(flow.T, pi[:, None] * sweep.reversed().transition_matrix(), atol=1e-12, rtol=0)
    rows = space.enumerate()
    assert_counts_follow(step_counts(sweep, rows, max(20, 4000 // len(rows)), data.draw(generators())), matrix)


def test_gibbs_with_zeros_stays_on_the_support():
    p, g = pmf([[0.3, 0.0, 0.1], [0.2, 0.4, 0.0]]), torch.Generator().manual_seed(0)
    matrix = Gibbs(p).transition_matrix()
    assert_keeps(matrix, p.probabilities, reversible=True)
    rows = torch.tensor([[0, 0], [0, 2], [1, 0], [1, 1]])
    assert_counts_follow(step_counts(Gibbs(p), rows, 3000, g), matrix[p.space.index(rows)])


def test_bad_pieces_are_refused_before_any_work():
    p = pmf(torch.full((4,), 0.25, dtype=torch.float64))
    with pytest.raises(InputError, match="every value"):
        Gibbs(DensityScore(p, grid(p.space)))
    with pytest.raises(InputError, match="site from 0 to 0"):
        Gibbs(p, site=1)
    with pytest.raises(InputError, match="positive probability"):
        Gibbs(pmf([1.0, 0.0])).init([[1]])


def kernel_of(density, share, neighborhood=hamming):
    return HeatBath(DensityScore(density, neighborhood(density.space)), share)


@settings(max_examples=15)
@given(st.data())
def test_real_steps_follow_the_matrix_and_clamped_sites_stay(data):
    space = data.draw(spaces(max_states=24).filter(lambda s: s.num_states > 1))
    kernel = kernel_of(data.draw(relaxed_targets(space)), data.draw(st.sampled_from([0.2, 0.7, 1.0])))
    assert isinstance(kernel, Kernel)
    assert isinstance(kernel, Enumerable)
    clamped = data.draw(st.none() | masks(space))
    matrix, rows = kernel.transition_matrix(clamped), space.enumerate()
    assert_stochastic(matrix)
    counts = step_counts(kernel, rows, max(20, 8000 // len(rows)), data.draw(generators()), clamped)
    assert_counts_follow(counts, matrix)


@given(st.data())
def test_conditionals_are_the_targets(data):
    space = data.draw(spaces().filter(lambda s: s.num_states > 1))
    density = data.draw(relaxed_targets(space))
    pi = stationary(density).reshape(space.sizes)
    found = conditionals(DensityScore(density, hamming(space)), space.enumerate()).exp()
    for d, size in enumerate(space.sizes):
        given_others = (pi / pi.sum(d, keepdim=True)).movedim(d, -1)
        states = space.enumerate()
        others = [states[:, e] for e in range(space.num_sites) if e != d]
        torch.testing.assert_close(found[:, d, :size], given_others[tuple(others)].expand(len(states), size))


@given(st.data())
def test_one_site_is_drawn_exactly(data):
    space = data.draw(spaces(max_sites=1).filter(lambda s: s.num_states > 1))
    density = data.draw(relaxed_targets(space))
    pi = stationary(density)
    torch.testing.assert_close(kernel_of(density, 1.0).transition_matrix(), pi.expand(len(pi), -1))


def test_its_bias_falls_in_proportion_to_the_share():
    density = Ising((2, 3), 0.4)
    pi, bias = stationary(density), []
    for share in (0.4, 0.2, 0.1, 0.05):
        kept = torch.linalg.matrix_power(kernel_of(density, share).transition_matrix(), 4096)[0]
        bias.append((kept - pi).abs().sum().item() / 2)
    ratios = [a / b for a, b in pairwise(bias)]
    assert bias[0] > 0.01, "an unadjusted kernel should not be exact"
    assert all(1.7 < ratio < 3.0 for ratio in ratios)


def test_flips_on_a_grid_serve_and_other_neighborhoods_do_not():
    density = Ising((2, 2), 0.4)
    torch.testing.assert_close(
        kernel_of(density, 0.3, grid).transition_matrix(), kernel_of(density, 0.3).transition_matrix()
    )
    p = pmf([0.1, 0.2, 0.3, 0.4])
    with pytest.raises(InputError, match="every value of a site"):
        HeatBath(DensityScore(p, cycle_two_way(p.space)))
    with pytest.raises(InputError, match="model"):
        HeatBath(Space.bits(2))
    for share in (0.0, 1.1):
        with pytest.raises(InputError, match="share: expected a share above 0"):
            HeatBath(mlp(hamming(Space.bits(2)), generator=torch.Generator()), share)


def test_a_step_is_one_pass_and_says_what_moved():
    kernel = kernel_of(Ising((3, 3), 0.2), 0.5)
    state = kernel.init(torch.zeros(50, 9, dtype=torch.int64))
    after, info = kernel.step(state, torch.Generator().manual_seed(0))
    assert info.passes == 1
    assert torch.equal(info.accepted, (after.x != state.x).any(-1))
    assert HeatBath.adjusted is False
