"""Distributions of points in the plane, cut into square bins whose probabilities are known."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import ceil, hypot, pi, sqrt
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from concrete_score.shapes import States

HALF_WIDTH = 4.0
"""The bins cover the box [-4, 4]²."""

_ARC_NODES = 16
_PIECE_NODES = 20
_CELL = 0.25
_FAR = 8.0  # deviations beyond which no more than 1e-15 is left
_SCAN = 512
_NEWTON = 6

PlanePoints = Float[Tensor, "points 2"]
"""Points of the plane, x then y."""

BinEdges = Float[Tensor, " edges"]
"""The ends of the bins along one axis, ascending; the outermost are infinite."""

Masses = Float[Tensor, "bins bins"]
"""The probability of each bin: rows along x, columns along y."""


@runtime_checkable
class PlaneLaw(Protocol):
    """A distribution in the plane that can be drawn from and integrated over bins; a hashable value."""

    def __hash__(self) -> int: ...

    def sample_points(self, n: int, generator: torch.Generator) -> PlanePoints:
        """``n`` independent draws ``(n, 2)``."""
        ...

    def bin_masses(self, edges: BinEdges) -> Masses:
        """The probability of every bin of the square grid ``edges × edges``."""
        ...


def bin_edges(bins: int) -> BinEdges:
    """``bins + 1`` equally spaced ends over [-4, 4]; the outer ones at infinity, for border bins take what is beyond.

    >>> bin_edges(4).tolist()
    [-inf, -2.0, 0.0, 2.0, inf]
    """
    edges = 2 * HALF_WIDTH * torch.arange(bins + 1, dtype=torch.float64) / bins - HALF_WIDTH
    edges[0], edges[-1] = -torch.inf, torch.inf
    return edges


def quantize(points: PlanePoints, bins: int) -> States:
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


@dataclass(frozen=True)
class Arc:
    """``center + r(t) (cos a(t), sin a(t))`` for ``0 <= t <= 1``, with ``r`` and ``a`` linear (Archimedes' spiral).

    Args:
        center: where the spiral turns; with no radius at all, the arc is this point.
        radius: at ``t = 0`` and ``t = 1``.
        angle: at ``t = 0`` and ``t = 1``, in radians.
    """

    center: tuple[float, float] = (0.0, 0.0)
    radius: tuple[float, float] = (0.0, 0.0)
    angle: tuple[float, float] = (0.0, 2 * pi)

    def at(self, t: Tensor) -> Tensor:
        """The points at ``t`` ``(n,) -> (n, 2)``."""
        radius = self.radius[0] + (self.radius[1] - self.radius[0]) * t
        angle = self.angle[0] + (self.angle[1] - self.angle[0]) * t
        return torch.stack([self.center[0] + radius * angle.cos(), self.center[1] + radius * angle.sin()], dim=-1)

    @property
    def length(self) -> float:
        """At most this long; 0 for a point."""
        (start, end), (first, last) = self.radius, self.angle
        return abs(end - start) + (abs(start) + abs(end)) / 2 * abs(last - first)


@dataclass(frozen=True)
class NoisyArcs:
    """One of several arcs, equally likely; a point on it; then noise in both directions.

    ``t`` has density ``growth · t^(growth-1)``. The probability of a bin is an integral along the arcs of products of
    two one-dimensional interval masses, done by Gauss–Legendre panels.

    Args:
        arcs: the arcs.
        std: of the normal noise.
        blur: half the width of additional uniform noise.
        growth: 1 for ``t`` uniform, 2 for ``t = √uniform``.
    """

    arcs: tuple[Arc, ...]
    std: float
    blur: float = 0.0
    growth: int = 1

    def sample_points(self, n: int, generator: torch.Generator) -> PlanePoints:
        """``n`` independent draws ``(n, 2)``."""
        device = generator.device
        which = torch.randint(len(self.arcs), (n,), generator=generator, device=device)
        unit = torch.rand(3, n, dtype=torch.float64, generator=generator, device=device)
        normal = torch.randn(n, 2, dtype=torch.float64, generator=generator, device=device)
        on_all = torch.stack([arc.at(unit[0] ** (1 / self.growth)) for arc in self.arcs])
        on_one = on_all[which, torch.arange(n, device=device)]
        return on_one + self.std * normal + self.blur * (2 * unit[1:].T - 1)

    def bin_masses(self, edges: BinEdges, fineness: int = 1) -> Masses:
        """The probability of every bin; ``16 fineness`` nodes on every ``std`` of arc, which leaves rounding alone."""
        panels = fineness * max(1, ceil(max(arc.length for arc in self.arcs) / self.std))
        t, weights = gauss_legendre(panels, _ARC_NODES)
        weights = weights * self.growth * t ** (self.growth - 1) / len(self.arcs)
        points = torch.cat([arc.at(t) for arc in self.arcs])
        offsets = edges - points[..., None]
        along_x, along_y = interval_mass(offsets[..., :-1], offsets[..., 1:], self.std, self.blur).unbind(1)
        return (weights.repeat(len(self.arcs))[:, None] * along_x).T @ along_y


@dataclass(frozen=True)
class Tiles:
    """One of several square tiles, equally likely, and a uniform point in it.

    Args:
        corners: each tile's lower left corner.
        side: their common side.
    """

    corners: tuple[tuple[float, float], ...]
    side: float

    def sample_points(self, n: int, generator: torch.Generator) -> PlanePoints:
        """``n`` independent draws ``(n, 2)``."""
        device = generator.device
        corners = torch.tensor(self.corners, dtype=torch.float64, device=device)
        which = torch.randint(len(corners), (n,), generator=generator, device=device)
        unit = torch.rand(n, 2, dtype=torch.float64, generator=generator, device=device)
        return corners[which] + self.side * unit

    def bin_masses(self, edges: BinEdges) -> Masses:
        """The probability of every bin: the shares of each tile's sides it covers, multiplied; zeros are exact."""
        start = torch.tensor(self.corners, dtype=torch.float64)[..., None]
        low, high = edges[:-1], edges[1:]
        overlap = (torch.minimum(high, start + self.side) - torch.maximum(low, start)).clamp(min=0)
        along_x, along_y = (overlap / self.side).unbind(1)
        return along_x.T @ along_y / len(self.corners)


@dataclass(frozen=True)
class Pinwheel:
    """``scale · Rᵃ (f, g)``: normal ``f`` around 1 and ``g`` around 0, turned clockwise by ``a = 2πj/arms + rate·eᶠ``.

    For fixed ``f`` the point lies on a line and is normal along it, so a bin's probability is an integral over ``f``
    of the mass of a line's part in a square. That mass has kinks where the line meets a corner and is smooth between
    them: the corners are solved for, and each smooth piece is integrated by Gauss–Legendre (to 1e-11 in total
    variation).

    Args:
        arms: how many blades, equally likely.
        radial_std: of f.
        tangential_std: of g.
        rate: how strongly blades bend.
        scale: a final factor.
    """

    arms: int = 5
    radial_std: float = 0.3
    tangential_std: float = 0.1
    rate: float = 0.25
    scale: float = 2.0

    def sample_points(self, n: int, generator: torch.Generator) -> PlanePoints:
        """``n`` independent draws ``(n, 2)``."""
        device = generator.device
        arm = torch.randint(self.arms, (n,), generator=generator, device=device)
        normal = torch.randn(2, n, dtype=torch.float64, generator=generator, device=device)
        f, g = 1 + self.radial_std * normal[0], self.tangential_std * normal[1]
        cos, sin = self._turn(f, 2 * pi * arm / self.arms)
        return self.scale * torch.stack([f * cos + g * sin, g * cos - f * sin], dim=-1)

    def bin_masses(self, edges: BinEdges, order: int = _PIECE_NODES) -> Masses:
        """The probability of every bin; ``order`` nodes on each smooth piece."""
        reach = self.scale * hypot(1 + _FAR * self.radial_std, _FAR * self.tangential_std)
        ends, owner = _cells(edges, max(reach, HALF_WIDTH + _CELL))
        bins = len(edges) - 1
        masses = torch.zeros(bins * bins, dtype=torch.float64)
        for arm in range(self.arms):
            cell, mass = self._cell_masses(ends / self.scale, 2 * pi * arm / self.arms, order)
            x, y = cell // len(owner), cell % len(owner)
            masses.index_add_(0, owner[x] * bins + owner[y], mass / self.arms)
        return masses.reshape(bins, bins)

    def _turn(self, f: Tensor, start: Tensor | float) -> tuple[Tensor, Tensor]:
        angle = start + self.rate * f.exp()
        return angle.cos(), angle.sin()

    def _cell_masses(self, ends: Tensor, start: float, order: int) -> tuple[Tensor, Tensor]:
        """The smooth pieces of one arm: the cell of each and its mass ``(pieces,)``."""
        kinks = self._kinks(ends, start).unfold(0, 2, 1).unfold(1, 2, 1).flatten(2).flatten(0, 1).sort(-1).values
        cell, piece = (kinks.diff() > 0).nonzero().unbind(1)
        low, high = kinks[cell, piece], kinks[cell, piece + 1]
        inside = self._line_mass(((low + high) / 2)[:, None], cell, ends, start)[:, 0] > 0
        cell, low, high = cell[inside], low[inside], high[inside]
        nodes, weights = gauss_legendre(1, order)
        f = low[:, None] + (high - low)[:, None] * nodes
        density = (-(((f - 1) / self.radial_std) ** 2) / 2).exp() / (self.radial_std * sqrt(2 * pi))
        integral = (density * self._line_mass(f, cell, ends, start)) @ weights
        return cell, integral * (high - low)

    def _line_mass(self, f: Tensor, cell: Tensor, ends: Tensor, start: float) -> Tensor:
        """The share of the line of ``f`` ``(pieces, nodes)`` that lies in its square cell."""
        cos, sin = self._turn(f, start)
        x, y = cell[:, None] // (len(ends) - 1), cell[:, None] % (len(ends) - 1)
        left, right = (ends[x] - f * cos) / sin, (ends[x + 1] - f * cos) / sin
        below, above = (ends[y] + f * sin) / cos, (ends[y + 1] + f * sin) / cos
        enter = torch.maximum(torch.minimum(left, right), torch.minimum(below, above))
        leave = torch.minimum(torch.maximum(left, right), torch.maximum(below, above))
        mass = interval_mass(enter, leave, self.tangential_std)
        return torch.where(leave > enter, mass, torch.zeros_like(mass))

    def _kinks(self, ends: Tensor, start: float) -> Tensor:
        """Every ``f`` whose line meets a corner of the grid ``(ends, ends, roots)``, padded by the largest ``f``.

        The line of ``f`` meets ``(x, y)`` where ``f = x cos - y sin``; sign changes on a fine grid bracket the roots,
        Newton's method ends them. A root missed or unfinished (at a fold of the map) only costs digits.
        """
        # Lines through the box have |f| below its half diagonal, which keeps even its emptiest bins exact.
        diagonal, far = HALF_WIDTH * sqrt(2) / self.scale, _FAR * self.radial_std
        scan = torch.linspace(min(1 - far, -diagonal), max(1 + far, diagonal), _SCAN, dtype=torch.float64)
        corners = torch.cartesian_prod(ends, ends)
        cos, sin = self._turn(scan, start)
        negative = corners @ torch.stack([cos, -sin]) > scan
        corner, bracket = (negative[:, 1:] != negative[:, :-1]).nonzero().unbind(1)
        (x, y), low, high = corners[corner].T, scan[bracket], scan[bracket + 1]
        f = (low + high) / 2
        for _ in range(_NEWTON):
            cos, sin = self._turn(f, start)
            slope = 1 + self.rate * f.exp() * (x * sin + y * cos)
            f = torch.minimum(torch.maximum(f - (f - x * cos + y * sin) / slope, low), high)
        counts = torch.bincount(corner, minlength=len(ends) ** 2)
        rank = torch.arange(len(corner)) - (counts.cumsum(0) - counts)[corner]
        padded = torch.full((len(counts), int(counts.max())), scan[-1].item(), dtype=torch.float64)
        padded[corner, rank] = f
        return padded.reshape(len(ends), len(ends), -1)


def _cells(edges: BinEdges, reach: float) -> tuple[Tensor, Tensor]:
    """Bins, the infinite ones ended at ``±reach``, cut into cells of at most ``_CELL``: ends, and each cell's bin."""
    finite = edges.clamp(-reach, reach)
    parts = [max(1, ceil(float(width) / _CELL)) for width in finite.diff()]
    pieces = [
        torch.linspace(float(a), float(b), k + 1, dtype=torch.float64)[:-1]
        for a, b, k in zip(finite[:-1], finite[1:], parts, strict=True)
    ]
    return torch.cat([*pieces, finite[-1:]]), torch.arange(len(parts)).repeat_interleave(torch.tensor(parts))
