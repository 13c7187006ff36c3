"""Algorithms 1 and 2: one uniform neighbor for each term, drawn independently (paper, section 4.2)."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.objectives.edges import Edges
from concrete_score.objectives.estimators.base import FiniteEstimator, assemble, check_count, weigh
from concrete_score.protocols import DensityModel
from concrete_score.shapes import States


@dataclass(frozen=True)
class Independent(FiniteEstimator):
    """``m`` uniform neighbors for ``J1`` (weight ``|N(x)|/m``), ``m`` uniform reverse ones for ``J2`` (``|N⁻¹(x)|/m``).

    Works on any neighborhood, directed or not. A state without (reverse) neighbors contributes 0. A score model reads
    all of ``N(x)`` in one pass anyway: with ``full_source`` its ``J1`` is the whole sum, without any draw.
    """

    m: int = 1
    full_source: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.m)

    def check(self, model: Any) -> None:
        """The full sum over slots is free for score models only."""
        super().check(model)
        if self.full_source and isinstance(model, DensityModel):
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
        source, back = _reverse_neighbors(self, here, number, reverse_degree)
        backward = (back, weigh(self.weight, source, back, reverse_degree.double() / self.m))
        if self.full_source:
            return self._with_full_source(x, source, backward)
        degree = n.degree(x)[:, None].double().expand(-1, self.m) / self.m
        forward = (slot, weigh(self.weight, here, slot, degree))
        return assemble([x[:, None], n.neighbor(here, slot), source], forward, backward)

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


def _reverse_neighbors(self: Independent, y: Tensor, number: Tensor, degree: Tensor) -> tuple[Tensor, Tensor]:
    """Reverse neighbors where there are any; the state itself, to be weighed by zero, where there are none."""
    source, slot, some = y.clone(), torch.zeros_like(number), degree > 0
    source[some], slot[some] = self.neighborhood.reverse_neighbor(y[some], number[some])
    return source, slot


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
