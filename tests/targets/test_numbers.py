"""Tables of numbers: components that sum to one on their grid, and likelihoods equal to enumerated sums."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.randomness import generator
from concrete_score.targets import random_network
from concrete_score.targets.numbers import STEPS, Atom, Gaussian, MixedTable, Poisson, random_mixed_table

GRID = torch.arange(-40 * STEPS, 80 * STEPS)


@pytest.mark.parametrize("law", [Gaussian(3.2, 0.001), Gaussian(-1.25, 2.0), Poisson(0.7), Poisson(21.5), Atom(-317)])
def test_components_sum_to_one_and_their_quantiles_invert_the_sums(law):
    probs = law.log_prob(GRID).exp()
    assert float(probs.sum()) == pytest.approx(1.0, abs=1e-12)
    unit = torch.tensor([0.001, 0.25, 0.5, 0.9, 0.9999], dtype=torch.float64)
    drawn, below = law.quantile(unit), probs.cumsum(0)
    place = drawn - GRID[0]
    assert (below[place] >= unit - 1e-9).all()
    assert (below[place - 1] <= unit + 1e-9).all()


def test_far_grid_points_of_a_gaussian_keep_their_digits():
    from scipy.stats import norm

    points = torch.tensor([-3000, -900, 900, 3000])
    found = Gaussian(0.0, 1.0).log_prob(points)
    inner = norm.logpdf(np.abs(points.numpy()) / STEPS) - np.log(STEPS)
    assert np.allclose(found.numpy(), inner, rtol=2e-4)
    assert torch.equal(found, found.flip(0))


@given(st.integers(0, 10_000))
def test_the_likelihood_is_the_sum_over_all_components(seed):
    table = random_mixed_table(4, 2, torch.Generator().manual_seed(seed))
    rows = table.sample(6, generator(seed, "rows"))
    states = table.network.space.enumerate()
    joint = table.network.log_density(states)
    each = sum(evidence[:, states[:, d]] for d, evidence in enumerate(table.evidence(rows)))
    expected = (joint + each).logsumexp(1)
    assert torch.allclose(table.log_density(rows), expected, atol=1e-10, rtol=0)
    assert table.log_density(rows).isfinite().all()


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(0, 10_000))
def test_evidence_and_posteriors_of_a_network_are_enumerated_sums(sizes, seed):
    network = random_network(sizes, 3, torch.Generator().manual_seed(seed))
    gen = generator(seed, "evidence")
    evidence = [3 * torch.randn(5, size, generator=gen, dtype=torch.float64) for size in sizes]
    states = network.space.enumerate()
    weight = network.log_density(states) + sum(each[:, states[:, d]] for d, each in enumerate(evidence))
    assert torch.allclose(network.log_evidence(evidence), weight.logsumexp(1), atol=1e-10, rtol=0)
    for d, found in enumerate(network.posteriors(evidence)):
        expected = torch.zeros_like(found).index_add_(1, states[:, d], weight.softmax(1))
        assert torch.allclose(found, expected, atol=1e-10, rtol=0)


def test_small_tables_sum_to_one_and_draws_follow_them():
    network = random_network([2, 2], 1, torch.Generator().manual_seed(1))
    table = MixedTable(network, (None, (Poisson(1.5), Atom(50))))
    points = torch.cat([torch.arange(0, 40 * STEPS, STEPS), torch.tensor([50])])
    rows = torch.cartesian_prod(torch.arange(2), points)
    probs = table.log_density(rows).exp()
    assert float(probs.sum()) == pytest.approx(1.0, abs=1e-12)
    drawn = table.sample(50_000, generator(0, "rows"))
    shares = (drawn[:, None] == rows).all(-1).double().mean(0)
    common = probs > 1e-3
    assert float(shares.sum()) == pytest.approx(1.0)
    assert ((shares - probs).abs()[common] < 4.5 * (probs[common] / len(drawn)).sqrt()).all()


def test_components_must_fit_the_network():
    network = random_network([2, 3], 1, torch.Generator().manual_seed(1))
    with pytest.raises(InputError, match="components of"):
        MixedTable(network, (None, (Atom(0), Atom(1))))
