"""Counting categories in tables too large to expand, and turning counts into log-probabilities.

*Packed* means the values of all sites side by side, ``S = Σ_d sizes[d]`` columns; *padded* means ``(D, V)`` with
``V = max(sizes)``, where values a site does not have are invalid.

**Smoothing.** ``pseudo_count = a`` means the same for every baseline: ``a`` rows of pseudo-data, spread evenly over the
whole space, are added to the data. A value of a site then gains ``a / sizes[d]``, a pair of values
``a / (sizes[d] sizes[e])``: marginals of pairs agree with one another whatever the sizes, so a smoothed tree has the
same density from any root. ``a = 4``, the default, is Laplace's one for each cell of a pair of bits; ``a = 0`` is
maximum likelihood.
"""

from collections.abc import Iterator
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.spaces import Space, as_tensor

PSEUDO_COUNT = 4.0
CHUNK_FLOATS = 2**22
"""How many floats one chunk of rows may expand to (32 MB of float64)."""


def chunk_rows(row_floats: int) -> int:
    """How many rows to take at once when each expands to ``row_floats`` floats."""
    return max(1, CHUNK_FLOATS // row_floats)


def row_chunks(states: Tensor, row_floats: int) -> Iterator[Tensor]:
    """The rows of ``states`` ``(N, D)`` as int64, a bounded number at a time."""
    return (rows.long() for rows in torch.split(states, chunk_rows(row_floats)))


def check_states(states: Any, space: Space) -> Tensor:
    """Training data ``(N, D)`` in whatever narrow integers it came, every cell checked a chunk at a time.

    Raises:
        InputError: no rows, not a table, not integers, or a value outside the space (its place is named).

    >>> check_states([[0, 1], [1, 3]], Space((2, 3)))
    Traceback (most recent call last):
    concrete_score.errors.InputError: states[1, 1]: expected a value from 0 to 2 at site 1, got 3; ...
    """
    table = as_tensor(states, "states")
    if table.ndim != 2:
        raise InputError(
            f"a table of shape (N, {space.num_sites})",
            f"shape {tuple(table.shape)}",
            where="states",
            fix="give one row per example and one column per site",
        )
    if not len(table):
        raise InputError("at least one row", "none", where="states", fix="give the rows to fit")
    start = 0
    for rows in torch.split(table, chunk_rows(space.num_sites)):
        # A later chunk is named as the slice it is, so the place in the message can be pasted.
        space.check(rows, f"states[{start}:]" if start else "states")
        start += len(rows)
    return table


def check_pseudo_count(pseudo_count: int | float) -> float:
    """``pseudo_count``, if it is a finite number of at least 0."""
    if not (isfinite(pseudo_count) and pseudo_count >= 0):
        raise InputError(
            "a number of at least 0",
            repr(pseudo_count),
            where="pseudo_count",
            fix="use 0 for maximum likelihood, or a few rows' worth to smooth",
        )
    return float(pseudo_count)


def valid_values(space: Space, device: torch.device | None = None) -> Tensor:
    """Which values each site has ``(D, V)``.

    >>> valid_values(Space((1, 3))).tolist()
    [[True, False, False], [True, True, True]]
    """
    return torch.arange(max(space.sizes), device=device) < space.sizes_tensor(device)[:, None]


def packed_columns(rows: Tensor, space: Space) -> Tensor:
    """The packed column of each cell ``(n, D)``.

    >>> packed_columns(torch.tensor([[1, 2]]), Space((2, 3))).tolist()
    [[1, 4]]
    """
    sizes = space.sizes_tensor(rows.device)
    return rows + (sizes.cumsum(0) - sizes)


def one_hot(rows: Tensor, space: Space, dtype: torch.dtype, observed: Tensor | None = None) -> Tensor:
    """Packed one-hot rows ``(n, S)``; cells not ``observed`` are all zeros."""
    columns = packed_columns(rows, space)
    ones = torch.ones_like(columns, dtype=dtype) if observed is None else observed.to(dtype)
    return torch.zeros(len(rows), sum(space.sizes), dtype=dtype, device=rows.device).scatter_(1, columns, ones)


def padded(packed: Tensor, space: Space) -> Tensor:
    """Packed numbers ``(..., S)`` in padded form ``(..., D, V)``, zeros where a value is invalid."""
    valid = valid_values(space, packed.device)
    table = packed.new_zeros(*packed.shape[:-1], *valid.shape)
    table[..., valid] = packed  # row-major order of the valid cells is the packed order
    return table


def site_counts(states: Tensor, space: Space) -> Tensor:
    """How often each value of each site occurs ``(D, V)`` float64.

    >>> site_counts(torch.tensor([[0, 2], [1, 2]], dtype=torch.uint8), Space((2, 3))).tolist()
    [[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]]
    """
    width = sum(space.sizes)
    counts = torch.zeros(width, dtype=torch.int64, device=states.device)
    for rows in row_chunks(states, space.num_sites):
        counts += packed_columns(rows, space).flatten().bincount(minlength=width)
    return padded(counts.double(), space)


def smoothed(counts: Tensor, space: Space, pseudo_count: float) -> Tensor:
    """Counts ``(..., D, V)`` with ``pseudo_count`` evenly spread rows added.

    >>> smoothed(torch.zeros(2, 3), Space((2, 3)), 6.0).tolist()
    [[3.0, 3.0, 0.0], [2.0, 2.0, 2.0]]
    """
    # A number over integers would be float32.
    each = pseudo_count / space.sizes_tensor(counts.device)[:, None].double()
    return counts + each * valid_values(space, counts.device)


def log_normalized(counts: Tensor, valid: Tensor) -> Tensor:
    """``log(counts / Σ counts)`` over the last axis; uniform where nothing was counted, -inf where invalid.

    Any distribution is a maximum-likelihood one where there is no data; the uniform one is the limit of smoothing.

    >>> log_normalized(torch.tensor([[3.0, 1.0], [0.0, 0.0]]), torch.tensor([True, True])).exp().tolist()
    [[0.75, 0.25], [0.5, 0.5]]
    """
    valid = valid.expand_as(counts)
    counts = torch.where(counts.sum(-1, keepdim=True) > 0, counts, valid.to(counts.dtype))
    return torch.where(valid, counts.log() - counts.sum(-1, keepdim=True).log(), -torch.inf)
