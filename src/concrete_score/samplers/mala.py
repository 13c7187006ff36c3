"""The Metropolis-adjusted Langevin algorithm on the triangular-noise density: exact (DESIGN M11)."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.noise.triangular import Points
from concrete_score.protocols import Info, State
from concrete_score.samplers.base import accept, choose
from concrete_score.samplers.langevin import check_triangular, free, noise, start_points
from concrete_score.spaces import Space


class Memory(NamedTuple):
    """What is known at a chain's point."""

    log_density: Tensor
    """``log p̃`` ``(C,)``."""
    drift: Tensor
    """The mean of the move, already bounded ``(C, D)``."""


@dataclass(frozen=True, eq=False)
class MALA:
    """Propose ``y ~ N(x + m(x), 2ε)``, accept with ``min(1, p̃(y) N(x; y) / (p̃(x) N(y; x)))``. Exact, reversible.

    The drift ``m = ε ∇log p̃`` is held within ``±max_drift`` at each site, for the score grows without bound at the
    edge of the support, where proposals would all overshoot; the adjustment keeps p̃ for any drift.

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

    model: Any
    step_size: float = 0.5
    max_drift: float = 1.0

    reversible: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_triangular(self.model, self.step_size)
        if self.max_drift < 0:
            raise InputError("a number of at least 0", str(self.max_drift), where="max_drift")

    @property
    def space(self) -> Space:
        """Of the clean states."""
        space: Space = self.model.space
        return space

    def init(self, x: Any, clamped: Tensor | None = None) -> State:
        """Chains at points ``(C, D)`` of the support, or at states."""
        points, mask = start_points(self.model, x, clamped)
        return State(points, mask, self._look(points, mask))

    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """One proposal a chain; one look at the proposals for their density and score."""
        x, here = state.x, state.memory
        y = x + here.drift + free(noise(x, self.step_size, generator), state.clamped)
        there = self._look(y, state.clamped)
        correction = self._log_proposal(y, x, there) - self._log_proposal(x, y, here)
        accepted = accept(there.log_density - here.log_density + correction, generator)
        moved = State(choose(accepted, y, x), state.clamped, choose(accepted, there, here))
        return moved, Info(accepted, passes=2)

    def _look(self, x: Points, clamped: Tensor | None) -> Memory:
        drift = (self.step_size * self.model.stein_score(x)).clamp(-self.max_drift, self.max_drift)
        return Memory(self.model.log_density(x), free(drift, clamped))

    def _log_proposal(self, x: Tensor, y: Tensor, at_x: Memory) -> Tensor:
        """``log N(y; x + m(x), 2ε)`` up to a constant ``(C,)``; clamped sites add nothing."""
        return -(y - x - at_x.drift).square().sum(-1) / (4 * self.step_size)
