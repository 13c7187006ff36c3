"""The autoregressive layout, and a MADE that starts as a Bayesian network: its tables are the rows' own."""

import itertools
import math
from collections import Counter
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.models import MADE
from concrete_score.models.autoregressive import PRIORS, AutoregressiveLayout, parents_first, shrunk
from concrete_score.models.layers import SiteFeatures
from concrete_score.objectives import build
from concrete_score.randomness import generator
from concrete_score.spaces import Space
from concrete_score.targets import BayesianNetwork
from concrete_score.targets.bayesian_network import random_network
from concrete_score.training import TrainingSettings, fit
from tests.strategies import spaces

layouts = st.builds(AutoregressiveLayout, spaces(max_sites=6), st.integers(1, 12), st.none() | st.integers(0, 5))


@given(layouts)
def test_degrees_rise_evenly_to_the_last_but_one_site(layout):
    last = layout.space.num_sites - 1
    degree = layout.degree
    assert (degree.diff() >= 0).all()
    assert degree[-1] == last
    if 0 < last <= layout.hidden:
        counts = torch.bincount(degree, minlength=last + 1)
        assert counts[0] == 0, "a unit that sees nothing is wasted"
        assert counts[1:].max() - counts[1:].min() <= 1


@given(layouts)
def test_every_unit_output_and_feature_has_its_turn_once_and_in_order(layout):
    site = SiteFeatures(layout.space, layout.order).site
    plan = layout.plan(site)
    assert [step.site for step in plan] == layout.order.tolist()
    assert [u for step in plan for u in range(layout.hidden)[step.units]] == list(range(layout.hidden))
    assert [f for step in plan for f in range(len(site))[step.features]] == list(range(len(site)))
    outputs = [c for step in plan for c in range(step.columns.start, step.columns.stop)]
    assert sorted(outputs) == list(range(len(layout.write_mask())))
    for step in plan:
        assert step.size == layout.space.sizes[step.site]
        assert (site[step.features] == step.site).all()
        # Ready units are the ones the outputs may see, and all that those units see is filled.
        assert (layout.write_mask()[step.columns].nonzero()[:, 1] < step.units.stop).all()
        assert layout.write_mask()[step.columns, : step.units.stop].all()
        assert layout.unit_mask()[step.units, : step.units.stop].all()
        assert layout.read_mask(site)[step.units, : step.features.start].all()
        assert not layout.read_mask(site)[step.units, step.features.start :].any()


def started(truth, rows, **options):
    model = MADE(truth.space, 12, parents=truth.parents, generator=generator(0, "w"), dtype=torch.float64, **options)
    model.start_from(rows)
    return model


def conditional(rows, d, parents, given):
    """``p(x_d = v | parents)`` by loops over rows, drawn towards that of all parents but the one that tells least."""
    size, own = int(rows.space.sizes[d]), [row for row in rows.list if all(row[p] == given[p] for p in parents)]
    counts = [sum(row[d] == v for row in own) for v in range(size)]
    if not parents:
        return [(n + 0.5) / (len(own) + 0.5 * size) for n in counts]
    fewer = max(([q for q in parents if q != p] for p in parents), key=lambda left: rows.likelihood(d, left))
    simpler = conditional(rows, d, fewer, given)
    prior = rows.prior(d, tuple(parents), tuple(fewer))
    return [(n + prior * m) / (len(own) + prior) for n, m in zip(counts, simpler, strict=True)]


class Rows:
    def __init__(self, space, rows):
        self.space, self.list = space, rows.tolist()

    def likelihood(self, d, parents):
        """The largest log-likelihood of a site given some parents, to nine decimals: ties go to the first."""
        families = Counter(tuple(row[p] for p in [*parents, d]) for row in self.list)
        given = Counter(tuple(row[p] for p in parents) for row in self.list)
        found = sum(n * math.log(n / given[key[:-1]]) for key, n in families.items())
        return round(found, 9)

    @cache  # noqa: B019
    def prior(self, d, parents, fewer):
        """The best α for each row by all others."""

        def by_all_others(alpha):
            total = 0.0
            for row in self.list:
                own = [other for other in self.list if all(other[p] == row[p] for p in parents)]
                same = sum(other[d] == row[d] for other in own)
                simpler = conditional(self, d, list(fewer), row)[row[d]]
                total += math.log((same - 1 + alpha * simpler) / (len(own) - 1 + alpha))
            return total

        return max(PRIORS, key=by_all_others)


def counted(truth, rows):
    """The same by loops over rows."""
    seen, tables = Rows(truth.space, rows), []
    for d, parents in enumerate(truth.parents):
        sizes = [truth.space.sizes[p] for p in parents]
        # The library looks at the last parent first, where two tell the same.
        each = [
            conditional(seen, d, list(reversed(parents)), dict(zip(parents, given, strict=True)))
            for given in itertools.product(*map(range, sizes))
        ]
        tables.append(torch.tensor(each, dtype=torch.float64).reshape(*sizes, truth.space.sizes[d]))
    return BayesianNetwork(truth.space, truth.parents, tables)


def test_rare_combinations_lean_on_fewer_parents():
    counts = torch.tensor([[[900.0, 100.0], [100.0, 900.0]], [[9.0, 1.0], [0.0, 0.0]]])
    found = shrunk(counts)
    assert found[0, 0].tolist() == pytest.approx([0.9, 0.1], abs=0.01)
    assert found[1, 1].tolist() == pytest.approx([0.1, 0.9], abs=0.01)  # never seen: as without the first parent
    assert torch.allclose(found.sum(-1), torch.ones(2, 2))


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_it_starts_as_the_network_of_the_counts(seed, sizes):
    truth = random_network(sizes, 2, generator(seed, "network"))
    rows = truth.sample(25, generator(seed, "rows"))
    model, expected = started(truth, rows), counted(truth, rows)
    states = truth.space.enumerate()
    torch.testing.assert_close(model.log_density(states), expected.log_density(states), atol=1e-10, rtol=0)
    conditionals = model.site_log_conditionals(states).gather(-1, states[..., None]).squeeze(-1)
    torch.testing.assert_close(conditionals.sum(-1), expected.log_density(states), atol=1e-10, rtol=0)


def test_draws_follow_the_density_once_the_network_speaks_too():
    truth = random_network((2, 3, 2, 4), 2, generator(1, "network"))
    model = started(truth, truth.sample(200, generator(0, "rows")))
    with torch.no_grad():
        model.write.weight.normal_(generator=generator(0, "weights")).mul_(0.5)
        states = truth.space.enumerate()
        p = model.log_density(states).exp()
    assert float(p.sum()) == pytest.approx(1.0, abs=1e-12)
    n = 40_000
    counts = torch.bincount(truth.space.index(model.sample(n, generator(0, "draws"))), minlength=len(p))
    z = (counts - n * p) / (n * p * (1 - p)).sqrt()
    assert float(z.detach().abs().max()) < 4.5


def test_the_tables_are_part_of_the_weights():
    truth = random_network((2, 3, 2), 2, generator(1, "network"))
    model = started(truth, truth.sample(200, generator(0, "rows")))
    other = MADE(truth.space, 12, parents=truth.parents, generator=generator(5, "w"), dtype=torch.float64)
    states = truth.space.enumerate()
    assert not torch.allclose(other.log_density(states), model.log_density(states))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.log_density(states), model.log_density(states))


def test_a_run_that_cannot_improve_on_the_counts_keeps_them():
    truth = random_network((3, 3, 2), 2, generator(2, "network"))
    rows = truth.sample(5000, generator(0, "rows"))
    model = started(truth, rows)
    before = model.log_density(rows).mean()
    other = MADE(truth.space, 12, parents=truth.parents, generator=generator(0, "w"), dtype=torch.float64)
    how = TrainingSettings(steps=5, lr=1.0, valid_every=5, retries=0)
    ended = fit(other, build("maximum_likelihood", truth.space), rows, how, valid=rows)
    assert (ended.best_step, ended.usable) == (0, True)
    assert torch.equal(other.log_density(rows).mean(), before)


@pytest.mark.parametrize("parents", [[[1], [0]], [[0], []], [[], [2]], [[]]])
def test_cycles_and_strangers_are_refused(parents):
    with pytest.raises(InputError, match="parents"):
        parents_first(parents, Space.bits(2))


@given(st.integers(0, 1000), st.integers(2, 7), st.data())
def test_what_is_to_come_last_comes_as_late_as_its_children_allow(seed, sites, data):
    parents = random_network((2,) * sites, 2, generator(seed, "network")).parents
    last = data.draw(st.lists(st.sampled_from(range(sites)), min_size=1, unique=True))
    order = parents_first(parents, Space.bits(sites), last)
    assert sorted(order) == list(range(sites))
    assert all(order.index(p) < order.index(d) for d in range(sites) for p in parents[d])
    wanted = {d: last.index(d) if d in last else -1 for d in range(sites)}
    for early, late in itertools.combinations(order, 2):
        if wanted[early] > wanted[late]:  # only a child that has to come in between, or is the later one, excuses that
            between = order[order.index(early) + 1 : order.index(late) + 1]
            assert any(early in parents[d] for d in between)


def test_parents_decide_the_order():
    model = MADE(Space.bits(3), parents=[[2], [0], []], generator=generator(0, "w"))
    assert model.order.tolist() == [2, 0, 1]
    with pytest.raises(InputError, match="order_seed"):
        MADE(Space.bits(3), order_seed=1, parents=[[], [], []], generator=generator(0, "w"))
    assert MADE(Space.bits(3), last=[0], generator=generator(0, "w")).order.tolist() == [1, 2, 0]
    with pytest.raises(InputError, match="last"):
        MADE(Space.bits(3), last=[0, 0], generator=generator(0, "w"))
