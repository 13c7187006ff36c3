"""Data frames of pandas, polars and pyarrow that come back as they went in: only cells that were filled are touched.

A table inside this library holds what a model can learn from; a frame may also hold bytes, lists, decimals, or text in
the place of nothing. So the filled cells are put into a copy of the frame itself.
"""

import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from concrete_score.data.frame import DRAW, Array
from concrete_score.errors import InputError


@dataclass(frozen=True)
class Library:
    """How a library's frames are told, and what is done with them.

    Args:
        owns: whether an object is a frame of it.
        names: the columns of one, as text.
        select: the columns at some places.
        repeat: so many copies below one another.
        replace: the frame with some cells of some columns replaced: by place, which cells, and their values.
        number: the frame with the copies numbered by a first column.
    """

    owns: Callable[[Any], bool]
    names: Callable[[Any], list[str]]
    select: Callable[[Any, list[int]], Any]
    repeat: Callable[[Any, int], Any]
    replace: Callable[[Any, Mapping[int, tuple[Array, pl.Series]]], Any]
    number: Callable[[Any, Array], Any]


def library_of(data: Any) -> Library | None:
    """What is known of the library of a data frame; None of any other object."""
    return next((library for library in _LIBRARIES if library.owns(data)), None)


def known_columns(data: Any, names: Collection[str]) -> Any:
    """The columns of a data frame that have one of these names; any other object as it is.

    >>> known_columns(pl.DataFrame({"a": [1], "raw": [b"x"]}), ["a"]).columns
    ['a']
    """
    library = library_of(data)
    return data if library is None else library.select(data, _places(library, data, names))


def put_back(data: Any, names: Collection[str], before: pl.DataFrame, after: pl.DataFrame, draws: int | None) -> Any:
    """A frame with the cells that differ between two tables made of its `known_columns`.

    Args:
        data: a frame of a library in `library_of`; it is not changed.
        names: of the columns known.
        before, after: those columns as they were read, and filled; ``draws`` copies of them below one another.
        draws: how many copies; None for the rows themselves, without a column that numbers them.

    >>> frame = pl.DataFrame({"a": [1, None], "raw": [b"x", b"y"]})
    >>> put_back(frame, ["a"], frame.select("a"), pl.DataFrame({"a": [1, 2]}), None).rows()
    [(1, b'x'), (2, b'y')]
    """
    library = library_of(data)
    if library is None:
        raise InputError("a data frame of a known library", type(data).__name__, where="data")
    times = draws or 1
    cells = {name: _changed(before[name], after[name], times) for name in before.columns}
    filled = {
        at: (cells[name], after[name].filter(cells[name]))
        for at, name in zip(_places(library, data, names), before.columns, strict=True)
        if cells[name].any()
    }
    found = library.replace(data if draws is None else library.repeat(data, times), filled)
    return found if draws is None else library.number(found, np.repeat(np.arange(times), len(data)))


def keep_objects(data: Any, before: pl.DataFrame, after: pl.DataFrame, filled: Array) -> Array:
    """A filled array of Python objects whose cells that were not blank are the objects that came.

    Args:
        data: the array of objects ``(N, D)``.
        before, after: its cells as they were read, and filled; copies of them below one another.
        filled: the cells ``(M·N, D)`` of ``after``.

    >>> cells = np.array([[b"x", 1], [None, 2]], dtype=object)
    >>> read, whole = pl.DataFrame({"a": ["b'x'", None]}), pl.DataFrame({"a": ["b'x'", "y"]})
    >>> keep_objects(cells[:, :1], read, whole, np.array([["b'x'"], ["y"]], dtype=object)).tolist()
    [[b'x'], ['y']]
    """
    times = len(after) // len(before)
    changed = [_changed(before[name], after[name], times) for name in before.columns]
    found: Array = np.where(np.stack(changed, axis=1), filled, np.tile(data, (times, 1)))
    return found


def _places(library: Library, data: Any, names: Collection[str]) -> list[int]:
    return [at for at, name in enumerate(library.names(data)) if name in names]


def _changed(before: pl.Series, after: pl.Series, times: int) -> Array:
    """Which cells were filled ``(M·N,)``."""
    old = pl.concat([before] * times) if times > 1 else before
    if old.dtype != after.dtype:
        old, after = old.cast(pl.String), after.cast(pl.String)
    found: Array = (~old.eq_missing(after)).to_numpy()
    return found


# --- polars


def _replace_polars(data: Any, filled: Mapping[int, tuple[Array, pl.Series]]) -> Any:
    """Cells of a column's own type, or the whole column as text where that cannot hold them."""
    columns = []
    for at, (cells, values) in filled.items():
        column = data.to_series(at)
        try:
            values = values.cast(column.dtype)
        except pl.exceptions.PolarsError:
            column, values = column.cast(pl.String), values.cast(pl.String)
        place = np.zeros(len(column), dtype=np.int64)
        place[cells] = np.arange(len(values))
        columns.append(values.gather(place).zip_with(pl.Series(cells), column).alias(column.name))
    return data.with_columns(columns)


# --- pandas


def _replace_pandas(data: Any, filled: Mapping[int, tuple[Array, pl.Series]]) -> Any:
    copy = data.copy()
    for at, (cells, values) in filled.items():
        copy.isetitem(at, _assigned(copy.iloc[:, at], cells, values.to_list()))
    return copy


def _assigned(column: Any, cells: Array, values: list[Any]) -> Any:
    """A pandas column with values at some cells, of its own type where that can hold them."""
    at = np.flatnonzero(cells)
    filled = column.copy()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            filled.iloc[at] = values
        if filled.dtype == column.dtype:
            return filled
    except (TypeError, ValueError, Warning):
        pass
    filled = column.astype(object)
    filled.iloc[at] = values
    return filled


def _repeat_pandas(data: Any, times: int) -> Any:
    return data.take(np.tile(np.arange(len(data)), times)).reset_index(drop=True)


def _number_pandas(data: Any, copies: Array) -> Any:
    data.insert(0, DRAW, copies)
    return data


# --- pyarrow


def _replace_arrow(data: Any, filled: Mapping[int, tuple[Array, pl.Series]]) -> Any:
    """Cells of a column's own type, or the whole column as text where that cannot hold them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for at, (cells, values) in filled.items():
        field, column, more = data.schema.field(at), data.column(at), values.to_arrow()
        words = pa.types.is_dictionary(field.type)
        try:
            more = pc.cast(more, field.type.value_type if words else field.type)
            plain = pc.cast(column, field.type.value_type) if words else column
        except pa.ArrowInvalid:
            more, plain, words = pc.cast(more, pa.string()), pc.cast(column, pa.string()), False
            field = field.with_type(pa.string())
        whole = pc.replace_with_mask(plain.combine_chunks(), pa.array(cells), more)
        data = data.set_column(at, field, pc.cast(whole, field.type) if words else whole)
    return data


def _repeat_arrow(data: Any, times: int) -> Any:
    import pyarrow as pa

    return pa.concat_tables([data] * times)


_LIBRARIES = (
    Library(
        nw.dependencies.is_polars_dataframe,
        lambda data: list(data.columns),
        lambda data, places: data[:, places],
        lambda data, times: pl.concat([data] * times),
        _replace_polars,
        lambda data, copies: data.insert_column(0, pl.Series(DRAW, copies)),
    ),
    Library(
        nw.dependencies.is_pandas_dataframe,
        lambda data: [str(name) for name in data.columns],
        lambda data, places: data.iloc[:, places],
        _repeat_pandas,
        _replace_pandas,
        _number_pandas,
    ),
    Library(
        nw.dependencies.is_pyarrow_table,
        lambda data: list(data.column_names),
        lambda data, places: data.select(places),
        _repeat_arrow,
        _replace_arrow,
        lambda data, copies: data.add_column(0, DRAW, [copies]),
    ),
)
