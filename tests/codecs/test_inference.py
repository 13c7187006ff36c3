"""Tables that cannot be a product of categories are refused with all their faults and the options that mend them."""

import numpy as np
import polars as pl
import pytest

from concrete_score.cli.console import SKIN
from concrete_score.codecs import TableCodec, TableOptions
from concrete_score.data import load, read_file
from concrete_score.errors import InputError


def refused(path, match, options=None):
    with pytest.raises(InputError, match=match) as caught:
        TableCodec.fit(load(str(path)), options)
    for text in (str(caught.value), caught.value.render(SKIN)):
        assert "\n" not in text
        assert path.name in text
        assert ";" in text  # the advice
        assert "  " not in text
    return caught.value


TABLES = {
    "white": ("\n\n  \n", "one, '  '|a header alone"),
    "one_column": ("a\n1\n2\n", "two columns or more, got one, 'a'"),
    "constant": ("a,b\n1,x\n2,x\n", r"'b' \(one value in every row\); pass drop=\['b'\]"),
    "all_blank": ("a,b\n,\n,\n", "blank cells alone"),
    "blank_column": ("a,b,c\n1,,2\n2,,1\n", r"'b' \(blank in every row\)"),
    "blank_cells": (
        "a,b\n1,x\n2,\n1,y\n",
        r"got 1 \('b': 1\); pass missing='drop', or pass missing='category'",
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_without_two_columns_of_categories(tmp_path, name):
    text, match = TABLES[name]
    path = tmp_path / f"{name}.csv"
    path.write_text(text)
    refused(path, match)


def test_the_command_line_spells_the_same_advice_as_flags(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(TABLES["blank_cells"][0])
    assert refused(path, "blank").render(SKIN).endswith("; add --missing drop, or add --missing category")
    path.write_text(TABLES["constant"][0])
    assert "; add --drop b, or choose other columns with --columns" in refused(path, "one value").render(SKIN)


def test_many_categories_and_every_offending_column_in_one_message(tmp_path):
    rows = "\n".join(f"{i},name {i},{i / 7},{i % 2},{i % 7 / 4},k,{i % 3}" for i in range(20_000))
    path = tmp_path / "wide.csv"
    path.write_text(f"id,the name,share,bit,quarter,same,ok\n{rows}\n")
    error = refused(path, "columns of 2 to 256 categories")
    text, typed = str(error), error.render(SKIN)
    for word in ("'id' (20000 values)", "'the name' (20000 values)", "'share' (non-integer numbers)"):
        assert word in text
        assert word in typed
    for flag in ("--bins id=10", "--drop 'the name'", "--bins share=10", "--bins quarter=10", "--drop same"):
        assert flag in typed
    assert "bins={'id': 10, 'share': 10, 'quarter': 10}, drop=['the name', 'same']" in text
    assert "--" not in text
    assert "'bit'" not in text
    assert "'ok'" not in text
    mended = TableOptions(drop=("the name", "same"), bins={"id": 10, "share": 10, "quarter": 2})
    assert TableCodec.fit(read_file(path), mended).space.sizes == (10, 10, 2, 2, 3)


def test_one_count_of_bins_cuts_what_cannot_be_categories_otherwise(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,share,bit\n" + "".join(f"{i},{i / 7},{i % 2}\n" for i in range(500)))
    assert TableCodec.fit(read_file(path), TableOptions(bins=5)).space.sizes == (5, 5, 2)
    assert TableCodec.fit(read_file(path), TableOptions(bins=5, max_categories=600)).space.sizes == (500, 5, 2)


def test_bins_on_words_are_refused_among_the_others(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\nx,1\ny,2\n")
    refused(path, "'a' .not numbers, so no bins", TableOptions(bins={"a": 3}))


def test_numbers_but_for_a_word_are_told_from_text(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{k}.5,{k % 2}\n" for k in range(20)) + "NA,1\n?,0\n")
    error = refused(path, r"'a' .numbers but for '\?', 'NA'.; pass na=\['\?', 'NA'\]", TableOptions(bins={"a": 3}))
    assert "'a' (numbers but for '?', 'NA'); add --na '?' --na NA" in error.render(SKIN)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"missing": "keep"}, "missing: expected one of refuse, drop, category, got 'keep'"),
        ({"missing": "dropp"}, "did you mean 'drop'"),
        ({"max_categories": 1}, "max_categories: expected a whole number of at least 2, got 1"),
        ({"max_categories": True}, "max_categories: .*got True"),
        ({"bins": 1}, "bins: expected 2 bins or more, got 1; for example bins={'COLUMN': 10}"),
        ({"bins": {"a": 1}}, "bins={'a': 1}: expected 2 bins or more, got 1"),
        ({"bins": {"a": True}}, "bins: expected a whole number"),
        ({"levels": 3}, r"levels: expected an option of tables, got one of another kind of data"),
    ],
)
def test_options_are_checked_before_the_table_is_looked_at(options, match):
    with pytest.raises(InputError, match=match):
        TableCodec.infer(None, options)


def test_a_column_named_twice_is_used_once_and_bins_of_a_column_left_out_are_no_mistake():
    table = pl.DataFrame({"a": [0, 1], "b": [1, 0], "c": [0.5, 1.5]})
    codec = TableCodec.fit(table, TableOptions(columns=["a", "b", "a"], bins={"c": 2}))
    assert codec.names == ("a", "b")
    assert TableCodec.fit(table, TableOptions(drop=["c"], bins={"c": 2})).names == ("a", "b")


def test_columns_of_an_array_may_be_called_by_number():
    array = np.array([[0, 1, 0], [1, 0, 1]])
    assert TableCodec.fit(array, TableOptions(columns=[2, 0])).names == ("x2", "x0")
    assert TableCodec.fit(array, TableOptions(drop=[0], bins={2: 2})).names == ("x1", "x2")


@pytest.mark.parametrize("options", [{"columns": "ab"}, {"drop": 5}, {"na": "x"}, {"na": [5]}, {"drop": [None]}])
def test_options_that_take_several_texts_refuse_anything_else(options):
    with pytest.raises(InputError, match=f"{next(iter(options))}: expected a list of texts"):
        TableOptions(**options)


def test_blanks_of_a_column_to_leave_out_need_no_other_option():
    table = pl.DataFrame({"a": [0, 1], "b": [1, 0], "c": [None, None]})
    with pytest.raises(InputError, match=r"got 'c' \(blank in every row\); pass drop=\['c'\], or"):
        TableCodec.fit(table)


def test_an_enum_of_a_data_frame_has_the_values_that_its_rows_have():
    table = pl.DataFrame({"a": ["x", "y"], "b": [0, 1]}, schema_overrides={"a": pl.Enum(["z", "y", "x"])})
    assert TableCodec.fit(table).labels(0) == ("x", "y")
