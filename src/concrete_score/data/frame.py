"""Tables: named columns of cells as they came, from files and from Python, and back in the same form."""

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from concrete_score.errors import InputError, nearest
from concrete_score.files import short

Array = npt.NDArray[Any]

ARRAYS = ("numpy", "npy", "npz")
"""Forms that are one array without column names."""
TEXT = ("csv", "tsv", "data")
"""Forms whose cells are all text, whatever they mean."""
DRAW = "draw"
"""The column that numbers completed copies."""
_FILES = (*TEXT, "parquet")
_LIBRARIES = ("polars", "pandas", "pyarrow", "modin", "cudf")
_OBJECTS = {dt.date, dt.time, Decimal}
"""Types of Python objects that are a column's own type, where all its cells are of one of them."""


@dataclass(frozen=True)
class Form:
    """The outer form a table came in, so that what goes out has the same.

    ``kind`` is a file format's (``csv, tsv, parquet, data, npy, npz``) or a Python library's (``numpy, polars, pandas,
    …``); ``dtype`` is the type of an array's numbers, empty otherwise.
    """

    kind: str
    dtype: str = ""

    @classmethod
    def from_json(cls, value: Any, where: str) -> "Form":
        """A form from plain values; only kinds this library knows, so that no name leads to foreign code.

        Raises:
            InputError: another kind, or not a type of array.
        """
        kind, dtype = (value.get("kind"), value.get("dtype")) if isinstance(value, dict) else (None, None)
        if kind not in (*ARRAYS, *_FILES, *_LIBRARIES) or not isinstance(dtype, str):
            raise InputError("the form of a table", repr(value)[:60], where=where)
        if dtype and not re.fullmatch(r"U|\|O|\|b1|[<>|][iuf][1248]", dtype):
            raise InputError("a type of array", repr(dtype)[:60], where=f"{where}.dtype")
        return cls(kind, dtype)


class Tally(NamedTuple):
    """The different values of a column, a blank among them, and how many rows have each."""

    values: pl.Series
    counts: Array


class Census(NamedTuple):
    """What is known of all rows of a table that some rows were drawn from (`data.census`)."""

    rows: int
    tallies: Mapping[str, Tally]
    """Of the columns that have few enough values for all of them to be counted, by name."""
    ends: Mapping[str, pl.Series]
    """Of the others, values that the sample may lack: the least, the largest, and the most finely written."""


@dataclass(frozen=True, eq=False)
class Frame:
    """A table: its cells, the form it came in, and what to call it in messages.

    >>> frame = as_frame(pl.DataFrame({"smoke": ["no", "yes", "no"], "age": [30, 41, None]}))
    >>> frame.names, len(frame), frame.take(np.array([1])).rows()
    (('smoke', 'age'), 3, [('yes', 41)])
    """

    table: pl.DataFrame
    """One series a column; null is blank, as are NaN and the empty text."""
    form: Form
    where: str = ""
    named: bool = True
    """Whether the names of the columns came with the data; if not, columns are known by their place."""
    notes: tuple[Any, ...] = ()
    """What was noticed about the file, each to be said in a line."""
    first: int = 0
    """The number of its first row in the table that it is a part of."""
    census: Census | None = None
    """Where the rows are a sample, what is known of the whole table."""
    kind: ClassVar[str] = "table"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.table.columns)

    @property
    def typed(self) -> bool:
        """Whether text is known to be text; in a text file it may mean numbers."""
        return self.form.kind not in TEXT

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, name: str) -> pl.Series:
        if name not in self.table.columns:
            raise InputError("the name of a column", repr(name), where=self.where, fix=nearest(name, self.names))
        return self.table[name]

    def take(self, rows: Array) -> "Frame":
        """Some rows, by position or mask ``(N,)``."""
        at = np.flatnonzero(rows) if rows.dtype == bool else rows
        return replace(self, table=self.table[at])

    def with_blanks(self, blank: Mapping[str, Array]) -> "Frame":
        """Cells left blank where the mask of their column ``(N,)`` says so.

        >>> as_frame(np.array([[0, 1], [2, 3]])).with_blanks({"x1": np.array([True, False])}).rows()
        [(0, None), (2, 3)]
        """
        columns = [series.set(pl.Series(blank[series.name]), None) for series in self.table if series.name in blank]
        return replace(self, table=self.table.with_columns(columns))

    def frame(self) -> "Frame":
        """Itself: what formats of tables write."""
        return self

    def rows(self) -> list[tuple[Any, ...]]:
        """The cells as plain values, row by row; blanks are None."""
        return self.table.rows()

    def to_csv(self, *, header: bool = True) -> str:
        """The table as CSV text; a later part of one has no header.

        >>> as_frame(np.array([[0, 1]])).to_csv()
        'x0,x1\\n0,1\\n'
        """
        return self.table.write_csv(include_header=header)

    def to_json(self) -> dict[str, Any]:
        """Column names and rows of plain values; what JSON has no type for is its text."""
        return {"columns": list(self.names), "rows": [[_json(cell) for cell in row] for row in self.rows()]}

    def native(self) -> Any:
        """The table as an object of the kind that came in; a polars frame if it came from a file."""
        kind = self.form.kind
        if kind in ARRAYS:
            return self.array()
        if kind in _FILES or kind == "polars":
            return self.table
        import narwhals as nw

        columns = {
            series.name: series.to_list() if series.null_count() or not series.dtype.is_numeric() else series.to_numpy()
            for series in self.table
        }
        backend: Any = kind
        found = nw.from_dict(columns, backend=backend).to_native()
        if kind == "pandas":
            import pandas as pd

            for series in self.table:  # as floats, whole numbers beside blanks would lose digits
                if series.dtype.is_integer() and series.null_count():
                    found[series.name] = pd.array(series.to_list(), dtype="Int64")
        return found

    def array(self) -> Array:
        """One array ``(N, D)``: of the numbers' own type where all cells fit it, else of text or objects."""
        cells = list(self.table)
        numeric = all(series.dtype.is_numeric() or series.dtype == pl.Boolean for series in cells)
        blanks = any(series.null_count() for series in cells)
        wanted = self.form.dtype or "<i8"
        if numeric and wanted not in ("U", "|O") and (not blanks or np.dtype(wanted).kind == "f"):
            return np.stack([series.to_numpy().astype(wanted) for series in cells], axis=1)
        if wanted != "|O" or self.form.kind != "numpy":
            # Object arrays cannot be written without pickling.
            return np.stack([series.cast(pl.String).fill_null("").to_numpy().astype(str) for series in cells], axis=1)
        found = np.empty((len(self), len(cells)), dtype=object)
        for d, series in enumerate(cells):
            found[:, d] = series.to_list()
        return found

    def arrays(self) -> dict[str, Array]:
        """What array files hold: the table as one array of numbers or text, never of objects."""
        return {"x": replace(self, form=Form("npy", self.form.dtype)).array()}

    @classmethod
    def join(cls, parts: Iterable["Frame"]) -> "Frame":
        """The parts of one table, at least one, below each other; in the wider type where a column has two."""
        frames = list(parts)
        if len(frames) == 1:
            return frames[0]
        return replace(frames[0], table=pl.concat([frame.table for frame in frames], how="vertical_relaxed"))


def as_frame(data: Any, where: str = "data") -> Frame:
    """A numpy array ``(N, D)``, a pandas, polars or other data frame, or nested lists, as a table.

    Raises:
        InputError: another kind of object, not two axes, or a column that cannot hold categories.

    >>> as_frame(np.array([[0, 3], [1, 5]])).names
    ('x0', 'x1')
    >>> as_frame(np.array([[0, 3], [1, 5]])).native()
    array([[0, 3],
           [1, 5]])
    """
    if isinstance(data, Frame):
        return data
    if isinstance(data, pl.DataFrame):
        return _checked(data, Form("polars"), where)
    import narwhals as nw

    try:
        table = nw.from_native(data, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise InputError("a different name for every column", short(error), where, "rename one of them") from None
    if isinstance(table, nw.LazyFrame):
        fix = "collect it first: data.collect(), or what its library calls that"
        raise InputError("a table in memory", f"a lazy one, {type(data).__name__}", where, fix)
    if isinstance(table, nw.DataFrame):
        names = unique_names([str(name) for name in table.columns], where)
        library = table.implementation.value
        if library == "pyarrow":
            return _checked(_from_arrow(data, where), Form(library), where)
        series = [_series(table[:, d], name) for d, name in enumerate(names)]
        return _checked(pl.DataFrame(series), Form(library if library in _LIBRARIES else "polars"), where)
    try:
        array = np.asarray(data)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError("an array or a data frame", f"{type(data).__name__} ({short(error)})", where=where) from None
    return frame_of_array(array, where)


def frame_of_array(array: Array, where: str, kind: str = "numpy") -> Frame:
    """An array ``(N, D)`` of integers, booleans, text, or floats (NaN is blank); columns are called x0, x1, …"""
    if array.ndim != 2 or not array.size:
        raise InputError(
            "an array of rows and columns", f"shape {array.shape}", where=where, fix="put the rows on the first axis"
        )
    if array.dtype.kind not in "biufUO":
        raise InputError("an array of integers, booleans or text", f"{array.dtype}", where=where)
    try:
        series = [_array_column(array[:, d], f"x{d}") for d in range(array.shape[1])]
    # Characters beyond Unicode make Python itself complain.
    except (ValueError, OverflowError, SystemError, pl.exceptions.PolarsError) as error:
        raise InputError("an array of integers, booleans or text", short(error), where=where) from None
    return Frame(pl.DataFrame(series), Form(kind, _dtype(array)), where, named=False)


def unique_names(names: Sequence[str], where: str) -> tuple[str, ...]:
    """Names as given; a column without one is called after its place.

    Raises:
        InputError: two columns share a name.

    >>> unique_names(["", "a"], "data.csv")
    ('column_1', 'a')
    """
    first: dict[str, int] = {}
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
    return tuple(first)


def _checked(table: pl.DataFrame, form: Form, where: str) -> Frame:
    if not table.width or not len(table):
        raise InputError("a table with rows and columns", f"{len(table)} rows and {table.width} columns", where=where)
    for series in table:
        kind = series.dtype
        if kind.is_nested() or kind in (pl.Binary, pl.Object, pl.Duration):
            raise InputError(
                "a column of text, whole numbers or booleans",
                f"{kind}",
                where=f"{where}: column {series.name!r}",
                fix="leave the column out of the file",
            )
    return Frame(table, form, where)


def _dtype(array: Array) -> str:
    kind = array.dtype.kind
    # Wider floats than NumPy's common ones come back as float64.
    return "U" if kind == "U" else "<f8" if kind == "f" and array.dtype.itemsize > 8 else array.dtype.str


def _from_arrow(data: Any, where: str) -> pl.DataFrame:
    """A pyarrow table with its own types; a pool of texts is read as the texts."""
    try:
        found = pl.DataFrame(pl.from_arrow(data))
    except (ValueError, TypeError, NotImplementedError, pl.exceptions.PolarsError) as error:
        fix = "leave those columns out"
        raise InputError("columns of types that polars knows", short(error), where, fix) from None
    return found


def _series(series: Any, name: str) -> pl.Series:
    """Any library's series as polars', without asking for pyarrow."""
    import narwhals as nw

    kind = series.dtype
    if kind.is_numeric() and not series.null_count():
        return pl.Series(name, series.to_numpy())
    if kind == nw.Boolean and not series.null_count():
        return pl.Series(name, series.to_numpy().astype(bool))
    return _objects(name, series.to_list())


def _objects(name: str, cells: list[Any]) -> pl.Series:
    """Python values of any types; where they are of several, their text."""
    plain = [None if _is_blank(cell) else cell for cell in cells]
    kinds = {type(cell) for cell in plain if cell is not None}
    if kinds <= {str}:
        return pl.Series(name, plain, dtype=pl.String)
    try:
        if len(kinds) == 1 and kinds <= _OBJECTS:
            return pl.Series(name, plain)
        if kinds == {bool}:
            return pl.Series(name, plain, dtype=pl.Boolean)
        if all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
            return _whole(name, [None if cell is None else int(cell) for cell in plain])
        if all(issubclass(kind, int | float | np.integer | np.floating) and kind is not bool for kind in kinds):
            return pl.Series(name, [None if cell is None else float(cell) for cell in plain], dtype=pl.Float64)
    except (OverflowError, TypeError, pl.exceptions.PolarsError):
        pass
    return pl.Series(name, [None if cell is None else str(cell) for cell in plain], dtype=pl.String)


def _whole(name: str, cells: list[int | None]) -> pl.Series:
    """Whole numbers in 64 bits, signed where they fit.

    Raises:
        OverflowError, PolarsError: they do not fit.
    """
    largest = max((cell for cell in cells if cell is not None), default=0)
    return pl.Series(name, cells, dtype=pl.Int64 if largest < 2**63 else pl.UInt64)


def _is_blank(cell: Any) -> bool:
    # NaN and NaT differ from themselves; pandas' NA does not even answer that.
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and cell != cell)


def _array_column(cells: Array, name: str) -> pl.Series:
    kind = cells.dtype.kind
    if kind in "b":
        return pl.Series(name, cells)
    if kind in "iu":
        native = cells.dtype.newbyteorder("=")
        return pl.Series(name, cells.astype(native, copy=False))
    if kind == "f":
        return pl.Series(name, cells.astype(np.float64, copy=False))
    if kind == "U":
        return pl.Series(name, cells.tolist(), dtype=pl.String)
    return _objects(name, cells.tolist())


def _json(cell: Any) -> Any:
    return cell if cell is None or isinstance(cell, str | int | float | bool) else str(cell)
