"""What a column holds, judged by its distinct values: text, whole numbers, booleans, or numbers in between."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from concrete_score.data.columns import WHOLE
from concrete_score.data.frame import Array, Column, Numbers

Value = str | int | bool

TEXT, INTEGER, BOOLEAN, NUMBER = "text", "integer", "boolean", "number"

# No leading zeros: 007 is a name. A fraction of zeros is how some programs write whole numbers beside blanks.
_INTEGER = r"^-?(0|[1-9][0-9]*)(\.0*)?$"
_NUMBER = r"^[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_FEW = 256
_TRUTH = {"true": True, "false": False, "1": True, "0": False}


@dataclass(frozen=True, eq=False)
class Meaning:
    """A column understood.

    Args:
        kind: ``text``, ``integer``, ``boolean`` or ``number``.
        values: the distinct values as that kind, ascending; empty for numbers.
        distinct: how many there are; -1 for numbers nobody counted.
        blanks: how many cells are blank.
        column: the column itself.
        na: the texts taken for blank.
    """

    kind: str
    values: tuple[Value, ...]
    distinct: int
    blanks: int
    column: Column | Numbers
    na: tuple[str, ...]

    @property
    def numeric(self) -> bool:
        """Whether the column can be cut into bins."""
        return self.kind in (INTEGER, NUMBER)

    def numbers(self) -> Array:
        """Every cell of a numeric column as float64, NaN where blank ``(N,)``."""
        return cell_numbers(self.column, self.na)


def understand(column: Column | Numbers, na: Sequence[str] = (), limit: int = 2**62, typed: bool = False) -> Meaning:
    """The meaning of a column, its cells in ``na`` taken for blank; values beyond ``limit`` are only counted.

    Text means numbers where all of it reads so, unless the column is ``typed``: known to be text.

    >>> understand(Column("a", pl.Series(["10", "9", "NA"]), np.array([0, 1, 2], np.uint8)), ["NA"]).values
    (9, 10)
    """
    words = tuple(na)
    if isinstance(column, Numbers):
        numbers = cell_numbers(column, words)
        return Meaning(NUMBER, (), -1, int(np.count_nonzero(np.isnan(numbers))), column, words)
    blank = _blank_values(column.values, words)
    blanks = int(np.count_nonzero(column.codes == len(column.values)))
    if blank.any():
        blanks = int(column.counts()[np.append(blank, True)].sum())
    known = column.values.filter(pl.Series(~blank)) if blank.any() else column.values
    kind = TEXT if typed and known.dtype == pl.String else _kind(known)
    values = () if kind == NUMBER or len(known) > limit else _plain(known, kind)
    return Meaning(kind, values, len(values) or len(known), blanks, column, words)


def cell_numbers(column: Column | Numbers, na: Sequence[str] = ()) -> Array:
    """Cells as float64; NaN where blank, in ``na``, or not a number ``(N,)``."""
    if isinstance(column, Numbers):
        hidden = [float(word) for word in na if re.match(_NUMBER, word)]
        return np.where(np.isin(column.numbers, hidden), np.nan, column.numbers) if hidden else column.numbers
    numbers = value_numbers(column.values)
    numbers = np.append(np.where(_blank_values(column.values, tuple(na)), np.nan, numbers), np.nan)
    return numbers[column.codes]


def value_numbers(values: pl.Series) -> Array:
    """Distinct values as float64, NaN where they are not numbers."""
    if values.dtype == pl.String:
        values = values.set(~values.str.contains(_NUMBER), None)
    found: Array = values.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy()
    return found


def spelled(values: pl.Series, kind: str) -> list[Value | None]:
    """Values of any storage as values of a kind; None where they cannot be.

    >>> spelled(pl.Series(["1.0", "x"]), "integer"), spelled(pl.Series([True]), "text")
    ([1, None], ['true'])
    """
    return [_SPELL[kind](value) for value in values.to_list()]


def is_blank(values: pl.Series, na: Sequence[str]) -> Array:
    """Which distinct values the words in ``na`` declare blank."""
    return _blank_values(values, tuple(na))


def _blank_values(values: pl.Series, na: tuple[str, ...]) -> Array:
    if not na or not len(values):
        return np.zeros(len(values), dtype=bool)
    text = values if values.dtype == pl.String else values.cast(pl.String)
    return np.array([word in na for word in text.to_list()], dtype=bool)


def _kind(values: pl.Series) -> str:
    if values.dtype == pl.Boolean:
        return BOOLEAN
    if values.dtype != pl.String:
        return INTEGER if values.dtype == pl.Int64 else NUMBER
    if not len(values):
        return TEXT
    if _all_match(values, _INTEGER):
        whole = values.str.replace(r"\.0*$", "").cast(pl.Int64, strict=False)
        return TEXT if whole.null_count() else INTEGER
    if not _all_match(values, _NUMBER):
        return TEXT
    numbers = value_numbers(values)
    if not np.isfinite(numbers).all():
        return TEXT
    if (numbers != np.floor(numbers)).any():
        return NUMBER
    return INTEGER if (np.abs(numbers) <= WHOLE).all() else TEXT


def _all_match(values: pl.Series, pattern: str) -> bool:
    # Of the first few, Python is done before polars has begun; they are often all, or enough to say no.
    first = all(re.fullmatch(pattern, value) for value in values.head(_FEW).to_list())
    return first and (len(values) <= _FEW or bool(values.str.contains(pattern).all()))


def _plain(values: pl.Series, kind: str) -> tuple[Value, ...]:
    if values.dtype != pl.String or kind == TEXT:
        return tuple(values.to_list())
    return tuple(sorted({value for value in spelled(values, kind) if value is not None}))


def _integer(value: Any) -> int | None:
    if isinstance(value, str):
        if re.match(_INTEGER, value):
            digits = value.partition(".")[0]
            # No 64-bit number is longer, and Python refuses to read very long ones.
            return int(digits) if len(digits) <= 20 else None
        if not re.match(_NUMBER, value):
            return None
        value = float(value)
    if isinstance(value, float):
        return int(value) if abs(value) <= WHOLE and value == int(value) else None
    return int(value)


def _boolean(value: Any) -> bool | None:
    return _TRUTH.get(str(value).lower())


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_SPELL = {INTEGER: _integer, BOOLEAN: _boolean, TEXT: _text}
