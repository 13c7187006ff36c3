"""Counting families: a site, its parents, and every site that might join them, all at once.

A family's *cells* are the ``K`` combinations of its parents' values times the ``V`` values of the child. The rows of a
cell are a line of bits, and so are the rows in which a candidate has one of its values: a count is the number of ones
in the AND of two lines, 64 rows an operation, exact. Sites or families too large for that, and weighted rows, are
counted one candidate at a time.

Blanks: with ``observed``, every table counts the rows in which all of its own sites are known, and a candidate's gain
compares the family with and without it on the same rows. That is fair where blanks are unrelated to the values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
import numpy.typing as npt

Sites = npt.NDArray[np.int64]
Counts = npt.NDArray[np.float64]
Lines = npt.NDArray[np.uint64]

CELLS = 2**14
"""Entries of one conditional table at most."""
CHEAP = 128
"""Lines to AND, cells times a site's values but one, up to which that is faster than counting rows one by one."""
CHUNK = 2**22
"""Entries of the tables, or rows times candidates, counted at once."""


@dataclass(frozen=True, eq=False)
class Families:
    """Tables of counts, and the gain in log-likelihood of each site as one more parent.

    Args:
        columns: the sites' values ``(D, N)``, integers however narrow.
        sizes: of the sites.
        observed: which cells are known ``(D, N)`` bool; all by default.
        weights: of the rows ``(N,)``; 1 by default.

    >>> rows = np.array([[0, 0, 1], [0, 1, 1], [1, 0, 0], [1, 1, 0]])
    >>> np.exp(Families(rows.T, (2, 2, 2)).gains(0, (), np.array([1, 2]))).round().tolist()
    [1.0, 16.0]
    """

    columns: npt.NDArray[np.integer]
    sizes: tuple[int, ...]
    observed: npt.NDArray[np.bool_] | None = None
    weights: Counts | None = None

    @property
    def total(self) -> float:
        """The number of rows, or their weight."""
        return float(self.columns.shape[1] if self.weights is None else self.weights.sum())

    def table(self, sites: Sequence[int]) -> Counts:
        """How often each combination of the sites' values occurs ``(V_1, …, V_n)``."""
        shape = [self.sizes[d] for d in sites]
        counts = np.bincount(self._code(sites), self.weights, minlength=prod(shape) + 1)
        return counts[:-1].astype(np.float64).reshape(shape)

    def log_likelihood(self, child: int, parents: Sequence[int]) -> float:
        """``max Σ log p(child | parents)`` over the rows in which all of them are known."""
        return conditional_log_likelihood(self.table([*parents, child]))

    def gains(self, child: int, parents: Sequence[int], candidates: Sites) -> Counts:
        """By how much each candidate as one more parent raises the log-likelihood of the child ``(C,)``.

            Σ_kvu n log n − Σ_ku n log n − Σ_kv n log n + Σ_k n log n,    n counts parents k, child v, candidate u

        Args:
            child: a site.
            parents: its parents.
            candidates: other sites ``(C,)``.
        """
        shape = (prod(self.sizes[d] for d in parents), self.sizes[child])
        gains = np.empty(len(candidates))
        for place, counts in self._joint(self._code([*parents, child]), prod(shape), candidates):
            n = counts.reshape(len(place), *shape, -1)  # (c, K, V, U)
            gain = _xlogx(n).sum((1, 2, 3)) - _xlogx(n.sum(2)).sum((1, 2))
            n = n.sum(3)
            gains[place] = gain - _xlogx(n).sum((1, 2)) + _xlogx(n.sum(2)).sum(1)
        return gains

    def _joint(self, code: Sites, cells: int, candidates: Sites) -> Iterator[tuple[Sites, Counts]]:
        """Counts of the cells with the values of some of the candidates ``(c, cells, U)``, and which they are."""
        sizes = np.array(self.sizes)[candidates]
        for size in np.unique(sizes).tolist():
            places = (sizes == size).nonzero()[0]
            quick = self.weights is None and cells * (size - 1) <= CHEAP
            most = max(1, CHUNK // max(cells * (size + 1), 0 if quick else len(code)))
            count = self._by_lines if quick else self._one_by_one
            for start in range(0, len(places), most):
                place = places[start : start + most]
                yield place, count(code, cells, candidates[place], size)

    def _by_lines(self, code: Sites, cells: int, sites: Sites, size: int) -> Counts:
        counts = np.empty((len(sites), cells, size))
        rows = _lines(code == np.arange(cells)[:, None])
        for value in range(1, size):
            counts[:, :, value] = _ones(self._bits[self._first[sites] + value - 1], rows)
        known = np.bincount(code, minlength=cells)[:cells] if self._known is None else _ones(self._known[sites], rows)
        counts[:, :, 0] = known - counts[:, :, 1:].sum(-1)
        return counts

    def _one_by_one(self, code: Sites, cells: int, sites: Sites, size: int) -> Counts:
        wide = size + 1  # the last value: unknown
        tables = np.arange(len(sites))[:, None]
        place = (tables * (cells + 1) + code) * wide + self._values[sites]
        weights = None if self.weights is None else np.broadcast_to(self.weights, place.shape).ravel()
        counts = np.bincount(place.ravel(), weights, minlength=len(sites) * (cells + 1) * wide)
        return counts.astype(np.float64).reshape(len(sites), cells + 1, wide)[:, :-1, :-1]

    def _code(self, sites: Sequence[int]) -> Sites:
        """The combination of the sites' values in each row ``(N,)``; one more than there are where any is unknown."""
        code = np.zeros(self.columns.shape[1], dtype=np.int64)
        for d in sites:
            code *= self.sizes[d]
            code += self.columns[d]
        if self.observed is not None:
            code[~self.observed[list(sites)].all(0)] = prod(self.sizes[d] for d in sites)
        return code

    @cached_property
    def _values(self) -> npt.NDArray[np.integer]:
        """The values ``(D, N)``; a site's size where it is unknown."""
        if self.observed is None:
            return self.columns
        return np.where(self.observed, self.columns.astype(np.int32), np.array(self.sizes, np.int32)[:, None])

    @cached_property
    def _first(self) -> Sites:
        """The first line of each site in `_bits` ``(D,)``."""
        lines = self._num_lines
        return lines.cumsum() - lines

    @property
    def _num_lines(self) -> Sites:
        """All values but the first, of sites that are ever counted by lines."""
        more = np.array(self.sizes) - 1
        return np.where(more <= CHEAP // 2, more, 0)

    @cached_property
    def _bits(self) -> Lines:
        """In which rows a site has a value: a line for each of its values but the first ``(L, N / 64)``."""
        bits = np.empty((self._num_lines.sum(), -(-self.columns.shape[1] // 64)), dtype=np.uint64)
        for d, (first, count) in enumerate(zip(self._first, self._num_lines, strict=True)):
            bits[first : first + count] = _lines(self._values[d] == np.arange(1, count + 1)[:, None])
        return bits

    @cached_property
    def _known(self) -> Lines | None:
        """In which rows a site is known ``(D, N / 64)``; None where all are."""
        return None if self.observed is None else _lines(self.observed)


def conditional_log_likelihood(counts: Counts) -> float:
    """The largest log-likelihood of the last site given the others, by their table of counts.

    >>> round(conditional_log_likelihood(np.array([[2.0, 2.0], [0.0, 3.0]])) / np.log(2), 6)
    -4.0
    """
    given = counts.reshape(-1, counts.shape[-1]).sum(1)
    return float(_xlogx(counts).sum() - _xlogx(given).sum())


def _lines(rows: npt.NDArray[np.bool_]) -> Lines:
    """Rows marked true ``(L, N)`` as bits, 64 to a word."""
    packed = np.packbits(rows, axis=1)
    return np.ascontiguousarray(np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8)))).view(np.uint64)


def _ones(lines: Lines, rows: Lines) -> npt.NDArray[np.int64]:
    """How many rows each line has in common with each other line ``(L, W), (R, W) -> (L, R)``."""
    return np.stack([np.bitwise_count(lines & row).sum(1, dtype=np.int64) for row in rows], 1)


def _xlogx(counts: Counts) -> Counts:
    """``n log n``, 0 at 0; rows may weigh less than 1."""
    return counts * np.log(np.where(counts > 0, counts, 1.0))
