"""Importance-sampled edges: Algorithms 1 and 2 with a proposal over neighbors that is not uniform."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.neighborhoods import check_same_space
from concrete_score.objectives.edges import Edges
from concrete_score.objectives.estimators.base import FiniteEstimator, check_count, mirrored, refuse_asymmetric
from concrete_score.protocols import DensityModel
from concrete_score.scores import log_ratios
from concrete_score.shapes import PerSlot, States


@dataclass(frozen=True)
class Importance(FiniteEstimator):
    """Slots drawn with ``π(k | x) ∝ σ(log-ratio of a reference)``, mixed with the uniform law; edges weigh ``1/π``.

    The reference, a cheap fitted density, points at changes it finds plausible: there the loss has its slope. The
    uniform share bounds the weights, so that a bad reference costs variance, never correctness. Without a reference
    the proposal is uniform.
    """

    m: int = 1
    reference: DensityModel | None = None
    uniform_share: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.m)
        refuse_asymmetric(self.neighborhood, "importance")
        if not 0 < self.uniform_share <= 1:
            raise InputError("a share above 0 and at most 1", str(self.uniform_share), where="uniform_share")
        if self.reference is not None:
            check_same_space(self.reference.space, self.space, "reference and neighborhood")

    @torch.no_grad()
    def probabilities(self, x: States) -> PerSlot:
        """``π(k | x)`` ``(B, K)``; all zero at a state without neighbors."""
        valid = self.neighborhood.valid(x).double()
        uniform = valid / valid.sum(-1, keepdim=True).clamp_min(1)
        if self.reference is None:
            return uniform
        plausible = valid * log_ratios(self.reference, self.neighborhood, x).double().sigmoid()
        total = plausible.sum(-1, keepdim=True)
        tilted = torch.where(total > 0, plausible / total.where(total > 0, 1), uniform)
        return self.uniform_share * uniform + (1 - self.uniform_share) * tilted

    def choose(self, x: States, generator: torch.Generator) -> Tensor:
        """``m`` slots from the proposal ``(B, m)``."""
        upto = self.probabilities(x).cumsum(-1)
        unit = torch.rand((len(x), self.m), generator=generator, dtype=torch.float64, device=generator.device)
        slot = torch.searchsorted(upto, unit.to(x.device) * upto[:, -1:], right=True)
        return slot.clamp_max(self.neighborhood.num_slots - 1)

    def choices(self, x: States) -> Iterator[tuple[Tensor, Tensor]]:
        """All tuples of slots."""
        probability = self.probabilities(x)
        stuck = (probability.sum(-1) == 0).double()  # a state without neighbors: slot 0, weighing nothing
        for picked in product(range(self.neighborhood.num_slots), repeat=self.m):
            weight = torch.stack([probability[:, k] + stuck * (k == 0) for k in picked]).prod(0)
            yield weight, torch.tensor(picked).expand(len(x), -1)

    def wire(self, x: States, choice: Tensor) -> Edges:
        """Each drawn edge and its reverse, weighing ``1 / (m π)``."""
        probability = self.probabilities(x).gather(1, choice)
        size = torch.where(probability > 0, 1 / (self.m * probability.where(probability > 0, 1)), 0)
        return mirrored(self.neighborhood, self.weight, x, choice, size)
