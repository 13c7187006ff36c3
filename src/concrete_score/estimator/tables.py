"""Tables at the estimator's door: checked in scikit-learn's words, given back in the kind they came in."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from sklearn.utils.validation import check_array, validate_data
from torch import Tensor

from concrete_score.data import Column, Form, Frame, Numbers, TableCodec, TableOptions, as_frame
from concrete_score.data.columns import column_of, integers_column
from concrete_score.data.meaning import NUMBER, understand
from concrete_score.data.refusals import refuse_blanks
from concrete_score.data.sites import Bins
from concrete_score.errors import InputError, nearest
from concrete_score.shapes import States

_ARRAYS = ("numpy", "npy", "npz")
_BLANK = "NaN, None and null are blank"


def is_frame(X: Any) -> bool:
    """Whether ``X`` is a table with columns of their own, of any library narwhals knows.

    >>> is_frame(pl.DataFrame({"a": [1]})), is_frame(np.ones((2, 2)))
    (True, False)
    """
    import narwhals as nw

    return isinstance(X, Frame) or isinstance(nw.from_native(X, eager_only=True, pass_through=True), nw.DataFrame)


def training_table(estimator: Any, X: Any, missing: Any) -> Frame:
    """The table to learn from.

    Raises:
        ValueError: not two axes, too few rows or columns, complex numbers, infinity, or blanks that are refused.
        TypeError: a sparse matrix.
    """
    frame = _table(estimator, X, rows=2, columns=2)
    if missing == "refuse":
        refuse_blanks(frame, blanks(frame), f"{_BLANK}: add --missing drop or --missing category, or fill them")
    return frame


def held_out_table(estimator: Any, X: Any, codec: TableCodec, where: str = "valid") -> Frame:
    """A table beside the one learned from, its columns found like those of `table`."""
    frame = _table(estimator, X, rows=1, columns=1, where=where)
    return frame if codec.named else replace(frame, named=False)


def note_columns(estimator: Any, names: tuple[str, ...], named: bool) -> None:
    """Let the estimator remember how many columns there were, and their names if they had any."""
    estimator.n_features_in_ = len(names)
    if named:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def table(estimator: Any, X: Any, codec: TableCodec) -> Frame:
    """A table for a fitted estimator: columns are found by name, or by place where either side has no names.

    Raises:
        ValueError: not two axes, another number of columns, or infinity.
        TypeError: a sparse matrix.
    """
    frame = held_out_table(estimator, X, codec, "X")
    if not frame.named and not isinstance(X, Frame):
        validate_data(estimator, X, reset=False, skip_check_array=True)
    return frame


def blanks(frame: Frame) -> dict[str, int]:
    """How many cells of each column are blank.

    >>> blanks(as_frame(np.array([[1.5, np.nan], [2.0, 3.0]])))
    {'x0': 0, 'x1': 1}
    """
    return {column.name: _blank_cells(column) for column in frame.columns}


def options(frame: Frame, bins: Any, missing: Any, max_categories: Any) -> TableOptions:
    """How to read the table; one number of bins is for every column that could not be categories without.

    Raises:
        InputError: a parameter of the wrong kind.

    >>> frame = as_frame(pl.DataFrame({"age": [30.5, 41.2], "smoke": ["no", "yes"]}))
    >>> dict(options(frame, 4, "refuse", 256).bins)
    {'age': 4}
    """
    if not isinstance(missing, str):
        raise InputError("refuse, drop or category", repr(missing), where="missing")
    limit = _count(max_categories, "max_categories")
    if bins is None:
        chosen: dict[str, int] = {}
    elif isinstance(bins, Mapping):
        chosen = {column_name(frame.names, frame.named, name): _count(n, "bins") for name, n in bins.items()}
    else:
        count = _count(bins, "bins")
        chosen = {column.name: count for column in frame.columns if _needs_bins(column, limit, frame.typed)}
    return TableOptions(bins=chosen, missing=missing, max_categories=limit)


def conditions(codec: TableCodec, given: Any) -> dict[int, int]:
    """Values of columns as values of sites; columns without names may be called by their number.

    Raises:
        InputError: no such column or value; the nearest one is named.

    >>> codec = TableCodec.fit(pl.DataFrame({"smoke": ["no", "yes"], "age": [30, 41]}))
    >>> conditions(codec, {"age": 41, "smoke": "no"})
    {1: 1, 0: 0}
    """
    if given is not None and not isinstance(given, Mapping):
        raise InputError("a mapping such as {'smoke': 'yes'}", type(given).__name__, where="given")
    found = {}
    for key, value in (given or {}).items():
        name = column_name(codec.names, codec.named, key, "given")
        d = codec.names.index(name)
        text = "" if value is None or value != value else str(value)
        place = codec.sites[d].place(text)
        if place is None:
            fix = nearest(text, list(codec.sites[d].labels))
            raise InputError(f"a value of {name!r} seen in training", repr(value), where="given", fix=fix)
        found[d] = place
    return found


def column_name(names: tuple[str, ...], named: bool, key: Any, where: str = "bins") -> str:
    """The column a key means: its name, or its number where columns have no names."""
    at = key if isinstance(key, int | np.integer) and not isinstance(key, bool) else None
    if not named and at is not None and 0 <= at < len(names):
        return names[at]
    if str(key) not in names:
        raise InputError("the name of a column", repr(key), where=where, fix=nearest(str(key), list(names)))
    return str(key)


def describe(codec: TableCodec, site: int, value: int) -> str:
    """A value of a site in the table's words.

    >>> describe(TableCodec.fit(np.array([[0, 3], [1, 5]])), 1, 0)
    'x1 = 3'
    """
    return f"{codec.names[site]} = {codec.sites[site].labels[value]}"


def given_back(frame: Frame, form: Form, X: Any = None) -> Any:
    """A table in the kind ``form`` names; rows that stand for those of a pandas ``X`` keep its index."""
    found = replace(frame, form=form).native()
    if form.kind == "pandas" and X is not None and len(found) == len(X):
        found.index = X.index
    return found


def completed(frame: Frame, codec: TableCodec, states: States, observed: Tensor) -> Frame:
    """The table with its blanks filled from ``states`` ``(N, D)``; all other cells and columns as they came.

    A range is written into a column of numbers as text, and makes text of the column.

    >>> import torch
    >>> frame = as_frame(pl.DataFrame({"smoke": ["no", None], "age": [30, 41], "note": ["a", "b"]}))
    >>> codec = TableCodec.fit(pl.DataFrame({"smoke": ["no", "yes"], "age": [30, 41]}))
    >>> completed(frame, codec, torch.tensor([[0, 0], [1, 1]]), torch.tensor([[True, True], [False, True]])).rows()
    [('no', 30, 'a'), ('yes', 41, 'b')]
    """
    by_name = set(codec.names) <= set(frame.names)
    places = {name: d for d, name in enumerate(codec.names if by_name else frame.names)}
    filled, columns = codec.decode(states), []
    for column in frame.columns:
        d = places.get(column.name)
        if d is not None and not bool(observed[:, d].all()):
            cells, values = _alike(column.cells(), filled.columns[d].cells())
            whole = cells.zip_with(pl.Series(observed[:, d].numpy()), values)
            column = column_of(whole.alias(column.name), frame.where)
        columns.append(column)
    return replace(frame, columns=tuple(columns))


def copied(frame: Frame, times: int) -> Frame:
    """That many copies of a table below one another."""
    return frame.take(np.tile(np.arange(frame.num_rows), times))


def counted(frame: Frame, times: int) -> Any:
    """Copies below one another with a first column ``draw``; those of an array on a new first axis.

    Raises:
        InputError: the table has a column ``draw`` already.
    """
    if frame.form.kind in _ARRAYS:
        return frame.native().reshape(times, -1, len(frame.columns))
    if "draw" in frame.names:
        raise InputError("a table without a column 'draw'", "one that has it", where="X", fix="rename it")
    draw = np.repeat(np.arange(times), frame.num_rows // times)
    return replace(frame, columns=(integers_column("draw", draw), *frame.columns)).native()


def bins_of(codec: TableCodec) -> dict[str, int]:
    """The columns cut into bins, and into how many."""
    return {site.name: site.size - site.blank for site in codec.sites if isinstance(site, Bins)}


def _table(estimator: Any, X: Any, rows: int, columns: int, where: str = "X") -> Frame:
    if not is_frame(X):
        X = check_array(
            X,
            dtype=None,
            ensure_all_finite=False,
            ensure_min_samples=rows,
            ensure_min_features=columns,
            estimator=estimator,
            input_name=where,
        )
    frame = as_frame(X, where)
    for column in frame.columns:
        if isinstance(column, Numbers) and np.isinf(column.numbers).any():
            row = int(np.isinf(column.numbers).argmax())
            raise InputError("finite numbers", "infinity", where=f"{where}: row {row}, column {column.name!r}")
    return frame


def _alike(cells: pl.Series, values: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Both of one kind; text where they are of two."""
    if cells.dtype == values.dtype:
        return cells, values
    return cells.cast(pl.String), values.cast(pl.String)


def _blank_cells(column: Column | Numbers) -> int:
    absent = np.isnan(column.numbers) if isinstance(column, Numbers) else column.codes == len(column.values)
    return int(absent.sum())


def _needs_bins(column: Column | Numbers, limit: int, typed: bool) -> bool:
    meaning = understand(column, limit=limit, typed=typed)
    return meaning.kind == NUMBER or (meaning.numeric and meaning.distinct > limit)


def _count(value: Any, where: str) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise InputError("a whole number", repr(value), where=where)
    return int(value)
