"""From series to columns: each column's distinct values, in order, and the cells as codes of them."""

from typing import Any

import numpy as np
import polars as pl

from concrete_score.data.frame import Array, Column, Numbers, narrow
from concrete_score.errors import InputError

WHOLE = float(2**53)
"""Beyond this, float64 does not tell whole numbers apart."""
_SPAN = 2**20
_FEW = 2**10
_PAIRS = 2**18


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
    """A column from text, or from categories or whole numbers already made of it."""
    return counted_column(series)[0]


def counted_column(series: pl.Series, physical: pl.Series | None = None) -> tuple[Column, Array]:
    """As `text_column`, with how often each value occurs ``(len(values),)``.

    Args:
        series: text, categories or whole numbers; null is blank.
        physical: ``series.to_physical()``, where it is at hand.

    >>> column, counts = counted_column(pl.Series("a", [10, 9, None, 10], dtype=pl.Int8))
    >>> column.values.to_list(), column.codes.tolist(), counts.tolist()
    (['10', '9'], [0, 1, 2, 0], [2, 1])
    """
    if series.dtype.is_integer() and _spread(series) >= _SPAN:
        series = series.cast(pl.String)
    if series.dtype == pl.String:
        series, physical = series.cast(pl.Categorical(pl.Categories.random())), None
    cells, low = _from_zero(series.to_physical() if physical is None else physical)
    absent = series.is_null().to_numpy() if series.null_count() else None
    # Counting finds the distinct codes far quicker than hashing; a null's stand-in must not count.
    count = _histogram(cells if absent is None else cells[~absent])
    places = np.flatnonzero(count)
    values, order = _ascending(_spelled(places + low, series, cells.dtype))
    places = places[order]
    empty = int(len(values) > 0 and values[0] == "")
    values, places, blank = values[empty:], places[empty:], len(values) - empty
    table = np.full(max(len(count), 1), blank, dtype=np.uint32)
    table[places] = np.arange(blank)
    codes = _looked_up(narrow(table, blank + 1), cells, absent is None)
    if absent is not None:
        codes[absent] = blank
    return Column(series.name, values.alias(""), codes), count[places]


def _spread(series: pl.Series) -> int:
    low, high = series.min(), series.max()
    return 0 if low is None or high is None else int(high) - int(low)  # type: ignore[arg-type]


def _from_zero(physical: pl.Series) -> tuple[Array, int]:
    """Codes from 0 up without a sign, and what was taken from each; nulls are 0."""
    low = 0 if physical.dtype.is_unsigned_integer() else int(physical.min() or 0)  # type: ignore[arg-type]
    cells = (physical.fill_null(low) if physical.null_count() else physical).to_numpy()
    if cells.dtype.kind == "u":
        return cells, low
    # A difference that overflows is right again once its sign is a digit.
    return (cells - cells.dtype.type(low)).view(cells.dtype.str.replace("i", "u")), low


def _histogram(cells: Array) -> Array:
    """How often each code occurs."""
    if cells.dtype.itemsize > 1 or len(cells) < _PAIRS:
        return np.bincount(cells)
    # Two cells at a time.
    pairs = np.bincount(cells[: len(cells) // 2 * 2].view(np.uint16), minlength=2**16).reshape(2**8, 2**8)
    found: Array = pairs.sum(0) + pairs.sum(1) + np.bincount(cells[len(cells) // 2 * 2 :], minlength=2**8)
    return found


def _spelled(places: Array, series: pl.Series, storage: np.dtype[Any]) -> pl.Series:
    """The text of a series' codes."""
    if series.dtype.is_integer():
        return pl.Series(places).cast(pl.String)
    return pl.Series(places.astype(storage)).cat.to(series.dtype).cast(pl.String)


def _ascending(text: pl.Series) -> tuple[pl.Series, Array]:
    """Text in the order of code points, and where each stood."""
    if len(text) > _FEW:
        order = text.arg_sort().to_numpy()
        return text.gather(order), order
    # Of few, Python is done before polars has begun.
    words = text.to_list()
    order = np.array(sorted(range(len(words)), key=words.__getitem__), dtype=np.int64)
    return pl.Series([words[place] for place in order], dtype=pl.String), order


def _looked_up(table: Array, cells: Array, shared: bool) -> Array:
    if shared and table.dtype == cells.dtype and np.array_equal(table, np.arange(len(table))):
        return cells
    if table.dtype != np.uint8 or cells.dtype != np.uint8:
        return np.take(table, cells)
    # Of bytes Python looks up four in the time numpy takes for one; what comes back may be written to.
    return np.frombuffer(bytearray(cells).translate(table.tobytes().ljust(2**8, b"\0")), dtype=np.uint8)


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
