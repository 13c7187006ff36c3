"""Counted states as a distribution."""

from typing import Any

import torch

from concrete_score.errors import InputError
from concrete_score.spaces import Space
from concrete_score.targets.pmf import Pmf

CHUNK = 2**20


def histogram(states: Any, space: Space) -> Pmf:
    """The empirical distribution of draws ``(N, D)`` over an enumerable space.

    Raises:
        InputError: no draws, values outside the space, or a space too large to count.

    >>> histogram([[0], [1], [1], [1]], Space((2,))).probabilities.tolist()
    [0.25, 0.75]
    """
    space.check_enumerable()
    rows = space.check(states, "states").reshape(-1, space.num_sites)
    if not len(rows):
        raise InputError("at least one draw", "none", where="states")
    counts = torch.zeros(space.num_states, dtype=torch.float64, device=rows.device)
    for part in torch.split(rows, CHUNK):
        counts += torch.bincount(space.index(part), minlength=space.num_states)
    return Pmf(space, (counts / len(rows)).log().cpu())
