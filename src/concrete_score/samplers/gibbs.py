"""Sites drawn anew from their conditionals: one at a time (Gibbs, exact), or a random share at once (unadjusted).

Ratios are all it takes (paper, section 3.3).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.models.layers import SiteTable, draw_categories
from concrete_score.objectives.conditionals import site_log_conditionals
from concrete_score.protocols import DensityModel, Info, ScoreModel, SiteNeighborhood, State
from concrete_score.randomness import uniform
from concrete_score.samplers import matrices
from concrete_score.samplers.base import all_edits, check_log_density, check_log_ratios, check_start, draw_marked
from concrete_score.samplers.combined import Composition
from concrete_score.samplers.readings import READINGS, ScoreReading
from concrete_score.shapes import Slots, States
from concrete_score.spaces import Space


@dataclass(frozen=True, eq=False)
class Gibbs:
    """Draw a free site of each chain, then its value from ``q(x_d | the others)``. Exact, reversible, never rejects.

    Args:
        model: a density model, run at all values of the site; or a score model that lists every single-site change
            (`hamming`, or flips of bits), whose one pass holds all conditionals.
        site: this site in every step instead of a drawn one, for `systematic` scans.

    Raises:
        InputError: a score model without all values of a site.

    >>> from concrete_score.targets import pmf
    >>> Gibbs(pmf([0.25, 0.75])).transition_matrix()
    tensor([[0.2500, 0.7500],
            [0.2500, 0.7500]], dtype=torch.float64)
    """

    model: Any
    site: int | None = None

    reversible: ClassVar[bool] = True
    memoryless: ClassVar[bool] = True
    """A step needs nothing of the last one, so that sweeps need not look twice."""

    def __post_init__(self) -> None:
        space = self._conditionals.space
        if self.site is not None and not 0 <= self.site < space.num_sites:
            raise InputError(f"a site from 0 to {space.num_sites - 1}", str(self.site), where="site")

    @property
    def space(self) -> Space:
        return self._conditionals.space

    @torch.no_grad()
    def init(self, x: Any, clamped: Tensor | None = None) -> State:
        """Chains at ``x`` ``(C, D)``; one pass, to check them."""
        states, mask = check_start(self.space, x, clamped)
        self._conditionals.check(states)
        return State(states, mask)

    @torch.no_grad()
    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """One site of every chain; a chain without a free site stays."""
        site, movable = self._draw_site(state, generator)
        log_conditional = self._conditionals.at(state.x, site)
        unit = uniform((len(site), 1), generator, state.x.device)
        drawn = draw_categories(log_conditional, unit)
        old = state.x.gather(1, site[:, None])
        x = state.x.scatter(1, site[:, None], torch.where(movable[:, None], drawn, old))
        return State(x, state.clamped), Info(movable, self._conditionals.passes)

    def transition_matrix(self, clamped: Tensor | None = None) -> Tensor:
        """``P = mean over free sites of P_d``, ``P_d[i, j] ∝ q(j)`` on states equal off d ``(S, S)``."""
        free = [d for d in matrices.free_sites(self.space, clamped) if self.site in (None, d)]
        size = self.space.num_states
        if not free:
            return torch.eye(size, dtype=torch.float64)
        ratios = self._conditionals.matrix()
        parts = [_one_site_matrix(self.space, ratios, d) for d in free]
        return torch.stack(parts).mean(0)

    def _draw_site(self, state: State, generator: torch.Generator) -> tuple[Slots, Tensor]:
        x, clamped = state.x, state.clamped
        if self.site is not None:
            site = torch.full((len(x),), self.site, device=x.device)
            return site, torch.ones_like(site, dtype=torch.bool) if clamped is None else ~clamped[:, self.site]
        if clamped is not None:
            return draw_marked(~clamped, generator)
        site = torch.randint(x.shape[1], (len(x),), generator=generator, device=generator.device).to(x.device)
        return site, torch.ones_like(site, dtype=torch.bool)

    @cached_property
    def _conditionals(self) -> "SiteConditionals":
        return site_conditionals(self.model)


def systematic(model: Any, order: Sequence[int] | None = None) -> Composition:
    """A sweep: every site once, in order (natural by default), as one step. Exact; its reversal is the other order.

    >>> from concrete_score.targets import Ising
    >>> len(systematic(Ising((2, 3), 0.4)).kernels)
    6
    """
    sites = range(Gibbs(model).space.num_sites) if order is None else order
    return Composition(tuple(Gibbs(model, site) for site in sites))


@dataclass(frozen=True, eq=False)
class HeatBath:
    """Every free site, with probability ``share``, takes a value from ``q(x_d | the others)``; all at once.

    One pass of a score model holds all conditionals, so a step moves ``share · D`` sites where `Gibbs` moves one. Sites
    that move together do not see each other move: the kernel keeps no known distribution, and is off by an amount that
    falls with the share. Its exact matrix shows by how much.

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
    """No step is ever rejected, and none is exact."""
    memoryless: ClassVar[bool] = True
    """A step needs nothing of the last one."""

    def __post_init__(self) -> None:
        check_all_changes(self.model)
        if not 0 < self.share <= 1:
            raise InputError("a share above 0 and up to 1", str(self.share), where="share")

    @property
    def space(self) -> Space:
        space: Space = self.model.neighborhood.space
        return space

    def init(self, x: Any, clamped: Tensor | None = None) -> State:
        """Chains at ``x`` ``(C, D)``; no pass."""
        return State(*check_start(self.space, x, clamped))

    @torch.no_grad()
    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """One pass; ``accepted`` marks the chains that changed."""
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


def site_conditionals(model: Any) -> "SiteConditionals":
    """``log q(x_d = v | the others)`` by a model's density or by its scores.

    Raises:
        InputError: neither a density model nor a score model that lists every change of a site.
    """
    return _FromDensity(model) if isinstance(model, DensityModel) else _FromScores(check_all_changes(model))


def check_all_changes(model: Any) -> ScoreModel:
    """A score model whose slots are all single-site changes."""
    if not isinstance(model, ScoreModel):
        fix = "it must offer `log_density(x)`, or `log_ratios(x)` on `hamming`"
        raise InputError("a density model or a score model", type(model).__name__, where="model", fix=fix)
    n = model.neighborhood
    # Slots lead to different states, one site away: as many as there are changes means all of them.
    if not isinstance(n, SiteNeighborhood) or n.num_slots != sum(size - 1 for size in n.space.sizes):
        raise InputError(
            "a score model that knows every value of a site, on `hamming`",
            f"one on {type(n).__name__} of {n.num_slots} slots",
            where="model",
            fix="use `mh` or `informed`",
        )
    return model


@runtime_checkable
class SiteConditionals(Protocol):
    """``log q(x_d = v | the others)``."""

    @property
    def space(self) -> Space: ...
    @property
    def passes(self) -> int: ...

    def check(self, x: States) -> None: ...

    def at(self, x: States, site: Slots) -> Tensor:
        """Up to a constant, of one site a chain ``(C, V)``; -inf beyond a site's size."""
        ...

    def matrix(self) -> Tensor:
        """Log-ratios between states that differ in one site at most ``(S, S)``."""
        ...


@dataclass(frozen=True, eq=False)
class _FromDensity:
    model: DensityModel

    @property
    def space(self) -> Space:
        return self.model.space

    @property
    def passes(self) -> int:
        return max(self.space.sizes)

    def check(self, x: States) -> None:
        check_log_density(self.model.log_density(x), x)

    def at(self, x: States, site: Slots) -> Tensor:
        return site_log_conditionals(self.model, x, site[:, None])[0][:, 0]

    def matrix(self) -> Tensor:
        return matrices.density_log_ratios(self.model)


@dataclass(frozen=True, eq=False)
class _FromScores:
    model: ScoreModel

    @property
    def space(self) -> Space:
        return self.model.neighborhood.space

    @property
    def passes(self) -> int:
        return 1

    def check(self, x: States) -> None:
        check_log_ratios(self.model.log_ratios(x), self.model.neighborhood.valid(x), x)

    def at(self, x: States, site: Slots) -> Tensor:
        ratios = self.model.log_ratios(x).double()
        n = self.model.neighborhood
        if not isinstance(n, SiteNeighborhood):  # pragma: no cover - checked when built
            raise TypeError("conditionals need single-site changes")
        edited, value = all_edits(n, x)
        width = max(self.space.sizes)
        table = torch.full((len(x), width + 1), -torch.inf, dtype=torch.float64, device=x.device)
        # Changes of other sites go to a last column that is cut off.
        column = torch.where(edited == site[:, None], value, width)
        table.scatter_(1, column, ratios)
        table.scatter_(1, x.gather(1, site[:, None]), 0.0)
        return table[:, :-1]

    def matrix(self) -> Tensor:
        ratios = ScoreReading(self.model, READINGS["forward"]).matrix()
        return ratios.fill_diagonal_(0.0)


def _one_site_matrix(space: Space, ratios: Tensor, site: int) -> Tensor:
    others = torch.arange(space.num_sites) != site
    alike = matrices.same_clamped(space, others) & ~ratios.isnan()
    move = torch.where(alike, ratios, -torch.inf).softmax(-1)
    # A state of probability zero has no conditional: it stays.
    return torch.where(move.isnan(), torch.eye(len(move), dtype=move.dtype), move)


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
