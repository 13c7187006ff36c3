"""Random noises, their brute-force twins, and the chi-square test."""

from functools import reduce

import torch
from hypothesis import strategies as st
from scipy.stats import chi2

from concrete_score.noise import FactorizedNoise
from tests.strategies import generators, pmfs, spaces


def mixtures(space, generator, amounts=(0.1, 0.4, 0.8), one_target=False):
    """``q = (1 - a) 1 + a R`` at each site, R a random stochastic matrix, or one with equal rows (then q composes)."""
    largest = max(space.sizes)
    table = torch.full((len(amounts), space.num_sites, largest, largest), -torch.inf, dtype=torch.float64)
    for d, size in enumerate(space.sizes):
        logits = torch.randn(1 if one_target else size, size, generator=generator, dtype=torch.float64)
        target = logits.softmax(-1).expand(size, size)
        for level, a in enumerate(amounts):
            table[level, d, :size, :size] = ((1 - a) * torch.eye(size, dtype=torch.float64) + a * target).log()
    return FactorizedNoise(space, table)


@st.composite
def noises(draw, space):
    """A random noise of three levels, different at each site and value."""
    return mixtures(space, draw(generators()))


@st.composite
def noises_with_pmfs(draw):
    """A random noise and a random pmf on its space."""
    space = draw(spaces())
    return draw(noises(space)), draw(pmfs(space))


def whole_kernel(noise, level):
    """``q(x̃ | x)`` over the enumerated space ``(S, S)``: the Kronecker product of the site kernels."""
    sites = [noise.site_log_prob(level, d).exp() for d in range(noise.space.num_sites)]
    return reduce(torch.kron, sites)


def chi_square_p(counts, probabilities):
    """The p-value of observed counts ``(..., n)`` under probabilities of the same shape, rows independent."""
    counts, probabilities = counts.double(), probabilities.double()
    assert not counts[probabilities == 0].any(), "something impossible was drawn"
    expected = probabilities * counts.sum(-1, keepdim=True)
    used = expected > 0
    statistic = ((counts - expected)[used] ** 2 / expected[used]).sum().item()
    freedom = int((used.sum(-1) - 1).clamp(min=0).sum())
    return chi2.sf(statistic, freedom) if freedom else 1.0
