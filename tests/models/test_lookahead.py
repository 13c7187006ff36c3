"""Blanks drawn with an eye on what is observed after them: weights stay exact, and more draws count."""

from unittest.mock import patch

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.models import MADE, pairs
from concrete_score.models.lookahead import VALUES, LookAhead
from concrete_score.randomness import generator
from concrete_score.spaces import Space
from tests.strategies import spaces


def made(space, seed=0, spread=2.0):
    model = MADE(space, 8, 1, generator=generator(seed, "weights"), dtype=torch.float64)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(spread)
    return model


@settings(max_examples=30)
@given(spaces(max_sites=4), st.integers(0, 1000))
def test_a_draw_weighs_its_density_over_its_own_probability(space, seed):
    model = made(space, seed)
    x = space.uniform(20, generator(seed, "rows"))
    observed = torch.rand(x.shape, generator=generator(seed, "observed")) > 0.5
    ahead = LookAhead.of(model.sample(200, generator(seed, "pairs")), space, model.order)
    told = []
    states, log_weight = model.propose_given(
        x, observed, generator(seed, "draws"), ahead=ahead, tell=lambda *each: told.append(each)
    )
    assert torch.equal(torch.where(observed, states, 0), torch.where(observed, x, 0))
    table = model.site_log_conditionals(states).detach()
    own, log_proposal = table.gather(-1, states[..., None]).squeeze(-1), torch.zeros(20, dtype=torch.float64)
    for d, size in enumerate(space.sizes):
        factor = 0.0 if ahead is None else ahead.log_factor(d, torch.where(observed, x, 0).T, observed)
        drawn_from = (table[:, d, :size] + factor).log_softmax(-1)
        log_proposal += torch.where(observed[:, d], 0, drawn_from.gather(1, states[:, d : d + 1]).squeeze(1))
        for _, rows, probs, _ in (each for each in told if each[0] == d):
            torch.testing.assert_close(probs, drawn_from[rows].exp(), atol=1e-10, rtol=0)
    torch.testing.assert_close(log_weight, own.sum(-1) - log_proposal, atol=1e-9, rtol=0)
    # The weight a blank has whatever is drawn there: of the sites before it, and its own sum of q g.
    for d, rows, _, log_prior in told:
        before = model.order.argsort() < model.order.argsort()[d]
        later = torch.where(before, 0.0, torch.where(observed, own, 0.0))[rows].sum(-1)
        if not (~observed[rows] & ~before).sum(-1).gt(1).any() and ahead is None:
            torch.testing.assert_close(log_prior, log_weight[rows] - later, atol=1e-9, rtol=0)


@given(spaces(max_sites=4), st.integers(0, 1000))
def test_pairs_counted_one_by_one_are_those_of_products(space, seed):
    x = space.uniform(60, generator(seed, "rows"))
    observed = torch.rand(x.shape, generator=generator(seed, "seen")) < 0.7
    with patch.object(pairs, "WIDE", 0):
        apart = pairs.pair_counts(x, space, observed)
    with patch.object(pairs, "WIDE", 100):
        assert torch.equal(apart, pairs.pair_counts(x, space, observed))


def test_tables_are_ratios_of_counts():
    a = torch.tensor([0, 0, 0, 1, 1, 1, 1, 1] * 500)
    b = torch.tensor([0, 0, 1, 1, 1, 1, 1, 0] * 500)
    c = torch.zeros(4000, dtype=torch.int64)
    ahead = LookAhead.of(torch.stack([a, b, c], 1), Space((2, 2, 1)), torch.tensor([0, 1, 2]))
    assert ahead.children.tolist() == [[1, 0, 0], [1, 1, 1], [2, 2, 2]]
    seen = torch.tensor([[False, True, True], [False, False, True]])
    found = ahead.log_factor(0, torch.tensor([[0, 0], [1, 1], [0, 0]]), seen)
    ratio = torch.tensor([(1 / 3) / (5 / 8), (4 / 5) / (5 / 8)])
    torch.testing.assert_close(found[0].exp(), ratio, atol=1e-3, rtol=0)
    assert found[1].tolist() == [0.0, 0.0]  # nothing after it is known


def test_cells_that_were_not_seen_are_not_counted():
    rows = torch.randint(0, 3, (3000, 2), generator=generator(0, "rows"))
    rows[:, 1] = rows[:, 0]
    hidden = rows.clone()
    observed = torch.rand(rows.shape, generator=generator(0, "seen")) > 0.3
    hidden[~observed] = 0
    order = torch.tensor([0, 1])
    found = LookAhead.of(hidden, Space((3, 3)), order, observed).tables[0]
    wanted = LookAhead.of(rows, Space((3, 3)), order).tables[0]
    assert bool((found[3:].argmax(0) == wanted[3:].argmax(0)).all())
    torch.testing.assert_close(found[3:].diagonal(), wanted[3:].diagonal(), atol=0.15, rtol=0)


def test_more_draws_count_where_later_sites_say_much():
    space = Space((8, 8))
    model = MADE(space, 8, 1, generator=generator(0), parents=[[], [0]], dtype=torch.float64)
    same = torch.arange(8).repeat(50)
    model.start_from(torch.stack([same, same], 1))
    x, observed = torch.tensor([[0, 5]]).expand(64, -1), torch.tensor([[False, True]]).expand(64, -1)
    ahead = LookAhead.of(model.sample(2000, generator(1)), space, model.order)

    def effective(**options):
        _, weight = model.propose_given(x, observed, generator(2), **options)
        return float((2 * weight.logsumexp(0) - (2 * weight).logsumexp(0)).exp())

    assert effective(ahead=ahead) > 3 * effective()


def test_very_many_values_are_not_paired():
    space = Space((VALUES, 2))
    assert LookAhead.of(torch.zeros(3, 2, dtype=torch.int64), space, torch.tensor([0, 1])) is None
