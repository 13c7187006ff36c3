"""Informed moves of many sites at once, Metropolis-adjusted (discrete Langevin: Zhang et al., 2022).

See docs/mathematics.md, "Informed proposals".
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, isfinite, log
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.protocols import Info, State
from concrete_score.randomness import uniform
from concrete_score.samplers import matrices
from concrete_score.samplers.base import accept, check_log_density, check_moves, check_start, choose
from concrete_score.samplers.informed import find_balancing
from concrete_score.samplers.surrogates import Surrogate, check_density, find_surrogate, other_index, other_values
from concrete_score.spaces import Space

TARGET_ACCEPTANCE = 0.57
"""Where informed moves in many dimensions gain most (the optimum of Langevin proposals)."""


class MultiSiteMemory(NamedTuple):
    """What is known at a chain's state."""

    log_density: Tensor
    """``(C,)``."""
    others: Tensor
    """Guessed log-ratios of single-site changes ``(C, D, V-1)``."""
    log_norm: Tensor
    """``log(1 + Σ_v α g(ratio_v))`` of each site ``(C, D)``."""


@dataclass(frozen=True, eq=False)
class MultiSite:
    """Propose every site at once and independently, then accept or reject all of it by the exact density.

    ``Q(y|x) = Π_d [1 if y_d = x_d else α g(r_{d,y_d})] / (1 + Σ_v α g(r_{d,v}))`` with r the single-site ratios at x,
    from one gradient where the model can be relaxed, else exact. Exact and reversible for any step size α; `adapt`
    finds a good one, before the chains that count.

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

    reversible: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_density(self.model, "multi_site")
        check_moves(self.model.space)
        find_balancing(self.balancing)
        if not (self.step_size > 0 and isfinite(self.step_size)):
            raise InputError("a positive number", str(self.step_size), where="step_size")

    @property
    def space(self) -> Space:
        return self._surrogate.space

    @torch.no_grad()
    def init(self, x: Any, clamped: Tensor | None = None) -> State:
        """Chains at ``x`` ``(C, D)``; one look."""
        states, mask = check_start(self.space, x, clamped)
        memory = self._look(states, mask)
        check_log_density(memory.log_density, states)
        return State(states, mask, memory)

    @torch.no_grad()
    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """One proposal for all sites of every chain; one look, at the proposals."""
        x, here = state.x, state.memory
        y = self._draw(x, here, generator)
        there = self._look(y, state.clamped)
        log_forward = self._log_proposal(x, y, here)
        log_backward = self._log_proposal(y, x, there)
        log_accept = there.log_density - here.log_density + log_backward - log_forward
        # Back from an impossible state every ratio is infinite, and their sum no number.
        accepted = accept(log_accept.masked_fill(there.log_density == -torch.inf, -torch.inf), generator)
        moved = State(choose(accepted, y, x), state.clamped, choose(accepted, there, here))
        return moved, Info(accepted, self._surrogate.passes)

    def transition_matrix(self, clamped: Tensor | None = None) -> Tensor:
        """``P`` ``(S, S)``, from the formula of Q at all pairs of states; ``clamped`` is ``(D,)``."""
        others = self._surrogate.look(self.space.enumerate(matrices.LIMIT)).others
        log_proposal = matrices.factorized_proposal(self.space, self._log_weights(others, None), clamped)
        return matrices.metropolis(log_proposal, matrices.density_log_ratios(self.model))

    def with_step_size(self, step_size: float, state: State) -> tuple["MultiSite", State]:
        """The kernel of another step size, and the same chains as it remembers them."""
        kernel = replace(self, step_size=step_size)
        log_norm = _log_norm(kernel._log_weights(state.memory.others, None))
        return kernel, replace(state, memory=state.memory._replace(log_norm=log_norm))

    def _look(self, x: Tensor, clamped: Tensor | None) -> MultiSiteMemory:
        local = self._surrogate.look(x)
        others = local.others
        if clamped is not None:
            others = others.masked_fill(clamped[..., None], -torch.inf)
        return MultiSiteMemory(local.log_density, others, _log_norm(self._log_weights(others, None)))

    def _log_weights(self, others: Tensor, index: Tensor | None) -> Tensor:
        """``log α g(r)`` of all changes, or of those at ``index``; -inf where there is none."""
        if index is not None:
            others = others.gather(-1, index[..., None]).squeeze(-1) if others.shape[-1] > 1 else others[..., 0]
        weights = find_balancing(self.balancing)(others) + log(self.step_size)
        return weights if self.balancing == "sqrt" else weights.masked_fill(others == -torch.inf, -torch.inf)

    def _log_proposal(self, x: Tensor, y: Tensor, memory: MultiSiteMemory) -> Tensor:
        """``log Q(y | x)`` ``(C,)``."""
        index = other_index(x, y) if memory.others.shape[-1] > 1 else x
        weight = self._log_weights(memory.others, index)
        return (torch.where(x == y, 0.0, weight) - memory.log_norm).sum(-1, dtype=torch.float64)

    def _draw(self, x: Tensor, memory: MultiSiteMemory, generator: torch.Generator) -> Tensor:
        """A draw from ``Q(· | x)`` ``(C, D)`` by inverting each site's cumulative sum, its own value first."""
        unit = uniform(tuple(x.shape), generator, x.device, memory.log_norm.dtype)
        stay = (-memory.log_norm).exp()
        if memory.others.shape[-1] == 1:
            return torch.where(unit < stay, x, 1 - x)
        weights = self._log_weights(memory.others, None)
        upto = stay[..., None] + (weights - memory.log_norm[..., None]).exp().cumsum(-1)
        # Scaled by the total, a draw never falls beyond the last value of positive probability.
        unit = unit * upto[..., -1]
        rank = (unit[..., None] >= upto).sum(-1, keepdim=True)
        drawn = other_values(self.space, x).gather(-1, rank).squeeze(-1)
        return torch.where(unit < stay, x, drawn)

    @cached_property
    def _surrogate(self) -> Surrogate:
        return find_surrogate(self.model)


def adapt(
    kernel: MultiSite,
    state: State,
    generator: torch.Generator,
    steps: int,
    target: float = TARGET_ACCEPTANCE,
) -> tuple[MultiSite, State]:
    """Burn-in that finds the step size of a target acceptance, then freezes it (Robbins-Monro on ``log α``).

    ``log α`` moves by ``(a - t) / (t (1 - t) i^0.6)`` after step i, a the acceptance of the step over all chains and t
    the target, and the result is its average over the second half. Only draws after this count: an adapting chain keeps
    no distribution.

    Args:
        kernel: where to begin.
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
        # Beyond 1 sites change more often than not, and a flat or symmetric density accepts even flipping all of them.
        log_step = min(log_step, 0.0)
        kernel, state = kernel.with_step_size(exp(log_step), state)
        if i > steps // 2:
            kept.append(log_step)
    return kernel.with_step_size(exp(sum(kept) / len(kept)), state)


def _log_norm(weights: Tensor) -> Tensor:
    """``log(1 + Σ exp(weights))`` ``(..., V-1) -> (...)``."""
    total = weights[..., 0] if weights.shape[-1] == 1 else weights.logsumexp(-1)
    return torch.logaddexp(total, total.new_zeros(()))
