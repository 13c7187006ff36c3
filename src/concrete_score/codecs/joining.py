"""How finely a column of numbers must be cut for what it says of the other columns: ranges that say the same are one.

Two neighboring cells are joined where the rows of both have the same other values, as far as can be told: by the
likelihood-ratio statistic of homogeneity with every other column,

    G² = 2 Σ_{b, v} n_bv log (n_bv n / (n_b n_v)),     about χ² with (values - 1) degrees of freedom if they are the same.

The law inside a cell knows the numbers themselves, so that nothing is lost by joining such cells; and a network of
few values a site is learned from fewer rows.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from concrete_score.data.frame import Array
from concrete_score.randomness import generator, random_numbers

ERROR = 0.01
"""The probability that two cells which say the same of all other columns are kept apart."""
LEAST = 4
"""Cells that are left of a column at least."""
ROWS = 50_000
"""Rows that are looked at, drawn where there are more."""
PASSES = 2
"""The first looks at other columns as they were cut, the others at them joined."""


def join_cells(columns: Sequence[Any], codes: Sequence[Array]) -> list[Any]:
    """Columns with those cells joined that say the same of all other columns.

    Args:
        columns: those with ``neighbors`` may be joined; the others stay as they are.
        codes: the cell of each row in each column ``(N,)``; negative where there is none.
    """
    if len(columns) < 2:
        return list(columns)
    keep: Array | slice = slice(None)
    if len(codes[0]) > ROWS:
        keep = random_numbers(generator(0, "rows to join cells by")).permutation(len(codes[0]))[:ROWS]
    cells = [each[keep] for each in codes]
    sizes = [column.size for column in columns]
    groups = [np.arange(size) for size in sizes]
    for _ in range(PASSES):
        seen = [np.where(each >= 0, group[each], -1) for each, group in zip(cells, groups, strict=True)]
        groups = [
            join(column.neighbors, _tables(cells, seen, d, sizes[d]))
            if hasattr(column, "neighbors") and sizes[d] > LEAST
            else group
            for d, (column, group) in enumerate(zip(columns, groups, strict=True))
        ]
    return [
        column.joined(group) if hasattr(column, "joined") else column
        for column, group in zip(columns, groups, strict=True)
    ]


def join(pairs: Array, tables: Sequence[Array], least: int = LEAST, error: float = ERROR) -> Array:
    """Which group each cell ends in ``(V,)``: the most alike neighbors are joined until all are told apart.

    Args:
        pairs: neighboring cells ``(E, 2)``.
        tables: for each other column how many rows have each cell and value ``(V, W)``.
        least: groups that are left at least.
        error: the probability of keeping two cells apart that are not different.

    >>> same, other = [50, 50], [90, 10]
    >>> join(np.array([[0, 1], [1, 2]]), [np.array([same, same, other])], least=1).tolist()
    [0, 0, 2]
    """
    counts = np.concatenate(tables, 1).astype(float)
    ends = np.cumsum([0, *(each.shape[1] for each in tables)])[:-1]
    group, alive = np.arange(len(counts)), len(counts)
    edges = {(int(a), int(b)) for a, b in pairs}
    apart = dict(zip(edges, _different(counts, np.array(list(edges)), ends), strict=True))
    limit = ndtri(1 - error / len(tables))
    while edges and alive > least:
        a, b = min(edges, key=lambda edge: (apart[edge], edge))
        if apart[a, b] > limit:
            break
        counts[a] += counts[b]
        group[group == b] = a
        moved = {(min(c, d), max(c, d)) for c, d in (_renamed(edge, b, a) for edge in edges if b in edge) if c != d}
        touched = {edge for edge in edges if a in edge and b not in edge} | moved
        edges = {edge for edge in edges if b not in edge} | moved
        if touched:
            listed = list(touched)
            apart |= dict(zip(listed, _different(counts, np.array(listed), ends), strict=True))
        alive -= 1
    return group


def _renamed(edge: tuple[int, int], old: int, new: int) -> tuple[int, int]:
    c, d = (new if each == old else each for each in edge)
    return c, d


def _different(counts: Array, pairs: Array, first: Array) -> Array:
    """How clearly the two cells of each pair differ, as a normal score: the largest over the other columns ``(E,)``."""
    if not len(pairs):
        return np.empty(0)
    a, b = counts[pairs[:, 0]], counts[pairs[:, 1]]

    def total(x: Array) -> Array:
        found: Array = np.add.reduceat(x, first, axis=1)
        return found

    inner = total(_xlogx(a) + _xlogx(b) - _xlogx(a + b))
    outer = _xlogx(total(a)) + _xlogx(total(b)) - _xlogx(total(a + b))
    statistic = np.maximum(2 * (inner - outer), 0.0)
    free = np.maximum(total((a + b > 0).astype(float)) - 1, 1e-9)
    # The cube root of χ² over its degrees of freedom is nearly normal (Wilson and Hilferty, 1931).
    score = (np.cbrt(statistic / free) - (1 - 2 / (9 * free))) / np.sqrt(2 / (9 * free))
    found: Array = np.where(free < 0.5, -np.inf, score).max(1)
    return found


def _tables(cells: Sequence[Array], seen: Sequence[Array], site: int, size: int) -> list[Array]:
    """For each other column how many rows have each cell of a site and each of its values ``(size, W)``."""
    found = []
    for other, values in enumerate(seen):
        if other == site:
            continue
        known = (cells[site] >= 0) & (values >= 0)
        width = int(values.max(initial=0)) + 1
        found.append(np.bincount(cells[site][known] * width + values[known], minlength=size * width).reshape(size, -1))
    return found


def _xlogx(counts: Array) -> Array:
    found: Array = counts * np.log(np.where(counts > 0, counts, 1.0))
    return found
