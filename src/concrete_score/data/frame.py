"""The one table all readers fill and all writers empty: named columns, each held as codes of its distinct values.

A cell costs one byte while its column has fewer than 256 values. Columns of non-integer numbers stay numbers; what they
may become is the codec's business.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from concrete_score.errors import InputError, nearest

Array = npt.NDArray[Any]

_WIDTHS = (np.uint8, np.uint16, np.uint32)


@dataclass(frozen=True)
class Form:
    """The outer form a table came in, so that what goes out has the same.

    ``kind`` is a file's (``csv, tsv, parquet, data, npy, npz``) or a Python library's (``numpy, polars, pandas, …``);
    ``dtype`` is the kind of numbers of an array, empty otherwise.
    """

    kind: str
    dtype: str = ""


@dataclass(frozen=True, eq=False)
class Column:
    """A column of categories.

    >>> Column("a", pl.Series(["no", "yes"]), np.array([1, 2, 0], np.uint8)).cells().to_list()
    ['yes', None, 'no']
    """

    name: str
    values: pl.Series
    """Distinct values, ascending, no blanks: String, Int64, Float64 or Boolean."""
    codes: Array
    """``(N,)`` positions in ``values``, narrow and unsigned; ``len(values)`` marks a blank."""

    def __len__(self) -> int:
        return len(self.codes)

    def counts(self) -> Array:
        """How often each value occurs, and last the number of blanks ``(len(values) + 1,)``."""
        return np.bincount(self.codes, minlength=len(self.values) + 1)

    def take(self, rows: Array) -> "Column":
        """Some rows, by position or mask."""
        return replace(self, codes=self.codes[rows])

    def cells(self) -> pl.Series:
        """Every cell's value; blanks are null."""
        return self.values.extend_constant(None, 1).gather(pl.Series(self.codes)).alias(self.name)


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column of numbers that are not all whole; NaN marks a blank."""

    name: str
    numbers: Array
    """``(N,)`` float64."""

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, rows: Array) -> "Numbers":
        """Some rows, by position or mask."""
        return replace(self, numbers=self.numbers[rows])

    def cells(self) -> pl.Series:
        """Every cell's number; blanks are null."""
        return pl.Series(self.name, self.numbers).fill_nan(None)


@dataclass(frozen=True, eq=False)
class Frame:
    """A table: its columns, the form it came in, and what to call it in messages.

    >>> from concrete_score.data import as_frame
    >>> frame = as_frame(pl.DataFrame({"smoke": ["no", "yes", "no"], "age": [30, 41, None]}))
    >>> frame.names, frame.num_rows, frame.take(np.array([1])).rows()
    (('smoke', 'age'), 3, [('yes', 41)])
    """

    columns: tuple[Column | Numbers, ...]
    form: Form
    where: str = ""
    named: bool = True
    """Whether the names of the columns came with the data; if not, columns are known by their place."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(column.name for column in self.columns)

    @property
    def typed(self) -> bool:
        """Whether text is known to be text; in a file of letters alone, it may mean numbers."""
        return self.form.kind not in ("csv", "tsv", "data")

    @property
    def num_rows(self) -> int:
        """N."""
        return len(self.columns[0]) if self.columns else 0

    def __getitem__(self, name: str) -> Column | Numbers:
        for column in self.columns:
            if column.name == name:
                return column
        raise InputError("the name of a column", repr(name), where=self.where, fix=nearest(name, list(self.names)))

    def keep(self, names: Sequence[str]) -> "Frame":
        """The named columns, in that order."""
        return replace(self, columns=tuple(self[name] for name in names))

    def drop(self, names: Sequence[str]) -> "Frame":
        """All but the named columns."""
        gone = {self[name].name for name in names}
        return replace(self, columns=tuple(column for column in self.columns if column.name not in gone))

    def take(self, rows: Array) -> "Frame":
        """Some rows, by position or mask ``(N,)``."""
        return replace(self, columns=tuple(column.take(rows) for column in self.columns))

    def to_polars(self) -> pl.DataFrame:
        """The table as a polars frame; blanks are null."""
        return pl.DataFrame([column.cells().alias(column.name) for column in self.columns])

    def rows(self) -> list[tuple[Any, ...]]:
        """The cells as plain values, row by row; blanks are None."""
        return self.to_polars().rows()

    def native(self) -> Any:
        """The table as an object of the kind that came in; a polars frame if it came from a file."""
        from concrete_score.data.native import to_native

        return to_native(self)


def join(parts: Iterable[Frame]) -> Frame:
    """The parts of one table, at least one, below each other; their columns have the same values.

    >>> from concrete_score.data import TableCodec, as_frame
    >>> codec = TableCodec.fit(as_frame(pl.DataFrame({"smoke": ["no", "yes"], "age": [30, 41]})))
    >>> join(map(codec.decode, codec.space.enumerate().split(3))).rows()
    [('no', 30), ('no', 41), ('yes', 30), ('yes', 41)]
    """
    frames = list(parts)
    columns = zip(*(frame.columns for frame in frames), strict=True)
    return replace(frames[0], columns=tuple(map(_below, columns))) if len(frames) > 1 else frames[0]


def _below(columns: Sequence[Column | Numbers]) -> Column | Numbers:
    first = columns[0]
    if isinstance(first, Numbers):
        return replace(first, numbers=np.concatenate([column.numbers for column in columns]))  # type: ignore[union-attr]
    return replace(first, codes=np.concatenate([column.codes for column in columns]))  # type: ignore[union-attr]


def narrow(codes: Array, count: int) -> Array:
    """Codes below ``count`` in the fewest bytes.

    >>> narrow(np.array([0, 255]), 256).dtype, narrow(np.array([0, 256]), 257).dtype
    (dtype('uint8'), dtype('uint16'))
    """
    kind = next(kind for kind in _WIDTHS if count <= np.iinfo(kind).max + 1)
    return codes.astype(kind, copy=False)


def unique_names(names: Sequence[str], where: str) -> tuple[str, ...]:
    """Names as given; a column without one is called after its place.

    Raises:
        InputError: two columns share a name.

    >>> unique_names(["", "a"], "data.csv")
    ('column_1', 'a')
    """
    first: dict[str, int] = {}
    found = []
    for place, given in enumerate(names, start=1):
        name = given or f"column_{place}"
        if name in first:
            raise InputError(
                "a different name for every column",
                f"{name!r} for columns {first[name]} and {place}",
                where=f"{where}: line 1",
                fix="rename one of them",
            )
        first[name] = place
        found.append(name)
    return tuple(found)
