"""Locally informed proposals: neighbors in proportion to a function of their ratio, exact or guessed by a gradient.

Zanella (2020) and Grathwohl et al. (2021); see docs/mathematics.md, "Informed proposals".
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from concrete_score.errors import InputError, nearest
from concrete_score.models.layers import draw_categories
from concrete_score.models.score import DensityScore
from concrete_score.neighborhoods import hamming
from concrete_score.protocols import DensityModel, Info, Neighborhood, ScoreModel, State
from concrete_score.randomness import uniform
from concrete_score.samplers import matrices
from concrete_score.samplers.base import (
    accept,
    check_edges,
    check_log_density,
    check_log_ratios,
    check_moves,
    check_share,
    check_start,
    choose,
    free_slots,
    go_where,
    pick,
    put_back,
    take_back,
)
from concrete_score.samplers.couplings import linear_fields
from concrete_score.samplers.ratio_sources import LinearSource, SourceRatios
from concrete_score.samplers.readings import READINGS, ScoreReading, check_score_model
from concrete_score.samplers.surrogates import (
    Local,
    Surrogate,
    check_density,
    find_surrogate,
    other_index,
    other_values,
)
from concrete_score.shapes import PerSlot, Slots, States
from concrete_score.spaces import Space, check_same_space

LogBalancing = Callable[[Tensor], Tensor]
"""``log g`` as a function of the log-ratio, elementwise."""
BALANCING: dict[str, LogBalancing] = {
    "sqrt": lambda l: l / 2,
    "barker": functional.logsigmoid,
    "min": lambda l: l.clamp_max(0),
    "max": lambda l: l.clamp_min(0),
}
"""√t, t/(1+t), min(1, t), max(1, t)."""


def find_balancing(name: str) -> LogBalancing:
    """The balancing function called ``name``, in log space.

    >>> import torch
    >>> find_balancing("barker")(torch.tensor(0.0)).exp().item()
    0.5
    """
    if name not in BALANCING:
        raise InputError("a balancing function", repr(name), "balancing", nearest(name, list(BALANCING)))
    return BALANCING[name]


class InformedMemory(NamedTuple):
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
        memory = InformedMemory(
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

    def _remember(self, x: States, ratios: PerSlot, clamped: Tensor | None) -> InformedMemory:
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
        return InformedMemory(ratios, weights, upto, upto[:, -1].double().log() + top.squeeze(-1))

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


def _draw(memory: InformedMemory, generator: torch.Generator) -> Slots:
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


@dataclass(frozen=True, eq=False)
class GibbsWithGradients:
    """Propose a change ``(d, v)`` in proportion to ``g(exp(∂_{d,v} - ∂_{d,x_d}))``, accept by the exact density.

    The gradient of the relaxed log-density guesses all ratios in one pass. Exact and reversible.

    Args:
        model: a density that `relax` knows, or a `Relaxed` one; or one with local fields, whose ratios are exact.
        balancing: a name of `BALANCING`.

    Raises:
        InputError: the model has no log-density, or none that extends to site probabilities, and no local fields.

    >>> from concrete_score.targets import Ising
    >>> GibbsWithGradients(Ising((1, 2), 0.5)).transition_matrix().shape
    torch.Size([4, 4])
    """

    model: Any
    balancing: str = "sqrt"

    reversible: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_density(self.model, "gwg")
        check_moves(self.model.space)
        find_balancing(self.balancing)
        self._surrogate  # noqa: B018 - built, and thereby checked, at once

    @property
    def space(self) -> Space:
        return self._surrogate.space

    def init(self, x: Any, clamped: Tensor | None = None) -> State:
        """Chains at ``x`` ``(C, D)``; one gradient."""
        states, mask = check_start(self.space, x, clamped)
        local = self._surrogate.look(states)
        return State(states, mask, Local(check_log_density(local.log_density, states), local.others))

    @torch.no_grad()
    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """One change of every chain; one gradient, at the proposals."""
        x, here = state.x, state.memory
        weights = self._log_weights(here, state.clamped)
        movable = (weights > -torch.inf).any(-1)
        weights = weights.masked_fill(~movable[:, None], 0.0)  # such a chain stays whatever is drawn
        slot = draw_categories(weights, uniform((len(x), 1), generator, x.device)).squeeze(-1)
        width = here.others.shape[-1]
        site = slot // width
        value = other_values(self.space, x).flatten(1).gather(1, slot[:, None])
        y = torch.where(movable[:, None], x.scatter(1, site[:, None], value), x)
        there = self._surrogate.look(y)
        back_weights = self._log_weights(there, state.clamped)
        back = site * width + pick(other_index(y, x), site)
        log_forward = pick(weights, slot) - weights.logsumexp(-1)
        log_backward = pick(back_weights, back) - back_weights.logsumexp(-1)
        log_accept = there.log_density - here.log_density + log_backward - log_forward
        accepted = accept(torch.where(movable, log_accept, -torch.inf), generator)
        moved = State(choose(accepted, y, x), state.clamped, choose(accepted, there, here))
        return moved, Info(accepted, self._surrogate.passes)

    def transition_matrix(self, clamped: Tensor | None = None) -> Tensor:
        """``P`` ``(S, S)``, from the gradient at every state; ``clamped`` is ``(D,)``."""
        guess = matrices.single_site_table(self.space, self._surrogate.look(self.space.enumerate()).others)
        allowed = ~guess.isnan() & matrices.same_clamped(self.space, clamped)
        weights = find_balancing(self.balancing)(guess)
        return matrices.metropolis(matrices.proposal(weights, allowed), matrices.density_log_ratios(self.model))

    def _log_weights(self, local: Local, clamped: Tensor | None) -> Tensor:
        """Of every change ``(C, D (V-1))``; -inf beyond a site's size, and at clamped sites."""
        others = local.others.double()
        weights = find_balancing(self.balancing)(others).masked_fill(others == -torch.inf, -torch.inf)
        if clamped is not None:
            weights = weights.masked_fill(clamped[..., None], -torch.inf)
        return weights.flatten(1)

    @cached_property
    def _surrogate(self) -> Surrogate:
        linear = linear_fields(self.model)
        return find_surrogate(self.model) if linear is None else SourceRatios(LinearSource(linear))
