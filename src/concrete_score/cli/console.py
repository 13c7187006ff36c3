"""What all commands share: options, opening a run, reading data, and printing: results to standard output, messages to
standard error."""

import gc
import json as json_text
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import click

from concrete_score.bench.checks import Check
from concrete_score.defaults import LEVELS, MAX_CATEGORIES, MAX_CODES, MAX_LEVELS, MISSING, THRESHOLD, UNKNOWN
from concrete_score.errors import Command, InputError, Option, Text, printable, spell
from concrete_score.files import finite, refuse_existing, refuse_unwritable
from concrete_score.progress import Update, progress

if TYPE_CHECKING:
    import torch

    from concrete_score.answers import Given
    from concrete_score.data.frame import Frame
    from concrete_score.data.streams import Stream
    from concrete_score.model import Model

PIPE_CLOSED = 141
"""What a shell reports of a program whose reader has gone."""
FILE_OPTIONS = ("encoding", "header", "separator")
"""Options that say how a file of text is read."""
_LONG = 500
"""Rows from which on a table is long."""


class CommandLine:
    """The skin of the command line: options as flags.

    >>> CommandLine().options([Option("bins", {"net pay": 10}), Option("drop", ["id"]), Option("force", True)])
    "--bins 'net pay=10' --drop id --force"
    """

    verb = "add"
    arguments: Mapping[str, str] = {"data": "DATA", "run": "RUN"}

    def options(self, options: Sequence[Option]) -> str | None:
        """Each option with each of its values."""
        return " ".join(text for option in options for text in self._spelled(option))

    def command(self, command: Command) -> str | None:
        """As it is typed."""
        return f"csm {command.name}"

    def _spelled(self, option: Option) -> list[str]:
        flag = self.arguments.get(option.name, f"--{option.name.replace('_', '-')}")
        value = option.value
        if value is None or value is True:
            return [flag]
        if isinstance(value, Mapping):
            value = [f"{key}={each}" for key, each in value.items()]
        return [f"{flag} {shlex.quote(str(each))}" for each in (value if isinstance(value, list | tuple) else [value])]


SKIN = CommandLine()


def _tell(line: str) -> None:
    """A line to standard error, above a live bar: what click finds by itself goes past the bar, and into its line."""
    click.echo(line, file=sys.stderr)


@contextmanager
def _imported_at_once() -> Iterator[None]:
    """Imports PyTorch without looking for garbage among what stays: a tenth of the time that a command starts in."""
    if "torch" in sys.modules:
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@dataclass(frozen=True)
class Console:
    """The common options of one call, and how it prints results, messages and warnings.

    >>> Console(json=True).give({"loss": float("nan")}, str)
    {
     "loss": null
    }
    """

    seed: int = 0
    device: str = "cpu"
    threads: int | None = None
    quiet: bool = False
    json: bool = False
    force: bool = False

    def say(self, message: Text) -> None:
        """A message to standard error, unless quiet."""
        if not self.quiet:
            _tell(printable(spell(message, SKIN) or ""))

    def show(self, text: str) -> None:
        """Lines to standard error, unless quiet, whose cells are escaped already."""
        if not self.quiet:
            _tell(text)

    def warn(self, warnings: Iterable[str]) -> None:
        """Warnings to standard error, quiet or not."""
        for warning in warnings:
            _tell(f"warning: {printable(warning)}")

    def give(self, value: Mapping[str, Any], text: Callable[[], str]) -> None:
        """The result, to standard output: one JSON object, or the text made for people."""
        click.echo(json_text.dumps(finite(value), indent=1, allow_nan=False) if self.json else text())

    def progress(self, work: str) -> AbstractContextManager[Update]:
        """How to report progress of ``work``."""
        return progress(work, quiet=self.quiet)

    def use_torch(self) -> "torch.device":
        """Set the number of threads and give the device.

        Raises:
            InputError: PyTorch cannot use it here.
        """
        with _imported_at_once():
            import torch

            from concrete_score.training.processes import usable

        if self.threads is not None:
            torch.set_num_threads(self.threads)
        return usable(self.device)

    def refuse_output(self, out: Path | None, kind: str = "table", form: str = "csv") -> None:
        """Refuse an output path before any work is done.

        Raises:
            InputError: it exists and may not be replaced, is a folder, or has an ending that nothing writes.
        """
        from concrete_score.data.formats import writer_of

        if out is None:
            return
        if str(out) == "-":
            raise InputError("a file to write", "'-'", Option("out"), "leave it out for standard output")
        writer_of(out, kind, form)
        refuse_existing(out, self.force)
        if out.is_dir():
            raise InputError("a file to write", "a folder", str(out), ("choose another ", Option("out")))
        refuse_unwritable(out)

    def put(self, parts: Iterable[Any], out: Path | None, noun: str = "rows") -> None:
        """Write data that come in parts, at least one: to a file, or as CSV to standard output."""
        if out is not None:
            from concrete_score.data.formats import write_file

            rows = write_file(parts, out, force=self.force)
            self.say(f"{rows} {noun} written to {out}")
        elif not self.json:
            for number, part in enumerate(parts):
                text = part.frame().to_csv(header=number == 0)
                if sys.stdout.isatty():
                    # On a screen control characters are shown, not obeyed; in a file or a pipe data stay data.
                    text = "\n".join(printable(line) for line in text.split("\n"))
                _write_all(text.encode("utf-8", "surrogateescape"))


def open_model(path: Path, console: Console) -> "Model":
    """The model of a run, on the device asked for; one that training did not improve is warned of."""
    device = console.use_torch()
    from concrete_score.model import Model

    model = Model.open(path, device=device, seed=console.seed)
    if model.untrained:
        console.warn([f"{path}: the model is as it was before training, for no step improved on it"])
    return model


def read_data(model: "Model", data: str, console: Console, **how: Any) -> "Given":
    """The data that a model is asked about; what was left out or looks wrong is reported."""
    given = model.read(data, say=console.say, **how)
    for note in given.notes:
        console.say(note)
    console.warn(given.warnings)
    return given


def open_data(model: "Model", data: Sequence[str], console: Console, **how: Any) -> "Given | Stream":
    """The data that a model is asked about: read at once, or in parts where there is too much of it.

    Several files, or a folder of them, are one table, if the model's data are tables.
    """
    from concrete_score.data.streams import stream_if_large

    options = {name: value for name, value in (how.get("reading") or {}).items() if value is not None}
    paths = len(data) > 1 or not how.get("data_dir")  # one word may be a name in that folder
    stream = stream_if_large(data, options, console.say) if model.codec.by_rows and paths else None
    if stream is not None:
        return stream
    if len(data) > 1:
        expected = "one file; several are read as one for tables alone"
        raise InputError(expected, f"{len(data)}", Option("data"), "ask about one after the other")
    return read_data(model, data[0], console, **how)


def refuse_own_input(source: "Given | Stream", *outs: Path | None) -> None:
    """Refuse to write over a file that is still to be read, in parts.

    Raises:
        InputError: an output is one of the inputs.
    """
    read = {each.path.resolve() for each in getattr(source, "sources", ()) if each.path is not None}
    for out in outs:
        if out is not None and out.resolve() in read:
            fix = ("choose another ", Option("out"))
            raise InputError("another file than those that are read in parts", "one of them", str(out), fix)


def rows_of(source: "Given | Stream", progress: Update) -> "Given | Iterator[Frame]":
    """What was read, or the parts of what is to be read, whose progress is told in rows and bytes."""
    parts = getattr(source, "parts", None)
    return source if parts is None else parts(progress)  # type: ignore[return-value]


def examples(*lines: str) -> str:
    r"""The Examples section at the end of a command's help, kept line by line.

    >>> examples("csm demo")
    '\x08\nExamples:\n  csm demo'
    """
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = "", *, screen: bool | None = None
) -> str:
    """A table for people, folded to the width of a ``screen``, which by default is standard output if it is one;
    control characters are escaped.

    >>> print(table(["name", "edges"], [["star", 5]]))
    name   edges
    ────────────
    star   5
    """
    if len(rows) > _LONG:
        return _long_table(columns, rows, title)
    from io import StringIO

    from rich import box
    from rich.console import Console as RichConsole
    from rich.table import Table
    from rich.text import Text as RichText

    view = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, title_justify="left", title_style="bold")
    for column in columns:
        view.add_column(RichText(column), overflow="fold")
    for row in rows:
        view.add_row(*(RichText(printable(str(cell))) for cell in row))
    page = StringIO()
    screen = sys.stdout.isatty() if screen is None else screen
    # Into a file or a pipe no line is cut: other programs read it.
    RichConsole(file=page, width=None if screen else 1000, force_terminal=screen).print(view)
    body = "\n".join(line.rstrip() for line in page.getvalue().rstrip("\n").split("\n"))
    return f"{title}\n{body}" if title else body


def _long_table(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str) -> str:
    """The same layout for many rows, a hundred times as fast as one that measures every character's width."""
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    widths = [max(len(name), *map(len, column)) for name, column in zip(columns, zip(*cells, strict=True), strict=True)]
    lines = [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [list(columns), *cells]
    ]
    rule = "─" * (sum(widths) + 3 * (len(widths) - 1))
    return "\n".join([*([title] if title else []), lines[0], rule, *lines[1:]])


def checks_table(checks: Sequence[Check], title: str = "") -> str:
    """Measured values beside their bounds.

    >>> print(checks_table([Check.at_most("a / b", 0.2, 0.5)]))
    check   value   bound    ok
    ────────────────────────────
    a / b   0.2     <= 0.5   yes
    """
    rows = [(check.name, check.value_text, check.bound_text, "yes" if check.ok else "NO") for check in checks]
    return table(["check", "value", "bound", "ok"], rows, title)


@contextmanager
def pipes() -> Iterator[None]:
    """Within it, a reader that has seen enough (``| head``) ends the program without a message."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter would try to write the rest when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(PIPE_CLOSED)


def _write_all(data: bytes) -> None:
    """All bytes to standard output; an unbuffered stream may take only some at a time."""
    sys.stdout.flush()
    stream, rest = sys.stdout.buffer, memoryview(data)
    while rest:
        rest = rest[stream.write(rest) :]
    stream.flush()


P = ParamSpec("P")

_COMMON = (
    click.option(
        "--seed", metavar="N", type=click.IntRange(min=0), default=0, help="Same seed, same result; 0 by default."
    ),
    click.option("--device", metavar="NAME", default="cpu", help="Where tensors live: cpu (the default), cuda, …"),
    click.option(
        "--threads", metavar="N", type=click.IntRange(min=1, max=1024), help="How many threads PyTorch may use."
    ),
    click.option("--quiet", is_flag=True, help="No messages on standard error, but warnings and errors."),
    click.option("--json", is_flag=True, help="Print one JSON object instead of a table."),
    click.option("--force", is_flag=True, help="Write over what is there."),
)

_FILES = (
    click.option("--encoding", metavar="NAME", help="A text file's encoding, such as cp1250; noticed by itself."),
    click.option(
        "--header",
        type=click.Choice(["auto", "yes", "no"]),
        help="Whether a text file's first line names the columns; noticed by itself.",
    ),
    click.option(
        "--separator",
        metavar="CHAR",
        help="What separates a text file's cells: one character, or comma, semicolon, tab, bar, space; noticed by"
        " itself.",
    ),
)

_SEQUENCES = {
    "alphabet": (str, "Of sequences: protein, dna, rna, or the letters themselves; inferred by default."),
    "tokens": (str, "Of text: characters (the default) or words."),
    "window": (int, "Of text: so many tokens an example, lines running on; by default a line is one."),
    "gaps": (str, "Of an alignment: 'letter', a gap is a value, or 'blank', it is nothing observed (so in A2M)."),
    "extra": (
        str,
        "Of FASTA: A,B,… fields NAME=VALUE of the header lines, such as a class, modelled with the letters.",
    ),
    "focus": (str, "Of an A2M alignment: the sequence that numbers the columns; the first by default."),
    "weights": (str, "identity=0.8: a sequence counts as one over how many agree with it at 80 % of the sites."),
}
_READING = (
    click.option("--columns", metavar="A,B,…", help="Use these columns alone."),
    click.option("--drop", metavar="COLUMN", multiple=True, help="Leave a column out; may be repeated."),
    click.option(
        "--column",
        metavar="COLUMN=KIND",
        multiple=True,
        help="What a column is: category, number, date, text, identifier or constant; inferred by default.",
    ),
    click.option(
        "--bins",
        metavar="[COLUMN=]COUNT",
        multiple=True,
        help="Cut a column of numbers, or all of them, into quantile ranges, which are then its values.",
    ),
    click.option(
        "--na",
        metavar="TEXT",
        multiple=True,
        help="Take this text for a blank cell; may be repeated. In text files by default NA, NaN, null, ? and such.",
    ),
    click.option(
        "--max-categories",
        metavar="N",
        type=click.IntRange(min=2),
        help=f"The most values of a category; {MAX_CATEGORIES} texts, {MAX_CODES} whole numbers.",
    ),
    click.option(
        "--missing",
        type=click.Choice(MISSING),
        help="Blank cells: count them as unobserved (the default), drop their rows, make them a category, refuse them.",
    ),
    click.option("--weight", metavar="COLUMN", help="A column that says as how many rows each row counts."),
    click.option(
        "--levels",
        metavar="L",
        type=click.IntRange(2, MAX_LEVELS),
        help=f"Grey levels of images; {LEVELS}, which are bits.",
    ),
    click.option(
        "--threshold",
        metavar="T",
        type=float,
        help=f"With two levels: the share of the largest grey value above which a pixel is white; {THRESHOLD}.",
    ),
    *(click.option(f"--{name}", metavar="X", help=text, type=kind) for name, (kind, text) in _SEQUENCES.items()),
    *_FILES,
)

run_argument = click.argument("path", metavar="RUN", type=click.Path(path_type=Path))
data_argument = click.argument("data", metavar="DATA")
data_arguments = click.argument("data", metavar="DATA...", nargs=-1, required=True)
jobs_option = click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1, max=1024),
    default=1,
    help="So many processes share the rows, one thread each; the same result. 1 by default.",
)
data_dir_option = click.option(
    "--data-dir", metavar="DIR", type=click.Path(), help="A folder of named data sets, looked into first."
)
unknown_option = click.option(
    "--unknown",
    type=click.Choice(UNKNOWN),
    default=UNKNOWN[0],
    help="Values never seen in training: score them by the probability reserved for them (the default), refuse them, or"
    " skip their rows.",
)
missing_option = click.option(
    "--missing",
    type=click.Choice([MISSING[0], MISSING[1], MISSING[3]]),
    help="Blank cells: not observed (the default for tables); drop their rows; or refuse them with a count.",
)
passes_option = click.option(
    "--passes",
    metavar="P",
    type=click.IntRange(min=1),
    help="Of a model with noise levels: about how many network passes each draw may take.",
)
out_option = click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The file to write; its ending decides the format ('csm list formats').",
)


def common_options(command: Callable[Concatenate[Console, P], None]) -> Callable[..., None]:
    """Add the common options to a command and hand them over as one `Console`."""
    names = [field.name for field in fields(Console)]

    @wraps(command)
    def with_console(*args: Any, **given: Any) -> None:
        console = Console(**{name: given.pop(name) for name in names})
        command(console, *args, **given)

    return _with(with_console, _COMMON)


def reading_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say how data are read and hand them over as ``reading``, None where not given."""

    @wraps(command)
    def with_reading(*args: Any, **given: Any) -> None:
        columns, drop, column, bins, na = (given.pop(name) for name in ("columns", "drop", "column", "bins", "na"))
        alone = ("max_categories", "missing", "weight", "levels", "threshold", *_SEQUENCES, *FILE_OPTIONS)
        reading = {name: given.pop(name) for name in alone}
        reading |= {"columns": columns.split(",") if columns else None, "drop": list(drop) or None}
        reading |= {"bins": _bins(bins), "na": list(na) or None, "column": dict(map(_kind, column)) or None}
        command(*args, reading=reading, **given)

    return _with(with_reading, _READING)


def file_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say how a file of text is read and hand them over as ``reading``, None where not given."""

    @wraps(command)
    def with_reading(*args: Any, **given: Any) -> None:
        command(*args, reading={name: given.pop(name) for name in FILE_OPTIONS}, **given)

    return _with(with_reading, _FILES)


def was_given(name: str) -> bool:
    """Whether an option of the running command was given, rather than left to its default."""
    source = click.get_current_context().get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _with(command: Callable[..., None], options: tuple[Any, ...]) -> Callable[..., None]:
    for option in reversed(options):
        command = option(command)
    return command


def _kind(text: str) -> tuple[str, str]:
    name, sign, kind = text.rpartition("=")
    if not sign or not name or not kind:
        fix = ("for example ", Option("column", {"zip": "category"}))
        raise InputError("COLUMN=KIND", repr(text), Option("column"), fix)
    return name, kind


def _bins(texts: Sequence[str]) -> Any:
    """One count for all columns of numbers, or a count for each of some; None where none is given."""
    if len(texts) == 1 and texts[0].isdecimal() and len(texts[0]) <= 6:
        return int(texts[0])
    return dict(map(_pair, texts)) or None


def _pair(text: str) -> tuple[str, int]:
    name, sign, count = text.rpartition("=")
    if not sign or not name or not count.isdecimal() or len(count) > 6:
        raise InputError("COLUMN=COUNT", repr(text), Option("bins"), ("for example ", Option("bins", {"age": 10})))
    return name, int(count)
