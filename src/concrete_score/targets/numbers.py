"""Tables of categories and numbers whose exact likelihood is known: a network of components, numbers drawn from them.

Behind every column stands one variable of a `BayesianNetwork`. A category shows it. A number hides it: the variable is
the component of a mixture that the number is drawn from, rounded to two decimals, so that

    p(row) = Σ_c Π_d p(c_d | c_parents(d)) e_d(c_d),     e_d(c) = P(number | component c), or [c = category].
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.randomness import uniform
from concrete_score.shapes import PerState
from concrete_score.targets.bayesian_network import BayesianNetwork, random_network

STEPS = 100
"""Grid points of one unit: numbers have two decimals."""
_ROWS = 4096
"""Rows summed over their components at a time."""


@runtime_checkable
class Component(Protocol):
    """A law of numbers on the grid of `STEPS` points a unit; grid point k is the number ``k / STEPS``."""

    def log_prob(self, points: Tensor) -> Tensor:
        """``log P(point)`` in float64, of the shape of ``points``."""

    def quantile(self, unit: Tensor) -> Tensor:
        """The grid point at each of some probabilities in (0, 1), int64."""


@dataclass(frozen=True)
class Gaussian:
    """A normal number rounded to the grid: ``P(k) = Φ((k + ½)/STEPS) - Φ((k - ½)/STEPS)``."""

    mean: float
    deviation: float

    def log_prob(self, points: Tensor) -> Tensor:
        edges = np.stack([points.numpy(force=True) - 0.5, points.numpy(force=True) + 0.5]) / STEPS
        # By the tail that is small on the point's side, so that far points keep their digits.
        low, high = np.sort(-np.abs(edges - self.mean), 0) / self.deviation
        inside = np.abs(points.numpy(force=True) / STEPS - self.mean) * STEPS < 0.5
        below, above = stats.norm.logcdf(low), stats.norm.logcdf(high)
        apart = above + np.log(-np.expm1(np.where(inside, -1.0, below - above)))
        return torch.from_numpy(np.where(inside, np.log1p(-np.exp(below) - np.exp(above)), apart))

    def quantile(self, unit: Tensor) -> Tensor:
        number = stats.norm.ppf(unit.numpy(force=True), self.mean, self.deviation)
        return torch.from_numpy(np.rint(number * STEPS)).long()


@dataclass(frozen=True)
class Poisson:
    """Counts: whole numbers 0, 1, 2, …, every `STEPS`-th point of the grid."""

    rate: float

    def log_prob(self, points: Tensor) -> Tensor:
        keys = points.numpy(force=True)
        found = stats.poisson.logpmf(keys // STEPS, self.rate)
        return torch.from_numpy(np.where(keys % STEPS == 0, found, -np.inf))

    def quantile(self, unit: Tensor) -> Tensor:
        return torch.from_numpy(stats.poisson.ppf(unit.numpy(force=True), self.rate)).long() * STEPS


@dataclass(frozen=True)
class Atom:
    """One grid point alone."""

    point: int

    def log_prob(self, points: Tensor) -> Tensor:
        return torch.where(points.cpu() == self.point, 0.0, -torch.inf).double()

    def quantile(self, unit: Tensor) -> Tensor:
        return torch.full(unit.shape, self.point, dtype=torch.int64)


@dataclass(frozen=True, eq=False)
class MixedTable:
    """Rows of categories and numbers, one column a variable of a network.

    A row holds of each column the category's number, or the grid point of the number ``(D,)``.

    Args:
        network: of the categories and components.
        components: for each column None where it is a category, else one law for each value of its variable.

    Raises:
        InputError: not one entry a column, or not one law a value.

    >>> from concrete_score.spaces import Space
    >>> network = BayesianNetwork(Space((2, 2)), ((), (0,)), ([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]))
    >>> table = MixedTable(network, (None, (Atom(0), Poisson(1.0))))
    >>> round(float(table.log_density(torch.tensor([0, 0])).exp()), 6)
    0.468394
    """

    network: BayesianNetwork
    components: Sequence[Sequence[Component] | None] = field(repr=False)

    def __post_init__(self) -> None:
        sizes = self.network.space.sizes
        found = [size if each is None else len(each) for each, size in zip(self.components, sizes, strict=False)]
        if len(self.components) != len(sizes) or tuple(found) != sizes:
            raise InputError(f"components of {sizes} values", repr(found), where="components")

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """``n`` exact independent rows ``(n, D)``."""
        rows = self.network.sample(n, generator)
        for d, laws in enumerate(self.components):
            if laws is not None:
                unit, drawn = uniform((n,), generator, rows.device), rows[:, d].clone()
                for c, law in enumerate(laws):
                    own = drawn == c
                    rows[own, d] = law.quantile(unit[own]).to(rows.device)
        return rows

    def log_density(self, rows: Tensor) -> PerState:
        """``log p(row)`` ``(..., D) -> (...)``, summed over all components exactly."""
        flat = rows.reshape(-1, rows.shape[-1])
        parts = [self.network.log_evidence(self.evidence(part)) for part in torch.split(flat, _ROWS)]
        return torch.cat(parts).reshape(rows.shape[:-1])

    def evidence(self, rows: Tensor) -> list[Tensor]:
        """``log e_d(c)`` of each column, ``(n, size)``."""
        found = []
        for d, laws in enumerate(self.components):
            if laws is None:
                values = torch.arange(self.network.space.sizes[d])
                found.append(torch.where(rows[:, d, None].cpu() == values, 0.0, -torch.inf).double())
            else:
                found.append(torch.stack([law.log_prob(rows[:, d]) for law in laws], -1))
        return found


def random_mixed_table(
    columns: int, max_parents: int, generator: torch.Generator, numbers: float = 0.6, leaves: bool = False
) -> MixedTable:
    """A random table: columns of 2 to 5 categories, and of numbers that mix 2 to 4 components.

    Args:
        columns: how many.
        max_parents: of each variable of the network.
        numbers: the share of columns that are numbers.
        leaves: whether numbers have no children. Else other columns may depend on a number's component, which is
            hidden: then on what every column says of it.

    >>> table = random_mixed_table(4, 2, torch.Generator().manual_seed(0))
    >>> table.sample(2, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 4])
    """
    shown = torch.rand(columns, generator=generator) >= numbers
    most = torch.where(shown, 4, 3)
    sizes = (2 + torch.rand(columns, generator=generator) * most).long().tolist()
    hidden = (~shown).nonzero().squeeze(-1).tolist()
    network = random_network(sizes, max_parents, generator, leaves=hidden if leaves else ())
    laws = [None if hide else _components(size, generator) for hide, size in zip(shown.tolist(), sizes, strict=True)]
    return MixedTable(network, tuple(laws))


def _components(count: int, generator: torch.Generator) -> tuple[Component, ...]:
    """Half of them Gaussians, the others Poissons and atoms, on one scale."""
    kind, place, spread = torch.rand(3, count, generator=generator, dtype=torch.float64).tolist()
    made: list[Component] = []
    for k, x, s in zip(kind, place, spread, strict=True):
        if k < 0.5:
            made.append(Gaussian(20 * x - 5, 0.2 + 3 * s))
        elif k < 0.75:
            made.append(Poisson(0.5 + 14.5 * x))
        else:
            made.append(Atom(round((20 * x - 5) * STEPS)))
    return tuple(made)
