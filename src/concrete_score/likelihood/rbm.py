"""Annealing restricted Boltzmann machines the classical way: layer by layer, weights scaled (Salakhutdinov, 2008)."""

from dataclasses import dataclass, field
from functools import cached_property
from math import log
from typing import Any, ClassVar

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.likelihood.kernels import default_kernel
from concrete_score.protocols import Info, Kernel, State
from concrete_score.samplers import matrices
from concrete_score.samplers.base import check_start, uniform
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space
from concrete_score.targets.rbm import RBM


@dataclass(frozen=True, eq=False)
class BlockGibbs:
    """All hidden bits given the visible ones, then all visible bits given them. Exact and reversible on the visibles.

    Args:
        model: the RBM it keeps.

    >>> one = RBM(torch.zeros(1, 1), torch.zeros(1), torch.zeros(1))
    >>> BlockGibbs(one).transition_matrix().tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """

    model: RBM

    reversible: ClassVar[bool] = True

    @property
    def space(self) -> Space:
        """The visible bits."""
        return self.model.space

    def init(self, x: Any, clamped: Tensor | None = None) -> State:
        """Chains at ``x`` ``(C, V)``."""
        return State(*check_start(self.space, x, clamped))

    @torch.no_grad()
    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """Both layers of every chain."""
        x = state.x
        hidden = _bits(self._hidden_logits(x.double()), generator)
        visible = _bits(self._visible_logits(hidden), generator).long()
        moved = visible if state.clamped is None else torch.where(state.clamped, x, visible)
        accepted = torch.ones(len(x), dtype=torch.bool, device=x.device)
        return State(moved, state.clamped), Info(accepted, 1)

    def transition_matrix(self, clamped: Tensor | None = None) -> Tensor:
        """``P[v, v'] = Σ_h p(h | v) p(v' | h)``, clamped bits kept ``(S, S)``."""
        visible = self.space.enumerate(matrices.LIMIT).double()
        hidden = Space.bits(self.model.weights.shape[1]).enumerate(matrices.LIMIT).double()
        given_visible = _log_prob(hidden, self._hidden_logits(visible)).exp()
        free = torch.ones(self.space.num_sites) if clamped is None else 1 - torch.as_tensor(clamped).double()
        given_hidden = _log_prob(visible, self._visible_logits(hidden), free.double()).exp()
        return (given_visible @ given_hidden) * matrices.same_clamped(self.space, clamped)

    def _hidden_logits(self, visible: Tensor) -> Tensor:
        return visible @ self.model.weights.to(visible.device) + self.model.hidden_bias.to(visible.device)

    def _visible_logits(self, hidden: Tensor) -> Tensor:
        return hidden @ self.model.weights.T.to(hidden.device) + self.model.visible_bias.to(hidden.device)


@dataclass(frozen=True, eq=False)
class TemperedRBM:
    """``f_β``: the RBM ``(β W, (1-β) b_0 + β b, β c)`` divided by ``Z_0^(1-β)``, ``Z_0`` that of ``β = 0``.

    Args:
        target: ``(W, b, c)``.
        base_bias: ``b_0`` ``(V,)``.
        beta: from 0 to 1.
    """

    target: RBM
    base_bias: Tensor = field(repr=False)
    beta: float

    @cached_property
    def rbm(self) -> RBM:
        """Without the division."""
        bias = torch.lerp(self.base_bias, self.target.visible_bias, self.beta)
        return RBM(self.beta * self.target.weights, bias, self.beta * self.target.hidden_bias)

    @property
    def space(self) -> Space:
        """The visible bits."""
        return self.target.space

    @property
    def normalized(self) -> bool:
        """At ``β = 0``."""
        return self.beta == 0

    def log_density(self, x: States) -> PerState:
        """``log f_β(x)`` ``(..., V) -> (...)``."""
        zero = self.base_bias.new_zeros(())
        log_z = float(torch.logaddexp(self.base_bias, zero).sum()) + len(self.target.hidden_bias) * log(2)
        return self.rbm.log_density(x) - (1 - self.beta) * log_z


@dataclass(frozen=True, eq=False)
class RBMPath:
    """The geometric path between the *joint* distributions of visible and hidden bits: a `Path` that block Gibbs walks.

    Args:
        target: the RBM to reach.
        base_bias: of the independent visible bits it starts at ``(V,)``; zeros, the uniform distribution, by default.

    >>> model = RBM(torch.ones(3, 2), torch.zeros(3), torch.zeros(2))
    >>> start = RBMPath(model).at(0.0)
    >>> round(start.log_density(model.space.enumerate()).exp().sum().item(), 12)
    1.0
    """

    target: RBM
    base_bias: Tensor | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        bias = torch.zeros_like(self.target.visible_bias) if self.base_bias is None else self.base_bias.double()
        if bias.shape != self.target.visible_bias.shape or not bias.isfinite().all():
            expected = f"{len(self.target.visible_bias)} finite numbers"
            raise InputError(expected, f"shape {tuple(bias.shape)}", where="base_bias")
        object.__setattr__(self, "base_bias", bias)

    @property
    def space(self) -> Space:
        """The visible bits."""
        return self.target.space

    def at(self, beta: float) -> TemperedRBM:
        """``f_β``."""
        return TemperedRBM(self.target, self._bias, beta)

    def increment(self, x: States, low: float, high: float) -> PerState:
        """``log f_high - log f_low``."""
        return self.at(high).log_density(x) - self.at(low).log_density(x)

    def sample(self, n: int, generator: torch.Generator) -> States:
        """Independent bits."""
        logits = self._bias.to(generator.device).expand(n, -1)
        return _bits(logits, generator).long()

    @property
    def _bias(self) -> Tensor:
        return self.target.visible_bias * 0 if self.base_bias is None else self.base_bias


@default_kernel.register
def _block(density: TemperedRBM) -> Kernel:
    return BlockGibbs(density.rbm)


@default_kernel.register
def _block_of_target(density: RBM) -> Kernel:
    return BlockGibbs(density)


def _bits(logits: Tensor, generator: torch.Generator) -> Tensor:
    return (uniform(tuple(logits.shape), generator, logits.device) < logits.sigmoid()).double()


def _log_prob(bits: Tensor, logits: Tensor, weight: Tensor | float = 1.0) -> Tensor:
    """``log Π p(bit | logits)`` of all bit states ``(T, n)`` under all rows of logits ``(S, n)``: ``(S, T)``."""
    log_one, log_zero = (
        torch.nn.functional.logsigmoid(logits) * weight,
        torch.nn.functional.logsigmoid(-logits) * weight,
    )
    return log_one @ bits.T + log_zero @ (1 - bits).T
