"""The distributions of blank cells from weighted draws, which cost about a pass each, whatever a site's size.

Blanks of a row are drawn K times, each given the sites before it (a model's ``propose_given``), and weighed by
``w = Π_{d observed} q(x_d | before)``. Then

    q(x_d = v | observed) ≈ Σ_k w_k 1[x_d^k = v] / Σ_k w_k.

The K draws of a row are not independent: the uniforms that they come from are points of a Sobol sequence, shifted at
random (Cranley and Patterson, 1976), the first blank of the order by the first coordinate and so on. Each draw alone
is distributed as before, and together they are spread far more evenly. Rows whose weights are poor are given more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from concrete_score.models.lookahead import ROWS, LookAhead
from concrete_score.randomness import uniform
from concrete_score.samplers.completions import CELLS, Impossible, Known, Rows

DRAWS, MORE = 16, 2
"""Draws of each row in the first round, and how many times as many in each further one: powers of two, for points of a
Sobol sequence are spread evenly in such numbers."""
EFFECTIVE = 8
"""Draws are enough if they count for so many, ``(Σw)² / Σw²``; evenly spread ones are worth more than that says."""
ROUNDS = 6
"""At most: 1,008 draws of a row."""
TOLD = 8
"""Times as many draws tell a distribution that is reported as fill a blank by its most probable value or its mean."""
SMOOTHING = 2.0
"""What the distributions that a blank was drawn from count beside the draws, in draws. They know more values than the
draws met, and less of what was observed after the blank."""
LEAST = 500
"""Draws of the model at least that pairs of columns are counted in."""


class Weighed(NamedTuple):
    """The distributions of the blanks of some rows."""

    row: Tensor
    """Of each blank ``(B,)``, among the rows given; ascending."""
    site: Tensor
    """``(B,)``."""
    log_probs: Tensor
    """``(B, V)``."""
    effective: Tensor
    """How many draws each row's count for ``(R,)``."""
    proposed: Tensor
    """How many there were ``(R,)``."""


@torch.no_grad()
def weigh_blanks(model: Any, x: Rows, observed: Known, generator: torch.Generator, effort: int = 1) -> Weighed:
    """The distribution of every blank of some rows ``(R, D)``, each with a blank at least.

    Args:
        model: with ``propose_given``.
        x: ``(R, D)``; what it holds in blank cells is ignored.
        observed: bool ``(R, D)``.
        generator: all randomness.
        effort: times the draws of each round, and the number that they must count for; a power of two.

    Raises:
        Impossible: a row none of whose draws has any weight.

    >>> from concrete_score.models import MADE
    >>> from concrete_score.spaces import Space
    >>> made = MADE(Space((3, 2)), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> seen = torch.tensor([[False, True]])
    >>> found = weigh_blanks(made, torch.tensor([[0, 1]]), seen, torch.Generator().manual_seed(0))
    >>> exact = made.log_density(torch.tensor([[0, 1], [1, 1], [2, 1]])).softmax(0)
    >>> bool((found.log_probs.exp() - exact).abs().max() < 0.02)
    True
    """
    # Looking ahead pays where its tables take a small part of the draws.
    paid = len(x) * DRAWS // 16
    pairs = model.sample(min(paid, ROWS), generator) if paid >= LEAST else x[:0]
    tally = _Tally.empty(model, x, observed, LookAhead.of(pairs, model.space, model.order))
    active, draws = torch.arange(len(x), device=x.device), DRAWS * effort
    for _ in range(ROUNDS):
        for rows in torch.split(active, max(1, CELLS // (draws * x.shape[1]))):
            tally.add(rows, draws, generator)
        active = (tally.effective < EFFECTIVE * effort).nonzero().squeeze(-1)
        draws *= MORE
        if not len(active):
            break
    return tally.found()


class _Told(NamedTuple):
    """What `made.Tell` receives."""

    site: int
    draw: Tensor
    probs: Tensor
    log_prior: Tensor


@dataclass(eq=False)
class _Tally:
    """Weights of values at the blanks of rows, summed over the draws so far."""

    model: Any
    x: Tensor
    observed: Tensor
    site: Tensor
    """The blanks of each row in the model's order, then observed sites ``(R, b)``."""
    place: Tensor
    """Which blank of its row a place in the order is; of observed ones any ``(R, D)``."""
    table: Tensor
    """``Σ w 1[x_d = v]``, relative to the row's total ``(R, b, V)``."""
    predicted: Tensor
    """The same sum of the distributions that the draws came from ``(R, b, V)``."""
    log_sum: Tensor
    log_square: Tensor
    count: Tensor
    ahead: LookAhead | None

    @classmethod
    def empty(cls, model: Any, x: Tensor, observed: Tensor, ahead: LookAhead | None = None) -> "_Tally":
        blank = ~observed[:, model.order]
        place = (blank.long().cumsum(1) - 1).clamp_min(0)
        width = int(blank.sum(1).max())
        site = model.order[(~blank).long().argsort(dim=1, stable=True)[:, :width]]
        table = torch.zeros(*site.shape, max(model.space.sizes), dtype=torch.float64, device=x.device)
        nothing = torch.full((len(x),), -torch.inf, dtype=torch.float64, device=x.device)
        sums = nothing, nothing.clone(), torch.zeros_like(nothing)
        return cls(model, x, observed, site, place, table, torch.zeros_like(table), *sums, ahead)

    @property
    def effective(self) -> Tensor:
        """``(R,)``; 0 while no draw has any weight."""
        return torch.where(self.log_sum > -torch.inf, (2 * self.log_sum - self.log_square).exp(), 0.0)

    def add(self, rows: Tensor, draws: int, generator: torch.Generator) -> None:
        """``draws`` more of some rows ``(r,)``."""
        shape = (len(rows), draws, -1)
        flat, known = (each[rows, None].expand(shape).flatten(0, 1) for each in (self.x, self.observed))
        units = self._units(rows, draws, generator)
        told: list[_Told] = []
        states, log_weight = self.model.propose_given(
            flat, known, generator, units=units, ahead=self.ahead, tell=lambda *each: told.append(_Told(*each))
        )
        states, log_weight = states.reshape(shape), log_weight.double().reshape(shape[:2])
        total = log_weight.logsumexp(1)
        after = torch.logaddexp(self.log_sum[rows], total)
        safe = torch.where(after > -torch.inf, after, 0.0)
        weight = (log_weight - torch.where(total > -torch.inf, total, 0.0)[:, None]).exp()
        old, new = ((each - safe).exp()[:, None, None] for each in (self.log_sum[rows], total))
        table, predicted = self._averaged(told, rows, states.transpose(1, 2), weight)
        self.table[rows] = self.table[rows] * old + table * new
        self.predicted[rows] = self.predicted[rows] * old + predicted * new
        self.log_sum[rows] = after
        self.log_square[rows] = torch.logaddexp(self.log_square[rows], (2 * log_weight).logsumexp(1))
        self.count[rows] += draws

    def found(self) -> Weighed:
        """What the draws say, smoothed by the predictions."""
        impossible = (self.log_sum == -torch.inf).nonzero()
        if len(impossible):
            first = int(impossible[0, 0])
            raise Impossible(first, f"none of {int(self.count[first]):,} ancestral draws that agrees with them")
        effective = self.effective
        probs = effective[:, None, None] * self.table.clamp_min(0) + SMOOTHING * self.predicted
        probs = probs / probs.sum(-1, keepdim=True).clamp_min(torch.finfo(probs.dtype).tiny)
        # Blanks by row and site, as everywhere; those of a row lie in the model's order here.
        row, place = (~self.observed.gather(1, self.site)).nonzero(as_tuple=True)
        site = self.site[row, place]
        order = (row * self.x.shape[1] + site).argsort()
        return Weighed(row[order], site[order], probs[row, place][order].log(), effective, self.count)

    def _units(self, rows: Tensor, draws: int, generator: torch.Generator) -> Tensor:
        """Evenly spread uniforms of each row's draws, one for each place in the order ``(r draws, D)``."""
        width = self.site.shape[1]
        engine: Any = SobolEngine(width)  # type: ignore[no-untyped-call]
        points: Tensor = engine.draw(draws, dtype=torch.float64).to(rows.device)
        spread = (points + uniform((len(rows), 1, width), generator, rows.device)) % 1
        place = self.place[rows, None].expand(-1, draws, -1)
        return spread.gather(2, place).flatten(0, 1)

    def _averaged(self, told: Sequence[_Told], rows: Tensor, value: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The estimate of each blank's distribution by the draws of some rows, and by what they were drawn from.

        Args:
            told: of each site, what `made.Tell` receives.
            rows: ``(r,)``.
            value: what was drawn ``(r, D, draws)``.
            weight: normalized over the draws of a row ``(r, draws)``.

        Returns:
            Both ``(r, b, V)``.
        """
        table = self.table.new_zeros(len(rows), *self.table.shape[1:])
        predicted, order = torch.zeros_like(table), self.model.order.argsort()
        for site in sorted({each.site for each in told}):
            draw, probs, log_prior = (
                torch.cat(parts) for parts in zip(*(each[1:] for each in told if each.site == site), strict=True)
            )
            row = draw.reshape(-1, weight.shape[1])[:, 0] // weight.shape[1]
            shape = (len(row), weight.shape[1])
            w, prior, probs = weight[row], log_prior.reshape(shape).softmax(-1), probs.reshape(*shape, -1)
            share = ((w * prior).sum(-1) / prior.square().sum(-1)).clamp(0, 1)[:, None] * prior
            place = self.place[rows[row], order[site]]
            kept = torch.zeros_like(probs[:, 0]).scatter_add_(1, value[row, site], w - share)
            table[row, place, : probs.shape[2]] = kept + torch.einsum("rk,rkv->rv", share, probs)
            predicted[row, place, : probs.shape[2]] = torch.einsum("rk,rkv->rv", w, probs)
        return table, predicted
