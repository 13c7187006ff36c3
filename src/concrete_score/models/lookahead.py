"""Factors that let a draw of a blank see what is observed after it in the order of an autoregressive model.

Blanks that are drawn each given the sites before it miss what is known of later sites, and draws that do not agree
with it weigh next to nothing. So a blank d is drawn from ``q(v | before) g_d(v) / Z`` instead, and weighs
``Z / g_d(v)``: any factors above zero leave the mean of the weights what it is (docs/mathematics.md, "Blanks"). Good
ones make the weights alike. Here they come from pairs of columns, with c the observed later column that says most
about d:

    g_d(v) = p(x_c | x_d = v) / p(x_c).
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from concrete_score.models.layers import draw_categories
from concrete_score.models.pairs import pair_counts
from concrete_score.shapes import States
from concrete_score.spaces import Space

ROWS = 20_000
"""Rows at most whose pairs are counted."""
VALUES = 4_096
"""Values of all sites together, at most, for the tables of all their pairs."""
CHILDREN = 8
"""Later sites of each site that are looked at, those that say most about it."""
PRIOR = 1.0
"""What ``p(x_c)`` counts beside the rows, in rows."""


Tell = Callable[[int, Tensor, Tensor, Tensor], None]
"""Receives a site, the rows where it is blank ``(B,)``, the distribution each is drawn from ``(B, size)``, and the
log-weight it has whatever is drawn ``(B,)``."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """What each value of a site says about those of others, whatever the order."""

    offsets: Tensor
    """Where a site's values begin among all values ``(D,)``."""
    tables: tuple[Tensor, ...]
    """``log p(x_c = u | x_d = v) / p(x_c = u)``, for each site d ``(all values u, size of d)``."""
    gain: Tensor
    """What site c says about site d in the rows, beyond what chance alone would ``[d, c]`` ``(D, D)``."""

    @classmethod
    def of(cls, rows: States, space: Space, observed: Tensor | None = None) -> "Pairs | None":
        """Counted in rows ``(N, D)`` of which some cells are ``observed``; None if the tables would be too large."""
        if not 1 < space.num_sites <= sum(space.sizes) <= VALUES or not len(rows):
            return None
        sizes = space.sizes_tensor(rows.device)
        offsets = torch.tensor([0, *accumulate(space.sizes)][:-1], device=rows.device)
        counts = pair_counts(rows[:ROWS], space, None if observed is None else observed[:ROWS])
        site = torch.arange(len(sizes), device=rows.device).repeat_interleave(sizes)
        of_site = torch.nn.functional.one_hot(site).to(counts)
        marginal = counts.diagonal() / (counts.diagonal() @ of_site)[site].clamp_min(1.0)
        both = (counts @ of_site)[:, site]
        ratio = ((counts + PRIOR * marginal) / (both + PRIOR)).log() - marginal.log()
        ratio = torch.where(marginal > 0, ratio, 0.0)
        gain = of_site.T @ (counts * ratio) @ of_site
        # What pairs that say nothing of each other gain on average, by chance alone.
        gain = gain - (sizes[:, None] - 1) * (sizes - 1) / 2
        tables = torch.split(ratio.T.float(), list(space.sizes), 1)
        return cls(offsets, tuple(table.contiguous() for table in tables), gain)

    def ahead(self, order: Tensor) -> "LookAhead":
        """For draws in an order."""
        return LookAhead(_best_later(self.gain, order), self.offsets, self.tables)


@dataclass(frozen=True, eq=False)
class LookAhead:
    """Pair tables of a space's sites, in a model's order."""

    children: Tensor
    """The later sites that say most about each site, the best first ``(D, C)``; itself where there are none."""
    offsets: Tensor
    """As in `Pairs`."""
    tables: tuple[Tensor, ...]
    """As in `Pairs`."""

    @classmethod
    def of(cls, rows: States, space: Space, order: Tensor, observed: Tensor | None = None) -> "LookAhead | None":
        """Counted in rows ``(N, D)`` of which some cells are ``observed``; None if the tables would be too large.

        >>> a = torch.arange(100) % 2
        >>> ahead = LookAhead.of(torch.stack([a, a], 1), Space.bits(2), torch.tensor([0, 1]))
        >>> factor = ahead.log_factor(0, torch.tensor([[0], [1]]), torch.tensor([[False, True]]))
        >>> bool(factor[0, 1] > factor[0, 0] + 4)
        True
        """
        pairs = Pairs.of(rows, space, observed)
        return None if pairs is None else pairs.ahead(order)

    def log_factor(self, site: int, values: Tensor, observed: Tensor) -> Tensor:
        """``log g`` of every value of a site ``(n, size)``; 0 where nothing after it is observed.

        Args:
            site: d.
            values: what the rows hold, a line for each site ``(D, n)``.
            observed: which of it is known ``(n, D)``.
        """
        children = self.children[site]
        known = observed[:, children] & (children != site)
        child = children[known.byte().argmax(1)]
        at = self.offsets[child] + values.gather(0, child[None])[0]
        return torch.where(known.any(1)[:, None], self.tables[site][at], 0.0)


def _best_later(gain: Tensor, order: Tensor) -> Tensor:
    """Of each site the later ones of positive gain, the best first ``(D, C)``; else itself."""
    place = order.argsort()
    gain = torch.where(place > place[:, None], gain, 0.0)
    best = gain.topk(min(CHILDREN, len(order)), 1)
    return torch.where(best.values > 0, best.indices, torch.arange(len(order), device=order.device)[:, None])


class Looks(NamedTuple):
    """What blanks are drawn by, and who is told: of a batch that begins at some row."""

    ahead: "LookAhead | None" = None
    tell: Tell | None = None
    start: int = 0


def draw_unseen(
    logits: Tensor,
    unit: Tensor,
    site: int,
    values: Tensor,
    observed: Tensor,
    log_weight: Tensor,
    looks: "Looks",
) -> Tensor:
    """Values of a site ``(n,)``: what was observed, and draws from ``q(v) g(v) / Z`` where nothing was.

    Args:
        logits: of each value ``(size, n)``.
        unit: float64 uniforms ``(n,)``.
        site: whose values.
        values: what the rows hold so far ``(D, n)``.
        observed: which of it is known ``(n, D)``.
        log_weight: receives ``log q`` of what was observed, and ``log Z / g`` of what is drawn ``(n, K)``.
        looks: gives g, and is told the distributions.
    """
    value, blank = values[site].clone(), (~observed[:, site]).nonzero().squeeze(-1)
    gain = (logits.gather(0, value[None])[0] - logits.logsumexp(0)).double()
    if len(blank):
        table, gain[blank] = logits[:, blank].T.double(), 0.0
        factor = None if looks.ahead is None else looks.ahead.log_factor(site, values[:, blank], observed[blank])
        tilted = table if factor is None else table + factor
        value[blank] = drawn = draw_categories(tilted, unit[blank, None]).squeeze(-1)
        total = tilted.logsumexp(-1) - table.logsumexp(-1)
        if looks.tell is not None:
            looks.tell(site, blank + looks.start, tilted.softmax(-1), log_weight[blank, 0] + total)
        if factor is not None:
            gain[blank] = total - factor.gather(1, drawn[:, None])[:, 0]
    log_weight += gain[:, None]
    return value
