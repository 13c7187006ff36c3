"""CSV, TSV and headerless ``.data`` text, read by polars and checked by arithmetic.

Every cell is text; which texts mean numbers is decided later, on distinct values alone. Cells are still parsed as the
narrowest type that the first rows suggest, whole numbers or categories of one byte, for that is twice as quick. Such a
type may forget a spelling, and a row with too few cells would pass unseen, so the file's letters and separators are
counted: it must hold exactly those its cells imply. What does not add up is read again as wide categories, and if that
does not either, slowly, by `concrete_score.data.careful`, which either succeeds or says where the fault is.
"""

import mmap
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from concrete_score.data.careful import first_record, read_carefully, refuse_encoding
from concrete_score.data.columns import counted_column
from concrete_score.data.frame import Array, Column, Form, Frame, Numbers, unique_names
from concrete_score.data.kinds import SAMPLE, Kinds, narrow_kinds, truth_words, wide_kinds
from concrete_score.data.tally import Tally
from concrete_score.data.threads import each
from concrete_score.errors import InputError

Buffer = bytes | mmap.mmap
_HEAD = 2**20
_STOPS = (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, OverflowError)


@dataclass(frozen=True)
class Layout:
    """How a text format puts cells on a line.

    >>> Layout("csv", ",").header
    True
    """

    kind: str
    separator: str
    header: bool = True


def read_text(source: Path | bytes, where: str, layout: Layout) -> Frame:
    """A table of text cells, from a file or from bytes already in memory.

    Raises:
        InputError: empty, binary, not UTF-8, ragged or without rows; the line is named.

    >>> read_text(b"a,b\\n1,x\\n2,\\n", "data.csv", Layout("csv", ",")).rows()
    [('1', 'x'), ('2', None)]
    """
    if isinstance(source, bytes):
        return _read(source, source, where, layout)
    with source.open("rb") as file:
        if not source.stat().st_size:
            raise _empty(where)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            return _read(view, _path_for_polars(source) or view[:], where, layout)


def _read(view: Buffer, source: str | bytes, where: str, layout: Layout) -> Frame:
    refuse_encoding(view, where)
    first = first_record(view, layout.separator, where)
    if not any(first):
        raise _empty(where)
    names = unique_names(first, where) if layout.header else tuple(f"x{d}" for d in range(len(first)))
    columns = _read_fast(view, source, layout, first)
    if columns is None:
        columns = read_carefully(view[:], names, layout.separator, layout.header, where)
    if not len(columns[0]):
        raise InputError("a table with rows", "a header alone", where=where, fix="add rows below the header")
    named = tuple(replace(column, name=name) for column, name in zip(columns, names, strict=True))
    return Frame(named, Form(layout.kind), where, named=layout.header)


def _read_fast(
    view: Buffer, source: str | bytes, layout: Layout, first: Sequence[str]
) -> Sequence[Column | Numbers] | None:
    """The columns, or None where anything is out of order; ``first`` is the first line's cells."""
    try:
        sample = _sample(view, source, layout, len(first))
        for guess in (narrow_kinds, wide_kinds):
            columns = _columns(view, source, layout, first, sample, guess(sample))
            if columns is not None:
                return columns
    # Whatever stops the quick reader, the careful one says better.
    except _STOPS:
        pass
    return None


def _columns(
    view: Buffer, source: str | bytes, layout: Layout, first: Sequence[str], sample: pl.DataFrame, kinds: Kinds
) -> Sequence[Column | Numbers] | None:
    try:
        table = _scan(source, layout, kinds, quoted=view.find(b'"') >= 0)
    # Whatever stops the quick reader, the careful one says better.
    except _STOPS:
        return None
    if not len(table):
        return None
    whole = Tally.of_file(view, layout.separator)
    columns, tally = _understood(table, sample, layout.separator, capitals=whole.capitals > 0)
    tally += Tally((len(table) + layout.header) * (len(first) - 1), 0)
    if layout.header:
        tally += Tally.of_texts(pl.Series(first, dtype=pl.String), np.ones(len(first)), layout.separator)
    return columns if tally == whole else None


def _sample(view: Buffer, source: str | bytes, layout: Layout, width: int) -> pl.DataFrame:
    """The first rows as text."""
    text = {f"x{d}": pl.String() for d in range(width)}
    if len(view) > _HEAD:
        # Polars opens a whole file to read its first rows; some bytes of it are soon read. They may end amid a cell.
        with suppress(*_STOPS):
            return _scan(view[: view.rfind(b"\n", 0, _HEAD) + 1], layout, text, SAMPLE)
    return _scan(source, layout, text, SAMPLE)


def _scan(
    source: str | bytes, layout: Layout, kinds: Kinds, rows: int | None = None, *, quoted: bool = True
) -> pl.DataFrame:
    return pl.read_csv(
        source,
        has_header=False,
        skip_rows=int(layout.header),
        schema=kinds,
        separator=layout.separator,
        quote_char='"' if quoted else None,
        empty_string_is_null=False,
        # Cells that lack are counted afterwards; polars' own guess of the width errs on quoted cells.
        missing_columns="insert",
        glob=False,
        n_rows=rows,
    )


def _understood(
    table: pl.DataFrame, sample: pl.DataFrame, separator: str, *, capitals: bool
) -> tuple[list[Column | Numbers], Tally]:
    """The columns, and what their cells hold."""
    found = each(lambda pair: _counted(*pair, capitals=capitals), zip(table, sample, strict=True))
    tally = sum((count for column, count in found if isinstance(count, Tally)), Tally(0, 0))
    texts = [(column.values, count) for column, count in found if isinstance(column, Column)]
    if texts:
        values, counts = zip(*texts, strict=True)
        tally += Tally.of_texts(pl.concat(values), np.concatenate(counts), separator)
    return [column for column, _ in found], tally


def _counted(series: pl.Series, seen: pl.Series, *, capitals: bool) -> tuple[Column, Array] | tuple[Numbers, Tally]:
    """A column, with how often each value occurs; of numbers, what they hold."""
    if series.dtype == pl.Boolean:
        # Truth values become the words they were read from.
        series = series.cast(pl.UInt8).cat.to(pl.Enum(truth_words(seen.to_list()) or ()))
    return (_numbers(series, capitals) if series.dtype == pl.String else None) or counted_column(series)


def _numbers(series: pl.Series, capitals: bool) -> tuple[Numbers, Tally] | None:
    """Text as numbers, if all of it is and not all are whole: 007 is a name, but of fractions nothing is lost."""
    numbers = series.cast(pl.Float64, strict=False)
    known = numbers.drop_nulls() if numbers.null_count() else numbers
    blank = series.null_count() + int((series == "").sum()) if numbers.null_count() else 0
    if len(known) + blank < len(series) or not known.is_finite().all() or not (known != known.floor()).any():
        return None
    # Numbers hold no other capital than that of 1E5.
    large = int(series.str.contains("E", literal=True).sum()) if capitals else 0
    tally = Tally(0, int(series.str.len_bytes().sum()), 0, large)
    return Numbers(series.name, numbers.fill_null(float("nan")).to_numpy()), tally


def _path_for_polars(path: Path) -> str | None:
    try:
        return path.resolve().as_posix().encode().decode()
    except UnicodeEncodeError:
        return None


def _empty(where: str) -> InputError:
    return InputError("a table", "an empty file", where=where, fix="give one with a header and rows")
