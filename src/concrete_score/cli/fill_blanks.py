"""A table with its blanks filled: every other cell is written as it was read."""

import gzip
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from concrete_score.data.frame import Array, Column, Frame, Numbers, narrow
from concrete_score.data.read import CSV, DATA, READERS, STDIN, TSV
from concrete_score.data.sites import Bins, Site
from concrete_score.data.source import is_path
from concrete_score.errors import InputError

if TYPE_CHECKING:
    from concrete_score.cli.kinds import Kind
    from concrete_score.cli.options import Console

_LAYOUTS = {layout.kind: layout for layout in (CSV, TSV, DATA)}
DRAW = "draw"
"""The column that counts completed copies."""


class Original(NamedTuple):
    """A table as the codec reads it, beside its cells as they stand in the file."""

    frame: Frame
    cells: tuple[pl.Series, ...]


class Blanks(NamedTuple):
    """One column's blanks with what is to stand there, and its other cells."""

    site: Site
    rows: Array
    """Rows of the blank cells ``(B,)``."""
    values: Array
    """The site's values for them ``(M, B)``, one line a copy."""
    known_rows: Array
    """Rows of the other cells that the model understands ``(K,)``."""
    known_values: Array
    """The site's values there ``(K,)``."""


def read_original(kind: "Kind", data: str, data_dir: str | None, console: "Console") -> Original:
    """The table that DATA means, no cell of it changed.

    Raises:
        InputError: as `load_table`.
    """
    content: bytes | None = None
    if data == STDIN:
        content = sys.stdin.buffer.read()
        frame = READERS[".csv"](content, "standard input")
    else:
        frame = kind.load(data, "test", data_dir, console.say)
        if is_path(data) and Path(data).is_file() and _is_changed(frame):
            content = Path(data).read_bytes()
            content = gzip.decompress(content) if data.lower().endswith(".gz") else content
    read = {column.name: column.cells() for column in frame.columns}
    if content is not None and _is_changed(frame):
        read |= _reread(content, frame)
    return Original(frame, tuple(read[name].alias(name) for name in frame.names))


def fill(original: Original, blanks: dict[str, Blanks], copies: int | None) -> Frame:
    """The table with its blanks filled, or that many completed copies of it below one another.

    Raises:
        InputError: copies are to be counted, and the table has a column of that name already.
    """
    frame, times = original.frame, copies or 1
    refuse_draw_column(frame, copies)
    found = []
    for cells in original.cells:
        at = np.tile(np.arange(len(cells)), (times, 1))
        if cells.name in blanks:
            cells, at = _completed(cells, blanks[cells.name], at)
        found.append(_column(cells.gather(pl.Series(at.reshape(-1)))))
    if copies is not None:
        found.insert(0, _column(pl.Series(DRAW, np.repeat(np.arange(times), frame.num_rows))))
    return Frame(tuple(found), frame.form, frame.where, frame.named)


def refuse_draw_column(frame: Frame, copies: int | None) -> None:
    """Refuse to count copies in a column that is there already."""
    if copies is not None and DRAW in frame.names:
        raise InputError(
            f"a table without a column {DRAW!r}",
            "one that has it",
            where=frame.where,
            fix="rename it, or leave --draws",
        )


def _completed(cells: pl.Series, blanks: Blanks, at: Array) -> tuple[pl.Series, Array]:
    """Cells with further values below them, and where in there each cell of the copies lies ``(M, N)``."""
    pool = np.full(blanks.site.size, -1)
    if not isinstance(blanks.site, Bins):
        # As the table itself spells a value, so it is filled in: 1.0 beside 1.0, True beside True.
        values, first = np.unique(blanks.known_values, return_index=True)
        pool[values] = blanks.known_rows[first]
    used = np.unique(blanks.values)
    new = used[pool[used] < 0]
    pool[new] = np.arange(len(new)) + len(cells)
    at[:, blanks.rows] = pool[blanks.values]
    if len(new):
        cells = _below(cells, blanks.site.decode(new).cells())
    return cells, at


def _below(cells: pl.Series, more: pl.Series) -> pl.Series:
    """Both below one another in the cells' own kind, or as text where that cannot hold the others."""
    try:
        return pl.concat([cells, more.cast(cells.dtype).alias(cells.name)])
    except pl.exceptions.PolarsError:
        return pl.concat([cells.cast(pl.String), more.cast(pl.String).alias(cells.name)])


def _column(series: pl.Series) -> Column:
    """Any series as codes of its distinct values."""
    values = series.drop_nulls().unique().sort()
    codes = (series.rank("dense").cast(pl.UInt32) - 1).fill_null(len(values))
    return Column(series.name, values.alias(""), narrow(codes.to_numpy(), len(values) + 1))


def _is_changed(frame: Frame) -> bool:
    """Whether reading made something else of some cells: text into numbers, or a file's kinds into ours."""
    return frame.form.kind == "parquet" or any(isinstance(column, Numbers) for column in frame.columns)


def _reread(content: bytes, frame: Frame) -> dict[str, pl.Series]:
    """The cells of columns that reading changed, as they stand in the file."""
    if frame.form.kind == "parquet":
        exact = pl.read_parquet(io.BytesIO(content), use_statistics=False, hive_partitioning=False)
        return {series.name: _plain(series) for series in exact}
    layout = _LAYOUTS.get(frame.form.kind)
    if layout is None:
        return {}
    wanted = [d for d, column in enumerate(frame.columns) if isinstance(column, Numbers)]
    text: dict[str, Any] = {f"x{d}": pl.String() for d in range(len(frame.columns))}
    exact = pl.read_csv(
        content,
        has_header=False,
        skip_rows=int(layout.header),
        schema=text,
        columns=wanted,
        separator=layout.separator,
        glob=False,
        missing_columns="insert",
    )
    if len(exact) != frame.num_rows:
        return {}
    return {frame.names[d]: series for d, series in zip(wanted, exact, strict=True)}


def _plain(series: pl.Series) -> pl.Series:
    """Categories as their text; they cannot take in values of others."""
    return series.cast(pl.String) if series.dtype in (pl.Categorical, pl.Enum) else series
