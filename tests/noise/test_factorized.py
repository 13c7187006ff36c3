"""Noise by sites and its way back between levels: their laws against brute force over the whole space."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score import protocols
from concrete_score.errors import InputError
from concrete_score.neighborhoods import grid, hamming, moore
from concrete_score.noise import FactorizedNoise, binarized_gaussian, categorical, tables
from concrete_score.noise.factorized import bridge, reverse_log_probs
from concrete_score.spaces import Space
from tests.noise.helpers import chi_square_p, mixtures, noises, noises_with_pmfs, whole_kernel
from tests.strategies import generators, neighborhoods, pmfs, spaces

MIXED = Space((3, 1, 2, 4))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_it_is_a_noise():
    assert isinstance(mixtures(MIXED, seeded()), protocols.Noise)


@given(noises_with_pmfs())
def test_log_prob_is_the_product_of_the_sites_and_sums_to_one(pair):
    noise, _ = pair
    x = noise.space.enumerate()
    for level in range(noise.num_levels):
        found = noise.log_prob(x[None, :], x[:, None], level).exp()
        torch.testing.assert_close(found, whole_kernel(noise, level), rtol=1e-12, atol=0)
        torch.testing.assert_close(found.sum(-1), torch.ones(len(x)).double(), rtol=1e-12, atol=0)


@given(neighborhoods().flatmap(lambda n: st.tuples(st.just(n), noises(n.space))))
def test_log_ratios_are_differences_of_log_prob(pair):
    neighborhood, noise = pair
    x = noise.space.enumerate()
    neighbor = noise.space.index(neighborhood.neighbors(x))  # (S, K)
    for level in range(noise.num_levels):
        log_q = whole_kernel(noise, level).log().T  # [noisy, clean]
        expected = log_q[neighbor].transpose(1, 2) - log_q[..., None]  # (noisy, clean, K)
        expected = expected.masked_fill(~neighborhood.valid(x)[:, None], 0.0)
        found = noise.log_ratios(x[:, None], x[None, :], level, neighborhood)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("make", [hamming, grid, moore])
def test_log_ratios_take_one_level_per_row_and_narrow_states(make):
    noise, neighborhood = mixtures(MIXED, seeded()), make(MIXED)
    noisy, clean, level = MIXED.uniform(20, seeded(1)), MIXED.uniform(20, seeded(2)), torch.arange(20) % 3
    found = noise.log_ratios(noisy.to(torch.uint8), clean.to(torch.uint8), level, neighborhood)
    rows = [noise.log_ratios(noisy[i], clean[i], int(level[i]), neighborhood) for i in range(20)]
    assert torch.equal(found, torch.stack(rows))


@given(noises_with_pmfs())
def test_noisy_pmf_is_the_mixture_of_the_kernels(pair):
    noise, pmf = pair
    for level in range(noise.num_levels):
        expected = pmf @ whole_kernel(noise, level)
        torch.testing.assert_close(noise.noisy_pmf(pmf, level), expected, rtol=1e-12, atol=0)


@given(st.data())
def test_property_1_the_noisy_score_is_the_posterior_mean_of_the_noise_scores(data):
    """``c_p̃(x̃) = Σ_x q(x | x̃) c_q(x̃ | x)`` (paper A.2)."""
    neighborhood = data.draw(neighborhoods())
    noise = data.draw(noises(neighborhood.space))
    pmf = data.draw(pmfs(noise.space))
    x, level = noise.space.enumerate(), 1
    joint = pmf[:, None] * whole_kernel(noise, level)  # [clean, noisy]
    posterior = (joint / joint.sum(0)).T
    scores = noise.log_ratios(x[:, None], x[None, :], level, neighborhood).expm1()
    log_noisy = noise.noisy_pmf(pmf, level).log()
    neighbor = noise.space.index(neighborhood.neighbors(x))
    expected = (log_noisy[neighbor] - log_noisy[:, None]).expm1()
    torch.testing.assert_close((posterior[..., None] * scores).sum(1), expected, rtol=1e-12, atol=1e-12)


def test_corrupt_draws_each_site_from_its_row():
    noise, n = mixtures(MIXED, seeded()), 30_000
    clean, level = MIXED.uniform(n, seeded(1)), torch.arange(n) % 3
    noisy = noise.corrupt(clean, level, seeded(2))
    assert torch.equal(MIXED.check(noisy), noisy)
    for d, size in enumerate(MIXED.sizes):
        cell = (level * size + clean[:, d]) * size + noisy[:, d]
        counts = cell.bincount(minlength=3 * size * size).reshape(3, size, size)
        rows = torch.stack([noise.site_log_prob(k, d).exp() for k in range(3)])
        assert chi_square_p(counts, rows) > 1e-3


def test_corrupt_draws_the_sites_independently():
    noise, n = mixtures(MIXED, seeded()), 40_000
    start = torch.tensor([2, 0, 1, 3])
    noisy = noise.corrupt(start.expand(n, -1), 2, seeded(4))
    counts = MIXED.index(noisy).bincount(minlength=MIXED.num_states)
    assert chi_square_p(counts, whole_kernel(noise, 2)[MIXED.index(start)]) > 1e-3


def test_rounding_never_draws_a_value_beyond_the_site(monkeypatch):
    """Rows that sum to slightly less than one, and the largest number a generator draws."""
    noise = FactorizedNoise(MIXED, categorical(MIXED, [0.5]).table - 5e-10)
    monkeypatch.setattr(torch, "rand", lambda shape, **_: torch.full(shape, 1 - 2**-53, dtype=torch.float64))
    noisy = noise.corrupt(torch.zeros(1, 4, dtype=torch.int64), 0, seeded())
    assert noisy.tolist() == [[2, 0, 1, 3]]


def test_the_chi_square_test_notices_another_level():
    noise, n = mixtures(MIXED, seeded()), 40_000
    start = torch.tensor([2, 0, 1, 3])
    counts = MIXED.index(noise.corrupt(start.expand(n, -1), 1, seeded(4))).bincount(minlength=MIXED.num_states)
    assert chi_square_p(counts, whole_kernel(noise, 2)[MIXED.index(start)]) < 1e-12


def test_levels_broadcast_over_leading_axes():
    noise = mixtures(MIXED, seeded())
    x = MIXED.uniform(6, seeded(1)).reshape(2, 3, -1)
    level = torch.tensor([[0], [2]])
    assert noise.corrupt(x, level, seeded()).shape == (2, 3, 4)
    assert noise.corrupt(x[0, 0], torch.tensor([0, 1, 2]), seeded()).shape == (3, 4)
    by_row = torch.stack([noise.log_prob(x[i], x.flip(0)[i], k) for i, k in enumerate((0, 2))])
    assert torch.equal(noise.log_prob(x, x.flip(0), level), by_row)
    rows = torch.stack([noise.log_ratios(x[0, 0], x[1, 1], k, grid(MIXED)) for k in range(3)])
    assert torch.equal(noise.log_ratios(x[0, 0], x[1, 1], torch.arange(3), grid(MIXED)), rows)
    rows = torch.stack([noise.log_prob(x[0, 0], x[1, 1], k) for k in range(3)])
    assert torch.equal(noise.log_prob(x[0, 0], x[1, 1], torch.arange(3)), rows)
    assert noise.corrupt(x[:0], 1, seeded()).shape == (0, 3, 4)


@pytest.mark.parametrize("neighborhood", [hamming(MIXED), moore(MIXED)])
def test_chunks_change_nothing(monkeypatch, neighborhood):
    noise, x, level = mixtures(MIXED, seeded()), MIXED.uniform(17, seeded(1)), torch.arange(17) % 3
    whole = noise.corrupt(x, level, seeded(2))
    ratios = noise.log_ratios(x, whole, level, neighborhood)
    monkeypatch.setattr(tables, "CHUNK", 40)
    assert torch.equal(noise.corrupt(x, level, seeded(2)), whole)
    assert torch.equal(noise.log_ratios(x, whole, level, neighborhood), ratios)


def test_equal_sites_are_stored_once_whichever_way_they_came():
    noise = binarized_gaussian(Space.bits(784))
    assert noise.table.shape == (7, 784, 2, 2)
    assert noise.table.untyped_storage().nbytes() == 7 * 2 * 2 * 8
    again = FactorizedNoise(noise.space, noise.table.contiguous())
    assert again.table.untyped_storage().nbytes() == 7 * 2 * 2 * 8
    x = noise.space.uniform(5, seeded())
    assert torch.equal(noise.corrupt(x, 6, seeded(1)), again.corrupt(x, 6, seeded(1)))


def test_a_noise_keeps_its_table_when_the_callers_changes():
    table = categorical(Space((3,)), [0.5]).table.clone()
    noise = FactorizedNoise(Space((3,)), table)
    table.zero_()
    torch.testing.assert_close(noise.table.exp().sum(-1), torch.ones(1, 1, 3).double())


@pytest.mark.parametrize("space", [MIXED, Space((4, 4)), Space((1,))])
def test_a_step_leads_from_a_level_to_a_stronger_one(space):
    noise = mixtures(space, seeded(), one_target=True)
    for low, high in [(0, 1), (1, 2), (0, 2)]:
        step = noise.step_log_prob(low, high)
        for d, size in enumerate(space.sizes):
            kernel = step[d, :size, :size].exp()
            composed = noise.site_log_prob(low, d).exp() @ kernel
            torch.testing.assert_close(composed, noise.site_log_prob(high, d).exp(), rtol=1e-13, atol=1e-14)
            torch.testing.assert_close(kernel.sum(-1), torch.ones(size).double(), rtol=1e-13, atol=0)
            assert (step[d, size:] == -torch.inf).all()
            assert (step[d, :, size:] == -torch.inf).all()


def test_steps_follow_one_another():
    noise = mixtures(Space((4, 4)), seeded(), one_target=True)
    first, second = noise.step_log_prob(0, 1).exp(), noise.step_log_prob(1, 2).exp()
    torch.testing.assert_close(first @ second, noise.step_log_prob(0, 2).exp(), rtol=1e-12, atol=1e-14)


def test_levels_that_do_not_compose_are_refused():
    past_uniform = categorical(Space((2, 3)), [0.6, 0.3])  # a bit that is likelier flipped than kept
    with pytest.raises(InputError, match=r"levels 0 and 1.*none that does at site 0"):
        past_uniform.step_log_prob(0, 1)
    uniform = categorical(Space((2, 2)), [0.5, 0.4])  # nothing is left to tell the values apart
    with pytest.raises(InputError, match="levels that compose"):
        uniform.step_log_prob(0, 1)
    with pytest.raises(InputError, match="a weaker level, then a stronger one"):
        past_uniform.step_log_prob(1, 0)


def log_table(*rows):
    return torch.tensor(rows, dtype=torch.float64).log()[None, None]


@pytest.mark.parametrize(
    ("space", "table", "message"),
    [
        (Space((2,)), log_table([0.5, 0.5], [0.5, 0.4]), r"table\[0, 0, 1\]: expected a row that sums to one, got 0.9"),
        (Space((2,)), log_table([1.0, 0.0], [0.5, 0.5]), r"table\[0, 0, 0, 1\].*positive.*mix in a little uniform"),
        (Space((2,)), log_table([0.5, 0.5], [0.5, float("nan")]), r"table\[0, 0, 1, 1\].*positive"),
        (Space((2,)), torch.cat([log_table([0.6, 0.4], [0.4, 0.6]), log_table([0.7, 0.3], [0.3, 0.7])]), "weakest"),
        (Space((2, 1)), log_table([0.5, 0.5], [0.5, 0.5]).expand(1, 2, 2, 2), r"table\[0, 1, 0, 1\].*padding"),
        (Space((3,)), log_table([0.5, 0.5], [0.5, 0.5]), r"shape \(levels, 1, 3, 3\)"),
        (Space((2,)), torch.zeros(0, 1, 2, 2), "log-probabilities of shape"),
        (Space((2,)), torch.zeros(1, 1, 2, 2, dtype=torch.int64), "int64"),
    ],
)
def test_tables_that_are_no_noise_are_refused(space, table, message):
    with pytest.raises(InputError, match=message):
        FactorizedNoise(space, table)


def test_misuse_is_refused():
    noise, x = categorical(MIXED, [0.9, 0.5]), torch.zeros(3, 4, dtype=torch.int64)
    for level in (-1, 2, torch.tensor([0, 1, 5]), torch.tensor(0.5)):
        with pytest.raises(InputError, match="integer levels from 0 to 1"):
            noise.corrupt(x, level, seeded())
    with pytest.raises(InputError, match="broadcast"):
        noise.corrupt(x, torch.tensor([0, 1]), seeded())
    with pytest.raises(InputError, match="a value from 0 to 0 at site 1"):
        noise.corrupt(x + 1, 0, seeded())
    with pytest.raises(InputError, match="same space"):
        noise.log_ratios(x, x, 0, hamming(Space((3, 2, 2, 4))))
    with pytest.raises(InputError, match=r"pmf: expected shape \(24,\)"):
        noise.noisy_pmf(torch.ones(23).double(), 0)
    with pytest.raises(InputError, match="to enumerate"):
        binarized_gaussian(Space.bits(784)).noisy_pmf(torch.ones(2).double(), 0)


def test_noisy_and_clean_states_broadcast_in_log_ratios():
    space = Space((2, 3))
    noise, states = categorical(space, (0.8, 0.5)), space.enumerate()
    level = torch.tensor([0, 1, 0, 1, 0, 1])
    for n in (hamming(space), moore(space)):
        ratios = noise.log_ratios(states[:, None], states, level, n)
        for i, noisy in enumerate(states):
            one = noise.log_ratios(noisy.expand(6, -1), states, level, n)
            torch.testing.assert_close(ratios[i], one)


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
