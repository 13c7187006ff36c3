"""Interpolated Kneser–Ney: the n-gram model that learned models of text must beat (Kneser and Ney, 1995).

    P_n(v | c) = max(N(c v) - δ_n, 0) / N(c ·)  +  δ_n |{v : N(c v) > 0}| / N(c ·)  P_{n-1}(v | c without its first)

N counts occurrences for the longest contexts, and for shorter ones the different symbols seen before; below one symbol
of no context stands the uniform distribution. ``δ_n = n₁ / (n₁ + 2 n₂)`` from how many grams occur once and twice.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from concrete_score.baselines.counts import check_states
from concrete_score.errors import InputError, check_count
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space

ORDER = 5


class Grams(NamedTuple):
    """Grams of one length: their codes in order, their counts; the same of their contexts, and the discount."""

    codes: Tensor
    counts: Tensor
    contexts: Tensor
    totals: Tensor
    kinds: Tensor
    """How many different symbols follow each context."""
    discount: float


@dataclass(frozen=True, eq=False)
class KneserNey:
    """``log q(x) = Σ_d log P_n(x_d | the n - 1 sites before it)``, all sites of one size; a start mark stands before.

    Args:
        space: all sites alike.
        tables: of grams of 1, 2, …, n symbols.

    >>> model = KneserNey.fit(torch.tensor([[0, 1, 0, 1], [0, 1, 0, 1], [1, 0, 1, 1]]), Space.bits(4), order=2)
    >>> round(float(model.log_density(Space.bits(4).enumerate()).exp().sum()), 6)
    1.0
    """

    space: Space
    tables: tuple[Grams, ...]
    normalized: ClassVar[bool] = True

    @classmethod
    def fit(cls, states: States, space: Space, order: int = ORDER) -> "KneserNey":
        """Count the grams of rows ``(N, D)``.

        Raises:
            InputError: sites of different sizes, no rows, or grams too long to be numbered.
        """
        check_count(order, "order")
        base = max(space.sizes) + 1
        if len(set(space.sizes)) != 1 or base**order >= 2**62:
            raise InputError("sites of one size, and short grams", f"{len(set(space.sizes))} sizes, order {order}")
        codes = _windows(check_states(states, space), base, order)
        grams, counts = torch.unique(codes, return_counts=True)
        tables: list[Grams] = []
        for length in range(order, 0, -1):
            tables.append(_table(grams, counts, base))
            # What is counted next are different grams, without their first symbol; codes begin with it.
            grams, counts = torch.unique(grams % base ** (length - 1), return_counts=True)
        return cls(space, tuple(reversed(tables)))

    def log_density(self, x: States) -> PerState:
        """``log q(x)`` ``(..., D) -> (...)``."""
        return self.site_log_probs(x).sum(-1)

    def site_log_probs(self, x: States) -> Float[Tensor, "*batch sites"]:
        """``log P(x_d | the sites before it)`` of every site ``(..., D)``."""
        base, order = max(self.space.sizes) + 1, len(self.tables)
        codes = _windows(x.reshape(-1, self.space.num_sites), base, order)
        p = torch.full(codes.shape, 1.0 / (base - 1), dtype=torch.float64)
        for length, table in enumerate(self.tables, start=1):
            gram = codes % base**length
            count, total = _found(table.codes, table.counts, gram), _found(table.contexts, table.totals, gram // base)
            kinds = _found(table.contexts, table.kinds, gram // base)
            own = ((count - table.discount).clamp_min(0) + table.discount * kinds * p) / total.clamp_min(1)
            p = torch.where(total > 0, own, p)
        return p.log().reshape(x.shape)


def _windows(states: Tensor, base: int, order: int) -> Tensor:
    """The code of each site with the ``order - 1`` before it ``(N, D)``; the base's last symbol marks the start."""
    rows = states.cpu().long()
    padded = functional.pad(rows, (order - 1, 0), value=base - 1)
    code = torch.zeros_like(rows)
    for place in range(order):
        code = code * base + padded[:, place : place + rows.shape[1]]
    return code


def _table(grams: Tensor, counts: Tensor, base: int) -> Grams:
    contexts, which, kinds = torch.unique_consecutive(grams // base, return_inverse=True, return_counts=True)
    totals = torch.zeros_like(contexts).index_add_(0, which, counts)
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    return Grams(grams, counts, contexts, totals, kinds, once / (once + 2 * twice) if once else 0.5)


def _found(keys: Tensor, values: Tensor, wanted: Tensor) -> Tensor:
    """The value of each wanted key, 0 where it is none."""
    at = torch.searchsorted(keys, wanted).clamp_max(len(keys) - 1)
    return torch.where(keys[at] == wanted, values[at], 0).double()
