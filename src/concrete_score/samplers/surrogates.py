"""What a kernel learns of all single-site changes at once: exact ratios, or their first-order guess by a gradient.

A table holds, for each site, one entry for each *other* value, ascending (the slots of `hamming`): ``(C, D, V-1)``,
V the largest size, -inf beyond a site's size. A guess costs efficiency, never exactness: moves are Metropolis-adjusted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from concrete_score.errors import InputError
from concrete_score.models.densities import Energy
from concrete_score.protocols import DensityModel, LocalFields
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space
from concrete_score.targets.boltzmann import RBM, Ising

CHUNK = 2**20
"""How many sites (states × D) the exact table evaluates at a time."""
SiteProbs = Float[Tensor, "*batch sites values"]
"""A distribution over each site's values ``(..., D, V)``; a state is one-hot."""


@runtime_checkable
class Relaxable(DensityModel, Protocol):
    """A density model whose log-density extends to distributions over each site's values."""

    def one_hot(self, x: States) -> SiteProbs:
        """States as such distributions ``(..., D) -> (..., D, V)``, of the kind the density wants."""
        ...

    def relaxed_log_density(self, probabilities: SiteProbs) -> PerState:
        """``(..., D, V) -> (...)``, differentiable; equal to ``log_density`` at one-hot states."""
        ...


@dataclass(frozen=True, eq=False)
class Relaxed:
    """A differentiable function of site probabilities as a density model.

    Args:
        space: of the states.
        function: the log-density of probabilities ``(..., D, V) -> (...)``.
        dtype: of the probabilities.
        normalized: whether it is normalized over one-hot states.

    >>> field = torch.tensor([0.5, -1.0]).double()
    >>> model = Relaxed(Space.bits(2), lambda p: p[..., 1] @ field)
    >>> model.log_density(torch.tensor([[1, 0], [1, 1]])).tolist()
    [0.5, -0.5]
    """

    space: Space
    function: Callable[[Tensor], Tensor]
    dtype: torch.dtype = torch.float64
    normalized: bool = False

    def one_hot(self, x: States) -> SiteProbs:
        """``(..., D) -> (..., D, V)``."""
        return (x[..., None] == torch.arange(max(self.space.sizes), device=x.device)).to(self.dtype)

    def relaxed_log_density(self, probabilities: SiteProbs) -> PerState:
        return self.function(probabilities)

    def log_density(self, x: States) -> PerState:
        """The function at one-hot states ``(..., D) -> (...)``."""
        return self.function(self.one_hot(x))


@singledispatch
def relax(model: Any) -> Relaxable:
    """A model as a `Relaxable`: itself if it is one, or through a known extension (`relax.register` adds more).

    Raises:
        InputError: nothing is known of how to extend this model.

    >>> isinstance(relax(Ising((3, 3), 0.4)), Relaxable)
    True
    """
    if isinstance(model, Relaxable):
        return model
    raise InputError(
        "a density that extends to site probabilities",
        type(model).__name__,
        where="model",
        fix="wrap it in `Relaxed(space, function)`, or use `informed` or `gibbs`",
    )


def relaxes(model: Any) -> bool:
    """Whether `relax` knows the model."""
    try:
        relax(model)
    except InputError:
        return False
    return True


@relax.register
def _ising(model: Ising) -> Relaxable:
    """Spins become their means; the energy is linear in each, so gradients are exact ratios."""

    def function(probabilities: Tensor) -> Tensor:
        up = probabilities[..., 1]
        spins = up.mul(2).sub(1).reshape(*up.shape[:-1], *model.shape)
        energy = model.inverse_temperature * (_bonds(model, spins, -2) + _bonds(model, spins, -1)).double()
        return energy + model.field * spins.sum((-2, -1)).double() if model.field else energy

    # Sums of signs are whole numbers, exact in float32.
    return Relaxed(model.space, function, torch.float32)


def _bonds(model: Ising, spins: Tensor, axis: int) -> Tensor:
    side = spins.shape[axis]
    if model.periodic and side > 2:  # rolled as a whole: slices would each leave zeros to fill on the way back
        return (spins * spins.roll(1, axis)).sum((-2, -1))
    return (spins.narrow(axis, 0, side - 1) * spins.narrow(axis, 1, side - 1)).sum((-2, -1))


@relax.register
def _rbm(model: RBM) -> Relaxable:
    """Visible bits become their means."""

    def function(probabilities: Tensor) -> Tensor:
        v = probabilities[..., 1]
        field = v @ model.weights.to(v.device) + model.hidden_bias.to(v.device)
        return v @ model.visible_bias.to(v.device) + torch.logaddexp(field, field.new_zeros(())).sum(-1)

    return Relaxed(model.space, function)


@relax.register
def _energy(model: Energy) -> Relaxable:
    """Features become their means."""
    features = model.features

    def function(probabilities: Tensor) -> Tensor:
        hit = probabilities[..., features.site, features.value]
        value: Tensor = model.network(features.shift + hit * features.scale)
        return value.squeeze(-1)

    return Relaxed(model.space, function, features.scale.dtype)


class Local(NamedTuple):
    """The density at a state and a guess of its single-site log-ratios."""

    log_density: Tensor
    """``(C,)`` in float64."""
    others: Tensor
    """``(C, D, V-1)``."""


@runtime_checkable
class Surrogate(Protocol):
    """The density at a state and the log-ratios of its single-site changes, exact or guessed."""

    @property
    def space(self) -> Space: ...
    @property
    def passes(self) -> int: ...

    def look(self, x: States) -> Local:
        """At states ``(C, D)``; `passes` passes of the model."""
        ...


@dataclass(frozen=True, eq=False)
class Gradient:
    """``log q(x with x_d = v) - log q(x) ≈ ∂_{d,v} - ∂_{d,x_d}``, one gradient of the relaxed density for all of them.

    Exact where the relaxed density is linear in each site, such as for an Ising model.
    """

    model: Relaxable

    @property
    def space(self) -> Space:
        return self.model.space

    @property
    def passes(self) -> int:
        """One, with its gradient."""
        return 1

    def look(self, x: States) -> Local:
        """One pass forward and back."""
        with torch.enable_grad():
            one_hot = self.model.one_hot(x).requires_grad_()
            value = self.model.relaxed_log_density(one_hot)
            (slope,) = torch.autograd.grad(value.sum(), one_hot)
        own = slope.gather(-1, x[..., None])
        other = other_values(self.space, x)
        others = slope.gather(-1, other) - own
        return Local(value.detach().double(), _beyond(self.space, other, others))


@dataclass(frozen=True, eq=False)
class FieldRatios:
    """The ratios themselves, by the model's formula."""

    model: LocalFields

    @property
    def space(self) -> Space:
        return self.model.space

    @property
    def passes(self) -> int:
        """One, for all of them."""
        return 1

    def look(self, x: States) -> Local:
        """Fields against value 0 as ratios against the current value."""
        fields = functional.pad(self.model.local_fields(x), (1, 0))
        other = other_values(self.space, x)
        others = fields.gather(-1, other) - fields.gather(-1, x[..., None])
        return Local(self.model.log_density(x).double(), _beyond(self.space, other, others))


@dataclass(frozen=True, eq=False)
class ExactRatios:
    """The ratios themselves, by running the density at every single-site change."""

    model: DensityModel

    @property
    def space(self) -> Space:
        return self.model.space

    @property
    def passes(self) -> int:
        """One for each change, and the state itself."""
        return 1 + sum(size - 1 for size in self.space.sizes)

    def look(self, x: States) -> Local:
        """In chunks of rows, all changes of a row together."""
        step = max(1, CHUNK // (x.shape[-1] ** 2 * max(self.space.sizes)))
        parts = [self._look(x[start : start + step]) for start in range(0, len(x), step)]
        return Local(torch.cat([part.log_density for part in parts]), torch.cat([part.others for part in parts]))

    def _look(self, x: Tensor) -> Local:
        other = other_values(self.space, x)
        inside = torch.minimum(other, self.space.sizes_tensor(x.device)[:, None] - 1)
        edited = x[:, None, None].expand(*other.shape, -1).clone()
        site = torch.arange(x.shape[-1], device=x.device)[:, None, None]
        edited.scatter_(-1, site.expand(*other.shape, 1), inside[..., None])
        rows = torch.cat([x, edited.flatten(0, 2)])
        value = self.model.log_density(rows).double()
        here, there = value[: len(x)], value[len(x) :].reshape(other.shape)
        return Local(here, _beyond(self.space, other, there - here[:, None, None]))


def other_values(space: Space, x: States) -> Tensor:
    """The other values of each site, ascending ``(C, D, V-1)``; beyond a site's size, numbers without meaning.

    >>> other_values(Space((3, 3)), torch.tensor([[0, 1]])).tolist()
    [[[1, 2], [0, 2]]]
    """
    k = torch.arange(max(space.sizes) - 1, device=x.device)
    return k + (k >= x[..., None]).long()


def other_index(x: States, y: States) -> Tensor:
    """Where ``y_d`` stands among the other values of ``x_d`` ``(C, D)``; 0 where they are equal."""
    return torch.where(x == y, 0, y - (y > x).long())


def check_density(model: Any, kernel: str) -> None:
    """Moves of many sites, and guesses, are adjusted by the density itself."""
    if not isinstance(model, DensityModel):
        raise InputError(
            f"a density model for `{kernel}`, whose acceptance needs log_density",
            type(model).__name__,
            where="model",
            fix="use `mh`, `informed` or `gibbs` with a score model",
        )


def find_surrogate(model: Any) -> Surrogate:
    """The gradient where the model can be relaxed, else its local fields.

    Raises:
        InputError: it has neither.
    """
    return FieldRatios(model) if isinstance(model, LocalFields) and not relaxes(model) else Gradient(relax(model))


def _beyond(space: Space, other: Tensor, others: Tensor) -> Tensor:
    if len(set(space.sizes)) == 1:
        return others
    return others.masked_fill(other >= space.sizes_tensor(other.device)[:, None], -torch.inf)
