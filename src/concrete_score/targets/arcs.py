"""Points on spiral arcs with noise around them: Gaussians, circles, moons, spirals and the Swiss roll alike."""

from dataclasses import dataclass
from math import ceil, pi

import torch
from torch import Tensor

from concrete_score.targets.plane import Edges, Masses, Points, gauss_legendre, interval_mass

_ORDER = 16


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

    def sample_points(self, n: int, generator: torch.Generator) -> Points:
        """``n`` independent draws ``(n, 2)``."""
        device = generator.device
        which = torch.randint(len(self.arcs), (n,), generator=generator, device=device)
        unit = torch.rand(3, n, dtype=torch.float64, generator=generator, device=device)
        normal = torch.randn(n, 2, dtype=torch.float64, generator=generator, device=device)
        on_all = torch.stack([arc.at(unit[0] ** (1 / self.growth)) for arc in self.arcs])
        on_one = on_all[which, torch.arange(n, device=device)]
        return on_one + self.std * normal + self.blur * (2 * unit[1:].T - 1)

    def bin_masses(self, edges: Edges, fineness: int = 1) -> Masses:
        """The probability of every bin; ``16 fineness`` nodes on every ``std`` of arc, which leaves rounding alone."""
        panels = fineness * max(1, ceil(max(arc.length for arc in self.arcs) / self.std))
        t, weights = gauss_legendre(panels, _ORDER)
        weights = weights * self.growth * t ** (self.growth - 1) / len(self.arcs)
        points = torch.cat([arc.at(t) for arc in self.arcs])
        offsets = edges - points[..., None]
        along_x, along_y = interval_mass(offsets[..., :-1], offsets[..., 1:], self.std, self.blur).unbind(1)
        return (weights.repeat(len(self.arcs))[:, None] * along_x).T @ along_y
