"""Distances between distributions: their defining properties."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.metrics import histogram, kl, total_variation
from concrete_score.spaces import Space
from concrete_score.targets import pmf, sixteen_categories
from tests.strategies import pmfs, spaces


@st.composite
def pairs(draw):
    space = draw(spaces())
    return draw(pmfs(space)), draw(pmfs(space))


@given(pairs())
def test_total_variation_is_the_largest_difference_over_events(pair):
    p, q = pair
    event = p > q
    assert total_variation(p, q) == pytest.approx(float((p - q)[event].sum()), abs=1e-12)
    assert total_variation(p, q) == total_variation(q, p)
    assert total_variation(p, p) == 0


@given(pairs())
def test_kl_is_at_least_pinskers_bound(pair):
    p, q = pair
    assert kl(p, q) >= 2 * total_variation(p, q) ** 2 - 1e-12
    assert kl(p, p) == pytest.approx(0, abs=1e-12)
    assert kl(p, q) == pytest.approx(float(p @ (p.log() - q.log())), abs=1e-12)


def test_zeros():
    assert total_variation([1.0, 0.0], [0.0, 1.0]) == 1
    assert kl([1.0, 0.0], [0.5, 0.5]) == pytest.approx(math.log(2))
    assert kl([0.5, 0.5], [1.0, 0.0]) == math.inf


def test_a_histogram_of_exact_draws_approaches_the_truth():
    truth, g = sixteen_categories(), torch.Generator().manual_seed(0)
    n = 100_000
    distance = total_variation(histogram(truth.sample(n, g), truth.space), truth)
    p = truth.probabilities
    expected = float((2 * p * (1 - p) / (math.pi * n)).sqrt().sum() / 2)  # the mean of a folded normal, summed
    assert expected / 2 < distance < 2 * expected


def test_pmfs_and_arrays_mix():
    p = pmf([[0.1, 0.2], [0.3, 0.4]])
    assert total_variation(p, [0.1, 0.2, 0.3, 0.4]) == pytest.approx(0, abs=1e-15)
    assert total_variation(p, p.probabilities.reshape(2, 2)) == pytest.approx(0, abs=1e-15)


def test_refusals():
    for match, call in {
        "same space": lambda: kl(pmf([0.5, 0.5]), pmf([[0.5, 0.5]])),
        "number of states": lambda: total_variation([0.5, 0.5], [1.0]),
        "sum of 1": lambda: total_variation([0.5, 0.6], [0.5, 0.5]),
        "nonnegative": lambda: kl([1.5, -0.5], [0.5, 0.5]),
        "at least one draw": lambda: histogram(torch.zeros(0, 1, dtype=torch.int64), Space((2,))),
        "from 0 to 1": lambda: histogram([[2]], Space((2,))),
    }.items():
        with pytest.raises(InputError, match=match):
            call()
