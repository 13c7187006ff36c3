"""All neighbors: nothing is drawn, memory stays bounded (paper, section 4.1)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from concrete_score.objectives.edges import Edges
from concrete_score.objectives.estimators.base import EdgeWeight, FiniteEstimator, assemble, mirrored, weigh
from concrete_score.protocols import Neighborhood
from concrete_score.shapes import PerState, States

CHUNK = 2**20
"""How many sites (nodes × D) a chunk of edges may hold."""


@dataclass(frozen=True, eq=False)
class AllEdges:
    """All edges out of and into each row, handed out in chunks of rows and slots."""

    x: Tensor
    neighborhood: Neighborhood
    weight: EdgeWeight | None = None
    limit: int = CHUNK

    def rows(self, part: slice) -> "AllEdges":
        """A slice of the batch."""
        return replace(self, x=self.x[part])

    @property
    def num_chunks(self) -> int:
        """How many chunks of at most ``chunk`` sites there are."""
        return len(self._blocks)

    def chunk(self, number: int) -> Edges:
        """A block of slots of a block of rows, built anew at each call."""
        rows, start, stop = self._blocks[number]
        x, n = self.x[rows], self.neighborhood
        if not n.symmetric:
            return self._one_way(x, start, stop)
        slot = torch.arange(start, stop, device=x.device).expand(len(x), -1)
        return mirrored(n, self.weight, x, slot, n.valid(x)[:, start:stop].double())

    def gather(self, losses: list[Tensor]) -> PerState:
        """Sum the blocks of slots of each block of rows."""
        total = torch.zeros(len(self.x), dtype=losses[0].dtype, device=losses[0].device)
        for (rows, _, _), loss in zip(self._blocks, losses, strict=True):
            row = torch.arange(len(self.x), device=loss.device)[rows]
            total = total.index_add(0, row, loss)
        return total

    def _one_way(self, x: Tensor, start: int, stop: int) -> Edges:
        """Slots ``start..stop`` out of ``x`` and reverse edges of the same numbers into it."""
        n, number = self.neighborhood, torch.arange(start, stop, device=x.device)
        here = x[:, None].expand(-1, stop - start, -1)
        slot = number.clamp_max(n.num_slots - 1).expand(len(x), -1)
        leaving = n.valid(x).gather(1, slot) & (number < n.num_slots)
        degree = n.reverse_degree(x)[:, None]
        entering = number < degree
        # Numbers beyond the last edge are read as the first one and weigh nothing.
        has_any = (degree > 0).expand_as(entering)
        source, back = x[:, None].expand_as(here).clone(), torch.zeros_like(slot)
        j = torch.where(entering, number, 0)
        source[has_any], back[has_any] = n.reverse_neighbor(here[has_any], j[has_any])
        forward = weigh(self.weight, here, slot, leaving.double())
        backward = weigh(self.weight, source, back, entering.double())
        return assemble([x[:, None], n.neighbor(here, slot), source], (slot, forward), (back, backward))

    @cached_property
    def _blocks(self) -> list[tuple[slice, int, int]]:
        """Rows, first slot and last-plus-one slot of each chunk."""
        n, sites = self.neighborhood, self.x.shape[-1]
        into = 0 if n.symmetric or not len(self.x) else int(n.reverse_degree(self.x).max())
        count = max(n.num_slots, into)
        nodes = max(1, self.limit // (sites if n.symmetric else 2 * sites))
        slots = min(count, max(1, nodes - 1))
        rows = max(1, nodes // (1 + slots))
        return [
            (slice(row, row + rows), slot, min(slot + slots, count))
            for row in range(0, max(1, len(self.x)), rows)  # of no rows, one block of none
            for slot in range(0, count, slots)
        ]


@dataclass(frozen=True)
class All(FiniteEstimator):
    """Every edge out of and into each example; chunked, so that memory does not grow with sites × batch."""

    chunk: int = CHUNK

    def choose(self, x: States, generator: torch.Generator) -> Tensor:
        """Nothing is random."""
        return torch.empty((len(x), 0), dtype=torch.int64, device=x.device)

    def choices(self, x: States) -> Iterator[tuple[Tensor, Tensor]]:
        """One outcome."""
        yield torch.ones(len(x), dtype=torch.float64), torch.empty((len(x), 0), dtype=torch.int64)

    def wire(self, x: States, choice: Tensor) -> AllEdges:
        """All edges of the rows, unrolled only when read."""
        return AllEdges(x, self.neighborhood, self.weight, self.chunk)
