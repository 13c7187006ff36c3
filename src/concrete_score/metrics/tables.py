"""What two distributions must have in common to be compared."""

from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.neighborhoods import check_same_space
from concrete_score.targets.pmf import Pmf, as_float64, check_entries, check_sums

Table = Any
"""A `Pmf`, or an array of probabilities of any shape."""


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
