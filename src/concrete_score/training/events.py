"""Events: what a training reports to its caller as it goes, and the measurements among them."""

from dataclasses import dataclass, field
from typing import Any

from torch import nn

from concrete_score.training.state import Snapshot


@dataclass(frozen=True)
class Progress:
    """The mean loss since the last one."""

    step: int
    loss: float
    rate: float
    seconds: float


@dataclass(frozen=True)
class Validated:
    """A judgement of the current weights; higher is better."""

    step: int
    value: float
    best_step: int
    best: float
    judged: nn.Module | None = field(default=None, repr=False, compare=False)
    """What was judged: the average where there is one. It changes with the next step."""


@dataclass(frozen=True)
class WentBack:
    """The guard returned to the best weights with a smaller rate."""

    step: int
    to_step: int
    rate: float
    reason: str


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A moment to save; the snapshot's tensors change with the next step."""

    snapshot: Snapshot

    @property
    def step(self) -> int:
        return self.snapshot.step


@dataclass(frozen=True)
class Finished:
    """The end; unless interrupted, the model now holds its best weights."""

    step: int
    why: str
    """``steps``, ``patience``, ``minutes``, ``interrupted`` or ``diverged``."""
    best_step: int
    best: float
    seconds: float
    message: str = ""
    started: bool = False
    """Whether the model knew the rows before the first step."""

    @property
    def diverged(self) -> bool:
        """Ended by the guard."""
        return self.why == "diverged"

    @property
    def usable(self) -> bool:
        """Whether the model is better than an untrained one."""
        return self.best_step > 0 or self.started


Event = Progress | Validated | WentBack | Checkpoint | Finished


class History:
    """The measurements of a training, one line a validation or a return of the guard: what ``metrics.jsonl`` holds."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self._loss: float | None = None

    def see(self, event: Event) -> dict[str, Any] | None:
        """The line that an event adds, if any."""
        line: dict[str, Any] | None = None
        match event:
            case Progress():
                self._loss = event.loss
            case Validated():
                line = {"step": event.step, "loss": self._loss, "valid": event.value, "best_step": event.best_step}
            case WentBack():
                back = {"went_back_to": event.to_step, "rate": event.rate, "why": event.reason}
                line = {"step": event.step, **back}
        if line is not None:
            self.lines.append(line)
        return line
