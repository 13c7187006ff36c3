"""Events: what a training reports to its caller as it goes, and the measurements among them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from concrete_score.progress import progress
from concrete_score.training.recipe import TrainingSettings
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
        self.loss: float | None = None
        """The last one reported, which a resumed run must know: the next line may come before the next report."""

    def see(self, event: Event) -> dict[str, Any] | None:
        """The line that an event adds, if any."""
        line: dict[str, Any] | None = None
        match event:
            case Progress():
                self.loss = event.loss
            case Validated():
                line = {"step": event.step, "loss": self.loss, "valid": event.value, "best_step": event.best_step}
            case WentBack():
                back = {"went_back_to": event.to_step, "rate": event.rate, "why": event.reason}
                line = {"step": event.step, **back}
        if line is not None:
            self.lines.append(line)
        return line


Show = Callable[[Event], None]
_SECONDS = 10.0
"""Between two plain lines."""


def tell_all(*listeners: Show) -> Show:
    """One listener that tells all of them."""

    def show(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return show


@contextmanager
def training_progress(settings: TrainingSettings, *, quiet: bool = False) -> Iterator[Show]:
    """How to show events: a bar where there is a terminal, lines where there is none, nothing if ``quiet``.

    >>> with training_progress(TrainingSettings(), quiet=True) as show:
    ...     show(Progress(20, 1.5, 1e-3, 0.1))
    """
    status = Status(settings)
    with progress("starting", quiet=quiet, seconds=_SECONDS) as update:

        def show(event: Event) -> None:
            if line := status.see(event):
                update(event.step, settings.steps, line, note=isinstance(event, WentBack))

        yield show


class Status:
    """What is known so far, as one line: loss, validation, speed and the time left."""

    def __init__(self, settings: TrainingSettings) -> None:
        self.settings, self.valid = settings, ""
        self.first: tuple[int, float] | None = None

    def see(self, event: Event) -> str:
        """The line after an event; empty where there is nothing new."""
        match event:
            case Progress():
                return self._progress(event)
            case Validated():
                self.valid = f", validation {event.value:.4f} (best {event.best:.4f} at step {event.best_step:,})"
            case WentBack():
                where = f"step {event.step:,}: {event.reason}"
                return f"{where}; back to step {event.to_step:,} with rate {event.rate:.2g}"
        return ""

    def _progress(self, event: Progress) -> str:
        if self.first is None:
            self.first = (event.step, event.seconds)
        steps, seconds = event.step - self.first[0], event.seconds - self.first[1]
        speed = ""
        if steps and seconds > 0:
            left = (self.settings.steps - event.step) * seconds / steps
            if self.settings.minutes is not None:
                left = min(left, 60 * self.settings.minutes - event.seconds)
            speed = f", {steps / seconds:,.0f} steps/s, {_clock(left)} left"
        return f"step {event.step:,}/{self.settings.steps:,}: loss {event.loss:.4f}{self.valid}{speed}"


def tensorboard(folder: Path) -> Show:
    """Events as TensorBoard scalars, for callers without a `loggers.Logger`.

    Raises:
        InputError: TensorBoard is not installed.
    """
    from concrete_score.training.loggers import About, TensorBoard, values_of  # which itself reads events

    logger = TensorBoard(folder)
    logger.begin(About(folder.name))

    def show(event: Event) -> None:
        if values := values_of(event):
            logger.log(event.step, values)

    return show


def _clock(seconds: float) -> str:
    """``1:02:03`` or ``2:03``.

    >>> _clock(3723.0), _clock(9.6)
    ('1:02:03', '0:10')
    """
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
