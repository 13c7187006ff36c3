"""Importance resampling from clamped ancestral draws: conditionals of an autoregressive model against its order."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from concrete_score.models.layers import draw_categories
from concrete_score.randomness import uniform
from concrete_score.samplers.completions import BATCH, Impossible, Known, Rows
from concrete_score.shapes import PerState, States

FIRST = 64
"""Proposals of each row in the first round, and effective ones wanted at least."""
ENOUGH = 4
"""Effective proposals wanted for each draw: then draws repeat each other little and count as independent."""
MOST = 4096
"""Proposals of one row of many at most, or 16 for each draw if that is more."""

Propose = Callable[[Rows, Known, torch.Generator], tuple[States, PerState]]
"""From rows ``(n, D)`` and their observed cells to one completed draw of each, and its log-weight ``(n,)``.

Blanks are drawn each given the sites before it, observed ones kept (a model's ``propose_given``). The draws follow
``Π_{d blank} q(x_d | before)``, so a draw of ``q(· | observed)`` weighs ``w = Π_{d observed} q(x_d | before)``, and the
mean of w is ``q(observed)``.
"""


@dataclass(frozen=True, eq=False)
class Resampled:
    """Draws of each row, in proportion to the weights of its proposals."""

    states: Integer[Tensor, "draws rows sites"]
    """``(M, n, D)``."""
    effective: Float[Tensor, " rows"]
    """``(Σw)² / Σw²``: as how many draws of the conditional the proposals of a row count."""
    proposed: Float[Tensor, " rows"]
    """How many there were."""
    log_marginal: Float[Tensor, " rows"]
    """``log mean(w)``, an estimate of ``log q(observed cells)``."""


@torch.no_grad()
def resample(
    propose: Propose,
    x: Rows,
    observed: Known,
    draws: int,
    generator: torch.Generator,
    first: int = FIRST,
    most: int = MOST,
    enough: int = ENOUGH,
) -> Resampled:
    """``draws`` completions of each row by self-normalized importance resampling.

    Rows are given proposals until they count for ``enough`` each draw, or there are ``most``. Only the chosen ones are
    kept: each of them gives way to one of a new round with the round's share of all weight so far, which is the same
    as choosing among all proposals at the end.

    Args:
        propose: of the model.
        x: checked states ``(n, D)``.
        observed: which cells are known ``(n, D)``.
        draws: of each row, M.
        first: proposals of each row in the first round; later rounds quadruple what there is, or add what still lacks.
        most: proposals of one row at most, or 16 for each draw if that is more.
        enough: effective proposals wanted for each draw.

    >>> from concrete_score.spaces import Space
    >>> from concrete_score.models import MADE
    >>> model = MADE(Space.bits(3), generator=torch.Generator().manual_seed(0))
    >>> known = torch.tensor([[True, False, False]])
    >>> found = resample(model.propose_given, torch.zeros(1, 3).long(), known, 5, torch.Generator().manual_seed(0))
    >>> found.states.shape, round(float(found.effective / found.proposed), 6)   # in the order: all weights are equal
    (torch.Size([5, 1, 3]), 1.0)
    """
    pool = _Pool.empty(x, draws)
    wanted, most = max(FIRST, enough * draws), max(most, 16 * draws)
    size = min(BATCH, first)
    while True:
        active = ((pool.effective < wanted) & (pool.count < most)).nonzero().squeeze(-1)
        if not len(active):
            pool.check()
            return Resampled(pool.states, pool.effective, pool.count, pool.log_sum - pool.count.log())
        for rows in torch.split(active, max(1, BATCH // size)):
            shape = (len(rows), size, -1)
            known = observed[rows, None].expand(shape).flatten(0, 1)
            states, log_weight = propose(x[rows, None].expand(shape).flatten(0, 1), known, generator)
            pool.add(rows, states.reshape(shape), log_weight.double().reshape(shape[:2]), generator)
        size = min(BATCH, 3 * int(pool.count.max()), pool.lacking(active, wanted))


@dataclass(eq=False)
class _Pool:
    """What is kept of all proposals so far."""

    states: Tensor
    log_sum: Tensor
    log_square: Tensor
    count: Tensor

    @classmethod
    def empty(cls, x: Tensor, draws: int) -> "_Pool":
        nothing = torch.full((len(x),), -torch.inf, dtype=torch.float64, device=x.device)
        return cls(x.expand(draws, -1, -1).clone(), nothing, nothing.clone(), torch.zeros_like(nothing))

    @property
    def effective(self) -> Tensor:
        """``(n,)``; 0 while no proposal has any weight."""
        return torch.where(self.log_sum > -torch.inf, (2 * self.log_sum - self.log_square).exp(), 0.0)

    def lacking(self, rows: Tensor, wanted: int) -> int:
        """About how many more proposals the rows need, if they go on counting as they do, and some to spare."""
        share = self.effective[rows] / self.count[rows]
        need = (1.1 * (wanted - self.effective[rows]) / share).clamp(FIRST, BATCH)
        return int(need.max())

    def check(self) -> None:
        """Refuse rows none of whose proposals has any weight."""
        empty = (self.log_sum == -torch.inf).nonzero()
        if len(empty):
            row = int(empty[0, 0])
            raise Impossible(row, f"none of {int(self.count[row]):,} ancestral draws that agrees with them")

    def add(self, rows: Tensor, states: Tensor, log_weight: Tensor, generator: torch.Generator) -> None:
        """One round: states ``(r, size, D)`` and their log-weights ``(r, size)``."""
        draws = len(self.states)
        total = log_weight.logsumexp(-1)
        # A round without any weight replaces nothing, whatever is chosen from it.
        safe = torch.where(total[:, None] > -torch.inf, log_weight, 0.0)
        unit = uniform((2, len(rows), draws), generator, states.device)
        chosen = draw_categories(safe, unit[0])
        fresh = states.gather(1, chosen[..., None].expand(-1, -1, states.shape[-1])).transpose(0, 1)
        after = torch.logaddexp(self.log_sum[rows], total)
        replaced = (unit[1] < (total - after).exp()[:, None]).T
        self.states[:, rows] = torch.where(replaced[..., None], fresh, self.states[:, rows])
        self.log_sum[rows] = after
        self.log_square[rows] = torch.logaddexp(self.log_square[rows], (2 * log_weight).logsumexp(-1))
        self.count[rows] += log_weight.shape[1]
