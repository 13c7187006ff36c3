"""The model that absorbing noise makes: draw an order of the sites, then each site given those before it.

    p(x) = 1/D! Σ_order Π_i P(x_{order i} | the sites before it),
    log p(x) ≥ 1/D! Σ_order Σ_i log P(x_{order i} | the sites before it).

The bound is what `HiddenValue` learns by. With whole orders drawn, the logarithm of the mean of K orders' probabilities
lies between the two in expectation, and nears the first as K grows (Burda et al., 2016). With fewer passes than sites,
those of a pass are drawn independently of one another: another, coarser model, whose bound is the same sum over blocks
of sites.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError, check_count
from concrete_score.noise import Absorbing
from concrete_score.randomness import uniform
from concrete_score.shapes import PerState, PerStateTable, States

CHUNK = 2**20
"""Sites (rows × D) evaluated at a time."""


@dataclass(frozen=True, eq=False)
class AnyOrder:
    """A model of hidden sites as the any-order autoregressive model it is, with its bound and its density.

    Args:
        model: with ``noise``, absorbing, and ``clean_log_probs``.
        passes: in which a state is drawn; one a site by default, which is the model's own.

    >>> from concrete_score import Space
    >>> from concrete_score.models.masked import IdealMasked
    >>> p = torch.tensor([0.1, 0.2, 0.3, 0.4]).double()
    >>> chain = AnyOrder(IdealMasked.of(p, Absorbing(Space.bits(2), (0.5, 0.0))))
    >>> torch.allclose(chain.log_density().exp(), p)
    True
    """

    model: Any
    passes: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(getattr(self.model, "noise", None), Absorbing):
            raise InputError("a model of hidden sites", type(self.model).__name__, where="model")
        if self.passes is not None:
            check_count(self.passes, "passes")

    @property
    def noise(self) -> Absorbing:
        noise: Absorbing = self.model.noise
        return noise

    @torch.no_grad()
    def estimate(
        self,
        rows: States,
        generator: torch.Generator,
        draws: int,
        report: Callable[[int], None] | None = None,
        observed: Tensor | None = None,
        given: Tensor | None = None,
    ) -> PerState:
        """Unbiased estimates of the rows' bounds, one pass a draw; the draws of a row are spread over the passes.

        Args:
            rows: ``(N, D)``.
            generator: the source of orders.
            draws: of each row.
            report: called after each draw with how many were made.
            observed: which cells count, bool ``(N, D)``; blanks are unknown from first to last.
            given: cells that are visible from the first on, bool ``(N, D)``: the bound is on the log-likelihood of
                the other observed cells in what `Unmasking` draws with these clamped, which is
                ``log p(others | these)`` where the head's conditionals are those of one distribution.

        Returns:
            ``(N,)`` in float64.
        """
        seen = torch.ones_like(rows, dtype=torch.bool) if observed is None else observed
        shown = torch.zeros_like(seen) if given is None else given
        total = torch.zeros(len(rows), dtype=torch.float64, device=rows.device)
        for draw in range(draws):
            place = (draw + uniform((len(rows),), generator, rows.device)) / draws
            key = uniform(tuple(rows.shape), generator, rows.device)
            for part in torch.split(torch.arange(len(rows), device=rows.device), max(1, CHUNK // rows.shape[-1])):
                total[part] += self._term(rows[part], seen[part], shown[part], place[part], key[part])
            if report is not None:
                report(draw + 1)
        return total / draws

    @torch.no_grad()
    def over_orders(
        self,
        rows: States,
        generator: torch.Generator,
        orders: int,
        observed: Tensor | None = None,
        given: Tensor | None = None,
    ) -> PerState:
        """``log 1/K Σ_k p(x | order k)`` over K whole orders of each row: a closer bound, for K chains ``(N,)``.

        Its mean is at most ``log p(x)`` of the model of so many passes, and ``exp`` of it has mean p(x).

        Args:
            rows: ``(N, D)``.
            generator: the source of orders.
            orders: of each row, K.
            observed, given: as for `estimate`.
        """
        check_count(orders, "orders")
        seen = torch.ones_like(rows, dtype=torch.bool) if observed is None else observed
        shown = torch.zeros_like(seen) if given is None else given
        found = torch.zeros(orders, len(rows), dtype=torch.float64, device=rows.device)
        for order in found:
            key = uniform(tuple(rows.shape), generator, rows.device)
            for part in torch.split(torch.arange(len(rows), device=rows.device), max(1, CHUNK // rows.shape[-1])):
                passes = self._passes((seen & ~shown)[part])
                for this in range(int(passes.max())):
                    now = passes.new_full(passes.shape, this)
                    order[part] += self._pass(rows[part], seen[part], shown[part], now, key[part])
        return found.logsumexp(0) - log(orders)

    def _passes(self, drawn: Tensor) -> Tensor:
        """Of rows whose ``drawn`` cells are to be drawn ``(n,)``."""
        count = drawn.sum(-1)
        return count if self.passes is None else count.clamp_max(self.passes)

    def _term(self, rows: Tensor, seen: Tensor, shown: Tensor, place: Tensor, key: Tensor) -> Tensor:
        """The pass at ``place`` in [0, 1) of each row's chain, times how many passes there are ``(n,)``."""
        passes = self._passes(seen & ~shown)
        this = (place * passes).long().minimum((passes - 1).clamp_min(0))
        return passes * self._pass(rows, seen, shown, this, key)

    def _pass(self, rows: Tensor, seen: Tensor, shown: Tensor, this: Tensor, key: Tensor) -> Tensor:
        """The log-probability of what pass ``this`` of each row's chain draws; 0 beyond the last ``(n,)``."""
        drawn = seen & ~shown
        count, passes = drawn.sum(-1), self._passes(drawn)
        before, after = (number * count // passes.clamp_min(1) for number in (this, this + 1))
        rank = torch.where(drawn, key, 2.0).argsort(-1).argsort(-1)
        now = drawn & (rank >= before[:, None]) & (rank < after[:, None])
        noisy = self.noise.hide(rows, ~shown & (~seen | (rank >= before[:, None])))
        own = self.model.clean_log_probs(noisy).double().gather(-1, rows.long()[..., None]).squeeze(-1)
        return torch.where(now, own, 0.0).sum(-1)

    @torch.no_grad()
    def log_density(self) -> PerStateTable:
        """``log p(x)`` of every state of an enumerable space, one site a pass, by summing over all orders ``(S,)``.

        What has been revealed after i passes is a state of the noisy space; its probability is summed over the site
        that came last.
        """
        if self.passes is not None and self.passes < self.noise.space.num_sites:
            raise InputError("one site a pass", f"{self.passes} passes", where="passes", fix="leave it out")
        space, noisy = self.noise.space, self.noise.noisy_space
        states = noisy.enumerate()
        hidden = self.noise.hidden(states)
        table = torch.zeros(len(states), *self.model.clean_log_probs(states[:1]).shape[1:], dtype=torch.float64)
        some = hidden.any(-1)
        table[some] = self.model.clean_log_probs(states[some]).double()
        visible = space.num_sites - hidden.sum(-1)
        p = torch.where(visible == 0, 0.0, -torch.inf).double()
        for count in range(1, space.num_sites + 1):
            here = (visible == count).nonzero().squeeze(-1)
            terms = torch.full((len(here), space.num_sites), -torch.inf, dtype=torch.float64)
            for site in range(space.num_sites):
                shown = (~hidden[here, site]).nonzero().squeeze(-1)
                z = states[here[shown]]
                value = z[:, site]
                before = noisy.index(self.noise.hide(z, torch.arange(space.num_sites) == site))
                terms[shown, site] = p[before] + table[before, site, value]
            p[here] = terms.logsumexp(-1) - log(space.num_sites - count + 1)
        return p[visible == space.num_sites]
