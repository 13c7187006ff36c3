"""Langevin between the states: points moved by the score of the triangular-noise density (paper, 3.3 and A.3).

Unadjusted it is simple and biased; adjusted (MALA) it is exact (docs/mathematics.md, "Triangular noise and Langevin").
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.noise.triangular import Points, Triangular
from concrete_score.protocols import Info, State
from concrete_score.samplers.base import accept, check_clamped, check_log_density, choose
from concrete_score.spaces import Space


class Place(NamedTuple):
    """What is known at a chain's point."""

    log_density: Tensor
    """``log p̃`` ``(C,)``; -inf outside the support."""
    drift: Tensor
    """The mean of the move ``(C, D)``."""


@dataclass(frozen=True, eq=False)
class BetweenStates(ABC):
    """Propose ``y = x + m(x) + √(2ε) ξ`` with ξ standard normal, then go there or stay, as `_accept` decides.

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


@dataclass(frozen=True, eq=False)
class Langevin(BetweenStates):
    """``x ← x + ε ∇log p̃(x) + √(2ε) ξ``, staying where the step would leave the support. **Biased.**

    The bias comes from the finite step, from the kinks of p̃ at whole numbers and from its edge; it falls with ε. Use
    `MALA` for draws from p̃ itself. `Triangular.denoise` brings points back to states.

    Args:
        model: the noisy density, a `Triangular`.
        step_size: ε.
        max_drift: the longest pull of the score in one step. The paper's form has none (``inf``); points at the edge
            of the support are then caught there one by one, and the bias grows with time.

    >>> from concrete_score.noise import Triangular
    >>> from concrete_score.targets import sixteen_categories
    >>> kernel = Langevin(Triangular.of(sixteen_categories()), step_size=0.05)
    >>> state = kernel.init(torch.full((4, 1), 3.0, dtype=torch.float64))
    >>> kernel.step(state, torch.Generator().manual_seed(0))[0].x.shape
    torch.Size([4, 1])
    """

    step_size: float = 0.05

    def _accept(self, x: Points, here: Place, y: Points, there: Place, generator: torch.Generator) -> Tensor:
        return there.log_density > -torch.inf


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
