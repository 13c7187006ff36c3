"""Distributions of points in the plane, cut into square bins whose probabilities are known."""

from collections.abc import Callable
from functools import cache
from math import pi, sqrt
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from concrete_score.shapes import States

HALF_WIDTH = 4.0
"""The bins cover the box [-4, 4]²."""

Points = Float[Tensor, "points 2"]
"""Points of the plane, x then y."""

Edges = Float[Tensor, " edges"]
"""The ends of the bins along one axis, ascending; the outermost are infinite."""

Masses = Float[Tensor, "bins bins"]
"""The probability of each bin: rows along x, columns along y."""


@runtime_checkable
class PlaneLaw(Protocol):
    """A distribution in the plane that can be drawn from and integrated over bins; a hashable value."""

    def __hash__(self) -> int: ...

    def sample_points(self, n: int, generator: torch.Generator) -> Points:
        """``n`` independent draws ``(n, 2)``."""
        ...

    def bin_masses(self, edges: Edges) -> Masses:
        """The probability of every bin of the square grid ``edges × edges``."""
        ...


def bin_edges(bins: int) -> Edges:
    """``bins + 1`` equally spaced ends over [-4, 4]; the outer ones at infinity, for border bins take what is beyond.

    >>> bin_edges(4).tolist()
    [-inf, -2.0, 0.0, 2.0, inf]
    """
    edges = 2 * HALF_WIDTH * torch.arange(bins + 1, dtype=torch.float64) / bins - HALF_WIDTH
    edges[0], edges[-1] = -torch.inf, torch.inf
    return edges


def quantize(points: Points, bins: int) -> States:
    """The bins of points ``(n, 2)``, those outside the box clamped to its border.

    >>> quantize(torch.tensor([[-9.0, 0.1], [3.9, 4.1]]), 4).tolist()
    [[0, 2], [3, 3]]
    """
    return ((points + HALF_WIDTH) * (bins / (2 * HALF_WIDTH))).floor().long().clamp(0, bins - 1)


def interval_mass(low: Tensor, high: Tensor, std: float, blur: float = 0.0) -> Tensor:
    """``P(low < z < high)`` for ``z`` normal of deviation ``std`` plus, if ``blur > 0``, uniform on ±blur.

    The noise is symmetric, so intervals right of zero are mirrored to the left, where differences of cumulative
    probabilities keep all their digits however far out.

    >>> round(interval_mass(torch.tensor(-1.0).double(), torch.tensor(1.0).double(), 1.0).item(), 12)
    0.682689492137
    """
    mirrored = low + high > 0
    low, high = torch.where(mirrored, -high, low), torch.where(mirrored, -low, high)
    cumulative = _blurred_normal(std, blur) if blur > 0 else _normal(std)
    return (cumulative(high) - cumulative(low)).clamp(min=0)


@cache
def gauss_legendre(panels: int, order: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights of the composite Gauss–Legendre rule on [0, 1], each ``(panels * order,)``.

    >>> nodes, weights = gauss_legendre(3, 2)
    >>> round(float((weights * nodes**3).sum()), 12)
    0.25
    """
    nodes, weights = (torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(order))
    starts = torch.arange(panels, dtype=torch.float64)[:, None]
    return ((starts + (nodes + 1) / 2) / panels).reshape(-1), (weights / 2 / panels).repeat(panels)


def _phi(z: Tensor) -> Tensor:
    # torch.special.ndtr is exactly 0 below -8.3; erfc keeps its digits down to -37.
    return torch.erfc(-z / sqrt(2)) / 2


def _normal(std: float) -> Callable[[Tensor], Tensor]:
    return lambda z: _phi(z / std)


def _blurred_normal(std: float, blur: float) -> Callable[[Tensor], Tensor]:
    def integral(u: Tensor) -> Tensor:
        """``∫ Φ`` up to ``u``, that is ``u Φ(u) + φ(u)``."""
        u = u.clamp(min=-1e6)  # 0 there, and no -inf · 0
        return u * _phi(u) + (-u * u / 2).exp() / sqrt(2 * pi)

    return lambda z: std / (2 * blur) * (integral((z + blur) / std) - integral((z - blur) / std))
