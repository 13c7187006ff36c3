"""The quick text reader and the careful one are the same reader; what is ragged is named, never padded."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.data.careful import read_carefully
from concrete_score.data.read import CSV, DATA, TSV
from concrete_score.data.text import _read_fast, read_text
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
