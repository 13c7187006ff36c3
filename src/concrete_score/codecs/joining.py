"""How finely a column of numbers must be cut for what it says of the other columns: ranges that say the same are one.

Two neighboring cells are joined where the rows of both have the same other values, as far as can be told: by the
likelihood-ratio statistic of homogeneity with every other column,

    G² = 2 Σ_{b, v} n_bv log (n_bv n / (n_b n_v)),     about χ² of (values - 1) degrees of freedom if they are the same.

The law inside a cell knows the numbers themselves, so that nothing is lost by joining such cells; and a network of
few values a site is learned from fewer rows.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from scipy.special import ndtri, xlogy

from concrete_score.baselines.structure import Families, Tell, learn_structure
from concrete_score.data.frame import Array
from concrete_score.randomness import generator, random_numbers
from concrete_score.spaces import Space

ERROR = 0.001
"""The probability that two cells which say the same of all other columns are kept apart."""
LEAST = 4
"""Cells that are left of a column at least."""
ROWS = 50_000
"""Rows that are looked at, drawn where there are more."""
PASSES = 2
"""The first looks at other columns as they were cut, the other at them joined."""
_PARTS = 2 * PASSES - 1
"""Of the work: the passes, and a search for families before each but the first."""
PENALTY = 0.5
"""Of the network whose families are looked at, times BIC's."""
MOST = 128
"""Other columns that are looked at; of more, those whose coarse cells say the most of a column."""
COARSE, COARSE_ROWS = 6, 10_000
"""Groups of a column's values, and rows, by which those are found."""


def join_cells(columns: Sequence[Any], codes: Iterable[Array], tell: Tell = lambda done, total: None) -> list[Any]:
    """Columns with those cells joined that say the same of all other columns.

    The first pass looks at every other column alone, as it was cut. What a column says of another may show only beside
    a third: the second pass also looks at the families of the network found among the joined columns, a child with
    all its parents, from which a column is taken out.

    Args:
        columns: those with ``neighbors`` may be joined; the others stay as they are.
        codes: the cell of each row in each column ``(N,)``; negative where there is none.
        tell: receives how far it is.
    """
    able = [d for d, column in enumerate(columns) if hasattr(column, "neighbors") and column.size > LEAST]
    if len(columns) < 2 or not able:
        return list(columns)
    keep: Array | None = None
    cells = []
    for each in codes:  # one column at a time: all of a long table would take a gigabyte
        if keep is None:
            keep = random_numbers(generator(0, "rows to join cells by")).permutation(len(each))[:ROWS]
        cells.append(each if len(each) <= ROWS else each[keep])
    groups, families = [np.arange(column.size) for column in columns], list[list[int]]()
    for number in range(PASSES):
        seen = [
            _numbered(np.where(each >= 0, group[np.maximum(each, 0)], -1))
            for each, group in zip(cells, groups, strict=True)
        ]
        if number:
            families = _families(seen, lambda *done: tell(*_between(able, *done)))
        telling = _Telling(columns, seen) if len(columns) - 1 > MOST else None
        for at, d in enumerate(able):
            near = [e for e in range(len(columns)) if e != d] if telling is None else telling.most(d)
            tables = _tables(cells[d], columns[d].size, seen, _without(near, families, d))
            groups[d] = join(columns[d].neighbors, tables, tried=len(columns) - 1 - len(near) + len(tables))
            tell(2 * number * len(able) + at + 1, _PARTS * len(able))
    return [column.joined(groups[d]) if d in able else column for d, column in enumerate(columns)]


class _Telling:
    """Which columns say the most of one: by the likelihood that their coarse values add to it.

    Args:
        columns: whose cells are neighbors of one another where they have an order.
        seen: the cells ``(N,)`` of each; negative where there is none.
    """

    def __init__(self, columns: Sequence[Any], seen: Sequence[Array]) -> None:
        rows = [each[:COARSE_ROWS] for each in seen]
        coarse = [_coarse(each, hasattr(column, "neighbors")) for each, column in zip(rows, columns, strict=True)]
        self.sizes = np.array([int(each.max(initial=0)) + 1 for each in coarse])
        known = np.stack([each >= 0 for each in coarse])
        values = np.stack([each.clip(0).astype(np.int8) for each in coarse])
        self.counts = Families(values, tuple(self.sizes.tolist()), None if known.all() else known)

    def most(self, site: int) -> list[int]:
        """`MOST` of the others."""
        others = np.delete(np.arange(len(self.sizes)), site)
        by_chance = (self.sizes[site] - 1) * (self.sizes[others] - 1) / 2
        gains = self.counts.gains(site, (), others) - by_chance
        return sorted(others[np.argsort(-gains, kind="stable")[:MOST]].tolist())


def _coarse(cells: Array, ordered: bool) -> Array:
    """At most `COARSE` groups of values: of about equal size along an order, else the frequent ones and the rest.

    >>> _coarse(np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -1]), ordered=True).tolist()
    [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, -1]
    >>> _coarse(np.array([7, 7, 3, 3, 0, 1, 2, 2, 4, 5, 5, 6, 6]), ordered=False).tolist()
    [4, 4, 1, 1, 5, 5, 0, 0, 5, 2, 2, 3, 3]
    """
    counts = np.bincount(cells[cells >= 0], minlength=1)
    if np.count_nonzero(counts) <= COARSE:
        return _numbered(cells)
    if ordered:
        groups = ((np.cumsum(counts) - counts / 2) * COARSE / counts.sum()).astype(np.int64)
    else:
        groups = np.full(len(counts), COARSE - 1)
        frequent = np.sort(np.argsort(-counts, kind="stable")[: COARSE - 1])
        groups[frequent] = np.arange(COARSE - 1)
    return _numbered(np.where(cells >= 0, groups[cells.clip(0)], -1))


def join(
    pairs: Array, tables: Sequence[Array], least: int = LEAST, error: float = ERROR, tried: int | None = None
) -> Array:
    """Which group each cell ends in ``(V,)``: the most alike neighbors are joined until all are told apart.

    Args:
        pairs: neighboring cells ``(E, 2)``.
        tables: for each other column how many rows have each cell and value ``(V, W)``.
        least: groups that are left at least.
        error: the probability of keeping two cells apart that are not different.
        tried: of how many columns these are the ones that say the most; all by default.

    >>> same, other = [50, 50], [90, 10]
    >>> join(np.array([[0, 1], [1, 2]]), [np.array([same, same, other])], least=1).tolist()
    [0, 0, 2]
    """
    counts = np.concatenate(tables, 1)
    ends = np.cumsum([0, *(each.shape[1] for each in tables)])[:-1]
    group, alive = np.arange(len(counts)), len(counts)
    edges = {(int(a), int(b)) for a, b in pairs}
    apart = dict(zip(edges, _different(counts, np.array(list(edges)), ends), strict=True))
    limit = ndtri(1 - error / (tried or len(tables)))
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


def _between(able: Sequence[int], done: int, total: int) -> tuple[int, int]:
    """How far the search for families is as a part of all: the second of `_PARTS`, each of as many steps."""
    return len(able) + len(able) * done // total, _PARTS * len(able)


def _renamed(edge: tuple[int, int], old: int, new: int) -> tuple[int, int]:
    c, d = (new if each == old else each for each in edge)
    return c, d


def _different(counts: Array, pairs: Array, first: Array) -> Array:
    """How clearly the two cells of each pair differ, as a normal score: the largest over the other columns ``(E,)``."""
    if not len(pairs):
        return np.empty(0)
    a, b = counts[pairs[:, 0]], counts[pairs[:, 1]]
    both = a + b
    x_log_x = _x_log_x()

    def total(x: Array) -> Array:
        found: Array = np.add.reduceat(x, first, axis=1)
        return found

    inner = total(x_log_x[a] + x_log_x[b] - x_log_x[both])
    outer = x_log_x[total(a)] + x_log_x[total(b)] - x_log_x[total(both)]
    statistic = np.maximum(2 * (inner - outer), 0.0)
    free = np.maximum(total((both > 0).astype(float)) - 1, 1e-9)
    # The cube root of χ² over its degrees of freedom is nearly normal (Wilson and Hilferty, 1931).
    score = (np.cbrt(statistic / free) - (1 - 2 / (9 * free))) / np.sqrt(2 / (9 * free))
    found: Array = np.where(free < 0.5, -np.inf, score).max(1)
    return found


@cache
def _x_log_x() -> Array:
    """Of all counts of at most `ROWS` rows: to look them up is ten times as fast as a logarithm."""
    counts = np.arange(ROWS + 1.0)
    return xlogy(counts, counts)  # type: ignore[no-any-return]


def _families(seen: Sequence[Array], tell: Tell) -> list[list[int]]:
    """Each child with its parents, where they are three or more, in the network that greedy search finds."""
    states = torch.from_numpy(np.stack(seen, 1))
    space = Space(tuple(int(each.max(initial=0)) + 1 for each in seen))
    parents = learn_structure(states.clamp(min=0), space, penalty=PENALTY, observed=states >= 0, tell=tell)
    return [sorted([d, *each]) for d, each in enumerate(parents) if len(each) > 1]


def _without(near: Sequence[int], families: Sequence[Sequence[int]], site: int) -> list[tuple[int, ...]]:
    """Single other columns, and the other columns of each family that has a site; each once."""
    more = [tuple(e for e in each if e != site) for each in families if site in each]
    return [*dict.fromkeys([*((e,) for e in near), *more])]


def _tables(cells: Array, size: int, seen: Sequence[Array], others: Sequence[Sequence[int]]) -> list[Array]:
    """For each group of other columns how many rows have each cell and each of their values ``(size, W)``."""
    found = []
    for group in others:
        known = np.logical_and.reduce([cells >= 0, *(seen[e] >= 0 for e in group)])
        value = np.zeros(int(known.sum()), dtype=np.int64)
        for e in group:
            value = value * (int(seen[e].max(initial=0)) + 1) + seen[e][known]
        if len(group) > 1 or not known.all():  # of a whole column alone the values are numbered already
            value = _numbered(value)
        width = int(value.max(initial=0)) + 1
        found.append(np.bincount(cells[known] * width + value, minlength=size * width).reshape(size, -1))
    return found


def _numbered(values: Array) -> Array:
    """Values numbered from 0 without gaps; -1 stays."""
    known = values >= 0
    found = np.full(len(values), -1)
    found[known] = np.unique(values[known], return_inverse=True)[1]
    return found
