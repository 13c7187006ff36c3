"""Shapes of columns and trends of pairs, as SDMetrics defines them, each table's rows weighed.

Shape of a column: one minus the Kolmogorov–Smirnov distance of numbers or dates, one minus the total variation of
categories; blanks are left out. Trend of a pair: of two columns of numbers or dates ``1 - |r - s| / 2`` with Pearson's
correlations ``r`` and ``s`` over the rows where neither is blank; of other pairs one minus the total variation of the
table of both, where a blank is a value, and numbers are cut into ten equal ranges of *their own table's* span (the
largest number, and a blank, fall into an eleventh). Weights serve for errors: rows drawn again weigh as often as they
were drawn, and rows whose tables are exchanged weigh on the other side.

SDMetrics adds 1e-6 of a row to each category that the real table lacks, which moves a shape by at most 1e-6; here
nothing is added. It draws 50,000 rows of larger tables for trends of categories; here all are counted.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from concrete_score.comparison.tables import REAL, SYNTHETIC, Column, Tables
from concrete_score.data.frame import Array

KS, TV = "KSComplement", "TVComplement"
CORRELATION, CONTINGENCY = "CorrelationSimilarity", "ContingencySimilarity"
RELATED_NUMBERS, RELATED_CATEGORIES = 0.5, 0.3
"""Above which correlation, and which Cramér's V, of the real table SDMetrics' report counts a pair."""
_RANGES = 10
_DECIMALS = 14
"""Numbers that differ by less are one: how SDMetrics rounds them."""
_SPARSE = 4
"""A table of more cells than this many a row is compressed before it is counted."""


def ks_similarity(order: Array, last: Array, real: Array, synthetic: Array) -> float:
    """One minus the largest gap between two weighted distribution functions; NaN where one has no weight.

    Args:
        order: places of the cells that are not blank, by ascending value ``(M,)``.
        last: where in ``order`` each distinct value ends.
        real, synthetic: the weights of all cells ``(N,)``.
    """
    if not len(order):
        return float("nan")
    f, g = np.cumsum(real[order]), np.cumsum(synthetic[order])
    if f[-1] <= 0 or g[-1] <= 0:
        return float("nan")
    return 1 - float(np.abs(f[last] / f[-1] - g[last] / g[-1]).max())


def tv_similarity(codes: Array, size: int, real: Array, synthetic: Array) -> float:
    """One minus the total variation of two weighted distributions over ``codes < size``; NaN where one has no weight.

    >>> tv_similarity(np.array([0, 1, 0, 0]), 2, np.array([1, 1, 0, 0]), np.array([0, 0, 1, 1]))
    0.5
    """
    f, g = (np.bincount(codes, weights, size)[:size] for weights in (real, synthetic))
    if not f.sum() or not g.sum():
        return float("nan")
    return 1 - float(np.abs(f / f.sum() - g / g.sum()).sum()) / 2


def cramers_v(counts: Array) -> float:
    """The association of a table of counts ``(R, C)``, from 0 to 1; NaN where a side has one value alone.

    >>> round(cramers_v(np.array([[5, 0], [0, 7]])), 12)
    1.0
    """
    counts = counts[counts.sum(1) > 0][:, counts.sum(0) > 0]
    if min(counts.shape) < 2:
        return float("nan")
    expected = np.outer(counts.sum(1), counts.sum(0)) / counts.sum()
    chi2 = ((counts - expected) ** 2 / expected).sum()
    return float(np.sqrt(chi2 / counts.sum() / (min(counts.shape) - 1)))


def equal_ranges(cells: Array) -> Array:
    """Numbers by ten equal ranges of their span, 1 to 10; the largest and blanks are 11 ``(N,)``.

    >>> equal_ranges(np.array([0.0, 4.9, 10.0, np.nan])).tolist()
    [1, 5, 11, 11]
    """
    return np.digitize(cells, np.histogram_bin_edges(cells[~np.isnan(cells)], _RANGES))


class Correlations:
    """Pearson's correlations of columns ``(N, d)`` with blanks, each pair over the rows where both are there."""

    def __init__(self, cells: Array) -> None:
        self.seen = (~np.isnan(cells)).astype(np.float64)
        known = np.maximum(self.seen.sum(0), 1)
        # Moments about the mean, in units of the spread, lose no digits.
        centered = np.where(self.seen > 0, cells, 0) - self.seen * (np.nansum(cells, 0) / known)
        spread = np.sqrt((centered**2).sum(0) / known)
        self.cells = centered / np.where(spread > 0, spread, 1)

    def __call__(self, weights: Array) -> Array:
        """The correlations under weights of the rows ``(d, d)``; NaN where one column does not vary."""
        x, m = self.cells, self.seen
        wx, wm = x * weights[:, None], m * weights[:, None]
        n, s, q = m.T @ wm, x.T @ wm, (x * x).T @ wm
        with np.errstate(divide="ignore", invalid="ignore"):
            mean, square = s / n, q / n
            variance = square - mean**2
            covariance = x.T @ wx / n - mean * mean.T
            scale = np.where(variance > 1e-12 * np.maximum(square, 1e-300), variance, np.nan)
            found: Array = np.clip(covariance / np.sqrt(scale * scale.T), -1, 1)
        return found


@dataclass(frozen=True, eq=False)
class Scores:
    """One score a column ``(D,)`` and one a pair of columns ``(P,)``; NaN where there is none."""

    shape: Array
    trend: Array

    def errors(self) -> Array:
        """One minus the mean shape, and one minus the mean trend ``(2,)``."""
        return np.array([1 - mean(self.shape), 1 - mean(self.trend)])


class Similarity:
    """Real and synthetic rows one below the other, prepared for scoring under many weights.

    Args:
        tables: what is compared.
        pairs: which pairs of columns, by place; by default all of them.
    """

    def __init__(self, tables: Tables, pairs: list[tuple[int, int]] | None = None) -> None:
        self.columns = tables.columns
        self.rows = tables.rows[:2]
        self.pairs = pairs if pairs is not None else list(combinations(range(len(self.columns)), 2))
        self._sorted = {d: _ascending(column) for d, column in enumerate(self.columns) if column.ordered}
        self._codes = [_codes(column) for column in self.columns]
        self._compressed: dict[tuple[int, int], tuple[Array, int]] = {}

    @cached_property
    def equal(self) -> tuple[Array, Array]:
        """The weights of the tables as they are: one for every row of one's own, none for the other's."""
        real = np.repeat([1.0, 0.0], self.rows)
        return real, 1 - real

    def scores(self, real: Array, synthetic: Array) -> Scores:
        """Shapes and trends under the weights ``(N,)`` that each of the two tables gives to all rows."""
        shape = [self._shape(d, real, synthetic) for d in range(len(self.columns))]
        r, s = self.correlations(real), self.correlations(synthetic)
        trend = [
            1 - abs(r[at] - s[at]) / 2
            if (at := self.places(i, j))
            else tv_similarity(*self.joint(i, j), real, synthetic)
            for i, j in self.pairs
        ]
        return Scores(np.array(shape, dtype=float), np.array(trend, dtype=float))

    def metric(self, i: int, j: int | None = None) -> str:
        """What SDMetrics calls the score of a column or a pair."""
        if j is None:
            return KS if self.columns[i].ordered else TV
        return CORRELATION if self.places(i, j) else CONTINGENCY

    def correlations(self, weights: Array) -> Array:
        """Of all columns of numbers or dates, under weights of the rows; NaN for those constant in a table."""
        found = self._correlations(weights)
        found[self._constant] = np.nan
        found[:, self._constant] = np.nan
        return found

    def places(self, i: int, j: int) -> tuple[int, int] | None:
        """Where the correlation of two columns stands; None unless both are numbers or dates."""
        at = self._places
        return (at[i], at[j]) if i in at and j in at else None

    def joint(self, i: int, j: int) -> tuple[Array, int]:
        """The cell of a pair's table that each row falls into, and how many cells there are."""
        if (i, j) in self._compressed:
            return self._compressed[i, j]
        (a, high), (b, wide) = self._codes[i], self._codes[j]
        codes, size = a * wide + b, high * wide
        if size > _SPARSE * len(codes):
            values, codes = np.unique(codes, return_inverse=True)
            size = len(values)
            self._compressed[i, j] = codes, size
        return codes, size

    def association(self, i: int, j: int) -> float:
        """Cramér's V of a pair in the real table."""
        (a, high), (b, wide) = ((codes[: self.rows[0]], size) for codes, size in (self._codes[i], self._codes[j]))
        if high * wide > _SPARSE * len(a):
            (one, a), (other, b) = (np.unique(codes, return_inverse=True) for codes in (a, b))
            high, wide = len(one), len(other)
        return cramers_v(np.bincount(a * wide + b, minlength=high * wide).reshape(high, wide))

    def _shape(self, d: int, real: Array, synthetic: Array) -> float:
        if d in self._sorted:
            return ks_similarity(*self._sorted[d], real, synthetic)
        return tv_similarity(_pooled(self.columns[d]), len(self.columns[d].labels), real, synthetic)

    @cached_property
    def _places(self) -> dict[int, int]:
        return {d: place for place, d in enumerate(self._sorted)}

    @cached_property
    def _correlations(self) -> Correlations:
        cells = [_pooled(self.columns[d]) for d in self._sorted]
        return Correlations(np.stack(cells, 1) if cells else np.zeros((sum(self.rows), 0)))

    @cached_property
    def _constant(self) -> Array:
        """Which columns of numbers or dates have one value alone in a table ``(d,)``."""
        parts = [[self.columns[d].cells[table] for table in (REAL, SYNTHETIC)] for d in self._sorted]
        return np.array([any(_is_constant(part) for part in both) for both in parts], dtype=bool)


def mean(scores: Array) -> float:
    """Of the scores that are there; NaN if none is."""
    known = scores[~np.isnan(scores)]
    return float(known.mean()) if len(known) else float("nan")


def _pooled(column: Column) -> Array:
    return np.concatenate([column.cells[REAL], column.cells[SYNTHETIC]])


def _ascending(column: Column) -> tuple[Array, Array]:
    cells = _pooled(column)
    cells = np.where(np.abs(cells) < 1, np.round(cells, _DECIMALS), cells)
    order = np.argsort(cells, kind="stable")
    order = order[: len(cells) - np.isnan(cells).sum()]
    values = cells[order]
    return order, np.flatnonzero(np.append(values[1:] != values[:-1], True)) if len(values) else order


def _codes(column: Column) -> tuple[Array, int]:
    """A column as one side of a pair's table: places of categories, or ranges of numbers; blanks have a place too."""
    if not column.ordered:
        return _pooled(column), len(column.labels) + 1
    return np.concatenate([equal_ranges(column.cells[table]) for table in (REAL, SYNTHETIC)]), _RANGES + 2


def _is_constant(cells: Array) -> bool:
    known = cells[~np.isnan(cells)]
    return len(known) > 0 and bool((known == known[0]).all())
