"""Annealing of an RBM written plainly, in float64 and with nothing shared: the yardstick of the annealed bounds."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from concrete_score.likelihood.annealing_paths import RBMPath, TemperedRBM
from concrete_score.protocols import Info, State
from concrete_score.samplers.base import check_start
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space
from concrete_score.targets.boltzmann import RBM


@dataclass(frozen=True, eq=False)
class PlainRBMPath:
    """A path whose steps compute both densities, each anew."""

    path: RBMPath

    @property
    def space(self) -> Space:
        return self.path.space

    @property
    def target(self) -> RBM:
        return self.path.target

    def at(self, beta: float) -> TemperedRBM:
        return self.path.at(beta)

    def sample(self, n: int, generator: torch.Generator) -> States:
        return self.path.sample(n, generator)

    def increment(self, x: States, low: float, high: float) -> PerState:
        return self.at(high).log_density(x) - self.at(low).log_density(x)


@dataclass(frozen=True, eq=False)
class PlainBlockGibbs:
    """All hidden bits given the visible ones, then all visible bits given them.

    >>> from concrete_score.targets import random_rbm
    >>> g = torch.Generator().manual_seed(0)
    >>> path = PlainRBMPath(RBMPath(random_rbm(5, 3, 0.5, g)))
    >>> kernel = PlainBlockGibbs(path.at(0.5))
    >>> kernel.step(kernel.init(path.sample(4, g)), g)[0].x.shape
    torch.Size([4, 5])
    """

    density: TemperedRBM

    reversible: ClassVar[bool] = True

    @property
    def space(self) -> Space:
        return self.density.space

    def init(self, x: Any, clamped: Tensor | None = None) -> State:
        """Chains at ``x`` ``(C, V)``."""
        return State(*check_start(self.space, x, clamped))

    @torch.no_grad()
    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """Both layers of every chain."""
        hidden = _bits(self.density.hidden_logits(state.x.double()), generator)
        visible = _bits(self.density.visible_logits(hidden), generator).long()
        return State(visible, state.clamped), Info(torch.ones(len(visible), dtype=torch.bool), 1)


def _bits(logits: Tensor, generator: torch.Generator) -> Tensor:
    return (torch.rand(logits.shape, generator=generator, dtype=torch.float64) < logits.sigmoid()).double()
