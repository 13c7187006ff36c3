"""Absorbing noise, by enumeration: scores, posteriors, bridges, the bound, and draws of the ideal head."""

from itertools import permutations, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score import Space
from concrete_score.errors import InputError
from concrete_score.likelihood.any_order import AnyOrder
from concrete_score.likelihood.variational import variational
from concrete_score.models import mlp
from concrete_score.models.masked import IdealMasked
from concrete_score.neighborhoods import hamming
from concrete_score.noise import Absorbing, absorbing, categorical
from concrete_score.noise.factorized import bridge, reverse_log_probs
from concrete_score.objectives import build
from concrete_score.samplers.from_noise import from_noise
from concrete_score.samplers.unmasking import Unmasking

SPACES = [Space((2, 3)), Space((3, 1, 2)), Space.bits(3)]


def random_pmf(space, seed=0):
    weights = torch.rand(space.num_states, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.05
    return weights / weights.sum()


def network(noise, seed=0):
    random = torch.Generator().manual_seed(seed)
    return mlp(hamming(noise.space), noise=noise, hidden=8, generator=random, dtype=torch.float64)


@settings(max_examples=12, derandomize=True, deadline=None)
@given(space=st.sampled_from(SPACES), kept=st.floats(0.05, 0.95), seed=st.integers(0, 99))
def test_the_ideal_scores_are_the_ratios_of_the_noisy_distribution(space, kept, seed):
    pmf, noise = random_pmf(space, seed), Absorbing(space, (kept, 0.0))
    noisy, edges = noise.noisy_pmf(pmf, 0), noise.neighborhood
    x = noise.noisy_space.enumerate()
    assert torch.isclose(noisy.sum(), torch.tensor(1.0).double())
    wanted = noisy[noise.noisy_space.index(edges.neighbors(x))].log() - noisy.log()[:, None]
    found = IdealMasked.of(pmf, noise).scores_at(0).log_ratios(x)
    torch.testing.assert_close(found, torch.where(edges.valid(x), wanted, 0.0))


@pytest.mark.parametrize("space", SPACES)
def test_the_noise_knows_its_ratios_and_its_steps_compose(space):
    noise = Absorbing(space, (0.7, 0.4, 0.0))
    x, clean = noise.noisy_space.enumerate(), space.enumerate()
    pairs = x.repeat_interleave(len(clean), 0), clean.repeat(len(x), 1)
    log_q = noise.log_prob(*pairs, 0)
    torch.testing.assert_close(log_q.exp().reshape(len(x), -1).sum(0), torch.ones(len(clean)).double())
    there = log_q > -torch.inf
    noisy, clean = (side[there] for side in pairs)
    after = noise.log_prob(noise.neighborhood.neighbors(noisy), clean[:, None], 0)
    torch.testing.assert_close(noise.log_ratios(noisy, clean, 0), after - log_q[there][:, None])
    for site in range(space.num_sites):
        size = space.sizes[site] + 1
        step = noise.step_log_prob(0, 1)[site, :size, :size].exp()
        torch.testing.assert_close(noise.site_log_prob(0, site).exp() @ step, noise.site_log_prob(1, site).exp())


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("low", [None, 0])
def test_the_bridge_is_the_posterior_by_bayes_rule(space, low):
    noise = Absorbing(space, (0.7, 0.4, 0.0))
    way, width = bridge(noise, low, 1).double().exp(), max(space.sizes) + 1
    for site, size in enumerate(space.sizes):
        first = torch.eye(size, size + 1).double() if low is None else noise.site_log_prob(low, site).exp()
        step = noise.site_log_prob(1, site).exp() if low is None else noise.step_log_prob(low, 1)[site].exp()
        for clean in range(size):
            for high in range(width):
                if high not in (clean, size):
                    continue
                weight = first[clean, : size + 1] * (step[: size + 1, high] if low is not None else 1.0)
                if low is None:
                    weight = first[clean]
                torch.testing.assert_close(way[site, clean, high, : size + 1], weight / weight.sum())
    clean = torch.full((1, space.num_sites, max(space.sizes)), 1.0).double().log_softmax(-1)
    unknown = space.sizes_tensor()[None]
    known = reverse_log_probs(clean.expand(1, -1, -1), unknown, bridge(noise, 0, 1))
    assert known.shape[-1] == width


@settings(max_examples=8, derandomize=True, deadline=None)
@given(space=st.sampled_from(SPACES), seed=st.integers(0, 99))
def test_the_bound_lies_below_the_density_and_is_exact_for_the_ideal_head(space, seed):
    pmf, noise = random_pmf(space, seed), absorbing(space, 4)
    objective, ideal, model = build("clean_value", space, noise=noise), IdealMasked.of(pmf, noise), network(noise, seed)
    torch.testing.assert_close(AnyOrder(ideal).log_density(), pmf.log())
    torch.testing.assert_close(objective.exact(ideal, pmf), -(pmf * pmf.log()).sum())
    density = AnyOrder(model).log_density()
    assert torch.isclose(density.exp().sum(), torch.tensor(1.0).double())
    assert -objective.exact(model, pmf) <= (pmf * density).sum() + 1e-12


def test_the_density_is_the_mean_over_all_orders():
    space = Space((2, 3, 2))
    model, x = network(absorbing(space, 4)), torch.tensor([[1, 2, 0]])
    total, orders = 0.0, list(permutations(range(3)))
    for order in orders:
        hidden, log_p = torch.ones(1, 3, dtype=torch.bool), 0.0
        for site in order:
            log_p += model.clean_log_probs(model.noise.hide(x, hidden))[0, site, x[0, site]].item()
            hidden[0, site] = False
        total += torch.tensor(log_p).double().exp() / len(orders)
    found = AnyOrder(model).log_density()[space.index(x)].exp()
    torch.testing.assert_close(found, total.reshape(1).double(), rtol=1e-6, atol=0)


def test_estimates_of_the_bound_are_unbiased_also_with_blanks():
    space = Space((2, 3, 2))
    noise = absorbing(space, 4)
    model, objective, random = network(noise), build("clean_value", space, noise=noise), torch.Generator()
    p = torch.zeros(12).double()
    p[7] = 1.0
    rows = space.enumerate()[7].expand(4000, -1)
    drawn = AnyOrder(model).estimate(rows, random.manual_seed(0), 3)
    assert abs(drawn.mean() + objective.exact(model, p)) < 4 * drawn.std() / 4000**0.5
    losses = objective.loss(model, objective.draw(rows, random.manual_seed(1)))
    assert abs(losses.mean() - objective.exact(model, p)) < 4 * losses.std() / 4000**0.5
    seen = torch.tensor([True, False, False]).expand(4000, -1)  # one cell: its marginal, whatever the order
    unknown = noise.hide(rows[:1], torch.ones(1, 3, dtype=torch.bool))
    alone = model.clean_log_probs(unknown)[0, 0, rows[0, 0]]
    torch.testing.assert_close(AnyOrder(model).estimate(rows, random, 2, observed=seen), alone.expand(4000))
    torch.testing.assert_close(
        objective.loss(model, objective.draw_observed(rows, seen, random, None)), -alone.expand(4000)
    )
    found = variational(model, rows[:64], random.manual_seed(2), draws=16)
    assert abs(found.lower + objective.exact(model, p).item()) < 5 * found.bound_stderr


def test_a_power_weighs_sets_of_hidden_sites_and_never_a_validation():
    space = Space((2, 3, 2))
    noise, pmf = absorbing(space, 4), random_pmf(space)
    model, half = network(noise), build("clean_value", space, noise=noise, power=0.5)
    by_count = torch.zeros(3).double()  # the log-loss a hidden site, by how many are hidden
    for hidden in product([False, True], repeat=3):
        if any(hidden):
            noisy = noise.hide(space.enumerate(), torch.tensor(hidden).expand(12, -1))
            own = model.clean_log_probs(noisy).gather(-1, space.enumerate()[..., None]).squeeze(-1)
            count = sum(hidden)
            by_count[count - 1] -= (pmf * own[:, torch.tensor(hidden)].sum(-1)).sum() / (count * (1, 3, 3, 1)[count])
    m = torch.tensor([1.0, 2.0, 3.0]).double()
    torch.testing.assert_close(half.exact(model, pmf), ((3 / m) ** 0.5 * m * by_count).mean())
    assert half.judged == build("clean_value", space, noise=noise)
    torch.testing.assert_close(half.judged.exact(model, pmf), 3 * by_count.mean())
    ideal = IdealMasked.of(pmf, noise)
    assert half.exact(ideal, pmf) < half.exact(model, pmf)
    with pytest.raises(InputError, match="from 0 to 1"):
        build("clean_value", space, noise=noise, power=2.0)
    with pytest.raises(InputError, match="absorbing"):
        build("clean_value", space, noise=categorical(space, (0.9, 0.5)), power=0.5)


def test_the_bound_given_some_sites_is_that_of_the_others():
    space = Space((2, 3, 2))
    pmf = random_pmf(space)
    ideal, x = IdealMasked.of(pmf, absorbing(space, 4)), torch.tensor([1, 2, 0])
    given_first = torch.tensor([True, False, False]).expand(3000, -1)
    drawn = AnyOrder(ideal).estimate(x.expand(3000, -1), torch.Generator().manual_seed(0), 2, given=given_first)
    exact = (pmf[space.index(x)] / pmf.reshape(space.sizes)[1].sum()).log()
    assert abs(drawn.mean() - exact) < 4 * drawn.std() / 3000**0.5


def test_the_mean_over_whole_orders_is_unbiased_for_the_density_and_closer_the_more_orders():
    space = Space((2, 3, 2))
    model = network(absorbing(space, 4))
    with torch.no_grad():
        for weight in model.parameters():
            weight *= 3  # orders that say clearly different things
    chain, x, random = AnyOrder(model), torch.tensor([1, 2, 0]), torch.Generator().manual_seed(0)
    exact = chain.log_density()[space.index(x)]
    rows = x.expand(3000, -1)
    once, often = (chain.over_orders(rows, random, orders) for orders in (1, 8))
    for drawn in (once, often):
        assert abs(drawn.exp().mean() - exact.exp()) < 4 * drawn.exp().std() / 3000**0.5
        assert drawn.mean() < exact + 4 * drawn.std() / 3000**0.5
    plain = chain.estimate(rows, random, 3)
    assert abs(once.mean() - plain.mean()) < 4 * (once.var() + plain.var()).sqrt() / 3000**0.5
    assert once.mean() + 4 * once.std() / 3000**0.5 < often.mean()
    blank = torch.tensor([True, False, True]).expand(3000, -1)  # two cells, two orders
    hidden = torch.tensor([[True, True, True], [False, True, True], [True, True, False]])
    probs = model.clean_log_probs(model.noise.hide(x.expand(3, -1), hidden)).exp()
    both = (probs[0, 0, 1] * probs[1, 2, 0] + probs[0, 2, 0] * probs[2, 0, 1]) / 2
    drawn = chain.over_orders(rows, random, 2, observed=blank).exp()
    assert abs(drawn.mean() - both) < 4 * drawn.std() / 3000**0.5


def test_passes_that_do_not_divide_the_sites_draw_what_the_bound_is_of():
    space, n = Space((2, 3, 2)), 40_000
    model = network(absorbing(space, 4), 1)
    with torch.no_grad():
        for weight in model.parameters():
            weight *= 3
    x = space.enumerate()

    def block(hidden, shown):
        """The log-probability of the values of the sites shown, of all that are hidden ``(S,)``."""
        log_probs = model.clean_log_probs(model.noise.hide(x, torch.tensor(hidden).expand(12, -1))).detach()
        return log_probs.gather(-1, x[..., None]).squeeze(-1)[:, torch.tensor(shown)].sum(-1)

    # One site first, then the other two at once.
    firsts = [[site == first for site in range(3)] for first in range(3)]
    law = sum((block([True] * 3, one) + block([not s for s in one], [not s for s in one])).exp() for one in firsts) / 3
    count = torch.bincount(space.index(Unmasking(model, 2).sample(n, torch.Generator().manual_seed(0))), minlength=12)
    z = (count / n - law) / (law * (1 - law) / n).sqrt()
    assert z.abs().max() < 4
    drawn = AnyOrder(model, 2).over_orders(x[5].expand(3000, -1), torch.Generator().manual_seed(0), 1).exp()
    assert abs(drawn.mean() - law[5]) < 4 * drawn.std() / 3000**0.5


@pytest.mark.parametrize("clamped", [None, 1])
def test_one_site_a_pass_draws_the_ideal_distribution(clamped):
    space, n = Space((2, 3, 2)), 20_000
    pmf = random_pmf(space)
    method = from_noise(IdealMasked.of(pmf, absorbing(space, 4)))
    assert method.sampler.notes == ()
    x, known = torch.zeros(1, 3, dtype=torch.int64), torch.zeros(1, 3, dtype=torch.bool)
    if clamped is not None:
        x[0, clamped], known[0, clamped] = 2, True
    states = torch.cat([piece.states[:, 0] for piece in method.draw(x, known, n, torch.Generator().manual_seed(0))])
    count = torch.bincount(space.index(states), minlength=12).double()
    wanted = torch.where((space.enumerate()[:, 1] == 2) | (clamped is None), pmf, 0.0)
    wanted = wanted / wanted.sum()
    z = (count / n - wanted) / (wanted * (1 - wanted) / n).sqrt().clamp_min(1e-9)
    assert z.abs().max() < 4


def test_fewer_passes_are_exact_where_sites_are_independent_and_say_so_where_not():
    space, n = Space((2, 3)), 20_000
    site = [torch.tensor([0.3, 0.7]).double(), torch.tensor([0.2, 0.3, 0.5]).double()]
    ideal = IdealMasked.of((site[0][:, None] * site[1]).flatten(), absorbing(space, 4))
    for name in ("one_site", "ancestral", "confidence", "corrected"):
        sampler = from_noise(ideal, name, passes=1).sampler
        assert bool(sampler.notes)
        drawn = sampler.sample(n, torch.Generator().manual_seed(3))
        count = torch.bincount(space.index(drawn), minlength=6).double() / n
        wanted = (site[0][:, None] * site[1]).flatten()
        assert ((count - wanted) / (wanted * (1 - wanted) / n).sqrt()).abs().max() < 4
    dependent = IdealMasked.of(torch.tensor([0.5, 0.0, 0.0, 0.5]), absorbing(Space.bits(2), 4))
    apart = Unmasking(dependent, passes=1).sample(2000, torch.Generator().manual_seed(0))
    assert 0.4 < float((apart[:, 0] != apart[:, 1]).double().mean()) < 0.6
    mended = Unmasking(dependent, passes=20, again=0.5).sample(2000, torch.Generator().manual_seed(0))
    assert float((mended[:, 0] != mended[:, 1]).double().mean()) < 0.2


def test_ratios_of_clean_states_are_those_of_the_conditionals():
    space = Space((2, 3, 2))
    pmf = random_pmf(space)
    ideal, x, edges = IdealMasked.of(pmf, absorbing(space, 4)), space.enumerate(), hamming(space)
    wanted = pmf[space.index(edges.neighbors(x))].log() - pmf.log()[:, None]
    torch.testing.assert_close(ideal.log_ratios(x), wanted)


def test_what_cannot_be_is_refused():
    for kept in [(), (1.0,), (0.5, 0.6), (0.0, 0.0)]:
        with pytest.raises(InputError):
            Absorbing(Space.bits(2), kept)
    with pytest.raises(InputError, match="hidden sites"):
        build("clean_value", Space.bits(2), noise=absorbing(Space.bits(2))).check(object())
