"""How often two values of two sites occur together."""

from itertools import accumulate, combinations_with_replacement, pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from concrete_score.shapes import States
from concrete_score.spaces import Space

WIDE = 8
"""Values of a site, on average, from which on counting pair by pair takes less than one product of one-hot rows."""


def counts_apart(space: Space) -> bool:
    """Whether the pairs of so many values are best counted pair by pair."""
    return sum(space.sizes) > WIDE * space.num_sites


def count_pair(rows: States, space: Space, one: int, other: int, observed: Tensor | None = None) -> Tensor:
    """In how many rows ``(N, D)`` two sites take each pair of values, both ``observed`` ``(V_one, V_other)`` float64.

    >>> count_pair(torch.tensor([[0, 1], [0, 1], [1, 0]]), Space.bits(2), 0, 1).tolist()
    [[0.0, 2.0], [1.0, 0.0]]
    """
    sizes = space.sizes[one], space.sizes[other]
    place = rows[:, one].long() * sizes[1] + rows[:, other].long()
    if observed is not None:
        place = place[observed[:, one] & observed[:, other]]
    return torch.bincount(place, minlength=sizes[0] * sizes[1]).reshape(sizes).double()


def pair_counts(rows: States, space: Space, observed: Tensor | None = None) -> Float[Tensor, "values values"]:
    """The same of all sites, whose values follow one another ``(Σ sizes, Σ sizes)``.

    >>> pair_counts(torch.tensor([[0, 1], [0, 1], [1, 0]]), Space.bits(2))[0].tolist()
    [2.0, 0.0, 0.0, 2.0]
    """
    offsets, values = [0, *accumulate(space.sizes)], sum(space.sizes)
    if not counts_apart(space):
        seen = torch.ones(rows.shape, device=rows.device) if observed is None else observed.float()
        columns = rows.long() + torch.tensor(offsets[:-1], device=rows.device)
        cells = torch.zeros(len(rows), values, device=rows.device).scatter_(1, columns, seen)
        return (cells.T @ cells).double()
    found = torch.zeros(values, values, dtype=torch.float64, device=rows.device)
    spans = [slice(*ends) for ends in pairwise(offsets)]
    for one, other in combinations_with_replacement(range(space.num_sites), 2):
        counts = count_pair(rows, space, one, other, observed)
        found[spans[one], spans[other]] = counts
        found[spans[other], spans[one]] = counts.T
    return found
