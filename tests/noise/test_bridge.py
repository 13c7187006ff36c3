"""The way back between levels against Bayes' rule over the whole space, and the evenly spread schedule."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.noise import FactorizedNoise, binarized_gaussian
from concrete_score.noise.bridge import bridge, reverse_log_probs
from concrete_score.noise.log_snr import log_snr
from concrete_score.spaces import Space
from tests.noise.helpers import chi_square_p, mixtures
from tests.strategies import generators, spaces


@given(spaces(), generators())
def test_the_bridge_is_the_posterior_of_the_weaker_level(space, g):
    noise = mixtures(space, g, one_target=True)
    way = bridge(noise, 0, 2).exp()
    for d, size in enumerate(space.sizes):
        weak = noise.site_log_prob(0, d).exp()
        step = noise.step_log_prob(0, 2)[d, :size, :size].exp()
        joint = weak[:, None, :] * step.T[None]  # [clean, high, low]
        expected = joint / joint.sum(-1, keepdim=True)
        torch.testing.assert_close(way[d, :size, :size, :size], expected, rtol=1e-9, atol=1e-12)
        assert (way[d, size:] == 0).all()
        assert (way[d, :, :, size:] == 0).all()


@given(st.integers(2, 4), generators())
def test_one_site_walks_back_exactly(size, g):
    """With the true posterior of the clean value, the reverse step takes the noisy distribution to the weaker one."""
    space = Space((size,))
    noise = mixtures(space, g, one_target=True)
    pmf = torch.randn(size, generator=g, dtype=torch.float64).softmax(0)
    joint = pmf[:, None] * noise.site_log_prob(2, 0).exp()
    posterior = (joint / joint.sum(0)).T.log()[:, None]  # [noisy, site, clean]
    for low, expected in ((0, noise.noisy_pmf(pmf, 0)), (1, noise.noisy_pmf(pmf, 1)), (None, pmf)):
        back = reverse_log_probs(posterior, space.enumerate(), bridge(noise, low, 2)).exp()[:, 0]
        torch.testing.assert_close(noise.noisy_pmf(pmf, 2) @ back, expected, rtol=1e-9, atol=1e-12)


def test_alike_sites_share_memory():
    way = bridge(binarized_gaussian(Space.bits(784)), 2, 5)
    assert way.shape == (784, 2, 2, 2)
    assert way.untyped_storage().nbytes() == 8 * 8


def test_levels_that_do_not_compose_have_no_bridge():
    noise = FactorizedNoise(Space((3,)), _three_values())
    with pytest.raises(InputError, match="levels that compose"):
        bridge(noise, 0, 1)


def _three_values():
    weak = torch.tensor([[0.6, 0.3, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6]], dtype=torch.float64)
    strong = torch.tensor([[0.5, 0.1, 0.4], [0.4, 0.5, 0.1], [0.1, 0.4, 0.5]], dtype=torch.float64)
    return torch.stack([weak, strong]).log()[:, None]


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
