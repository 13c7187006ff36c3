"""Blanks and weights in training: what was not seen is not missed, and a weight is so many rows."""

from copy import deepcopy

import pytest
import torch

from concrete_score.errors import InputError
from concrete_score.models import MADE, Energy
from concrete_score.objectives import build
from concrete_score.randomness import generator
from concrete_score.spaces import Space
from concrete_score.targets import pmf
from concrete_score.targets.bayesian_network import random_network
from concrete_score.training import Checkpoint, Examples, Snapshot, TrainingSettings, Validated, fit, train
from concrete_score.training.examples import Feed
from concrete_score.training.loop import Loss, judge_of
from concrete_score.training.recipe import Recipe

SPACE = Space((2, 3, 2))
ROWS = SPACE.uniform(200, generator(0, "rows")).to(torch.uint8)
SEEN = torch.rand(ROWS.shape, generator=generator(0, "seen")) > 0.3
WEIGHTS = torch.randint(1, 4, (200,), generator=generator(0, "weights"))


def made(dtype=torch.float64, **options):
    return MADE(SPACE, 6, 1, generator=generator(0, "w"), dtype=dtype, **options)


def test_what_is_plain_is_none():
    plain = Examples.of(ROWS, torch.ones_like(SEEN), torch.full((200,), 2.5))
    assert plain.whole
    assert (plain.weights, plain.blank_cells) == (None, 0)
    assert Examples.of(plain) is plain
    blank = Examples.of(ROWS, SEEN, WEIGHTS)
    assert blank.blank_cells == int((~SEEN).sum())
    assert float(blank.balanced().weights.mean()) == pytest.approx(1.0, abs=1e-12)
    part = blank[slice(3, 5)]
    assert torch.equal(part.observed, SEEN[3:5])
    assert torch.equal(part.weights, WEIGHTS[3:5].double())


@pytest.mark.parametrize("weights", [[-1.0, 1.0], [0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]])
def test_other_weights_are_refused(weights):
    with pytest.raises(InputError, match="finite weights, none negative and some above 0"):
        Examples.of(ROWS[:2], None, torch.tensor(weights))


def test_shapes_must_fit():
    with pytest.raises(InputError, match="observed"):
        Examples(ROWS, SEEN[:3])
    with pytest.raises(InputError, match="200 weights"):
        Examples(ROWS, None, torch.ones(3))


@pytest.mark.parametrize("name", ["maximum_likelihood", "logistic"])
def test_a_weight_is_so_many_rows(name):
    """The mean over weighed rows is the mean over rows repeated: of the loss, its gradient, and the validation."""
    model, objective = made(), build(name, SPACE, **({} if name == "maximum_likelihood" else {"edges": "all"}))
    examples = Examples.of(ROWS, None, WEIGHTS).balanced()
    repeated = ROWS.repeat_interleave(WEIGHTS, 0)

    def loss(rows, weights):
        feed = Feed(Examples(rows, None, weights), objective, TrainingSettings(batch_size=len(rows)))
        packed = feed._drawn(feed.examples, 0, model)
        found = Loss(model, objective)(packed, 1 / len(rows))
        return found, torch.cat([g.flatten() for g in torch.autograd.grad(found, list(model.parameters()))])

    for ours, theirs in zip(loss(ROWS, examples.weights), loss(repeated, None), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=0)
    judged = [judge_of(model, objective, rows, 0)(model) for rows in (examples, repeated)]
    assert judged[0] == pytest.approx(judged[1], abs=1e-10)


def test_tables_are_counted_where_a_family_was_seen_and_by_weight():
    parents = [[], [0], [0, 1]]
    model, other = made(parents=parents), made(parents=parents)
    model.start_from(ROWS, None, WEIGHTS)
    other.start_from(ROWS.repeat_interleave(WEIGHTS, 0))
    assert torch.allclose(model.base.table, other.base.table, atol=1e-12)
    model.start_from(ROWS, SEEN, WEIGHTS)
    both = SEEN[:, :2].all(1)
    other.start_from(ROWS[both].repeat_interleave(WEIGHTS[both], 0))
    x = SPACE.enumerate()
    pair = [each.site_log_conditionals(x)[:, 1] for each in (model, other)]
    torch.testing.assert_close(*pair, atol=1e-12, rtol=0)


RECIPES = {
    "made": Recipe(model_options={"hidden": 5}),
    "logistic": Recipe("made", "logistic", "paired", model_options={"hidden": 5}),
    "table": Recipe("table"),
}


def run(recipe, how, start=None, stop_at=None):
    """Train on blanks and weights to the end, or to an interruption; the weights, the looks, the last snapshot."""
    built = recipe.resolved().build(SPACE, how)
    rows, valid = Examples.of(ROWS, SEEN, WEIGHTS), Examples.of(ROWS[:50], SEEN[:50], WEIGHTS[:50])
    asked = iter(range(10**6))
    looks, snapshot = [], None
    options = {"start": start, "interrupted": lambda: stop_at is not None and next(asked) >= stop_at}
    for event in train(built.model, built.objective, rows, how, valid, **options):
        if isinstance(event, Checkpoint):
            s = event.snapshot
            snapshot = Snapshot(s.step, deepcopy(s.state), {k: v.detach().clone() for k, v in s.tensors.items()})
        looks += [event.value] if isinstance(event, Validated) else []
    return built.model.state_dict(), looks, snapshot


@pytest.mark.parametrize("name", RECIPES)
def test_interrupted_it_goes_on_bit_for_bit(name, monkeypatch):
    monkeypatch.setattr("concrete_score.training.examples.AHEAD", 4)
    how = TrainingSettings(steps=23, batch_size=8, valid_every=7, check_every=5)
    whole, looks, last = run(RECIPES[name], how)
    for stop in (1, 3):
        _, _, snapshot = run(RECIPES[name], how, stop_at=stop)
        assert snapshot.step == 4 * stop, "blanks filled ahead are in no checkpoint"
        again, rest, final = run(RECIPES[name], how, snapshot)
        assert all(torch.equal(again[key], whole[key]) for key in whole)
        assert rest[-1] == looks[-1]
        assert all(torch.equal(final.tensors[key], last.tensors[key]) for key in last.tensors)


def test_a_model_that_cannot_fill_blanks_is_refused_before_any_step():
    space = Space((4,) * 6)
    model = Energy(space, generator=generator(0, "w"))
    rows = Examples.of(space.uniform(10, generator(0, "rows")), torch.zeros(10, 6, dtype=torch.bool))
    with pytest.raises(InputError, match="missing='drop'"):
        next(iter(train(model, build("logistic", space), rows, TrainingSettings(steps=1))))


@pytest.mark.parametrize("objective", ["maximum_likelihood", "logistic"])
def test_blanks_that_depend_on_what_was_seen_do_not_mislead(objective):
    """The second column is blank mostly where the first is 1: rows without blanks alone tell another distribution."""
    truth = pmf([[0.36, 0.04], [0.12, 0.48]])
    rows = truth.sample(20_000, generator(0, "rows"))
    seen = torch.ones_like(rows, dtype=torch.bool)
    seen[:, 1] = torch.rand(len(rows), generator=generator(0, "seen")) > torch.where(rows[:, 0] == 1, 0.8, 0.1)
    states = truth.space.enumerate()
    names = {} if objective == "maximum_likelihood" else {"edges": "all"}
    how = TrainingSettings(steps=300, lr=0.03, batch_size=128, average=0.98, valid_every=100)

    def learned(examples):
        model = MADE(truth.space, 8, 1, generator=generator(0, "w"))
        fit(model, build(objective, truth.space, **names), examples, how)
        return float((model.log_density(states).detach().exp() - truth.probabilities).abs().sum()) / 2

    assert learned(Examples.of(torch.where(seen, rows, 0), seen)) < 0.04
    if objective == "maximum_likelihood":
        assert learned(Examples.of(rows[seen.all(1)])) > 0.2


def test_the_validation_of_blanks_is_the_likelihood_of_what_was_seen():
    truth = random_network((2, 3, 2, 2), 2, generator(0, "network"))
    rows = truth.sample(300, generator(0, "rows"))
    seen = torch.rand(rows.shape, generator=generator(0, "seen")) > 0.4
    exact = sum(float(_marginal(truth, x, o)) for x, o in zip(rows, seen, strict=True)) / 300
    judge = judge_of(truth, build("maximum_likelihood", truth.space), Examples.of(rows, seen), 0)
    assert judge(truth) == pytest.approx(exact, abs=1e-10)


def _marginal(truth, x, seen):
    states = truth.space.enumerate()
    return truth.log_density(states[((states == x) | ~seen).all(1)]).logsumexp(0)
