"""How a column of numbers is cut: its grid, quantile ranges, and the pieces of the law inside them."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from concrete_score.codecs.laws import PRIOR, count_values, learn_law
from concrete_score.data.frame import Array
from concrete_score.errors import InputError

LIMIT = 2**62
"""Grid points beyond are not told apart."""
Allowed = tuple[tuple[int, int], ...]
"""Intervals of grid points, both ends included, ascending."""
MOST_RANGES, LEAST_RANGES = 128, 4
"""Ranges that a column is first cut into: the square root of its rows, between these. Those that say the same of all
other columns are then joined (`joining`), so that a fine cut decides where the ranges that are left begin."""
FEWEST = 30
"""Rows that an atom or a range holds at least, where there are enough."""
_DIGITS = 12
"""The most decimals of a grid that is read off the values; beyond, numbers are continuous."""
_SIGNIFICANT = 9
"""Digits of a continuous column, relative to its range."""
MOST_BARS = 24
"""Bars of a histogram at most."""


class Histogram(NamedTuple):
    """Ranges of about equal width that cover a line, to look at: the bars of a histogram."""

    labels: tuple[str, ...]
    conditions: tuple[tuple[tuple[str, str], ...], ...]
    """Of each range the comparisons that it is: operators and values."""
    shares: Array
    """``P(range | cell)`` ``(B, V)``: times the probabilities of the cells, those of the ranges."""


def cut(keys: Array, ranges: int | None = None, weights: Array | None = None) -> tuple[Array, Array, Array]:
    """The pieces of a column whose observed cells are the grid points ``keys`` ``(N,)``.

    Pieces are where the law inside a cell is even (`learn_law`), and beyond the training range ever wider ones of ever
    less weight follow. Of the points that stand out, one that enough rows share is an atom, a cell of its own. The
    other such points, and apart from them the rest, are cut into ranges that hold about equally many rows, so that a
    range of measurements and the counts among them are different cells.

    Args:
        keys: whole numbers within `LIMIT`.
        ranges: how many, atoms apart; the square root of the rows by default.
        weights: as how many rows each key counts ``(N,)``; 1 by default.

    Returns:
        Of each piece its first grid point, ascending, its cell, and its weight.
    """
    law = learn_law(keys, weights)
    rows = len(keys) if weights is None else int(weights.sum())
    wanted = ranges or int(np.clip(round(rows**0.5), LEAST_RANGES, MOST_RANGES))
    low, high = int(law.starts[0]), law.end - 1
    below, above = _tail(low, high, up=False), _tail(low, high, up=True)
    starts = np.concatenate([below[0], law.starts, above[0]])
    weights = np.concatenate([below[1], law.rows, above[1]])
    # The tails go with the rest, or where there is none with the outermost points.
    single = np.pad(law.single, (len(below[0]), len(above[0])), constant_values=bool(law.single.all()))
    part = np.empty(len(starts), dtype=np.int64)
    part[~single] = _even(weights[~single], wanted)
    part[single] = -1 - _even(weights[single], wanted, atoms=np.diff(np.append(starts, LIMIT))[single] == 1)
    inside = np.pad(np.ones(len(law.starts), dtype=bool), (len(below[0]), len(above[0])))
    part = _with_tails(part, inside, inside & (weights < FEWEST if law.single.all() else ~single))
    return starts, ascending(starts, weights, part), weights


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


def even_intervals(low: int, high: int, most: int = MOST_BARS) -> list[tuple[int, int]]:
    """At most ``most`` intervals of grid points of one round width; the outermost are open.

    >>> [(first, last) for first, last in even_intervals(17, 90, 8)[1:-1]]
    [(20, 39), (40, 59), (60, 79)]
    >>> even_intervals(0, 1)[0] == (-LIMIT, 0), len(even_intervals(0, 10**9))
    (True, 21)
    """
    powers = (base * 10**power for power in range(19) for base in (1, 2, 5))
    width = next(each for each in powers if high // each - low // each < most)
    starts = range(low // width * width, high + 1, width)
    ends = [*starts, high + 1][1:]
    found = [(start, end - 1) for start, end in zip(starts, ends, strict=True)]
    return [(-LIMIT if at == 0 else a, LIMIT if at == len(found) - 1 else b) for at, (a, b) in enumerate(found)]


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


def quantile_edges(numbers: Array, count: int, where: str, weights: Array | None = None) -> tuple[float, ...]:
    """Edges ``e_0 < … < e_k`` of at most ``count`` ranges ``[e_i, e_{i+1})``, the last one closed.

    Each inner edge parts two neighboring observed numbers, those whose place in the sorted data is nearest to its
    quantile, and is the shortest decimal that does. Numbers that repeat are never divided, so heavy repetition gives
    fewer ranges.

    Args:
        numbers: ``(N,)``; NaN and infinities are passed over.
        count: at least 2.
        weights: as how many rows each number counts ``(N,)``; 1 by default.

    Raises:
        InputError: fewer than two different numbers.

    >>> quantile_edges(np.arange(100.0), 4, "age")
    (0.0, 25.0, 50.0, 75.0, 99.0)
    >>> quantile_edges(np.array([0.1234567, 0.4999, 0.5123, 0.9876543]), 2, "share")
    (0.123, 0.5, 0.988)
    >>> quantile_edges(np.array([0.0] * 90 + [1.0, 2.5] * 5), 10, "visits")
    (0.0, 1.0, 2.5)
    """
    finite = np.isfinite(numbers)
    values, counts = count_values(numbers[finite], None if weights is None else weights[finite])
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


def _tail(low: int, high: int, up: bool) -> tuple[Array, Array]:
    """Pieces beyond the training range on one side, ever wider: their first grid points, and `PRIOR` among them."""
    scale = max(1, (high - low) // 20)
    steps = [0, *(scale * (2**k - 1) for k in range(1, 63))]
    if up:
        starts = np.array([high + 1 + each for each in steps if high + 1 + each < LIMIT], dtype=np.int64)
        ends, away = np.append(starts[1:], LIMIT), starts - high
    else:
        found = [low - each for each in steps if low - each > -LIMIT] + ([0] if low > 0 else [])
        ends = np.unique(np.array(found, dtype=np.int64))
        starts = np.append(-LIMIT, ends[:-1])
        away = low - ends + 1
    weights = (ends.astype(float) - starts.astype(float)) * (1 + away.astype(float) / scale) ** -3.0
    weights *= PRIOR / weights.sum()
    if low >= 0:  # what was never below zero hardly ever is
        weights[starts < 0] *= 0.01
    return starts, np.maximum(weights, 1e-300)


def _with_tails(part: Array, inside: Array, rest: Array) -> Array:
    """Parts wholly beyond the training range joined to the nearest one within that is no atom ``(P,)``.

    No row teaches what a model should say of a cell that none can have, and drawing it can only give a number that was
    never possible. Where all the range is atoms, the tails stay a cell: that of other values.

    Args:
        part: of each piece.
        inside: which pieces are of the training range.
        rest: which of these are no atoms.
    """
    places, found = np.flatnonzero(rest), part.copy()
    if len(places):
        for beyond in np.setdiff1d(part[~inside], part[inside]):
            first = int(np.flatnonzero(part == beyond)[0])
            found[part == beyond] = part[places[np.abs(places - first).argmin()]]
    return found


def _even(rows: Array, ranges: int, atoms: Array | None = None) -> Array:
    """Neighboring pieces in groups of about equally many rows ``(P,)``.

    Args:
        rows: of each piece.
        ranges: how many groups at most, atoms apart.
        atoms: which pieces are groups of their own if enough rows have them.
    """
    alone = np.zeros(len(rows), dtype=bool) if atoms is None else atoms & (rows >= FEWEST)
    rest = rows[~alone]
    total = rest.sum()
    most = max(1, min(ranges, int(total // min(FEWEST, max(1, total // 4)))))
    group = np.empty(len(rows), dtype=np.int64)
    group[~alone] = np.minimum((np.cumsum(rest) - rest / 2) * (most / max(total, 1e-300)), most - 1).astype(np.int64)
    group[alone] = most + np.arange(int(alone.sum()))
    return group


def ascending(starts: Array, weights: Array, part: Array) -> Array:
    """Each piece's cell ``(P,)`` from the part it belongs to, cells numbered by the mean of what they hold."""
    kinds, group = np.unique(part, return_inverse=True)
    ends = np.append(starts[1:] - 1, LIMIT)
    middle = (starts.astype(float) + ends.astype(float)) / 2
    # Beyond the training range there are hardly any rows, but very large numbers.
    heavy = np.where(weights < PRIOR, weights * 1e-12, weights)
    means = np.bincount(group, heavy * middle) / np.bincount(group, heavy)
    rank = np.empty(len(kinds), dtype=np.int64)
    rank[np.argsort(means, kind="stable")] = np.arange(len(kinds))
    found: Array = rank[group]
    return found
