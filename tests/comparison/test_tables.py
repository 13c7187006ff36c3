"""What a column is, and its cells in several tables at once."""

import numpy as np
import polars as pl
import pytest

from concrete_score.comparison.cells import dates, numbers, plain
from concrete_score.comparison.tables import align
from concrete_score.data import as_frame
from concrete_score.data.formats import CSV
from concrete_score.errors import InputError

MANY = [str(3 * i) for i in range(30)]


def csv(columns, name="real.csv"):
    return CSV.read(pl.DataFrame(columns).write_csv().encode(), name)


def kinds(columns, **options):
    table = csv(columns)
    return {column.name: column.kind for column in align([table, table], **options).columns}


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (MANY, "number"),
        (["1", "2", "3"] * 10, "category"),
        (["0.5", "1"] * 15, "number"),
        (["007", "008"] * 15, "category"),
        (["1e3", "-2.5", "NA"] * 10, "number"),
        (["2020-01-31", "2021-12-01", ""] * 10, "date"),
        (["31.12.2020", "01.02.2021", "?"] * 10, "date"),
        (["2020-01-31T10:00:00Z", "2020-01-31T10:00:01+02:00"] * 15, "date"),
        (["12/31/2020", "01/02/2021"] * 15, "date"),
        (["10:30", "23:59"] * 15, "date"),
        (["2020-01-31", "31.12.2020"] * 15, "date"),
        (["01/31/2020", "31/01/2020", "01/02/2020"] * 10, "category"),
        (["$1,250.50", "$7.25", "NA"] * 10, "number"),
        (["19-Sep-03", "1-Oct-04"] * 15, "date"),
        (["yes", "no", ""] * 10, "category"),
        (["True", "False"] * 15, "category"),
    ],
)
def test_a_column_is_what_all_its_cells_read_as(cells, kind):
    assert kinds({"x": cells, "other": ["a", "b", "c"] * 10}) == {"x": kind, "other": "category"}


def test_the_kind_is_that_of_all_tables_together():
    one, other = csv({"x": MANY}), csv({"x": ["a", "b", "a"]}, "other.csv")
    assert align([one, one]).columns[0].kind == "number"
    assert align([one, other]).columns[0].kind == "category"


def test_a_word_among_numbers_is_blank_and_noted():
    found = align([csv({"x": [*MANY, "broken"]}), csv({"x": MANY})])
    assert found.columns[0].kind == "number"
    assert np.isnan(found.columns[0].cells[0][-1])
    assert found.notes == ("column 'x': 'broken' among numbers counts as blank",)


def test_identifiers_and_blank_columns_are_left_out_with_a_note():
    table = csv({"id": [f"n{i}" for i in range(30)], "none": [None] * 30, "x": ["a", "b", "c"] * 10})
    found = align([table, table])
    assert found.names == ("x",)
    assert "'id' identifies its rows" in found.notes[0]
    assert "'none' is blank throughout" in found.notes[1]
    assert align([table, table], kinds={"id": "category"}).names == ("id", "x")


def test_words_among_amounts_and_dates_are_blank_too():
    amounts = [f"{i},50 €" for i in range(40)]
    found = align([csv({"x": [*amounts, "k.A.", "k.A."], "d": ["31.12.2020", "01.02.2021"] * 20 + ["soon"] * 2})] * 2)
    assert [column.kind for column in found.columns] == ["number", "date"]
    assert found.columns[0].cells[0][1] == 1.5
    assert found.columns[0].blank(0).nonzero()[0].tolist() == [40, 41]
    assert found.notes == (
        "column 'x': 'k.A.' among numbers counts as blank",
        "column 'd': 'soon' among dates counts as blank",
    )


@pytest.mark.parametrize(
    ("name", "cells", "out"),
    [
        ("column_1", range(30), True),
        ("customer_id", range(0, 90, 3), True),
        ("x", range(0, 90, 3), False),
        ("x", [*range(29), 0], False),
    ],
)
def test_whole_numbers_that_number_the_real_rows_are_left_out_with_a_note(name, cells, out):
    real, synthetic = (csv({name: list(cells), "y": ["a", "b", "c"] * 10}), csv({name: [7] * 9, "y": ["a"] * 9}))
    found = align([real, synthetic])
    assert found.names == (("y",) if out else (name, "y"))
    assert [f"column {name!r} numbers the rows" in note for note in found.notes] == [True] * out
    assert align([real, synthetic], kinds={name: "number"}).names == (name, "y")
    array = as_frame(np.arange(60).reshape(30, 2))
    assert len(align([array, array]).columns) == 2


def test_infinite_numbers_are_blank_and_noted():
    table = as_frame(pl.DataFrame({"x": [0.5, float("inf"), 1.5, None]}))
    found = align([table, table])
    assert found.columns[0].blank(0).tolist() == [False, True, False, True]
    assert found.notes == ("column 'x': 2 infinite numbers count as blank",)


def test_the_same_value_in_another_files_spelling_is_the_same():
    one = csv(
        {"n": ["1", "2", "", "1"], "b": ["True", "False", "True", "True"], "d": ["2020-01-01"] * 3 + ["2020-01-02"]}
    )
    dated = pl.Series(["2020-01-01"] * 3 + ["2020-01-02"]).str.to_date()
    other = as_frame(pl.DataFrame({"n": [1.0, 2.0, None, 1.0], "b": [True, False, True, True], "d": dated}))
    found = align([one, other])
    assert [column.kind for column in found.columns] == ["category", "category", "date"]
    for column in found.columns:
        assert np.array_equal(column.cells[0], column.cells[1], equal_nan=True)
    assert np.array_equal(*found.row_ids)


def test_words_for_blanks_are_blank_in_text_files_and_elsewhere_where_declared():
    table, typed = csv({"x": ["a", "NA", "b"] * 10}), as_frame(pl.DataFrame({"x": ["a", "NA", "b"] * 10}))
    assert align([table, typed]).columns[0].labels == ("a", "b")
    assert align([table, typed], na=[]).columns[0].labels == ("NA", "a", "b")
    assert align([typed, table]).columns[0].labels == ("NA", "a", "b")
    assert align([typed, table], na=["NA"]).columns[0].labels == ("a", "b")
    assert plain(pl.Series([1, 2, -9]), ["-9"]).to_list() == [1.0, 2.0, None]


def test_equal_rows_have_equal_numbers_whatever_their_table():
    a, b = (
        as_frame(pl.DataFrame({"x": [1, 2, 3], "y": ["u", None, "u"]})),
        as_frame(pl.DataFrame({"x": [2, 3], "y": [None, "v"]})),
    )
    one, other = align([a, b]).row_ids
    assert len(set(one)) == 3
    assert other[0] == one[1]
    assert other[1] not in one


def test_moments_are_microseconds_and_numbers_are_floats():
    moments = dates([pl.Series(["1970-01-01T00:00:01.5"]), pl.Series(["?"])])
    assert moments[0].tolist() == [1.5e6]
    assert np.isnan(moments[1]).all()
    assert dates([pl.Series(["00:00:02", "00:01:00"])])[0].tolist() == [2e6, 6e7]
    assert dates([pl.Series(["1970-01-01", "soon"])]) is None
    assert numbers([pl.Series(["1", " 2.5 "])])[0].tolist() == [1.0, 2.5]
    assert numbers([pl.Series(["1970-01-01"]).str.to_date()]) is None


def test_different_columns_are_all_named_at_once():
    one, other, third = (
        csv({"a": ["1"], "b": ["1"], "c": ["1"]}),
        csv({"a": ["1"], "d": ["1"]}, "s.csv"),
        csv({"a": ["1"]}, "h.csv"),
    )
    with pytest.raises(InputError) as error:
        align([one, other, third])
    told = str(error.value)
    assert "real.csv without 'd'" in told
    assert "s.csv without 'b', 'c'" in told
    assert "h.csv without 'b', 'c', 'd'" in told
    assert "drop=['b', 'c', 'd']" in told
    assert align([one, other, third], drop=["b", "c", "d"]).names == ("a",)
    with pytest.raises(InputError, match="give tables of the same columns"):
        align([one, csv({"z": ["1"]}, "s.csv")])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"kinds": {"y": "number"}}, "did you mean|Known: x"),
        ({"kinds": {"x": "numbr"}}, "did you mean 'number'"),
        ({"kinds": {"x": "number"}}, "expected numbers alone, got other cells too"),
        ({"kinds": {"x": "date"}}, "expected dates alone"),
        ({"drop": ["y"]}, "the name of a column"),
        ({"drop": ["x"]}, "expected a column to compare, got none"),
    ],
)
def test_bad_options_are_refused(options, told):
    table = csv({"x": ["a", "b"]})
    with pytest.raises(InputError, match=told):
        align([table, table], **options)
