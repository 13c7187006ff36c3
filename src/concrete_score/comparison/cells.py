"""What the cells of a column read as: numbers, dates, or categories; each a function of the column in every table."""

import re
from collections.abc import Sequence

import numpy as np
import polars as pl

from concrete_score.data.amounts import find_spelling
from concrete_score.data.dates import find_formats, moments
from concrete_score.data.frame import Array, Frame

# No leading zeros: 007 is a name.
NUMBER_PATTERN = r"^[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
SPELLINGS = ("NA", "N/A", "na", "n/a", "NaN", "nan", "NULL", "null", "None", "none", "?", "-", ".")
"""Words that mean a blank among numbers or dates."""
BLANK_SPELLINGS = ("NA", "N/A", "n/a", "#N/A", "nan", "NaN", "NAN", "null", "NULL", "None", "?")
"""What programs write into a blank cell of a text file, whatever its column holds."""
DATES = (
    "%Y-%m-%d",
    "%Y-%m-%dT%H:%M:%S%.f%#z",
    "%Y-%m-%d %H:%M:%S%.f%#z",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d %H:%M",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d/%m/%Y %H:%M",
    "%m/%d/%Y %H:%M",
    "%d-%b-%Y",
)
"""Formats of text that is a date, tried in this order: the first that reads every cell of every table."""
TIMES = ("%H:%M:%S%.f", "%H:%M")
_FIRST = 100
"""Cells that are tried before all of them are."""
MANY = 0.5
"""The share of its different texts that must be numbers for the others to be words among them."""
FEW_WORDS, STRAY = 3, 0.05
"""The most different words among numbers, and the most cells that hold one, for which they are taken for blanks."""
_NANOSECONDS = 1000
_NAMED = re.compile(
    r"(^|[_\W])(id|uuid|guid|index|idx|rownames|rownum|row|no|nr|number|key)$|^unnamed|ID$", re.IGNORECASE
)
"""Names of columns that identify rows, where all their whole numbers differ."""


def blank_texts(frame: Frame, na: Sequence[str] | None) -> tuple[str, ...]:
    """The texts that mean a blank cell of a table: ``na``, or by default `BLANK_SPELLINGS` in a text file."""
    return tuple(na) if na is not None else () if frame.typed else BLANK_SPELLINGS


def counts_rows(name: str, values: Array, rows: int) -> bool:
    """Whether whole numbers, all of them different, number the rows of a table, or are called so.

    >>> counts_rows("x", np.arange(3, 7), 4), counts_rows("x", np.array([2, 9]), 2), counts_rows("ID", np.array([9]), 1)
    (True, False, True)
    """
    return int(values.max()) - int(values.min()) == rows - 1 or _NAMED.search(name) is not None


def plain(cells: pl.Series, na: Sequence[str] = ()) -> pl.Series:
    """Cells as Float64, a date's or time's own type, or String; null where empty, NaN, infinite or among ``na``.

    >>> plain(pl.Series([1, None])).to_list(), plain(pl.Series([True, False])).to_list()
    ([1.0, None], ['true', 'false'])
    """
    kind = cells.dtype
    if kind.is_numeric():
        numbers = cells.cast(pl.Float64)
        hidden = [float(word) for word in na if _is_number(word)]
        return numbers.set(~numbers.is_finite() | numbers.is_in(hidden), None)
    if kind.is_temporal():
        return cells
    text = cells.cast(pl.String)
    text = text.set(text.is_in(["", *na]), None)
    folded = text.str.to_lowercase()
    # Other programs write True where one writes true; it is the same value.
    return folded if folded.drop_nulls().is_in(["true", "false"]).all() else text


def numbers(parts: Sequence[pl.Series]) -> list[Array] | None:
    """Every cell as float64, NaN where blank ``(N,)``, if all of them are numbers; else None.

    >>> numbers([pl.Series(["1", "NA"]), pl.Series([2.5])])
    [array([ 1., nan]), array([2.5])]
    """
    found = []
    for part in parts:
        if part.dtype == pl.String:
            text = _without_spellings(part)
            if not text.drop_nulls().str.contains(NUMBER_PATTERN).all():
                return None
            part = text.cast(pl.Float64)
            part = part.set(~part.is_finite(), None)
        if part.dtype != pl.Float64:
            return None
        found.append(part.fill_null(float("nan")).to_numpy())
    return found


def stray_words(parts: Sequence[pl.Series]) -> list[str]:
    """The few words among cells that otherwise are numbers, or have digits; none where there are many.

    >>> stray_words([pl.Series([*map(str, range(100)), "x"])]), stray_words([pl.Series(["1", "x"])])
    (['x'], [])
    """
    texts = [_without_spellings(part).drop_nulls() for part in parts if part.dtype == pl.String]
    if not texts:
        return []
    whole = pl.concat(texts)
    numeric = whole.unique().str.contains(NUMBER_PATTERN).to_numpy()
    like = NUMBER_PATTERN if numeric.sum() > MANY * len(numeric) else r"\d"
    words = whole.filter(~whole.str.contains(like))
    distinct = words.unique().sort().to_list()
    return distinct if len(distinct) <= FEW_WORDS and len(words) <= STRAY * len(whole) else []


def dates(parts: Sequence[pl.Series]) -> list[Array] | None:
    """Every cell as microseconds since 1970, or since midnight, NaN where blank ``(N,)``; None where not all are dates.

    >>> dates([pl.Series(["1970-01-02", None])])
    [array([8.64e+10,      nan])]
    """
    texts = [_without_spellings(part) for part in parts if part.dtype == pl.String]
    formats = [None] if not texts else [*DATES, *TIMES]
    for form in formats:
        if form is not None and any(_moments(text.head(_FIRST), form) is None for text in texts):
            continue
        read = [_moments(part, form) for part in parts]
        if all(part is not None for part in read):
            return [part for part in read if part is not None]
    return _dates_as_written(texts) if len(texts) == len(parts) else None


def _dates_as_written(texts: Sequence[pl.Series]) -> list[Array] | None:
    """Texts as microseconds by the formats that all of them are written in."""
    found = find_formats(pl.concat(texts).drop_nulls().unique(maintain_order=True))
    if found is None:
        return None
    read = [pl.select(pl.coalesce(*(moments(text, form, found.what) for form in found.forms))) for text in texts]
    return [each.to_series().cast(pl.Float64).fill_null(float("nan")).to_numpy() for each in read]


def undressed(parts: Sequence[pl.Series]) -> list[pl.Series] | None:
    """Numbers without the currency, unit or marks of thousands that all of them are written with; None of other cells.

    >>> [part.to_list() for part in undressed([pl.Series(["$1,250", None]), pl.Series(["$7"])])]
    [['1250', None], ['7']]
    """
    if any(part.dtype != pl.String for part in parts):
        return None
    texts = [_without_spellings(part) for part in parts]
    spelling = find_spelling(pl.concat(texts).drop_nulls().unique(maintain_order=True))
    return None if spelling is None else [spelling.plain(text) for text in texts]


def categories(parts: Sequence[pl.Series]) -> tuple[list[Array], tuple[str, ...]]:
    """Every cell as its place among the sorted distinct values, one more where blank ``(N,)``; and these as text.

    >>> categories([pl.Series(["b", "a"]), pl.Series([None, "b"])])
    ([array([1, 0]), array([2, 1])], ('a', 'b'))
    """
    read = numbers(parts) if any(part.dtype == pl.Float64 for part in parts) or _are_numbers(parts) else None
    if read is not None:
        # 1 in one file is 1.0 in another.
        values = np.unique(np.concatenate(read))
        values = values[~np.isnan(values)]
        codes = [np.where(np.isnan(part), len(values), np.searchsorted(values, part)) for part in read]
        return codes, tuple(f"{value:.15g}" for value in values)
    texts = [part.cast(pl.String) for part in parts]
    labels = pl.concat(texts).drop_nulls().unique().sort()
    places = [text.cast(pl.Enum(labels)).to_physical().cast(pl.Int64).fill_null(len(labels)) for text in texts]
    return [part.to_numpy() for part in places], tuple(labels.to_list())


def _are_numbers(parts: Sequence[pl.Series]) -> bool:
    """Whether all cells are numbers already, without a word that would have to mean a blank."""
    texts = [part.str.strip_chars() for part in parts if part.dtype == pl.String]
    return len(texts) == len(parts) and all(text.drop_nulls().str.contains(NUMBER_PATTERN).all() for text in texts)


def _is_number(word: str) -> bool:
    return bool(pl.Series([word]).str.contains(NUMBER_PATTERN)[0])


def _without_spellings(text: pl.Series) -> pl.Series:
    text = text.str.strip_chars()
    return text.set(text.is_in(SPELLINGS), None)


def _moments(part: pl.Series, form: str | None) -> Array | None:
    """The cells of one table read by one format; None where it does not read all of them."""
    if part.dtype == pl.String:
        if form is None:
            return None
        text = _without_spellings(part)
        read = text.str.to_time(form, strict=False) if form in TIMES else _read_dates(text, form)
        if read.null_count() > text.null_count():
            return None
        part = read
    if not part.dtype.is_temporal():
        return None
    if part.dtype == pl.Time:
        moments = part.cast(pl.Int64) / _NANOSECONDS
    else:
        moments = part.cast(pl.Date if part.dtype == pl.Date else pl.Datetime("us")).dt.timestamp("us")
    return moments.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _read_dates(text: pl.Series, form: str) -> pl.Series:
    return text.str.to_datetime(form, strict=False, time_unit="us")
