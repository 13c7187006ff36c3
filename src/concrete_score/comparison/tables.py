"""Tables of the same columns side by side: what each column is, and its cells as numbers or codes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from concrete_score.comparison.cells import (
    blank_texts,
    categories,
    counts_rows,
    dates,
    numbers,
    plain,
    stray_words,
    undressed,
)
from concrete_score.data.frame import Array, Frame
from concrete_score.errors import NAMED, InputError, Option, Text, nearest

NUMBER, DATE, CATEGORY = "number", "date", "category"
KINDS = (NUMBER, DATE, CATEGORY)
REAL, SYNTHETIC, HOLDOUT = 0, 1, 2
"""The tables by place."""
ROLES = ("real", "synthetic", "holdout")
FEW = 10
"""Whole numbers of at most so many different values are categories."""
IDENTIFIES, LEAST = 0.95, 20
"""Text with this share of different values, in at least so many cells, is an identifier; so are whole numbers that all
differ and number the rows."""
_READERS: Mapping[str, Callable[[Sequence[pl.Series]], list[Array] | None]] = {NUMBER: numbers, DATE: dates}


@dataclass(frozen=True, eq=False)
class Column:
    """One column in every table.

    ``cells`` holds for each table float64 with NaN where blank, or for a category int64 places in ``labels``, and
    ``len(labels)`` where blank.
    """

    name: str
    kind: str
    cells: tuple[Array, ...]
    labels: tuple[str, ...] = ()

    @property
    def ordered(self) -> bool:
        """Whether its cells are numbers or dates."""
        return self.kind != CATEGORY

    def blank(self, table: int) -> Array:
        """Which cells are blank ``(N,)``."""
        cells = self.cells[table]
        return np.isnan(cells) if self.ordered else cells == len(self.labels)

    @cached_property
    def codes(self) -> tuple[Array, ...]:
        """Every cell's place among the distinct values of all tables, ascending; the last place is blank."""
        if not self.ordered:
            return self.cells
        values = np.unique(np.concatenate(self.cells))
        values = values[~np.isnan(values)]
        # NaN sorts behind every number.
        return tuple(np.searchsorted(values, cells) for cells in self.cells)


@dataclass(frozen=True, eq=False)
class Tables:
    """The real table, the synthetic one and, if given, held-out rows, by the columns they share."""

    columns: tuple[Column, ...]
    rows: tuple[int, ...]
    notes: tuple[str, ...] = ()
    aside: tuple[Column, ...] = ()
    """Texts that identify the rows, and are left out for that."""

    @property
    def has_holdout(self) -> bool:
        """Whether there are rows that the synthetic table's maker has not seen."""
        return len(self.rows) > HOLDOUT

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def __getitem__(self, name: str) -> Column:
        if name not in self.names:
            raise InputError("the name of a column", repr(name), Option("target"), nearest(name, self.names))
        return self.columns[self.names.index(name)]

    @cached_property
    def row_ids(self) -> tuple[Array, ...]:
        """A number for every row, the same for equal rows of any tables; blanks equal blanks."""
        codes = np.stack([np.concatenate(column.codes) for column in self.columns], axis=1).astype(np.int32)
        whole = np.ascontiguousarray(codes).view(np.dtype((np.void, codes.shape[1] * 4)))[:, 0]
        ids = np.unique(whole, return_inverse=True)[1]
        return tuple(np.split(ids, np.cumsum(self.rows)[:-1]))


class _Read(NamedTuple):
    """A column, None where there is nothing in it to look at, and a note on what was done with it."""

    column: Column | None
    note: str = ""
    compared: bool = True


def align(
    frames: Sequence[Frame],
    *,
    kinds: Mapping[str, str] | None = None,
    drop: Sequence[str] = (),
    na: Sequence[str] | None = None,
) -> Tables:
    """Tables by their common columns, each of which is a number, a date or a category in all tables together.

    Numbers: every cell that is not blank reads as a number, with the same currency or unit if any, and they are not
    whole or take more than ten values. Dates: every cell reads as one, by one format or few. Categories: the rest. Text
    that is different in nearly every real row identifies and is left out, as are whole numbers that number the real
    rows, and a column blank throughout; a note says so.

    Args:
        frames: real, synthetic and, where there are any, held-out rows.
        kinds: what a column is, where that should not be inferred.
        drop: columns to leave out.
        na: texts that mean a blank cell; by default the usual spellings, if the real rows are from a text file. Among
            numbers and dates the usual spellings do anyway.

    Raises:
        InputError: tables of different columns, all of them named; no column left; or a kind that does not fit.

    >>> import polars as pl
    >>> from concrete_score.data import as_frame
    >>> table = as_frame(pl.DataFrame({"age": [*range(15)] * 2, "sex": ["f", "m", None] * 10}))
    >>> [(column.name, column.kind, column.labels) for column in align([table, table]).columns]
    [('age', 'number', ()), ('sex', 'category', ('f', 'm'))]
    """
    kinds = kinds or {}
    known = dict.fromkeys(name for frame in frames for name in frame.names)
    for name in drop:
        _check_name(name, list(known), "drop")
    names = [name for name in known if name not in drop]
    _refuse_different(frames, names)
    for name, kind in kinds.items():
        _check_name(name, names, "column")
        if kind not in KINDS:
            raise InputError("a kind of column", repr(kind), Option("column", {name: kind}), nearest(kind, KINDS))
    blank = blank_texts(frames[REAL], na)
    read = [_read(name, frames, kinds.get(name), blank) for name in names]
    columns, aside = (
        tuple(each.column for each in read if each.column is not None and each.compared is compared)
        for compared in (True, False)
    )
    notes = tuple(each.note for each in read if each.note)
    if not columns:
        raise InputError("a column to compare", "none", frames[REAL].where, "; ".join(notes))
    return Tables(columns, tuple(len(frame) for frame in frames), notes, aside)


def _check_name(name: str, known: list[str], option: str) -> None:
    if name not in known:
        raise InputError("the name of a column", repr(name), Option(option), nearest(name, known))


def _refuse_different(frames: Sequence[Frame], names: Sequence[str]) -> None:
    """Refuse tables of different columns, with all that some of them lack."""
    missing = {frame.where: [name for name in names if name not in frame.names] for frame in frames}
    lacking = [(where, without) for where, without in missing.items() if without]
    if not lacking:
        return
    shared = [name for name in names if all(name in frame.names for frame in frames)]
    faults = ", ".join(f"{where} without {_listed(without)}" for where, without in lacking)
    odd = [name for name in names if name not in shared]
    fix: Text = Option("drop", odd[:NAMED]) if shared else "give tables of the same columns"
    raise InputError("tables of the same columns", faults, fix=fix)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(map(repr, names[:NAMED])) + more


def _read(name: str, frames: Sequence[Frame], kind: str | None, na: Sequence[str]) -> _Read:
    parts = [plain(frame.table[name], na) for frame in frames]
    if all(part.null_count() == len(part) for part in parts):
        return _Read(None, f"column {name!r} is blank throughout and left out")
    # A part without any cell can be of every type.
    filled = next(part.dtype for part in parts if part.null_count() < len(part))
    parts = [part.cast(filled) if part.null_count() == len(part) else part for part in parts]
    if kind is not None:
        return _Read(_as_told(name, parts, kind, frames))
    read = numbers(parts)
    if read is None and (bare := undressed(parts)) is not None:
        read = numbers(bare)
    if read is None and (words := stray_words(parts)):
        column = _read(name, frames, None, [*na, *words]).column
        if column is not None and column.ordered:
            return _Read(column, f"column {name!r}: {_listed(words)} among {column.kind}s counts as blank")
    if read is not None and frames[REAL].named and _numbers_rows(name, read[REAL]):
        return _Read(None, f"column {name!r} numbers the rows (whole numbers that tell them apart) and is left out")
    if read is not None and _is_continuous(np.concatenate(read)):
        return _Read(Column(name, NUMBER, tuple(read)), _infinite(name, frames))
    if read is None and (read := dates(parts)) is not None:
        return _Read(Column(name, DATE, tuple(read)))
    codes, labels = categories(parts)
    real = codes[REAL][codes[REAL] < len(labels)]
    column = Column(name, CATEGORY, tuple(codes), labels)
    textual = numbers(parts[:SYNTHETIC]) is None
    if textual and len(real) >= LEAST and len(np.unique(real)) > IDENTIFIES * len(real):
        note = f"column {name!r} identifies its rows (nearly every one has a text of its own) and is left out"
        return _Read(column, note, compared=False)
    return _Read(column)


def _numbers_rows(name: str, cells: Array) -> bool:
    known = cells[~np.isnan(cells)]
    distinct = len(known) >= LEAST and len(np.unique(known)) == len(known)
    return distinct and bool((known == np.floor(known)).all()) and counts_rows(name, known, len(cells))


def _infinite(name: str, frames: Sequence[Frame]) -> str:
    series = [frame.table[name] for frame in frames]
    count = sum(int(each.is_infinite().sum()) for each in series if each.dtype.is_float())
    return f"column {name!r}: {count} infinite numbers count as blank" if count else ""


def _as_told(name: str, parts: Sequence[pl.Series], kind: str, frames: Sequence[Frame]) -> Column:
    if kind == CATEGORY:
        codes, labels = categories(parts)
        return Column(name, kind, tuple(codes), labels)
    read = _READERS[kind](parts)
    if read is None:
        where = (frames[REAL].where, f"column {name!r}")
        raise InputError(f"{kind}s alone", "other cells too", where, Option("column", {name: CATEGORY}))
    return Column(name, kind, tuple(read))


def _is_continuous(values: Array) -> bool:
    known = values[~np.isnan(values)]
    return bool((known != np.floor(known)).any()) or len(np.unique(known)) > FEW
