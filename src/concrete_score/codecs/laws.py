"""The law of a column of numbers on its grid: single points that stand out, and a smooth rest.

Points stand out that are *round*, multiples of a power of ten that rows prefer (counts among measurements, heaped
answers), or *frequent*, shared by more rows than the density around them explains. All others lie in bins; of both, the
expected numbers of rows maximize a Poisson likelihood penalized for roughness,

    Σ_j [ n_j θ_j - w_j exp(θ_j) ] - λ/2 Σ_j (θ_{j-1} - 2 θ_j + θ_{j+1})²,

for n_j rows in bin j of w_j points (Eilers and Marx, 1996). λ is the one of the best likelihood less the degrees of
freedom used (AIC), so that a law is as fine as the rows allow and no finer.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from concrete_score.data.frame import Array

POINTS = 256
"""Grid points that are each looked at on their own: all of a column's, or its round ones."""
FREQUENT = 1_000
"""Points at most that stand out by their rows alone."""
PRIOR = 0.5
"""Rows that all grid points of the training range count together beside those seen."""
BINS, FEW = 256, 10
"""Bins of the rest at most, and rows that each has at least on average."""
BLUR = 0.06
"""How far the quantiles that place the bins are smoothed, as a share of all bins."""
PENALTIES = 10.0 ** np.arange(-3, 9)
"""What is tried for λ, ascending."""
NEIGHBORS = 10
"""Values on either side of one that say how frequent it would be, until the rest is known better."""


class Law(NamedTuple):
    """Pieces of the training range, each of equally probable grid points."""

    starts: Array
    """The first grid point of each piece ``(P,)``, ascending; a piece ends where the next one starts."""
    end: int
    """After the last grid point."""
    rows: Array
    """Rows expected in each piece ``(P,)``, all positive."""
    single: Array
    """Whether a piece is one point that stands out ``(P,)``."""


def count_values(values: Array, weights: Array | None = None) -> tuple[Array, Array]:
    """The different values, ascending, and how many there are of each; a value may count as several ``(N,)``.

    >>> [each.tolist() for each in count_values(np.array([3, 1, 3]), np.array([1, 5, 2]))]
    [[1, 3], [5, 3]]
    """
    if weights is None:
        found, counts = np.unique(values, return_counts=True)
        return found, counts
    found, inverse = np.unique(values, return_inverse=True)
    return found, np.rint(np.bincount(inverse, weights)).astype(np.int64)


def learn_law(keys: Array, weights: Array | None = None) -> Law:
    """The law of the grid points ``keys`` ``(N,)``, each of which may count as several rows.

    >>> law = learn_law(np.array([0] * 500 + list(range(1000, 3000))))
    >>> law.starts[law.single].tolist(), law.rows[law.single].round().tolist()
    ([0], [500.0])
    """
    values, counts = count_values(keys, weights)
    low, high = int(values[0]), int(values[-1])
    if high - low < POINTS:
        every = np.arange(low, high + 1)
        return Law(every, high + 1, _point_rows(_rows_at(every, values, counts)), np.ones(len(every), dtype=bool))
    sets = _round_sets(values, counts)
    points = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *sets]))
    others = ~np.isin(values, points)
    own = _frequent(values[others], counts[others], _rate_around(values[others], counts[others]))
    edges, rates = _rest(values, counts, np.union1d(points, own))
    own = _frequent(values[others], counts[others], rates[np.searchsorted(edges, values[others], side="right") - 1])
    edges, rates = _rest(values, counts, np.union1d(points, own))
    expected: dict[int, float] = {}
    for each in sets:
        expected |= dict(zip(each.tolist(), _point_rows(_rows_at(each, values, counts)).tolist(), strict=True))
    expected |= dict(zip(own.tolist(), _rows_at(own, values, counts).tolist(), strict=True))
    alone = np.array(sorted(expected), dtype=np.int64)
    starts = np.unique(np.concatenate([edges[:-1], alone, alone + 1]))
    starts = starts[starts <= high]
    single = np.isin(starts, alone)
    width = np.diff(np.append(starts, high + 1))
    rows = rates[np.searchsorted(edges, starts, side="right") - 1] * width
    rows[single] = [expected[int(k)] for k in starts[single]]
    return Law(starts, high + 1, rows, single)


def smooth_rows(counts: Array, widths: Array | None = None) -> Array:
    """Rows expected in each of neighboring bins, from those seen in them.

    Args:
        counts: rows ``(B,)``.
        widths: points of each bin ``(B,)``; 1 by default.

    Returns:
        All positive ``(B,)``; the sum is that of the counts and `PRIOR`.
    """
    # What learns laws alone is imported there: half the time that the rest of the codecs takes to import.
    from scipy.linalg import solveh_banded

    wide = np.ones(len(counts)) if widths is None else widths.astype(float)
    seen: Array = counts + PRIOR * wide / wide.sum()
    if len(counts) < 4:
        return seen
    difference = np.diff(np.eye(len(counts)), 2, axis=0)
    rough = difference.T @ difference
    band = np.stack([np.append(np.zeros(k), np.diagonal(rough, k)) for k in (2, 1, 0)])
    theta, best, found = np.log((seen + 0.5) / wide), -np.inf, seen
    for penalty in PENALTIES:
        theta = _penalized(theta, seen, wide, penalty * band, penalty * rough)
        expected = wide * np.exp(theta)
        used = solveh_banded(_with_diagonal(penalty * band, expected), np.diag(expected)).trace()
        value = float((seen * theta - expected).sum() - used)
        if value < best - len(counts):  # ever smoother laws fit ever worse
            break
        if value > best:
            best, found = value, expected
    scaled: Array = found * (seen.sum() / found.sum())
    return scaled


def _penalized(theta: Array, seen: Array, wide: Array, band: Array, rough: Array) -> Array:
    """Newton's method; the objective is concave."""
    from scipy.linalg import solveh_banded

    for _ in range(50):
        expected = wide * np.exp(theta)
        step = solveh_banded(_with_diagonal(band, expected), seen - expected - rough @ theta)
        theta = theta + np.clip(step, -1.0, 1.0)
        if np.abs(step).max() < 1e-3:
            break
    return theta


def _with_diagonal(band: Array, diagonal: Array) -> Array:
    found: Array = np.concatenate([band[:-1], band[-1:] + diagonal])
    return found


def _rows_at(points: Array, values: Array, counts: Array) -> Array:
    """How many rows have each point ``(P,)``."""
    at = np.searchsorted(values, points).clip(0, len(values) - 1)
    return np.where(values[at] == points, counts[at], 0).astype(float)


def _round_sets(values: Array, counts: Array) -> list[Array]:
    """The sets of round points that hold clearly more rows than their share, coarse ones first."""
    found: list[Array] = []
    left, span = np.ones(len(values), dtype=bool), int(values[-1]) - int(values[0])
    for step in (10**k for k in range(18, 0, -1) if 2 * 10**k <= span):
        own = left & (values % step == 0)
        if not own.any():
            continue
        first, last = values[own][0], values[own][-1]
        among = left & (values >= first - step) & (values <= last + step)
        # One point alone that many rows have makes no set.
        share, rows = counts[among].sum() / step, counts[own].sum() - counts[own].max()
        if 2 * step <= last - first < POINTS * step and rows > share + 5 * np.sqrt(share + 5):
            earlier = np.concatenate([np.empty(0, dtype=np.int64), *found])
            found.append(np.setdiff1d(np.arange(first, last + 1, step), earlier))
            left &= ~own
    return found


def _point_rows(counts: Array) -> Array:
    """Rows expected at neighboring points, from those seen: smooth, but for points that stand out among the others."""
    at = np.flatnonzero(counts)
    own = _frequent(at, counts[at], _rate_around(at, counts[at]))
    found = counts.astype(float)
    rest = np.delete(np.arange(len(counts)), own)
    if len(rest):
        found[rest] = smooth_rows(found[rest])
    return found


def _rest(values: Array, counts: Array, points: Array) -> tuple[Array, Array]:
    """Bins of the training range without some points: edges ``(B + 1,)``, and rows expected a grid point ``(B,)``."""
    low, high = int(values[0]), int(values[-1])
    others = ~np.isin(values, points)
    edges = _edges(values[others], counts[others], low, high)
    seen = np.histogram(values[others], edges, weights=counts[others])[0]
    wide = np.diff(edges) - np.diff(np.searchsorted(points, edges))
    possible = wide > 0
    rates = np.full(len(wide), PRIOR / (high - low + 1))
    rates[possible] = smooth_rows(seen[possible], wide[possible]) / wide[possible]
    return edges, rates


def _edges(values: Array, counts: Array, low: int, high: int) -> Array:
    """Bins that are even in the quantiles of a normal distribution, so that there are enough of them in the tails."""
    total = int(counts.sum())
    bins = min(BINS, total // FEW)
    if bins < 4 or len(values) < 4:
        return np.array([low, high + 1])
    from scipy.ndimage import gaussian_filter1d

    top = ndtri(1 - 0.5 / total)
    place = ndtr(np.linspace(-top, top, bins + 1)) * total
    at = np.interp(place, np.cumsum(counts) - counts / 2, values.astype(float))
    at = gaussian_filter1d(at, BLUR * bins, mode="nearest")
    first, last = int(values[0]), int(values[-1]) + 1
    at = first + (at - at[0]) * ((last - first) / max(at[-1] - at[0], 1e-9))
    inner = np.ceil(at[1:-1]).astype(np.int64).clip(first, last)
    return np.unique(np.concatenate([[low, first], inner, [last, high + 1]]))


def _rate_around(values: Array, counts: Array) -> Array:
    """Rows a grid point among the nearest values seen, each value without itself ``(V,)``."""
    at = np.arange(len(values))
    first, last = (at - NEIGHBORS).clip(0), (at + NEIGHBORS).clip(max=len(values) - 1)
    total = np.append(0, np.cumsum(counts))
    wide = values[last] - values[first]
    found: Array = (total[last + 1] - total[first] - counts) / np.maximum(wide, 1)
    return found


def _frequent(values: Array, counts: Array, rates: Array) -> Array:
    """Values that more rows have than the rates of the points around them explain, by more than listing them takes."""
    rate = np.maximum(rates, PRIOR / max(1.0, float(values[-1] - values[0])) if len(values) else PRIOR)
    gain = np.where(counts > np.maximum(rate, 1), counts * np.log(counts / rate) - counts + rate, 0.0)
    own = gain > np.log(counts.sum()) + 3
    order = np.argsort(-gain, kind="stable")[: min(FREQUENT, int(own.sum()))]
    found: Array = np.sort(values[order])
    return found
