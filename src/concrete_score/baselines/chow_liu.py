"""The Chow–Liu tree: the best density in which every site depends on at most one other (Chow and Liu, 1968)."""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree
from torch import Tensor

from concrete_score.baselines.conditionals import Observed, PerValue, by_rows, check_possible, point_masses
from concrete_score.baselines.counts import (
    PSEUDO_COUNT,
    check_pseudo_count,
    check_states,
    log_normalized,
    one_hot,
    row_chunks,
    site_counts,
    smoothed,
    valid_values,
)
from concrete_score.baselines.forests import Forest
from concrete_score.errors import InputError
from concrete_score.models.pairs import count_pair, counts_apart
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space, check_query

PAIR_FLOATS = 2**24
"""How many pair counts to hold at once (128 MB of float64); more take several passes over the data."""


@dataclass(frozen=True, eq=False)
class ChowLiu:
    """``q(x) = Π_d q_d(x_d | x_parent(d))`` on a tree or a forest.

    Args:
        space: any finite product space.
        parents: the parent of each site; -1 for a root.
        log_tables: ``log q_d(v | u)`` as ``[d, u, v]`` ``(D, V, V)`` float64; -inf where ``u`` or ``v`` does not exist.

    Raises:
        InputError: tables of another shape, or parents that are no sites or run in a circle.

    >>> tree = ChowLiu.fit([[0, 0, 1], [0, 0, 0], [1, 1, 0], [1, 1, 1]], Space.bits(3), pseudo_count=0)
    >>> tree.parents[1], tree.log_density(torch.tensor([[0, 0, 0], [0, 1, 0]])).exp().tolist()
    (0, [0.25, 0.0])
    >>> blank = torch.tensor([[True, False, True]])
    >>> tree.site_log_conditionals(torch.tensor([[1, 0, 0]]), blank).exp()[0, 1].tolist()
    [0.0, 1.0]
    """

    space: Space
    parents: tuple[int, ...]
    log_tables: Float[Tensor, "sites values values"]
    normalized: ClassVar[bool] = True

    def __post_init__(self) -> None:
        sites, values = self.space.num_sites, max(self.space.sizes)
        if tuple(self.log_tables.shape) != (sites, values, values):
            raise InputError(f"shape {(sites, values, values)}", f"{tuple(self.log_tables.shape)}", where="log_tables")
        if len(self.parents) != sites:
            raise InputError(f"{sites} parents", f"{len(self.parents)}", where="parents")
        _ = self._forest  # which refuses what is none

    @classmethod
    def fit(cls, states: Any, space: Space, *, pseudo_count: int | float = PSEUDO_COUNT) -> "ChowLiu":
        """The spanning tree of largest total mutual information, rooted at site 0, with

            q_d(v | u) = (count(u, v) + a / (sizes[d] sizes[p])) / (count_p(u) + a / sizes[p]),      p = parent(d)

        Mutual information is that of the data and the same ``a`` evenly spread rows, so the result is exactly the
        maximum-likelihood tree of both together. A parent's value without any count has a uniform child.

        Args:
            states: ``(N, D)`` integers, however narrow.
            space: the space they live in.
            pseudo_count: ``a``, the rows of evenly spread pseudo-data to add (see `baselines.counts`).

        Raises:
            InputError: no rows, a value outside the space, or a negative ``pseudo_count``.
        """
        pseudo_count, states = check_pseudo_count(pseudo_count), check_states(states, space)
        parents = maximum_spanning_tree(mutual_information(states, space, pseudo_count))
        valid = _valid_edges(space, parents, states.device)
        even = pseudo_count / valid.sum((1, 2), keepdim=True).double()
        counts = _edge_counts(states, parents, valid.shape[-1])
        return cls(space, parents, log_normalized(counts + even * valid, valid))

    def log_density(self, x: States) -> PerState:
        """``log q(x)`` ``(..., D) -> (...)``."""
        x = self.space.check(x)
        sites = torch.arange(self.space.num_sites, device=x.device)
        return self.log_tables[sites, self._forest.above(x), x].sum(-1)

    def sample(self, n: int, generator: torch.Generator) -> States:
        """``n`` independent exact draws ``(n, D)``, from the roots to the leaves."""
        nothing = torch.zeros(n, self.space.num_sites, dtype=torch.int64, device=self.log_tables.device)

        def draw(rows: Tensor, seen: Tensor) -> Tensor:
            # With nothing observed every message is 0, so the way up is saved.
            return self._forest.descend(self.log_tables, self._evidence(rows, seen), generator)

        return by_rows(draw, nothing, nothing.bool(), self.log_tables.numel())

    def log_marginal(self, x: States, observed: Observed) -> PerState:
        """``log q(observed cells)`` ``(...)``, what arrives at the hidden parent."""

        def answer(rows: Tensor, seen: Tensor) -> Tensor:
            beliefs, _ = self._forest.ascend(self.log_tables, self._evidence(rows, seen))
            return beliefs[:, -1, 0]

        return by_rows(answer, *check_query(x, observed, self.space), self.log_tables[:, 0].numel())

    def site_log_conditionals(self, x: States, observed: Observed) -> PerValue:
        """``log q(x_d = v | observed cells)`` ``(..., D, V)``, messages up the tree and back down."""
        x, observed = self._possible(x, observed)

        def answer(rows: Tensor, seen: Tensor) -> Tensor:
            messages = self._forest.ascend(self.log_tables, self._evidence(rows, seen))
            marginals = self._forest.marginals(self.log_tables, *messages)
            # The messages give an observed site its point mass only up to rounding.
            return torch.where(seen[..., None], point_masses(rows, marginals.shape[-1]), marginals)

        return by_rows(answer, x, observed, self.log_tables[:, 0].numel())

    def sample_given(self, x: States, observed: Observed, generator: torch.Generator) -> States:
        """``x`` with its unobserved cells drawn jointly ``(..., D)``: messages up, then a draw from the roots down."""
        x, observed = self._possible(x, observed)

        def draw(rows: Tensor, seen: Tensor) -> Tensor:
            beliefs, _ = self._forest.ascend(self.log_tables, self._evidence(rows, seen))
            return self._forest.descend(self.log_tables, beliefs, generator)

        return by_rows(draw, x, observed, self.log_tables.numel())

    def tilted(self, log_weights: Float[Tensor, "sites values"]) -> tuple["ChowLiu", Tensor]:
        """The same tree with tables ``q_d(v | u) e^{belief_d(v) - message_d(u)}`` of the messages up the tree."""
        tables, total = self._forest.tilted(self.log_tables, log_weights)
        return ChowLiu(self.space, self.parents, tables), total

    def _possible(self, x: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
        """The checked query; only tables with zeros can make one impossible, and only they pay for looking."""
        x, observed = check_query(x, observed, self.space)
        if self._has_zeros:
            check_possible(self.log_marginal(x, observed))
        return x, observed

    @cached_property
    def _forest(self) -> Forest:
        return Forest(self.parents)

    def _evidence(self, rows: Tensor, seen: Tensor) -> Tensor:
        return self._forest.evidence(rows, seen, self.log_tables.shape[-1])

    @cached_property
    def _has_zeros(self) -> bool:
        valid = _valid_edges(self.space, self.parents, self.log_tables.device)
        return bool(self.log_tables[valid].isneginf().any())


def _valid_edges(space: Space, parents: tuple[int, ...], device: torch.device) -> Tensor:
    """Which pairs of values ``[d, u, v]`` exist ``(D, V, V)``; a root's hidden parent has the value 0 alone."""
    valid = valid_values(space, device)
    hidden = torch.arange(valid.shape[-1], device=device) == 0
    above = torch.cat([valid, hidden[None]])[torch.tensor(parents, device=device)]
    return above[:, :, None] & valid[:, None, :]


def _edge_counts(states: Tensor, parents: tuple[int, ...], num_values: int) -> Tensor:
    """How often each pair of values ``[d, u, v]`` of a parent and its child occurs ``(D, V, V)``."""
    sites = len(parents)
    table = torch.zeros(sites * num_values**2, dtype=torch.int64, device=states.device)
    for rows in row_chunks(states, sites):
        above = torch.nn.functional.pad(rows, (0, 1))[:, torch.tensor(parents, device=rows.device)]
        site = torch.arange(sites, device=rows.device)
        table += ((site * num_values + above) * num_values + rows).flatten().bincount(minlength=len(table))
    return table.double().reshape(sites, num_values, num_values)


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
    total = len(states) + pseudo_count
    entropies = _entropies_apart if counts_apart(space) else _entropies_by_products
    pairs = entropies(states, space, pseudo_count)
    entropy = _minus_p_log_p(smoothed(site_counts(states, space), space, pseudo_count) / total).sum(-1)
    information = (entropy[:, None] + entropy - pairs).clamp_min(0.0)
    return information.fill_diagonal_(0.0) + entropy.diag()  # a site tells all of itself


def _entropies_apart(states: Tensor, space: Space, pseudo_count: float) -> Tensor:
    """``H(x_d, x_e)`` of all pairs of sites ``(D, D)``, counted pair by pair; 0 where d = e."""
    pairs = torch.zeros(space.num_sites, space.num_sites, dtype=torch.float64, device=states.device)
    for d, e in combinations(range(space.num_sites), 2):
        counts = count_pair(states, space, d, e) + pseudo_count / (space.sizes[d] * space.sizes[e])
        pairs[d, e] = pairs[e, d] = _minus_p_log_p(counts / (len(states) + pseudo_count)).sum()
    return pairs


def _entropies_by_products(states: Tensor, space: Space, pseudo_count: float) -> Tensor:
    """``H(x_d, x_e)`` of all pairs of sites ``(D, D)``, counted by products of one-hot rows."""
    sizes, total = space.sizes_tensor(states.device), len(states) + pseudo_count
    site = torch.arange(space.num_sites, device=states.device).repeat_interleave(sizes)
    pairs = torch.zeros(space.num_sites, space.num_sites, dtype=torch.float64, device=states.device)
    for columns in torch.split(torch.arange(len(site), device=states.device), max(1, PAIR_FLOATS // len(site))):
        even = pseudo_count / (sizes[site[columns], None] * sizes[site]).double()
        minus = _minus_p_log_p((_pair_counts(states, space, columns) + even) / total)
        rows = minus.new_zeros(len(columns), space.num_sites).index_add_(1, site, minus)
        pairs.index_add_(0, site[columns], rows)
    return pairs


def maximum_spanning_tree(weights: Float[Tensor, "sites sites"], root: int = 0) -> tuple[int, ...]:
    """The parent of each site in the spanning tree of largest total weight; -1 for the root.

    >>> maximum_spanning_tree(torch.tensor([[0., 0., 2.], [0., 0., 1.], [2., 1., 0.]]))
    (-1, 2, 0)
    """
    sites = len(weights)
    # As int32: before SciPy 1.17 its graph routines take no other indices.
    one, other = (each.astype(np.int32) for each in np.triu_indices(sites, k=1))
    # The tree depends on the order of the weights only. Ranks from 1 keep it and, unlike weights, are never 0,
    # which a sparse matrix would take for a missing edge.
    ranks = np.empty(len(one))
    ranks[np.argsort(-weights.cpu().numpy()[one, other], kind="stable")] = np.arange(1, len(one) + 1)
    tree = minimum_spanning_tree(coo_array((ranks, (one, other)), shape=(sites, sites)).tocsr())
    _, parents = breadth_first_order(tree, root, directed=False)
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
