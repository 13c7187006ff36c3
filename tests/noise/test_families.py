"""Categorical, binarized Gaussian and evenly spread noise against their definitions."""

from math import exp, log, pi, sqrt

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from concrete_score.errors import InputError
from concrete_score.noise import SIGMAS, binarized_gaussian, categorical, flip_probability
from concrete_score.noise.families import log_snr
from concrete_score.spaces import Space
from tests.noise.helpers import chi_square_p

QUOTED = {0.1: 5.7e-7, 0.2: 0.0124, 0.25: 0.0455, 0.3: 0.0956, 0.4: 0.211, 0.5: 0.315, 0.65: 0.421}


def doubles(numbers):
    return torch.tensor(numbers, dtype=torch.float64)


@pytest.mark.parametrize(("sigma", "quoted"), QUOTED.items())
def test_the_seven_flip_probabilities(sigma, quoted):
    digits = 2 if sigma == 0.1 else 3
    assert float(f"{flip_probability(sigma):.{digits}g}") == quoted


@pytest.mark.parametrize("sigma", [0.05, *SIGMAS, 1.0, 2.0, 3.9, 5.0])
def test_flips_are_the_odd_rounds(sigma):
    odd = range(1, int(40 * sigma) + 3, 2)
    expected = sum(2 * (norm.cdf(-(k - 0.5) / sigma) - norm.cdf(-(k + 0.5) / sigma)) for k in odd)
    assert flip_probability(sigma) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("sigma", [*SIGMAS, 1.0, 3.99, 4.0, 100.0])
def test_flips_by_the_fourier_series_of_the_square_wave(sigma):
    """Rounding to a parity is a square wave, whose harmonics a Gaussian damps."""
    wave = sum((-1) ** j / (2 * j + 1) * exp(-(((2 * j + 1) * pi * sigma) ** 2) / 2) for j in range(60))
    assert flip_probability(sigma) == pytest.approx(0.5 - 2 / pi * wave, abs=1e-15)


def test_flips_by_simulation():
    """The noise as the paper draws it: add, round, take modulo 2."""
    n, generator = 400_000, torch.Generator().manual_seed(0)
    for sigma in SIGMAS[1:]:
        bit = torch.randint(2, (n,), generator=generator)
        moved = bit + sigma * torch.randn(n, generator=generator, dtype=torch.float64)
        rate, p = (moved.round().long() % 2 != bit).double().mean().item(), flip_probability(sigma)
        assert abs(rate - p) < 4 * sqrt(p * (1 - p) / n)


def test_corrupted_bits_flip_at_the_stated_rates():
    noise = binarized_gaussian(Space.bits(784))
    x = noise.space.uniform(300, torch.Generator().manual_seed(0))
    for level, sigma in enumerate(SIGMAS):
        flips = (noise.corrupt(x, level, torch.Generator().manual_seed(level)) != x).double().mean().item()
        p = flip_probability(sigma)
        assert abs(flips - p) < 4 * sqrt(p * (1 - p) / x.numel()) + 1 / x.numel()


def test_the_table_keeps_the_digits_of_rare_flips():
    table = binarized_gaussian(Space.bits(2)).site_log_prob(0, 1)
    assert table[0, 1].item() == pytest.approx(log(flip_probability(0.1)), rel=1e-15)
    assert table[0, 0].item() == pytest.approx(-flip_probability(0.1), rel=1e-6)


def test_flips_of_successive_levels_compose():
    noise = binarized_gaussian(Space.bits(3))
    for low in range(6):
        weak, strong = (flip_probability(SIGMAS[level]) for level in (low, low + 1))
        more = noise.step_log_prob(low, low + 1)[2].exp()
        assert more[0, 1].item() == pytest.approx((strong - weak) / (1 - 2 * weak), rel=1e-12)


def test_categorical_is_the_papers():
    noise = categorical(Space((91, 91)), (0.9, 0.7, 0.5, 0.3))
    same = torch.eye(91, dtype=torch.bool)
    for level, w in enumerate((0.9, 0.7, 0.5, 0.3)):
        expected = torch.where(same, doubles(w), doubles((1 - w) / 90))
        for site in range(2):
            torch.testing.assert_close(noise.site_log_prob(level, site).exp(), expected, rtol=1e-13, atol=0)


def test_categorical_on_mixed_sites_lets_single_values_stay():
    noise = categorical(Space((1, 2, 4)), [0.9, 0.4])
    assert noise.site_log_prob(1, 0).tolist() == [[0.0]]
    torch.testing.assert_close(noise.site_log_prob(1, 2).exp()[3], doubles([0.2, 0.2, 0.2, 0.4]))
    torch.testing.assert_close(noise.site_log_prob(0, 1).exp()[1], doubles([0.1, 0.9]))


def test_categorical_steps_have_the_closed_form():
    """All values alike: each level keeps a share ``λ = (V w - 1) / (V - 1)`` of what tells them apart."""
    sizes, weights = (5, 2), (0.9, 0.6)
    step = categorical(Space(sizes), weights).step_log_prob(0, 1)
    for d, v in enumerate(sizes):
        low, high = ((v * w - 1) / (v - 1) for w in weights)
        stay = (1 + (v - 1) * high / low) / v
        kernel = step[d, :v, :v].exp()
        torch.testing.assert_close(kernel.diagonal(), doubles([stay] * v), rtol=1e-12, atol=0)
        assert kernel[0, 1].item() == pytest.approx((1 - stay) / (v - 1), rel=1e-12)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.5, 0.9], r"weights\[1\]: expected weights that fall.*0.5 then 0.9"),
        ([0.5, 0.5], "weights that fall"),
        ([1.0], r"weights\[0\].*both excluded, got 1.0"),
        ([0.5, 0.0], r"weights\[1\].*both excluded"),
        ([float("nan")], "got nan"),
        ([], "at least one weight"),
        (1.0, "both excluded"),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(InputError, match=message):
        categorical(Space((3,)), weights)


@pytest.mark.parametrize(
    ("sizes", "sigmas", "message"),
    [
        ((2, 3), SIGMAS, r"sizes\[1\]: expected bits at every site, got size 3"),
        ((2,), (0.5, 0.2), r"sigmas\[1\].*weakest noise first.*0.5 then 0.2"),
        ((2,), (4.0, 5.0), "flips 0.5 then 0.5"),
        ((2,), (0.01, 0.2), r"sigmas\[0\]: expected a deviation at which bits flip"),
        ((2,), (0.0,), "a positive standard deviation"),
        ((2,), (float("nan"),), "a positive standard deviation"),
        ((2,), (), "at least one"),
    ],
)
def test_bad_sigmas(sizes, sigmas, message):
    with pytest.raises(InputError, match=message):
        binarized_gaussian(Space(sizes), sigmas)


@given(st.integers(2, 5), st.integers(2, 9))
def test_levels_are_even_in_log_snr_and_compose(size, count):
    space = Space((size, size))
    noise = log_snr(space, count, 4.0, -5.0)
    stay = torch.stack([noise.site_log_prob(level, 1)[0, 0] for level in range(count)]).exp()
    kept = (size * stay - 1) / (size - 1)  # λ
    ratio = (kept.square() / (1 - kept.square())).log()
    torch.testing.assert_close(ratio, torch.linspace(4.0, -5.0, count, dtype=torch.float64), rtol=0, atol=1e-8)
    for level in range(1, count):
        step = noise.step_log_prob(level - 1, level)[0].exp()
        torch.testing.assert_close(noise.table[level - 1, 0].exp() @ step, noise.table[level, 0].exp())


def test_flips_follow_the_schedule_in_simulation():
    space, n = Space.bits(5), 20_000
    noise = log_snr(space, 4)
    for level in range(4):
        noisy = noise.corrupt(torch.zeros(n, 5, dtype=torch.int64), level, torch.Generator().manual_seed(level))
        counts = torch.stack([(noisy == value).sum(0) for value in (0, 1)], -1)
        expected = noise.site_log_prob(level, 0).exp()[0].expand(5, -1)
        assert chi_square_p(counts, expected) > 1e-3


@pytest.mark.parametrize(
    ("space", "options", "message"),
    [
        (Space((2, 3)), {}, "sites of one size"),
        (Space((1,)), {}, "at least two values"),
        (Space((2,)), {"num_levels": 0}, "num_levels: expected a whole number"),
        (Space((2,)), {"weakest": -7.0}, "weakest: expected a weakest log-ratio above"),
    ],
)
def test_bad_schedules(space, options, message):
    with pytest.raises(InputError, match=message):
        log_snr(space, **options)


def test_a_schedule_says_what_the_papers_lacks():
    """The paper's strongest level keeps a sixth of a bit; the even one, a thirtieth."""
    paper, even = binarized_gaussian(Space((2,))), log_snr(Space((2,)))
    left = [1 - 2 * noise.site_log_prob(noise.num_levels - 1, 0).exp()[0, 1].item() for noise in (paper, even)]
    assert left[0] == pytest.approx(0.158, abs=1e-3)
    assert left[1] == pytest.approx(0.0302, abs=1e-3)
