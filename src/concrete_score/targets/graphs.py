"""Pairwise models by name: Potts lattices, spin glasses, lattices in a field, independent sets of a graph."""

from math import cosh, log, sinh, sqrt, tanh
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError, check_count
from concrete_score.spaces import Space, as_tensor
from concrete_score.targets.pairwise import Pairwise


def lattice_edges(shape: tuple[int, int], periodic: bool = True) -> Tensor:
    """The bonds of a lattice whose places are numbered row by row ``(E, 2)``; sides longer than 2 may wrap around.

    >>> lattice_edges((2, 2)).tolist()
    [[0, 2], [1, 3], [0, 1], [2, 3]]
    """
    rows, columns = shape
    place = torch.arange(rows * columns).reshape(rows, columns)
    parts = []
    for axis, side in enumerate(shape):
        parts.append(torch.stack([place.narrow(axis, 0, side - 1), place.narrow(axis, 1, side - 1)], -1).reshape(-1, 2))
        if periodic and side > 2:
            parts.append(torch.stack([place.select(axis, 0), place.select(axis, side - 1)], -1))
    return torch.cat(parts)


def potts(shape: tuple[int, int], states: int, coupling: float, periodic: bool = True) -> Pairwise:
    """``log q(x) = J · (number of equal neighbors)`` on a lattice of ``states`` values a place.

    >>> potts((3, 3), 4, 0.5).log_density(torch.zeros(9, dtype=torch.int64)).item()   # 18 bonds
    9.0
    """
    check_count(states, "states", 2)
    edges = lattice_edges(shape, periodic)
    same = coupling * torch.eye(states, dtype=torch.float64)
    space = Space((states,) * (shape[0] * shape[1]))
    fields = torch.zeros(space.num_sites, states, dtype=torch.float64)
    return Pairwise(space, fields, same.expand(len(edges), -1, -1), edges)


def spin_glass(sites: int, inverse_temperature: float, generator: torch.Generator, field: float = 0.0) -> Pairwise:
    """``log q(x) = β Σ_{d<e} J_de s_d s_e + Σ_d h_d s_d``, J normal of variance 1/D (Sherrington and Kirkpatrick), h
    normal of standard deviation ``field``.

    >>> spin_glass(5, 1.0, torch.Generator().manual_seed(0)).edges.shape
    torch.Size([10, 2])
    """
    check_count(sites, "sites", 2)
    edges = torch.triu_indices(sites, sites, offset=1).T
    normal = torch.randn(len(edges) + sites, generator=generator, dtype=torch.float64, device=generator.device)
    pairs = inverse_temperature / sqrt(sites) * normal[: len(edges)]
    return Pairwise.of_spins(field * normal[len(edges) :], pairs, edges)


def disk_lattice(
    side: int, coupling: float, field: float, noise: float, generator: torch.Generator, periodic: bool = True
) -> Pairwise:
    """Spins on a square lattice in a field ``+field`` inside a disk and ``-field`` outside, each with uniform noise.

    The disk has half the lattice's side as its diameter, and its middle. In the convention of Grathwohl et al. (2021),
    ``log q(x) = ½ J Σ_d Σ_{e~d} s_d s_e + Σ_d h_d s_d``, so that each bond counts ``J``.

    >>> disk_lattice(6, 0.5, 0.5, 1.5, torch.Generator().manual_seed(0)).space.num_sites
    36
    """
    check_count(side, "side", 1)
    axis = torch.arange(side, dtype=torch.float64) - (side - 1) / 2
    inside = (axis[:, None] ** 2 + axis**2).sqrt() <= side / 4
    unit = torch.rand(side * side, generator=generator, dtype=torch.float64, device=generator.device)
    fields = torch.where(inside.flatten().to(unit.device), field, -field) + noise * (2 * unit - 1)
    edges = lattice_edges((side, side), periodic)
    return Pairwise.of_spins(fields, torch.full((len(edges),), coupling, dtype=torch.float64), edges)


def independent_set(sites: int, edges: Any, penalty: float = 1.0001, inverse_temperature: float = 1.0) -> Pairwise:
    """``log q(x) = β (Σ_d x_d - penalty Σ_{(d,e)} x_d x_e)``: with a penalty above 1 its modes are the largest
    independent sets of the graph, for dropping one end of a violated edge never costs anything.

    >>> path = independent_set(3, [[0, 1], [1, 2]])
    >>> path.log_density(torch.tensor([1, 0, 1])).item()
    2.0
    """
    if not penalty > 1:
        raise InputError("a penalty above 1", str(penalty), where="penalty", fix="1.0001 is usual")
    space, ends = Space.bits(sites), as_tensor(edges, "edges").long()
    fields = torch.zeros(sites, 2, dtype=torch.float64)
    fields[:, 1] = inverse_temperature
    table = torch.zeros(len(ends), 2, 2, dtype=torch.float64)
    table[:, 1, 1] = -penalty * inverse_temperature
    return Pairwise(space, fields, table, ends)


def erdos_renyi(sites: int, density: float, generator: torch.Generator) -> Tensor:
    """The edges of a random graph, each pair with probability ``density`` ``(E, 2)``.

    >>> erdos_renyi(3, 1.0, torch.Generator().manual_seed(0)).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    pairs = torch.triu_indices(sites, sites, offset=1).T
    return pairs[torch.rand(len(pairs), generator=generator, dtype=torch.float64) < density]


def torus_log_partition(shape: tuple[int, int], coupling: float) -> float:
    """``log Z`` of the periodic Ising lattice without a field, of any size with sides of at least 3 (Kaufman, 1949).

    >>> from concrete_score.targets.boltzmann import Ising
    >>> abs(torus_log_partition((4, 6), 0.37) - Ising((4, 6), 0.37).log_partition()) < 1e-10
    True
    """
    m, n = shape
    if min(shape) < 3 or not coupling > 0:
        raise InputError("sides of at least 3 and a positive coupling", f"{shape} and {coupling}", where="shape")
    k = torch.arange(2 * n, dtype=torch.float64)
    bulk = cosh(2 * coupling) ** 2 / sinh(2 * coupling) - torch.cos(torch.pi * k / n)
    gamma = torch.acosh(bulk)
    gamma[0] = 2 * coupling + log(tanh(coupling))  # the one that changes its sign
    odd, even = gamma[1::2], gamma[0::2]
    parts = []
    for each, sign in ((odd, 1.0), (odd, -1.0), (even, 1.0), (even, -1.0)):
        half = m * each / 2
        # log |2 cosh| or |2 sinh| of half, in a form that does not overflow
        parts.append((half.abs() + torch.log1p(sign * torch.exp(-2 * half.abs()))).sum())
    values = torch.stack(parts)
    signs = torch.tensor([1.0, 1.0, 1.0, 1.0 if float(gamma[0]) > 0 else -1.0], dtype=torch.float64)
    # Below the critical temperature the last term, a product of hyperbolic sines, has the sign of its first factor.
    top = values.max()
    total = (signs * (values - top).exp()).sum().log() + top
    return float(total) - log(2) + m * n / 2 * log(2 * sinh(2 * coupling))
