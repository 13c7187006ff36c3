"""Progress of long work on standard error: a live bar on a terminal, plain lines elsewhere, or nothing."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from concrete_score.errors import printable

Update = Callable[..., None]
"""``update(done, total, text="", note=False)``: how much is done; ``note`` prints the text at once and for good."""
_SECONDS = 5.0
"""Between two plain lines."""


@contextmanager
def progress(work: str, *, quiet: bool = False, seconds: float = _SECONDS) -> Iterator[Update]:
    """How to report progress of ``work``.

    >>> with progress("sampling", quiet=True) as update:
    ...     update(1, 2)
    """
    if quiet:
        yield lambda done, total, text="", note=False: None
    elif sys.stderr.isatty():
        with _bar(work) as update:
            yield update
    else:
        yield Lines(work, seconds=seconds)


class Lines:
    """One plain line now and then: how much is done.

    >>> line = Lines("sampling", print, seconds=0.0)
    >>> line(1, 4)
    sampling: 25 %
    """

    def __init__(
        self,
        work: str,
        write: Callable[[str], Any] | None = None,
        seconds: float = _SECONDS,
        first: float | None = None,
    ) -> None:
        """Args: the work's name, what takes a line, and the seconds between two lines and before the first."""
        self.work, self.seconds = work, seconds
        self.last = monotonic() - (0.0 if first is None else seconds - first)
        self.write = write or (lambda line: sys.stderr.write(f"{printable(line)}\n"))

    def __call__(self, done: int, total: int, text: str = "", note: bool = False) -> None:
        """Print the line, if the last one is long enough ago."""
        if note or monotonic() - self.last >= self.seconds:
            self.write(text or f"{self.work}: {done / max(1, total):.0%}".replace("%", " %"))
            self.last = monotonic()


@contextmanager
def _bar(work: str) -> Iterator[Update]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (BarColumn(bar_width=24), TextColumn("{task.description}", markup=False))
    # What is written to standard output meanwhile goes to a file or a pipe, and past the bar.
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as bars:
        task = bars.add_task(work, total=None)

        def update(done: int, total: int, text: str = "", note: bool = False) -> None:
            if note:
                console.print(text, markup=False, highlight=False)
            else:
                bars.update(task, completed=done, total=total, description=text or work)

        yield update
