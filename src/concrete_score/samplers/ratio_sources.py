"""Where a kernel that moves many sites looks: all log-ratios of single-site changes, by formula, gradient or density.

States are marks ``(V-1, D, C)`` (see `couplings`). A table of ratios holds, for bits, the one change of every site
``(1, D, C)``; for larger sites all values ``(V, D, C)``, 0 at the current one and `NEVER` beyond a site's size. A guess
costs efficiency, never exactness: moves are Metropolis-adjusted.
"""

from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import functional

from concrete_score.protocols import HiddenUnits, LocalFields
from concrete_score.samplers.couplings import NEVER, LinearFields, linear_fields, marks, values
from concrete_score.samplers.surrogates import ExactRatios, Local, Relaxable, other_values, relax, relaxes
from concrete_score.shapes import States
from concrete_score.spaces import Space
from concrete_score.targets.boltzmann import RBM


class Look(NamedTuple):
    """What is seen at some states; none of it is multiplied by the chains' factors."""

    ratios: Tensor | None
    """``(1, D, C)`` or ``(V, D, C)``; None once it is no longer needed."""
    log_density: Tensor | None = None
    """``(C,)`` in float64; None where it was not asked for and costs extra."""
    inner: Tensor | None = None
    """What else a source wants to know of a state, chains last."""


@runtime_checkable
class RatioSource(Protocol):
    """The density at a state and the log-ratios of its single-site changes, exact or guessed."""

    @property
    def space(self) -> Space: ...
    @property
    def passes(self) -> int:
        """Of the model, for one look at all chains."""
        ...

    @property
    def quadratic(self) -> bool:
        """Whether `excess` is always 0."""
        ...

    def marks(self, x: States) -> Tensor:
        """States in the layout that `look` wants."""
        ...

    def look(self, z: Tensor, density: bool = True) -> Look:
        """At marks; ``density=False`` where its log-density is not needed."""
        ...

    def excess(self, here: Look, there: Look, change: Tensor) -> Tensor:
        """``log q(y) - log q(x) - ½ Σ_d [r_d(x → y_d) - r_d(y → x_d)]`` over the changed bits ``(1, D, C)``: ``(C,)``.

        What the ratios at both ends do not explain, by the trapezoidal rule; 0 where the density is quadratic.
        """
        ...

    def factors(self, chains: int) -> Tensor | None:
        """An inverse temperature for each chain ``(C,)``, or for all ``(1,)``, or None for 1."""
        ...


class _Plain:
    """What most sources share: chains fastest, no temperature."""

    space: Space
    quadratic = False
    passes = 1

    def marks(self, x: States) -> Tensor:
        return marks(self.space, x)

    def excess(self, here: Look, there: Look, change: Tensor) -> Tensor:
        """From the ratios themselves."""
        if here.ratios is None or there.ratios is None or here.log_density is None or there.log_density is None:
            raise RuntimeError("what was not remembered is needed")  # pragma: no cover
        steps = ((there.ratios - here.ratios) * change).sum((0, 1), dtype=torch.float64)
        return there.log_density - here.log_density + steps / 2

    def factors(self, chains: int) -> Tensor | None:
        return None


@dataclass(frozen=True, eq=False)
class LinearSource:
    """A pairwise model: exact, by its couplings."""

    linear: LinearFields

    passes = 1
    quadratic = True

    @property
    def space(self) -> Space:
        return self.linear.space

    def marks(self, x: States) -> Tensor:
        return marks(self.space, x)

    def look(self, z: Tensor, density: bool = True) -> Look:
        fields = self.linear.fields(z)
        return Look(ratios_of(z, fields), self.linear.log_density(z, fields) if density else None)

    def excess(self, here: Look, there: Look, change: Tensor) -> Tensor:
        return change.new_zeros(change.shape[-1])

    def factors(self, chains: int) -> Tensor | None:
        return self.linear.factors(chains)


@dataclass(frozen=True, eq=False)
class FormulaSource(_Plain):
    """Any density with local fields: exact."""

    model: LocalFields

    @property
    def space(self) -> Space:  # type: ignore[override]
        return self.model.space

    def look(self, z: Tensor, density: bool = True) -> Look:
        x = values(z)
        fields = self.model.local_fields(x).to(torch.float32).nan_to_num(neginf=NEVER)
        return Look(ratios_of(z, fields.permute(2, 1, 0).contiguous()), self.model.log_density(x).double())


@dataclass(frozen=True, eq=False)
class RBMSource(_Plain):
    """A restricted Boltzmann machine: the slope ``b + W sigmoid(c + vW)`` of its log-density, without autograd."""

    model: RBM

    @property
    def space(self) -> Space:  # type: ignore[override]
        return self.model.space

    def look(self, z: Tensor, density: bool = True) -> Look:
        weights, across, hidden_bias, bias = self._parts
        # The last row is the visible bias, and its sum over the bits that are 1.
        inner = torch.addmm(hidden_bias, across, z[0])
        hidden = inner[:-1]
        gate = hidden.sigmoid()
        log_density = functional.softplus(hidden).sum(0).add_(inner[-1]).double()
        fields = torch.addmm(bias, weights, gate)
        return Look(ratios_of(z, fields[None]), log_density, torch.stack([inner[:-1], gate]))

    def excess(self, here: Look, there: Look, change: Tensor) -> Tensor:
        """``Σ_j [softplus(a_j) - softplus(a_j') …]`` of the hidden units alone: the visible bias drops out."""
        if here.inner is None or there.inner is None:
            raise RuntimeError("what was not remembered is needed")  # pragma: no cover
        new, old = there.inner[0], here.inner[0]
        gain = functional.softplus(new) - functional.softplus(old)
        return (gain - (new - old) * (there.inner[1] + here.inner[1]) / 2).sum(0, dtype=torch.float64)

    @cached_property
    def _parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Weights ``(V, H)``, the same across and the visible bias ``(H + 1, V)``, both biases, in float32."""
        model = self.model
        across = torch.cat([model.weights.T, model.visible_bias[None]]).float().contiguous()
        hidden = torch.cat([model.hidden_bias, model.hidden_bias.new_zeros(1)]).float()[:, None]
        return model.weights.float(), across, hidden, model.visible_bias.float()[:, None]


@dataclass(frozen=True, eq=False)
class GradientSource(_Plain):
    """One gradient of the relaxed density: ``log q(x with x_d = v) - log q(x) ≈ ∂_{d,v} - ∂_{d,x_d}``."""

    model: Relaxable

    @property
    def space(self) -> Space:  # type: ignore[override]
        return self.model.space

    def marks(self, x: States) -> Tensor:
        """Chains slowest, as the model's own function sees them."""
        value = torch.arange(1, max(self.space.sizes), device=x.device)
        return (x[..., None] == value).to(self._dtype).permute(2, 1, 0)

    def look(self, z: Tensor, density: bool = True) -> Look:
        with torch.enable_grad():
            inside = z.permute(2, 1, 0).detach().requires_grad_()
            rest = 1 - (inside if len(z) == 1 else inside.sum(-1, keepdim=True))
            value = self.model.relaxed_log_density(torch.cat([rest, inside], -1))
            (slope,) = torch.autograd.grad(value.sum(), inside)
        fields = slope.permute(2, 1, 0)
        if self._beyond is not None:
            fields = torch.where(self._beyond.to(fields.device), NEVER, fields)
        return Look(ratios_of(z, fields), value.detach().double())

    @cached_property
    def _dtype(self) -> torch.dtype:
        return self.model.one_hot(torch.zeros(1, self.space.num_sites, dtype=torch.int64)).dtype

    @cached_property
    def _beyond(self) -> Tensor | None:
        sizes = self.space.sizes_tensor()
        found = torch.arange(1, int(sizes.max()))[:, None, None] >= sizes[:, None]
        return found if bool(found.any()) else None


@dataclass(frozen=True, eq=False)
class DensitySource(_Plain):
    """The ratios themselves, by running the density at every single-site change."""

    exact: ExactRatios

    @property
    def space(self) -> Space:  # type: ignore[override]
        return self.exact.space

    @property
    def passes(self) -> int:  # type: ignore[override]
        return self.exact.passes

    def look(self, z: Tensor, density: bool = True) -> Look:
        x = values(z)
        local = self.exact.look(x)
        others = local.others.to(torch.float32).nan_to_num(nan=NEVER, posinf=-NEVER, neginf=NEVER)
        if len(z) == 1:
            return Look(others.permute(2, 1, 0).contiguous(), local.log_density)
        table = others.new_zeros(*x.shape, len(z) + 1).scatter_(-1, other_values(self.space, x), others)
        return Look(table.permute(2, 1, 0).contiguous(), local.log_density)


@dataclass(frozen=True, eq=False)
class SourceRatios:
    """What a source sees as a table with the chains first, for kernels that change one site a step."""

    source: RatioSource

    @property
    def space(self) -> Space:
        return self.source.space

    @property
    def passes(self) -> int:
        return self.source.passes

    def look(self, x: States) -> Local:
        """In float32."""
        look = self.source.look(self.source.marks(x))
        if look.ratios is None or look.log_density is None:  # pragma: no cover - a full look has both
            raise RuntimeError("a look without ratios")
        others, value, factors = look.ratios.permute(2, 1, 0), look.log_density, self.source.factors(len(x))
        if others.shape[-1] > 1:
            others = others.gather(-1, other_values(self.space, x))
        others = others.masked_fill(others <= NEVER / 100, -torch.inf)
        return Local(value, others) if factors is None else Local(value * factors, others * factors[:, None, None])


def ratios_of(z: Tensor, fields: Tensor) -> Tensor:
    """Fields against value 0 as log-ratios against the current value ``(V-1, D, C) -> (1 | V, D, C)``."""
    if len(z) == 1:
        return torch.addcmul(fields, z, fields, value=-2)
    own = (z * fields).sum(0)
    return torch.cat([-own[None], fields - own])


@singledispatch
def find_source(model: Any) -> RatioSource:
    """What a model offers at the least cost: fields by formula, else a gradient, else the density itself.

    ``find_source.register`` knows better for a type.
    """
    linear = linear_fields(model)
    if linear is not None:
        return LinearSource(linear)
    if isinstance(model, LocalFields) and not isinstance(model, HiddenUnits):
        return FormulaSource(model)
    if relaxes(model):
        return GradientSource(relax(model))
    return DensitySource(ExactRatios(model))


@find_source.register
def _rbm(model: RBM) -> RatioSource:
    return RBMSource(model)
