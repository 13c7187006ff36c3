"""Edges: everything random about one step, how they are wired around rows, and how models read them."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.protocols import Divergence, Neighborhood, RawScoreModel, is_density
from concrete_score.shapes import PerState

CHUNK = 2**20
"""How many sites (nodes × D) a chunk of edges may hold."""

EdgeWeight = Callable[[Tensor, Tensor], Tensor]
"""``w(x, k)`` of directed edges: source states ``(..., D)`` and slots ``(...)`` to weights ``(...)``.

It belongs to the edge, not to the end a term was drawn from, and no gradient flows through it. Positive weights keep
the true ratios as a saturated model's unique stationary point; under misspecification they move the solution, and a
weight that depends on the model defines no objective.
"""


@dataclass(frozen=True, eq=False)
class Edges:
    """Drawn directed edges between a few states of each row, with the weights of the two terms of an objective.

    Edge ``j`` runs from ``nodes[:, source_node[j]]`` to ``nodes[:, target_node[j]]``. Rows share this wiring, so that
    a density is evaluated once per node however many edges meet there, and a score network once per source.
    """

    nodes: Tensor
    """``(B, n, D)``: node 0 is the data row."""
    source_node: Tensor
    """``(m,)``."""
    target_node: Tensor
    """``(m,)``; -1 where the target is not stored because only a score model's slot is read."""
    slot: Tensor | None
    """``(B, m)``: the slot of the edge at its source; None where edges belong to no finite neighborhood."""
    source_weight: Tensor
    """``(B, m)``: weight of ``h`` in the loss; 0 is padding."""
    target_weight: Tensor
    """``(B, m)``: weight of ``-f'`` in the loss; 0 is padding."""
    offset: Tensor
    """``(B, m)``: ``log K(x | y) - log K(y | x)``, added to the log-ratio; 0 for finite neighborhoods."""

    @property
    def source(self) -> Tensor:
        """The states that edges lead from ``(B, m, D)``."""
        return self.nodes[:, self.source_node]

    @property
    def target(self) -> Tensor:
        """The states that edges lead to ``(B, m, D)``."""
        return self.nodes[:, self.target_node]

    def rows(self, part: slice) -> "Edges":
        """A slice of the batch: what one of several processes takes."""
        wiring = ("source_node", "target_node")
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in wiring}
        return replace(self, **{name: value[part] for name, value in values.items() if value is not None})

    @property
    def num_chunks(self) -> int:
        """One: they are small enough to be held at once."""
        return 1

    def chunk(self, number: int) -> "Edges":
        return self

    def gather(self, losses: list[Tensor]) -> Tensor:
        """One loss per row ``(B,)`` from the losses of the chunks."""
        return losses[0]


@dataclass(frozen=True, eq=False)
class ChunkedEdges:
    """All edges out of and into each row, handed out in chunks of rows and slots."""

    x: Tensor
    neighborhood: Neighborhood
    weight: EdgeWeight | None = None
    limit: int = CHUNK

    def rows(self, part: slice) -> "ChunkedEdges":
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


@torch.no_grad()
def weigh(weight: EdgeWeight | None, source: Tensor, slot: Tensor, size: Tensor) -> Tensor:
    """``size``, times the edges' own weights where there are any."""
    return size if weight is None else size * weight(source, slot)


def assemble(nodes: list[Tensor], forward: tuple[Tensor, Tensor], backward: tuple[Tensor, Tensor]) -> Edges:
    """Wire a star around the data row: edges from it to the first nodes, edges from the last nodes to it.

    Args:
        nodes: the data rows ``(B, 1, D)`` and blocks ``(B, ·, D)`` of other states.
        forward: slots and weights ``(B, f)`` of edges from node 0 to nodes ``1..f``.
        backward: slots and weights ``(B, g)`` of edges from the last ``g`` nodes to node 0.
    """
    state = torch.cat(nodes, 1)
    f, g = forward[0].shape[1], backward[0].shape[1]
    near = torch.arange(1, 1 + f, device=state.device)
    far = torch.arange(state.shape[1] - g, state.shape[1], device=state.device)
    zeros = torch.zeros(f + g, dtype=torch.int64, device=state.device)
    weights = (forward[1].double(), backward[1].double())
    return Edges(
        nodes=state,
        source_node=torch.cat([zeros[:f], far]),
        target_node=torch.cat([near, zeros[:g]]),
        slot=torch.cat([forward[0], backward[0]], 1),
        source_weight=torch.cat([weights[0], torch.zeros_like(weights[1])], 1),
        target_weight=torch.cat([torch.zeros_like(weights[0]), weights[1]], 1),
        offset=torch.zeros((len(state), f + g), dtype=torch.float64, device=state.device),
    )


def mirrored(neighborhood: Neighborhood, weight: EdgeWeight | None, x: Tensor, slot: Tensor, size: Tensor) -> Edges:
    """Edges to the neighbors at ``slot`` ``(B, m)`` and the same edges walked back, weighing ``size`` ``(B, m)`` each.

    One pair of states serves both terms of the objective: on a symmetric neighborhood the edges into ``x`` are the
    reverses of the edges out of it.
    """
    source = x[:, None].expand(-1, slot.shape[1], -1)
    near, back = neighborhood.neighbor(source, slot), neighborhood.back_slot(source, slot).clamp_min(0)
    there, here = weigh(weight, source, slot, size), weigh(weight, near, back, size)
    return assemble([x[:, None], near], (slot, there), (back, here))


def log_ratios_of(model: Any, edges: Edges) -> Tensor:
    """``log s`` of every edge ``(B, m)``, by the model's density or by its scores."""
    if is_density(model):
        if bool((edges.target_node < 0).any()):
            raise InputError("a score model", "a density model", where="model", fix="draw edges without full_source")
        density: Tensor = model.log_density(edges.nodes)
        return density[:, edges.target_node] - density[:, edges.source_node]
    return _read_slots(model.log_ratios, edges)


def scores_of(model: RawScoreModel, edges: Edges) -> Tensor:
    """``c`` of every edge ``(B, m)``, from a model that gives Concrete scores directly."""
    return _read_slots(model.concrete_scores, edges)


def _read_slots(read: Callable[[Tensor], Tensor], edges: Edges) -> Tensor:
    if edges.slot is None:
        raise InputError(
            "a density model for sampled edges",
            "a score model, which knows the ratios of its own slots only",
            where="model",
            fix="use edges of a finite neighborhood, such as `paired`",
        )
    used, position = torch.unique(edges.source_node, return_inverse=True)
    table = read(edges.nodes[:, used])
    return table[:, position].gather(-1, edges.slot[..., None]).squeeze(-1)


def bregman_loss(divergence: Divergence, log_ratio: Tensor, edges: Edges) -> Tensor:
    """``Σ_j w_j a(l_j) - v_j b(l_j)`` for each row ``(B,)``; weight zero counts for nothing, even at ±inf."""
    source, target = edges.source_weight, edges.target_weight
    a = divergence.a(torch.where(source != 0, log_ratio, 0))
    b = divergence.b(torch.where(target != 0, log_ratio, 0))
    return (source * a - target * b).sum(-1)
