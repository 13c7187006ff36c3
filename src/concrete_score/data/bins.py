"""Quantile bins: a column of numbers cut into ranges that hold about equally many rows."""

from itertools import pairwise

import numpy as np

from concrete_score.data.frame import Array
from concrete_score.errors import InputError

_FEW = 64


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


def cut(numbers: Array, edges: tuple[float, ...]) -> Array:
    """The range each number falls into; beyond the ends, the end ranges.

    >>> cut(np.array([-5.0, 0.0, 1.0, 9.0]), (0.0, 1.0, 2.0)).tolist()
    [0, 0, 1, 1]
    """
    inner = edges[1:-1]
    if len(inner) > _FEW:
        found: Array = np.searchsorted(np.array(inner), numbers, side="right").astype(np.int64)
        return found
    # Few comparisons of every number are far quicker than a search for each.
    found = np.zeros(numbers.shape, dtype=np.int8)
    for edge in inner:
        found += numbers >= edge
    return found


def edges_label(edges: tuple[float, ...]) -> tuple[str, ...]:
    """One label a range, the last one closed.

    >>> edges_label((0.0, 0.5, 3.0))
    ('[0, 0.5)', '[0.5, 3]')
    """
    words = [_short(edge) for edge in edges]
    pairs = list(pairwise(words))
    return tuple(f"[{low}, {high}{']' if at == len(pairs) - 1 else ')'}" for at, (low, high) in enumerate(pairs))


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
