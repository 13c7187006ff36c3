"""All neighbors: nothing is drawn, memory stays bounded (paper, section 4.1)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

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
    chunk: int = CHUNK

    def rows(self, part: slice) -> "AllEdges":
        """A slice of the batch."""
        return replace(self, x=self.x[part])

    def chunks(self) -> Iterator[Edges]:
        """Chunks of at most ``chunk`` sites: blocks of slots within blocks of rows."""
        for rows in self._row_blocks:
            yield from self._parts(self.x[rows])

    @property
    def num_chunks(self) -> int:
        """How many there will be."""
        return sum(len(self._blocks(self.x[rows])) for rows in self._row_blocks)

    def gather(self, losses: list[Tensor]) -> PerState:
        """Sum the blocks of slots of each block of rows."""
        remaining = iter(losses)
        counts = [len(self._blocks(self.x[rows])) for rows in self._row_blocks]
        return torch.cat([torch.stack([next(remaining) for _ in range(count)]).sum(0) for count in counts])

    def _parts(self, x: Tensor) -> Iterator[Edges]:
        n = self.neighborhood
        if n.symmetric:
            valid = n.valid(x)
            for start, stop in self._blocks(x):
                slot = torch.arange(start, stop, device=x.device).expand(len(x), -1)
                yield mirrored(n, self.weight, x, slot, valid[:, start:stop].double())
            return
        for start, stop in self._blocks(x):
            yield self._one_way(x, start, stop)

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

    def _blocks(self, x: Tensor) -> list[tuple[int, int]]:
        n = self.neighborhood
        count = n.num_slots if n.symmetric else max(n.num_slots, int(n.reverse_degree(x).max()))
        step = max(1, self.chunk // (2 * len(x) * x.shape[-1]))
        # Rows without any edge still make one (empty) block, so that they get their loss of zero.
        return [(start, min(start + step, count)) for start in range(0, max(count, 1), step)]

    @property
    def _row_blocks(self) -> list[slice]:
        slots = max(1, self.neighborhood.num_slots)
        step = max(1, self.chunk // (2 * slots * self.x.shape[-1]))
        return [slice(start, start + step) for start in range(0, len(self.x), step)]


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
