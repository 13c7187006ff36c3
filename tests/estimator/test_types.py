"""Filling changes what was blank and nothing else: values and types of all other cells and columns stay."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

from concrete_score import ConcreteScoreEstimator
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
