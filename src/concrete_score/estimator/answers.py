"""Answers about states in the words of a table."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import torch
from jaxtyping import Float
from torch import Tensor

from concrete_score.data import Form, TableCodec, as_frame
from concrete_score.fitted import Changes
from concrete_score.shapes import States


def changes_table(found: Changes, codec: TableCodec) -> dict[str, Any]:
    """Changes as columns ``row, column, from, to, log_ratio``; values as text, for they are of many kinds."""
    sites, labels = found.site.tolist(), [site.labels for site in codec.sites]
    return {
        "row": found.row.numpy(force=True),
        "column": [codec.names[site] for site in sites],
        "from": [labels[site][value] for site, value in zip(sites, found.value_from.tolist(), strict=True)],
        "to": [labels[site][value] for site, value in zip(sites, found.value_to.tolist(), strict=True)],
        "log_ratio": found.log_ratio.double().numpy(force=True),
    }


def as_kind(columns: Mapping[str, Any], form: Form) -> Any:
    """Columns of several kinds as a data frame of the library ``form`` names, or as a structured array.

    >>> as_kind({"row": [0], "to": ["yes"]}, Form("numpy")).dtype.names
    ('row', 'to')
    """
    made = pl.DataFrame(dict(columns))
    if form.kind in ("numpy", "npy", "npz"):
        kinds = [(name, "O" if made[name].dtype == pl.String else made[name].to_numpy().dtype) for name in columns]
        found = np.empty(len(made), dtype=kinds)
        for name in columns:
            found[name] = made[name].to_numpy()
        return found
    return replace(as_frame(made), form=form).native()


def by_value(
    ratios: Float[Tensor, "rows slots"], states: States, sizes: tuple[int, ...]
) -> Float[Tensor, "rows values"]:
    """Hamming's slots, the other values of each site, spread to all values: ``(N, K) -> (N, Σ sizes)``.

    >>> by_value(torch.tensor([[0.1, 0.2, 0.3]]), torch.tensor([[1, 0]]), (3, 2)).tolist()
    [[0.1..., 0.0, 0.2..., 0.0, 0.3...]]
    """
    parts, start = [], 0
    for d, size in enumerate(sizes):
        spread = ratios.new_zeros(len(ratios), size)
        other = torch.arange(size - 1, device=ratios.device).expand(len(ratios), -1)
        here = states[:, d : d + 1].to(ratios.device)
        spread.scatter_(1, other + (other >= here), ratios[:, start : start + size - 1])
        parts.append(spread)
        start += size - 1
    return torch.cat(parts, 1)
