"""CSV, TSV and headerless ``.data`` text, read by polars and checked by arithmetic.

Every cell is read as text straight into a shared dictionary of categories; which texts mean numbers is decided later,
on distinct values alone. A row with too few cells would pass unseen, so separators are counted: the file must hold
exactly as many as its cells imply. Whatever does not add up is read again, slowly, by `concrete_score.data.careful`,
which either succeeds or says where the fault is.
"""

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from concrete_score.data.careful import first_record, read_carefully, refuse_encoding
from concrete_score.data.columns import text_column
from concrete_score.data.frame import Column, Form, Frame, Numbers, unique_names
from concrete_score.errors import InputError

_SAMPLE = 1024
_BLOCK = 2**20
Buffer = bytes | mmap.mmap
Kinds = dict[str, Any]


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
    columns = _read_fast(view, source, layout, names)
    if columns is None:
        columns = read_carefully(view[:], names, layout.separator, layout.header, where)
    if not len(columns[0]):
        raise InputError("a table with rows", "a header alone", where=where, fix="add rows below the header")
    return Frame(tuple(columns), Form(layout.kind), where, named=layout.header)


def _read_fast(
    view: Buffer, source: str | bytes, layout: Layout, names: Sequence[str]
) -> Sequence[Column | Numbers] | None:
    """The columns, or None where anything is out of order."""
    skipped = int(layout.header)
    try:
        kinds = _kinds(source, layout, len(names), skipped)
        table = _scan(source, layout, kinds, skipped)
    # Whatever stops the quick reader, the careful one says better.
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, OverflowError):
        return None
    if not len(table):
        return None
    columns = [_column(series, name) for series, name in zip(table, names, strict=True)]
    return columns if _adds_up(view, layout, names, table, columns) else None


def _scan(source: str | bytes, layout: Layout, kinds: Kinds, skipped: int, rows: int | None = None) -> pl.DataFrame:
    return pl.read_csv(
        source,
        has_header=False,
        skip_rows=skipped,
        schema=kinds,
        separator=layout.separator,
        empty_string_is_null=False,
        # Cells that lack are counted afterwards; polars' own guess of the width errs on quoted cells.
        missing_columns="insert",
        glob=False,
        n_rows=rows,
    )


def _kinds(source: str | bytes, layout: Layout, count: int, skipped: int) -> Kinds:
    """Categories for columns that repeat themselves; text for those that do not, where a dictionary is a burden."""
    text = {f"x{d}": pl.String() for d in range(count)}
    sample = _scan(source, layout, text, skipped, _SAMPLE)
    shared = pl.Categorical(pl.Categories.random())
    return {series.name: pl.String() if series.n_unique() > _SAMPLE // 2 else shared for series in sample}


def _column(series: pl.Series, name: str) -> Column | Numbers:
    if series.dtype == pl.String:
        numbers = series.cast(pl.Float64, strict=False)
        known = numbers.filter(series.is_not_null() & (series != ""))
        # Whole numbers stay text here, for 007 is a name; of fractions nothing is lost.
        if not known.null_count() and known.is_finite().all() and (known != known.floor()).any():
            return Numbers(name, numbers.fill_null(float("nan")).to_numpy())
    return text_column(series.alias(name))


def _adds_up(
    view: Buffer, layout: Layout, names: Sequence[str], table: pl.DataFrame, columns: Sequence[Column | Numbers]
) -> bool:
    """Whether the file holds the separators that its cells imply, no more and no fewer."""
    mark = layout.separator
    expected = (len(table) + layout.header) * (len(columns) - 1)
    if view.find(b'"') >= 0:
        expected += sum(name.count(mark) for name in names) if layout.header else 0
        expected += sum(_marks(column, mark) for column in columns if isinstance(column, Column))
    data = np.frombuffer(view, dtype=np.uint8)
    blocks = (data[start : start + _BLOCK] for start in range(0, len(data), _BLOCK))
    found = sum(int(np.count_nonzero(block == ord(mark))) for block in blocks)
    del data
    return found == expected


def _marks(column: Column, mark: str) -> int:
    inside = column.values.str.count_matches(mark, literal=True).to_numpy()
    return int((inside * column.counts()[:-1]).sum())


def _path_for_polars(path: Path) -> str | None:
    try:
        return path.resolve().as_posix().encode().decode()
    except UnicodeEncodeError:
        return None


def _empty(where: str) -> InputError:
    return InputError("a table", "an empty file", where=where, fix="give one with a header and rows")
