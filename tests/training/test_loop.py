"""The loop: it learns, goes on bit for bit, averages, stops when it should, and never keeps a broken model."""

from copy import deepcopy

import pytest
import torch

from concrete_score.errors import InputError
from concrete_score.models import Table
from concrete_score.objectives import build
from concrete_score.randomness import generator
from concrete_score.spaces import Space
from concrete_score.targets import pmf
from concrete_score.training import (
    Checkpoint,
    Enumerated,
    Finished,
    PooledProposal,
    Progress,
    Snapshot,
    TrainingSettings,
    Validated,
    WentBack,
    fit,
    processes,
    train,
)
from concrete_score.training.processes import connect, share
from concrete_score.training.recipe import Recipe

SPACE = Space((2, 3, 2))
ROWS = SPACE.uniform(200, generator(0, "rows")).to(torch.uint8)
RECIPES = {
    "made": Recipe(model_options={"hidden": 5}),
    "self_proposal": Recipe("made", "logistic", "self_proposal", model_options={"hidden": 5}),
    "self_weighed": Recipe("made", "csm", "self_weighed", model_options={"hidden": 5}),
    "mlp": Recipe("mlp", "csm", "independent", model_options={"hidden": 5}),
    "denoising": Recipe(
        "mlp", "denoising", noise="categorical", noise_options={"weights": [0.8, 0.6]}, model_options={"hidden": 5}
    ),
}
EXTRAS = {"plain": {}, "averaged": {"average": 0.9, "clip_norm": 0.5}}


def settings(**given):
    small = {"steps": 23, "batch_size": 8, "valid_every": 7, "check_every": 5, "refresh_every": 6, "pool": 16}
    return TrainingSettings(**{**small, **given})


def run(recipe, how, start=None, stop_at=None):
    """Train to the end, or to an interruption; the model, its events, and the last snapshot (copied)."""
    built = recipe.resolved().build(SPACE, how)
    asked = iter(range(10**6))
    events, snapshot = [], None
    interrupted = (lambda: False) if stop_at is None else (lambda: next(asked) >= stop_at)
    for event in train(built.model, built.objective, ROWS, how, ROWS[:50], start=start, interrupted=interrupted):
        if isinstance(event, Checkpoint):
            s = event.snapshot
            snapshot = Snapshot(s.step, deepcopy(s.state), {k: v.detach().clone() for k, v in s.tensors.items()})
        events.append(event)
    return built.model, events, snapshot


def same(one, two):
    return all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), two.state_dict().values(), strict=True))


@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("name", RECIPES)
def test_interrupted_anywhere_it_goes_on_bit_for_bit(name, extra):
    how = settings(**EXTRAS[extra])
    whole, events, last = run(RECIPES[name], how)
    for stop in (1, 8, 14):
        _, first, snapshot = run(RECIPES[name], how, stop_at=stop)
        assert first[-1].why == "interrupted"
        assert snapshot.step == stop
        again, rest, final = run(RECIPES[name], how, snapshot)
        assert same(whole, again)
        assert set(final.tensors) == set(last.tensors)
        assert all(torch.equal(final.tensors[key], last.tensors[key]) for key in last.tensors)
        assert [e.value for e in events if isinstance(e, Validated)][-1] == [
            e.value for e in rest if isinstance(e, Validated)
        ][-1]


def test_a_finished_training_resumed_is_finished():
    how = settings()
    model, events, last = run(RECIPES["made"], how)
    again, rest, _ = run(RECIPES["made"], how, last)
    assert [type(event) for event in rest] == [Finished]
    assert (rest[0].why, rest[0].best_step) == (events[-1].why, events[-1].best_step)
    assert same(model, again)


def test_likelihood_finds_the_histogram():
    table, objective = Table(Space((4,))), build("maximum_likelihood", Space((4,)))
    rows = torch.tensor([[0]] * 5 + [[1]] * 3 + [[2]] * 2, dtype=torch.uint8)
    ended = fit(table, objective, rows, TrainingSettings(steps=800, lr=0.05, batch_size=64, average=0.99), valid=rows)
    found = table.log_density(torch.tensor([[0], [1], [2]])).exp()
    torch.testing.assert_close(found, torch.tensor([0.5, 0.3, 0.2]), atol=0.02, rtol=0)
    assert ended.best == pytest.approx(-1.03, abs=0.01)


def test_the_enumerated_objective_is_exact_and_trains():
    truth = pmf([0.1, 0.2, 0.3, 0.4])
    states = truth.space.enumerate()
    rows = states.repeat_interleave(torch.tensor([1, 2, 3, 4]), 0)
    objective = Enumerated(build("logistic", truth.space), truth.probabilities)
    model = Table(truth.space)
    fit(model, objective, states, TrainingSettings(steps=800, lr=0.05, batch_size=4), valid=rows)
    torch.testing.assert_close(model.log_density(states).exp().double(), truth.probabilities, atol=1e-3, rtol=0)
    with pytest.raises(InputError, match="all 4 states"):
        fit(model, objective, states, TrainingSettings(steps=1, batch_size=3))


def test_the_average_follows_by_its_decay_and_is_what_is_kept():
    how = settings(steps=3, average=0.5, valid_every=1, lr=0.3)
    _, events, snapshot = run(RECIPES["made"], how)
    kept = {k.removeprefix("best/"): v for k, v in snapshot.tensors.items() if k.startswith("best/")}
    plain = [run(RECIPES["made"], settings(steps=n, valid_every=1, lr=0.3, schedule="constant"))[2] for n in (1, 2, 3)]
    constant = run(RECIPES["made"], settings(steps=3, average=0.5, valid_every=1, lr=0.3, schedule="constant"))[2]
    for name in kept:
        start = RECIPES["made"].resolved().build(SPACE, how).model.state_dict()[name]
        mean = start
        for age, state in enumerate(plain, 1):
            decay = min(0.5, (1 + age) / (10 + age))
            mean = decay * mean + (1 - decay) * state.tensors[f"weights/{name}"]
        torch.testing.assert_close(constant.tensors[f"average/{name}"], mean)
    assert any(not torch.equal(kept[k], snapshot.tensors[f"weights/{k}"]) for k in kept)
    assert isinstance(events[-1], Finished)


def test_patience_and_minutes_end_it():
    # A rate so large that the first steps only make things worse.
    ended = run(RECIPES["made"], settings(lr=1.0, schedule="constant", patience=7, steps=1000, valid_every=1))[1][-1]
    assert ended.why == "patience"
    assert ended.step == ended.best_step + 7
    ended = run(RECIPES["made"], settings(steps=10**6, minutes=1e-9))[1][-1]
    assert (ended.why, ended.step) == ("minutes", 0)


def test_events_come_when_they_are_due():
    _, events, _ = run(RECIPES["made"], settings(checkpoint_seconds=1e-9))
    assert [e.step for e in events if isinstance(e, Progress)] == [5, 10, 15, 20]
    assert [e.step for e in events if isinstance(e, Validated)] == [0, 7, 14, 21, 23]
    assert [e.step for e in events if isinstance(e, Checkpoint)] == list(range(1, 24))


class Breaks:
    """Likelihood whose loss is spoilt at some steps."""

    def __init__(self, objective, spoil):
        self.objective, self.spoil, self.calls = objective, spoil, 0

    def check(self, model):
        self.objective.check(model)

    def draw(self, x, generator, model=None):
        self.calls += 1
        return self.objective.draw(x, generator, model)

    def loss(self, model, draws):
        return self.objective.loss(model, draws) * self.spoil(self.calls)

    def exact(self, model, pmf):
        return self.objective.exact(model, pmf)


@pytest.mark.parametrize("spoiled", [float("nan"), 1e30])
def test_one_blow_up_is_survived_with_a_smaller_rate(spoiled):
    how = settings(steps=40, retries=3, schedule="constant", valid_every=5)
    built = RECIPES["made"].resolved().build(SPACE, how)
    objective = Breaks(built.objective, lambda call: spoiled if call == 12 else 1.0)
    events = list(train(built.model, objective, ROWS, how, ROWS))
    (back,) = [event for event in events if isinstance(event, WentBack)]
    assert (back.step, back.to_step) == (15, 10)
    assert back.rate == pytest.approx(how.lr * how.shrink)
    assert (events[-1].why, events[-1].usable) == ("steps", True)
    assert events[-1].message.startswith("training went back once")
    assert all(value.isfinite().all() for value in built.model.state_dict().values())


def test_blow_ups_without_end_stop_with_the_best_model_and_an_explanation():
    how = settings(steps=400, retries=2, valid_every=5)
    built = RECIPES["made"].resolved().build(SPACE, how)
    objective = Breaks(built.objective, lambda call: float("nan") if call > 12 else 1.0)
    *_, ended = train(built.model, objective, ROWS, how, ROWS)
    assert ended.diverged
    assert ended.usable
    assert (ended.best_step, ended.step) == (10, 25)
    assert "smaller lr" in ended.message
    assert all(value.isfinite().all() for value in built.model.state_dict().values())


def test_a_model_that_never_learned_is_not_called_usable():
    how = settings(steps=400, retries=1, valid_every=5)
    built = RECIPES["made"].resolved().build(SPACE, how)
    *_, ended = train(built.model, Breaks(built.objective, lambda call: float("nan")), ROWS, how, ROWS)
    assert ended.diverged
    assert not ended.usable
    assert "no model better" in ended.message


def test_a_real_divergence_is_caught():
    """``f = r²`` on a table with gaps has no lower bound; the guard ends it with finite weights."""
    space = Space((8,))
    rows = torch.tensor([[0], [2], [4]], dtype=torch.uint8)
    model, how = Table(space), TrainingSettings(steps=800, lr=0.5, batch_size=16, valid_every=20, schedule="constant")
    events = list(train(model, build("csm", space, edges="all"), rows, how, rows))
    assert any(isinstance(event, WentBack) for event in events)
    assert model.logits.isfinite().all()
    assert events[-1].best >= next(e.value for e in events if isinstance(e, Validated))


def test_a_pool_is_of_its_frozen_model_and_picks_are_of_the_pool():
    model = Table(SPACE, torch.Generator().manual_seed(1))
    proposal = PooledProposal(model, size=20_000, seed=3)
    share_of = torch.bincount(SPACE.index(proposal.pool), minlength=12) / 20_000
    p = model.log_density(SPACE.enumerate()).exp()
    assert (((share_of - p) / (p * (1 - p) / 20_000).sqrt()).abs() < 4.5).all()
    drawn = proposal.draw(SPACE.enumerate(), 3, torch.Generator().manual_seed(0))
    torch.testing.assert_close(drawn.log_forward, model.log_density(drawn.target))
    torch.testing.assert_close(drawn.log_backward[:, 0], model.log_density(SPACE.enumerate()))
    with torch.no_grad():
        model.logits.zero_()
    torch.testing.assert_close(drawn.log_forward, proposal.frozen.log_density(drawn.target))
    proposal.refresh(model, 5)
    torch.testing.assert_close(proposal.log_kernel().exp(), torch.full((12, 12), 1 / 12))


def test_self_proposal_reaches_the_likelihood_of_maximum_likelihood():
    how = TrainingSettings(steps=600, batch_size=64, lr=0.05, pool=512, refresh_every=50)
    found = {}
    for name in ("maximum_likelihood", "logistic"):
        recipe = Recipe("table", name, "self_proposal" if name == "logistic" else None).resolved()
        built = recipe.build(SPACE, how)
        found[name] = fit(built.model, built.objective, ROWS, how, valid=ROWS).best
    assert found["logistic"] == pytest.approx(found["maximum_likelihood"], abs=0.01)


def test_bad_calls_are_refused():
    model, objective = Table(SPACE), build("maximum_likelihood", SPACE)
    with pytest.raises(InputError, match="at least one training row"):
        fit(model, objective, ROWS[:0], settings())
    with pytest.raises(InputError, match="normalized"):
        fit(Table(SPACE, normalized=False), objective, ROWS, settings())


def test_promised_processes_that_nobody_started_are_an_error(monkeypatch):
    for name in ("TORCHELASTIC_RUN_ID",):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="torchrun"):
        connect()


def test_processes_on_a_device_that_nothing_connects_are_one_line(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(processes, "BACKENDS", {"cuda": "nccl"})
    with pytest.raises(InputError, match=r"connects processes, got one that does not on cpu; .* on cuda"):
        connect("cpu")


def test_shares_cover_a_batch_once():
    for total, world in ((7, 2), (8, 3), (5, 5)):
        taken = [i for rank in range(world) for i in range(total)[share(total, rank, world)]]
        assert taken == list(range(total))


@pytest.mark.parametrize("part", ["rows", "valid"])
@pytest.mark.parametrize("stored", [torch.uint8, torch.int64])
def test_states_outside_the_space_are_refused_by_row_and_site(part, stored):
    bad = ROWS.clone().to(stored)
    bad[7, 1] = 3  # the site has three values
    given = {"rows": ROWS, "valid": ROWS, part: bad}
    objective = build("maximum_likelihood", SPACE)
    with pytest.raises(InputError, match=rf"{part}\[7, 1\]: expected a value from 0 to 2 at site 1, got 3"):
        fit(Table(SPACE), objective, given["rows"], settings(), valid=given["valid"])
    with pytest.raises(InputError, match="expected integer states"):
        fit(Table(SPACE), objective, ROWS.float(), settings())


def test_when_time_is_up_what_was_learned_is_judged(monkeypatch):
    """The clock ends it long before the next validation: the last weights are looked at, and kept if they are best."""
    how = settings(steps=100_000, lr=0.01, valid_every=50_000, minutes=1.0, schedule="constant")
    built = RECIPES["made"].resolved().build(SPACE, how)
    monkeypatch.setattr("concrete_score.training.loop.monotonic", iter(range(0, 10**6)).__next__)  # a second a look
    *_, validated, _, ended = train(built.model, built.objective, ROWS, how, ROWS)
    assert isinstance(validated, Validated)
    assert 0 < validated.step == ended.step < 100_000
    assert (ended.why, ended.best_step, ended.usable) == ("minutes", ended.step, True)
