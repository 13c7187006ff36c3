"""What a kernel learns of all single-site changes at once: exact ratios, or their first-order guess by a gradient.

A table holds, for each site, one entry for each *other* value, ascending (the slots of `hamming`): ``(C, D, V-1)``,
V the largest size, -inf beyond a site's size. A guess costs efficiency, never exactness: moves are Metropolis-adjusted.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.protocols import DensityModel
from concrete_score.samplers.relaxed import Relaxable, relax, relaxes
from concrete_score.shapes import States
from concrete_score.spaces import Space

CHUNK = 2**20
"""How many sites (states × D) the exact table evaluates at a time."""


class Local(NamedTuple):
    """The density at a state and a guess of its single-site log-ratios."""

    log_density: Tensor
    """``(C,)`` in float64."""
    others: Tensor
    """``(C, D, V-1)``."""


@runtime_checkable
class Surrogate(Protocol):
    """Looks at states."""

    @property
    def space(self) -> Space: ...
    @property
    def passes(self) -> int: ...

    def look(self, x: States) -> Local:
        """``(C, D)``."""
        ...


@dataclass(frozen=True, eq=False)
class Gradient:
    """``log q(x with x_d = v) - log q(x) ≈ ∂_{d,v} - ∂_{d,x_d}``, one gradient of the relaxed density for all of them.

    Exact where the relaxed density is linear in each site, such as for an Ising model.
    """

    model: Relaxable

    @property
    def space(self) -> Space:
        """The model's."""
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
class ExactRatios:
    """The ratios themselves, by running the density at every single-site change."""

    model: DensityModel

    @property
    def space(self) -> Space:
        """The model's."""
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
    """The gradient where the model can be relaxed, else the exact ratios."""
    return Gradient(relax(model)) if relaxes(model) else ExactRatios(model)


def _beyond(space: Space, other: Tensor, others: Tensor) -> Tensor:
    if len(set(space.sizes)) == 1:
        return others
    return others.masked_fill(other >= space.sizes_tensor(other.device)[:, None], -torch.inf)
