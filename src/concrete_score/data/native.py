"""Tables in Python: numpy arrays and data frames of any library narwhals knows, in and out in the same kind."""

import re
from typing import Any

import numpy as np
import polars as pl

from concrete_score.data.columns import column_of, integers_column, numbers_column, text_column
from concrete_score.data.frame import Array, Column, Form, Frame, Numbers, unique_names
from concrete_score.errors import InputError

_ARRAYS = ("numpy", "npy", "npz")
_FILES = ("csv", "tsv", "data", "parquet")
_LIBRARIES = ("polars", "pandas", "pyarrow", "modin", "cudf")


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
        return _frame_of_series([data[:, d] for d in range(data.width)], Form("polars"), where)
    import narwhals as nw

    table = nw.from_native(data, eager_only=True, pass_through=True)
    if isinstance(table, nw.DataFrame):
        names = [str(name) for name in table.columns]
        unique_names(names, where)
        series = [_series(table[:, d], name) for d, name in enumerate(names)]
        return _frame_of_series(series, Form(_library(table)), where)
    try:
        array = np.asarray(data)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(
            "an array or a data frame", f"{type(data).__name__} ({' '.join(str(error).split())})", where=where
        ) from None
    return frame_of_array(array, where)


def frame_of_array(array: Array, where: str) -> Frame:
    """An array ``(N, D)`` of integers, booleans, text, or floats (NaN is blank)."""
    if array.ndim != 2 or not array.size:
        raise InputError(
            "an array of rows and columns", f"shape {array.shape}", where=where, fix="put the rows on the first axis"
        )
    if array.dtype.kind not in "biufUO":
        raise InputError("an array of integers, booleans or text", f"{array.dtype}", where=where)
    try:
        columns = tuple(_array_column(array[:, d], f"x{d}") for d in range(array.shape[1]))
    # Letters beyond Unicode make Python itself complain.
    except (ValueError, OverflowError, SystemError, pl.exceptions.PolarsError) as error:
        raise InputError(
            "an array of integers, booleans or text", " ".join(str(error).split())[:120], where=where
        ) from None
    return Frame(columns, Form("numpy", _dtype(array)), where, named=False)


def to_native(frame: Frame) -> Any:
    """A table as an object of the kind its form names; a polars frame for files."""
    kind = frame.form.kind
    if kind in _ARRAYS:
        return to_array(frame)
    table = frame.to_polars()
    if kind in _FILES or kind == "polars":
        return table
    import narwhals as nw

    columns = {
        series.name: series.to_list() if series.null_count() or series.dtype == pl.String else series.to_numpy()
        for series in table
    }
    backend: Any = kind
    return nw.from_dict(columns, backend=backend).to_native()


def form_from_json(value: Any, where: str) -> Form:
    """A form from plain values; only kinds this library knows, so that no name leads to foreign code.

    Raises:
        InputError: another kind, or not a kind of array.
    """
    kind, dtype = (value.get("kind"), value.get("dtype")) if isinstance(value, dict) else (None, None)
    if kind not in (*_ARRAYS, *_FILES, *_LIBRARIES) or not isinstance(dtype, str):
        raise InputError("the form of a table", repr(value)[:60], where=where)
    if dtype and not re.fullmatch(r"U|\|O|\|b1|[<>|][iuf][1248]", dtype):
        raise InputError("a kind of array", repr(dtype)[:60], where=f"{where}.dtype")
    return Form(kind, dtype)


def to_array(frame: Frame) -> Array:
    """A table as one array ``(N, D)``: of the numbers' own kind where all cells fit it, else of text or objects."""
    cells = [column.cells() for column in frame.columns]
    numeric = all(series.dtype != pl.String for series in cells)
    blanks = any(series.null_count() for series in cells)
    wanted = frame.form.dtype or "<i8"
    if numeric and wanted not in ("U", "|O") and (not blanks or np.dtype(wanted).kind == "f"):
        return np.stack([series.to_numpy().astype(wanted) for series in cells], axis=1)
    if wanted != "|O" or frame.form.kind != "numpy":
        # Object arrays cannot be written without pickling.
        return np.stack([series.cast(pl.String).fill_null("").to_numpy().astype(str) for series in cells], axis=1)
    found = np.empty((frame.num_rows, len(cells)), dtype=object)
    for d, series in enumerate(cells):
        found[:, d] = series.to_list()
    return found


def _frame_of_series(series: list[pl.Series], form: Form, where: str) -> Frame:
    if not series or not len(series[0]):
        rows = len(series[0]) if series else 0
        raise InputError("a table with rows and columns", f"{rows} rows and {len(series)} columns", where=where)
    return Frame(tuple(column_of(each, where) for each in series), form, where)


def _dtype(array: Array) -> str:
    kind = array.dtype.kind
    # Wider floats than NumPy's common ones come back as float64.
    return "U" if kind == "U" else "<f8" if kind == "f" and array.dtype.itemsize > 8 else array.dtype.str


def _library(table: Any) -> str:
    name = table.implementation.value
    return name if name in _LIBRARIES else "polars"


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
    """Python values of any kinds; where they are of several, their text."""
    plain = [None if _is_blank(cell) else cell for cell in cells]
    kinds = {type(cell) for cell in plain if cell is not None}
    if kinds <= {str}:
        return pl.Series(name, plain, dtype=pl.String)
    try:
        if kinds == {bool}:
            return pl.Series(name, plain, dtype=pl.Boolean)
        if all(issubclass(kind, int | float | np.integer | np.floating) and kind is not bool for kind in kinds):
            return pl.Series(name, [None if cell is None else float(cell) for cell in plain], dtype=pl.Float64)
    except (OverflowError, TypeError, pl.exceptions.PolarsError):
        pass
    return pl.Series(name, [None if cell is None else str(cell) for cell in plain], dtype=pl.String)


def _is_blank(cell: Any) -> bool:
    # NaN, NaT and their kin differ from themselves; pandas' NA does not even say so.
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and cell != cell)


def _array_column(cells: Array, name: str) -> Column | Numbers:
    kind = cells.dtype.kind
    if kind == "b":
        return column_of(pl.Series(name, cells), name)
    if kind == "u" and cells.dtype.itemsize == 8:
        return column_of(pl.Series(name, cells.astype(np.uint64)), name)
    if kind in "iu":
        return integers_column(name, cells.astype(np.int64, copy=False))
    if kind == "f":
        return numbers_column(name, cells.astype(np.float64, copy=False))
    if kind == "U":
        return text_column(pl.Series(name, cells.tolist(), dtype=pl.String))
    return column_of(_objects(name, cells.tolist()), name)
