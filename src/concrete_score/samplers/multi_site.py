"""Informed moves of many sites at once, Metropolis-adjusted (discrete Langevin: Zhang et al., 2022; Sun et al., 2023).

See docs/mathematics.md, "Informed proposals".
"""

from dataclasses import dataclass
from math import exp, log
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.protocols import Info, State
from concrete_score.samplers.couplings import NEVER
from concrete_score.samplers.factorized import Factorized, Odds
from concrete_score.samplers.informed import find_balancing

TARGET_ACCEPTANCE = 0.57
"""Where informed moves in many dimensions gain most (the optimum of Langevin proposals)."""
MOST = 60.0
"""The largest log-ratio that `DiscreteLangevin` tells apart: beyond it float32 would overflow."""


@dataclass(frozen=True, eq=False)
class MultiSite(Factorized):
    """Propose every site at once and independently, then accept or reject all of it by the exact density.

    ``Q(y|x) = Π_d [1 if y_d = x_d else α g(r_{d,y_d})] / (1 + Σ_v α g(r_{d,v}))`` with r the single-site ratios at x,
    by formula where the model has local fields, from one gradient where it can be relaxed, else exact. Exact and
    reversible for any step size α; `adapt` finds a good one, before the chains that count.

    Args:
        model: a density model.
        step_size: α, about the odds of changing a site whose change costs nothing.
        balancing: a name of `BALANCING`.

    Raises:
        InputError: the model has no log-density, or the step size is not positive.

    >>> from concrete_score.targets import Ising
    >>> kernel = MultiSite(Ising((4, 4), 0.3), step_size=0.2)
    >>> state = kernel.init(torch.zeros(8, 16, dtype=torch.int64))
    >>> kernel.step(state, torch.Generator().manual_seed(0))[1].passes
    1
    """

    model: Any
    step_size: float = 0.1
    balancing: str = "sqrt"

    name: ClassVar[str] = "multi_site"
    largest: ClassVar[float] = 1.0
    """Beyond 1 sites change more often than not, and a flat or symmetric density accepts even flipping all of them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        find_balancing(self.balancing)

    @property
    def _balanced(self) -> bool:
        return self.balancing == "sqrt"

    def _odds(self, ratios: Tensor, current: Tensor | None, wanted: bool = True) -> Odds:
        """``α g(r)``."""
        if current is None and not wanted and self._balanced:
            return Odds(None, torch.rsub(ratios[0], -log(self.step_size), alpha=0.5).sigmoid_())
        log_odds = find_balancing(self.balancing)(ratios)
        if not self._balanced:  # whatever a function makes of what cannot be
            log_odds = torch.where(ratios <= NEVER / 100, NEVER, log_odds)
        log_odds = log_odds + log(self.step_size)
        if current is None:
            return Odds(log_odds, torch.sigmoid(-log_odds[0]))
        log_odds = log_odds * (1 - current)
        return Odds(log_odds, log_odds.exp().sum(0).reciprocal_())


@dataclass(frozen=True, eq=False)
class DiscreteLangevin(Factorized):
    """Every site follows its own Markov process for a while, at rates ``√ratio``, given where the others were.

    A bit changes with probability ``σ(l) [1 - exp(-t (√r + 1/√r))]``, ``l = log r``: the exact transition of the
    two-state process with rates √r and 1/√r after time t, from odds ``t √r`` for small t to a draw from the conditional
    for large t. A larger site stays with probability ``E + (1-E) π_x`` and takes another value with ``(1-E) π_v``,
    ``E = exp(-t Σ_v √r_v / (1 - π_x))``, π its conditional: the same for bits. Adjusted: exact and reversible.

    Args:
        model: a density model.
        step_size: t.

    Raises:
        InputError: the model has no log-density, or the time is not positive.

    >>> from concrete_score.targets import Ising
    >>> DiscreteLangevin(Ising((1, 2), 0.5)).transition_matrix().shape
    torch.Size([4, 4])
    """

    model: Any
    step_size: float = 0.1

    name: ClassVar[str] = "dlmc"
    largest: ClassVar[float] = 20.0

    def _odds(self, ratios: Tensor, current: Tensor | None, wanted: bool = True) -> Odds:
        """``p / (1 - p)`` of every change."""
        root, ratio = (ratios.clamp(-MOST, MOST) / 2).exp_(), ratios.clamp(-MOST, MOST).exp_()
        if current is None:
            left = root.reciprocal().add_(root).mul_(-self.step_size)
            moved, kept = -torch.expm1(left), left.exp_()
            stay = torch.addcmul(kept.new_ones(()), ratio, kept)
            log_odds = moved.mul_(ratio).div_(stay).log_()
            return Odds(log_odds, stay.div_(ratio + 1)[0])
        others = 1 - current
        away = (ratio * others).sum(0)
        rate = (root * others).sum(0) * (1 + away) / away
        moved, kept = -torch.expm1(-self.step_size * rate), torch.exp(-self.step_size * rate)
        stay = kept + moved / (1 + away)
        log_odds = (moved / (1 + away) / stay).log_() + ratios.clamp(-MOST, MOST)
        return Odds(log_odds * others, stay)


@runtime_checkable
class Sized(Protocol):
    """A kernel with a step size to find."""

    @property
    def step_size(self) -> float: ...
    @property
    def largest(self) -> float: ...

    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]: ...
    def with_step_size(self, step_size: float, state: State) -> tuple[Any, State]: ...


K = TypeVar("K", bound=Sized)


def adapt(
    kernel: K,
    state: State,
    generator: torch.Generator,
    steps: int,
    target: float = TARGET_ACCEPTANCE,
) -> tuple[K, State]:
    """Burn-in that finds the step size of a target acceptance, then freezes it (Robbins-Monro on ``log α``).

    ``log α`` moves by ``(a - t) / (t (1 - t) i^0.6)`` after step i, a the acceptance of the step over all chains and t
    the target, and the result is its average over the second half. Only draws after this count: an adapting chain keeps
    no distribution.

    Args:
        kernel: where to begin: `MultiSite`, `DiscreteLangevin` or `PathAuxiliary`.
        state: of its chains.
        steps: how many to spend.
        target: the acceptance wanted, between 0 and 1.

    Returns:
        A kernel with the step size found, which never changes again, and the chains, burnt in.
    """
    if steps < 2 or not 0 < target < 1:
        raise InputError("at least 2 steps and a target between 0 and 1", f"{steps} and {target}", where="adapt")
    log_step, kept, gain = log(kernel.step_size), [], 1 / (target * (1 - target))
    for i in range(1, steps + 1):
        state, info = kernel.step(state, generator)
        log_step += gain * (float(info.accepted.double().mean()) - target) / i**0.6
        log_step = min(log_step, log(kernel.largest))
        kernel, state = kernel.with_step_size(exp(log_step), state)
        if i > steps // 2:
            kept.append(log_step)
    return kernel.with_step_size(exp(sum(kept) / len(kept)), state)
