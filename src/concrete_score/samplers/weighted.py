"""The distributions of blank cells from weighted draws, which cost about a pass each, whatever a site's size.

Blanks of a row are drawn K times, each given the sites before it (a model's ``propose_given``), and weighed by
``w = Π_{d observed} q(x_d | before)``. Then

    q(x_d = v | observed) ≈ Σ_k w_k 1[x_d^k = v] / Σ_k w_k.

The K draws of a row are not independent: the uniforms that they come from are points of a Sobol sequence, shifted at
random (Cranley and Patterson, 1976), the first blank of the order by the first coordinate and so on. Each draw alone
is distributed as before, and together they are spread far more evenly. Rows whose weights are poor are given more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from concrete_score.models.layers import draw_categories
from concrete_score.randomness import uniform
from concrete_score.samplers.completions import CELLS, Impossible, Known, Rows

DRAWS = 64
"""Draws of each row in the first round; each further round has three times as many as there were before."""
EFFECTIVE = 20.0
"""Draws are enough if they count for so many, ``(Σw)² / Σw²``; evenly spread ones are worth more than that says."""
ROUNDS = 3
"""At most: 1,024 draws of a row."""
SMOOTHING = 1.0
"""What the model's own predictions from the sites before a blank count beside the draws, so that no value is
impossible only because none of them met it."""
PREDICTED = 4
"""Draws of a row whose predictions are averaged."""


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
def weigh_blanks(model: Any, x: Rows, observed: Known, generator: torch.Generator) -> Weighed:
    """The distribution of every blank of some rows ``(R, D)``, each with a blank at least.

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
    tally = _Tally.empty(model, x, observed)
    active, draws = torch.arange(len(x), device=x.device), DRAWS
    for _ in range(ROUNDS):
        for rows in torch.split(active, max(1, CELLS // (draws * x.shape[1]))):
            tally.add(rows, draws, generator)
        active = (tally.effective < EFFECTIVE).nonzero().squeeze(-1)
        draws = 3 * int(tally.count.max())
        if not len(active):
            break
    return tally.found()


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
    """The mean prediction of each blank from the sites before it ``(R, b, V)``."""
    log_sum: Tensor
    log_square: Tensor
    count: Tensor

    @classmethod
    def empty(cls, model: Any, x: Tensor, observed: Tensor) -> "_Tally":
        blank = ~observed[:, model.order]
        place = (blank.long().cumsum(1) - 1).clamp_min(0)
        width = int(blank.sum(1).max())
        site = model.order[(~blank).long().argsort(dim=1, stable=True)[:, :width]]
        table = torch.zeros(*site.shape, max(model.space.sizes), dtype=torch.float64, device=x.device)
        nothing = torch.full((len(x),), -torch.inf, dtype=torch.float64, device=x.device)
        sums = nothing, nothing.clone(), torch.zeros_like(nothing)
        return cls(model, x, observed, site, place, table, torch.zeros_like(table), *sums)

    @property
    def effective(self) -> Tensor:
        """``(R,)``; 0 while no draw has any weight."""
        return torch.where(self.log_sum > -torch.inf, (2 * self.log_sum - self.log_square).exp(), 0.0)

    def add(self, rows: Tensor, draws: int, generator: torch.Generator) -> None:
        """``draws`` more of some rows ``(r,)``."""
        shape = (len(rows), draws, -1)
        flat, known = (each[rows, None].expand(shape).flatten(0, 1) for each in (self.x, self.observed))
        states, log_weight = self.model.propose_given(flat, known, generator, units=self._units(rows, draws, generator))
        states, log_weight = states.reshape(shape), log_weight.double().reshape(shape[:2])
        if not bool(self.count[rows].any()):
            self._predict(rows, states, log_weight, generator)
        total = log_weight.logsumexp(1)
        after = torch.logaddexp(self.log_sum[rows], total)
        safe = torch.where(after > -torch.inf, after, 0.0)
        weight = (log_weight - safe[:, None]).exp()
        value = states.gather(2, self.site[rows, None].expand(-1, draws, -1)).transpose(1, 2)
        before = self.table[rows] * (self.log_sum[rows] - safe).exp()[:, None, None]
        self.table[rows] = before.scatter_add_(2, value, weight[:, None].expand(value.shape))
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
        total = effective[:, None, None] * self.table + SMOOTHING * self.predicted
        probs = total / (effective + SMOOTHING)[:, None, None]
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

    def _predict(self, rows: Tensor, states: Tensor, log_weight: Tensor, generator: torch.Generator) -> None:
        """Average the predictions of some draws, chosen by weight."""
        safe = torch.where(log_weight.logsumexp(1, keepdim=True) > -torch.inf, log_weight, 0.0)
        chosen = draw_categories(safe, uniform((len(rows), PREDICTED), generator, rows.device))
        some = states.gather(1, chosen[..., None].expand(-1, -1, states.shape[2]))
        for part in _parts(len(rows), PREDICTED * states.shape[2] * self.table.shape[2]):
            table = self.model.site_log_conditionals(some[part]).double().exp().mean(1)
            at = self.site[rows[part]][..., None].expand(-1, -1, table.shape[2])
            self.predicted[rows[part]] = table.gather(1, at)


def _parts(count: int, width: int) -> Iterator[slice]:
    step = max(1, CELLS // max(1, width))
    return (slice(start, start + step) for start in range(0, count, step))
