"""The training loop: a generator of events, on one process or many.

What is random about a step is named by its number (`Feed`) and made for the whole batch, then sliced, so that neither
resuming nor more processes change what is drawn.
"""

from collections.abc import Callable, Generator, Iterator
from functools import partial
from time import monotonic
from typing import Any

import torch
from torch import Tensor, nn

from concrete_score.errors import InputError
from concrete_score.models.completing import LISTED, bounds
from concrete_score.protocols import DensityModel, Objective, ObservedObjective, space_of
from concrete_score.randomness import generator
from concrete_score.spaces import Space
from concrete_score.training.compiling import Trial, compiled, try_out
from concrete_score.training.copies import copy_of
from concrete_score.training.events import Checkpoint, Event, Finished, Progress, Validated, WentBack
from concrete_score.training.examples import Examples, Feed, Packed
from concrete_score.training.guard import Verdict, advice_for, explain, recount
from concrete_score.training.processes import connect, share
from concrete_score.training.recipe import TrainingSettings
from concrete_score.training.state import Moving, Snapshot

CHECKED = 2**22
"""Cells that are looked at together before a training."""
WITHOUT = 4096
"""How many training rows stand in where there is nothing held out."""


def train(
    model: nn.Module,
    objective: Objective,
    rows: Tensor | Examples,
    settings: TrainingSettings,
    valid: Tensor | Examples | None = None,
    *,
    start: Snapshot | None = None,
    device: str | torch.device = "cpu",
    interrupted: Callable[[], bool] = lambda: False,
) -> Iterator[Event]:
    """Train a model, telling the caller what happens; the caller saves, shows and decides.

    Args:
        model: any model the objective accepts; it holds the best weights at the end.
        objective: draws, then a loss for each row.
        rows: training states ``(N, D)``, of any integer kind; with blanks or weights, `Examples`.
        settings: how.
        valid: held-out states ``(M, D)``, likewise; some training rows stand in where there are none.
        start: a snapshot to go on from.
        device: where to train.
        interrupted: asked between steps; true ends the training with a checkpoint.

    Raises:
        InputError: the objective refuses the model, there are no rows, or fewer rows a step than processes, a state
            is outside the model's space (its row and site are named), or there are blanks that the model cannot fill.

    >>> from concrete_score import objectives
    >>> from concrete_score.models import Table
    >>> from concrete_score.spaces import Space
    >>> rows = torch.tensor([[0], [0], [0], [1]], dtype=torch.uint8)
    >>> model = Table(Space((2,)))
    >>> settings = TrainingSettings(steps=300, lr=0.05, valid_every=100)
    >>> events = list(train(model, objectives.build("maximum_likelihood", model.space), rows, settings))
    >>> events[-1].why, round(model.log_density(torch.tensor([1])).exp().item(), 2)
    ('steps', 0.25)
    """
    check = getattr(objective, "check", None)
    if check is not None:
        check(model)
    if not len(rows):
        raise InputError("at least one training row", "none", where="rows")
    space = space_of(model)
    learned = Examples.of(rows)
    held_out = learned[:WITHOUT] if valid is None or not len(valid) else Examples.of(valid)
    for name, examples in (("rows", learned), ("valid", held_out)):
        _check_states(space, examples.states, name)
        examples.check(model)
    yield from _Loop(model, objective, learned, settings, held_out, start, device, interrupted).events()


def _check_states(space: Space, states: Tensor, name: str) -> None:
    """Once, in the rows' own narrow storage: a state outside the space would be read as another one, silently."""
    inside = states.ndim == 2 and states.shape[1] == space.num_sites and not states.dtype.is_floating_point
    sizes, step = space.sizes_tensor(states.device), max(1, CHECKED // max(1, space.num_sites))
    # Part by part: the rows may be a mapped file, of which no copy fits into memory.
    for start in range(0, len(states) if inside else 1, step):
        part = states[start : start + step]
        if not inside or bool(((part < 0) | (part >= sizes)).any()):
            space.check(part if inside else states, f"{name}[{start}:]" if start else name)


def starts_from_rows(model: Any) -> bool:
    """Whether a model reads the rows (``start_from``) before the first step, and is of use already then."""
    return bool(getattr(model, "starts_from_rows", False))


class Loss(nn.Module):
    """Model and objective as one module, so that a distributed wrapper sees one forward pass."""

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, packed: Packed, scale: float, l2: float = 0.0) -> Tensor:
        """``scale`` times the summed loss of the rows at hand, each by its weight; and the penalty on matrices."""
        losses = self.objective.loss(self.model, packed.draws)
        weighed = losses if packed.weights is None else losses * packed.weights.to(losses.dtype)
        if not l2:
            return weighed.sum() * scale
        matrices = (weight for weight in self.model.parameters() if weight.ndim > 1)
        squares = [weight.square().sum() for weight in getattr(self.model, "penalized", matrices)]
        return weighed.sum() * scale + l2 * torch.stack(squares).sum()


class _Loop:
    """One training's fixed parts; all that moves is in `Moving`."""

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        rows: Examples,
        settings: TrainingSettings,
        held_out: Examples,
        start: Snapshot | None,
        device: str | torch.device,
        interrupted: Callable[[], bool],
    ) -> None:
        self.processes = connect(device)
        self.device, self.world = self.processes.device, self.processes.world_size
        if settings.batch_size < self.world:
            raise InputError(f"a batch of at least {self.world}, one row a process", str(settings.batch_size))
        self.objective, self.settings, self.interrupted = objective, settings, interrupted
        model.to(self.device)
        if start is None:
            start_from_rows(model, rows.to(self.device), settings.l2)
        found = copy_of(objective)
        self.now = Moving(model, settings, None if found is None else found[1])
        self.feed = Feed(rows.to(self.device), objective, settings)
        self.judge: Judge = judge_of(model, objective, held_out.to(self.device), settings.seed)
        self.mine = share(settings.batch_size, self.processes.rank, self.world)
        self.scale = self.world / settings.batch_size
        loss: nn.Module = Loss(model, objective)
        if settings.compile == "yes":
            loss = compiled(loss, self.feed.at(0, model).rows(self.mine), self.scale, settings.penalty(0))
        self.loss = self.processes.share(loss)
        self.resumed = start is not None
        if start is not None:
            self.now.restore(start)

    def events(self) -> Iterator[Event]:
        """Steps, looks, validations and checkpoints, until something ends it."""
        now, settings = self.now, self.settings
        self.began = monotonic() - now.seconds
        if now.ended:
            yield self._finished()
            return
        if not self.resumed:
            yield from self._validate()
        saved = monotonic()
        why = self._ending()
        while not why:
            self._step()
            verdict = Verdict()
            if now.step % settings.check_every == 0:
                verdict = yield from self._look()
            if now.step % settings.valid_every == 0 or now.step == settings.steps:
                verdict = verdict if not verdict.fine else (yield from self._validate())
            if not verdict.fine:
                if now.guard.rollbacks >= settings.retries:
                    yield from self._finish("diverged", verdict.reason)
                    return
                now.go_back(verdict.reason)
                yield WentBack(now.step, now.best_step, now.rate, verdict.reason)
            why = self._ending()
            if not why and monotonic() - saved > settings.checkpoint_seconds and self._resumable:
                yield Checkpoint(self._timed().snapshot())
                saved = monotonic()
        if why == "minutes" and now.step % settings.valid_every:
            yield from self._validate()  # what was learned since the last look may be the best, or all there is
        yield from self._finish(why)

    def _step(self) -> None:
        now, settings, t = self.now, self.settings, self.now.step
        if now.copy is not None and t % settings.refresh_every == 0 and t != now.copy.refreshed_at:
            now.copy.refresh(now.model, t)
        packed = self.feed.at(t, now.model)
        if self.world > 1:
            packed = packed.rows(self.mine)
        loss = self.loss(packed, self.scale, settings.penalty(t))
        torch.autograd.backward(loss)
        if settings.clip_norm is not None:
            nn.utils.clip_grad_norm_(now.parameters, settings.clip_norm)
        now.optimizer.step(now.rate)
        now.losses.append(loss.detach())
        now.step += 1
        if now.average is not None:
            now.follow()

    def _look(self) -> Generator[Event, None, Verdict]:
        """Read the loss since the last look; every process sees the same number."""
        now = self.now
        mean = self.processes.agree(now.window.mean())
        now.losses.clear()
        now.guard, verdict = now.guard.see_loss(mean)
        yield Progress(now.step, mean, now.rate, self._timed().seconds)
        return verdict

    def _validate(self) -> Generator[Event, None, Verdict]:
        now = self.now
        value = self.judge(now.judged)
        before = now.guard.best
        now.guard, verdict = now.guard.see_validation(value)
        if verdict.fine and (before is None or value > before):
            now.keep_best()
        best = now.guard.best
        yield Validated(now.step, value, now.best_step, value if best is None else best, now.judged)
        return verdict

    def _ending(self) -> str:
        """Why to stop now, or nothing; processes agree on what clocks and people decide."""
        now, settings = self.now, self.settings
        if now.step >= settings.steps:
            return "steps"
        if settings.patience is not None and now.step - now.best_step >= settings.patience:
            return "patience"
        if not self._asks:
            return ""
        late = settings.minutes is not None and self._timed().seconds >= 60 * settings.minutes
        reason = 2 if self._resumable and self.interrupted() else 1 if late else 0
        if self.world > 1:
            reason = int(self.processes.agree(torch.tensor(reason, device=self.device), "MAX"))
        return ("", "minutes", "interrupted")[reason]

    @property
    def _asks(self) -> bool:
        """Whether all processes may be asked something now: between any steps if alone, else at every look."""
        return self.world == 1 or self.now.step % self.settings.check_every == 0

    @property
    def _resumable(self) -> bool:
        """Whether a checkpoint of now goes on bit for bit: blanks filled ahead for later steps are in none."""
        return self._asks and self.now.step % self.feed.ahead == 0

    def _timed(self) -> Moving:
        self.now.seconds = monotonic() - self.began
        return self.now

    def _finish(self, why: str, reason: str = "") -> Iterator[Event]:
        now = self._timed()
        if why == "interrupted":
            yield Checkpoint(now.snapshot())
            yield self._finished(why)
            return
        now.ended = why
        advice = advice_for(self.objective)
        message = explain(reason, now.step, now.best_step, now.guard.rollbacks, advice) if reason else ""
        now.message = message or recount(now.guard, now.best_step, advice)
        yield Checkpoint(now.snapshot())
        yield self._finished()

    def _finished(self, why: str = "") -> Finished:
        now = self.now
        if now.ended:
            now.model.load_state_dict(now.best)
        best = float("nan") if now.guard.best is None else now.guard.best
        started = starts_from_rows(now.model)
        return Finished(now.step, why or now.ended, now.best_step, best, now.seconds, now.message, started)


def try_compiled(
    model: nn.Module, objective: Objective, rows: Examples, settings: TrainingSettings, device: str | torch.device
) -> Trial | None:
    """Time a training's step plain and compiled, in one process; None where that is of no use."""
    place = connect(device)
    if place.world_size > 1:  # they would not find the same
        return None
    feed, scale = Feed(rows.to(place.device), objective, settings), 1 / settings.batch_size
    loss = Loss(model.to(place.device), objective)
    return try_out(loss, lambda step: (feed.at(step, model), scale, settings.penalty(step)), settings.steps)


def start_from_rows(model: Any, rows: Examples, l2: float = 0.0) -> None:
    """Let a model that wants to read the rows before the first step."""
    if starts_from_rows(model):
        model.start_from(rows.states, rows.observed, rows.weights, l2)


CHUNK = 2**20
"""How many sites (rows × D) are judged at a time."""
LOOKS, FEWEST_LOOKS = 16, 4
"""Draws that fill the blanks of a held-out row where not all completions are listed; and of one of very many rows."""
LOOKED = 2**15
"""Completions that are judged in one validation, if there are enough rows for `FEWEST_LOOKS` of each: with more, the
validations of a large table with blanks would take longer than its steps."""

Judge = Callable[[Any], float]
"""From a model to one number, higher is better; the same draws each time."""


def has_likelihood(model: Any) -> bool:
    """Whether a model's exact log-likelihood can be read off."""
    return isinstance(model, DensityModel) and model.normalized


def judge_of(model: Any, objective: Objective | None, rows: Tensor | Examples, seed: int) -> Judge:
    """The mean log-density of ``rows`` ``(N, D)`` for a normalized density, else minus the held-out objective.

    Rows with blanks count by the probability of what was seen of them: exact where their completions are few, else a
    bound from `LOOKS` draws, or fewer of very many rows. Rows with weights count by these.
    """
    examples = Examples.of(rows)
    if has_likelihood(model):
        ahead = examples.look_ahead(model)
        return lambda judged: weighted_mean(row_log_densities(judged, examples, seed, ahead), examples.weights)
    if objective is None:
        raise InputError("an objective for a model without a likelihood", "none", where="objective")
    fair = getattr(objective, "judged", objective)
    return lambda judged: -weighted_mean(_by_chunks(partial(_loss, judged, fair), examples, seed), examples.weights)


def row_log_densities(model: Any, rows: Examples, seed: int, ahead: Any = None) -> Tensor:
    """The log-density of what was seen of each row ``(N,)`` in float64, blanks drawn by `Examples.look_ahead`."""
    return _by_chunks(partial(_log_density, model, _looks(rows), ahead), rows, seed)


def weighted_mean(values: Tensor, weights: Tensor | None) -> float:
    """Of one value a row ``(N,)``, by the rows' weights."""
    return float(values.mean() if weights is None else (values * weights).sum() / weights.sum())


def _looks(rows: Examples) -> int:
    """Draws of each row of a validation."""
    return max(FEWEST_LOOKS, min(LOOKS, LOOKED // max(1, len(rows))))


def _log_density(model: Any, looks: int, ahead: Any, part: Examples, random: torch.Generator) -> Tensor:
    """Of what was seen of each row ``(n,)``."""
    x = part.states.long()
    if part.observed is None:
        return model.log_density(x)  # type: ignore[no-any-return]
    return bounds(model, x, part.observed, looks, random, ahead)


def _loss(model: Any, objective: Objective, part: Examples, random: torch.Generator) -> Tensor:
    """The objective at each row ``(n,)``, blanks filled by the model."""
    if part.observed is not None and isinstance(objective, ObservedObjective):
        return objective.loss(model, objective.draw_observed(part.states.long(), part.observed, random, model))
    return objective.loss(model, objective.draw(part.completed(model, random).states.long(), random))


@torch.no_grad()
def _by_chunks(values: Callable[[Examples, torch.Generator], Tensor], rows: Examples, seed: int) -> Tensor:
    """One value a row ``(N,)`` in float64, a bounded number of rows at a time."""
    each = rows.states.shape[-1] * (1 if rows.observed is None else LISTED * LOOKS)
    step, device = max(1, CHUNK // each), rows.states.device
    starts = range(0, len(rows), step)
    parts = [values(rows[slice(at, at + step)], generator(seed, "valid", at, device)) for at in starts]
    return torch.cat([part.double() for part in parts])
