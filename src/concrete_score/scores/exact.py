"""Exact Concrete scores of any density on any neighborhood (paper, section 3.1).

The Concrete score of ``p`` at ``x`` is ``c(x)_k = p(N(x)_k) / p(x) - 1`` (definition 2). The library works with the
log-ratio ``l = log p(N(x)_k) - log p(x)``, so ``c = expm1(l)``; probabilities are never divided.
"""

import torch
from torch import Tensor
from torch.nn import functional

from concrete_score.errors import InputError
from concrete_score.protocols import DensityModel, LocalFields, Neighborhood, SiteNeighborhood
from concrete_score.shapes import PerSlot, PerSlotTable, PerStateTable, States
from concrete_score.spaces import check_same_space

CHUNK = 2**18
"""How many sites (states × D) are evaluated at a time."""


def log_ratios(density: DensityModel, neighborhood: Neighborhood, x: States, chunk: int = CHUNK) -> PerSlot:
    """``log q(N(x)_k) - log q(x)`` of any density, exact and in bounded memory.

    States and their neighbors go through ``log_density`` together, about ``chunk / D`` at a time, and invalid slots
    are not evaluated at all. Gradients flow.

    Args:
        density: normalized or not.
        neighborhood: on the same space.
        x: ``(..., D)``.

    Returns:
        ``(..., K)``; -inf towards states of probability zero, 0.0 at invalid slots.

    Raises:
        InputError: a state in ``x`` has probability zero, so no ratio to it is defined.

    >>> from concrete_score.neighborhoods import cycle
    >>> from concrete_score.targets import pmf
    >>> p = pmf([0.5, 0.25, 0.25])
    >>> log_ratios(p, cycle(p.space), torch.tensor([[0], [1], [2]])).exp().flatten().tolist()
    [0.5, 1.0, 2.0]
    """
    check_same_space(density.space, neighborhood.space, "density and neighborhood")
    if isinstance(density, LocalFields) and isinstance(neighborhood, SiteNeighborhood):
        return _field_ratios(density, neighborhood, x)
    rows = x.reshape(-1, x.shape[-1])
    step = max(1, chunk // (x.shape[-1] * (1 + neighborhood.num_slots)))
    parts = [_row_log_ratios(density, neighborhood, rows[i : i + step], chunk) for i in range(0, len(rows), step)]
    if not parts:
        return torch.empty((*x.shape[:-1], neighborhood.num_slots), device=x.device)
    return torch.cat(parts).reshape(*x.shape[:-1], neighborhood.num_slots)


def _row_log_ratios(density: DensityModel, neighborhood: Neighborhood, rows: Tensor, chunk: int) -> Tensor:
    row, slot = neighborhood.valid(rows).nonzero(as_tuple=True)
    step = max(1, chunk // rows.shape[-1])
    here, there = None, []
    for start in range(0, max(1, len(row)), step):
        part = slice(start, start + step)
        near = neighborhood.neighbor(rows[row[part]], slot[part])
        if here is None:  # the rows themselves share the first pass
            values = density.log_density(torch.cat([rows, near]))
            here, values = values[: len(rows)], values[len(rows) :]
        else:
            values = density.log_density(near)
        there.append(values)
    if here is None:  # pragma: no cover - the loop runs at least once
        raise RuntimeError("no pass was made")
    _refuse_zero(here, rows)
    ratio = torch.cat(there) - here[row]
    return ratio.new_zeros((len(rows), neighborhood.num_slots)).index_put((row, slot), ratio)


def _field_ratios(density: LocalFields, neighborhood: SiteNeighborhood, x: Tensor) -> Tensor:
    """All ratios of single-site changes in one pass, as differences of local fields ``(..., K)``."""
    table = functional.pad(density.local_fields(x), (1, 0))
    slot = torch.arange(neighborhood.num_slots, device=x.device).expand(*x.shape[:-1], -1)
    site, value = neighborhood.edit(x[..., None, :].expand(*slot.shape, -1), slot)
    here = table.gather(-1, x.long()[..., None]).squeeze(-1).gather(-1, site)
    # What an invalid slot leads to is masked, whatever it is.
    there = table.flatten(-2).gather(-1, site * table.shape[-1] + value.clamp(0, table.shape[-1] - 1))
    return torch.where(neighborhood.valid(x), there - here, 0.0)


def concrete_scores(density: DensityModel, neighborhood: Neighborhood, x: States, chunk: int = CHUNK) -> PerSlot:
    """The Concrete score ``c(x; N) = p(N(x)_k) / p(x) - 1`` (definition 2); -1 towards probability zero.

    >>> from concrete_score.neighborhoods import cycle
    >>> from concrete_score.targets import pmf
    >>> p = pmf([0.5, 0.25, 0.25])
    >>> concrete_scores(p, cycle(p.space), torch.tensor([[0], [2]])).flatten().tolist()
    [-0.5, 1.0]
    """
    return log_ratios(density, neighborhood, x, chunk).expm1()


def _refuse_zero(log_density: Tensor, rows: Tensor) -> None:
    zero = log_density.detach() == -torch.inf
    if zero.any():
        state = rows[int(zero.nonzero()[0])].tolist()
        raise InputError(
            "states of positive probability",
            f"the state {state} of probability zero",
            where="x",
            fix="a ratio to nothing is undefined: ask only for states of the support",
        )


def pmf_log_ratios(pmf: PerStateTable, neighborhood: Neighborhood) -> PerSlotTable:
    """Log-ratios of a strictly positive pmf at every state of an enumerable space ``(S,) -> (S, K)``.

    >>> from concrete_score.neighborhoods import cycle
    >>> from concrete_score.spaces import Space
    >>> pmf_log_ratios(torch.tensor([0.5, 0.25, 0.25]), cycle(Space((3,)))).exp().flatten().tolist()
    [0.5, 1.0, 2.0]
    """
    zero = (pmf <= 0).nonzero()
    if len(zero):
        state = neighborhood.space.state(zero[0, 0]).tolist()
        raise InputError(
            "a strictly positive pmf",
            f"{float(pmf[zero[0, 0]])} at {state}",
            where="pmf",
            fix="use `log_ratios` on its support",
        )
    states = neighborhood.space.enumerate()
    log_pmf, target = pmf.log(), neighborhood.space.index(neighborhood.neighbors(states))
    return log_pmf[target] - log_pmf[:, None]  # an invalid slot leads to x itself: 0.0
