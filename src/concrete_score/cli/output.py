"""Where a command's table goes: a file, whole or not at all, or CSV on standard output."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import click

from concrete_score.cli.options import Console, table
from concrete_score.errors import InputError, printable
from concrete_score.files import refuse_unwritable

if TYPE_CHECKING:
    from concrete_score.data import Form, Frame

PIPE_CLOSED = 141
"""What a shell reports of a program whose reader has gone."""
_SECONDS = 5.0
"""Between two lines of progress."""
_LONG = 500
"""Rows from which on a table is long."""

out_option = click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write there instead; the ending decides: .csv, .tsv, .data, .parquet, .npy, .npz, some also with .gz; of"
    " pictures also .png.",
)


def refuse_output(out: Path | None, form: "Form", console: Console) -> None:
    """Say no to an output path before any work is done.

    Raises:
        InputError: it exists and ``--force`` was not given, is a folder, or has an ending nobody writes.
    """
    from concrete_score.data.write import check_output

    if out is None:
        return
    if str(out) == "-":
        raise InputError("a file to write", "'-'", where="--out", fix="leave it out for standard output")
    check_output(out, form, force=console.force)
    if out.is_dir():
        raise InputError("a file to write", "a folder", where=str(out), fix="choose another --out")
    refuse_unwritable(out)


def put(frame: "Frame", out: Path | None, console: Console) -> None:
    """Write a table to its file, or as CSV to standard output."""
    put_parts([frame], out, console)


def put_parts(parts: "Iterable[Frame]", out: Path | None, console: Console) -> None:
    """Write a table that comes in parts, at least one, each as soon as it is there."""
    from concrete_score.data import to_csv, write_parts

    if out is not None:
        rows = write_parts(parts, out, force=console.force)
        console.say(f"{rows} rows written to {out}")
    elif not console.json:
        for number, frame in enumerate(parts):
            text = to_csv(frame, header=number == 0)
            if sys.stdout.isatty():
                # On a screen a stranger's control codes are shown, not obeyed; in a file or a pipe data stay data.
                text = "\n".join(printable(line) for line in text.split("\n"))
            _pour(text.encode("utf-8", "surrogateescape"))


def long_table(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> str:
    """As `table`; many rows are laid out here, in a hundredth of the time it takes to weigh every letter.

    >>> print(long_table(["name", "edges"], [["star", 5]] * 600)[:23])
    name   edges
    ──────────
    """
    if len(rows) <= _LONG:
        return table(columns, rows, title)
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    widths = [max(len(name), *map(len, column)) for name, column in zip(columns, zip(*cells, strict=True), strict=True)]
    lines = [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [list(columns), *cells]
    ]
    rule = "─" * (sum(widths) + 3 * (len(widths) - 1))
    return "\n".join([*([title] if title else []), lines[0], rule, *lines[1:]])


def _pour(data: bytes) -> None:
    """All bytes to standard output; an unbuffered stream may take only some at a time."""
    sys.stdout.flush()
    stream, rest = sys.stdout.buffer, memoryview(data)
    while rest:
        rest = rest[stream.write(rest) :]
    stream.flush()


def warn(warnings: "tuple[str, ...] | list[str]") -> None:
    """What is not to be trusted, to standard error, quiet or not."""
    for warning in warnings:
        click.echo(f"warning: {printable(warning)}", err=True)


@contextmanager
def pipes() -> Iterator[None]:
    """Within it, a reader that has seen enough (``| head``) ends the program without a word."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter would try to write the rest when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(PIPE_CLOSED)


@contextmanager
def counting(console: Console, work: str) -> Iterator[Callable[[int, int], None]]:
    """How to show steps done of steps in all: a bar on a terminal, a line now and then elsewhere, or nothing.

    >>> with counting(Console(quiet=True), "sampling") as count:
    ...     count(1, 2)
    """
    if console.quiet:
        yield lambda done, total: None
    elif sys.stderr.isatty():
        with _bar(work) as count:
            yield count
    else:
        yield Lines(work, console.say)


class Lines:
    """One plain line now and then: how much is done.

    >>> line = Lines("sampling", print, seconds=0.0)
    >>> line(1, 4)
    sampling: 25 %
    """

    def __init__(self, work: str, say: Callable[[str], None], seconds: float = _SECONDS) -> None:
        self.work, self.say, self.seconds, self.spoke = work, say, seconds, monotonic()

    def __call__(self, done: int, total: int) -> None:
        """Say it, if it is time."""
        if monotonic() - self.spoke >= self.seconds:
            self.say(f"{self.work}: {done / max(1, total):.0%}".replace("%", " %"))
            self.spoke = monotonic()


@contextmanager
def _bar(work: str) -> Iterator[Callable[[int, int], None]]:
    from rich.console import Console as Screen
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=24), TimeRemainingColumn())
    # What is written to standard output meanwhile goes to a file or a pipe, and past the bar.
    with Progress(*columns, console=Screen(stderr=True), transient=True, redirect_stdout=False) as bars:
        task = bars.add_task(work, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)
