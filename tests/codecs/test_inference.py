"""What each column of a table is, by its cells or by what was said; what has no reading is refused in one line."""

import numpy as np
import polars as pl
import pytest
import torch

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
    "white": ("\n\n  \n", "two values or more|blank cells alone|a header alone"),
    "constants": ("a,b\n1,x\n1,x\n", "a column with two values or more, got none"),
    "all_blank": ("a,b\n,\n,\n", "blank cells alone"),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_without_anything_to_learn(tmp_path, name):
    text, match = TABLES[name]
    path = tmp_path / f"{name}.csv"
    path.write_text(text)
    refused(path, match)


def kinds(codec):
    return {line[0]: line[1] for line in codec.schema_table()[2]}


def test_an_ordinary_table_needs_no_option(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["id,code,name,share,age,bit,quarter,same,none,city,day,at,note,flag,truth"]
    for i in range(2000):
        city = f"city {min(int(rng.exponential(300)), 3000)}"
        day = f"{1 + i % 28:02d}.{1 + i % 12:02d}.{2000 + i % 24}"
        lines.append(
            f"{i + 7},P{i:05d},name {i},{rng.normal():.2f},{rng.integers(18, 90)},{i % 2},{i % 7 / 4},k,,{city},{day},"
            f'2024-01-{1 + i % 31:02d} {i % 24:02d}:30,"text {i // 2}",{"x" if i % 3 else ""},{i % 2 == 0}'
        )
    path = tmp_path / "wide.csv"
    path.write_text("\n".join(lines) + "\n")
    codec = TableCodec.fit(read_file(path))
    assert kinds(codec) == {
        "id": "identifier",
        "code": "identifier",
        "name": "identifier",
        "share": "number",
        "age": "number",
        "bit": "category",
        "quarter": "number",
        "same": "constant",
        "none": "constant",
        "city": "text",
        "day": "date",
        "at": "date",
        "note": "text",
        "flag": "category",
        "truth": "category",
    }
    assert all(why for _, why in codec.why)
    assert dict(codec.why)["flag"] == "one value or blank: a blank counts as a value"
    rows = codec.encode(read_file(path), missing="unobserved")
    assert rows.observed.all()
    drawn = codec.decode(rows.states.long(), torch.Generator().manual_seed(0), first=3)
    table = drawn.table
    assert table.columns == lines[0].split(",")
    assert (table["id"][0], table["code"][0]) == (2010, "P02003")
    assert table["name"].to_list()[0] == "name 2003"
    assert (table["same"] == "k").all()
    assert table["none"].null_count() == 2000
    assert table["share"].dtype == pl.Float64
    assert table["age"].dtype == pl.Int64
    assert (table["share"].round(2) == table["share"]).all()
    assert table["day"].str.contains(r"^\d\d\.\d\d\.\d{4}$").all()
    assert table["at"].str.contains(r"^20\d\d-\d\d-\d\d \d\d:\d\d$").all()
    assert table["at"].str.starts_with("2024-01-").mean() > 0.997  # about one row in 2,000 lies beyond the last
    original = read_file(path).table["city"].unique()
    assert table["city"].is_in(original.implode()).all()
    again = codec.encode(drawn)
    assert torch.equal(again.states, rows.states)  # numbers stay in their ranges, pooled texts in the pool


def test_what_was_said_of_a_column_holds_or_is_refused_with_all_faults_at_once(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("zip,a,d,id\n" + "".join(f"{10000 + i % 150},{i % 3},x{i},{i}\n" for i in range(900)))
    inferred = TableCodec.fit(read_file(path))
    assert kinds(inferred) == {"zip": "number", "a": "category", "d": "identifier", "id": "identifier"}
    said = TableOptions(column={"zip": "category", "a": "number", "d": "text", "id": "number"})
    assert kinds(TableCodec.fit(read_file(path), said)) == {
        "zip": "category",
        "a": "number",
        "d": "text",
        "id": "number",
    }
    wrong = TableOptions(column={"a": "date", "d": "number", "zip": "constant"})
    error = refused(path, "columns that are what they were said to be", wrong)
    for word in ("'a' (not dates of one known format)", "'d' (not numbers)", "'zip' (150 values, so no constant)"):
        assert word in str(error)
    refused(path, "the name of a column, got 'b'", TableOptions(column={"b": "number"}))


def test_whole_numbers_are_categories_while_they_are_few():
    for count, kind in ((20, "category"), (21, "number")):
        table = pl.DataFrame({"a": [i % count for i in range(500)], "b": [i % 2 for i in range(500)]})
        assert kinds(TableCodec.fit(table))["a"] == kind
        assert kinds(TableCodec.fit(table, TableOptions(max_categories=30)))["a"] == "category"
        assert kinds(TableCodec.fit(table.to_numpy()))["x0"] == "category"  # an array holds states


def test_one_count_of_bins_cuts_all_numbers(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("k,share,bit\n" + "".join(f"{i % 250},{i / 7},{i % 2}\n" for i in range(500)))
    assert TableCodec.fit(read_file(path), TableOptions(bins=5)).space.sizes == (5, 5, 2)
    assert TableCodec.fit(read_file(path), TableOptions(bins=5, max_categories=600)).space.sizes == (250, 5, 2)


def test_bins_on_words_are_refused_among_the_others(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\nx,1\ny,2\n")
    refused(path, "'a' .not numbers", TableOptions(bins={"a": 3}))


def test_numbers_but_for_a_word_are_told_from_text(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{k}.5,{k % 2}\n" for k in range(20)) + "none,1\n-,0\n")
    error = refused(path, r"'a' .numbers but for '-', 'none'.; pass na=\['-', 'none'\]", TableOptions(bins={"a": 3}))
    assert "'a' (numbers but for '-', 'none'); add --na - --na none" in error.render(SKIN)
    codec = TableCodec.fit(read_file(path), TableOptions(column={"a": "number"}))
    assert kinds(codec)["a"] == "number"  # these two words mean blank
    path.write_text("a,b\n" + "".join(f"{k}.5,{k % 2}\n" for k in range(20)) + "low,1\nhigh,0\n")
    refused(path, r"'a' .numbers but for 'high', 'low'", TableOptions(column={"a": "number"}))


def stray(tmp_path, cells):
    path = tmp_path / "stray.csv"
    path.write_text("a,b\n" + "".join(f'"{cell}",{k % 2}\n' for k, cell in enumerate(cells)))
    frame = read_file(path)
    codec = TableCodec.fit(frame)
    rows = codec.encode(frame, missing="unobserved", unknown="reserve")
    filled = codec.fill(frame, rows, rows.states[None], None)
    assert filled.table.equals(frame.table)  # nothing is lost
    return codec, rows


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([f"{k / 4}" for k in range(98)], ["broken", "inf"]),
        ([f"{k}" for k in range(97)], ["1e400", "-inf", "error"]),
        ([f"2024-{1 + k % 12:02d}-{1 + k % 28:02d}" for k in range(99)], ["soon"]),
        ([f"${k},{k:03d}.50" for k in range(1, 99)], ["ask", "n.v."]),
    ],
)
def test_a_word_among_numbers_or_dates_counts_as_not_observed_and_stays(tmp_path, cells, words):
    codec, rows = stray(tmp_path, [*cells, *words])
    column = codec.columns[0]
    assert column.kind in ("number", "date", "amount")
    assert (~rows.observed[:, 0]).sum() == len(words) == rows.unseen[:, 0].sum()
    assert rows.log_inside[-1].exp() == pytest.approx(column.reserve) == len(words) / (len(cells) + len(words))
    (note,) = codec.notes()
    assert all(repr(word) in note[0] for word in words)
    assert note[1].value == {"a": "text"}
    again = TableCodec.from_json(codec.to_json())
    assert again == codec
    assert not again.notes()


def test_many_words_among_numbers_make_text_of_them(tmp_path):
    codec, _ = stray(tmp_path, [*(f"{k / 4}" for k in range(90)), *["low"] * 10])
    assert codec.columns[0].kind == "pooled"


def test_a_value_never_seen_has_the_probability_that_values_seen_once_reserve():
    table = pl.DataFrame({"a": ["x"] * 6 + ["y"] * 3 + ["z"], "b": [0, 1] * 5})
    codec = TableCodec.fit(table)
    assert codec.columns[0].reserve == 0.1
    new = pl.DataFrame({"a": ["x", "w"], "b": [0, 7]})
    rows = codec.encode(new, unknown="reserve")
    assert rows.observed.tolist() == [[True, True], [False, False]]
    assert rows.unseen.tolist() == [[False, False], [True, True]]
    assert rows.log_inside.exp().tolist() == pytest.approx([0.9, 0.1 / 11])
    with pytest.raises(InputError, match="row 1, column 'a'"):
        codec.encode(new, unknown="refuse")
    assert codec.encode(new, unknown="skip").kept.tolist() == [0]
    filled = codec.fill(new, rows, torch.zeros((1, 2, 2), dtype=torch.long), None)
    assert filled.rows() == [("x", 0), ("w", 7)]  # it is no blank


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"missing": "keep"}, "missing: expected one of unobserved, drop, category, refuse, got 'keep'"),
        ({"column": {"a": "nombre"}}, "column: expected one of category, number, .*got 'nombre'"),
        ({"column": ["a"]}, "column: expected a mapping"),
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


def test_a_column_blank_throughout_is_kept_aside():
    table = pl.DataFrame({"a": [0, 1], "b": [1, 0], "c": [None, None]})
    codec = TableCodec.fit(table, TableOptions(missing="refuse"))
    assert codec.names == ("a", "b")
    assert codec.decode(torch.tensor([[0, 1]])).rows() == [(0, 1, None)]


def test_an_enum_of_a_data_frame_has_the_values_that_its_rows_have():
    table = pl.DataFrame({"a": ["x", "y"], "b": [0, 1]}, schema_overrides={"a": pl.Enum(["z", "y", "x"])})
    assert TableCodec.fit(table).labels(0) == ("x", "y")


def test_blanks_beside_one_value_are_a_value_unless_other_columns_are_as_blank(tmp_path):
    cells = "{a},{b},{mark},{same}".format
    lines = ["a,b,mark,same"] + [
        cells(a="" if i % 5 == 0 else i % 3, b=i % 2, mark="" if i % 3 else "x", same="k" if i % 6 else "")
        for i in range(200)
    ]
    path = tmp_path / "marks.csv"
    path.write_text("\n".join(lines) + "\n")
    codec = TableCodec.fit(read_file(path))
    assert kinds(codec) == {"a": "category", "b": "category", "mark": "category", "same": "constant"}
    assert dict(codec.why)["mark"] == "one value or blank: a blank counts as a value"
    assert dict(codec.why)["same"] == "one value wherever it is known: kept aside, and given back"


def test_inference_tells_how_far_it_is_and_only_goes_forward():
    rows, told = np.random.default_rng(0).normal(size=(300, 6)), []
    rows[:, 1] = rows[:, 0] ** 2
    frame = pl.DataFrame(rows.round(2), schema=[f"x{d}" for d in range(6)])
    codec = TableCodec.infer_telling(frame, {}, lambda done, total: told.append(done / total))
    assert told == sorted(told)
    assert 0.0 < told[0] < 0.1
    assert told[-1] == 1.0
    assert codec.to_json() == TableCodec.infer(frame, {}).to_json()


@pytest.mark.parametrize(
    ("name", "cells", "kind"),
    [
        ("", range(1, 11), "identifier"),
        ("dose", range(5), "identifier"),
        ("dose", range(1, 5), "category"),
        ("dose", range(2, 10), "category"),  # neither 0 nor 1 comes first
        ("dose", [1, 3, 2, 4, 5], "category"),
        ("id", [31, 12, 4, 9, 7, 8, 2], "identifier"),
        ("id", [31, 12, 4, 9, 7, 8, 8], "category"),
        ("Order ID", ["A-3", "A-1", "A-9", "A-4", "A-5"], "identifier"),
        ("boat", [*"ABCDEFGHI"], "category"),
        ("boat", [*"123456789A"], "identifier"),
        ("boat", [*"123456789AA"], "category"),
    ],
)
def test_what_tells_the_rows_of_a_small_table_apart_is_left_aside(tmp_path, name, cells, kind):
    path = tmp_path / "small.csv"
    path.write_text(f"{name},b\n" + "".join(f"{cell},{k % 2}\n" for k, cell in enumerate(cells)))
    codec = TableCodec.fit(read_file(path))
    assert kinds(codec)[name or "column_1"] == kind


def test_what_a_column_is_instead_is_what_would_be_inferred(tmp_path):
    path = tmp_path / "t.csv"
    lines = [f'{k % 13} rd,"{k},{k % 9}0 €",{k / 8},word {k}' for k in range(100)]
    lines += [f"{k} rd,{word},{k},word {k}" for k, word in enumerate(["-", "k.A."] * 10)]
    path.write_text("street,pay,share,note\n" + "\n".join(lines) + "\n")

    def advice(**said):
        return refused(path, "columns that are what they were said to be", TableOptions(column=said)).render(SKIN)

    assert advice(street="date").endswith("'street' (not dates of one known format); add --column street=category")
    assert advice(share="date").endswith("add --column share=number")
    assert advice(note="date").endswith("add --column note=text")
    assert advice(pay="number").endswith("'pay' (numbers but for '-', 'k.A.'); add --na - --na k.A.")
    said = TableOptions(column={"pay": "number"}, na=["-", "k.A."])
    assert kinds(TableCodec.fit(read_file(path), said))["pay"] == "number"
