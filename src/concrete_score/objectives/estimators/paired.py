"""Paired edges: on a symmetric neighborhood one pair of states serves both terms."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from concrete_score.objectives.edges import Edges
from concrete_score.objectives.estimators.base import FiniteEstimator, check_count, mirrored, refuse_asymmetric
from concrete_score.objectives.estimators.independent import uniform_picks
from concrete_score.shapes import States


@dataclass(frozen=True)
class Paired(FiniteEstimator):
    """``m`` uniform neighbors; each edge ``x -> y`` feeds ``J1`` and its reverse ``y -> x`` feeds ``J2``.

    Two density evaluations instead of three: never a higher variance *per density evaluation* than independent draws.
    """

    m: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.m)
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
