"""The quick text reader and the careful one are the same reader; what is ragged is named, never padded."""

import csv
import io

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.data.careful import read_carefully
from concrete_score.data.kinds import SAMPLE, narrow_kinds, wide_kinds
from concrete_score.data.read import CSV, DATA, TSV
from concrete_score.data.tally import Tally
from concrete_score.data.text import _columns, _read_fast, _sample, read_text
from concrete_score.errors import InputError

cells = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), max_size=4) | st.sampled_from(
    ["", "yes", 'a"b', "a,b", "a\nb", "a\tb", " x ", "é", "\r", "007", "1.0", "'"]
)
tables = st.integers(2, 4).flatmap(
    lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), min_size=1, max_size=8)
)


def written(rows, separator=",", header=True):
    page = io.StringIO(newline="")
    names = [f"c{d}" for d in range(len(rows[0]))]
    # With both letters in its line end, Python's writer quotes both.
    csv.writer(page, delimiter=separator, lineterminator="\r\n").writerows([names, *rows] if header else rows)
    return page.getvalue().encode()


def blank_to_none(rows):
    return [tuple(cell or None for cell in row) for row in rows]


@given(tables, st.sampled_from([CSV, TSV]))
def test_any_table_written_by_csv_is_read_cell_for_cell(rows, layout):
    data = written(rows, layout.separator)
    assert read_text(data, "t", layout).rows() == blank_to_none(rows)


@given(tables)
def test_quick_and_careful_readers_agree(rows):
    data, names = written(rows), [f"c{d}" for d in range(len(rows[0]))]
    careful = read_carefully(data, names, ",", True, "t")
    assert [column.cells().to_list() for column in careful] == [list(c) for c in zip(*blank_to_none(rows), strict=True)]
    quick = _read_fast(data, data, CSV, names)
    if quick is not None:
        assert [column.cells().to_list() for column in quick] == [column.cells().to_list() for column in careful]


def test_the_quick_reader_reads_ordinary_tables_itself():
    data = b'a,b\n1,"x,y"\n2,\n'
    quick = _read_fast(data, data, CSV, ["a", "b"])
    assert quick is not None
    assert quick[1].cells().to_list() == ["x,y", None]


@pytest.mark.parametrize("line", ["1,2", "1,2,3,4", "1", '"1,2",3', "1,2,3,"])
def test_a_ragged_line_is_named_wherever_it_stands(line):
    rows = ["a,b,c", *["1,2,3"] * 3000, line, *["1,2,3"] * 10]
    with pytest.raises(InputError, match=r"t\.csv: line 3002: expected 3 cells"):
        read_text("\n".join(rows).encode(), "t.csv", CSV)


def test_short_and_long_lines_that_make_up_for_one_another_are_still_found():
    with pytest.raises(InputError, match="line 2"):
        read_text(b"a,b,c\n1,2\n1,2,3,4\n", "t", CSV)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_of_every_system_and_blank_lines(end):
    data = end.join(["a,b", "1,x", "", "2,", ""]).encode()
    assert read_text(data, "t", CSV).rows() == [("1", "x"), ("2", None)]


def test_byte_order_mark_is_not_part_of_the_first_name():
    assert read_text(b"\xef\xbb\xbfa,b\n1,2\n", "t", CSV).names == ("a", "b")


def test_headerless_columns_are_called_by_place():
    frame = read_text(b"0,1\n1,1\n", "t", DATA)
    assert (frame.names, frame.named, frame.num_rows) == (("x0", "x1"), False, 2)


def test_a_column_without_a_name_gets_one():
    assert read_text(b",a\n0,1\n", "t", CSV).names == ("column_1", "a")


def test_narrow_storage():
    rows = "\n".join(f"{i % 2},{i % 300}" for i in range(1000))
    a, b = read_text(f"a,b\n{rows}\n".encode(), "t", CSV).columns
    assert (a.codes.dtype.name, b.codes.dtype.name) == ("uint8", "uint16")


def test_wide_columns_of_fractions_become_numbers_and_wide_names_stay_text():
    rows = "\n".join(f"{i / 7},{i:05d},{i % 3}" for i in range(3000))
    numbers, names, few = read_text(f"a,b,c\n{rows}\n".encode(), "t", CSV).columns
    assert type(numbers).__name__ == "Numbers"
    assert numbers.cells().to_list() == [float(f"{i / 7}") for i in range(3000)]
    assert names.cells()[7] == "00007"
    assert len(few.values) == 3


def quick(data, guess, layout=CSV):
    """What the quick reader makes of the guessed types alone; None where it does not trust them."""
    first = data.removeprefix(b"\xef\xbb\xbf").decode().splitlines()[0].split(layout.separator)
    sample = _sample(data, data, layout, len(first))
    return _columns(data, data, layout, first, sample, guess(sample))


SMALL = ["7", "-3", "0", "", "007", "+7", "-0", "00", " 7", "7 ", "7.0", "1e1", "300", "-129", "70000", "9" * 20, "٣"]
TRUTH = ["true", "false", "", "True", "TRUE", "truE", "yes", "1"]
WORDS = ["w1", "", "w9", " w1", '"', "a,b", "\r\n"]
# Mostly one promise is broken at a time, so that no other cell gives it away.
broken = st.one_of(
    st.tuples(st.sampled_from(SMALL), st.just("true"), st.just("w1")),
    st.tuples(st.just("7"), st.sampled_from(TRUTH), st.just("w1")),
    st.tuples(st.just("7"), st.just("true"), st.sampled_from(WORDS)),
)


@given(st.lists(broken, min_size=1, max_size=3))
@settings(max_examples=60)
def test_types_guessed_from_the_first_rows_never_change_a_cell_further_down(odd):
    rows = [(str(k % 3), "true" if k % 2 else "false", f"w{k % 5}") for k in range(SAMPLE)] + odd
    assert read_text(written(rows), "t", CSV).rows() == blank_to_none(rows)


@pytest.mark.parametrize("row", [*([cell, "true"] for cell in SMALL[4:]), *(["7", cell] for cell in TRUTH[3:])])
def test_a_cell_that_a_narrow_type_would_forget_or_cannot_hold(row):
    rows = [["7", "true"]] * SAMPLE + [row]
    data = written(rows)
    assert quick(data, narrow_kinds) is None
    assert quick(data, wide_kinds) is not None
    assert read_text(data, "t", CSV).rows() == blank_to_none(rows)


@pytest.mark.parametrize("words", [("false", "true"), ("False", "True"), ("FALSE", "TRUE")])
@pytest.mark.parametrize("strange", [["true"] * 3 + ["TRUE"], ["tRUE", "False"], ["TRUE", "tRUe"], ["True", "FALSE"]])
def test_truth_values_of_several_spellings_are_several_values(words, strange):
    rows = [["7", words[k % 2]] for k in range(SAMPLE)] + [["8", word] for word in strange]
    assert quick(written(rows[:SAMPLE]), narrow_kinds) is not None
    assert (quick(written(rows), narrow_kinds) is None) == (not set(strange) <= set(words))
    assert read_text(written(rows), "t", CSV).rows() == blank_to_none(rows)


def test_a_short_row_and_long_spellings_that_make_up_for_one_another_are_still_found():
    rows = ["a,b,c", *["1,2,3"] * SAMPLE, "001,2,3", "1", "1,2,3"]
    with pytest.raises(InputError, match=f"line {SAMPLE + 3}: expected 3 cells"):
        read_text("\n".join(rows).encode(), "t", CSV)


def test_more_categories_than_the_first_rows_promise():
    rows = [[f"w{k % 9}", str(k % 2)] for k in range(SAMPLE)] + [[f"v{k}", "1"] for k in range(400)]
    data = written(rows)
    assert quick(data, narrow_kinds) is None
    frame = read_text(data, "t", CSV)
    assert frame.rows() == [tuple(row) for row in rows]
    assert len(frame.columns[0].values) == 409


@pytest.mark.parametrize("far", [2**20 - 1, 2**20, -(2**20), 2**31 - 1, -(2**31)])
def test_whole_numbers_far_apart(far):
    rows = [[str(200_000 + k % 7), "x" if k % 2 else ""] for k in range(SAMPLE)] + [[str(200_000 + far), "y"]]
    assert read_text(written(rows), "t", CSV).rows() == blank_to_none(rows)


ORDINARY = {
    "plain": b"a,b,c\n1,no,true\n-12,yes,false\n",
    "no last line end": b"a,b,c\n1,no,true\n-12,yes,false",
    "carriage returns": b"a,b,c\r\n1,no,true\r\n-12,yes,false\r\n",
    "byte-order mark": b"\xef\xbb\xbfa,b,c\n1,no,true\n-12,yes,false\n",
    "quotes": b'a,b,c\n"1",no,"true"\n-12,"yes",false\n',
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_files_are_read_by_narrow_types(name):
    found = quick(ORDINARY[name], narrow_kinds)
    assert found is not None
    assert [column.cells().to_list() for column in found] == [["1", "-12"], ["no", "yes"], ["true", "false"]]


def test_a_column_without_a_name_does_not_slow_the_reader():
    rows = [["", "a"], ["0", "x"], ["1", "y"]]
    data = written(rows, header=False)
    assert _read_fast(data, data, CSV, ["", "a"]) is not None


def test_the_sample_of_a_large_file_comes_from_its_head_even_amid_a_cell():
    line = "1," + "x" * 200 + "\n"
    data = ("a,b\n" + line * 10_000).encode()
    assert len(_sample(data, data, CSV, 2)) == SAMPLE
    long = ('a,b\n1,"' + "x\n" * 2**20 + '"\n2,y\n').encode()
    assert read_text(long, "t", CSV).rows() == [("1", "x\n" * 2**20), ("2", "y")]


@pytest.mark.parametrize("kind", [pl.Int8, pl.Int16, pl.Int32])
def test_polars_reads_a_whole_number_exactly_or_not_at_all(kind):
    """What the count of letters relies on: no number is wrapped into another."""
    bound = int(pl.select(kind.max()).item())
    numbers = [*range(bound - 3, bound + 300), *range(-bound - 300, 3 - bound), 2 * bound + 2, 2**64, 10**30, -(10**30)]
    for number in numbers:
        data = f"{number},x\n".encode()
        try:
            read = pl.read_csv(data, has_header=False, schema={"a": kind, "b": pl.String})["a"][0]
        except pl.exceptions.ComputeError:
            read = None
        assert read == (number if -bound - 1 <= number <= bound else None)


@given(tables, st.sampled_from([",", "\t"]))
def test_every_letter_of_a_file_is_a_mark_or_in_a_cell(rows, separator):
    data = written(rows, separator, header=False)
    texts = pl.Series([cell for row in rows for cell in row], dtype=pl.String)
    cells = Tally.of_texts(texts, pl.ones(len(texts), eager=True).to_numpy(), separator)
    assert cells + Tally(len(rows) * (len(rows[0]) - 1), 0) == Tally.of_file(data, separator)
