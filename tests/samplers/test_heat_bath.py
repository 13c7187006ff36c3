"""Parallel heat bath: its matrix is what it does, one site is exact, and its bias falls with the share."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.models import DensityScore, mlp
from concrete_score.neighborhoods import cycle_two_way, grid, hamming
from concrete_score.protocols import Enumerable, Kernel
from concrete_score.samplers.heat_bath import HeatBath, conditionals
from concrete_score.spaces import Space
from concrete_score.targets import Ising, pmf
from tests.samplers.checks import (
    assert_counts_follow,
    assert_stochastic,
    masks,
    relaxed_targets,
    stationary,
    step_counts,
)
from tests.strategies import generators, spaces


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
