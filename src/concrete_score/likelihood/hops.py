"""Shortest ways between the values of a site, along the site's own graph."""

from dataclasses import dataclass
from functools import cache, cached_property

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.neighborhoods import Product, SiteRule


@dataclass(frozen=True, eq=False)
class Hops:
    """A fixed path from a reference state to any state: site after site, each by the fewest edges.

    A hop is one edge of one site. Site d has as many as its farthest value needs; a state that needs fewer rests.

    Args:
        neighborhood: a product of one-site graphs.
        reference: where every path starts ``(D,)``.
        order: of the sites.

    Raises:
        InputError: a value cannot be reached from the reference.
    """

    neighborhood: Product
    reference: Int[Tensor, " sites"]
    order: tuple[int, ...]

    @cached_property
    def site(self) -> Int[Tensor, " hops"]:
        """Which site each hop changes ``(T,)``."""
        counts = self._counts
        return torch.repeat_interleave(torch.tensor(self.order), counts[list(self.order)])

    @cached_property
    def rank(self) -> Int[Tensor, " hops"]:
        """The how-manieth hop of its site each is ``(T,)``."""
        counts = self._counts[list(self.order)]
        return torch.arange(len(self.site)) - torch.repeat_interleave(counts.cumsum(0) - counts, counts)

    def edges(
        self, x: Int[Tensor, "rows sites"]
    ) -> tuple[Int[Tensor, "rows hops sites"], Int[Tensor, "rows hops"], Bool[Tensor, "rows hops"]]:
        """For states ``(N, D)``: the hops' starts ``(N, T, D)``, their slots ``(N, T)``, and which are needed."""
        site, rank = self.site.to(x.device), self.rank.to(x.device)
        walk = self._walk(x)
        value, to = walk[rank, :, site].T, walk[rank + 1, :, site].T
        place = torch.empty(x.shape[-1], dtype=torch.int64, device=x.device)
        place[torch.tensor(self.order, device=x.device)] = torch.arange(x.shape[-1], device=x.device)
        done = place < place[site][:, None]
        start = torch.where(done, x[:, None], self.reference.to(x.device))
        start = start.scatter(-1, site.expand(len(x), -1)[..., None], value[..., None])
        slot = (
            self._first_slot.to(x.device)[site]
            + self._tables.slot.to(x.device)[self._kind.to(x.device)[site], value, to]
        )
        return start, slot.clamp_min(0), value != to

    def _walk(self, x: Tensor) -> Tensor:
        """Each site's value after 0, 1, … hops ``(1 + most, N, D)``."""
        kind, following = self._kind.to(x.device), self._tables.following.to(x.device)
        values = [self.reference.to(x.device).expand_as(x)]
        for _ in range(int(self._counts.max())):
            values.append(following[kind, values[-1], x])
        return torch.stack(values)

    @cached_property
    def _counts(self) -> Tensor:
        """Hops of each site ``(D,)``."""
        distance = self._tables.distance[self._kind, self.reference]
        far = distance > max(self.neighborhood.space.sizes)
        if far.any():
            site, value = (int(k) for k in far.nonzero()[0])
            raise InputError(
                "a reference from which every value is reached",
                f"no way from {int(self.reference[site])} to {value} at site {site}",
                where="reference",
                fix="start at the first value of a one-way chain, or use a symmetric neighborhood",
            )
        return distance.amax(-1)

    @cached_property
    def _distinct(self) -> list[tuple[SiteRule, int]]:
        return list(dict.fromkeys(zip(self.neighborhood.rules, self.neighborhood.space.sizes, strict=True)))

    @cached_property
    def _kind(self) -> Tensor:
        kinds = {kind: i for i, kind in enumerate(self._distinct)}
        pairs = zip(self.neighborhood.rules, self.neighborhood.space.sizes, strict=True)
        return torch.tensor([kinds[pair] for pair in pairs])

    @cached_property
    def _first_slot(self) -> Tensor:
        pairs = zip(self.neighborhood.rules, self.neighborhood.space.sizes, strict=True)
        counts = torch.tensor([rule.num_slots(size) for rule, size in pairs])
        return counts.cumsum(0) - counts

    @cached_property
    def _tables(self) -> "_Tables":
        most = max(self.neighborhood.space.sizes)
        parts = [_site_tables(rule, size) for rule, size in self._distinct]
        return _Tables(*(torch.stack([_pad(part, most) for part in column]) for column in zip(*parts, strict=True)))


@dataclass(frozen=True, eq=False)
class _Tables:
    """One square table a kind of site ``(kinds, V, V)``, indexed by a value and where it wants to go."""

    following: Tensor
    """The next value on a shortest way."""
    distance: Tensor
    """How many edges it has."""
    slot: Tensor
    """The slot of an edge, within its site; -1 where there is none."""


@cache
def _site_tables(rule: SiteRule, size: int) -> tuple[Tensor, Tensor, Tensor]:
    import numpy as np
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    slot = torch.full((size, size), -1)
    value = torch.arange(size)
    for k in range(rule.num_slots(size)):
        local = torch.full_like(value, k)
        ok = rule.valid(value, local, size)
        slot[value[ok], rule.step(value, local, size)[ok]] = k
    # Predecessors on the reversed graph, seen from the goal, are successors on the way there.
    backwards = csr_array((slot.T >= 0).numpy().astype(float))
    distance, before = shortest_path(backwards, method="D", unweighted=True, return_predecessors=True)
    following = torch.from_numpy(before.astype("int64")).T
    following = torch.where(following < 0, value[:, None], following)
    unreached = np.where(np.isinf(distance), 2.0**31, distance).T
    return following, torch.from_numpy(unreached).long(), slot


def _pad(table: Tensor, size: int) -> Tensor:
    out = table.new_zeros((size, size))
    out[: len(table), : len(table)] = table
    return out
