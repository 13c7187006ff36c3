"""Estimators: ways to draw the edges of a step (paper, section 4.2). They differ only in how they fill `Edges`."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from concrete_score.errors import InputError, check_count
from concrete_score.objectives.edges import CHUNK, ChunkedEdges, Edges, EdgeWeight, assemble, mirrored, weigh
from concrete_score.protocols import Neighborhood, is_density
from concrete_score.shapes import States
from concrete_score.spaces import Space, check_same_space


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
        """A score model must have the same slots."""
        if is_density(model):
            check_same_space(model.space, self.space, "model and edges")
        elif model.neighborhood != self.neighborhood:
            raise InputError(
                "a score model and edges of the same neighborhood",
                f"{model.neighborhood!r:.80} and {self.neighborhood!r:.80}",
                where="edges",
                fix="build both from one neighborhood",
            )

    def draw(self, x: States, generator: torch.Generator) -> Any:
        return self.wire(x, self.choose(x, generator))

    def outcomes(self, x: States) -> Iterator[tuple[Tensor, Any]]:
        for probability, choice in self.choices(x):
            yield probability, self.wire(x, choice)

    def enumerated(self) -> Any:
        """All edges out of and into every state."""
        return ChunkedEdges(self.space.enumerate(), self.neighborhood, self.weight)


@dataclass(frozen=True)
class AllEdges(FiniteEstimator):
    """Every edge out of and into each example (paper, 4.1), in chunks: memory does not grow with sites × batch."""

    chunk: int = CHUNK

    def choose(self, x: States, generator: torch.Generator) -> Tensor:
        return torch.empty((len(x), 0), dtype=torch.int64, device=x.device)

    def choices(self, x: States) -> Iterator[tuple[Tensor, Tensor]]:
        yield torch.ones(len(x), dtype=torch.float64), torch.empty((len(x), 0), dtype=torch.int64)

    def wire(self, x: States, choice: Tensor) -> ChunkedEdges:
        """All edges of the rows, unrolled only when read."""
        return ChunkedEdges(x, self.neighborhood, self.weight, self.chunk)


@dataclass(frozen=True)
class IndependentEdges(FiniteEstimator):
    """``m`` uniform neighbors for ``J1`` (weight ``|N(x)|/m``), ``m`` uniform reverse ones for ``J2`` (``|N⁻¹(x)|/m``).

    Algorithms 1 and 2, each drawn independently (paper, section 4.2).
    Works on any neighborhood, directed or not. A state without (reverse) neighbors contributes 0. A score model reads
    all of ``N(x)`` in one pass anyway: with ``full_source`` its ``J1`` is the whole sum, without any draw.
    """

    m: int = 1
    full_source: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.m, "m")

    def check(self, model: Any) -> None:
        """The full sum over slots is free for score models only."""
        super().check(model)
        if self.full_source and is_density(model):
            raise InputError(
                "a score model for full_source",
                "a density model, which would evaluate every neighbor",
                where="model",
                fix="use `all` edges, or full_source=False",
            )

    def choose(self, x: States, generator: torch.Generator) -> Tensor:
        """``m`` slots and ``m`` reverse numbers ``(B, 2m)``."""
        slot = self.neighborhood.draw(x[:, None].expand(-1, self.m, -1), generator)
        unit = torch.rand((len(x), self.m), generator=generator, dtype=torch.float64, device=generator.device)
        number = (unit.to(x.device) * self.neighborhood.reverse_degree(x)[:, None]).long()
        return torch.cat([slot, number], 1)

    def choices(self, x: States) -> Iterator[tuple[Tensor, Tensor]]:
        """All tuples of slots and reverse numbers."""
        n = self.neighborhood
        slots, reverse = uniform_picks(n.valid(x)), _uniform_numbers(n.reverse_degree(x))
        for picked in product(*([slots] * self.m + [reverse] * self.m)):
            probability = torch.stack([p for p, _ in picked]).prod(0)
            yield probability, torch.stack([number for _, number in picked], 1)

    def wire(self, x: States, choice: Tensor) -> Edges:
        """Edges from ``x`` to drawn neighbors, edges into ``x`` from drawn reverse neighbors."""
        n, here = self.neighborhood, x[:, None].expand(-1, self.m, -1)
        slot, number = choice[:, : self.m], choice[:, self.m :]
        reverse_degree = n.reverse_degree(x)[:, None].expand(-1, self.m)
        source, back = self._reverse_neighbors(here, number, reverse_degree)
        backward = (back, weigh(self.weight, source, back, reverse_degree.double() / self.m))
        if self.full_source:
            return self._with_full_source(x, source, backward)
        degree = n.degree(x)[:, None].double().expand(-1, self.m) / self.m
        forward = (slot, weigh(self.weight, here, slot, degree))
        return assemble([x[:, None], n.neighbor(here, slot), source], forward, backward)

    def _reverse_neighbors(self, y: Tensor, number: Tensor, degree: Tensor) -> tuple[Tensor, Tensor]:
        """Reverse neighbors where there are any; the state itself, to be weighed by zero, where there are none."""
        source, slot, some = y.clone(), torch.zeros_like(number), degree > 0
        source[some], slot[some] = self.neighborhood.reverse_neighbor(y[some], number[some])
        return source, slot

    def _with_full_source(self, x: Tensor, source: Tensor, backward: tuple[Tensor, Tensor]) -> Edges:
        n = self.neighborhood
        slot = torch.arange(n.num_slots, device=x.device).expand(len(x), -1)
        here = x[:, None].expand(-1, n.num_slots, -1)
        empty = (slot[:, :0], n.valid(x)[:, :0].double())
        into = assemble([x[:, None], source], empty, backward)
        every = weigh(self.weight, here, slot, n.valid(x).double())
        zeros, missing = torch.zeros_like(every), torch.full((n.num_slots,), -1, device=x.device)
        return Edges(
            nodes=into.nodes,
            source_node=torch.cat([torch.zeros_like(missing), into.source_node]),
            target_node=torch.cat([missing, into.target_node]),
            slot=torch.cat([slot, backward[0]], 1),
            source_weight=torch.cat([every, into.source_weight], 1),
            target_weight=torch.cat([zeros, into.target_weight], 1),
            offset=torch.cat([zeros, into.offset], 1),
        )


@dataclass(frozen=True)
class PairedEdges(FiniteEstimator):
    """``m`` uniform neighbors; each edge ``x -> y`` feeds ``J1`` and its reverse ``y -> x`` feeds ``J2``.

    On a symmetric neighborhood one pair of states serves both terms: two density evaluations instead of three, and
    never a higher variance *per density evaluation* than independent draws (docs/mathematics.md, "Estimators").
    """

    m: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.m, "m")
        refuse_asymmetric(self.neighborhood, "paired")

    def choose(self, x: States, generator: torch.Generator) -> Tensor:
        """``m`` uniform slots ``(B, m)``."""
        return self.neighborhood.draw(x[:, None].expand(-1, self.m, -1), generator)

    def choices(self, x: States) -> Iterator[tuple[Tensor, Tensor]]:
        """All tuples of slots."""
        for picked in product(uniform_picks(self.neighborhood.valid(x)), repeat=self.m):
            yield torch.stack([p for p, _ in picked]).prod(0), torch.stack([slot for _, slot in picked], 1)

    def wire(self, x: States, choice: Tensor) -> Edges:
        """Each drawn edge and its reverse, weighing ``|N(x)| / m``."""
        size = self.neighborhood.degree(x)[:, None].double().expand(-1, self.m) / self.m
        return mirrored(self.neighborhood, self.weight, x, choice, size)


@dataclass(frozen=True)
class StratifiedEdges(FiniteEstimator):
    """Slots are cut into ``m`` equal blocks (site-major, so blocks of sites) and one slot is drawn from each.

    An edge weighs the size of its block; an invalid slot weighs nothing. Read both ways like `PairedEdges`, with the
    variance between blocks removed.
    """

    m: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.m, "m")
        refuse_asymmetric(self.neighborhood, "stratified")

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """First and last-plus-one slot of each block; as many blocks as slots at the most."""
        count = self.neighborhood.num_slots
        bounds = [count * i // self.m for i in range(self.m + 1)]
        return [(start, stop) for start, stop in pairwise(bounds) if start < stop]

    def choose(self, x: States, generator: torch.Generator) -> Tensor:
        """One slot from each block ``(B, m)``."""
        start, size = self._bounds(x.device)
        shape = (len(x), len(size))
        unit = torch.rand(shape, generator=generator, dtype=torch.float64, device=generator.device).to(x.device)
        return start + (unit * size).long()

    def choices(self, x: States) -> Iterator[tuple[Tensor, Tensor]]:
        """All combinations of one slot from each block, equally probable."""
        for picked in product(*(range(start, stop) for start, stop in self.blocks)):
            probability = 1.0
            for start, stop in self.blocks:
                probability /= stop - start
            slots = torch.tensor(picked, dtype=torch.int64).expand(len(x), -1)
            yield torch.full((len(x),), probability, dtype=torch.float64), slots

    def wire(self, x: States, choice: Tensor) -> Edges:
        """Each drawn edge and its reverse, weighing its block's size where valid."""
        size = self._bounds(x.device)[1] * self.neighborhood.valid(x).gather(1, choice)
        return mirrored(self.neighborhood, self.weight, x, choice, size.double())

    def _bounds(self, device: torch.device) -> tuple[Tensor, Tensor]:
        bounds = torch.tensor(self.blocks, dtype=torch.int64, device=device).reshape(-1, 2)
        return bounds[:, 0], bounds[:, 1] - bounds[:, 0]


def refuse_asymmetric(neighborhood: Neighborhood, name: str) -> None:
    """Paired draws read one pair both ways, which only a symmetric neighborhood allows."""
    if not neighborhood.symmetric:
        raise InputError(
            f"a symmetric neighborhood for {name} edges",
            "one with one-way edges",
            where="neighborhood",
            fix="use `independent` edges, or neighborhood.symmetrized()",
        )


def uniform_picks(valid: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Probability and slot of each uniform pick ``(B,)``; slot 0 for sure where nothing is valid."""
    degree = valid.sum(-1)
    weight = torch.where(valid, 1 / degree.clamp_min(1)[:, None].double(), 0)
    picks = [(weight[:, k], torch.full_like(degree, k)) for k in range(valid.shape[1])]
    return [*picks, ((degree == 0).double(), torch.zeros_like(degree))]


def _uniform_numbers(degree: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Probability and number of each uniform pick below ``degree`` ``(B,)``; impossible ones stay in range."""
    picks = uniform_picks(torch.arange(int(degree.max()), device=degree.device) < degree[:, None])
    return [(probability, torch.minimum(number, (degree - 1).clamp_min(0))) for probability, number in picks]
