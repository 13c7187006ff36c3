"""Locally informed proposals: neighbors in proportion to a function of their ratio (Zanella, 2020; DESIGN M10)."""

from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from concrete_score.errors import InputError, nearest
from concrete_score.models.derived import DensityScore
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
    go_where,
    pick,
    put_back,
    take_back,
    uniform,
)
from concrete_score.samplers.readings import READINGS, ScoreReading, check_score_model
from concrete_score.shapes import PerSlot, Slots, States
from concrete_score.spaces import Space


class Memory(NamedTuple):
    """What is known at a chain's state."""

    log_ratios: Tensor
    """``(C, K)``."""
    weights: Tensor
    """The proposal's over slots, cut into blocks and scaled by the largest ``(C, blocks, width)``, 0 beyond slot K."""
    upto: Tensor
    """Running sums over the blocks ``(C, blocks)``, in the model's precision."""
    log_norm: Tensor
    """``log Z(x)`` ``(C,)``; -inf where there is nowhere to go."""


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
        ratios = self._score.log_ratios(states)
        check_log_ratios(ratios, self._score.neighborhood.valid(states), states)
        return State(states, mask, self._remember(states, ratios, mask))

    @torch.no_grad()
    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """One proposal a chain; all ratios at the proposals, one pass of a score model."""
        n, x, here = self._score.neighborhood, state.x, state.memory
        slot = _draw(here, generator).clamp_max(n.num_slots - 1)  # beyond it only where no weight is: the chain stays
        forward = pick(here.log_ratios, slot).double()
        # max(1, t) also proposes states of probability zero: there is nothing to look at there.
        movable = (here.log_norm > -torch.inf) & (forward > -torch.inf)
        y = go_where(movable, n.neighbor(x, slot), x)
        there = self._remember(y, self._score.log_ratios(y), state.clamped)
        backward = pick(there.log_ratios, n.back_slot(x, slot).clamp_min(0)).double()
        log_g = find_balancing(self.balancing)
        correction = (log_g(backward) - there.log_norm) - (log_g(forward) - here.log_norm)
        log_accept = READINGS[self.reading](forward, -backward) + correction
        accepted = accept(torch.where(movable, log_accept, -torch.inf), generator)
        if self.laziness:
            accepted &= uniform((len(x),), generator, x.device) >= self.laziness
        memory = Memory(
            choose(accepted, there.log_ratios, here.log_ratios),  # the model may hold on to what it gave: copied
            put_back(accepted, there.weights, here.weights),
            put_back(accepted, there.upto, here.upto),
            choose(accepted, there.log_norm, here.log_norm),
        )
        return State(take_back(n, slot, accepted, y, x), state.clamped, memory), Info(accepted, self.passes)

    @property
    def passes(self) -> int:
        """Of a step: one of a score model, one for each neighbor and the state itself of a density."""
        return 1 + self._score.neighborhood.num_slots if self._score is not self.model else 1

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

    def _remember(self, x: States, ratios: PerSlot, clamped: Tensor | None) -> Memory:
        """Ratios and the proposal's weights at ``x``."""
        log_weights = find_balancing(self.balancing)(ratios)
        n = self._score.neighborhood
        if clamped is not None or bool((n.degree(x) < n.num_slots).any()):
            log_weights = log_weights.masked_fill(~free_slots(n, x, clamped), -torch.inf)
        top = log_weights.amax(-1, keepdim=True)
        scaled = (log_weights - top.where(top > -torch.inf, 0.0)).exp_()
        width = isqrt(n.num_slots - 1) + 1
        if n.num_slots % width:
            scaled = functional.pad(scaled, (0, -n.num_slots % width))
        weights = scaled.reshape(len(scaled), -1, width)
        upto = weights.sum(-1).cumsum(-1)
        return Memory(ratios, weights, upto, upto[:, -1].double().log() + top.squeeze(-1))

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


def _draw(memory: Memory, generator: torch.Generator) -> Slots:
    """A slot in proportion to its weight ``(C,)``: a block by the running sums over blocks, then a slot within it.

    One long running sum would cost several times as much. Whatever has no weight is never drawn where anything has.
    """
    unit = uniform((2, len(memory.upto), 1), generator, memory.upto.device, memory.upto.dtype)
    block = _invert(memory.upto, unit[0])
    inside = memory.weights.take_along_dim(block[..., None], 1).squeeze(1).cumsum(-1)
    return (block * inside.shape[-1] + _invert(inside, unit[1])).squeeze(-1)


def _invert(upto: Tensor, unit: Tensor) -> Tensor:
    """The first position whose running sum is above ``unit`` of the total ``(C, 1)``; the last where all are 0."""
    found = torch.searchsorted(upto, unit * upto[:, -1:], right=True)
    return found.clamp_max(upto.shape[-1] - 1)
