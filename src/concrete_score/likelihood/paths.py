"""The density of a score model along paths: log-ratios summed from a reference state (paper, theorem 1; DESIGN M12)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import factorial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.likelihood.hops import Hops
from concrete_score.likelihood.schedules import check_count
from concrete_score.likelihood.weights import check_finite
from concrete_score.neighborhoods import Product
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

    >>> from concrete_score.models.derived import DensityScore
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
        """The neighborhood's."""
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
    def _hops(self) -> Hops:
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

    >>> from concrete_score.models.derived import DensityScore
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
