"""The tree of largest total mutual information over the sites of a table (Chow and Liu, 1968)."""

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree
from torch import Tensor

from concrete_score.baselines.counts import one_hot, row_chunks, site_counts, smoothed
from concrete_score.spaces import Space

PAIR_FLOATS = 2**24
"""How many pair counts to hold at once (128 MB of float64); more take several passes over the data."""


def mutual_information(states: Tensor, space: Space, pseudo_count: float) -> Float[Tensor, "sites sites"]:
    """``I(x_d; x_e) = H(x_d) + H(x_e) - H(x_d, x_e)`` in nats, of the data and ``pseudo_count`` even rows.

    Args:
        states: ``(N, D)`` integers, checked.
        space: the space they live in.
        pseudo_count: rows of evenly spread pseudo-data to add (see `baselines.counts`).

    >>> rows = torch.tensor([[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]])
    >>> mutual_information(rows, Space.bits(3), 0.0)[0].exp().round(decimals=12).tolist()
    [2.0, 2.0, 1.0]
    """
    sizes = space.sizes_tensor(states.device)
    site = torch.arange(space.num_sites, device=states.device).repeat_interleave(sizes)
    total = len(states) + pseudo_count
    pairs = torch.zeros(space.num_sites, space.num_sites, dtype=torch.float64, device=states.device)
    for columns in torch.split(torch.arange(len(site), device=states.device), max(1, PAIR_FLOATS // len(site))):
        even = pseudo_count / (sizes[site[columns], None] * sizes[site]).double()
        minus = _minus_p_log_p((_pair_counts(states, space, columns) + even) / total)
        rows = minus.new_zeros(len(columns), space.num_sites).index_add_(1, site, minus)
        pairs.index_add_(0, site[columns], rows)
    entropy = _minus_p_log_p(smoothed(site_counts(states, space), space, pseudo_count) / total).sum(-1)
    information = (entropy[:, None] + entropy - pairs).clamp_min(0.0)
    return information.fill_diagonal_(0.0) + entropy.diag()  # a site tells all of itself


def maximum_spanning_tree(weights: Float[Tensor, "sites sites"]) -> tuple[int, ...]:
    """The parent of each site in the spanning tree of largest total weight, rooted at site 0; -1 for the root.

    >>> maximum_spanning_tree(torch.tensor([[0., 0., 2.], [0., 0., 1.], [2., 1., 0.]]))
    (-1, 2, 0)
    """
    sites = len(weights)
    one, other = np.triu_indices(sites, k=1)
    # The tree depends on the order of the weights only. Ranks from 1 keep it and, unlike weights, are never 0,
    # which a sparse matrix would take for a missing edge.
    ranks = np.empty(len(one))
    ranks[np.argsort(-weights.cpu().numpy()[one, other], kind="stable")] = np.arange(1, len(one) + 1)
    tree = minimum_spanning_tree(coo_array((ranks, (one, other)), shape=(sites, sites)).tocsr())
    _, parents = breadth_first_order(tree, 0, directed=False)
    return tuple(int(parent) if parent >= 0 else -1 for parent in parents)


def _pair_counts(states: Tensor, space: Space, columns: Tensor) -> Tensor:
    """How often each packed column of ``columns`` meets each other one ``(len(columns), S)``."""
    width = sum(space.sizes)
    counts = torch.zeros(len(columns), width, dtype=torch.float64, device=states.device)
    for rows in row_chunks(states, width):
        # float32 counts of one chunk are exact: a chunk has fewer than 2**24 rows.
        hot = one_hot(rows, space, torch.float32)
        counts += hot[:, columns].T @ hot
    return counts


def _minus_p_log_p(p: Tensor) -> Tensor:
    return -torch.xlogy(p, p)
