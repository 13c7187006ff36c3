"""Mass leak: does a model put probability where its training could not look?

See docs/mathematics.md, "Mass leak and sampled neighborhoods".
"""

from dataclasses import dataclass
from math import sqrt
from typing import Any

import torch
from jaxtyping import Integer
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.protocols import Neighborhood, SiteNeighborhood
from concrete_score.randomness import generator as make_generator
from concrete_score.samplers.base import all_edits
from concrete_score.spaces import Space, check_same_space

Known = Integer[Tensor, "known sites"]
"""Rows that are known ``(N, D)``."""
HeldOut = Integer[Tensor, "held sites"]
"""Rows held against them ``(M, D)``."""

CHUNK = 2**22
"""How many numbers (rows × slots × sites) are handled at a time."""
DRAWS = 2000
CLEAR = 4.0
"""Standard errors from which an excess is no accident."""
EXCESS = 0.02
"""The least excess worth reporting."""
BLIND = 0.9
"""Where so many held-out rows lie outside, the data are too sparse for the measure to say much."""


@dataclass(frozen=True)
class MassLeak:
    """Shares of states that are neither a known row nor a neighbor of one."""

    model: float
    """Of the model's own draws."""
    held_out: float
    """Of rows of the data that are held against the others: fresh data fall outside too."""
    draws: int
    rows: int
    """How many were held out."""
    standard_error: float
    """That of the difference, if there is none in truth."""

    @property
    def excess(self) -> float:
        """How much more of the model lies outside than of the data; nothing leaks at 0."""
        return self.model - self.held_out

    @property
    def z_score(self) -> float:
        """The excess in standard errors."""
        return self.excess / self.standard_error if self.standard_error else 0.0

    @property
    def leaks(self) -> bool:
        """Whether the excess is both significant and large."""
        return self.z_score > CLEAR and self.excess > EXCESS

    @property
    def message(self) -> str:
        """A verdict with its numbers, in a few sentences."""
        shares = (
            f"{self.model:.1%} of {self.draws} draws are neither data nor one move from data; of held-out rows "
            f"{self.held_out:.1%} (z {self.z_score:.1f})"
        )
        if self.leaks:
            return (
                f"Mass leaks: {shares}. The model hides about {self.excess:.0%} of its mass where training on single "
                "moves never looks. Train with edges self_proposal, or by maximum_likelihood."
            )
        if self.held_out > BLIND:
            return f"Too sparse to tell: {shares}."
        if self.z_score < -CLEAR:
            return f"No leak: {shares}. The model's draws are closer to the data than fresh data are: it may overfit."
        return f"No leak: {shares}."


@torch.no_grad()
def mass_leak(
    sampler: Any,
    known: Known,
    held_out: HeldOut,
    neighborhood: Neighborhood,
    generator: torch.Generator,
    draws: int = DRAWS,
) -> MassLeak:
    """How much of a model lies neither on known rows nor one move away, beside the same share of held-out rows.

    Args:
        sampler: offers ``sample(n, generator)``, exact draws of the model.
        known: rows ``(N, D)``.
        held_out: rows of the same source ``(M, D)``, not among the known ones as a choice.
        neighborhood: what a move is; one-way edges count both ways.
        generator: of the draws.
        draws: how many.

    >>> from concrete_score.neighborhoods import hamming
    >>> from concrete_score.targets import pmf
    >>> uniform, data = pmf(torch.full((2,) * 6, 1 / 64)), torch.zeros(100, 6, dtype=torch.int64)
    >>> found = mass_leak(uniform, data, data[:50], hamming(uniform.space), torch.Generator().manual_seed(0))
    >>> abs(found.model - 57 / 64) < 0.05, found.held_out, found.leaks
    (True, 0.0, True)
    """
    space = neighborhood.space
    for name, rows in (("known", known), ("held_out", held_out)):
        if not len(rows):
            raise InputError("at least one row", "none", where=name)
        space.check(rows, name)
    if hasattr(sampler, "space"):
        check_same_space(sampler.space, space, "model and neighborhood")
    near = _Near(space, known.long(), neighborhood.symmetrized())
    outside = [~near(x) for x in (sampler.sample(draws, generator), held_out.long())]
    shares = [float(part.double().mean()) for part in outside]
    counts = [len(part) for part in outside]
    both = float(torch.cat(outside).double().mean())
    error = sqrt(both * (1 - both) * (1 / counts[0] + 1 / counts[1]))
    return MassLeak(shares[0], shares[1], counts[0], counts[1], error)


class _Near:
    """Whether states are among some rows or next to one, by random 64-bit keys; a false hit is next to impossible."""

    def __init__(self, space: Space, rows: Tensor, neighborhood: Neighborhood) -> None:
        self.neighborhood = neighborhood
        offset = torch.tensor([0, *space.sizes]).cumsum(0)
        self.offset = offset[:-1]
        bounds = torch.iinfo(torch.int64)
        self.table = torch.randint(bounds.min, bounds.max, (int(offset[-1]),), generator=make_generator(0, "leak"))
        self.known = torch.unique(self._key(rows))

    def __call__(self, x: Tensor) -> Tensor:
        """``(n, D) -> (n,)`` bool."""
        n = self.neighborhood
        width = n.num_slots if isinstance(n, SiteNeighborhood) else n.num_slots * x.shape[-1]
        step = max(1, CHUNK // max(1, width))
        return torch.cat([self._near(part) for part in torch.split(x, step)])

    def _near(self, x: Tensor) -> Tensor:
        beside = self._neighbor_keys(x)
        hit = torch.isin(beside, self.known) & self.neighborhood.valid(x)
        return torch.isin(self._key(x), self.known) | hit.any(-1)

    def _neighbor_keys(self, x: Tensor) -> Tensor:
        """``(n, K)``; where a move changes one site, by one subtraction and one addition."""
        if not isinstance(self.neighborhood, SiteNeighborhood):
            return self._key(self.neighborhood.neighbors(x))
        site, value = all_edits(self.neighborhood, x)
        start = self.offset[site]
        return self._key(x)[:, None] - self.table[start + x.gather(1, site)] + self.table[start + value]

    def _key(self, x: Tensor) -> Tensor:
        """``Σ_d T[d, x_d]`` modulo 2**64 ``(..., D) -> (...)``."""
        return self.table[self.offset + x].sum(-1)
