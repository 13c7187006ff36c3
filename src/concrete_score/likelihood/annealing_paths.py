"""Paths of densities from one that is known to one that is wanted, with kernels that keep each of them.

The geometric path serves any density. Restricted Boltzmann machines are annealed the classical way: layer by layer,
weights scaled (Salakhutdinov, 2008). See docs/mathematics.md, "Likelihood bounds".
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, singledispatch
from math import log
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from concrete_score.baselines.counts import valid_values
from concrete_score.baselines.independent import Independent
from concrete_score.errors import InputError
from concrete_score.protocols import DensityModel, Info, Kernel, Samplable, State
from concrete_score.randomness import uniform as unit_interval
from concrete_score.samplers import Composition, matrices, systematic
from concrete_score.samplers.base import check_start
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space, check_same_space
from concrete_score.targets.boltzmann import RBM

KernelFactory = Callable[[DensityModel], Kernel]
"""From a density to a kernel that keeps it."""


@runtime_checkable
class Path(Protocol):
    """Densities ``f_β`` from a normalized one that can be sampled (β = 0) to the target (β = 1)."""

    @property
    def space(self) -> Space: ...
    @property
    def target(self) -> DensityModel: ...

    def at(self, beta: float) -> DensityModel:
        """``f_β``; ``at(0)`` is normalized, ``at(1)`` is the target."""
        ...

    def increment(self, x: States, low: float, high: float) -> PerState:
        """``log f_high(x) - log f_low(x)`` ``(C,)`` in float64."""
        ...

    def sample(self, n: int, generator: torch.Generator) -> States:
        """``n`` exact draws from ``at(0)``."""
        ...


@dataclass(frozen=True, eq=False)
class Interpolated:
    """``log f_β(x) = (1 - β) log base(x) + β log target(x)``, not normalized in between.

    Args:
        base: a normalized density.
        target: any density on the same space.
        beta: from 0 to 1.

    >>> from concrete_score.targets import pmf
    >>> half = Interpolated(pmf([0.5, 0.5]), pmf([0.1, 0.9]), 0.5)
    >>> half.log_density(torch.tensor([[0]])).exp().square().item()   # 0.5 × 0.1, rooted
    0.05...
    """

    base: DensityModel
    target: DensityModel
    beta: float

    def __post_init__(self) -> None:
        check_same_space(self.base.space, self.target.space, "base and target")
        if not 0 <= self.beta <= 1:
            raise InputError("a number from 0 to 1", str(self.beta), where="beta")

    @property
    def space(self) -> Space:
        return self.base.space

    @property
    def normalized(self) -> bool:
        """Only at an end that is."""
        ends = {0.0: self.base.normalized, 1.0: self.target.normalized}
        return ends.get(self.beta, False)

    def log_density(self, x: States) -> PerState:
        """``(..., D) -> (...)``; at the ends only one of the two is run."""
        if self.beta == 0:
            return self.base.log_density(x).double()
        target = self.target.log_density(x).double()
        if self.beta == 1:
            return target
        # Not `lerp`, whose difference of two -inf is no number.
        return (1 - self.beta) * self.base.log_density(x).double() + self.beta * target


@dataclass(frozen=True, eq=False)
class Geometric:
    """The geometric path ``f_β = base^(1-β) target^β``: a `Path`.

    Args:
        base: normalized, samplable, and positive wherever the target is.
        target: any density.

    Raises:
        InputError: different spaces; a base that is not normalized or cannot be sampled.

    >>> from concrete_score.targets import Ising
    >>> from concrete_score.likelihood.annealing_paths import uniform
    >>> Geometric(uniform(Ising((2, 2), 0.4).space), Ising((2, 2), 0.4)).at(0.5).normalized
    False
    """

    base: Any
    target: DensityModel

    def __post_init__(self) -> None:
        check_density(self.base, "base")
        check_density(self.target, "target")
        check_same_space(self.base.space, self.target.space, "base and target")
        if not self.base.normalized or not isinstance(self.base, Samplable):
            raise InputError(
                "a base that is normalized and can be sampled",
                type(self.base).__name__,
                where="base",
                fix="use `uniform(space)` or a fitted baseline",
            )

    @property
    def space(self) -> Space:
        return self.target.space

    def at(self, beta: float) -> Interpolated:
        """The density ``f_β`` at one temperature of the path."""
        return Interpolated(self.base, self.target, beta)

    def increment(self, x: States, low: float, high: float) -> PerState:
        """``(high - low)(log target - log base)``."""
        log_ratio: PerState = self.target.log_density(x).double() - self.base.log_density(x).double()
        return (high - low) * log_ratio

    def sample(self, n: int, generator: torch.Generator) -> States:
        """Draws of the base."""
        states: States = self.base.sample(n, generator)
        return states


def check_density(model: Any, name: str) -> DensityModel:
    """A model that gives log-densities."""
    if not isinstance(model, DensityModel):
        came, fix = type(model).__name__, "a score model's density is `PathDensity`"
        raise InputError("a density model", came, where=name, fix=fix)
    return model


def uniform(space: Space) -> Independent:
    """All states alike: ``1 / num_states`` each, on a space of any size.

    >>> import torch
    >>> uniform(Space((2, 3))).log_density(torch.tensor([1, 2])).exp().item()
    0.1666...
    """
    valid = valid_values(space)
    weights = valid.double() / space.sizes_tensor()[:, None]
    return Independent(space, weights.log())


@singledispatch
def default_kernel(density: Any) -> Kernel:
    """A sweep of Gibbs updates, every site once in order; ``default_kernel.register`` knows better for a type.

    >>> from concrete_score.targets import Ising
    >>> len(default_kernel(Ising((2, 2), 0.3)).kernels)
    4
    """
    return systematic(density)


@singledispatch
def time_reversal(kernel: Any) -> Any:
    """``T~(x | y) = T(y | x) π(x) / π(y)``: the kernel itself if it is reversible, a composition backwards.

    Raises:
        InputError: the kernel is not marked `reversible`.
    """
    if getattr(kernel, "reversible", False):
        return kernel
    raise InputError(
        "a reversible kernel, or a Composition of such",
        type(kernel).__name__,
        where="kernels",
        fix="anneal with gibbs, mh, informed, gwg or multi_site; mark a kernel of your own with `reversible = True`",
    )


@time_reversal.register
def _composition(kernel: Composition) -> Composition:
    return Composition(tuple(time_reversal(part) for part in reversed(kernel.kernels)))


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
        """``f_β`` without the division by ``Z_0^(1-β)``."""
        bias = torch.lerp(self.base_bias, self.target.visible_bias, self.beta)
        return RBM(self.beta * self.target.weights, bias, self.beta * self.target.hidden_bias)

    @property
    def space(self) -> Space:
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
        return self.target.space

    def at(self, beta: float) -> TemperedRBM:
        """The density ``f_β`` at one temperature of the path."""
        return TemperedRBM(self.target, self._bias, beta)

    def increment(self, x: States, low: float, high: float) -> PerState:
        """``log f_high - log f_low``."""
        return self.at(high).log_density(x) - self.at(low).log_density(x)

    def sample(self, n: int, generator: torch.Generator) -> States:
        """Independent bits, each by its bias."""
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
    return (unit_interval(tuple(logits.shape), generator, logits.device) < logits.sigmoid()).double()


def _log_prob(bits: Tensor, logits: Tensor, weight: Tensor | float = 1.0) -> Tensor:
    """``log Π p(bit | logits)`` of all bit states ``(T, n)`` under all rows of logits ``(S, n)``: ``(S, T)``."""
    log_one, log_zero = (
        torch.nn.functional.logsigmoid(logits) * weight,
        torch.nn.functional.logsigmoid(-logits) * weight,
    )
    return log_one @ bits.T + log_zero @ (1 - bits).T
