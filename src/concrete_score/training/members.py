"""Training member after member: the members of a mixture learn one by one, then held-out rows weigh them."""

import operator
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from time import monotonic
from typing import Any

import torch
from torch import Tensor, nn

from concrete_score.models.mixture import best_weights
from concrete_score.protocols import Objective
from concrete_score.training import loop
from concrete_score.training.copies import copy_of
from concrete_score.training.events import Checkpoint, Event, Finished, Progress, Validated, WentBack
from concrete_score.training.examples import Examples
from concrete_score.training.processes import connect
from concrete_score.training.recipe import TrainingSettings
from concrete_score.training.state import Snapshot, check_types, refuse_other_checkpoint

_INNER = "inner/"
"""Before the names of what a checkpoint holds of the member in training."""


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
    """`loop.train`; the members of a mixture are trained one by one.

    A member is trained by the settings of its own over the others, with no look at the other members. After each, the
    weights of all so far are those that explain the held-out rows best. Where ``minutes`` are given, a member has an
    equal share of what is left of them.

    >>> from concrete_score import objectives
    >>> from concrete_score.models.mixture import MixtureModel
    >>> from concrete_score.spaces import Space
    >>> rows = torch.tensor([[0, 0], [1, 1], [1, 1], [0, 0], [0, 1]])
    >>> model = MixtureModel(Space.bits(2), generator=torch.Generator().manual_seed(0))
    >>> settings = TrainingSettings(steps=100, lr=0.01, valid_every=50)
    >>> events = list(train(model, objectives.build("maximum_likelihood", model.space), rows, settings))
    >>> events[-1].why, bool(events[-1].best > -1.2)
    ('steps', True)
    """
    options: dict[str, Any] = {"device": device, "interrupted": interrupted}
    if hasattr(model, "members"):
        held_out = rows[: loop.WITHOUT] if valid is None or not len(valid) else valid
        learned = Examples.of(rows)
        yield from _Members(model, objective, learned, settings, Examples.of(held_out), options).events(start)
    else:
        yield from loop.train(model, objective, rows, settings, valid, start=start, **options)


def fit(
    model: nn.Module, objective: Objective, rows: Tensor | Examples, settings: TrainingSettings, **options: Any
) -> Finished:
    """`train` to the end, in silence."""
    *_, last = train(model, objective, rows, settings, **options)
    if not isinstance(last, Finished):
        raise RuntimeError("training ended without an ending")
    return last


class _Members:
    """One training's fixed parts, and how far it is."""

    def __init__(
        self,
        model: Any,
        objective: Objective,
        rows: Examples,
        settings: TrainingSettings,
        valid: Examples,
        options: dict[str, Any],
    ) -> None:
        device = connect(options["device"]).device
        self.model, self.objective = model.to(device), objective
        self.rows, self.valid = rows.to(device), valid.to(device)
        self.settings, self.options = settings, options
        self.each = [_settings(settings, i, given) for i, given in enumerate(model.trainings)]
        self.at, self.seconds, self.best_step, self.ended, self.message = 0, 0.0, 0, "", ""
        self.value: float | None = None
        self.columns: list[Tensor] = []
        self.took: list[int] = []
        """Steps of the members that are done: fewer than planned where patience or time ended them."""

    def events(self, start: Snapshot | None) -> Iterator[Event]:
        """Members, each to its end, and their weights."""
        inner = None if start is None else self._restore(start)
        if self.ended:
            yield self._finished()
            return
        while self.at < len(self.each):
            settings, steps = self.each[self.at], 0
            if settings is None or self._late:
                began = monotonic()
                loop.start_from_rows(self.model.members[self.at], self.rows)
            else:
                ended = yield from self._train(settings, inner)
                if ended.why == "interrupted":
                    yield replace(self._finished(), why="interrupted", step=self._offset + ended.step)
                    return
                self.seconds, self.message = self.seconds + ended.seconds, ended.message or self.message
                steps = ended.step
                began = monotonic()
            inner, weighed = None, self._weigh(steps)
            self.seconds += monotonic() - began
            yield weighed
        self.ended = "minutes" if self._late else "steps"
        yield Checkpoint(self._snapshot(None))
        yield self._finished()

    def _train(self, settings: TrainingSettings, inner: Snapshot | None) -> Generator[Event, None, Finished]:
        """The events of one member's training, by the steps of all, and its end."""
        offset, member = self._offset, self.model.members[self.at]
        if self.settings.minutes is not None:
            later = sum(each is not None for each in self.each[self.at :])
            settings = replace(settings, minutes=(self.settings.minutes - self.seconds / 60) / later)
        objective = _learned_by(self.objective, member)
        for event in loop.train(member, objective, self.rows, settings, self.valid, start=inner, **self.options):
            match event:
                case Progress():
                    yield replace(event, step=offset + event.step, seconds=self.seconds + event.seconds)
                case Validated():
                    yield replace(event, step=offset + event.step, best_step=offset + event.best_step)
                case WentBack():
                    yield replace(event, step=offset + event.step, to_step=offset + event.to_step)
                case Checkpoint():
                    if not event.snapshot.state["ended"]:
                        yield Checkpoint(self._snapshot(event.snapshot))
                case Finished():
                    return event
        raise RuntimeError("training ended without an ending")

    def _weigh(self, steps: int) -> Validated:
        """Let a member in that is ready after so many steps: new weights of all so far, and their validation."""
        self.columns.append(self._column(self.at))
        self.took.append(steps)
        self.at += 1
        table = torch.stack(self.columns, -1)
        log_weights = best_weights(table, self.valid.weights)
        self.model.log_weights.fill_(-torch.inf)
        self.model.log_weights[: self.at] = log_weights
        self.value = loop.weighted_mean((table + log_weights).logsumexp(-1), self.valid.weights)
        self.best_step = self._offset
        return Validated(self.best_step, self.value, self.best_step, self.value, self.model)

    def _column(self, place: int) -> Tensor:
        """``log q_m`` of the held-out rows ``(n,)``."""
        member = self.model.members[place]
        return loop.row_log_densities(member, self.valid, self.settings.seed, self.valid.look_ahead(member))

    @property
    def _late(self) -> bool:
        return self.settings.minutes is not None and self.seconds >= 60 * self.settings.minutes

    @property
    def _offset(self) -> int:
        """Steps of the members before this one."""
        return sum(self.took)

    def _snapshot(self, inner: Snapshot | None) -> Snapshot:
        tensors = {f"best/{name}": value for name, value in self.model.state_dict().items()}
        state: dict[str, Any] = {"member": self.at, "inner": None, "value": self.value, "took": list(self.took)}
        step = self._offset
        if inner is not None:
            step += inner.step
            tensors |= {_INNER + name: value for name, value in inner.tensors.items()}
            state["inner"] = {"step": inner.step, "state": dict(inner.state)}
        known = {name: getattr(self, name) for name in ("seconds", "best_step", "ended", "message")}
        return Snapshot(step, {**state, **known}, tensors)

    def _restore(self, start: Snapshot) -> Snapshot | None:
        """Go on from a snapshot; what it holds of the member that was in training."""
        parts = [{}, {}]  # type: list[dict[str, Tensor]]
        for name, value in start.tensors.items():
            inner = name.startswith(_INNER)
            parts[inner][name.removeprefix(_INNER if inner else "best/")] = value
        with refuse_other_checkpoint():
            state = start.state
            self.model.load_state_dict(parts[0])
            self.at, self.value, self.seconds = state["member"], state["value"], state["seconds"]
            self.best_step, self.ended, self.message = state["best_step"], state["ended"], state["message"]
            check_types(self, at=int, best_step=int, seconds=float, ended=str, message=str, value=int | float | None)
            if not 0 <= self.at <= len(self.each):
                raise ValueError(f"member {self.at} of {len(self.each)}")
            planned = [0 if each is None else each.steps for each in self.each[: self.at]]
            self.took = [operator.index(each) for each in state.get("took", planned)]  # kept since 0.2.0
            if len(self.took) != self.at:
                raise ValueError(f"steps of {len(self.took)} members of {self.at}")
            known = state["inner"]
            inside = None if known is None else Snapshot(known["step"], known["state"], parts[1])
        self.columns = [] if self.ended else [self._column(i) for i in range(self.at)]
        return inside

    def _finished(self) -> Finished:
        best = float("nan") if self.value is None else self.value
        started = loop.starts_from_rows(self.model)
        return Finished(self._offset, self.ended, self.best_step, best, self.seconds, self.message, started)


def _learned_by(objective: Any, member: nn.Module) -> Any:
    """The objective of one member: edges that the mixture would propose are proposed by the member."""
    found = copy_of(objective)
    if found is None:
        return objective
    name, copy = found
    return replace(objective, edges=replace(objective.edges, **{name: copy.of(member)}))


def _settings(settings: TrainingSettings, place: int, given: Any) -> TrainingSettings | None:
    """Of one member's training: its own over the others', with a seed of its own; None where it has none."""
    if given is None:
        return None
    return TrainingSettings.of({**settings.to_json(), "seed": settings.seed + place, **given})
