"""How a column of numbers is cut: its grid, quantile ranges, and the pieces of the law inside them."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from concrete_score.data.frame import Array
from concrete_score.errors import InputError

LIMIT = 2**62
"""Grid points beyond are not told apart."""
Allowed = tuple[tuple[int, int], ...]
"""Intervals of grid points, both ends included, ascending."""
MOST_RANGES, LEAST_RANGES = 40, 4
"""Ranges of a column: the cube root of its rows, between these."""
PIECES = 160
"""About how many pieces the law inside all ranges of a column has."""
SEEN_OFTEN = 5
"""A value of a column of few different values has a piece of its own if so many rows share it."""
FEWEST = 30
"""Rows that an atom or a range holds at least, where there are enough."""
PRIOR = 0.5
"""What all grid points of a cell together, and all beyond the training range, count beside the training rows."""
_DIGITS = 12
"""The most decimals of a grid that is read off the values; beyond, numbers are continuous."""
_SIGNIFICANT = 9
"""Digits of a continuous column, relative to its range."""


def cut(keys: Array, ranges: int | None = None) -> tuple[Array, Array, Array]:
    """The pieces of a column whose observed cells are the grid points ``keys`` ``(N,)``.

    A value that more rows share than a range would hold is an atom, a cell of its own; the others are cut into ranges
    that hold about equally many rows. Pieces are where the law inside a cell is even: single values that are frequent,
    stretches between quantiles, and beyond the training range ever wider ones of ever less weight.

    Args:
        keys: whole numbers within `LIMIT`.
        ranges: how many, atoms apart; the cube root of the rows by default.

    Returns:
        Of each piece its first grid point, ascending, its cell, and its weight.
    """
    values, counts = np.unique(keys, return_counts=True)
    wanted = ranges or int(np.clip(round(len(keys) ** (1 / 3)), LEAST_RANGES, MOST_RANGES))
    atoms = _atoms(counts, wanted)
    bounds = _bounds(values[~atoms], counts[~atoms], wanted)
    starts = _starts(values, counts, atoms, bounds)
    weights = _weights(starts, values, counts)
    atom = np.isin(starts, values[atoms])
    return starts, _ascending(starts, weights, atom, np.searchsorted(bounds, starts, side="right")), weights


def grid_digits(values: Array) -> int:
    """Decimals that write every value exactly; negative where all are multiples of ten, a hundred, …

    Without such a grid the numbers are continuous, and get one fine enough for nine digits of their range.

    >>> grid_digits(np.array([0.25, 1.5])), grid_digits(np.array([100.0, 300.0] * 20)), grid_digits(np.array([3.0]))
    (2, -2, 0)
    """
    largest = float(np.abs(values).max()) if len(values) else 0.0
    if np.all(values == np.floor(values)):
        digits = 0
        while len(values) >= 20 and -digits < 12 and largest and np.all(values % 10.0 ** (1 - digits) == 0):
            digits -= 1
        return digits
    for digits in range(1, _DIGITS + 1):
        if largest * 10**digits >= 2**53:
            break
        if np.array_equal(np.round(values, digits), values):
            return digits
    width = float(values.max() - values.min()) or largest
    return int(np.clip(_SIGNIFICANT - np.floor(np.log10(width)), -12, 15 - np.ceil(np.log10(max(largest, 1e-300)))))


def meet(allowed: Iterable[Allowed]) -> Allowed:
    """What lies in one of the intervals of each.

    >>> meet([((0, 5), (8, 9)), ((4, 8),)])
    ((4, 5), (8, 8))
    """
    found: Allowed = ((-LIMIT, LIMIT),)
    for each in allowed:
        pairs = [(max(a, c), min(b, d)) for a, b in found for c, d in each]
        found = tuple((a, b) for a, b in pairs if a <= b)
    return found


def intervals(operator: str, keys: Sequence[tuple[int, int]]) -> Allowed:
    """The intervals of grid points an operator allows; a value between two grid points is an empty interval.

    >>> intervals("<", [(5, 5)]) == ((-LIMIT, 4),), intervals("in", [(1, 1), (4, 3), (7, 9)])
    (True, ((1, 1), (7, 9)))
    """
    first, last = keys[0]
    # Between two grid points (last < first) the value is above ``last`` and below ``first``.
    found = {
        "<": [(-LIMIT, first - 1)],
        "<=": [(-LIMIT, last)],
        ">": [(last + 1, LIMIT)],
        ">=": [(first, LIMIT)],
        "!=": [(-LIMIT, first - 1), (last + 1, LIMIT)] if first <= last else [(-LIMIT, LIMIT)],
    }.get(operator, list(keys))
    return tuple((a, b) for a, b in found if a <= b)


def quantile_edges(numbers: Array, count: int, where: str) -> tuple[float, ...]:
    """Edges ``e_0 < … < e_k`` of at most ``count`` ranges ``[e_i, e_{i+1})``, the last one closed.

    Each inner edge parts two neighboring observed numbers, those whose place in the sorted data is nearest to its
    quantile, and is the shortest decimal that does. Numbers that repeat are never divided, so heavy repetition gives
    fewer ranges.

    Args:
        numbers: ``(N,)``; NaN and infinities are passed over.
        count: at least 2.

    Raises:
        InputError: fewer than two different numbers.

    >>> quantile_edges(np.arange(100.0), 4, "age")
    (0.0, 25.0, 50.0, 75.0, 99.0)
    >>> quantile_edges(np.array([0.1234567, 0.4999, 0.5123, 0.9876543]), 2, "share")
    (0.123, 0.5, 0.988)
    >>> quantile_edges(np.array([0.0] * 90 + [1.0, 2.5] * 5), 10, "visits")
    (0.0, 1.0, 2.5)
    """
    values, counts = np.unique(numbers[np.isfinite(numbers)], return_counts=True)
    if len(values) < 2:
        raise InputError("two different numbers or more", str(len(values)), where=where, fix="drop the column")
    below = np.cumsum(counts)[:-1]
    targets = np.arange(1, count) * counts.sum() / count
    right = np.searchsorted(below, targets).clip(0, len(below) - 1)
    left = (right - 1).clip(0)
    nearest = np.where(np.abs(below[left] - targets) < np.abs(below[right] - targets), left, right)
    inner = [_shortest(values[at], values[at + 1]) for at in np.unique(nearest)]
    low, high = float(values[0]), float(values[-1])
    return (_rounded(low, up=False), *inner, _rounded(high, up=True))


def edges_label(edges: tuple[float, ...]) -> tuple[str, ...]:
    """One label a range, the last one closed.

    >>> edges_label((0.0, 0.5, 3.0))
    ('[0, 0.5)', '[0.5, 3]')
    """
    texts = [_short(edge) for edge in edges]
    pairs = list(pairwise(texts))
    return tuple(f"[{low}, {high}{']' if at == len(pairs) - 1 else ')'}" for at, (low, high) in enumerate(pairs))


def edges_listed(edges: Sequence[float], shown: int = 12) -> str:
    """Edges for a message, the first ones and the last."""
    more = f", … {_short(edges[-1])}" if len(edges) > shown else ""
    return ", ".join(map(_short, edges[:shown])) + more


def _shortest(below: float, at: float) -> float:
    """The decimal of fewest digits in ``(below, at]``."""
    tries = (float(f"{at:.{digits}g}") for digits in range(1, 17))
    return next((edge for edge in tries if below < edge <= at), float(at))


def _rounded(number: float, up: bool) -> float:
    """Three digits where they err to the outside, more where they do not."""
    tries = (float(f"{number:.{digits}g}") for digits in range(3, 17))
    return next((edge for edge in tries if (edge >= number if up else edge <= number) and np.isfinite(edge)), number)


def _short(edge: float) -> str:
    # Six digits where they are enough to find the edge again, all of them otherwise.
    brief = f"{edge:.6g}"
    return brief if float(brief) == edge else repr(edge)


def _atoms(counts: Array, ranges: int) -> Array:
    """Which values many rows share: more than a range holds, of all rows and then of the rest ``(V,)`` bool."""
    atoms = counts >= max(FEWEST, counts.sum() / ranges)
    rest = counts[~atoms].sum()
    found: Array = atoms | (counts >= max(FEWEST, rest / ranges))
    return found


def _bounds(values: Array, counts: Array, ranges: int) -> Array:
    """The first grid point of each range but the first; ranges hold about equally many rows."""
    total = counts.sum()
    most = max(1, min(ranges, int(total // min(FEWEST, max(1, total // 4)))))
    below = np.cumsum(counts)[:-1]
    targets = np.arange(1, most) * total / most
    if not len(below) or not len(targets):
        return np.empty(0, dtype=np.int64)
    at = np.unique(np.searchsorted(below, targets).clip(0, len(below) - 1))
    low, high = values[at], values[at + 1]
    found: Array = low + (high - low) // 2 + (high - low) % 2
    return found


def _starts(values: Array, counts: Array, atoms: Array, bounds: Array) -> Array:
    """Where pieces begin: at ranges, at and after atoms and frequent values, at quantiles, and out into the tails."""
    total = int(counts.sum())
    few = len(values) <= total / 20
    often = atoms | (counts >= (SEEN_OFTEN if few else max(FEWEST, total / PIECES)))
    alone = values[often]
    rest, sizes = values[~often], counts[~often]
    # Two rows at least in a piece of a small column.
    step = max(total / PIECES, 8.0)
    crossed = np.floor(np.cumsum(sizes) / step)
    inner = rest[1:][np.diff(crossed) > 0] if len(rest) > 1 else rest[:0]
    low, high = int(values[0]), int(values[-1])
    width = max(1, (high - low) // 20)
    steps = width * 2 ** np.arange(1, 63 - int(width).bit_length(), dtype=object) - width
    above = [high + 1 + int(each) for each in [0, *steps] if high + 1 + int(each) < LIMIT]
    below = [low - int(each) for each in [0, *steps] if low - int(each) > -LIMIT]
    below += [0] if low > 0 else []
    found = [[-LIMIT], below, above, bounds.tolist(), alone.tolist(), (alone + 1).tolist(), inner.tolist()]
    return np.unique(np.array([each for part in found for each in part], dtype=np.int64))


def _weights(starts: Array, values: Array, counts: Array) -> Array:
    """Rows in each piece, and a little for what was not seen: even inside the training range, thinning out beyond."""
    ends = np.append(starts[1:], LIMIT)
    total = np.append(0, np.cumsum(counts))
    rows = (total[np.searchsorted(values, ends)] - total[np.searchsorted(values, starts)]).astype(float)
    low, high = int(values[0]), int(values[-1])
    inside = (starts >= low) & (ends <= high + 1)
    width = ends.astype(float) - starts.astype(float)
    prior = np.where(inside, PRIOR * width / max(1.0, float(high - low + 1)), 0.0)
    scale = max(1, (high - low) // 20)
    away = np.where(starts > high, starts - high, low - ends + 1).astype(float)
    tail = np.where(inside, 0.0, width * (1 + np.maximum(away, 0.0) / scale) ** -3.0)
    for side in (starts > high, ends <= low):
        if tail[side].sum():
            tail[side] *= PRIOR / tail[side].sum()
    if low >= 0:  # what was never below zero hardly ever is
        tail[starts < 0] *= 0.01
    found: Array = rows + prior + tail
    return np.maximum(found, 1e-300)


def _ascending(starts: Array, weights: Array, atom: Array, part: Array) -> Array:
    """Each piece's cell ``(P,)``, cells numbered by the mean of what they hold.

    Args:
        atom: whether a piece is an atom.
        part: the range it lies in.
    """
    pairs = np.stack([atom, np.where(atom, starts, part)], 1)
    kinds, group = np.unique(pairs, axis=0, return_inverse=True)
    group = group.ravel()
    ends = np.append(starts[1:] - 1, LIMIT)
    middle = (starts.astype(float) + ends.astype(float)) / 2
    # Beyond the training range there are hardly any rows, but very large numbers.
    heavy = np.where(weights < PRIOR, weights * 1e-12, weights)
    means = np.bincount(group, heavy * middle) / np.bincount(group, heavy)
    rank = np.empty(len(kinds), dtype=np.int64)
    rank[np.argsort(means, kind="stable")] = np.arange(len(kinds))
    return rank[group]
