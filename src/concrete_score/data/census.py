"""What a codec needs to know of a table that is never in memory as a whole, from one pass over its parts.

- How many rows there are, and of every column of at most `VALUES` different values how many rows have each: exact.
- Of any other column a uniform sample of the rows, and beside it the values that are least, largest and written most
  finely, and texts among its numbers: the ends and the grid of its numbers are exact.

The sample holds the rows with the k smallest hashes of their numbers (bottom-k): it depends on nothing but these, and
samples of two parts of a table merge into one of both. It stands in for a sketch of quantiles, and tells what such a
sketch cannot: which values occur together. A share of the rows below any number is then off by more than
``sqrt(log(2 / δ) / 2k)`` with probability δ at most (Dvoretzky, Kiefer and Wolfowitz, 1956): of 2^17 rows, by more than
0.0054 with probability 0.001. A table of at most k rows is its own sample, and nothing about it is estimated.
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from concrete_score.data.frame import Array, Census, Frame, Tally
from concrete_score.data.layout import BLANKS
from concrete_score.data.streams import Stream, Update

VALUES = 2**16
"""Different values of a column that are counted, each of them."""
CELLS, MOST, LEAST = 2**23, 2**18, 2**14
"""Cells of the sample about, and rows at most and at least."""
_MERGED = 4 * VALUES
"""Lines of counts of single parts that are merged into one."""
_WORDS = 32
"""Texts that are no numbers, of which a row of each is kept."""
_DIGITS = 13
"""Decimals beyond which a number is as fine as any."""
_TENS = 12


def take_census(stream: Stream, update: Update = lambda done, total, text: None, most: int | None = None) -> Frame:
    """A sample of a table's rows, with what is known of all of them in its ``census``.

    Args:
        stream: the table.
        update: is told how far it is.
        most: rows of the sample; by default as many as take about `CELLS` cells.

    >>> from concrete_score.data.streams import stream_batches
    >>> batches = [pl.DataFrame({"a": range(k, k + 100)}) for k in range(0, 1000, 100)]
    >>> found = take_census(stream_batches(batches), most=50)
    >>> len(found), found.census.rows, len(found.census.tallies["a"].counts)
    (50, 1000, 1000)
    """
    first: Frame | None = None
    sample, rows, columns = _Sample(0), 0, dict[str, _Watched]()
    for frame in stream.parts(update):
        if first is None:
            first = frame
            sample = _Sample(most or int(np.clip(CELLS // frame.table.width, LEAST, MOST)))
            columns = {name: _Watched() for name in frame.names}
        for series in frame.table:
            columns[series.name].see(series)
        sample.see(frame.table, rows)
        rows += len(frame)
    if first is None:
        raise ValueError("a stream without parts")
    table = sample.rows()
    if rows == len(table):
        return replace(first, table=table)
    tallies = {name: tally for name, column in columns.items() if (tally := column.tally()) is not None}
    ends = {name: column.ends(table[name]) for name, column in columns.items() if name not in tallies}
    return replace(first, table=table, census=Census(rows, tallies, ends))


class _Sample:
    """The rows of the smallest hashes seen so far, in their order."""

    def __init__(self, most: int) -> None:
        self.most, self.limit, self.size = most, np.uint64(2**64 - 1), 0
        self.kept: list[tuple[Array, pl.DataFrame]] = []

    def see(self, table: pl.DataFrame, first: int) -> None:
        """More rows, the first of which is number ``first``."""
        hashes = hashed(np.arange(first, first + len(table), dtype=np.uint64))
        small = hashes < self.limit
        if small.any():
            self.kept.append((hashes[small], table if small.all() else table.filter(pl.Series(small))))
        self.size += int(small.sum())
        if self.size > self.most + self.most // 4:
            self._shrink()

    def rows(self) -> pl.DataFrame:
        """The sampled rows, in the order of the table."""
        if self.size > self.most:
            self._shrink()
        return pl.concat([table for _, table in self.kept])

    def _shrink(self) -> None:
        hashes, table = np.concatenate([each for each, _ in self.kept]), pl.concat([each for _, each in self.kept])
        self.kept = []
        self.limit = np.partition(hashes, self.most - 1)[self.most - 1]
        small = hashes <= self.limit
        self.kept = [(hashes[small], table.filter(pl.Series(small)).rechunk())]
        self.size = int(small.sum())


def hashed(numbers: Array) -> Array:
    """Whole numbers as uniform 64-bit ones, each as another (splitmix64; Steele, Lea and Flood, 2014)."""
    x = numbers + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: Array = x ^ (x >> np.uint64(31))
    return found


class _Numbers(NamedTuple):
    """Of the numbers of a column so far."""

    low: float = np.inf
    high: float = -np.inf
    digits: int = 0
    """Decimals that write all of them."""
    tens: int = _TENS
    """The power of ten that divides all of them."""


@dataclass
class _Watched:
    """One column's counts as long as its values are few, then the ends of its values."""

    counts: list[pl.DataFrame] | None = field(default_factory=list)
    lines: int = 0
    seen: _Numbers = field(default_factory=lambda: _Numbers())
    words: dict[str, None] = field(default_factory=dict)
    shown: list[Any] = field(default_factory=list)
    """Values that are least, largest or finest."""

    def see(self, cells: pl.Series) -> None:
        """More cells, as a part of a table has them."""
        if self.counts is None:
            self._look(cells)
            return
        found = cells.alias("value").value_counts()
        self.counts.append(found)
        self.lines += len(found)
        if self.lines > _MERGED or len(found) > VALUES:
            self._merge()

    def tally(self) -> Tally | None:
        """The values and how many rows have each; None where there are too many."""
        if self.counts is not None:
            self._merge()
        if self.counts is None:
            return None
        (found,) = self.counts
        return Tally(found["value"], found["count"].to_numpy().astype(np.int64))

    def ends(self, like: pl.Series) -> pl.Series:
        """What the sample of a column of very many values is completed by, as cells of this column."""
        found = pl.Series(like.name, [*self.shown, *self.words], dtype=like.dtype).unique(maintain_order=True)
        return found.filter(~found.is_in(like.implode()))

    def _merge(self) -> None:
        total = pl.concat(self.counts or []).group_by("value", maintain_order=True).agg(pl.col("count").sum())
        self.lines, self.counts = len(total), [total]
        if self.lines > VALUES:
            self.counts = None
            self._look(total["value"])

    def _look(self, cells: pl.Series) -> None:
        kind = cells.dtype
        if kind.is_numeric():
            self._number(cells, cells.cast(pl.Float64))
        elif kind.is_temporal():
            self.shown += [each for each in (cells.min(), cells.max()) if each is not None]
        elif kind == pl.String:
            numbers = cells.cast(pl.Float64, strict=False)
            self._number(cells, numbers)
            if len(self.words) < _WORDS:
                texts = cells.filter(numbers.is_null() & cells.is_not_null()).unique(maintain_order=True)
                odd = [text for text in texts.head(2 * _WORDS).to_list() if text not in BLANKS]
                self.words |= dict.fromkeys(odd[: _WORDS - len(self.words)])

    def _number(self, cells: pl.Series, numbers: pl.Series) -> None:
        """Keep new ends, and numbers finer than any before."""
        known = numbers.is_finite().fill_null(False)
        values = numbers.filter(known).to_numpy()
        if not len(values):
            return
        low, high, digits, tens = self.seen
        least, largest = float(values.min()), float(values.max())
        places = [int(values.argmin())] * (least < low) + [int(values.argmax())] * (largest > high)
        while digits < _DIGITS and (fine := np.round(values, digits) != values).any():
            digits += 1
            places.append(int(fine.argmax()))
        while digits == 0 and tens > 0 and (rest := values % 10.0**tens != 0).any():
            tens -= 1
            places.append(int(rest.argmax()))
        self.seen = _Numbers(min(low, least), max(high, largest), digits, tens)
        self.shown += cells.filter(known).gather(places).to_list()
