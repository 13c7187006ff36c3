"""Opening a run for a command: the run, its codec and its fitted model, whoever made them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from concrete_score.cli.options import Console
from concrete_score.cli.output import warn
from concrete_score.errors import InputError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from concrete_score.cli.kinds import Kind
    from concrete_score.data import Frame, Rows, TableCodec
    from concrete_score.fitted import Fitted
    from concrete_score.runs import Run

run_argument = click.argument("path", metavar="RUN", type=click.Path(path_type=Path))

missing_option = click.option(
    "--missing",
    type=click.Choice(["refuse", "drop"]),
    default="refuse",
    help="Blank cells: refuse them with a count (the default), or drop their rows.",
)


@dataclass(frozen=True, eq=False)
class Opened:
    """A run with what a command needs of it."""

    run: "Run"
    kind: "Kind"
    codec: Any
    """A codec of that kind."""
    fitted: "Fitted"
    seed: int
    device: "torch.device"

    def generator(self, stream: str) -> "torch.Generator":
        """The randomness of one use of the model."""
        from concrete_score.randomness import generator

        return generator(self.seed, stream, device=self.device)


class Wish(NamedTuple):
    """What to fill, and how."""

    data: str
    data_dir: str | None
    unknown: str
    draws: int | None
    sampler: str | None
    passes: int | None


def open_run(path: Path, console: Console) -> Opened:
    """The run with its best model, every name in it looked up in the registry.

    Raises:
        InputError: no run, a damaged one, one without a model yet, or one that this version cannot build.
    """
    device = console.use_torch()
    from concrete_score import runs
    from concrete_score.fitted import Fitted
    from concrete_score.training.loop import starts_from_rows

    run = runs.open(path)
    kind, codec = kind_and_codec(run)
    with strangers(run):
        model = run.model().to(device)
        if run.model_file().step == 0 and not starts_from_rows(model):
            warn([f"{path}: the model is as it was before training, for no step improved on it"])
        model = model.double() if kind.precise else model
        fitted = Fitted(model, codec.space, describe=kind.describe(codec), from_noise=kind.from_noise)
    return Opened(run, kind, codec, fitted, console.seed, device)


def kind_and_codec(run: "Run") -> "tuple[Kind, Any]":
    """The kind of data a run was made of, and its codec.

    Raises:
        InputError: it is not as any version wrote it.
    """
    from concrete_score.cli.kinds import KINDS

    with strangers(run):
        codec = run.codec
    return KINDS[codec.kind], codec


@contextmanager
def strangers(run: "Run") -> Iterator[None]:
    """Whatever a stranger's run.json provokes within is one line.

    A digest proves that the file is whole, not that its maker meant well: any value may stand in it.

    Raises:
        InputError: it cannot be built here, and why.
    """
    file = str(run.path / "run.json")
    try:
        yield
    except InputError as error:
        if str(run.path) in error.where:
            raise
        place = f"{file}: {error.where}" if error.where else file
        raise InputError(error.expected, error.came, place, error.fix) from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError, MemoryError) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(
            "a run that this version can build",
            f"{type(error).__name__} ({reason})",
            where=file,
            fix="fit again, or install the version that made it",
        ) from None


def read_rows(codec: "TableCodec", frame: "Frame", missing: str, unknown: str, console: Console) -> "Rows":
    """The rows of a table as states, what was left out told.

    Raises:
        InputError: a column lacks, a cell is blank or never seen, or no row is left; row and column are named.
    """
    from concrete_score.data.refusals import refuse_blanks

    rows = codec.encode_rows(frame, missing="drop" if missing == "drop" else "keep", unknown=unknown)
    if missing == "refuse":
        blank = (~rows.encoded.observed).sum(0).tolist()
        fix = "add --missing drop, or fill them first with csm impute"
        refuse_blanks(frame, dict(zip(codec.names, blank, strict=True)), fix)
    if rows.unknown:
        console.say(f"{rows.unknown} rows with values never seen in training skipped")
    if rows.blank:
        console.say(f"{rows.blank} rows with blanks dropped")
    return rows


@contextmanager
def rows_of_file(where: str, rows: "Tensor") -> Iterator[None]:
    """Within it, a row the model complains of is called by its place in the file, not among those it was given.

    Args:
        where: the file.
        rows: the place of each row given to the model ``(N,)``.
    """
    try:
        yield
    except InputError as error:
        place = renumbered(error.where, rows)
        place = f"{where}: {place}" if place.startswith("row ") else place
        raise InputError(error.expected, renumbered(error.came, rows), place, error.fix) from None


def renumbered(text: str, rows: "Tensor") -> str:
    """Words about rows given to the model, as words about rows of the file.

    >>> import torch
    >>> renumbered("at worst for row 0, row 2 and 7 more", torch.tensor([4, 5, 9]))
    'at worst for row 4, row 9 and 7 more'
    """
    return re.sub(r"\brow (\d+)", lambda found: f"row {int(rows[int(found[1])])}", text)
