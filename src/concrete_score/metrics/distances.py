"""How far one distribution over an enumerable space is from another, and counted states as a distribution."""

from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.spaces import Space, check_same_space
from concrete_score.targets.pmf import Pmf, as_float64, check_entries, check_sums

Table = Any
"""A `Pmf`, or an array of probabilities of any shape."""
CHUNK = 2**20


def kl(p: Table, q: Table) -> float:
    """``Σ_x p(x) [log p(x) - log q(x)]`` in nats; infinite where q forbids what p allows.

    Args:
        p: a `Pmf`, or an array of probabilities.
        q: likewise, over the same states.

    >>> round(kl([0.5, 0.5], [0.25, 0.75]), 6), kl([0.5, 0.5], [1.0, 0.0])
    (0.143841, inf)
    """
    one, other = log_tables(p, q)
    possible = one > -torch.inf  # 0 log 0 = 0
    terms = one[possible].exp() * (one[possible] - other[possible])
    # Rounding may leave a sum of equal tables just below zero.
    return max(0.0, float(terms.sum()))


def total_variation(p: Table, q: Table) -> float:
    """``½ Σ_x |p(x) - q(x)|``, from 0 to 1.

    Args:
        p: a `Pmf`, or an array of probabilities.
        q: likewise, over the same states.

    >>> total_variation([0.5, 0.5], [1.0, 0.0])
    0.5
    """
    one, other = log_tables(p, q)
    return float((one.exp() - other.exp()).abs().sum() / 2)


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


def log_tables(p: Table, q: Table) -> tuple[Tensor, Tensor]:
    """Two distributions as log-probabilities ``(S,)`` each, checked and over the same states.

    Raises:
        InputError: different spaces or shapes, a negative or infinite entry, or a sum that is not one.
    """
    if isinstance(p, Pmf) and isinstance(q, Pmf):
        check_same_space(p.space, q.space, "p and q")
    one, other = _log_table(p, "p"), _log_table(q, "q")
    if one.shape != other.shape:
        raise InputError("tables of the same number of states", f"{len(one)} and {len(other)}", where="p and q")
    return one, other


def _log_table(table: Table, name: str) -> Tensor:
    if isinstance(table, Pmf):
        return table.log_pmf.cpu()
    probabilities = as_float64(table, name).detach().cpu().reshape(-1)
    check_entries(probabilities, name)
    check_sums(probabilities, name)
    return torch.log(probabilities)
