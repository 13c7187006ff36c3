"""The density of a score model along paths: log-ratios summed from a reference state (paper, theorem 1).

See docs/mathematics.md, "Likelihood bounds".
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import factorial
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from concrete_score.errors import InputError, check_count
from concrete_score.likelihood.exact import check_finite
from concrete_score.neighborhoods import Product, SiteRule
from concrete_score.protocols import ScoreModel
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space

CHUNK = 2**20
"""How many numbers (path states × (sites + slots)) are handled at a time."""


@dataclass(frozen=True, eq=False)
class PathDensity:
    """``log q(x) = Σ_t l(y_{t-1} → y_t)`` along one fixed path ``y_0 = reference, …, y_T = x`` per state.

    The path takes the sites in order and moves each from the reference's value to ``x``'s by the fewest edges of the
    neighborhood; on `hamming` and flips, that is one edge a site and at most D passes of the model. A density model
    that is not normalized: bounds on its likelihood are for *this* density. For consistent scores it is theirs, up to
    a constant, whatever the reference and the order.

    Args:
        model: a score model whose edges change one site, such as on `hamming` or a grid.
        reference: a state of positive probability ``(D,)``; zeros by default.
        order: of the sites; natural by default.

    Raises:
        InputError: edges that change several sites, a value that cannot be reached, or a wrong reference or order.

    >>> from concrete_score.models.score import DensityScore
    >>> from concrete_score.neighborhoods import hamming
    >>> from concrete_score.targets import pmf
    >>> p = pmf([[0.1, 0.2], [0.3, 0.4]])
    >>> PathDensity(DensityScore(p, hamming(p.space))).log_density(p.space.enumerate()).exp()   # 0.1 becomes 1
    tensor([1.0000, 2.0000, 3.0000, 4.0000], dtype=torch.float64)
    """

    model: Any
    reference: Any = None
    order: Sequence[int] | None = field(default=None)

    def __post_init__(self) -> None:
        n = getattr(self.model, "neighborhood", None)
        if not isinstance(n, Product) or not isinstance(self.model, ScoreModel):
            came = type(self.model).__name__ if n is None else type(n).__name__
            raise InputError("a score model whose edges change one site", came, where="model", fix="use `hamming`")
        zeros = torch.zeros(n.space.num_sites, dtype=torch.int64)
        start = n.space.check(zeros if self.reference is None else self.reference, "reference")
        if start.shape != zeros.shape:
            expected = f"one state ({n.space.num_sites},)"
            raise InputError(expected, f"shape {tuple(start.shape)}", where="reference")
        order = tuple(range(n.space.num_sites)) if self.order is None else tuple(int(d) for d in self.order)
        if sorted(order) != list(range(n.space.num_sites)):
            raise InputError(f"the sites 0 to {n.space.num_sites - 1} in some order", str(order[:8]), where="order")
        object.__setattr__(self, "reference", start)
        object.__setattr__(self, "order", order)
        self._hops.site  # noqa: B018 - built, and thereby checked, at once

    @property
    def space(self) -> Space:
        space: Space = self.model.neighborhood.space
        return space

    @property
    def normalized(self) -> bool:
        """Never: the reference has log-density 0."""
        return False

    def log_density(self, x: States) -> PerState:
        """``(..., D) -> (...)`` in float64; every state of every path goes through the model once."""
        rows = x.reshape(-1, x.shape[-1])
        n = self.model.neighborhood
        step = max(1, CHUNK // max(1, len(self._hops.site) * (n.num_slots + n.space.num_sites)))
        parts = [self._sum(part) for part in torch.split(rows, step)]
        return torch.cat(parts).reshape(x.shape[:-1])

    def _sum(self, x: Tensor) -> Tensor:
        start, slot, needed = self._hops.edges(x)
        total = torch.zeros(len(x), dtype=torch.float64, device=x.device)
        row, hop = needed.nonzero(as_tuple=True)
        if not len(row):
            return total
        ratios = self.model.log_ratios(start[row, hop]).double()
        return total.index_add(0, row, ratios.gather(-1, slot[row, hop][:, None]).squeeze(-1))

    @cached_property
    def _hops(self) -> "Hops":
        n = self.model.neighborhood
        if not isinstance(n, Product):  # pragma: no cover - checked when built
            raise TypeError("paths need a product neighborhood")
        return Hops(n, self.reference, tuple(self.order or ()))


class PathSpread(NamedTuple):
    """How much a score model's density depends on the path: zero for the scores of a distribution."""

    mean: float
    """The mean over rows of the standard deviation over orders, in nats."""
    worst: float
    """The largest of a row."""
    per_row: Tensor
    """``(N,)``."""


@torch.no_grad()
def path_spread(
    model: Any, x: States, generator: torch.Generator, orders: int = 4, reference: Any = None
) -> PathSpread:
    """The standard deviation of `PathDensity` over different random orders of the sites, for each row ``(N, D)``.

    Args:
        model: a score model whose edges change one site.
        x: ``(N, D)``.
        generator: of the orders.
        orders: how many, at least 2; of few sites no more than there are.
        reference: where all paths start.

    >>> from concrete_score.models.score import DensityScore
    >>> from concrete_score.neighborhoods import hamming
    >>> from concrete_score.targets import Ising
    >>> model = Ising((2, 3), 0.4)
    >>> x = model.space.enumerate()
    >>> path_spread(DensityScore(model, hamming(model.space)), x, torch.Generator().manual_seed(0)).worst < 1e-12
    True
    """
    check_count(orders, "orders", 2)
    sites = PathDensity(model, reference).space.num_sites
    drawn: dict[tuple[int, ...], None] = {}
    while len(drawn) < min(orders, factorial(min(sites, 20))):  # all different: of two equal ones nothing is learned
        order = torch.randperm(sites, generator=generator, device=generator.device)
        drawn[tuple(order.tolist())] = None
    values = torch.stack([PathDensity(model, reference, order).log_density(x) for order in drawn])
    check_finite(values, "log-density", "the score model is broken on the way, or the reference is impossible")
    spread = values.std(0) if len(values) > 1 else torch.zeros_like(values[0])
    return PathSpread(float(spread.mean()), float(spread.max()), spread)


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
        """The position of each hop among those of its site ``(T,)``."""
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
