"""Transition matrices from the formulas of the theory, over enumerable spaces: the exact twins of the kernels.

Nothing here calls a kernel's step. A state of probability zero, where no chain ever is, keeps its place.
"""

from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.protocols import DensityModel, Neighborhood
from concrete_score.spaces import Space

LIMIT = 2**12
"""The largest space whose matrix is written down."""


@torch.no_grad()
def density_log_ratios(model: DensityModel) -> Tensor:
    """``log q(y) - log q(x)`` between all states ``(S, S)``, rows x; NaN in rows of probability zero."""
    value = model.log_density(model.space.enumerate(LIMIT)).double()
    return value - torch.where(value == -torch.inf, torch.nan, value)[:, None]


def same_clamped(space: Space, clamped: Any) -> Tensor:
    """Which pairs of states agree on the clamped sites ``(S, S)``; ``clamped`` is ``(D,)`` bool or None."""
    states = space.enumerate(LIMIT)
    free = torch.ones(space.num_sites, dtype=torch.bool) if clamped is None else ~torch.as_tensor(clamped)
    if free.shape != (space.num_sites,) or free.dtype != torch.bool:
        came = f"{free.dtype} of shape {tuple(free.shape)}"
        raise InputError(f"one bool mask of shape ({space.num_sites},)", came, where="clamped")
    return ((states[:, None] == states) | free).all(-1)


def free_sites(space: Space, clamped: Any) -> list[int]:
    """The sites that may move."""
    return [d for d in range(space.num_sites) if clamped is None or not clamped[d]]


def edges(neighborhood: Neighborhood, clamped: Any = None) -> Tensor:
    """The adjacency matrix ``(S, S)`` bool, without the edges that change a clamped site."""
    neighborhood.space.check_enumerable(LIMIT)
    adjacency = torch.from_numpy(neighborhood.adjacency().toarray()) > 0
    return adjacency & same_clamped(neighborhood.space, clamped)


def proposal(log_weights: Tensor, allowed: Tensor) -> Tensor:
    """``log Q[i, j]`` proportional to weights on the allowed pairs ``(S, S)``; -inf elsewhere, and in rows of none."""
    masked = torch.where(allowed, log_weights, -torch.inf)
    return masked - masked.logsumexp(-1, keepdim=True).where(allowed.any(-1, keepdim=True), 0.0)


def metropolis(log_proposal: Tensor, log_ratios: Tensor, laziness: float = 0.0) -> Tensor:
    """``P = (1 - λ) [Q min(1, π_j Q_ji / π_i Q_ij) + rest stays] + λ I`` ``(S, S)``.

    Args:
        log_proposal: ``log Q`` ``(S, S)``.
        log_ratios: ``log π_j - log π_i`` where ``Q_ij > 0``; a row with NaN is a state of probability zero.
        laziness: λ.
    """
    possible = (log_proposal > -torch.inf) & (log_ratios > -torch.inf)  # false for NaN too
    log_accept = (log_ratios + log_proposal.T - log_proposal).clamp_max(0)
    move = torch.where(possible, (log_proposal + log_accept).exp(), 0.0)
    return lazy(rest_stays(move), laziness)


def rest_stays(move: Tensor) -> Tensor:
    """The probability that does not move away stays ``(S, S)``."""
    away = move - torch.diag(move.diagonal())
    return away + torch.diag((1 - away.sum(-1)).clamp_min(0))


def lazy(matrix: Tensor, laziness: float) -> Tensor:
    """``(1 - λ) P + λ I``."""
    return (1 - laziness) * matrix + laziness * torch.eye(len(matrix), dtype=matrix.dtype)


def single_site_table(space: Space, others: Tensor) -> Tensor:
    """A table over other values of each site ``(S, D, V-1)`` as a matrix over pairs of states ``(S, S)``.

    NaN where two states are equal or differ in more than one site.
    """
    states = space.enumerate(LIMIT)
    matrix = torch.full((len(states),) * 2, torch.nan, dtype=torch.float64)
    for d, size in enumerate(space.sizes):
        for v in range(size):
            source = (states[:, d] != v).nonzero().squeeze(-1)
            target = states[source].clone()
            target[:, d] = v
            rank = torch.where(states[source, d] < v, v - 1, v)
            matrix[source, space.index(target)] = others[source, d, rank].double()
    return matrix


def factorized_proposal(space: Space, log_weights: Tensor, clamped: Any = None) -> Tensor:
    """``log Q[i, j] = Σ_d log softmax(0 at x_d, weights at the others)[y_d]`` ``(S, S)``.

    Args:
        space: enumerable.
        log_weights: of the other values of each site at each state ``(S, D, V-1)``.
        clamped: sites that keep their value ``(D,)``.
    """
    states = space.enumerate(LIMIT)
    total = torch.zeros((len(states),) * 2, dtype=torch.float64)
    for d in free_sites(space, clamped):
        value = torch.arange(space.sizes[d])
        own = states[:, d : d + 1]
        rank = torch.where(value > own, value - 1, value).clamp_max(log_weights.shape[-1] - 1)
        logits = torch.where(value == own, 0.0, log_weights[:, d].double().gather(1, rank))
        total += logits.log_softmax(-1)[:, states[:, d]]
    return torch.where(same_clamped(space, clamped), total, -torch.inf)
