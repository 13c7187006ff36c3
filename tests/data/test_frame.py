"""Tables from Python: any library's objects become columns of cells, and go out in the form they came in."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from concrete_score.data import Form, as_frame
from concrete_score.data.frame import Frame, unique_names
from concrete_score.errors import InputError

TABLE = {"a": ["x", "y", "x"], "b": [1, 2, 2], "c": [True, False, True], "d": [0.5, 1.0, 2.5]}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_a_data_frame_comes_back_equal(make):
    frame = as_frame(make(TABLE))
    assert (frame.names, len(frame), frame.named, frame.typed) == (tuple("abcd"), 3, True, True)
    assert frame.rows()[0] == ("x", 1, True, 0.5)
    assert frame.native().equals(make(TABLE))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", ">i4", "float32", "float64", "bool", "U3"])
def test_an_array_comes_back_of_its_own_type(dtype):
    array = np.array([[3, 1], [0, 5], [3, 5]]).astype(dtype)
    frame = as_frame(array)
    assert (frame.names, frame.named) == (("x0", "x1"), False)
    back = frame.native()
    assert back.tolist() == array.tolist()
    assert back.dtype.kind == array.dtype.kind


def test_nested_lists_and_objects():
    assert as_frame([[0, 1], [1, 0]]).rows() == [(0, 1), (1, 0)]
    mixed = as_frame(np.array([["a", 1], [None, 2.5]], dtype=object))
    assert mixed.rows() == [("a", 1.0), (None, 2.5)]
    assert as_frame(np.array([[1, "x"], [2**70, 3]], dtype=object)).rows() == [("1", "x"), (str(2**70), "3")]


def test_blanks_of_every_make_are_null():
    table = pd.DataFrame(
        {
            "f": [1.0, np.nan, 2.0],
            "o": ["x", None, "y"],
            "n": pd.array([1, pd.NA, 3], dtype="Int64"),
            "c": pd.Categorical(["u", None, "v"]),
            "t": pd.to_datetime(["2020-01-01", None, "2021-01-01"]),
        }
    )
    blank = [[cell is None or cell != cell for cell in row] for row in as_frame(table).rows()]
    assert blank == [[False] * 5, [True] * 5, [False] * 5]


@pytest.mark.parametrize(
    "bad",
    [np.zeros(3), np.zeros((2, 2, 2)), np.zeros((0, 2)), "text", 3, None, np.zeros((2, 2), complex), [[1], [2, 3]]],
)
def test_what_is_no_table_is_refused(bad):
    with pytest.raises(InputError, match=r"^data: expected"):
        as_frame(bad)


@pytest.mark.parametrize("cells", [[[1], [2]], [b"a", b"b"], [{"x": 1}, {"x": 2}]])
def test_columns_that_cannot_hold_categories_are_named(cells):
    with pytest.raises(InputError, match="data: column 'a': expected a column of text, whole numbers or booleans"):
        as_frame(pl.DataFrame({"a": cells, "b": [1, 2]}))


def test_two_columns_of_one_name_are_refused():
    with pytest.raises(InputError, match=r"t: line 1: .*'a' for columns 1 and 3; rename one of them"):
        unique_names(["a", "b", "a"], "t")
    with pytest.raises(InputError, match="'column_2' for columns 1 and 2"):
        unique_names(["column_2", ""], "t")
    with pytest.raises(InputError, match=r"data: expected a different name for every column, got .*'a' 2 times"):
        as_frame(pd.DataFrame([[1, 2]], columns=["a", "a"]))


def test_rows_are_taken_by_place_or_mask_and_parts_joined():
    frame = as_frame(pl.DataFrame(TABLE))
    assert frame.take(np.array([2, 0])).rows() == [frame.rows()[2], frame.rows()[0]]
    assert frame.take(np.array([False, True, False])).rows() == [frame.rows()[1]]
    parts = [frame.take(np.array([0])), frame.take(np.array([1, 2]))]
    assert Frame.join(parts).rows() == frame.rows()
    assert Frame.join(parts).where == frame.where


def test_a_mistyped_column_gets_the_nearest():
    with pytest.raises(InputError, match="did you mean 'smoke'"):
        as_frame(pl.DataFrame({"smoke": [1], "b": [2]}))["smok"]


def test_json_has_plain_values():
    table = pl.DataFrame({"a": [1, None], "t": [None, "x"]}).with_columns(d=pl.date(2020, 1, 2))
    assert as_frame(table).to_json() == {
        "columns": ["a", "t", "d"],
        "rows": [[1, None, "2020-01-02"], [None, "x", "2020-01-02"]],
    }


@pytest.mark.parametrize(
    "value",
    [None, "csv", {}, {"kind": "os", "dtype": ""}, {"kind": "npy"}, {"kind": "npy", "dtype": "V8"}, {"kind": 3}],
)
def test_only_known_forms_are_built_from_json(value):
    with pytest.raises(InputError, match=r"^run: form"):
        Form.from_json(value, "run: form")
