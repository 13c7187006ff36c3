"""Which column depends on which: a Bayesian network's graph found in rows by counting."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch

from concrete_score.errors import InputError
from concrete_score.randomness import generator
from concrete_score.shapes import States
from concrete_score.spaces import Space

Parents = tuple[tuple[int, ...], ...]

ROWS = 50_000
"""Rows counted at most; more would hardly change a graph."""
CELLS = 2**14
"""Entries of one conditional table at most."""


def learn_structure(rows: States, space: Space, max_parents: int = 3) -> Parents:
    """The parents of every site in the network that greedy search finds best by BIC.

        score = Σ_d [ max log-likelihood of x_d given its parents − ½ log N · (V_d − 1) Π V_parents ]

    From no edges at all, the edge whose addition, removal or reversal raises the score most is changed, until none
    does (Heckerman, Geiger and Chickering, 1995).

    Args:
        rows: ``(N, D)``; of many rows, `ROWS` are drawn.
        space: of the rows.
        max_parents: of one site.

    >>> a = torch.tensor([0, 0, 1, 1] * 100)
    >>> b = torch.tensor([0, 1] * 200)
    >>> learn_structure(torch.stack([a, b, a ^ b], 1), Space.bits(3), max_parents=1)
    ((), (), ())
    >>> learn_structure(torch.stack([a, b, a], 1), Space.bits(3))
    ((), (), (0,))
    """
    if rows.ndim != 2 or rows.shape[1] != space.num_sites or not len(rows):
        raise InputError(f"rows of {space.num_sites} sites", f"shape {tuple(rows.shape)}", where="rows")
    if len(rows) > ROWS:
        rows = rows[torch.randperm(len(rows), generator=generator(0, "rows to count"))[:ROWS].to(rows.device)]
    return _Search(np.ascontiguousarray(rows.T.cpu().numpy()).astype(np.int64), space.sizes, max_parents).climb()


class _Search:
    """Hill climbing over acyclic graphs; scores of families are computed once."""

    def __init__(self, columns: npt.NDArray[np.int64], sizes: tuple[int, ...], max_parents: int) -> None:
        self.columns, self.sizes, self.max_parents = columns, sizes, max_parents
        self.parents: list[frozenset[int]] = [frozenset() for _ in sizes]
        self.scores: dict[tuple[int, frozenset[int]], float] = {}
        self.moves: list[dict[int, float]] = []
        """For each child, the gain of toggling each other site as a parent."""

    def climb(self) -> Parents:
        """Until no change pays."""
        self.moves = [self._toggles(child) for child in range(len(self.sizes))]
        while True:
            gain, changes = max(self._candidates(), key=_preference, default=(0.0, ()))
            if gain <= 1e-9:
                return tuple(tuple(sorted(parents)) for parents in self.parents)
            for child, other in changes:
                self.parents[child] = self.parents[child] ^ {other}
            for child, _ in changes:
                self.moves[child] = self._toggles(child)

    def _candidates(self) -> Iterator[tuple[float, tuple[tuple[int, int], ...]]]:
        """Every legal change with its gain: additions, removals and reversals, as ``(child, parent)`` to toggle."""
        reach = self._descendants()
        for child, gains in enumerate(self.moves):
            for other, gain in gains.items():
                if other in self.parents[child]:
                    yield gain, ((child, other),)
                    back = self.moves[other].get(child)
                    if back is not None and not self._also_reaches(other, child, reach):
                        yield gain + back, ((child, other), (other, child))
                elif not reach[child, other]:
                    yield gain, ((child, other),)

    def _toggles(self, child: int) -> dict[int, float]:
        """The gain of adding or removing each other site as a parent of ``child``, where it is allowed."""
        now, current = self._score(child, self.parents[child]), self.parents[child]
        full = len(current) >= self.max_parents
        others = (other for other in range(len(self.sizes)) if other != child and (other in current or not full))
        found = ((other, self._score(child, current ^ {other})) for other in others)
        return {other: score - now for other, score in found if score > -np.inf}

    def _score(self, child: int, parents: frozenset[int]) -> float:
        """BIC of one site given its parents; -inf where the table would be too large."""
        key = (child, parents)
        if key not in self.scores:
            self.scores[key] = self._count(child, sorted(parents))
        return self.scores[key]

    def _count(self, child: int, parents: list[int]) -> float:
        cells = int(np.prod([self.sizes[each] for each in parents], dtype=np.int64))
        size = self.sizes[child]
        if cells * size > CELLS:
            return -np.inf
        place = np.zeros(self.columns.shape[1], dtype=np.int64)
        for each in parents:
            place = place * self.sizes[each] + self.columns[each]
        counts = np.bincount(place * size + self.columns[child], minlength=cells * size).reshape(cells, size)
        penalty = np.log(self.columns.shape[1]) / 2 * cells * (size - 1)
        return float(_xlogx(counts).sum() - _xlogx(counts.sum(1)).sum() - penalty)

    def _descendants(self) -> npt.NDArray[np.bool_]:
        """``reach[a, b]``: a path of edges leads from a to b."""
        reach = np.zeros((len(self.sizes),) * 2, dtype=bool)
        for child, parents in enumerate(self.parents):
            reach[list(parents), child] = True
        while True:
            further = reach | ((reach.astype(np.int64) @ reach) > 0)
            if (further == reach).all():
                return reach
            reach = further

    def _also_reaches(self, parent: int, child: int, reach: npt.NDArray[np.bool_]) -> bool:
        """Whether a path leads from parent to child besides their edge: turned around, it would close a cycle."""
        return any(reach[parent, other] for other in self.parents[child] if other != parent)


def _preference(found: tuple[float, tuple[tuple[int, int], ...]]) -> tuple[float, bool]:
    """The larger gain; of equal ones (either direction of a lone edge) the edge from an earlier to a later column."""
    gain, changes = found
    child, parent = changes[-1]
    return round(gain, 6), parent < child


def _xlogx(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    return counts.astype(np.float64) * np.log(np.maximum(counts, 1).astype(np.float64))
