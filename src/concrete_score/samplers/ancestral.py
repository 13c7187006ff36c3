"""Independent draws from models that can draw for themselves: MADE, Bayesian networks, tables."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.protocols import Info, Samplable, State
from concrete_score.samplers.base import check_start
from concrete_score.spaces import Space


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
        """The model's."""
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
