"""How edges are drawn: what all estimators share. They differ only in how they fill `Edges`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.neighborhoods import check_same_space
from concrete_score.objectives.edges import Edges
from concrete_score.protocols import DensityModel, Neighborhood
from concrete_score.shapes import States
from concrete_score.spaces import Space

EdgeWeight = Callable[[Tensor, Tensor], Tensor]
"""``w(x, k)`` of directed edges: source states ``(..., D)`` and slots ``(...)`` to weights ``(...)``.

It belongs to the edge, not to the end a term was drawn from, and no gradient flows through it. Positive weights keep
the true ratios as a saturated model's unique stationary point; under misspecification they move the solution, and a
weight that depends on the model defines no objective.
"""


@runtime_checkable
class EdgeEstimator(Protocol):
    """Draws edges whose expected loss is the full objective."""

    @property
    def space(self) -> Space: ...

    def check(self, model: Any) -> None:
        """Refuse a model that cannot read these edges."""
        ...

    def draw(self, x: States, generator: torch.Generator) -> Any:
        """Edges for each row of ``x`` ``(B, D)``."""
        ...

    def outcomes(self, x: States) -> Iterator[tuple[Tensor, Any]]:
        """The enumerating twin of `draw`: every outcome with its probability for each row ``(B,)``."""
        ...

    def enumerated(self) -> Any:
        """All edges of all states of an enumerable space, one row per state: the full objective, nothing drawn."""
        ...


@dataclass(frozen=True)
class FiniteEstimator(ABC):
    """Edges of a finite neighborhood, drawn as integer choices.

    Args:
        neighborhood: where edges come from.
        weight: optional ``w(x, k)`` of each directed edge.
    """

    neighborhood: Neighborhood
    weight: EdgeWeight | None = None

    def __post_init__(self) -> None:
        if not self.neighborhood.num_slots:
            raise InputError(
                "a neighborhood with at least one edge",
                "one without any: there is nothing to compare",
                where="neighborhood",
                fix="use another one; a space of a single state needs no learning",
            )

    @property
    def space(self) -> Space:
        """The neighborhood's."""
        return self.neighborhood.space

    @abstractmethod
    def choose(self, x: States, generator: torch.Generator) -> Tensor:
        """What is random about each row, as integers ``(B, c)``."""

    @abstractmethod
    def choices(self, x: States) -> Iterator[tuple[Tensor, Tensor]]:
        """Every possible choice ``(B, c)`` with its probability ``(B,)``."""

    @abstractmethod
    def wire(self, x: States, choice: Tensor) -> Any:
        """The edges that a choice stands for."""

    def check(self, model: Any) -> None:
        """A score model must speak of the same slots."""
        if isinstance(model, DensityModel):
            check_same_space(model.space, self.space, "model and edges")
        elif model.neighborhood != self.neighborhood:
            raise InputError(
                "a score model and edges of the same neighborhood",
                f"{model.neighborhood!r:.80} and {self.neighborhood!r:.80}",
                where="edges",
                fix="build both from one neighborhood",
            )

    def draw(self, x: States, generator: torch.Generator) -> Any:
        """Choose, then wire."""
        return self.wire(x, self.choose(x, generator))

    def outcomes(self, x: States) -> Iterator[tuple[Tensor, Any]]:
        """Every choice, wired."""
        for probability, choice in self.choices(x):
            yield probability, self.wire(x, choice)

    def enumerated(self) -> Any:
        """All edges out of and into every state."""
        from concrete_score.objectives.estimators.all_neighbors import AllEdges

        return AllEdges(self.space.enumerate(), self.neighborhood, self.weight)


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


def refuse_asymmetric(neighborhood: Neighborhood, name: str) -> None:
    """Paired draws read one pair both ways, which only a symmetric neighborhood allows."""
    if not neighborhood.symmetric:
        raise InputError(
            f"a symmetric neighborhood for {name} edges",
            "one with one-way edges",
            where="neighborhood",
            fix="use `independent` edges, or neighborhood.symmetrized()",
        )


def check_count(m: int, name: str = "m") -> None:
    """A whole number of draws."""
    if m < 1:
        raise InputError("at least one draw an example", str(m), where=name)
