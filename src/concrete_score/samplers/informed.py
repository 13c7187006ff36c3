"""Locally informed proposals: neighbors in proportion to a function of their ratio (Zanella, 2020; DESIGN M10)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from concrete_score.errors import InputError, nearest
from concrete_score.models.derived import DensityScore
from concrete_score.models.layers import draw_categories
from concrete_score.neighborhoods import check_same_space, hamming
from concrete_score.protocols import DensityModel, Info, Neighborhood, ScoreModel, State
from concrete_score.samplers import matrices
from concrete_score.samplers.balancing import find_balancing
from concrete_score.samplers.base import (
    accept,
    check_edges,
    check_log_density,
    check_log_ratios,
    check_share,
    check_start,
    choose,
    free_slots,
    pick,
    uniform,
)
from concrete_score.samplers.readings import READINGS, ScoreReading, check_score_model
from concrete_score.shapes import PerSlot, States
from concrete_score.spaces import Space


@dataclass(frozen=True, eq=False)
class Informed:
    """Propose ``x'`` with ``Q(x'|x) = g(q(x')/q(x)) / Z(x)``, ``x' ∈ N(x)``, and accept exactly. Reversible.

    For scores of a distribution the acceptance is ``min(1, Z(x)/Z(x'))``. A score model gives ``N(x)`` in one pass;
    a density is run at every neighbor.

    Args:
        model: a score model on a symmetric neighborhood, or a density model.
        neighborhood: of a density model; `hamming` by default, made symmetric.
        balancing: a name of `BALANCING`.
        laziness: the probability of not even trying.
        reading: the log-ratio of the acceptance, as in `MetropolisHastings`.

    Raises:
        InputError: the pieces do not fit, or the score model's neighborhood is one-way.

    >>> from concrete_score.targets import pmf
    >>> kernel = Informed(pmf([0.5, 0.5]), balancing="barker")
    >>> kernel.transition_matrix().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """

    model: Any
    neighborhood: Neighborhood | None = None
    balancing: str = "sqrt"
    laziness: float = 0.0
    reading: str = "forward"

    reversible: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_share(self.laziness, "laziness")
        find_balancing(self.balancing)
        if self.reading not in READINGS:
            raise InputError("a reading", repr(self.reading), "reading", nearest(self.reading, list(READINGS)))
        self._score  # noqa: B018 - built, and thereby checked, at once

    @property
    def space(self) -> Space:
        """The model's."""
        return self._score.neighborhood.space

    @torch.no_grad()
    def init(self, x: Any, clamped: Tensor | None = None) -> State:
        """Chains at ``x`` ``(C, D)``; all ratios there are taken and remembered."""
        states, mask = check_start(self.space, x, clamped)
        if isinstance(self.model, DensityModel):
            check_log_density(self.model.log_density(states), states)
        ratios = self._score.log_ratios(states).double()
        return State(states, mask, check_log_ratios(ratios, self._score.neighborhood.valid(states), states))

    @torch.no_grad()
    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """One proposal a chain; all ratios at the proposals, one pass of a score model."""
        n, x, here = self._score.neighborhood, state.x, state.memory
        weights = self._log_weights(x, here, state.clamped)
        movable = (weights > -torch.inf).any(-1)
        weights = weights.masked_fill(~movable[:, None], 0.0)  # such a chain stays whatever is drawn
        unit = uniform((len(x), 1), generator, x.device)
        slot = draw_categories(weights, unit).squeeze(-1)
        forward = pick(here, slot)
        # max(1, t) also proposes states of probability zero: there is nothing to look at there.
        movable &= forward > -torch.inf
        y = torch.where(movable[:, None], n.neighbor(x, slot), x)
        there = self._score.log_ratios(y).double()
        back = n.back_slot(x, slot).clamp_min(0)
        back_weights = self._log_weights(y, there, state.clamped)
        log_forward = pick(weights, slot) - weights.logsumexp(-1)
        log_backward = pick(back_weights, back) - back_weights.logsumexp(-1)
        ratio = READINGS[self.reading](forward, -pick(there, back))
        log_accept = torch.where(movable, ratio + log_backward - log_forward, -torch.inf)
        accepted = accept(log_accept, generator)
        if self.laziness:
            accepted &= uniform((len(x),), generator, x.device) >= self.laziness
        moved = State(choose(accepted, y, x), state.clamped, choose(accepted, there, here))
        return moved, Info(accepted, self.passes)

    @property
    def passes(self) -> int:
        """Of a step: one of a score model, one for each neighbor and the state itself of a density."""
        return 1 + self._score.neighborhood.num_slots if isinstance(self.model, DensityModel) else 1

    def transition_matrix(self, clamped: Tensor | None = None) -> Tensor:
        """``P`` ``(S, S)``, from adjacency and ratios; ``clamped`` is ``(D,)``."""
        if isinstance(self.model, DensityModel):
            forward = ratio = matrices.density_log_ratios(self.model)
        else:
            forward = ScoreReading(self._score, READINGS["forward"]).matrix()
            ratio = ScoreReading(self._score, READINGS[self.reading]).matrix()
        allowed = matrices.edges(self._score.neighborhood, clamped) & ~forward.isnan()
        weights = find_balancing(self.balancing)(forward)
        return matrices.metropolis(matrices.proposal(weights, allowed), ratio, self.laziness)

    def _log_weights(self, x: States, ratios: PerSlot, clamped: Tensor | None) -> PerSlot:
        free = free_slots(self._score.neighborhood, x, clamped)
        return find_balancing(self.balancing)(ratios).masked_fill(~free, -torch.inf)

    @cached_property
    def _score(self) -> ScoreModel:
        if isinstance(self.model, DensityModel):
            chosen = self.neighborhood or hamming(self.model.space)
            check_same_space(self.model.space, chosen.space, "model and neighborhood")
            check_edges(chosen)
            return DensityScore(self.model, chosen.symmetrized())
        check_score_model(self.model, self.neighborhood)
        score: ScoreModel = self.model
        if not score.neighborhood.symmetric:
            raise InputError(
                "a score model on a symmetric neighborhood, whose ratios it knows both ways",
                "a one-way one",
                where="model",
                fix="use `mh`, which reads one-way edges from either end",
            )
        return score
