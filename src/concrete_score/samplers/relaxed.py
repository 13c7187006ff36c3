"""Densities that accept a distribution at each site, so that a gradient tells of all single-site changes at once."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.models.energy import Energy
from concrete_score.protocols import DensityModel
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space
from concrete_score.targets.ising import Ising
from concrete_score.targets.rbm import RBM

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
        """The function itself."""
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
