"""The moving parts of a training: what a step changes, a checkpoint holds and the guard goes back to."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from concrete_score.errors import InputError
from concrete_score.files import short
from concrete_score.training.copies import FrozenCopy
from concrete_score.training.guard import Guard
from concrete_score.training.optimizers import OPTIMIZERS
from concrete_score.training.recipe import TrainingSettings

_WARM_UP = 10
"""A moving average forgets its first steps: its decay starts at 1/10 and rises to the one asked for."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Everything needed to go on from a step, as named tensors and one JSON value."""

    step: int
    state: Mapping[str, Any]
    tensors: Mapping[str, Tensor]


@dataclass(eq=False)
class Moving:
    """Weights, their average, the optimizer, the best weights so far, the frozen copy and the guard's memory.

    The best weights are those the guard goes back to; a fresh optimizer and a smaller rate then start from there.
    """

    model: nn.Module
    settings: TrainingSettings
    copy: FrozenCopy | None = None
    step: int = 0
    restarted_at: int = 0
    best_step: int = 0
    seconds: float = 0.0
    ended: str = ""
    message: str = ""
    guard: Guard = field(default_factory=Guard)

    def __post_init__(self) -> None:
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = OPTIMIZERS[self.settings.optimizer](self.model, self.settings.weight_decay)
        self.average = None if self.settings.average is None else deepcopy(self.model).requires_grad_(False)
        self.followed: list[Tensor] = list(self.model.parameters())
        self.following: list[Tensor] = [] if self.average is None else list(self.average.parameters())
        self.best = _copy(self.judged.state_dict())
        self.device = self.parameters[0].device
        self.losses: list[Tensor] = []

    @property
    def judged(self) -> nn.Module:
        """What is validated and kept: the average where there is one."""
        return self.model if self.average is None else self.average

    @property
    def window(self) -> Tensor:
        """The losses since the last look, as one tensor."""
        return torch.stack(self.losses) if self.losses else torch.empty(0, device=self.device)

    @property
    def rate(self) -> float:
        """The learning rate of the next step."""
        return self.settings.rate(self.step, self.seconds) * self.settings.shrink**self.guard.rollbacks

    @torch.no_grad()
    def follow(self) -> None:
        """Let the average follow the weights by one step."""
        if self.average is not None and self.settings.average is not None:
            age = self.step - self.restarted_at
            decay = min(self.settings.average, (1 + age) / (_WARM_UP + age))
            torch._foreach_lerp_(self.following, self.followed, 1 - decay)

    def keep_best(self) -> None:
        """The weights judged now are the best so far."""
        self.best, self.best_step = _copy(self.judged.state_dict()), self.step

    def go_back(self, reason: str) -> None:
        """Return to the best weights with an empty optimizer and a smaller rate; steps go on counting."""
        self.model.load_state_dict(self.best)
        if self.average is not None:
            self.average.load_state_dict(self.best)
        self.optimizer.state.clear()
        self.losses.clear()
        self.restarted_at, self.guard = self.step, self.guard.went_back(reason)
        if self.copy is not None:
            self.copy.refresh(self.model, self.step)

    def snapshot(self) -> Snapshot:
        """Everything as it is now; its tensors are not copies."""
        parts: dict[str, Mapping[str, Tensor]] = {"weights": self.model.state_dict(), "best": self.best}
        if self.average is not None:
            parts["average"] = self.average.state_dict()
        if self.copy is not None:
            parts["proposal"] = self.copy.frozen.state_dict()
        for i, values in self.optimizer.state.items():
            parts[f"optimizer/{i}"] = values
        tensors = {f"{part}/{name}": value for part, values in parts.items() for name, value in values.items()}
        state = {
            "guard": self.guard.to_json(),
            "restarted_at": self.restarted_at,
            "best_step": self.best_step,
            "seconds": self.seconds,
            "ended": self.ended,
            "message": self.message,
            "refreshed_at": None if self.copy is None else self.copy.refreshed_at,
        }
        return Snapshot(self.step, state, {**tensors, "window": self.window})

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot, bit for bit.

        Raises:
            InputError: the snapshot is of another model or other settings.
        """
        parts: dict[str, dict[str, Tensor]] = {}
        for path, value in snapshot.tensors.items():
            part, _, name = path.partition("/")
            parts.setdefault(part, {})[name] = value
        with refuse_other_checkpoint():
            self._load(parts, snapshot)

    def _load(self, parts: dict[str, dict[str, Tensor]], snapshot: Snapshot) -> None:
        state = snapshot.state
        self.model.load_state_dict(parts["weights"])
        self.best = {name: value.to(self.device) for name, value in parts["best"].items()}
        if self.average is not None:
            self.average.load_state_dict(parts["average"])
        memory: dict[int, dict[str, Tensor]] = {}
        for path, value in parts.get("optimizer", {}).items():
            i, _, name = path.partition("/")
            memory.setdefault(int(i), {})[name] = value
        self.optimizer.load(memory)
        if self.copy is not None:
            frozen = {name: value.to(self.device) for name, value in parts["proposal"].items()}
            self.copy.load(frozen, state["refreshed_at"])
        self.losses = list(parts["window"][""].to(self.device))
        self.step, self.restarted_at, self.best_step = snapshot.step, state["restarted_at"], state["best_step"]
        self.seconds, self.guard = state["seconds"], Guard(**state["guard"])
        self.ended, self.message = state["ended"], state["message"]
        check_types(self, restarted_at=int, best_step=int, seconds=float, ended=str, message=str)
        check_types(self.guard, rollbacks=int, last=str, typical=_NUMBER, start=_NUMBER, best=_NUMBER, first=_NUMBER)


@contextmanager
def refuse_other_checkpoint() -> Iterator[None]:
    """Within it, whatever the values of an untrusted checkpoint provoke is one line.

    Raises:
        InputError: it is of another model or other settings.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise InputError("a checkpoint of this model and these settings", short(error), where="checkpoint") from None


def check_types(values: Any, **kinds: Any) -> None:
    """Refuse attributes of another type; a whole number is a number.

    Raises:
        TypeError: one is; it is named.
    """
    for name, kind in kinds.items():
        value = getattr(values, name)
        if not isinstance(value, kind if kind is not float else int | float) or isinstance(value, bool):
            raise TypeError(f"{name} is {value!r}")


_NUMBER = int | float | None


def _copy(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in weights.items()}
