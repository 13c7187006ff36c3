"""Local fields of pairwise models for many chains at once, in the layout and precision that make a step cheap.

States are *marks* ``(V-1, D, C)``: 1 where a site of a chain has value v = 1, 2, …; chains vary fastest, so that a
neighbor's marks are one contiguous row. Everything is float32: its rounding moves a log-ratio by about 1e-6.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, singledispatch
from typing import Any, NamedTuple, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import functional

from concrete_score.protocols import DensityModel, State
from concrete_score.shapes import States
from concrete_score.spaces import Space
from concrete_score.targets.pairwise import Pairwise

BLOCK = 16
"""Sites whose couplings among each other a sweep applies one by one."""
NEVER = -1e30
"""A log-ratio that stands for -inf, and may be multiplied by 0."""


@runtime_checkable
class PairwiseLike(DensityModel, Protocol):
    """A density that is a pairwise model."""

    def pairwise(self) -> Pairwise:
        """The same density by its fields and couplings."""
        ...


@runtime_checkable
class Couplings(Protocol):
    """The linear map from marks to fields, without the bias and up to a scale."""

    @property
    def scale(self) -> float: ...

    def __call__(self, z: Tensor) -> Tensor:
        """``(V-1, D, C) -> (V-1, n, C)``."""
        ...

    def at(self, sites: Tensor) -> "Couplings":
        """Of some sites only."""
        ...

    def renumbered(self, places: Tensor) -> "Couplings":
        """For marks whose site d stands at ``places[d]``."""
        ...

    @property
    def pulls(self) -> tuple["Pull", ...]:
        """For each site, what a change of it does to the fields of the others."""
        ...


class Pull(NamedTuple):
    """A column of the couplings, with their scale."""

    where: Tensor | None
    """The sites it reaches ``(n,)``; None for all of them."""
    column: Tensor
    """``(n, 1)`` of bits; else ``((V-1) D, V-1)`` where it reaches all, ``(V-1, n, V-1)`` where not."""


class Triangles(NamedTuple):
    """Couplings of bits, sites in the order of a sweep."""

    order: Tensor
    back: Tensor
    """Where each site stands in the order."""
    upper: Tensor
    """What pulls at a site from those that come after it ``(D, D)``."""
    blocks: tuple[tuple[int, int, Tensor, tuple[Tensor, ...]], ...]
    """From, to, couplings to all earlier blocks ``(n, from)``, and columns of those within ``(n, 1)``, 0 upwards."""


@dataclass(frozen=True, eq=False)
class MatrixCouplings:
    """One product with a matrix ``((V-1) n, (V-1) D)``."""

    matrix: Tensor
    width: int

    scale = 1.0

    def __call__(self, z: Tensor) -> Tensor:
        """One product."""
        if self.width == 1:
            return (self.matrix @ z[0])[None]
        found = self.matrix @ z.reshape(self.matrix.shape[1], -1)
        return found.reshape(self.width, -1, z.shape[-1])

    def at(self, sites: Tensor) -> "MatrixCouplings":
        rows = self.matrix.reshape(self.width, -1, self.matrix.shape[1])[:, sites]
        return MatrixCouplings(rows.flatten(0, 1), self.width)

    def renumbered(self, places: Tensor) -> "MatrixCouplings":
        columns = self.matrix.reshape(len(self.matrix), self.width, -1)[:, :, places.argsort()]
        return MatrixCouplings(columns.flatten(1).contiguous(), self.width)

    def triangles(self, order: Sequence[int]) -> Triangles:
        """The couplings of bits for a sweep in some order; kept for the last ones asked for."""
        return _triangles(self, tuple(order))

    @cached_property
    def pulls(self) -> tuple[Pull, ...]:
        """Columns of the matrix."""
        sites = self.matrix.shape[1] // self.width
        columns = self.matrix.reshape(len(self.matrix), self.width, sites).permute(2, 0, 1).contiguous()
        return tuple(Pull(None, column) for column in columns.unbind(0))


@lru_cache(maxsize=8)
def _triangles(couplings: MatrixCouplings, order: tuple[int, ...]) -> Triangles:
    sites = torch.tensor(order, device=couplings.matrix.device)
    matrix = couplings.matrix[sites][:, sites]
    blocks = []
    for start in range(0, len(order), BLOCK):
        end = min(start + BLOCK, len(order))
        inside = matrix[start:end, start:end].tril(-1).T[..., None].contiguous().unbind(0)
        blocks.append((start, end, matrix[start:end, :start].contiguous(), inside))
    return Triangles(sites, sites.argsort(), matrix.triu(1), tuple(blocks))


@dataclass(frozen=True, eq=False)
class NeighborCouplings:
    """Sums over neighbors.

    Args:
        other: the neighbors of each site ``(n, K)``.
        weights: of each of them ``(n, K)``, or None where all are 1.
        mixing: how a neighbor's value pulls at a site's ``(V-1, V-1)``, the same for all; or ``(V-1, V-1, n, K)``.
            One of ``(1, 1)`` is the scale.
    """

    other: Tensor
    weights: Tensor | None
    mixing: Tensor

    def __call__(self, z: Tensor) -> Tensor:
        if self.mixing.ndim == 4:
            width = range(len(self.mixing))
            return torch.stack([sum(self._bag(z[b], self.mixing[a, b]) for b in width) for a in width])  # type: ignore[misc]
        if len(z) == 1:
            return self._bag(z[0], self.weights)[None]
        found = torch.stack([self._bag(each, self.weights) for each in z])
        return (self.mixing @ found.flatten(1)).reshape(found.shape)

    def at(self, sites: Tensor) -> "NeighborCouplings":
        weights = None if self.weights is None else self.weights[sites]
        mixing = self.mixing[:, :, sites].contiguous() if self.mixing.ndim == 4 else self.mixing
        return replace(self, other=self.other[sites], weights=weights, mixing=mixing)

    def renumbered(self, places: Tensor) -> "NeighborCouplings":
        return replace(self, other=places[self.other])

    @cached_property
    def pulls(self) -> tuple[Pull, ...]:
        """The other way round: whom a site reaches, for every site."""
        sites = len(self.other)
        target = torch.arange(sites, device=self.other.device)[:, None].expand_as(self.other).flatten()
        table = self.mixing if self.mixing.ndim == 4 else self.mixing[..., None, None].expand(-1, -1, *self.other.shape)
        table = (table if self.weights is None else table * self.weights).flatten(2)
        used = (table != 0).flatten(0, 1).any(0)  # the rest is padding
        source, target, table = self.other.flatten()[used], target[used], table[..., used]
        groups = torch.split(source.argsort(stable=True), torch.bincount(source, minlength=sites).tolist())
        if len(table) == 1:
            return tuple(Pull(target[each], table[0, 0, each, None].contiguous()) for each in groups)
        return tuple(Pull(target[each], table[..., each].permute(0, 2, 1).contiguous()) for each in groups)

    @cached_property
    def scale(self) -> float:
        """What a call leaves to be multiplied."""
        return float(self.mixing) if self.mixing.shape == (1, 1) else 1.0

    def _bag(self, rows: Tensor, weights: Tensor | None) -> Tensor:
        return functional.embedding_bag(self.other, rows, mode="sum", per_sample_weights=weights)


@dataclass(frozen=True, eq=False)
class LinearFields:
    """Fields ``f = factor · (bias + strength · couplings(z))`` and the density they belong to.

    Args:
        space: of the states.
        couplings: from marks to fields.
        bias: ``(V-1, D, 1)``; `NEVER` beyond a site's size.
        constant: ``log q(0)``.
        strength: of the couplings; annealing between a base and a target scales them.
        factor: an inverse temperature, or several that chains take in turn ``(R,)``.
    """

    space: Space
    couplings: Couplings
    bias: Tensor = field(repr=False)
    constant: float
    strength: float = 1.0
    factor: Tensor | None = None

    def fields(self, z: Tensor) -> Tensor:
        """Without the factor ``(V-1, D, C)``."""
        return torch.add(self.bias, self.couplings(z), alpha=self.strength * self.couplings.scale)

    def log_density(self, z: Tensor, fields: Tensor) -> Tensor:
        """``log q``, without the factor, from marks and their fields ``(C,)`` in float64."""
        return ((fields + self.bias) * z).sum((0, 1), dtype=torch.float64).mul_(0.5).add_(self.constant)

    def factors(self, chains: int) -> Tensor | None:
        """The factor of each chain ``(C,)``, or one for all ``(1,)``, or None for 1."""
        if self.factor is None or len(self.factor) == 1:
            return self.factor
        return self.factor.repeat(chains // len(self.factor))


def marks(space: Space, x: States) -> Tensor:
    """States ``(C, D)`` as marks ``(V-1, D, C)``, chains fastest.

    >>> marks(Space((2, 3)), torch.tensor([[1, 2]])).squeeze(-1).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    value = torch.arange(1, max(space.sizes), device=x.device)[:, None, None]
    return (x.T[None] == value).to(torch.float32, memory_format=torch.contiguous_format)


def values(z: Tensor) -> States:
    """Marks as states ``(V-1, D, C) -> (C, D)`` int64.

    >>> values(marks(Space((2, 3)), torch.tensor([[1, 2], [0, 1]]))).tolist()
    [[1, 2], [0, 1]]
    """
    if len(z) == 1:
        return z[0].to(torch.int64).T
    found = z[0].clone()
    for v in range(2, len(z) + 1):
        found.add_(z[v - 1], alpha=v)
    return found.to(torch.int64).T


class MarkedState(State):
    """Chains whose kernel remembers marks ``memory.z``: the states themselves are made when they are first read."""

    def __init__(self, x: Any = None, clamped: Tensor | None = None, memory: Any = None) -> None:
        object.__setattr__(self, "clamped", clamped)
        object.__setattr__(self, "memory", memory)

    @cached_property
    def x(self) -> States:
        """``(C, D)`` int64."""
        return values(self.memory.z)


@singledispatch
def linear_fields(model: Any) -> LinearFields | None:
    """The linear fields of a pairwise model; None for any other. ``linear_fields.register`` adds views of such models.

    >>> from concrete_score.targets import Ising, pmf
    >>> linear_fields(Ising((3, 3), 0.4)).bias.shape, linear_fields(pmf([0.5, 0.5]))
    (torch.Size([1, 9, 1]), None)
    """
    return _of_pairwise(model.pairwise()) if isinstance(model, PairwiseLike) else None


_KNOWN: WeakKeyDictionary[Pairwise, LinearFields] = WeakKeyDictionary()


@torch.no_grad()
def _of_pairwise(model: Pairwise) -> LinearFields:
    """Kept while the model lives: annealing asks for it at every temperature."""
    if model not in _KNOWN:
        gauge = model.gauge
        bias = gauge.bias.T.nan_to_num(neginf=NEVER).to(torch.float32)[..., None].contiguous()
        _KNOWN[model] = LinearFields(model.space, _couplings(model), bias, float(gauge.constant))
    return _KNOWN[model]


def _couplings(model: Pairwise) -> Couplings:
    width = max(model.space.sizes) - 1
    if model.dense or not width:
        matrix = model.matrix.permute(1, 0, 3, 2).to(torch.float32)
        return MatrixCouplings(matrix.flatten(2).flatten(0, 1).contiguous(), width)
    other, table = model.neighbors
    weights, mixing = _common(table)
    if mixing is None:
        return NeighborCouplings(other, None, table.permute(2, 3, 0, 1).to(torch.float32).contiguous())
    same = weights[0, 0]
    if bool((weights == same).all()):
        return NeighborCouplings(other, None, (same * mixing).to(torch.float32))
    return NeighborCouplings(other, weights.to(torch.float32), mixing.to(torch.float32))


def _common(table: Tensor) -> tuple[Tensor, Tensor | None]:
    """Couplings ``(D, K, V-1, V-1)`` as numbers times one matrix, where they are that exactly."""
    flat = table.flatten(2)
    largest = flat.square().sum(-1).flatten().argmax()
    mixing = flat.flatten(0, 1)[largest]
    weights = flat @ mixing / mixing.square().sum().clamp_min(torch.finfo(flat.dtype).tiny)
    off = (flat - weights[..., None] * mixing).abs().max()
    alike = bool(off <= 1e-12 * mixing.abs().max()) and bool(torch.equal(table, table.transpose(-1, -2)))
    return weights, mixing.reshape(table.shape[2:]) if alike else None
