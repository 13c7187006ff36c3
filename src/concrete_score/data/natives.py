"""Data frames of pandas and polars that come back as they went in: only cells that were filled are touched.

A table inside this library holds what a model can learn from; a frame may also hold bytes, lists, decimals, or text in
the place of nothing. So the filled cells are put into a copy of the frame itself.
"""

import warnings
from collections.abc import Collection
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from concrete_score.data.frame import DRAW, Array


def known_columns(data: Any, names: Collection[str]) -> Any:
    """The columns of a pandas or polars frame that have one of these names; any other object as it is.

    >>> known_columns(pl.DataFrame({"a": [1], "raw": [b"x"]}), ["a"]).columns
    ['a']
    """
    if nw.dependencies.is_polars_dataframe(data):
        return data.select([name for name in data.columns if name in names])
    if nw.dependencies.is_pandas_dataframe(data):
        return data.iloc[:, [at for at, name in enumerate(data.columns) if str(name) in names]]
    return data


def put_back(data: Any, names: Collection[str], before: pl.DataFrame, after: pl.DataFrame, draws: int | None) -> Any:
    """A frame with the cells that differ between two tables made of its `known_columns`.

    Args:
        data: a pandas or polars frame; it is not changed.
        names: of the columns known.
        before, after: those columns as they were read, and filled; ``draws`` copies of them below one another.
        draws: how many copies; None for the rows themselves, without a column that numbers them.

    >>> frame = pl.DataFrame({"a": [1, None], "raw": [b"x", b"y"]})
    >>> put_back(frame, ["a"], frame.select("a"), pl.DataFrame({"a": [1, 2]}), None).rows()
    [(1, b'x'), (2, b'y')]
    """
    times = draws or 1
    counted = np.repeat(np.arange(times), len(data))
    changed = {name: _changed(before[name], after[name], times) for name in before.columns}
    if nw.dependencies.is_polars_dataframe(data):
        found = pl.concat([data] * times) if times > 1 else data
        found = found.with_columns([after[name] for name, cells in changed.items() if cells.any()])
        return found if draws is None else found.insert_column(0, pl.Series(DRAW, counted))
    places = [at for at, name in enumerate(data.columns) if str(name) in names]
    copy = data.copy() if draws is None else data.take(np.tile(np.arange(len(data)), times)).reset_index(drop=True)
    for at, (name, cells) in zip(places, changed.items(), strict=True):
        if cells.any():
            copy.isetitem(at, _assigned(copy.iloc[:, at], cells, after[name].filter(cells).to_list()))
    if draws is not None:
        copy.insert(0, DRAW, counted)
    return copy


def _changed(before: pl.Series, after: pl.Series, times: int) -> Array:
    """Which cells were filled ``(M·N,)``."""
    old = pl.concat([before] * times) if times > 1 else before
    if old.dtype != after.dtype:
        old, after = old.cast(pl.String), after.cast(pl.String)
    found: Array = (~old.eq_missing(after)).to_numpy()
    return found


def _assigned(column: Any, cells: Array, values: list[Any]) -> Any:
    """A pandas column with values at some cells, of its own type where that can hold them."""
    at = np.flatnonzero(cells)
    filled = column.copy()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            filled.iloc[at] = values
        if filled.dtype == column.dtype:
            return filled
    except (TypeError, ValueError, Warning):
        pass
    filled = column.astype(object)
    filled.iloc[at] = values
    return filled
