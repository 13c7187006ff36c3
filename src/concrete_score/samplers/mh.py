"""Metropolis-Hastings with uniform neighbor proposals (paper, section 3.3)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from concrete_score.protocols import Info, Neighborhood, State
from concrete_score.randomness import uniform
from concrete_score.samplers import matrices
from concrete_score.samplers.base import accept, check_share, check_start, draw_marked, free_slots, go_where, take_back
from concrete_score.samplers.readings import Reading, find_reading
from concrete_score.spaces import Space


@dataclass(frozen=True, eq=False)
class MetropolisHastings:
    """Propose a uniform neighbor, accept with ``min(1, q(x') |N(x)| / (q(x) |N(x')|))``. Exact and reversible.

    One-way edges are made two-way, for an edge without a way back could never be taken. Where nothing is ever rejected
    the chain is periodic (uniform q on an even cycle, or on bits with flips): use ``laziness``. Clamped sites leave
    fewer neighbors, on both sides of the ratio.

    Args:
        model: a density model, or a score model (whose scores must be those of a distribution to keep one).
        neighborhood: where to go; `hamming`, or the score model's own, by default.
        laziness: the probability of not even trying.
        reading: of a score model: ``forward`` is ``l(x→x')``, ``mean`` averages it with ``-l(x'→x)``. How far the two
            differ is in ``state.memory.disagreement``.

    Raises:
        InputError: the pieces do not fit.

    >>> from concrete_score.neighborhoods import cycle
    >>> from concrete_score.targets import pmf
    >>> p = pmf([0.5, 0.25, 0.25])
    >>> MetropolisHastings(p, cycle(p.space)).transition_matrix()
    tensor([[0.5000, 0.2500, 0.2500],
            [0.5000, 0.0000, 0.5000],
            [0.5000, 0.5000, 0.0000]], dtype=torch.float64)
    """

    model: Any
    neighborhood: Neighborhood | None = None
    laziness: float = 0.0
    reading: str = "forward"

    reversible: ClassVar[bool] = True
    batched: ClassVar[bool] = True
    """A density may differ from chain to chain."""

    def __post_init__(self) -> None:
        check_share(self.laziness, "laziness")
        self._reading  # noqa: B018 - built, and thereby checked, at once

    @property
    def space(self) -> Space:
        return self._reading.neighborhood.space

    @torch.no_grad()
    def init(self, x: Any, clamped: Tensor | None = None) -> State:
        """Chains at ``x`` ``(C, D)``; one pass."""
        states, mask = check_start(self.space, x, clamped)
        return State(states, mask, self._reading.look(states))

    @torch.no_grad()
    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """One proposal a chain; one pass, at the proposals."""
        n, x = self._reading.neighborhood, state.x
        slot, movable, log_degree = self._draw(x, state.clamped, generator)
        y = go_where(movable, n.neighbor(x, slot), x)
        log_ratio, there = self._reading.compare(x, slot, y, state.memory)
        accepted = movable & accept(log_ratio + log_degree - self._log_degree(y, state.clamped), generator)
        if self.laziness:
            accepted &= uniform((len(x),), generator, x.device) >= self.laziness
        memory = self._reading.keep(accepted, there, state.memory)
        return State(take_back(n, slot, accepted, y, x), state.clamped, memory), Info(accepted, passes=1)

    def transition_matrix(self, clamped: Tensor | None = None) -> Tensor:
        """``P`` ``(S, S)``, from adjacency, degrees and ratios; ``clamped`` is ``(D,)``."""
        allowed = matrices.edges(self._reading.neighborhood, clamped)
        log_proposal = matrices.proposal(torch.zeros(allowed.shape, dtype=torch.float64), allowed)
        return matrices.metropolis(log_proposal, self._reading.matrix(), self.laziness)

    def _draw(self, x: Tensor, clamped: Tensor | None, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """A uniform free slot, whether there is one, and the logarithm of how many ``(C,)`` each."""
        n = self._reading.neighborhood
        if clamped is None:
            degree = n.degree(x)
            return n.draw(x, generator), degree > 0, degree.clamp_min(1).double().log()
        free = free_slots(n, x, clamped)
        slot, movable = draw_marked(free, generator)
        return slot, movable, free.sum(-1).clamp_min(1).double().log()

    def _log_degree(self, x: Tensor, clamped: Tensor | None) -> Tensor:
        n = self._reading.neighborhood
        degree = n.degree(x) if clamped is None else free_slots(n, x, clamped).sum(-1)
        return degree.clamp_min(1).double().log()

    @cached_property
    def _reading(self) -> Reading:
        return find_reading(self.model, self.neighborhood, self.reading)
