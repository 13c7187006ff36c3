"""From the columns of a table to rows of states: storage, layout, and which cells are not observed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from concrete_score.codecs.cells import Column
from concrete_score.codecs.columns import BLANK, SiteColumn
from concrete_score.codecs.columns import UNKNOWN as UNSEEN
from concrete_score.data.frame import Array
from concrete_score.spaces import Space

_BLOCK = 2**18
"""Cells transposed at a time."""


def storage(space: Space) -> Any:
    """The narrowest integers torch computes with that hold every site."""
    largest = max(space.sizes) - 1
    return next(kind for kind in (np.uint8, np.int16, np.int32, np.int64) if largest <= np.iinfo(kind).max)


def as_rows(columns: Sequence[Array], kind: Any) -> Array:
    """Columns ``D × (N,)`` as rows ``(N, D)``, transposed in blocks that stay in the processor's cache."""
    count, block = len(columns[0]), max(1, _BLOCK // len(columns))
    rows = np.empty((count, len(columns)), dtype=kind)
    piece = np.empty((len(columns), block), dtype=kind)
    for start in range(0, count, block):
        end = min(start + block, count)
        for d, cells in enumerate(columns):
            piece[d, : end - start] = cells[start:end]
        rows[start:end] = piece[:, : end - start].T
    return rows


def log_inside(column: SiteColumn, cells: Column, codes: Array, rows: int) -> Array:
    """``log P(cell | the site's value)`` of each cell, of a value never seen what is reserved for it ``(N,)``."""
    inside = column.log_inside(cells)
    seen = np.full(len(codes), column.log_seen) if inside is None else inside + column.log_seen
    return np.where(codes == UNSEEN, column.log_unseen(rows), np.where(codes == BLANK, 0.0, seen))


def flags(masks: Mapping[int, Array], kept: torch.Tensor, sites: int) -> torch.Tensor:
    """Cells by site as one table ``(N', D)`` bool."""
    found = torch.zeros((len(kept), sites), dtype=torch.bool)
    for d, mask in masks.items():
        found[:, d] = torch.from_numpy(mask)[kept]
    return found


def any_row(masks: Mapping[int, Array], rows: int) -> Array:
    found = np.zeros(rows, dtype=bool)
    for mask in masks.values():
        found |= mask
    return found
