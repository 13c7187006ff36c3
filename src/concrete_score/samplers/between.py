"""Kernels between the states: points moved by the score of the triangular-noise density (paper, 3.3 and A.3)."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Any, NamedTuple

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.noise.triangular import Points, Triangular
from concrete_score.protocols import Info, State
from concrete_score.samplers.base import check_clamped, check_log_density, choose
from concrete_score.spaces import Space


class Place(NamedTuple):
    """What is known at a chain's point."""

    log_density: Tensor
    """``log p̃`` ``(C,)``; -inf outside the support."""
    drift: Tensor
    """The mean of the move ``(C, D)``."""


@dataclass(frozen=True, eq=False)
class BetweenStates(ABC):
    """Propose ``y = x + m(x) + √(2ε) ξ`` with ξ standard normal, then go there or stay, as the kernel says.

    The drift ``m = ε ∇log p̃`` is held within ``±max_drift`` at each site, for the score grows without bound at the
    edge of the support: unbounded, it throws a point there across and out on the other side, in every step again, so
    that the point never moves. Clamped coordinates neither drift nor shake.

    Args:
        model: the noisy density.
        step_size: ε.
        max_drift: the longest pull of the score in one step; infinite for none.

    Raises:
        InputError: another kind of model, a step size that is not positive, or a drift below 0.
    """

    model: Any
    step_size: float = 0.05
    max_drift: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.model, Triangular):
            raise InputError(
                "a triangular-noise density",
                type(self.model).__name__,
                where="model",
                fix="use Triangular.of(density), or a discrete kernel such as `mh`",
            )
        if not (self.step_size > 0 and isfinite(self.step_size)):
            raise InputError("a positive number", str(self.step_size), where="step_size")
        if not self.max_drift >= 0:
            raise InputError("a number of at least 0", str(self.max_drift), where="max_drift")

    @property
    def space(self) -> Space:
        """Of the clean states."""
        space: Space = self.model.space
        return space

    def init(self, x: Any, clamped: Tensor | None = None) -> State:
        """Chains at points ``(C, D)`` of the support, or at states."""
        points = torch.as_tensor(x).double()
        if points.ndim != 2 or not len(points):
            expected = f"points of shape (C, {self.space.num_sites}), at least one"
            raise InputError(expected, f"shape {tuple(points.shape)}", where="x")
        mask = check_clamped(clamped, points)
        place = self._look(points, mask)
        check_log_density(place.log_density, points)
        return State(points, mask, place)

    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """One proposal a chain; one look at the proposals for their density and one for their score."""
        x, here = state.x, state.memory
        normal = torch.randn(x.shape, generator=generator, dtype=torch.float64, device=generator.device).to(x.device)
        y = x + here.drift + _free(sqrt(2 * self.step_size) * normal, state.clamped)
        there = self._look(y, state.clamped)
        goes = self._accept(x, here, y, there, generator)
        return State(choose(goes, y, x), state.clamped, choose(goes, there, here)), Info(goes, passes=2)

    @abstractmethod
    def _accept(self, x: Points, here: Place, y: Points, there: Place, generator: torch.Generator) -> Tensor:
        """Which chains go from ``x`` to ``y`` ``(C,)`` bool."""

    def _look(self, x: Points, clamped: Tensor | None) -> Place:
        drift = (self.step_size * self.model.stein_score(x)).clamp(-self.max_drift, self.max_drift)
        return Place(self.model.log_density(x), _free(drift, clamped))


def _free(move: Points, clamped: Tensor | None) -> Points:
    """A move without its clamped coordinates."""
    return move if clamped is None else move.masked_fill(clamped, 0.0)
