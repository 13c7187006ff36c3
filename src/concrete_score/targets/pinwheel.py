"""The pinwheel: elongated Gaussians bent into blades, integrated exactly over bins."""

from dataclasses import dataclass
from math import ceil, hypot, pi, sqrt

import torch
from torch import Tensor

from concrete_score.targets.plane import HALF_WIDTH, Edges, Masses, Points, gauss_legendre, interval_mass

_ORDER = 20
_CELL = 0.25
_FAR = 8.0  # deviations beyond which no more than 1e-15 is left
_SCAN = 512
_NEWTON = 6


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

    def sample_points(self, n: int, generator: torch.Generator) -> Points:
        """``n`` independent draws ``(n, 2)``."""
        device = generator.device
        arm = torch.randint(self.arms, (n,), generator=generator, device=device)
        normal = torch.randn(2, n, dtype=torch.float64, generator=generator, device=device)
        f, g = 1 + self.radial_std * normal[0], self.tangential_std * normal[1]
        cos, sin = self._turn(f, 2 * pi * arm / self.arms)
        return self.scale * torch.stack([f * cos + g * sin, g * cos - f * sin], dim=-1)

    def bin_masses(self, edges: Edges, order: int = _ORDER) -> Masses:
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


def _cells(edges: Edges, reach: float) -> tuple[Tensor, Tensor]:
    """Bins, the infinite ones ended at ``±reach``, cut into cells of at most ``_CELL``: ends, and each cell's bin."""
    finite = edges.clamp(-reach, reach)
    parts = [max(1, ceil(float(width) / _CELL)) for width in finite.diff()]
    pieces = [
        torch.linspace(float(a), float(b), k + 1, dtype=torch.float64)[:-1]
        for a, b, k in zip(finite[:-1], finite[1:], parts, strict=True)
    ]
    return torch.cat([*pieces, finite[-1:]]), torch.arange(len(parts)).repeat_interleave(torch.tensor(parts))
