"""Progress for people, on standard error: a live bar on a terminal, plain lines elsewhere, or nothing."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

from concrete_score.errors import InputError
from concrete_score.training.events import Event, Progress, Validated, WentBack
from concrete_score.training.settings import TrainingSettings

Show = Callable[[Event], None]
_SECONDS = 10.0
"""Between two plain lines."""


@contextmanager
def progress(settings: TrainingSettings, *, quiet: bool = False) -> Iterator[Show]:
    """How to show events: a bar where there is a terminal, lines where there is none, silence where asked.

    >>> with progress(TrainingSettings(), quiet=True) as show:
    ...     show(Progress(20, 1.5, 1e-3, 0.1))
    """
    if quiet:
        yield lambda event: None
    elif sys.stderr.isatty():
        with _bar(settings) as show:
            yield show
    else:
        yield Lines(settings)


class Lines:
    """One plain line now and then: loss, validation, speed and the time left."""

    def __init__(self, settings: TrainingSettings, write: Callable[[str], Any] | None = None) -> None:
        self.status = Status(settings)
        self.write = write or (lambda line: sys.stderr.write(f"{line}\n"))
        self.spoke = monotonic()

    def __call__(self, event: Event) -> None:
        """Say it, if it is time."""
        line = self.status.see(event)
        if isinstance(event, WentBack) or (line and monotonic() - self.spoke >= _SECONDS):
            self.write(line)
            self.spoke = monotonic()


class Status:
    """What is known so far, as one line."""

    def __init__(self, settings: TrainingSettings) -> None:
        self.settings, self.valid = settings, ""
        self.first: tuple[int, float] | None = None

    def see(self, event: Event) -> str:
        """The line after an event; empty where there is nothing new to say."""
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


@contextmanager
def _bar(settings: TrainingSettings) -> Iterator[Show]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bars

    status, console = Status(settings), Console(stderr=True)
    columns = (BarColumn(bar_width=24), TextColumn("{task.description}", markup=False))
    with Bars(*columns, console=console, transient=True) as bars:
        task = bars.add_task("starting", total=settings.steps)

        def show(event: Event) -> None:
            line = status.see(event)
            if isinstance(event, WentBack):
                console.print(line, markup=False, highlight=False)
            elif line:
                bars.update(task, completed=event.step, description=line)

        yield show


def tensorboard(folder: Path) -> Show:
    """Events as TensorBoard scalars.

    Raises:
        InputError: TensorBoard is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError(
            "TensorBoard", "an installation without it", fix="pip install 'concrete-score[tensorboard]'"
        ) from None
    writer: Any = SummaryWriter(str(folder))

    def show(event: Event) -> None:
        if isinstance(event, Progress):
            writer.add_scalar("loss", event.loss, event.step)
            writer.add_scalar("rate", event.rate, event.step)
        elif isinstance(event, Validated):
            writer.add_scalar("validation", event.value, event.step)
            writer.flush()

    return show


def _clock(seconds: float) -> str:
    """``1:02:03`` or ``2:03``.

    >>> _clock(3723.0), _clock(9.6)
    ('1:02:03', '0:10')
    """
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
