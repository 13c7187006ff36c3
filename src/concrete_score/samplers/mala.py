"""The Metropolis-adjusted Langevin algorithm on the triangular-noise density: exact (DESIGN M11)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from concrete_score.noise.triangular import Points
from concrete_score.samplers.base import accept
from concrete_score.samplers.between import BetweenStates, Place


@dataclass(frozen=True, eq=False)
class MALA(BetweenStates):
    """Propose ``y ~ N(x + m(x), 2ε)``, accept with ``min(1, p̃(y) N(x; y) / (p̃(x) N(y; x)))``. Exact, reversible.

    The adjustment keeps p̃ for any step size and any bound on the drift ``m = ε ∇log p̃``.

    Args:
        model: the noisy density, a `Triangular`.
        step_size: ε.
        max_drift: the longest pull of the score in one step.

    >>> from concrete_score.noise import Triangular
    >>> from concrete_score.targets import sixteen_categories
    >>> kernel = MALA(Triangular.of(sixteen_categories()))
    >>> state = kernel.init(torch.full((4, 1), 3.0, dtype=torch.float64))
    >>> kernel.step(state, torch.Generator().manual_seed(0))[0].x.shape
    torch.Size([4, 1])
    """

    step_size: float = 0.5

    reversible: ClassVar[bool] = True

    def _accept(self, x: Points, here: Place, y: Points, there: Place, generator: torch.Generator) -> Tensor:
        correction = self._log_proposal(y, x, there) - self._log_proposal(x, y, here)
        return accept(there.log_density - here.log_density + correction, generator)

    def _log_proposal(self, x: Tensor, y: Tensor, at_x: Place) -> Tensor:
        """``log N(y; x + m(x), 2ε)`` up to a constant ``(C,)``; clamped sites add nothing."""
        return -(y - x - at_x.drift).square().sum(-1) / (4 * self.step_size)
