"""Uniform distributions on square tiles."""

from dataclasses import dataclass

import torch

from concrete_score.targets.plane import Edges, Masses, Points


@dataclass(frozen=True)
class Tiles:
    """One of several square tiles, equally likely, and a uniform point in it.

    Args:
        corners: each tile's lower left corner.
        side: their common side.
    """

    corners: tuple[tuple[float, float], ...]
    side: float

    def sample_points(self, n: int, generator: torch.Generator) -> Points:
        """``n`` independent draws ``(n, 2)``."""
        device = generator.device
        corners = torch.tensor(self.corners, dtype=torch.float64, device=device)
        which = torch.randint(len(corners), (n,), generator=generator, device=device)
        unit = torch.rand(n, 2, dtype=torch.float64, generator=generator, device=device)
        return corners[which] + self.side * unit

    def bin_masses(self, edges: Edges) -> Masses:
        """The probability of every bin: the shares of each tile's sides it covers, multiplied; zeros are exact."""
        start = torch.tensor(self.corners, dtype=torch.float64)[..., None]
        low, high = edges[:-1], edges[1:]
        overlap = (torch.minimum(high, start + self.side) - torch.maximum(low, start)).clamp(min=0)
        along_x, along_y = (overlap / self.side).unbind(1)
        return along_x.T @ along_y / len(self.corners)
