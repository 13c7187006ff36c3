"""From series to columns: each column's distinct values, in order, and the cells as codes of them."""

import numpy as np
import polars as pl

from concrete_score.data.frame import Array, Column, Numbers, narrow
from concrete_score.errors import InputError

WHOLE = float(2**53)
"""Beyond this, float64 does not tell whole numbers apart."""
_SPAN = 2**20


def column_of(series: pl.Series, where: str) -> Column | Numbers:
    """A column of any type that holds categories or numbers; null, NaN and the empty text are blank.

    Dates and times become their text, whole numbers in float storage become integers.

    Raises:
        InputError: the column holds lists, structures or bytes.

    >>> column_of(pl.Series("a", [2.0, None, 7.0]), "x").cells().to_list()
    [2, None, 7]
    """
    kind = series.dtype
    if kind == pl.Boolean:
        return _boolean(series)
    if kind.is_integer():
        return _integers(series)
    if kind.is_float() or kind.is_decimal():
        return numbers_column(series.name, series.cast(pl.Float64).fill_null(float("nan")).to_numpy())
    if kind in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        return text_column(series.cast(pl.String))
    if kind.is_temporal() and kind != pl.Duration:
        return text_column(series.cast(pl.String))
    raise InputError(
        "a column of text, whole numbers or booleans",
        f"{kind}",
        where=f"{where}: column {series.name!r}",
        fix="leave the column out of the file",
    )


def text_column(series: pl.Series) -> Column:
    """A column from text, or from categories already made of it."""
    if series.dtype == pl.String:
        series = series.cast(pl.Categorical(pl.Categories.random()))
    cells, absent = series.to_physical(), series.is_null() if series.null_count() else None
    if absent is not None:
        cells = cells.fill_null(0)
    physical = cells.to_numpy()
    # Counting finds the distinct codes three times quicker than hashing; a null's stand-in must not count.
    count = np.bincount(physical if absent is None else physical[~absent.to_numpy()], minlength=1)
    places = np.flatnonzero(count)
    text = pl.Series(places.astype(np.uint32)).cat.to(series.dtype).cast(pl.String)
    order = text.arg_sort().to_numpy()
    values, places = text.gather(order), places[order]
    empty = int(len(values) > 0 and values[0] == "")
    values, blank = values[empty:], len(values) - empty
    table = np.full(len(count), blank, dtype=np.uint32)
    table[places[empty:]] = np.arange(blank)
    codes = np.take(narrow(table, blank + 1), physical)
    if absent is not None:
        codes[absent.to_numpy()] = blank
    return Column(series.name, values.alias(""), codes)


def numbers_column(name: str, numbers: Array) -> Column | Numbers:
    """Float64 numbers with NaN as blank: integers if all are whole, else numbers.

    >>> numbers_column("a", np.array([1.0, 2.5])).cells().to_list()
    [1.0, 2.5]
    """
    blank = np.isnan(numbers)
    known = numbers[~blank]
    with np.errstate(invalid="ignore"):
        whole = bool(((known == np.floor(known)) & (np.abs(known) <= WHOLE)).all())
    if not whole:
        return Numbers(name, numbers)
    column = integers_column(name, known.astype(np.int64))
    cells = narrow(np.full(len(numbers), len(column.values), dtype=np.uint32), len(column.values) + 1)
    cells[~blank] = column.codes
    return Column(name, column.values, cells)


def integers_column(name: str, numbers: Array) -> Column:
    """Int64 numbers without blanks.

    >>> integers_column("a", np.array([7, 5, 7])).codes.tolist()
    [1, 0, 1]
    """
    if not len(numbers):
        return Column(name, pl.Series([], dtype=pl.Int64), np.empty(0, np.uint8))
    low, high = int(numbers.min()), int(numbers.max())
    if high - low >= _SPAN:
        values, codes = np.unique(numbers, return_inverse=True)
    else:
        # Counting is far quicker than sorting where numbers lie close together.
        place = (numbers - low).astype(np.int64, copy=False)
        seen = np.bincount(place) > 0
        values, codes = np.flatnonzero(seen) + low, narrow(np.cumsum(seen) - 1, int(seen.sum()) + 1)[place]
    return Column(name, pl.Series(values.astype(np.int64)), narrow(codes, len(values) + 1))


def _integers(series: pl.Series) -> Column:
    wide = series.cast(pl.Int64, strict=False)
    if wide.null_count() > series.null_count():
        return text_column(series.cast(pl.String))
    if not wide.null_count():
        return integers_column(series.name, wide.to_numpy())
    known = integers_column(series.name, wide.drop_nulls().to_numpy())
    cells = narrow(np.full(len(wide), len(known.values), dtype=np.uint32), len(known.values) + 1)
    cells[wide.is_not_null().to_numpy()] = known.codes
    return Column(series.name, known.values, cells)


def _boolean(series: pl.Series) -> Column:
    values = series.drop_nulls().unique().sort()
    first = bool(values[0]) if len(values) else False
    cells = series.cast(pl.UInt8).fill_null(0).to_numpy() - np.uint8(first)
    cells = np.where(series.is_null().to_numpy(), np.uint8(len(values)), cells).astype(np.uint8)
    return Column(series.name, values.alias(""), cells)
