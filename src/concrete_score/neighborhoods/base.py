"""What every neighborhood has in common, derived once from its primitives."""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from concrete_score.shapes import Mask, NeighborStates, Slots, States
from concrete_score.spaces import Space

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from concrete_score.protocols import Neighborhood

CHUNK = 2**16
"""How many neighbors are handled at a time: small enough to stay in cache, large enough to amortize calls."""


class ReverseTable(NamedTuple):
    """The paper's hash table of ``N⁻¹`` (section 4.2) as arrays: edges sorted by target."""

    start: Tensor
    """``(S + 1,)``: edges into state ``i`` sit at ``start[i]:start[i+1]``."""
    source: Tensor
    """``(E,)`` state indices."""
    slot: Tensor
    """``(E,)``."""


class NeighborhoodBase(ABC):
    """Implements `protocols.Neighborhood` from ``space``, ``num_slots``, ``symmetric``, ``valid`` and ``neighbor``.

    On an enumerable space nothing else is needed: the reverse relation is then a table of all edges. Structures that
    know their reverse relation by arithmetic override it and build no table.
    """

    space: Space

    @property
    @abstractmethod
    def num_slots(self) -> int: ...

    @property
    @abstractmethod
    def symmetric(self) -> bool: ...

    @abstractmethod
    def valid(self, x: States) -> Mask:
        """Which slots hold a neighbor ``(..., K)``."""

    @abstractmethod
    def neighbor(self, x: States, slot: Slots) -> States:
        """``N(x)_slot``; ``x`` itself at an invalid slot."""

    def degree(self, x: States) -> Slots:
        """How many neighbors a state has, ``|N(x)|`` ``(...)``."""
        return self.valid(x).sum(-1)

    def draw(self, x: States, generator: torch.Generator) -> Slots:
        """A uniform valid slot of each state ``(...)``; 0 where there is none."""
        if not self.num_slots:
            return torch.zeros(x.shape[:-1], dtype=torch.int64, device=x.device)
        rows = x.reshape(-1, x.shape[-1])
        unit = torch.rand(len(rows), generator=generator, dtype=torch.float64, device=generator.device)
        slot = torch.empty(len(rows), dtype=torch.int64, device=x.device)
        step = self._rows_per_chunk
        for start in range(0, len(rows), step):
            rank = self.valid(rows[start : start + step]).cumsum(-1)
            wanted = (unit[start : start + step].to(x.device) * rank[:, -1]).long() + 1
            # The first position whose running count reaches the wanted rank; K when there is none.
            slot[start : start + step] = torch.searchsorted(rank, wanted[:, None]).squeeze(-1)
        return slot.where(slot < self.num_slots, 0).reshape(x.shape[:-1])

    def neighbors(self, x: States) -> NeighborStates:
        """All of ``N(x)`` by slot ``(..., K, D)``; invalid slots hold ``x``. Computed in chunks of rows."""
        rows = x.reshape(-1, x.shape[-1])
        out = torch.empty((len(rows), self.num_slots, x.shape[-1]), dtype=x.dtype, device=x.device)
        for start in range(0, len(rows), self._rows_per_chunk):
            stop = start + self._rows_per_chunk
            self._fill_neighbors(rows[start:stop], out[start:stop])
        return out.reshape(*x.shape[:-1], self.num_slots, x.shape[-1])

    def reverse_degree(self, y: States) -> Slots:
        """How many states a state is a neighbor of, ``|N⁻¹(y)|`` ``(...)``."""
        i, start = self.space.index(y), self.reverse_table.start.to(y.device)
        return start[i + 1] - start[i]

    def reverse_neighbor(self, y: States, j: Slots) -> tuple[States, Slots]:
        """The ``j``-th pair ``(x, slot)`` with ``N(x)_slot = y``."""
        table = self.reverse_table
        at = table.start.to(y.device)[self.space.index(y)] + j
        return self.space.state(table.source.to(y.device)[at]).to(y.dtype), table.slot.to(y.device)[at]

    def back_slot(self, x: States, slot: Slots) -> Slots:
        """The slot that leads from ``N(x)_slot`` back to ``x`` ``(...)``; -1 where none does."""
        if not self.num_slots:
            return torch.full_like(slot, -1)
        y = self.neighbor(x, slot)
        leads_back = (self.neighbors(y) == x[..., None, :]).all(-1) & self.valid(y)
        found, back = leads_back.max(-1)
        return back.where(found & self._slot_is_valid(x, slot), -1)

    def symmetrized(self) -> "Neighborhood":
        """The smallest symmetric neighborhood that contains this one; on enumerable spaces, a table."""
        if self.symmetric:
            return self
        from concrete_score.neighborhoods.explicit import explicit

        edges = self.adjacency()
        return explicit(self.space, edges + edges.T)

    def adjacency(self) -> "csr_array":
        """The edges of an enumerable space as a sparse matrix ``(S, S)``, entries slot + 1."""
        from scipy.sparse import csr_array

        source, slot, target = (part.numpy() for part in self._edge_list)
        shape = (self.space.num_states,) * 2
        # As int32: before SciPy 1.17 its graph routines take no other indices.
        return csr_array((slot + 1, (source.astype("int32"), target.astype("int32"))), shape=shape)

    def connected(self) -> bool:
        """Whether the graph is weakly connected; by enumeration unless the structure knows."""
        return int(self.components().max()) == 0

    def components(self) -> Tensor:
        """The weak component of every state of an enumerable space ``(S,)``, numbered from 0."""
        from scipy.sparse.csgraph import connected_components

        labels = connected_components(self.adjacency(), directed=True, connection="weak")[1]
        return torch.from_numpy(labels).long()

    @cached_property
    def reverse_table(self) -> ReverseTable:
        """``N⁻¹`` over an enumerable space, built in O(edges)."""
        source, slot, target = self._edge_list
        order = target.argsort(stable=True)
        count = torch.bincount(target, minlength=self.space.num_states)
        start = torch.cat([count.new_zeros(1), count.cumsum(0)])
        return ReverseTable(start, source[order], slot[order])

    @property
    def _edge_list(self) -> tuple[Tensor, Tensor, Tensor]:
        """Source index, slot and target index of every edge ``(E,)`` each."""
        states = self.space.enumerate()
        source, slot = self.valid(states).nonzero(as_tuple=True)
        target = torch.empty_like(source)
        for start in range(0, len(source), CHUNK):
            part = slice(start, start + CHUNK)
            target[part] = self.space.index(self.neighbor(states[source[part]], slot[part]))
        return source, slot, target

    def _fill_neighbors(self, x: Tensor, out: Tensor) -> None:
        """Write the neighbors of rows ``x`` ``(b, D)`` into ``out`` ``(b, K, D)``."""
        slot = torch.arange(self.num_slots, device=x.device)
        out.copy_(self.neighbor(x[:, None].expand_as(out), slot.expand(out.shape[:-1])))

    def _slot_is_valid(self, x: Tensor, slot: Tensor) -> Tensor:
        return self.valid(x).gather(-1, slot[..., None]).squeeze(-1)

    @property
    def _rows_per_chunk(self) -> int:
        return max(1, CHUNK // max(1, self.num_slots))


class SiteNeighborhoodBase(NeighborhoodBase):
    """A neighborhood each of whose edges changes one site: ``edit`` gives the site and its new value."""

    @abstractmethod
    def edit(self, x: States, slot: Slots) -> tuple[Slots, Slots]:
        """The site that ``slot`` changes and its new value; the old value at an invalid slot."""

    def neighbor(self, x: States, slot: Slots) -> States:
        """``N(x)_slot``: a copy of ``x`` with one site edited."""
        site, value = self.edit(x, slot)
        return x.clone().scatter_(-1, site[..., None], value.to(x.dtype)[..., None])
