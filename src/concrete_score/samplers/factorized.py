"""Proposals for all sites at once and independently, accepted or rejected together by the exact density.

A *rule* turns log-ratios into each site's odds of changing. What it needs of the last state is remembered, so that a
step looks once, at the proposal (docs/mathematics.md, "Informed proposals").
"""

from dataclasses import replace
from functools import cached_property
from math import isfinite
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.protocols import Info, State
from concrete_score.randomness import float_uniform, uniform, words
from concrete_score.samplers import matrices
from concrete_score.samplers.base import accept, check_log_density, check_moves, check_start
from concrete_score.samplers.couplings import NEVER, MarkedState
from concrete_score.samplers.ratio_sources import LinearSource, Look, RatioSource, find_source
from concrete_score.samplers.small import MOST, DenseStep
from concrete_score.samplers.surrogates import check_density, other_values
from concrete_score.spaces import Space

SAFE = 1 - 2.0**-22
"""Keeps a scaled uniform below the total of float32 weights, so that nothing of weight 0 is drawn."""
MANY = 2**14
"""Probabilities from which it pays to multiply some before taking logarithms."""


class Odds(NamedTuple):
    """What a rule makes of log-ratios."""

    log_odds: Tensor | None
    """Of every change against staying ``(1 | V, D, C)``, 0 at the current value; None if it was not asked for."""
    stay: Tensor
    """The probability of staying ``(D, C)``."""


class FactorizedMemory(NamedTuple):
    """What is known at a chain's state; None stands for what no later step needs."""

    z: Tensor
    """Marks ``(V-1, D, C)``."""
    stay: Tensor
    """``(D, C)``."""
    log_stay: Tensor
    """``Σ_d log stay`` ``(C,)`` in float64."""
    log_odds: Tensor | None
    """``(1 | V, D, C)``."""
    ratios: Tensor | None
    """The look: `NEVER` at clamped sites."""
    log_density: Tensor | None
    inner: Tensor | None
    held: Tensor | None
    """`NEVER` at clamped sites, else 0 ``(D, C)``."""

    @property
    def look(self) -> Look:
        """What the source saw."""
        return Look(self.ratios, self.log_density, self.inner)


class Factorized:
    """A kernel with ``Q(y|x) = Π_d Q_d(y_d|x)``; a final class gives ``model``, ``step_size`` and the rule `_odds`.

    Exact and reversible whatever the rule. Where odds are ``α √ratio`` (`_balanced`) and sites are bits, the changed
    sites' terms of ``Q(x|y) / Q(y|x)`` are the trapezoidal rule for the density's own difference, and only its error,
    `RatioSource.excess`, is left beside the normalizers; for pairwise models it is 0.
    """

    model: Any
    step_size: float
    name: ClassVar[str]
    largest: ClassVar[float]
    """The step size beyond which `adapt` never goes."""
    reversible: ClassVar[bool] = True
    batched: ClassVar[bool] = True
    """Chains may have temperatures of their own."""

    def __post_init__(self) -> None:
        check_density(self.model, self.name)
        check_moves(self.model.space)
        if not (self.step_size > 0 and isfinite(self.step_size)):
            raise InputError("a positive number", str(self.step_size), where="step_size")

    def _odds(self, ratios: Tensor, current: Tensor | None, wanted: bool = True) -> Odds:
        """Of each change, from log-ratios ``(1 | V, D, C)``; ``current`` marks the current values, None of bits.

        ``wanted=False`` where the probability of staying is enough.
        """
        raise NotImplementedError

    @property
    def _balanced(self) -> bool:
        """Whether odds are proportional to the root of the ratio."""
        return False

    @cached_property
    def _small(self) -> DenseStep | None:
        """The whole step of a small dense model, where odds are ``α √ratio`` and sites are bits."""
        source = self._source
        return DenseStep.of(source.linear, self.step_size) if self._lean and isinstance(source, LinearSource) else None

    @property
    def space(self) -> Space:
        return self._source.space

    @torch.no_grad()
    def init(self, x: Any, clamped: Tensor | None = None) -> State:
        """Chains at ``x`` ``(C, D)``; one look."""
        states, mask = check_start(self.space, x, clamped)
        held = None if mask is None else torch.where(mask.T, NEVER, 0.0).to(torch.float32).contiguous()
        z = self._source.marks(states)
        look = self._source.look(z)
        if look.log_density is not None:
            check_log_density(look.log_density, states)
        return State(states, mask, self._precisely(self._remember(z, look, held)))

    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """One proposal for all sites of every chain; one look, at the proposals."""
        here: FactorizedMemory = state.memory
        if self._small is not None and here.stay.numel() <= MOST and generator.device.type == "cpu":
            z, stay, log_stay, accepted = self._small(here.z, here.stay, here.log_stay, here.held, generator)
            known = FactorizedMemory(z, stay, log_stay, None, None, None, None, here.held)
            return MarkedState(None, state.clamped, known), Info(accepted, 1)
        return self._step(state, generator)

    @torch.no_grad()
    def _step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        here: FactorizedMemory = state.memory
        z, change = self._draw(here, generator)
        there = self._remember(z, self._source.look(z, not self._cancels), here.held)
        gain = self._log_accept(here, there, change)
        if isfinite(float(gain.sum())):
            accepted = uniform((len(gain),), generator, gain.device).log_() < gain
        else:  # odds beyond what float32 holds, or a state that cannot be
            here, there = self._precisely(here), self._precisely(there)
            accepted = accept(self._log_accept(here, there, change), generator)
        return MarkedState(None, state.clamped, _choose(accepted, there, here)), Info(accepted, self._source.passes)

    def transition_matrix(self, clamped: Tensor | None = None) -> Tensor:
        """``P`` ``(S, S)``, from the formula of Q at all pairs of states; ``clamped`` is ``(D,)``."""
        states = self.space.enumerate(matrices.LIMIT)
        with torch.no_grad():
            z = self._source.marks(states)
            ratios = self._scaled(_known(self._source.look(z).ratios).double())
            others = _known(self._odds(ratios, _current(z.double())).log_odds).permute(2, 1, 0)
        if others.shape[-1] > 1:
            others = others.gather(-1, other_values(self.space, states))
        log_proposal = matrices.factorized_proposal(self.space, others, clamped)
        return matrices.metropolis(log_proposal, matrices.density_log_ratios(self.model))

    @torch.no_grad()
    def with_step_size(self, step_size: float, state: State) -> tuple[Any, State]:
        """The kernel of another step size, and the same chains as it remembers them."""
        kernel = replace(self, step_size=step_size)  # type: ignore[type-var]
        memory: FactorizedMemory = state.memory
        look = self._source.look(memory.z, not self._cancels)
        return kernel, replace(state, memory=kernel._precisely(kernel._remember(memory.z, look, memory.held)))

    @torch.no_grad()
    def reorder(self, state: State, order: Tensor) -> State:
        """Chain i at the state of chain ``order[i]``, at its own temperature; one look. Clamped sites must agree."""
        z = state.memory.z.index_select(-1, order)
        known = self._remember(z, self._source.look(z, not self._cancels), state.memory.held)
        return MarkedState(None, state.clamped, known)

    @torch.no_grad()
    def log_density(self, state: State) -> Tensor:
        """Of the chains, without their factors ``(C,)``."""
        known: Tensor | None = state.memory.log_density
        return known if known is not None else _known(self._source.look(state.memory.z).log_density)

    @cached_property
    def _lean(self) -> bool:
        """Whether bits change by odds ``α √ratio``."""
        return self._balanced and max(self.space.sizes) == 2

    @cached_property
    def _cancels(self) -> bool:
        """Whether the acceptance is the ratio of normalizers alone."""
        return self._balanced and self._source.quadratic

    def _scaled(self, value: Tensor) -> Tensor:
        factors = self._source.factors(value.shape[-1])
        return value if factors is None else value * factors.to(value)

    def _remember(self, z: Tensor, look: Look, held: Tensor | None) -> FactorizedMemory:
        """The odds at a look; clamped sites have none."""
        ratios, current = _known(look.ratios), None if len(z) == 1 else _current(z)
        if held is not None:
            ratios = ratios + (held if current is None else held * (1 - current))
        odds = self._odds(self._scaled(ratios), current, wanted=not self._lean)
        kept = None if self._cancels or look.inner is not None else ratios
        log_density = None if self._cancels else look.log_density
        return FactorizedMemory(
            z, odds.stay, _log_product(odds.stay), odds.log_odds, kept, log_density, look.inner, held
        )

    def _precisely(self, memory: FactorizedMemory) -> FactorizedMemory:
        """The same with logarithms that float64 takes of the odds, however large they are."""
        ratios, current = memory.ratios, _current(memory.z)
        if ratios is None:
            ratios = _known(self._source.look(memory.z).ratios)
            if memory.held is not None:
                ratios = ratios + (memory.held if current is None else memory.held * (1 - current))
        wide = _known(self._odds(self._scaled(ratios.double()), current).log_odds)
        stay = -wide.logsumexp(0) if len(wide) > 1 else -torch.logaddexp(wide[0], wide.new_zeros(()))
        return memory._replace(log_stay=stay.sum(0))

    def _draw(self, here: FactorizedMemory, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
        """Marks of a draw from ``Q(· | x)`` ``(V-1, D, C)``; of bits, also which change."""
        if len(here.z) == 1:
            change = changes(here.stay, generator)
            return torch.ne(here.z, change, out=torch.empty_like(here.z)), change[None]
        return draw_marks(_known(here.log_odds).exp(), _like(here.stay, generator)), None

    def _log_accept(self, here: FactorizedMemory, there: FactorizedMemory, change: Tensor | None) -> Tensor:
        """``log [q(y) Q(x|y) / (q(x) Q(y|x))]`` ``(C,)``."""
        gain = there.log_stay - here.log_stay
        if self._cancels:
            return gain
        if self._lean and change is not None:
            gain += self._scaled(self._source.excess(here.look, there.look, change))
        else:
            gain += self._scaled(_known(there.log_density) - _known(here.log_density))
            new, old = _known(there.log_odds), _known(here.log_odds)
            if change is not None:
                gain += ((new - old) * change).sum((0, 1), dtype=torch.float64)
            else:
                gain += (_at(new, here.z) - _at(old, there.z)).sum(0, dtype=torch.float64)
        if there.log_density is None:
            return gain
        # Back from an impossible state nothing is known.
        return gain.masked_fill_(there.log_density == -torch.inf, -torch.inf)

    @cached_property
    def _source(self) -> RatioSource:
        return find_source(self.model)


def changes(stay: Tensor, generator: torch.Generator) -> Tensor:
    """1.0 with probability ``1 - stay``, else 0.0 ``(D, C)``; never where it is 1."""
    if stay.dtype == torch.float64:
        return torch.ge(_like(stay, generator), stay, out=torch.empty_like(stay))
    turned = not stay.is_contiguous()
    drawn = words(tuple(stay.T.shape if turned else stay.shape), generator, stay.device)
    bound = torch.rsub(stay, -(2.0**31), alpha=-(2.0**32))
    return torch.gt(drawn.T if turned else drawn, bound, out=bound)


def draw_marks(weights: Tensor, unit: Tensor) -> Tensor:
    """Marks of values drawn in proportion to weights, summed up in place ``(V, D, C), (D, C) -> (V-1, D, C)``.

    >>> draw_marks(torch.tensor([[[1.0]], [[0.0]], [[1.0]]]), torch.tensor([[0.7]])).flatten().tolist()
    [0.0, 1.0]
    """
    width = len(weights)
    for v in range(1, width):
        weights[v] += weights[v - 1]
    place = unit * weights[-1] * SAFE
    beyond = torch.empty_like(weights[1:])
    for v in range(width - 1):
        torch.ge(place, weights[v], out=beyond[v])
    for v in range(width - 2):
        beyond[v] -= beyond[v + 1]
    return beyond


def _log_product(stay: Tensor) -> Tensor:
    """``Σ_d log stay`` ``(D, C) -> (C,)`` in float64. Logarithms are what costs: of many sites, products of four."""
    fours = len(stay) // 4
    if stay.numel() < MANY or fours < 8:
        return stay.log().sum(0, dtype=torch.float64)
    pairs = stay[: 2 * fours] * stay[2 * fours : 4 * fours]
    product = pairs[:fours].mul_(pairs[fours:])
    if 4 * fours < len(stay):
        product[: len(stay) - 4 * fours] *= stay[4 * fours :]
    return product.log_().sum(0, dtype=torch.float64)


def _at(table: Tensor, z: Tensor) -> Tensor:
    """``table`` at the marked values ``(V, D, C), (V-1, D, C) -> (D, C)``."""
    own = table[1:] * z
    return own.sum(0) + table[0] * (1 - z.sum(0))


def _current(z: Tensor) -> Tensor | None:
    """Marks of all values, 0 included ``(V, D, C)``; None for bits."""
    return None if len(z) == 1 else torch.cat([1 - z.sum(0, keepdim=True), z])


def _like(stay: Tensor, generator: torch.Generator) -> Tensor:
    """Uniforms in the layout of ``stay`` ``(D, C)``."""
    turned = not stay.is_contiguous()
    shape = tuple(stay.T.shape if turned else stay.shape)
    draw = uniform if stay.dtype == torch.float64 else float_uniform
    unit = draw(shape, generator, stay.device)
    return unit.T if turned else unit


def _known(value: Tensor | None) -> Tensor:
    if value is None:  # pragma: no cover - asked for only by those who remembered it
        raise RuntimeError("what was not remembered is needed")
    return value


def _choose(accepted: Tensor, there: FactorizedMemory, here: FactorizedMemory) -> FactorizedMemory:
    """Chain by chain the new or the old."""
    weight = accepted.to(here.stay.dtype)

    def pick(new: Tensor | None, old: Tensor | None) -> Tensor | None:
        if new is None or old is None:
            return None
        return torch.where(accepted, new, old) if new.ndim == 1 else torch.lerp(old, new, weight)

    kept = [pick(new, old) for new, old in zip(there[:-1], here[:-1], strict=True)]
    return FactorizedMemory._make([*kept, here.held])
