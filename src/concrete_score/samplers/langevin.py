"""Unadjusted Langevin on the triangular-noise density: simple, and biased (paper, section 3.3 and A.3)."""

from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.noise.triangular import Points, Triangular
from concrete_score.protocols import Info, State
from concrete_score.samplers.base import check_clamped, check_log_density
from concrete_score.spaces import Space


@dataclass(frozen=True, eq=False)
class Langevin:
    """``x ← x + ε ∇log p̃(x) + √(2ε) ξ``, staying where the step would leave the support. **Biased.**

    The bias comes from the finite step, from the kinks of p̃ at whole numbers and from its edge; it falls with ε. Use
    `MALA` for draws from p̃ itself. `Triangular.denoise` brings points back to states.

    Args:
        model: the noisy density.
        step_size: ε.

    Raises:
        InputError: another kind of model, or a step size that is not positive.

    >>> from concrete_score.targets import sixteen_categories
    >>> kernel = Langevin(Triangular.of(sixteen_categories()), step_size=0.05)
    >>> state = kernel.init(torch.full((4, 1), 3.0, dtype=torch.float64))
    >>> kernel.step(state, torch.Generator().manual_seed(0))[0].x.shape
    torch.Size([4, 1])
    """

    model: Any
    step_size: float = 0.05

    def __post_init__(self) -> None:
        check_triangular(self.model, self.step_size)

    @property
    def space(self) -> Space:
        """Of the clean states."""
        space: Space = self.model.space
        return space

    def init(self, x: Any, clamped: Tensor | None = None) -> State:
        """Chains at points ``(C, D)`` of the support, or at states; the memory is the score there."""
        points, mask = start_points(self.model, x, clamped)
        return State(points, mask, self.model.stein_score(points))

    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """One move of every chain; one look at the proposals for their density and score."""
        y = state.x + free(self.step_size * state.memory + noise(state.x, self.step_size, generator), state.clamped)
        inside = self.model.log_density(y) > -torch.inf
        x = torch.where(inside[:, None], y, state.x)
        return State(x, state.clamped, self.model.stein_score(x)), Info(inside, passes=2)


def check_triangular(model: Any, step_size: float) -> None:
    """The pieces of a sampler between the states."""
    if not isinstance(model, Triangular):
        raise InputError(
            "a triangular-noise density",
            type(model).__name__,
            where="model",
            fix="use Triangular.of(density), or a discrete kernel such as `mh`",
        )
    if not (step_size > 0 and isfinite(step_size)):
        raise InputError("a positive number", str(step_size), where="step_size")


def start_points(model: Triangular, x: Any, clamped: Tensor | None) -> tuple[Points, Tensor | None]:
    """Checked points of positive density ``(C, D)`` and their clamped sites."""
    points = torch.as_tensor(x).double()
    if points.ndim != 2 or not len(points):
        expected = f"points of shape (C, {model.space.num_sites}), at least one"
        raise InputError(expected, f"shape {tuple(points.shape)}", where="x")
    check_log_density(model.log_density(points), points)
    return points, check_clamped(clamped, points)


def noise(x: Points, step_size: float, generator: torch.Generator) -> Points:
    """``√(2ε) ξ``, ξ standard normal."""
    normal = torch.randn(x.shape, generator=generator, dtype=torch.float64, device=generator.device)
    return sqrt(2 * step_size) * normal.to(x.device)


def free(move: Points, clamped: Tensor | None) -> Points:
    """A move without its clamped coordinates."""
    return move if clamped is None else move.masked_fill(clamped, 0.0)
