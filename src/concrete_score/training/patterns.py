"""Which cells of rows tend to be blank together: the patterns of training rows, for samples that have blanks too."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.models.layers import draw_categories
from concrete_score.randomness import uniform

PATTERNS, NAMED = 1000, 20_000
"""Patterns kept at most, and the cells that they name together; all others are kept as one rate a site."""


@dataclass(frozen=True)
class BlankPatterns:
    """How often which sites are blank together.

    Args:
        sites: the blank sites of each pattern, the most frequent one first; none at all is a pattern too.
        counts: rows of each.
        others: rows of all other patterns.
        rates: the share of these in which each site is blank ``(D,)``.

    >>> seen = torch.tensor([[True, True], [True, False], [True, True]])
    >>> patterns = BlankPatterns.of(seen)
    >>> patterns.sites, patterns.counts
    (((), (1,)), (2, 1))
    >>> patterns.draw(2, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 2])
    """

    sites: tuple[tuple[int, ...], ...]
    counts: tuple[int | float, ...]
    others: int | float
    rates: tuple[float, ...]

    @classmethod
    def of(cls, observed: Tensor, weights: Tensor | None = None) -> "BlankPatterns":
        """The patterns of rows ``(N, D)``; with ``weights``, a row counts as so many."""
        table = (~observed).numpy(force=True)
        each = np.ones(len(table), dtype=np.int64) if weights is None else weights.numpy(force=True)
        packed = np.ascontiguousarray(np.packbits(table, axis=1))
        keys = packed.view([("", packed.dtype)] * packed.shape[1]).reshape(-1)
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        counts = np.bincount(inverse.reshape(-1), each)
        order = np.lexsort((first, -counts))
        named = np.cumsum(table[first[order]].sum(1))
        kept = order[:PATTERNS][named[:PATTERNS] <= NAMED]
        left = ~np.isin(inverse.reshape(-1), kept)
        others = each[left].sum()
        rates = (table[left] * each[left, None]).sum(0) / max(others, 1e-300)
        sites = tuple(tuple(np.flatnonzero(row).tolist()) for row in table[first[kept]])
        return cls(sites, tuple(_number(count) for count in counts[kept]), _number(others), tuple(rates.tolist()))

    def draw(self, n: int, generator: torch.Generator) -> Tensor:
        """Which cells of ``n`` rows are seen, bool ``(n, D)``; independent of what they hold."""
        blank = torch.zeros((len(self.sites) + 1, len(self.rates)), dtype=torch.bool)
        for pattern, sites in enumerate(self.sites):
            blank[pattern, list(sites)] = True
        weights = torch.tensor([*self.counts, self.others], dtype=torch.float64)
        chosen = draw_categories(weights.log(), uniform((n,), generator, weights.device))
        found = blank[chosen]
        other = chosen == len(self.sites)
        rates = torch.tensor(self.rates, dtype=torch.float64)
        found[other] = uniform((int(other.sum()), len(rates)), generator, rates.device) < rates
        return ~found

    def leave(self, data: Any, names: Sequence[str], generator: torch.Generator) -> Any:
        """A table (of any kind that has ``with_blanks``) with cells of its columns ``names`` left blank."""
        blank = (~self.draw(len(data), generator)).T.numpy(force=True)
        return data.with_blanks(dict(zip(names, blank, strict=True)))

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        sites = [list(each) for each in self.sites]
        return {"sites": sites, "counts": list(self.counts), "others": self.others, "rates": list(self.rates)}

    @classmethod
    def from_json(cls, value: Any, num_sites: int, where: str = "blanks") -> "BlankPatterns":
        """The patterns of plain values, every one of them checked.

        Raises:
            InputError: a field is missing, or of the wrong type or length.
        """
        try:
            found = cls(
                tuple(tuple(int(site) for site in each) for each in value["sites"]),
                tuple(float(count) for count in value["counts"]),
                float(value["others"]),
                tuple(float(rate) for rate in value["rates"]),
            )
            right = isinstance(value, Mapping) and len(found.sites) == len(found.counts) <= PATTERNS
            right = right and len(found.rates) == num_sites and all(0 <= rate <= 1 for rate in found.rates)
            right = right and all(0 <= site < num_sites for each in found.sites for site in each)
            right = right and all(0 <= count < float("inf") for count in (*found.counts, found.others))
            right = right and sum(found.counts) + found.others > 0
        except (KeyError, TypeError, ValueError):
            right = False
        if not right:
            raise InputError(f"patterns of blanks among {num_sites} columns", repr(value)[:60], where=where)
        return found


def _number(value: Any) -> int | float:
    """A count as a whole number where it is one."""
    return int(value) if value == int(value) else float(value)
