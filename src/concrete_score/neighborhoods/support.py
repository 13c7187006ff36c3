"""Is the observed data one piece? Connectivity of a neighborhood restricted to the states seen (paper, theorem 1).

Scores on the edges of a neighborhood determine a distribution only where its support is connected. This looks every
neighbor of every distinct row up in a hash table of the rows: near-linear in rows × slots, for any number of sites.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.neighborhoods.base import CHUNK
from concrete_score.protocols import Neighborhood, SiteNeighborhood
from concrete_score.randomness import generator
from concrete_score.shapes import States
from concrete_score.spaces import Space


@dataclass(frozen=True, eq=False)
class SupportDiagnosis:
    """What a neighborhood sees of a data set."""

    rows: int
    distinct: int
    """Distinct states among the rows."""
    num_components: int
    """Weak components of the neighborhood restricted to the distinct states."""
    component_shares: tuple[float, ...]
    """Share of the rows in each component, largest first."""
    edges: int
    """Directed edges that leave an observed state."""
    observed_edges: int
    """Those of them that lead to an observed state."""
    states: Tensor = field(repr=False)
    """The distinct states ``(distinct, D)``, sorted by component, largest first."""
    component: Tensor = field(repr=False)
    """The component of each of ``states`` ``(distinct,)``."""

    @property
    def largest_share(self) -> float:
        """Share of the rows in the largest component."""
        return self.component_shares[0]

    @property
    def observed_edge_share(self) -> float:
        """Share of the edges with both ends observed."""
        return self.observed_edges / self.edges if self.edges else 0.0

    @property
    def connected(self) -> bool:
        """Whether all observed states form one component."""
        return self.num_components == 1


def diagnose_support(states: States, neighborhood: Neighborhood) -> SupportDiagnosis:
    """Components among observed states, the share of rows in each, and the share of edges inside the support.

    Args:
        states: rows ``(N, D)``, possibly in narrow storage.
        neighborhood: any neighborhood on the rows' space.

    >>> from concrete_score.neighborhoods import hamming
    >>> rows = torch.tensor([[0, 0], [0, 1], [1, 0]])
    >>> diagnose_support(rows, hamming(Space.bits(2))).num_components
    1
    >>> diagnose_support(torch.tensor([[0, 0], [1, 1]]), hamming(Space.bits(2))).component_shares
    (0.5, 0.5)
    """
    if not len(states):
        raise InputError("at least one row", "none", where="states")
    table = _HashTable(neighborhood.space, states)
    pairs, edges, found = [], 0, 0
    for source, target, count in _observed_neighbors(table, neighborhood):
        pairs.append(torch.stack([source, target]))
        edges, found = edges + count, found + len(source)
    label = _components(torch.cat(pairs, -1) if pairs else torch.empty((2, 0), dtype=torch.int64), len(table.rows))
    mass = torch.bincount(label, weights=table.count.double())
    rank = mass.argsort(descending=True, stable=True)
    label = rank.argsort()[label]
    order = label.argsort(stable=True)
    return SupportDiagnosis(
        rows=len(states),
        distinct=len(table.rows),
        num_components=len(mass),
        component_shares=tuple((mass[rank] / mass.sum()).tolist()),
        edges=edges,
        observed_edges=found,
        states=table.rows[order],
        component=label[order],
    )


class _HashTable:
    """Distinct rows found by a random additive hash, so that editing one site costs one addition.

    ``h(x) = Σ_d T[d, x_d] mod 2**64``. Every hit is compared with the row itself: the answer is exact.
    """

    def __init__(self, space: Space, states: Tensor) -> None:
        self.space = space
        offset = torch.tensor([0, *space.sizes]).cumsum(0)
        bounds = torch.iinfo(torch.int64)
        for attempt in range(8):
            source = generator(attempt, "support hash")
            self.salts = torch.randint(bounds.min, bounds.max, (int(offset[-1]),), generator=source)
            self.offset = offset[:-1]
            key = self.hash(states)
            order = key.argsort(stable=True)
            self.key, sorted_rows = key[order], states[order]
            new = torch.ones(len(states), dtype=torch.bool)
            new[1:] = self.key[1:] != self.key[:-1]
            first = new.nonzero().squeeze(-1)
            group = new.cumsum(0) - 1
            # Rows that share a key must be equal; two different ones need another draw of salts.
            if _equal_rows(sorted_rows, sorted_rows[first], group):
                break
        else:
            raise InputError("rows that hash apart", "eight collisions in a row", where="states")
        self.key, self.rows = self.key[first], sorted_rows[first]
        self.count = torch.bincount(group, minlength=len(first))

    def hash(self, states: Tensor) -> Tensor:
        """``(..., D) -> (...)``, in chunks of rows."""
        flat = states.reshape(-1, states.shape[-1])
        out = torch.empty(len(flat), dtype=torch.int64)
        step = max(1, CHUNK * 16 // flat.shape[-1])
        for start in range(0, len(flat), step):
            out[start : start + step] = self.salt_of(None, flat[start : start + step]).sum(-1)
        return out.reshape(states.shape[:-1])

    def salt_of(self, site: Tensor | None, value: Tensor) -> Tensor:
        """``T[site, value]``; ``site=None`` means values of all sites along the last axis."""
        return self.salts[(self.offset if site is None else self.offset[site]) + value]

    def find(self, key: Tensor) -> Tensor:
        """Position of a row with this key, -1 where there is none."""
        at = torch.searchsorted(self.key, key).clamp_max(len(self.key) - 1)
        return torch.where(self.key[at] == key, at, -1)


def _equal_rows(rows: Tensor, firsts: Tensor, group: Tensor) -> bool:
    step = max(1, CHUNK * 16 // rows.shape[-1])
    return all(
        torch.equal(rows[start : start + step], firsts[group[start : start + step]])
        for start in range(0, len(rows), step)
    )


def _observed_neighbors(table: _HashTable, neighborhood: Neighborhood) -> Iterator[tuple[Tensor, Tensor, int]]:
    """For chunks of rows: source and target positions of the observed edges, and how many edges there were."""
    keys_of = _edited_keys if isinstance(neighborhood, SiteNeighborhood) else _neighbor_keys
    step = max(1, CHUNK * 4 // max(1, neighborhood.num_slots))
    slots = torch.arange(neighborhood.num_slots)
    for start in range(0, len(table.rows), step):
        x = table.rows[start : start + step].long()
        valid = neighborhood.valid(x)
        target = table.find(keys_of(table, neighborhood, x, table.key[start : start + step], slots))
        row, slot = ((target >= 0) & valid).nonzero(as_tuple=True)
        hit = target[row, slot]
        real = (neighborhood.neighbor(x[row], slot) == table.rows[hit]).all(-1)
        yield row[real] + start, hit[real], int(valid.sum())


def _edited_keys(table: _HashTable, neighborhood: Neighborhood, x: Tensor, key: Tensor, slots: Tensor) -> Tensor:
    """Keys of all neighbors ``(b, K)`` when each changes one site: one subtraction, one addition."""
    if not isinstance(neighborhood, SiteNeighborhood):
        raise TypeError("only neighborhoods that edit one site have edited keys")
    shape = (len(x), len(slots))
    site, value = neighborhood.edit(x[:, None].expand(*shape, -1), slots.expand(shape))
    old = x.gather(-1, site)
    return key[:, None] - table.salt_of(site, old) + table.salt_of(site, value)


def _neighbor_keys(table: _HashTable, neighborhood: Neighborhood, x: Tensor, key: Tensor, slots: Tensor) -> Tensor:
    return table.hash(neighborhood.neighbors(x))


def _components(pairs: Tensor, size: int) -> Tensor:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    source, target = pairs.int().numpy()  # before SciPy 1.17 its graph routines take no other indices
    graph = coo_array((torch.ones(len(source), dtype=torch.bool).numpy(), (source, target)), shape=(size, size))
    return torch.from_numpy(connected_components(graph, directed=False)[1]).long()
