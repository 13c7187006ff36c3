"""Stratified edges: one neighbor from each of ``m`` blocks of slots, that is, of sites."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product

import torch
from torch import Tensor

from concrete_score.objectives.edges import Edges
from concrete_score.objectives.estimators.base import FiniteEstimator, check_count, mirrored, refuse_asymmetric
from concrete_score.shapes import States


@dataclass(frozen=True)
class Stratified(FiniteEstimator):
    """Slots are cut into ``m`` equal blocks (site-major, so blocks of sites) and one slot is drawn from each.

    An edge weighs the size of its block; an invalid slot weighs nothing. Paired like `Paired`, with the variance
    between blocks removed.
    """

    m: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.m)
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
