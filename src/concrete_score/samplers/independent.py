"""Kernels whose every step is an independent exact draw: by enumeration, or by the model itself."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.models.layers import draw_categories
from concrete_score.protocols import DensityModel, Info, Samplable, State
from concrete_score.randomness import uniform
from concrete_score.samplers import matrices
from concrete_score.samplers.base import check_log_density, check_start
from concrete_score.spaces import ENUMERATION_LIMIT, Space
from concrete_score.targets.pmf import Pmf, from_density

_CHUNK = 2**22


@dataclass(frozen=True, eq=False)
class Exact:
    """Every step is an independent draw from ``q(x | clamped sites)``, by enumeration.

    Args:
        model: a density model on an enumerable space, normalized or not.
        limit: the largest number of states to enumerate.

    >>> from concrete_score.targets import Ising
    >>> kernel = Exact(Ising((3, 3), 0.4))
    >>> state = kernel.init(torch.zeros(5, 9, dtype=torch.int64))
    >>> kernel.step(state, torch.Generator().manual_seed(0))[0].x.shape
    torch.Size([5, 9])
    """

    model: Any
    limit: int = ENUMERATION_LIMIT

    reversible: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.model, DensityModel):
            fix = "use `mh`, `informed` or `gibbs`"
            raise InputError("a density model to enumerate", type(self.model).__name__, where="model", fix=fix)
        self.model.space.check_enumerable(self.limit)

    @property
    def space(self) -> Space:
        space: Space = self.model.space
        return space

    @torch.no_grad()
    def init(self, x: Any, clamped: Tensor | None = None) -> State:
        """Chains at ``x`` ``(C, D)``, whose free sites are forgotten in the first step."""
        states, mask = check_start(self.space, x, clamped)
        check_log_density(self._pmf.log_density(states), states)
        return State(states, mask)

    @torch.no_grad()
    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """A fresh draw of every chain."""
        fresh = torch.ones(len(state.x), dtype=torch.bool, device=state.x.device)
        if state.clamped is None:
            return State(self._pmf.sample(len(state.x), generator).to(state.x.device)), Info(fresh, passes=0)
        unit = uniform((len(state.x), 1), generator, state.x.device)
        rows = max(1, _CHUNK // self.space.num_states // self.space.num_sites)
        parts = [torch.split(part, rows) for part in (state.x, state.clamped, unit)]
        x = torch.cat([self._conditional_draw(*part) for part in zip(*parts, strict=True)])
        return State(x, state.clamped), Info(fresh, passes=0)

    def transition_matrix(self, clamped: Tensor | None = None) -> Tensor:
        """Every row is ``q(· | clamped sites)`` ``(S, S)``."""
        alike = matrices.same_clamped(self.space, clamped)
        rows = torch.where(alike, self._pmf.log_pmf, -torch.inf).softmax(-1)
        return torch.where(rows.isnan(), torch.eye(len(rows), dtype=rows.dtype), rows)

    def _conditional_draw(self, x: Tensor, clamped: Tensor, unit: Tensor) -> Tensor:
        states = self.space.enumerate(self.limit).to(x.device)
        alike = ((states == x[:, None]) | ~clamped[:, None]).all(-1)
        log_prob = torch.where(alike, self._pmf.log_pmf.to(x.device), -torch.inf)
        return self.space.state(draw_categories(log_prob, unit).squeeze(-1))

    @cached_property
    def _pmf(self) -> Pmf:
        return from_density(self.model, self.limit)


@dataclass(frozen=True, eq=False)
class Ancestral:
    """Every step is the model's own independent draw; clamped sites go through its ``sample_given``.

    Args:
        model: offers ``space`` and ``sample(n, generator)``, and ``sample_given(x, observed, generator)`` for clamping.

    >>> from concrete_score.models import MADE
    >>> kernel = Ancestral(MADE(Space.bits(4), generator=torch.Generator().manual_seed(0)))
    >>> state = kernel.init(torch.zeros(3, 4, dtype=torch.int64))
    >>> kernel.step(state, torch.Generator().manual_seed(0))[0].x.shape
    torch.Size([3, 4])
    """

    model: Any

    reversible: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.model, Samplable) or not hasattr(self.model, "space"):
            fix = "use `mh`, `informed` or `gibbs`, which need ratios or a density only"
            raise InputError("a model that draws its own samples", type(self.model).__name__, where="model", fix=fix)

    @property
    def space(self) -> Space:
        space: Space = self.model.space
        return space

    def init(self, x: Any, clamped: Tensor | None = None) -> State:
        """Chains at ``x`` ``(C, D)``, whose free sites are forgotten in the first step."""
        states, mask = check_start(self.space, x, clamped)
        if mask is not None and not hasattr(self.model, "sample_given"):
            raise InputError(
                "a model with `sample_given` to clamp sites",
                type(self.model).__name__,
                where="clamped",
                fix="use `mh`, `informed` or `gibbs`, which clamp any site",
            )
        return State(states, mask)

    @torch.no_grad()
    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """A fresh draw of every chain; about one pass."""
        if state.clamped is None:
            x = self.model.sample(len(state.x), generator)
        else:
            x = self.model.sample_given(state.x, state.clamped, generator)
        fresh = torch.ones(len(x), dtype=torch.bool, device=x.device)
        return State(x.to(state.x.device), state.clamped), Info(fresh, passes=1)
