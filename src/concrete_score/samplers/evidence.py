"""What is known of a row as weights of every site's values, and models conditioned on it.

With weights ``e_d(v) >= 0`` the rows follow ``q(x | e) ∝ q(x) Π_d e_d(x_d)``. A condition that a value meets or not has
weights 1 and 0; a value that stands for several (a range of numbers) has the share of them that meets it. The
probability of what is known is ``Σ_x q(x) Π_d e_d(x_d)`` (docs/mathematics.md, "Conditions").
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import exp, floor, log10, prod
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from concrete_score.errors import InputError, Option
from concrete_score.models.layers import ValueTable
from concrete_score.protocols import DensityModel, Neighborhood, ScoreModel, SiteNeighborhood
from concrete_score.randomness import uniform
from concrete_score.samplers.base import all_edits
from concrete_score.samplers.run import Progress
from concrete_score.shapes import PerSlot, PerState, States
from concrete_score.spaces import Space

PART = 2**16
"""Rows of a batch at most."""


_FINE = 5e-4
"""A relative error that three digits do not show."""


class Probability(NamedTuple):
    """The probability of what is known, in logarithms, for it may be very small."""

    log_value: float
    relative_error: float = 0.0
    """Standard error over value; 0 where it is exact."""

    @property
    def value(self) -> float:
        """The probability itself."""
        return exp(self.log_value)

    @property
    def stderr(self) -> float:
        """Its standard error; 0 where it is exact."""
        return self.value * self.relative_error

    def __str__(self) -> str:
        """
        >>> str(Probability(-9.0, 0.05)), str(Probability(-2.0)), str(Probability(-16.0, 0.01))
        ('0.000123 ± 0.000006', '0.135', '(1.125 ± 0.011)e-07')
        """
        if not self.stderr or self.relative_error < _FINE:
            return f"{self.value:.3g}"
        power = 0 if self.value >= 1e-5 else floor(log10(self.value))
        value, error = self.value / 10.0**power, self.stderr / 10.0**power
        # One digit of the error, two where it begins with a 1.
        digits = max(0, -floor(log10(error / 2)))
        text = f"{value:.{digits}f} ± {error:.{digits}f}"
        return f"({text})e{power:03d}" if power else text


class Batch(NamedTuple):
    """Some of the rows asked for."""

    states: States
    """``(n, D)``."""
    probability: Probability | None = None
    """Of the evidence; None where it is not known."""
    warnings: tuple[str, ...] = ()


@runtime_checkable
class Source(Protocol):
    """One way to draw rows given evidence."""

    @property
    def name(self) -> str: ...

    def batches(self, n: int, generator: torch.Generator, progress: Progress | None = None) -> Iterator[Batch]:
        """``n`` rows, at most `PART` at a time.

        Raises:
            Impossible: the evidence has probability zero.
        """
        ...

    def probability(self, generator: torch.Generator) -> Probability | None:
        """Of the evidence, without a row drawn; None where it is not known."""
        ...


@dataclass(frozen=True, eq=False)
class Evidence:
    """Weights of the values of each site.

    Args:
        space: of the rows.
        log_weights: ``log e_d(v)``, none of them infinite, -inf for a value ruled out; float64 ``(D, V)``.

    Raises:
        InputError: another shape, NaN or infinity, or a site none of whose values is left.

    >>> evidence = Evidence.of(Space((2, 3)), {1: torch.tensor([0.0, float("-inf"), 0.0])})
    >>> evidence.num_states, evidence.sites, evidence.log_weight(torch.tensor([[0, 1], [1, 2]])).tolist()
    (4, (1,), [-inf, 0.0])
    """

    space: Space
    log_weights: ValueTable = field(repr=False)

    def __post_init__(self) -> None:
        shape = (self.space.num_sites, max(self.space.sizes))
        if tuple(self.log_weights.shape) != shape or not (self.log_weights < torch.inf).all():
            came = f"shape {tuple(self.log_weights.shape)}" if self.log_weights.shape != shape else "NaN or infinity"
            raise InputError(f"log-weights below infinity of shape {shape}", came, where="log_weights")
        beyond = torch.arange(shape[1], device=self.device) >= self.space.sizes_tensor(self.device)[:, None]
        table = self.log_weights.double().masked_fill(beyond, -torch.inf)
        object.__setattr__(self, "log_weights", table)
        if not self.counts.all():
            site = int((self.counts == 0).nonzero()[0])
            raise InputError(f"a value of site {site} that is not ruled out", "none", where="log_weights")

    @classmethod
    def of(cls, space: Space, sites: Mapping[int, int | Tensor], device: torch.device | None = None) -> "Evidence":
        """From what is known of some sites: their value, or log-weights of their values ``(size,)``.

        Raises:
            InputError: no such site, no such value, or log-weights of another number.
        """
        table = torch.zeros(space.num_sites, max(space.sizes), dtype=torch.float64, device=device)
        for site, known in sites.items():
            if not 0 <= site < space.num_sites:
                raise InputError(f"a site from 0 to {space.num_sites - 1}", str(site), where=Option("given"))
            size = space.sizes[site]
            if isinstance(known, Tensor) and known.ndim:
                if known.shape != (size,):
                    raise InputError(f"{size} log-weights", f"shape {tuple(known.shape)}", where=f"given[{site}]")
                table[site, :size] = known.to(table)
            else:
                if not 0 <= int(known) < size:
                    raise InputError(
                        f"a value from 0 to {size - 1} at site {site}", str(int(known)), where=Option("given")
                    )
                table[site] = -torch.inf
                table[site, int(known)] = 0.0
        return cls(space, table)

    @property
    def device(self) -> torch.device:
        return self.log_weights.device

    @cached_property
    def sites(self) -> tuple[int, ...]:
        """The sites of which anything is known: whose values are not all of weight 1."""
        return tuple(d for d, size in enumerate(self.space.sizes) if self.log_weights[d, :size].any())

    @cached_property
    def counts(self) -> Tensor:
        """How many values are left at each site ``(D,)``."""
        return (self.log_weights > -torch.inf).sum(-1)

    @property
    def fixed(self) -> Tensor:
        """Which sites have one value left ``(D,)``."""
        return self.counts == 1

    @property
    def num_states(self) -> int:
        """How many states are left."""
        return prod(self.counts.tolist())

    @cached_property
    def values(self) -> Tensor:
        """The values left at each site, ascending; then, as padding, those ruled out ``(D, V)``."""
        return (self.log_weights == -torch.inf).long().argsort(dim=-1, stable=True)

    def log_weight(self, x: States) -> PerState:
        """``Σ_d log e_d(x_d)`` ``(..., D) -> (...)``."""
        return self.log_weights[torch.arange(x.shape[-1], device=x.device), x].sum(-1)

    def uniform(self, n: int, generator: torch.Generator) -> States:
        """Rows of values that are left, each equally often ``(n, D)``."""
        unit = uniform((n, self.space.num_sites), generator, self.device)
        return self.state((unit * self.counts).long())

    def state(self, rank: States) -> States:
        """States from the ranks of their values among those that are left ``(..., D) -> (..., D)``."""
        return self.values[torch.arange(rank.shape[-1], device=rank.device), rank]

    def rank(self, x: States) -> States:
        """The inverse of `state`."""
        return self.values.argsort(-1)[torch.arange(x.shape[-1], device=x.device), x]


@dataclass(frozen=True, eq=False)
class Restricted:
    """``q(x) Π_d e_d(x_d)`` as a density of the values that are left, on a space of these alone.

    Whatever draws from a density thereby draws from the conditional: nothing ruled out can even be named.

    >>> from concrete_score.targets import pmf
    >>> evidence = Evidence.of(Space((3,)), {0: torch.tensor([0.0, float("-inf"), 0.0])})
    >>> restricted = Restricted(pmf([0.2, 0.5, 0.3]), evidence)
    >>> restricted.space.sizes, restricted.log_density(torch.tensor([[0], [1]])).exp().tolist()
    ((2,), [0.2, 0.3])
    """

    model: DensityModel
    evidence: Evidence
    normalized: bool = field(default=False, init=False)

    @cached_property
    def space(self) -> Space:
        return Space(tuple(self.evidence.counts.tolist()))

    def log_density(self, x: States) -> PerState:
        """``(..., D) -> (...)``, of ranks among the values left."""
        states = self.evidence.state(x)
        return self.model.log_density(states).double() + self.evidence.log_weight(states)


@dataclass(frozen=True, eq=False)
class TiltedScore:
    """A score model's ratios of ``q(x) Π_d e_d(x_d)``, at states that are not ruled out.

        log-ratio(x → y) + Σ_d log e_d(y_d) - log e_d(x_d)

    >>> from concrete_score.models import DensityScore
    >>> from concrete_score.neighborhoods import hamming
    >>> from concrete_score.targets import pmf
    >>> p = pmf([0.2, 0.5, 0.3])
    >>> evidence = Evidence.of(p.space, {0: torch.tensor([0.0, float("-inf"), 0.0])})
    >>> TiltedScore(DensityScore(p, hamming(p.space)), evidence).log_ratios(torch.tensor([[0]])).exp()
    tensor([[0.0000, 1.5000]], dtype=torch.float64)
    """

    model: ScoreModel
    evidence: Evidence

    @property
    def neighborhood(self) -> Neighborhood:
        return self.model.neighborhood

    def log_ratios(self, x: States) -> PerSlot:
        """``(C, D) -> (C, K)``; -inf towards a state that is ruled out."""
        ratios, n = self.model.log_ratios(x).double(), self.neighborhood
        if isinstance(n, SiteNeighborhood):
            site, value = all_edits(n, x)
            shift = self.evidence.log_weights[site, value] - self.evidence.log_weights[site, x.gather(-1, site)]
        else:
            shift = self.evidence.log_weight(n.neighbors(x)) - self.evidence.log_weight(x)[..., None]
        return torch.where(n.valid(x), ratios + shift, 0.0)

    def starts(self, x: States, observed: Tensor, generator: torch.Generator) -> tuple[States, PerState]:
        """Where chains may start: as many rows as ``x`` that are not ruled out, all of one weight."""
        return self.evidence.uniform(len(x), generator), torch.zeros(len(x), dtype=torch.float64, device=x.device)
