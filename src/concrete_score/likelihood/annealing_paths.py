"""Paths of densities from one that is known to one that is wanted, with kernels that keep each of them.

The geometric path serves any density. Restricted Boltzmann machines are annealed the classical way: layer by layer,
weights scaled (Salakhutdinov, 2008). See docs/mathematics.md, "Likelihood bounds".
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, singledispatch
from math import log
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from concrete_score.baselines.counts import valid_values
from concrete_score.baselines.independent import Independent
from concrete_score.errors import InputError
from concrete_score.protocols import DensityModel, Kernel, Samplable
from concrete_score.randomness import uniform as unit_interval
from concrete_score.samplers import Auxiliary, Colored, Composition, Sweep, structured, systematic
from concrete_score.samplers.auxiliary import Layers, find_layers
from concrete_score.samplers.colorings import interactions_of
from concrete_score.samplers.couplings import NEVER, LinearFields, linear_fields
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


@linear_fields.register
def _linear(density: Interpolated) -> LinearFields | None:
    """Between independent sites and a pairwise target: fields mixed, couplings scaled."""
    target = linear_fields(density.target)
    if target is None or not isinstance(density.base, Independent) or target.factor is not None:
        return None
    table = density.base.log_table.to(target.bias.device)
    if bool((table[:, 0] == -torch.inf).any()):  # fields are against value 0
        return None
    base = (table[:, 1:] - table[:, :1]).T[..., None]
    mixed = density.beta * target.bias + (1 - density.beta) * base.nan_to_num(neginf=NEVER)
    constant = density.beta * target.constant + (1 - density.beta) * float(table[:, 0].sum())
    bias = mixed.clamp_min(NEVER).to(target.bias.dtype)
    return replace(target, bias=bias, constant=constant, strength=density.beta * target.strength)


@interactions_of.register
def _interactions(density: Interpolated) -> Tensor | None:
    return interactions_of(density.target) if isinstance(density.base, Independent) else None


@singledispatch
def default_kernel(density: Any) -> Kernel:
    """Every site once from its conditional, by structure where the density has one, else one by one.

    ``default_kernel.register`` knows better for a type.

    >>> from concrete_score.targets import Ising, pmf
    >>> type(default_kernel(Ising((8, 8), 0.3))).__name__, type(default_kernel(pmf([0.2, 0.8]))).__name__
    ('Colored', 'Composition')
    """
    return structured(density) or systematic(density)


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


@time_reversal.register(Colored)
@time_reversal.register(Sweep)
def _sweep(kernel: Any) -> Any:
    return kernel.reversed()


@time_reversal.register
def _composition(kernel: Composition) -> Composition:
    return Composition(tuple(time_reversal(part) for part in reversed(kernel.kernels)))


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
        return RBM(self.beta * self.target.weights, self.visible_bias, self.beta * self.target.hidden_bias)

    @cached_property
    def visible_bias(self) -> Tensor:
        """``(1-β) b_0 + β b`` ``(V,)``."""
        return torch.lerp(self.base_bias, self.target.visible_bias, self.beta)

    @cached_property
    def log_base_partition(self) -> float:
        """``log Z_0``."""
        zero = self.base_bias.new_zeros(())
        return float(torch.logaddexp(self.base_bias, zero).sum()) + len(self.target.hidden_bias) * log(2)

    @property
    def space(self) -> Space:
        return self.target.space

    @property
    def normalized(self) -> bool:
        """At ``β = 0``."""
        return self.beta == 0

    def log_density(self, x: States) -> PerState:
        """``log f_β(x)`` ``(..., V) -> (...)``."""
        return self.rbm.log_density(x) - (1 - self.beta) * self.log_base_partition

    def hidden_logits(self, x: Tensor) -> Tensor:
        """Of the hidden bits given the visible ones ``(..., V) -> (..., H)``."""
        return self.rbm.hidden_logits(x)

    def visible_logits(self, hidden: Tensor) -> Tensor:
        """Of the visible bits given the hidden ones ``(..., H) -> (..., V)``."""
        return self.rbm.visible_logits(hidden)


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
        """``log f_high - log f_low``, by one product: both see ``c + vW``, each in its own share.

        The product is in float32: its rounding, of about 1e-6, is multiplied by ``high - low``.
        """
        columns, bias = (part.to(x.device) for part in self._columns)
        seen = (x.to(columns.dtype) @ columns).double()
        hidden, zero = seen[:, :-1] + bias, seen.new_zeros(())
        units = torch.logaddexp(high * hidden, zero) - torch.logaddexp(low * hidden, zero)
        return units.sum(-1) + (high - low) * (seen[:, -1] + self.at(low).log_base_partition)

    def sample(self, n: int, generator: torch.Generator) -> States:
        """Independent bits, each by its bias."""
        logits = self._bias.to(generator.device).expand(n, -1)
        return _bits(logits, generator).long()

    @cached_property
    def _columns(self) -> tuple[Tensor, Tensor]:
        """Weights and ``b - b_0`` side by side ``(V, H + 1)``, and c ``(H,)``."""
        target = self.target
        columns = torch.cat([target.weights, (target.visible_bias - self._bias)[:, None]], 1)
        return columns.float(), target.hidden_bias

    @property
    def _bias(self) -> Tensor:
        return self.target.visible_bias * 0 if self.base_bias is None else self.base_bias


@find_layers.register
def _layers(density: TemperedRBM) -> Layers:
    target = density.target
    weights, hidden = target.weights.float(), target.hidden_bias.float()[:, None]
    return Layers(weights, density.visible_bias.float()[:, None], hidden, density.beta)


@default_kernel.register(RBM)
@default_kernel.register(TemperedRBM)
def _by_layers(density: Any) -> Kernel:
    return Auxiliary(density)


def _bits(logits: Tensor, generator: torch.Generator) -> Tensor:
    return (unit_interval(tuple(logits.shape), generator, logits.device) < logits.sigmoid()).double()
