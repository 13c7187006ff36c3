"""Filling changes what was blank and nothing else: values and types of all other cells and columns stay."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from concrete_score import ConcreteScoreEstimator, ConcreteScoreImputer
from concrete_score.data.frame import as_frame

LARGE = 2**53 + 1


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": rng.choice(["x", "y"], 40), "b": rng.choice([1, 2, 3], 40)})
    rows["c"] = pd.array(LARGE + rng.integers(0, 3, 40), dtype="Int64")
    return ConcreteScoreEstimator(steps=5).fit(rows)


OTHERS = {
    "time": pd.to_datetime(["2020-01-01", None, "2020-01-03"]),
    "date": [dt.date(2020, 1, 2), None, dt.date(2020, 1, 3)],
    "decimal": [Decimal("1.10"), None, Decimal("2.20")],
    "bytes": [b"\0", b"", None],
    "empty": np.array(["", "q", None], dtype=object),
    "unsigned": np.array([2**64 - 1, 0, 2**63], dtype="uint64"),
    "whole": pd.array([2**62 + 1, None, 3], dtype="Int64"),
    "category": pd.Categorical(["p", "q", None]),
    "list": [[1], [], None],
    "single": np.array([0.1, np.nan, 0.3], dtype="float32"),
}


@pytest.mark.parametrize("draws", [None, 2])
def test_columns_that_are_not_known_come_back_as_they_were(fitted, draws):
    rows = pd.DataFrame({"a": ["x", None, "y"], "b": [1, 2, 3], "c": pd.array([LARGE, None, LARGE + 2], dtype="Int64")})
    rows = rows.assign(**OTHERS).set_index(pd.Index(["u", "v", "w"]))
    before, found = rows.copy(deep=True), fitted.impute(rows, draws)
    pd.testing.assert_frame_equal(rows, before)
    copies = [found] if draws is None else [part.drop(columns="draw") for _, part in found.groupby("draw")]
    for copy in copies:
        assert list(copy.columns) == list(rows.columns)
        pd.testing.assert_frame_equal(
            copy[list(OTHERS)].reset_index(drop=True), rows[list(OTHERS)].reset_index(drop=True)
        )
        assert copy["a"].notna().all()
        assert copy["c"].dtype == "Int64"
        assert [copy["c"].iloc[0], copy["c"].iloc[2]] == [LARGE, LARGE + 2]
        assert LARGE <= copy["c"].iloc[1] <= LARGE + 2
    if draws is None:
        assert list(found.index) == ["u", "v", "w"]


def test_polars_frames_too(fitted):
    others = {"raw": [b"a", None], "day": [dt.date(2020, 1, 1)] * 2, "empty": ["", ""], "list": [[1], [2]]}
    rows = pl.DataFrame({"raw": others["raw"], "a": ["x", None], "b": [1, 2], "c": [LARGE, None], **others})
    found = fitted.impute(rows)
    assert found.columns == rows.columns
    assert found.select(list(others)).equals(rows.select(list(others)), null_equal=True)
    assert found.schema == rows.schema
    assert found["c"][0] == LARGE
    assert found.null_count().select("a", "b", "c").row(0) == (0, 0, 0)
    assert fitted.impute(rows, 3).columns == ["draw", *rows.columns]


def test_whole_numbers_beside_blanks_keep_every_digit():
    rows = pd.DataFrame({"n": pd.array([LARGE, None], dtype="Int64")})
    found = as_frame(rows).native()
    assert found["n"].dtype == "Int64"
    assert found["n"].iloc[0] == LARGE


def _tables(column: pl.Series) -> dict[str, object]:
    """One table with blanks in every library."""
    rng = np.random.default_rng(0)
    rows = pl.DataFrame({"a": rng.choice(["x", "y"], len(column)).tolist(), "n": column})
    tables: dict[str, object] = {"polars": rows, "pyarrow": rows.to_arrow()}
    if column.dtype == pl.UInt64:
        cells = {"a": rows["a"].to_list(), "n": pd.array(column.to_list(), dtype="UInt64")}
        return {**tables, "pandas": pd.DataFrame(cells), "objects": np.array(rows.rows(), dtype=object)}
    return {**tables, "pandas": rows.to_pandas()}


def _cells(table) -> tuple[list, object]:
    """The cells of the last column and their type."""
    if isinstance(table, np.ndarray):
        return table.reshape(-1, 2)[:, 1].tolist(), table.dtype
    if isinstance(table, pa.Table):
        return table["n"].to_pylist(), table.schema.field("n").type
    return table["n"].to_list(), table["n"].dtype


COLUMNS = {
    "few": pl.Series([2**63, None, 2**63 + 1] * 20, dtype=pl.UInt64),
    "wide": pl.Series([2**64 - 1, None, 0, 7] * 15, dtype=pl.UInt64),
    "many": pl.Series([None if n % 7 == 0 else 2**63 + n // 2 * n for n in range(60)], dtype=pl.UInt64),
    "small": pl.Series([1, None, 255] * 20, dtype=pl.UInt8),
    "day": pl.Series([dt.date(2020, 1, 1 + n % 9) if n % 5 else None for n in range(60)]),
    "instant": pl.Series([dt.datetime(2020, 1, 1 + n % 9) if n % 5 else None for n in range(60)], dtype=pl.Datetime),
    "decimal": pl.Series([Decimal(n * n) / 8 if n % 5 else None for n in range(60)], dtype=pl.Decimal(10, 3)),
    "single": pl.Series([n % 9 / 10 if n % 5 else None for n in range(60)], dtype=pl.Float32),
    "words": pl.Series(["p", None, "q"] * 20, dtype=pl.Categorical),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_known_cells_beside_blanks_keep_values_and_type_in_every_library(name):
    for library, rows in _tables(COLUMNS[name]).items():
        model = ConcreteScoreEstimator(steps=2).fit(rows)
        before, kind = _cells(rows)
        known = [at for at, blank in enumerate(COLUMNS[name].is_null()) if not blank]
        for draws in (None, 2):
            found, after = _cells(model.impute(rows, draws))
            assert after == kind, library
            for start in range(0, len(found), len(before)):
                copy = found[start : start + len(before)]
                assert [(type(copy[at]), copy[at]) for at in known] == [(type(before[at]), before[at]) for at in known]


def test_the_imputer_keeps_whole_numbers_above_two_to_the_63():
    for rows in (table for name, table in _tables(COLUMNS["few"]).items() if name != "objects"):
        found, kind = _cells(ConcreteScoreImputer(steps=2).fit_transform(rows))
        assert kind == _cells(rows)[1]
        assert set(found) == {2**63, 2**63 + 1}


def test_objects_that_were_not_blank_are_the_ones_that_came():
    rows = np.array([[b"x", 10**30], [None, 7], ["a", None]] * 20, dtype=object)
    found = ConcreteScoreEstimator(steps=2).fit(rows).impute(rows)
    assert all(after is before for before, after in zip(rows.ravel(), found.ravel(), strict=True) if before is not None)
    assert not any(cell is None for cell in found.ravel())


def test_lazy_tables_are_refused_in_one_line():
    with pytest.raises(ValueError, match=r"expected a table in memory, got a lazy one, LazyFrame; collect it first"):
        ConcreteScoreEstimator(steps=2).fit(pl.LazyFrame({"a": [1, 2], "b": [1, 2]}))
