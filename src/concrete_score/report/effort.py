"""How much may be asked of a model within seconds: counted beforehand, never timed, so that reports are repeatable."""

from dataclasses import dataclass
from typing import Any

from concrete_score.protocols import DensityModel
from concrete_score.spaces import Space

SPEED = 4e9
"""Weights that one core multiplies in a second, on the slow side."""
LEAST_WEIGHTS = 10_000
"""A smaller model is no quicker: calling it takes as long."""
STEP = 2e-3
"""Seconds that a step of chains takes beside the model."""
KEPT, FEWEST = 250, 60
"""Draws kept of a chain, and fewer than which say nothing."""
MOST_THIN = 8


@dataclass(frozen=True)
class Effort:
    """States a second that a model can judge, and whether a step of chains needs all values of a site."""

    per_second: float
    all_values: bool

    @classmethod
    def of(cls, model: Any) -> "Effort":
        """Counted from the model's weights."""
        weights = getattr(model, "parameters", None)
        count = sum(each.numel() for each in weights()) if callable(weights) else 0
        return cls(SPEED / max(count, LEAST_WEIGHTS), isinstance(model, DensityModel))

    def within(self, seconds: float, least: int, most: int, each: int = 1) -> int:
        """How many things of ``each`` states fit into some seconds, within bounds.

        >>> Effort(1000.0, True).within(2.0, 1, 400, each=10)
        200
        """
        return int(max(least, min(most, seconds * self.per_second / max(1, each))))

    def steps(self, seconds: float, space: Space, chains: int) -> int:
        """Steps of so many chains side by side that fit into some seconds."""
        states = chains * (max(space.sizes) if self.all_values else 1)
        return int(seconds / (STEP + states / self.per_second))

    def chain_length(self, seconds: float, space: Space, chains: int) -> tuple[int, int]:
        """Draws to keep of each chain and steps between them; ``(0, 1)`` where too few could be made."""
        steps = self.steps(seconds, space, chains)
        thin = max(1, min(MOST_THIN, space.num_sites, steps * 5 // (6 * KEPT)))
        kept = min(KEPT, steps * 5 // (6 * thin))
        return (kept, thin) if kept >= FEWEST else (0, 1)
