"""Any directed graph over an enumerable space (paper, sections 3.1 and 4.2)."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.neighborhoods.base import NeighborhoodBase
from concrete_score.shapes import Mask, Slots, States
from concrete_score.spaces import Space, as_tensor


@dataclass(frozen=True, eq=False)
class Explicit(NeighborhoodBase):
    """A graph given by its edges, sorted by source; slot ``k`` is the ``k``-th target in the order given."""

    space: Space
    start: Tensor = field(repr=False)
    """``(S + 1,)``: the edges of state ``i`` sit at ``start[i]:start[i+1]``."""
    target: Tensor = field(repr=False)
    """``(E,)`` state indices."""

    @cached_property
    def num_slots(self) -> int:
        return int(self.start.diff().max())

    @cached_property
    def symmetric(self) -> bool:
        """Whether the edges and their reverses are the same set."""
        forward = self._source * self.space.num_states + self.target
        backward = self.target * self.space.num_states + self._source
        return torch.equal(forward.sort().values, backward.sort().values)

    def degree(self, x: States) -> Slots:
        return self.start.diff().to(x.device)[self.space.index(x)]

    def valid(self, x: States) -> Mask:
        """The first ``|N(x)|`` slots."""
        return torch.arange(self.num_slots, device=x.device) < self.degree(x)[..., None]

    def neighbor(self, x: States, slot: Slots) -> States:
        """The ``slot``-th target of ``x``."""
        i = self.space.index(x)
        if not len(self.target):
            return x.clone()
        start, target = self.start.to(x.device), self.target.to(x.device)
        at = (start[i] + slot).clamp_max(len(target) - 1)
        return self.space.state(torch.where(slot < start[i + 1] - start[i], target[at], i)).to(x.dtype)

    @property
    def _source(self) -> Tensor:
        return torch.repeat_interleave(torch.arange(len(self.start) - 1), self.start.diff())

    @property
    def _edge_list(self) -> tuple[Tensor, Tensor, Tensor]:
        source = self._source
        return source, torch.arange(len(source)) - self.start[source], self.target


def explicit(space: Space, edges: Any) -> Explicit:
    """A neighborhood from a list of edges, a scipy sparse matrix or a networkx graph, possibly asymmetric.

    Args:
        space: an enumerable space.
        edges: pairs of state indices ``(E, 2)`` or of states ``(E, 2, D)``; a sparse matrix ``(S, S)`` whose non-zero
            entries ``[i, j]`` are edges ``i -> j``; or a networkx graph whose nodes are indices or tuples of values
            (an undirected graph gives both directions).

    Raises:
        InputError: an edge names an unknown state, joins a state to itself, or is listed twice.

    >>> star = explicit(Space((6,)), [(i, 0) for i in range(1, 6)])
    >>> star.num_slots, star.symmetric, star.reverse_degree(torch.tensor([0])).item()
    (1, False, 5)
    """
    space.check_enumerable()
    source, target = _ends(space, edges)
    _check_edges(space, source, target)
    order = source.argsort(stable=True)
    degree = torch.bincount(source, minlength=space.num_states)
    return Explicit(space, torch.cat([degree.new_zeros(1), degree.cumsum(0)]), target[order])


def _ends(space: Space, edges: Any) -> tuple[Tensor, Tensor]:
    """Source and target indices ``(E,)`` of edges in any of the accepted forms."""
    if hasattr(edges, "tocoo"):
        return _sparse_ends(space, edges)
    if hasattr(edges, "is_directed"):
        graph = edges if edges.is_directed() else edges.to_directed()
        edges = [edge[:2] for edge in graph.edges]
    if not len(edges):
        return torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64)
    pairs = as_tensor(edges, "edges")
    if pairs.dtype.is_floating_point:
        raise InputError("integer state indices or states", f"{pairs.dtype}", where="edges")
    if pairs.ndim == 3 and pairs.shape[1] == 2:
        pairs = space.index(space.check(pairs, "edges"))
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InputError(
            f"edges of shape (E, 2), or (E, 2, {space.num_sites})",
            f"shape {tuple(pairs.shape)}",
            where="edges",
        )
    return pairs[:, 0].long(), pairs[:, 1].long()


def _sparse_ends(space: Space, matrix: Any) -> tuple[Tensor, Tensor]:
    if matrix.shape != (space.num_states,) * 2:
        raise InputError(
            f"a matrix of shape ({space.num_states}, {space.num_states})", f"{matrix.shape}", where="edges"
        )
    listed = matrix.tocoo()
    source, target = (torch.as_tensor(part, dtype=torch.int64) for part in (listed.row, listed.col))
    kept = torch.as_tensor(listed.data != 0)
    return source[kept], target[kept]


def _check_edges(space: Space, source: Tensor, target: Tensor) -> None:
    both = torch.stack([source, target], -1)
    unknown = ((both < 0) | (both >= space.num_states)).any(-1)
    _refuse(unknown, both, f"states from 0 to {space.num_states - 1}", "drop the edge or correct its ends")
    _refuse(source == target, both, "two different states", "a state is never its own neighbor: drop the edge")
    code = source * space.num_states + target
    order = code.argsort(stable=True)
    twice = torch.zeros(len(code), dtype=torch.bool)
    twice[order[1:]] = code[order[1:]] == code[order[:-1]]
    _refuse(twice, both, "each edge once", "an earlier edge is the same: drop one of them")


def _refuse(bad: Tensor, edges: Tensor, expected: str, fix: str) -> None:
    if bad.any():
        at = int(bad.nonzero()[0])
        raise InputError(expected, f"{edges[at, 0]} -> {edges[at, 1]}", where=f"edges[{at}]", fix=fix)
