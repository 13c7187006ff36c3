"""Triangular noise against its definition, autograd and exact quadrature."""

from itertools import product
from math import sqrt

import pytest
import torch
from hypothesis import given
from scipy.stats import kstest, triang

from concrete_score.errors import InputError
from concrete_score.noise import Triangular, tables
from concrete_score.spaces import Space
from tests.noise.helpers import chi_square_p
from tests.strategies import pmfs, spaces

SPACES = [Space((6,)), Space((3, 4)), Space((2, 3, 3)), Space((1, 3))]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def doubles(numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def random_pmf(space, seed=0):
    return torch.randn(space.num_states, generator=seeded(seed), dtype=torch.float64).softmax(0)


def spread(space, pmf, shift=0.0):
    return Triangular(space, lambda x: pmf.log()[space.index(x)] + shift, normalized=shift == 0.0)


def random_points(space, n, seed=1):
    """Uniform over the support ``Π [-1, V_d]``."""
    unit = torch.rand((n, space.num_sites), generator=seeded(seed), dtype=torch.float64)
    return unit * (space.sizes_tensor() + 1) - 1


def by_hats(space, pmf, points):
    """``Σ_x p(x) Π_d max(0, 1 - |x̃_d - x_d|)``, over all states."""
    hats = (1 - (points[..., None, :] - space.enumerate()).abs()).relu()
    return (pmf * hats.prod(-1)).sum(-1)


@pytest.mark.parametrize("space", SPACES)
def test_the_density_is_the_sum_of_hats(space):
    pmf = random_pmf(space)
    points = 3 * random_points(space, 400) - 1  # inside and far outside
    torch.testing.assert_close(
        spread(space, pmf).log_density(points).exp(), by_hats(space, pmf, points), rtol=1e-12, atol=0
    )


@given(spaces().flatmap(lambda space: pmfs(space).map(lambda pmf: (space, pmf))))
def test_the_density_equals_the_pmf_on_states_and_integrates_to_one(pair):
    """Two Gauss-Legendre nodes a cell and site are exact for a multilinear function."""
    space, pmf = pair
    noise = spread(space, pmf)
    torch.testing.assert_close(noise.log_density(space.enumerate().double()).exp(), pmf, rtol=1e-12, atol=0)
    nodes = [[c + 0.5 + s / sqrt(12) for c in range(-1, size) for s in (-1, 1)] for size in space.sizes]
    points = torch.tensor(list(product(*nodes)), dtype=torch.float64)
    total = noise.log_density(points).exp().sum() / 2**space.num_sites
    assert total.item() == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("space", SPACES)
def test_the_corner_sum_is_the_gradient(space):
    pmf = random_pmf(space)
    pmf[-1] = 0.0  # an impossible state is a corner like one beyond the space
    noise = spread(space, pmf / pmf.sum())
    points = random_points(space, 300)
    points = points[noise.log_density(points) > -torch.inf].requires_grad_()
    for log_density in (noise.log_density, lambda points: by_hats(space, pmf, points).log()):
        (gradient,) = torch.autograd.grad(log_density(points).sum(), points)
        torch.testing.assert_close(noise.stein_score(points.detach()), gradient, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("space", SPACES)
def test_the_score_at_a_state_is_the_slope_to_its_right(space):
    """At a state the forward difference is the Concrete score of ``x + e_d``; beyond the last value it is -1."""
    pmf = random_pmf(space)
    x, noise = space.enumerate(), spread(space, pmf)
    score = noise.stein_score(x.double())
    for d, size in enumerate(space.sizes):
        step = torch.zeros(space.num_sites, dtype=torch.int64)
        step[d] = 1
        last = x[:, d] == size - 1
        ahead = torch.where(last, 0.0, pmf[space.index(torch.where(last[:, None], x, x + step))])
        torch.testing.assert_close(score[:, d], ahead / pmf - 1, rtol=1e-12, atol=1e-12)


def test_per_coordinate_agrees_on_one_site():
    noise = spread(Space((6,)), random_pmf(Space((6,))))
    points = random_points(noise.space, 200)
    torch.testing.assert_close(noise.per_coordinate_score(points), noise.stein_score(points), rtol=1e-11, atol=1e-12)


def test_per_coordinate_agrees_on_product_pmfs():
    one, two, three = (random_pmf(Space((size,)), size) for size in (2, 3, 4))
    noise = spread(Space((2, 3, 4)), (one[:, None, None] * two[:, None] * three).reshape(-1))
    points = random_points(noise.space, 500)
    torch.testing.assert_close(noise.per_coordinate_score(points), noise.stein_score(points), rtol=1e-10, atol=1e-12)


def test_per_coordinate_fails_on_a_dependent_pmf():
    """Two bits that tend to agree: along the upper edge of the cell the slope even has the other sign."""
    noise = spread(Space((2, 2)), doubles([0.4, 0.1, 0.1, 0.4]))
    point = doubles([0.5, 0.9])
    exact = (0.9 * 0.3 - 0.1 * 0.3) / (0.5 * (0.1 * 0.5 + 0.9 * 0.5))
    assert noise.stein_score(point)[0].item() == pytest.approx(exact, rel=1e-12)
    assert noise.per_coordinate_score(point)[0].item() == pytest.approx(-0.3 / 0.25, rel=1e-12)


@pytest.mark.parametrize("space", SPACES)
def test_the_posterior_is_bayes_over_the_cell(space):
    pmf, points = random_pmf(space), random_points(space, 50)
    states, log_prob = spread(space, pmf).posterior(points)
    assert states.shape == (50, 2**space.num_sites, space.num_sites)
    torch.testing.assert_close(log_prob.logsumexp(-1), torch.zeros(50).double(), rtol=0, atol=1e-12)
    hats = (1 - (points[:, None] - states).abs()).relu().prod(-1)
    known = ((states >= 0) & (states < space.sizes_tensor())).all(-1)
    prior = torch.where(known, pmf[space.index(states.clamp(min=0).minimum(space.sizes_tensor() - 1))], 0.0)
    expected = prior * hats / by_hats(space, pmf, points)[:, None]
    torch.testing.assert_close(log_prob.exp(), expected, rtol=1e-11, atol=1e-300)


def test_corrupt_adds_independent_triangular_noise():
    space, n = Space((3, 4)), 20_000
    x = space.uniform(n, seeded())
    added = spread(space, random_pmf(space)).corrupt(x, seeded(1)) - x
    for d in range(2):
        assert kstest(added[:, d].numpy(), triang(0.5, loc=-1, scale=2).cdf).pvalue > 1e-3
    correlation = torch.corrcoef(added.T)[0, 1].item()
    assert abs(correlation) < 4 / sqrt(n)


def test_denoise_draws_from_the_posterior():
    space, n = Space((3, 4)), 20_000
    noise, point = spread(space, random_pmf(space)), doubles([0.3, 1.8])
    states, log_prob = noise.posterior(point)
    drawn = noise.denoise(point.expand(n, -1), seeded(2))
    counts = (drawn[:, None] == states).all(-1).sum(0)
    assert counts.sum() == n
    assert chi_square_p(counts, log_prob.exp()) > 1e-3


@pytest.mark.parametrize("space", SPACES)
def test_corrupt_then_denoise_gives_the_pmf_back(space):
    pmf, n = random_pmf(space), 30_000
    x = space.state(torch.multinomial(pmf, n, replacement=True, generator=seeded(3)))
    noise = spread(space, pmf)
    again = noise.denoise(noise.corrupt(x, seeded(4)), seeded(5))
    assert torch.equal(space.check(again), again)
    assert space.num_states == 1 or not torch.equal(again, x)
    assert chi_square_p(space.index(again).bincount(minlength=space.num_states), pmf) > 1e-3


def test_denoising_under_the_wrong_pmf_is_noticed():
    space, n = Space((6,)), 30_000
    pmf = random_pmf(space)
    x = space.state(torch.multinomial(pmf, n, replacement=True, generator=seeded(3)))
    noise = spread(space, doubles([1 / 6] * 6))
    again = noise.denoise(noise.corrupt(x, seeded(4)), seeded(5))
    assert chi_square_p(again[:, 0].bincount(minlength=6), pmf) < 1e-12


def test_an_unnormalized_density_shifts_the_log_density_alone():
    space = Space((3, 4))
    pmf, points = random_pmf(space), random_points(Space((3, 4)), 100)
    plain, shifted = spread(space, pmf), spread(space, pmf, shift=700.0)
    assert plain.normalized
    assert not shifted.normalized
    torch.testing.assert_close(shifted.log_density(points), plain.log_density(points) + 700, rtol=1e-13, atol=0)
    torch.testing.assert_close(shifted.stein_score(points), plain.stein_score(points), rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(shifted.posterior(points).log_prob, plain.posterior(points).log_prob, atol=1e-11, rtol=0)


def test_extreme_ratios_stay_finite_inside_a_cell():
    """``log p`` 2,000 nats apart: only log space survives."""
    noise = Triangular(Space((2,)), lambda x: -2000.0 * x[..., 0].double())
    found = noise.stein_score(doubles([[0.25], [1.5]]))
    torch.testing.assert_close(found, doubles([[-1 / 0.75], [-2.0]]), rtol=1e-12, atol=0)


def test_it_takes_a_density_model():
    class Coin:
        space, normalized = Space((2,)), True

        def log_density(self, x):
            return doubles([0.25, 0.75]).log()[x[..., 0]]

    noise = Triangular.of(Coin())
    assert noise.normalized
    assert noise.log_density(doubles([0.5])).exp().item() == pytest.approx(0.5)


def test_chunks_change_nothing(monkeypatch):
    space = Space((2, 3, 3))
    noise, points = spread(space, random_pmf(space)), random_points(Space((2, 3, 3)), 60).reshape(3, 4, 5, 3)
    whole = [noise.log_density(points), noise.stein_score(points), noise.per_coordinate_score(points)]
    monkeypatch.setattr(tables, "CHUNK", 100)
    parts = [noise.log_density(points), noise.stein_score(points), noise.per_coordinate_score(points)]
    for a, b in zip(whole, parts, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)
    assert noise.denoise(points, seeded()).shape == points.shape


def test_outside_the_support():
    space = Space((2, 3))
    noise = spread(space, random_pmf(space))
    outside = doubles([[-1.0, 0.5], [2.0, 0.5], [0.5, -7.0], [torch.inf, 0.0], [0.0, -torch.inf]])
    assert (noise.log_density(outside) == -torch.inf).all()
    assert (noise.stein_score(outside) == 0).all()
    assert (noise.per_coordinate_score(outside) == 0).all()
    for method in (noise.posterior, lambda points: noise.denoise(points, seeded())):
        with pytest.raises(InputError, match=r"points\[1\]: expected a point inside the support, got \[2.0, 0.5\]"):
            method(torch.stack([torch.zeros(2).double(), outside[1]]))


def test_misuse_is_refused():
    noise = spread(Space((2, 3)), random_pmf(Space((2, 3))))
    with pytest.raises(InputError, match="at most 12 sites"):
        Triangular(Space.bits(13), lambda x: x[..., 0].double())
    with pytest.raises(InputError, match="points of 2 sites"):
        noise.log_density(torch.zeros(4, 3).double())
    with pytest.raises(InputError, match="NaN"):
        noise.stein_score(doubles([0.0, torch.nan]))
    with pytest.raises(InputError, match="a value from 0 to 1"):
        noise.corrupt(torch.tensor([2, 0]), seeded())
