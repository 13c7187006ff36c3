"""Which rows are held out: the same for the same seed, whether the table is in memory or on the disk.

Of a table of at most `PERMUTED` cells all rows are put into a random order, and the first ones are held out. Of a
larger one that would take a copy of it: there only the held-out rows are drawn, and rows from the end of the table take
their places, so that the rest is one piece without gaps.
"""

from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from concrete_score.randomness import draw_different, generator
from concrete_score.training.examples import Examples

PERMUTED = 2**27
"""Cells of a table up to which all its rows are put into a random order."""
HELD_OUT = 2**17
"""Rows held out at most: they tell apart two models of which one is better by a thousandth of a nat."""
Rows = TypeVar("Rows", Tensor, Examples)


class Division(NamedTuple):
    """Training rows and held-out rows of a table of N, by their places.

    Where ``order`` is None, the training rows are the first ``N - len(valid)``, with row ``moved[i]`` in place of row
    ``gaps[i]``, which is held out.
    """

    valid: Tensor
    order: Tensor | None
    gaps: Tensor
    moved: Tensor

    def apply(self, rows: Rows) -> tuple[Rows, Rows]:
        """Training rows and held-out rows; copies."""
        if self.order is not None:
            return rows[self.order], rows[self.valid]
        return rows[self.places(len(rows))], rows[self.valid]

    def places(self, total: int) -> Tensor:
        """Which row of the table each training row is ``(N - len(valid),)``."""
        if self.order is not None:
            return self.order
        found = torch.arange(total - len(self.valid))
        found[self.gaps] = self.moved
        return found


def divide(total: int, sites: int, fraction: float, seed: int) -> Division:
    """A random share of ``total`` rows to hold out, `HELD_OUT` at most; one row at least is left to learn from.

    >>> division = divide(10, 2, 0.2, seed=0)
    >>> sorted([*division.places(10).tolist(), *division.valid.tolist()]) == list(range(10))
    True
    """
    count = min(round(total * fraction), total - 1, HELD_OUT)
    random, none = generator(seed, "split"), torch.empty(0, dtype=torch.int64)
    if total * sites <= PERMUTED:
        order = torch.randperm(total, generator=random)
        return Division(order[:count], order[count:], none, none)
    valid = draw_different(total, count, random)
    tail = torch.arange(total - count, total)
    return Division(valid, None, valid[valid < total - count].sort().values, tail[~torch.isin(tail, valid)])
