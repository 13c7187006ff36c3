"""Triangular noise: discrete data spread over the continuum, its Stein score, and the way back (paper, A.3).

docs/mathematics.md, "Triangular noise and Langevin", compares the corner sum with the paper's formula.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.noise.tables import in_chunks
from concrete_score.protocols import DensityModel
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space, as_tensor

MAX_SITES = 12

Points = Float[Tensor, "*batch sites"]
"""Points between the states ``(..., D)``."""


class Corners(NamedTuple):
    """The states a point may have come from, the corners of its unit cell."""

    states: Integer[Tensor, "*batch corners sites"]
    """``(..., 2**D, D)``; a corner beyond the space has probability 0."""
    log_prob: Float[Tensor, "*batch corners"]
    """``log q(state | point)`` ``(..., 2**D)``."""


@dataclass(frozen=True, eq=False)
class Triangular:
    """The density ``p̃`` of ``x + t`` for ``x ~ p`` and independent triangular noise ``t_d`` on [-1, 1].

    ``p̃(x̃) = Σ_x p(x) Π_d max(0, 1 - |x̃_d - x_d|)``: inside each unit cell the multilinear interpolation of p at the
    cell's ``2**D`` corners (0 beyond the space), so ``p̃ = p`` on the states and p̃ integrates to 1 over
    ``Π_d [-1, V_d]``.

    Args:
        space: the space of the clean states, of at most 12 sites.
        clean: the log-density of states ``(..., D) -> (...)``, normalized or not: a pmf's, a density model's, or one
            summed from log-ratios along paths.
        normalized: whether ``clean`` is normalized; p̃ then is too.

    >>> pmf = torch.tensor([0.5, 0.3, 0.2]).double()
    >>> noise = Triangular(Space((3,)), lambda x: pmf.log()[x[..., 0]], normalized=True)
    >>> noise.log_density(torch.tensor([[-0.5], [0.0], [0.5]]).double()).exp()
    tensor([0.2500, 0.5000, 0.4000], dtype=torch.float64)
    >>> noise.stein_score(torch.tensor([0.5]).double())
    tensor([-0.5000], dtype=torch.float64)
    """

    space: Space
    clean: Callable[[Tensor], Tensor]
    normalized: bool = False

    def __post_init__(self) -> None:
        if self.space.num_sites > MAX_SITES:
            raise InputError(
                f"at most {MAX_SITES} sites, for a cell has 2**sites corners",
                f"{self.space.num_sites}",
                where="space",
                fix="use site-wise noise (`categorical`) and a discrete sampler",
            )

    @classmethod
    def of(cls, density: DensityModel) -> "Triangular":
        """The noisy density of a density model."""
        return cls(density.space, density.log_density, density.normalized)

    def corrupt(self, x: States, generator: torch.Generator) -> Points:
        """``x`` plus independent triangular noise on [-1, 1], mode 0, float64 ``(..., D)``."""
        x = self.space.check(x)
        unit = torch.rand((2, *x.shape), generator=generator, device=generator.device, dtype=torch.float64)
        return x + (unit[0] - unit[1]).to(x.device)

    def log_density(self, points: Points) -> PerState:
        """``log p̃`` ``(..., D) -> (...)``; -inf outside the support."""
        points = self._check(points)
        return self._by_rows(lambda rows: self._log_joint(rows).logsumexp(-1), points).reshape(points.shape[:-1])

    def stein_score(self, points: Points) -> Points:
        """``∇ log p̃``, summing all corners ``(..., D)``; 0.0 where p̃ is 0, and to the right of a kink.

        With ``g_d(v)`` the interpolation of p over the other sites at value v of site d,
        ``s_d = (g_d(x̄+1) - g_d(x̄)) / (t g_d(x̄+1) + (1 - t) g_d(x̄))``, ``x̄ = floor(x̃_d)``, ``t = x̃_d - x̄``.
        """
        points = self._check(points)
        return self._by_rows(self._corner_scores, points, extra=self.space.num_sites).reshape(points.shape)

    def per_coordinate_score(self, points: Points) -> Points:
        """The paper's Stein score (A.3), which reads p at the cell's lower corner and one step along each site.

        ``s_d = (p(x̄+e_d) - p(x̄)) / (t p(x̄+e_d) + (1 - t) p(x̄))``: equal to `stein_score` for one site and for
        product pmfs, and only there. Lower corners beyond the space are moved to its edge; 0.0 where undefined.
        """
        points = self._check(points)
        return self._by_rows(self._edge_scores, points).reshape(points.shape)

    def posterior(self, points: Points) -> Corners:
        """Where each point came from, ``q(x | x̃) ∝ p(x) Π_d (1 - |x̃_d - x_d|)`` over the corners of its cell.

        Raises:
            InputError: a point of density 0 came from nowhere.
        """
        points = self._check(points)
        joint = self._log_joint(points)
        total = joint.logsumexp(-1, keepdim=True)
        if (total == -torch.inf).any():
            place = tuple(int(k) for k in (total == -torch.inf).nonzero()[0][:-1])
            raise InputError(
                "a point inside the support",
                f"{points[place].tolist()}",
                where=f"points{list(place)}",
                fix="keep samplers where `log_density` is finite",
            )
        return Corners(self._corners(points), joint - total)

    def denoise(self, points: Points, generator: torch.Generator) -> States:
        """A draw of the clean state of each point from its `posterior` ``(..., D)``."""
        points = self._check(points)

        def draw(rows: Tensor) -> Tensor:
            states, log_prob = self.posterior(rows)
            corner = torch.multinomial(log_prob.exp().to(generator.device), 1, generator=generator)
            return states.take_along_dim(corner[..., None].to(rows.device), 1)[:, 0]

        return self._by_rows(draw, points).reshape(points.shape)

    @cached_property
    def _offsets(self) -> Tensor:
        return Space.bits(self.space.num_sites).enumerate()

    def _by_rows(self, function: Callable[[Tensor], Tensor], points: Tensor, extra: int = 1) -> Tensor:
        width = self._offsets.numel() * extra
        return in_chunks(function, width, points.reshape(-1, self.space.num_sites))

    def _check(self, points: Tensor) -> Tensor:
        points = as_tensor(points, "points")
        if points.ndim == 0 or points.shape[-1] != self.space.num_sites or points.is_complex():
            expected = f"points of {self.space.num_sites} sites, shape (..., {self.space.num_sites})"
            raise InputError(expected, f"{points.dtype} of shape {tuple(points.shape)}", where="points")
        if points.isnan().any():
            raise InputError("numbers", "NaN", where="points", fix="use a smaller sampler step")
        return points.double()

    def _cell(self, points: Tensor) -> tuple[Tensor, Tensor]:
        # Whatever lies outside the support may be brought near it: all its corners are beyond the space.
        near = points.minimum(self.space.sizes_tensor(points.device).double() + 1).clamp(min=-2.0)
        floor = near.floor()
        return floor.long(), near - floor

    def _corners(self, points: Tensor) -> Tensor:
        return self._cell(points)[0][..., None, :] + self._offsets.to(points.device)

    def _log_weights(self, points: Tensor) -> Tensor:
        fraction = self._cell(points)[1][..., None, :]
        return torch.where(self._offsets.to(points.device) == 1, fraction.log(), (-fraction).log1p())

    def _log_joint(self, points: Tensor) -> Tensor:
        return self._log_clean(self._corners(points)) + self._log_weights(points).sum(-1)

    def _log_clean(self, states: Tensor) -> Tensor:
        last = self.space.sizes_tensor(states.device) - 1
        known = self.clean(states.clamp(min=0).minimum(last)).double()
        return torch.where(((states >= 0) & (states <= last)).all(-1), known, -torch.inf)

    def _corner_scores(self, points: Tensor) -> Tensor:
        own = torch.eye(self.space.num_sites, dtype=torch.bool, device=points.device)
        others = self._log_weights(points)[..., None, :].masked_fill(own, 0.0).sum(-1)
        part = self._log_clean(self._corners(points))[..., None] + others
        upper = self._offsets.to(points.device) == 1
        left, right = (part.masked_fill(side, -torch.inf).logsumexp(-2) for side in (upper, ~upper))
        return _slope(left, right, self._cell(points)[1])

    def _edge_scores(self, points: Tensor) -> Tensor:
        floor, fraction = self._cell(points)
        own = torch.eye(self.space.num_sites, dtype=torch.bool, device=points.device)
        last = self.space.sizes_tensor(points.device) - 1
        base = floor.clamp(min=0).minimum(last)[..., None, :]
        left, right = (self._log_clean(torch.where(own, floor[..., None, :] + step, base)) for step in (0, 1))
        supported = ((points > -1) & (points < last + 1)).all(-1, keepdim=True)
        return torch.where(supported, _slope(left, right, fraction), 0.0)


def _slope(left: Tensor, right: Tensor, fraction: Tensor) -> Tensor:
    """``(e^right - e^left) / (t e^right + (1 - t) e^left)`` in log space; 0.0 where the denominator is 0."""
    here = torch.logaddexp(right + fraction.log(), left + (-fraction).log1p())
    rise = -(left - right).expm1() * (right - here).exp()
    fall = (right - left).expm1() * (left - here).exp()
    return torch.where(here == -torch.inf, 0.0, torch.where(right >= left, rise, fall))
