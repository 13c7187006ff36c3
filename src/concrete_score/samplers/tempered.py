"""Densities at other temperatures, and how kernels look at them."""

from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.protocols import DensityModel
from concrete_score.samplers.colorings import interactions_of
from concrete_score.samplers.couplings import LinearFields, linear_fields
from concrete_score.samplers.ratio_sources import LinearSource, Look, RatioSource, find_source
from concrete_score.samplers.surrogates import Relaxable, Relaxed, relax
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space


@dataclass(frozen=True, eq=False)
class Tempered:
    """``q(x)^β``, a density model.

    >>> from concrete_score.targets import pmf
    >>> Tempered(pmf([0.36, 0.64]), 0.5).log_density(torch.tensor([[0], [1]])).exp()
    tensor([0.6000, 0.8000], dtype=torch.float64)
    """

    model: DensityModel
    inverse_temperature: float

    def __post_init__(self) -> None:
        if not (self.inverse_temperature > 0 and isfinite(self.inverse_temperature)):
            raise InputError("a positive number", str(self.inverse_temperature), where="inverse_temperature")

    @property
    def space(self) -> Space:
        return self.model.space

    @property
    def normalized(self) -> bool:
        """Only at β = 1."""
        return self.model.normalized and self.inverse_temperature == 1

    def log_density(self, x: States) -> PerState:
        return self.inverse_temperature * self.model.log_density(x)


@dataclass(frozen=True, eq=False)
class TemperedCopies:
    """Chains that take inverse temperatures in turn: row i of a batch has ``q^β``, ``β = betas[i mod R]``.

    A density for kernels that are `batched`: they ask for it at one row a chain, all chains together.
    """

    model: DensityModel
    inverse_temperatures: tuple[float, ...]

    normalized = False

    @property
    def space(self) -> Space:
        return self.model.space

    def log_density(self, x: States) -> PerState:
        """``(N, ..., D) -> (N, ...)``, N a multiple of R."""
        value = self.model.log_density(x)
        betas = value.new_tensor(self.inverse_temperatures).repeat(len(value) // len(self.inverse_temperatures))
        return value * betas.reshape(-1, *(1,) * (value.ndim - 1))


def check_ladder(betas: Any) -> tuple[float, ...]:
    """Inverse temperatures that fall from 1 and stay positive.

    Raises:
        InputError: anything else.

    >>> check_ladder((1.0, 0.5, 0.7))
    Traceback (most recent call last):
    concrete_score.errors.InputError: inverse_temperatures: expected numbers that fall from 1 and stay positive, got ...
    """
    ladder = tuple(float(beta) for beta in betas)
    if not ladder or ladder[0] != 1 or not ladder[-1] > 0 or not all(b < a for a, b in pairwise(ladder)):
        raise InputError(
            "numbers that fall from 1 and stay positive",
            str(ladder),
            where="inverse_temperatures",
            fix="such as (1.0, 0.6, 0.3), coldest first",
        )
    return ladder


@dataclass(frozen=True, eq=False)
class ScaledSource:
    """A source whose chains have inverse temperatures."""

    inner: RatioSource
    betas: Tensor

    @property
    def space(self) -> Space:
        return self.inner.space

    @property
    def passes(self) -> int:
        return self.inner.passes

    @property
    def quadratic(self) -> bool:
        return self.inner.quadratic

    def marks(self, x: States) -> Tensor:
        return self.inner.marks(x)

    def look(self, z: Tensor, density: bool = True) -> Look:
        return self.inner.look(z, density)

    def excess(self, here: Look, there: Look, change: Tensor) -> Tensor:
        return self.inner.excess(here, there, change)

    def factors(self, chains: int) -> Tensor:
        """Those of the inner source times one's own."""
        own = self.betas if len(self.betas) == 1 else self.betas.repeat(chains // len(self.betas))
        before = self.inner.factors(chains)
        return own if before is None else own * before


def betas_of(model: Tempered | TemperedCopies) -> Tensor:
    """The inverse temperatures of a tempered density ``(1,)`` or ``(R,)`` in float32."""
    if isinstance(model, Tempered):
        return torch.tensor([model.inverse_temperature])
    return torch.tensor(model.inverse_temperatures)


@find_source.register(Tempered)
@find_source.register(TemperedCopies)
def _source(model: Any) -> RatioSource:
    linear = linear_fields(model)
    return ScaledSource(find_source(model.model), betas_of(model)) if linear is None else LinearSource(linear)


@linear_fields.register(Tempered)
@linear_fields.register(TemperedCopies)
def _linear(model: Any) -> LinearFields | None:
    inner, betas = linear_fields(model.model), betas_of(model)
    if inner is None:
        return None
    return replace(inner, factor=betas.to(inner.bias.device) if inner.factor is None else betas * inner.factor)


@interactions_of.register(Tempered)
@interactions_of.register(TemperedCopies)
def _interactions(model: Any) -> Tensor | None:
    return interactions_of(model.model)


@relax.register
def _tempered(model: Tempered) -> Relaxable:
    inner = relax(model.model)

    def function(probabilities: Tensor) -> Tensor:
        return model.inverse_temperature * inner.relaxed_log_density(probabilities)

    return Relaxed(model.space, function, inner.one_hot(torch.zeros(model.space.num_sites, dtype=torch.int64)).dtype)
