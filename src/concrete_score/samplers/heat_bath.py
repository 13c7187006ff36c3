"""Parallel heat bath: a random share of the sites drawn anew at once, each from its conditional. Unadjusted."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.models.layers import draw_categories
from concrete_score.models.sites import SiteTable
from concrete_score.protocols import Info, ScoreModel, State
from concrete_score.samplers import matrices
from concrete_score.samplers.base import all_edits, check_start, uniform
from concrete_score.samplers.gibbs import check_all_changes
from concrete_score.shapes import States
from concrete_score.spaces import Space


@dataclass(frozen=True, eq=False)
class HeatBath:
    """Every free site, with probability ``share``, takes a value from ``q(x_d | the others)``; all at once.

    One pass of a score model holds all conditionals, so a step moves ``share · D`` sites where `Gibbs` moves one. Sites
    that move together do not see each other move: the kernel keeps no known distribution, and is off by an amount that
    falls with the share. Its exact matrix tells by how much.

    Args:
        model: a score model that lists every single-site change (`hamming`, or flips of bits).
        share: of the sites, above 0 and up to 1.

    Raises:
        InputError: a score model without all values of a site, or a share out of range.

    >>> from concrete_score.models import DensityScore
    >>> from concrete_score.neighborhoods import hamming
    >>> from concrete_score.targets import pmf
    >>> p = pmf([0.25, 0.75])
    >>> HeatBath(DensityScore(p, hamming(p.space)), share=1.0).transition_matrix()
    tensor([[0.2500, 0.7500],
            [0.2500, 0.7500]], dtype=torch.float64)
    """

    model: Any
    share: float = 0.2

    adjusted: ClassVar[bool] = False
    """No step is ever rejected, and none should be believed exact."""
    memoryless: ClassVar[bool] = True
    """A step needs nothing of the last one."""

    def __post_init__(self) -> None:
        check_all_changes(self.model)
        if not 0 < self.share <= 1:
            raise InputError("a share above 0 and up to 1", str(self.share), where="share")

    @property
    def space(self) -> Space:
        """The model's."""
        space: Space = self.model.neighborhood.space
        return space

    def init(self, x: Any, clamped: Tensor | None = None) -> State:
        """Chains at ``x`` ``(C, D)``; no pass."""
        return State(*check_start(self.space, x, clamped))

    @torch.no_grad()
    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """One pass; accepted tells which chains changed."""
        x = state.x
        drawn = draw_sites(conditionals(self.model, x), generator)
        moves = uniform(tuple(x.shape), generator, x.device, torch.float32) < self.share
        if state.clamped is not None:
            moves &= ~state.clamped
        y = torch.where(moves, drawn, x)
        return State(y, state.clamped), Info((y != x).any(-1), passes=1)

    def transition_matrix(self, clamped: Tensor | None = None) -> Tensor:
        """``P[x, y] = Π_d [(1 - share) [x_d = y_d] + share q(y_d | the others of x)]`` ``(S, S)``."""
        states = self.space.enumerate(matrices.LIMIT)
        drawn = conditionals(self.model, states).double().exp()
        stays = torch.nn.functional.one_hot(states, drawn.shape[-1]).double()
        return site_matrix(self.space, ((1 - self.share) * stays + self.share * drawn).log(), clamped)


@torch.no_grad()
def conditionals(model: ScoreModel, x: States) -> SiteTable:
    """``log q(x_d = v | the others)`` of all sites, from one pass ``(C, D) -> (C, D, V)``; -inf beyond a size."""
    n = model.neighborhood
    ratios = model.log_ratios(x)
    width = max(n.space.sizes)
    site, value = all_edits(n, x)  # type: ignore[arg-type]  # single-site changes, checked by whoever built the kernel
    table = ratios.new_full((len(x), x.shape[-1] * width), -torch.inf)
    table.scatter_(1, site * width + value, ratios)
    own = torch.arange(x.shape[-1], device=x.device) * width + x
    table.scatter_(1, own, 0.0)
    return table.reshape(*x.shape, width).log_softmax(-1)


def draw_sites(log_probs: SiteTable, generator: torch.Generator) -> States:
    """A value for every site on its own ``(..., D, V) -> (..., D)``."""
    unit = uniform((*log_probs.shape[:-1], 1), generator, log_probs.device)
    return draw_categories(log_probs, unit).squeeze(-1)


def site_matrix(space: Space, log_probs: SiteTable, clamped: Tensor | None = None) -> Tensor:
    """The matrix that draws every free site on its own: ``P[i, j] = Π_d p(y_d | state i)`` ``(S, S)``.

    Args:
        space: enumerable.
        log_probs: of every site's value at every state ``(S, D, V)``.
        clamped: sites that keep their value ``(D,)``.
    """
    states = space.enumerate(matrices.LIMIT)
    total = torch.zeros((len(states),) * 2, dtype=torch.float64)
    for d in matrices.free_sites(space, clamped):
        total += log_probs[:, d].double()[:, states[:, d]]
    return torch.where(matrices.same_clamped(space, clamped), total, -torch.inf).exp()
