"""Rows with blanks, completed by a model: listed ones are exact, drawn ones a bound of enumerated gap and bias."""

from itertools import product
from math import lgamma, log

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.models import MADE, Energy, Table
from concrete_score.models.completing import (
    bounds,
    check_completes,
    complete,
    fill,
    list_completions,
    log_sum_by_row,
)
from concrete_score.randomness import generator
from concrete_score.spaces import Space
from concrete_score.targets.bayesian_network import random_network
from tests.strategies import spaces


def made(space, seed=0, spread=1.0, **options):
    model = MADE(space, 8, 1, generator=generator(seed, "weights"), dtype=torch.float64, **options)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(spread)
    return model


def some_rows(space, n, seed=0, share=0.5):
    x = space.uniform(n, generator(seed, "rows"))
    return x, torch.rand(x.shape, generator=generator(seed, "observed")) > share


def log_marginal(model, x, observed):
    """``log q(observed cells)`` of each row by loops over all states."""
    states = model.space.enumerate()
    table = model.log_density(states)
    agree = ((states == x[:, None]) | ~observed[:, None]).all(-1)
    return torch.stack([table[row].logsumexp(0) for row in agree])


def gradient(value, model):
    return torch.cat([g.flatten() for g in torch.autograd.grad(value, list(model.parameters()), retain_graph=True)])


@settings(max_examples=30)
@given(spaces(max_sites=4), st.integers(0, 1000))
def test_listed_completions_give_the_exact_likelihood_and_its_gradient(space, seed):
    model = made(space, seed)
    x, observed = some_rows(space, 5, seed)
    found = complete(model, x, observed, 500, generator(seed, "draws"))
    exact = log_marginal(model, x, observed)
    torch.testing.assert_close(found.log_density, exact.detach(), atol=1e-10, rtol=0)
    # What one completion of each row adds to the gradient, on average over the choice among them.
    density = model.log_density(found.states)
    share = (found.log_weight - found.log_density[found.row]).exp()
    torch.testing.assert_close(density.detach(), found.log_weight, atol=1e-10, rtol=0)
    torch.testing.assert_close(gradient(share @ density, model), gradient(exact.sum(), model), atol=1e-10, rtol=0)
    one = found.chosen(model, generator(seed, "choice"))
    two = torch.cat([one.rows(slice(0, 2)).log_density(model), one.rows(slice(2, 5)).log_density(model)])
    torch.testing.assert_close(two.detach(), exact.detach(), atol=1e-10, rtol=0)
    assert torch.equal(torch.where(observed, one.states, 0), torch.where(observed, x, 0))


@given(spaces(max_sites=5), st.integers(0, 1000), st.booleans())
def test_draws_weigh_what_was_seen_given_what_came_before(space, seed, tables):
    parents = random_network(space.sizes, 2, generator(seed, "network")).parents if tables else None
    model = made(space, seed, parents=parents)
    x, observed = some_rows(space, 20, seed)
    if tables:
        model.start_from(x)
    drawn, log_weight = model.propose_given(x, observed, generator(seed, "draws"))
    assert torch.equal(torch.where(observed, drawn, 0), torch.where(observed, x, 0))
    own = model.site_log_conditionals(drawn).gather(-1, drawn[..., None]).squeeze(-1)
    torch.testing.assert_close(log_weight, torch.where(observed, own, 0).sum(-1), atol=1e-10, rtol=0)


class Enumerated:
    """All that K draws of one row's blanks can be, with its probability: how often each completion is drawn."""

    def __init__(self, model, x, observed):
        self.model = model
        self.states, _ = list_completions(model.space, x, observed)
        own = model.site_log_conditionals(self.states).gather(-1, self.states[..., None]).squeeze(-1)
        self.log_proposal = torch.where(observed, 0, own).sum(-1).detach()
        self.log_density = model.log_density(self.states)
        self.log_ratio = (self.log_density - self.log_proposal).detach()
        self.exact = float(self.log_density.detach().logsumexp(0))

    def outcomes(self, draws):
        size = len(self.states)
        counts = torch.tensor([c for c in product(range(draws + 1), repeat=size - 1) if sum(c) <= draws])
        counts = torch.cat([counts, draws - counts.sum(1, keepdim=True)], 1).double()
        log_prob = lgamma(draws + 1) - (counts + 1).lgamma().sum(1) + counts @ self.log_proposal
        return counts, log_prob.exp()

    def bound(self, draws):
        """``E log (1/K) Σ_k w_k``."""
        counts, prob = self.outcomes(draws)
        assert float(prob.sum()) == pytest.approx(1.0, abs=1e-9)
        return float(prob @ ((counts @ self.log_ratio.exp()).log() - log(draws)))

    def bias(self, draws):
        """The expected gradient of the bound less that of the log-likelihood."""
        each = torch.stack([gradient(value, self.model) for value in self.log_density])
        counts, prob = self.outcomes(draws)
        weight = counts * self.log_ratio.exp()
        mean = prob @ (weight / weight.sum(1, keepdim=True))
        return (mean - self.log_ratio.add(self.log_proposal).softmax(0)) @ each


@pytest.fixture(scope="module")
def one_row():
    model = made(Space((2, 2, 3)), seed=3, spread=2.0)
    return Enumerated(model, torch.tensor([[0, 0, 1]]), torch.tensor([[False, False, True]]))


def slope(values, at):
    return float(np.polyfit(np.log(at), np.log(values), 1)[0])


def test_the_gap_of_the_bound_and_the_bias_of_its_gradient_fall_as_one_over_the_draws(one_row):
    draws = (8, 12, 16, 24, 32)
    gaps = [one_row.exact - one_row.bound(k) for k in draws]
    assert all(gap > 0 for gap in gaps)
    assert slope(gaps, draws) == pytest.approx(-1, abs=0.15)
    assert slope([float(one_row.bias(k).norm()) for k in draws], draws) == pytest.approx(-1, abs=0.15)


def test_the_product_of_observed_conditionals_has_another_gradient(one_row):
    """What one must not differentiate: its gradient does not tend to the right one with more draws."""
    model, states = one_row.model, one_row.states
    own = model.site_log_conditionals(states).gather(-1, states[..., None]).squeeze(-1)[:, 2]
    wrong = gradient((own + one_row.log_proposal).logsumexp(0), model)
    right = gradient(one_row.log_density.logsumexp(0), model)
    assert float((wrong - right).norm()) > 20 * float(one_row.bias(32).norm())


def test_the_draws_of_the_library_are_those_enumerated(one_row, monkeypatch):
    monkeypatch.setattr("concrete_score.models.completing.LISTED", 0)
    model, n, draws = one_row.model, 20_000, 2
    x, observed = torch.tensor([[0, 0, 1]]).expand(n, -1), torch.tensor([[False, False, True]]).expand(n, -1)
    found = complete(model, x, observed, draws, generator(0, "draws"))
    assert len(found.states) == draws * n
    bounds = found.log_density
    assert abs(float(bounds.mean()) - one_row.bound(draws)) < 4 * float(bounds.std()) / n**0.5
    mean = bounds.exp().mean()
    assert abs(float(mean) - np.exp(one_row.exact)) < 4 * float(bounds.exp().std()) / n**0.5
    one = found.chosen(model, generator(0, "choice"))
    torch.testing.assert_close(one.log_density(model).detach(), bounds, atol=1e-10, rtol=0)
    ours = gradient(one.log_density(model).mean(), model)
    truth = gradient(one_row.log_density.logsumexp(0), model)
    each = torch.stack([gradient(value, model) for value in one_row.log_density])
    spread = float(each.std(0).norm()) / n**0.5
    assert float((ours - truth - one_row.bias(draws)).norm()) < 5 * spread


@pytest.mark.parametrize("listed", [True, False])
def test_one_completion_is_a_draw_given_what_was_seen(listed, monkeypatch):
    if not listed:
        monkeypatch.setattr("concrete_score.models.completing.LISTED", 0)
    space, n = Space((2, 3, 2)), 6_000
    model = made(space, 1, spread=2.0)
    x, observed = torch.tensor([[1, 0, 0]]).expand(n, -1), torch.tensor([[True, False, False]]).expand(n, -1)
    states, _ = list_completions(space, x[:1], observed[:1])
    p = model.log_density(states).softmax(0).detach()
    # Drawn among so many that the noise of the weights is small beside that of the counts.
    filled = complete(model, x, observed, 8 if listed else 40, generator(0, "fill")).chosen(model, generator(1, "fill"))
    counts = torch.bincount(space.index(filled.states), minlength=space.num_states)[space.index(states)]
    z = (counts - n * p) / (n * p * (1 - p)).sqrt()
    assert float(z.abs().max()) < 4.5


@settings(max_examples=30)
@given(spaces(max_sites=5), st.integers(0, 1000), st.integers(1, 3))
def test_blanks_after_all_that_was_seen_are_drawn_exactly_and_whole_rows_not_at_all(space, seed, draws):
    model = made(space, seed, last=[0])
    x, observed = some_rows(space, 40, seed)
    kept = torch.randint(space.num_sites + 1, (40,), generator=generator(seed, "kept"))
    ending = torch.arange(space.num_sites) < kept[:, None]
    observed[:20, model.order] = ending[:20]
    exact = log_marginal(model, x, observed).detach()
    # A draw of q(blanks | seen) weighs q(seen), whatever is drawn.
    found = bounds(model, x, observed, draws, generator(seed, "draws"))
    torch.testing.assert_close(found[:20], exact[:20], atol=1e-10, rtol=0)
    filled = fill(model, x, observed, draws, generator(seed, "draws"))
    torch.testing.assert_close(filled.log_density(model)[:20].detach(), exact[:20], atol=1e-10, rtol=0)
    assert torch.equal(torch.where(observed, filled.states, 0), torch.where(observed, x, 0))
    whole = observed.all(-1)
    assert (filled.log_scale[whole] == 0).all()
    many = bounds(model, x, observed, 500, generator(seed, "draws"))
    torch.testing.assert_close(many, exact, atol=1e-10, rtol=0)


def test_rows_are_summed_in_log_space():
    values = torch.tensor([-800.0, -801.0, -torch.inf, 3.0], dtype=torch.float64)
    found = log_sum_by_row(values, torch.tensor([0, 0, 1, 2]), 4)
    assert found[0] == pytest.approx(float(values[:2].logsumexp(0)), abs=1e-12)
    assert found[1:].tolist() == [-torch.inf, 3.0, -torch.inf]


def test_a_model_that_cannot_fill_many_blanks_is_refused():
    space = Space((4,) * 6)
    energy = Energy(space, generator=generator(0, "weights"))
    observed = torch.ones(3, 6, dtype=torch.bool)
    observed[1, :4] = False
    check_completes(energy, observed)
    observed[2] = False
    with pytest.raises(InputError, match=r"`made`.*got Energy; pass missing='drop', or pass missing='category'"):
        check_completes(energy, observed)
    check_completes(made(space), observed)
    few = Table(Space((2, 2)))
    check_completes(few, torch.zeros(1, 2, dtype=torch.bool))
