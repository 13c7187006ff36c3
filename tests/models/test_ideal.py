"""The ideal denoiser against brute force over the whole space."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.models.ideal import IdealDenoiser
from concrete_score.neighborhoods import hamming
from concrete_score.noise import categorical
from concrete_score.protocols import NoiseConditional, ScoreModel
from concrete_score.spaces import Space
from tests.noise.helpers import noises, whole_kernel
from tests.strategies import neighborhoods, pmfs


@st.composite
def cases(draw):
    n = draw(neighborhoods())
    return n, draw(noises(n.space)), draw(pmfs(n.space))


@given(cases())
def test_its_scores_are_those_of_the_noisy_distribution(case):
    n, noise, pmf = case
    ideal, states = IdealDenoiser.of(pmf, noise, n), n.space.enumerate()
    assert isinstance(ideal, NoiseConditional)
    assert isinstance(ideal.at(0), ScoreModel)
    for level in range(noise.num_levels):
        log_noisy = noise.noisy_pmf(pmf, level).log()
        near = log_noisy[n.space.index(n.neighbors(states))]
        expected = torch.where(n.valid(states), near - log_noisy[:, None], 0.0)
        torch.testing.assert_close(ideal.at(level).log_ratios(states), expected, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(ideal.at(level).log_density(states), log_noisy, rtol=1e-9, atol=1e-9)


@given(cases())
def test_its_clean_values_are_the_marginals_of_the_posterior(case):
    n, noise, pmf = case
    ideal, states = IdealDenoiser.of(pmf, noise, n), n.space.enumerate()
    joint = pmf[:, None] * whole_kernel(noise, 1)  # [clean, noisy]
    posterior = (joint / joint.sum(0)).T
    found = ideal.clean_log_probs(states, 1).exp()
    for d, size in enumerate(n.space.sizes):
        member = torch.nn.functional.one_hot(states[:, d], size).double()
        torch.testing.assert_close(found[:, d, :size], posterior @ member, rtol=1e-9, atol=1e-12)


def test_levels_a_row_and_any_leading_axes():
    space = Space.bits(3)
    noise = categorical(space, [0.9, 0.7])
    ideal = IdealDenoiser.of(torch.arange(1.0, 9.0), noise, hamming(space))
    x, level = space.enumerate(), torch.arange(8) % 2
    both = ideal.at(level).log_ratios(x)
    assert torch.equal(both[level == 1], ideal.at(1).log_ratios(x[level == 1]))
    torch.testing.assert_close(ideal.at(0).log_ratios(x.reshape(2, 2, 2, 3)).reshape(8, 3), ideal.at(0).log_ratios(x))
    assert ideal.at(0).log_ratios(x[:0]).shape == (0, 3)
    assert ideal.clean_log_probs(x[:0], 0).shape == (0, 3, 2)


def test_bad_weights():
    space = Space.bits(2)
    with pytest.raises(InputError, match="4 weights"):
        IdealDenoiser.of(torch.zeros(4), categorical(space, [0.9]), hamming(space))
