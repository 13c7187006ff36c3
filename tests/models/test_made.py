"""MADE: normalized, autoregressive in its order, and its draws are its own."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from concrete_score.errors import InputError
from concrete_score.models import MADE
from concrete_score.models.layers import draw_categories
from concrete_score.protocols import DensityModel, Samplable
from concrete_score.spaces import Space
from tests.strategies import generators, spaces

seeds = st.none() | st.integers(0, 5)


def build(space, generator, order_seed=None, hidden=12, sharpness=3.0, blocks=2):
    """A MADE far from uniform: all its weights are enlarged."""
    model = MADE(space, hidden, blocks, order_seed=order_seed, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(sharpness)
    return model


@given(spaces(max_sites=5), generators(), seeds, st.sampled_from([1, 3, 12]), st.integers(0, 2))
def test_it_is_normalized_whatever_the_sites_the_order_and_the_width(space, generator, order_seed, hidden, blocks):
    model = build(space, generator, order_seed, hidden, blocks=blocks)
    assert isinstance(model, DensityModel)
    assert isinstance(model, Samplable)
    log_density = model.log_density(space.enumerate())
    assert abs(log_density.logsumexp(0).item()) < 1e-10


@given(spaces(max_sites=4), generators(), seeds)
def test_the_density_is_the_product_of_its_conditionals(space, generator, order_seed):
    model, states = build(space, generator, order_seed), space.enumerate()
    table = model.site_log_conditionals(states)
    torch.testing.assert_close(table.exp().sum(-1), torch.ones_like(table[..., 0]))
    for d, size in enumerate(space.sizes):
        assert (table[:, d, size:] == -torch.inf).all()
    product = table.gather(-1, states[..., None]).squeeze(-1).sum(-1)
    torch.testing.assert_close(product, model.log_density(states))
    deep = states.reshape(1, space.num_states, 1, -1)
    torch.testing.assert_close(model.log_density(deep).flatten(), product)
    torch.testing.assert_close(model.site_log_conditionals(deep).flatten(0, 2), table)


@given(spaces(max_sites=4), generators(), seeds)
def test_the_conditionals_are_those_of_the_density(space, generator, order_seed):
    model, states = build(space, generator, order_seed), space.enumerate()
    pmf, order = model.log_density(states).exp(), model.order.tolist()
    for place, d in enumerate(order):
        # Sum out what comes later; divide by the sum over the site itself.
        before = order[:place]
        key = Space(tuple(space.sizes[e] for e in before) or (1,))
        code = key.index(states[:, before]) if before else torch.zeros(len(states), dtype=torch.int64)
        joint = torch.zeros(key.num_states, space.sizes[d], dtype=torch.float64)
        joint.index_put_((code, states[:, d]), pmf, accumulate=True)
        brute = (joint / joint.sum(-1, keepdim=True))[code]
        torch.testing.assert_close(model.site_log_conditionals(states)[:, d, : space.sizes[d]].exp(), brute)


@given(spaces(min_sites=2, max_sites=4), generators(), seeds)
def test_a_site_sees_every_earlier_site_and_no_other(space, generator, order_seed):
    model, states = build(space, generator, order_seed), space.enumerate()
    place = model.order.argsort().tolist()
    table = model.site_log_conditionals(states)
    for e, size in enumerate(space.sizes):
        moved = states.clone()
        moved[:, e] = (moved[:, e] + 1) % size
        change = (model.site_log_conditionals(moved) - table).nan_to_num(0.0).abs().amax((0, 2))
        for d in range(space.num_sites):
            if place[e] >= place[d]:
                assert change[d] == 0.0
            elif size > 1 and space.sizes[d] > 1:
                assert change[d] > 1e-9


def test_an_order_seed_is_a_permutation_and_the_same_one_each_time():
    orders = [MADE(Space.bits(9), order_seed=seed, generator=torch.Generator()).order for seed in (1, 1, 2)]
    assert orders[0].sort().values.tolist() == list(range(9))
    assert torch.equal(orders[0], orders[1])
    assert not torch.equal(orders[0], orders[2])
    assert MADE(Space.bits(9), generator=torch.Generator()).order.tolist() == list(range(9))


def test_few_units_keep_the_last_site_in_sight_of_the_one_before():
    model = build(Space.bits(9), torch.Generator().manual_seed(0), hidden=2)
    zeros = torch.zeros(9, dtype=torch.int64)
    moved = zeros.clone()
    moved[7] = 1
    change = (model.site_log_conditionals(moved) - model.site_log_conditionals(zeros)).abs().amax(-1)
    assert change[8] > 1e-6
    assert (change[:8] == 0).all()


@given(spaces(max_sites=5), generators(), seeds, st.sampled_from([1, 3, 12]))
def test_draws_equal_those_of_one_full_pass_a_site(space, generator, order_seed, hidden):
    """The exact twin: the same uniforms, every conditional from a full pass."""
    model = build(space, generator, order_seed, hidden)
    fast = model.sample(64, torch.Generator().manual_seed(7))
    twin, uniforms = torch.zeros_like(fast), torch.Generator().manual_seed(7)
    for d in model.order.tolist():
        unit = torch.rand((64, 1), generator=uniforms, dtype=torch.float64)
        logits = model.site_log_conditionals(twin)[:, d].detach()
        twin[:, d] = draw_categories(logits, unit).squeeze(-1)
    assert torch.equal(fast, twin)


@pytest.mark.parametrize("order_seed", [None, 3])
def test_samples_follow_its_own_pmf(order_seed):
    space = Space((2, 3, 1, 2, 4))
    model = build(space, torch.Generator().manual_seed(5), order_seed, sharpness=2.0)
    pmf = model.log_density(space.enumerate()).exp().detach()
    drawn = model.sample(30_000, torch.Generator().manual_seed(6))
    assert chi_square(space, drawn, pmf) > 1e-3


def test_conditional_draws_follow_the_conditional_and_keep_what_is_observed():
    space = Space((3, 2, 4))
    model = build(space, torch.Generator().manual_seed(8), sharpness=2.0)
    states, n = space.enumerate(), 20_000
    observed = torch.tensor([True, True, False]).expand(n, -1)
    x = torch.tensor([2, 1, 99]).expand(n, -1)
    drawn = model.sample_given(x, observed, torch.Generator().manual_seed(9))
    assert (drawn[:, :2] == torch.tensor([2, 1])).all()
    agree = (states[:, :2] == torch.tensor([2, 1])).all(-1)
    pmf = torch.where(agree, model.log_density(states).detach().exp(), 0.0)
    assert chi_square(space, drawn, pmf / pmf.sum()) > 1e-3


def test_rows_may_differ_in_what_is_observed_and_all_or_nothing_is_fine():
    model = build(Space.bits(3), torch.Generator().manual_seed(1))
    x = torch.ones(3, 3, dtype=torch.int64)
    observed = torch.tensor([[True] * 3, [True, False, False], [False] * 3])
    drawn = model.sample_given(x, observed, torch.Generator().manual_seed(2))
    assert torch.equal(drawn[observed], x[observed])
    assert torch.equal(x, torch.ones_like(x))


def test_proposals_weigh_what_their_draws_leave_out():
    """For every completion, probability of the draw times its weight is ``q(x)``: so the mean weight is q(observed)."""
    space = Space((2, 3, 2))
    model = build(space, torch.Generator().manual_seed(0), order_seed=3, sharpness=2.0)
    states, q = space.enumerate(), model.log_density(space.enumerate()).detach().exp()
    observed = torch.zeros(3, dtype=torch.bool)
    observed[model.order[-1]] = True  # which `sample_given` must refuse
    row = states[5]
    same = (states == row)[:, observed].all(1)
    n = 20_000
    draws, log_weight = model.propose_given(row.expand(n, -1), observed.expand(n, -1), torch.Generator().manual_seed(1))
    assert bool((draws[:, observed] == row[observed]).all())
    count = torch.bincount(space.index(draws), minlength=space.num_states).double()
    weight = torch.zeros(space.num_states, dtype=torch.float64).scatter_(0, space.index(draws), log_weight.exp())
    drawn = q[same] / weight[same]  # what the draw's probability must be
    assert drawn.sum() == pytest.approx(1)
    assert stats.chisquare(count[same], n * drawn).pvalue > 1e-3
    standard_error = log_weight.exp().std() / n**0.5
    assert abs(log_weight.exp().mean() - q[same].sum()) < 4.5 * standard_error


def test_bad_arguments_are_refused():
    generator = torch.Generator()
    with pytest.raises(InputError, match="hidden: expected"):
        MADE(Space.bits(2), hidden=0, generator=generator)
    with pytest.raises(InputError, match="blocks: expected a whole number from 0 to 1000, got -1"):
        MADE(Space.bits(2), blocks=-1, generator=generator)
    with pytest.raises(InputError, match="did you mean 'tanh'"):
        MADE(Space.bits(2), activation="tanhh", generator=generator)
    model, x = MADE(Space.bits(2), generator=generator), torch.zeros(1, 2, dtype=torch.int64)
    with pytest.raises(InputError, match="observed sites that come first"):
        model.sample_given(x, torch.tensor([[False, True]]), generator)
    with pytest.raises(InputError, match=r"observed: expected bool of shape \(1, 2\)"):
        model.sample_given(x, torch.tensor([True, False]), generator)
    with pytest.raises(InputError, match="a value from 0 to 1 at site 0"):
        model.sample_given(x + 2, torch.tensor([[True, False]]), generator)


def chi_square(space, drawn, pmf):
    """The p-value of the draws under a pmf; states it excludes must not occur, rare ones are pooled."""
    counts = torch.bincount(space.index(drawn), minlength=space.num_states)
    assert (counts[pmf == 0] == 0).all()
    expected = len(drawn) * pmf
    common = expected >= 5
    found = torch.cat([counts[common], counts[~common].sum()[None]]).double()
    wanted = torch.cat([expected[common], expected[~common].sum()[None]])
    kept = wanted > 0
    return stats.chisquare(found[kept].numpy(), wanted[kept].numpy()).pvalue
