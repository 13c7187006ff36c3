"""The quick text reader and the strict one are the same reader; what is ragged or ill-quoted is named, never padded."""

import csv
import io

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from concrete_score.data.formats import CSV, DATA, TSV
from concrete_score.data.layout import Layout, outside_quotes
from concrete_score.data.text import _BLOCK, read_arff, read_quickly, read_strictly
from concrete_score.errors import InputError

cells = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), max_size=4) | st.sampled_from(
    ["", "yes", 'a"b', '"', '""', "a,b", "a\nb", "a\r\nb", "a\tb", " x ", "é", "\r", "007", "1.0", "'", "\ufeff"]
)
tables = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), min_size=1, max_size=8)
)
dialects = st.fixed_dictionaries(
    {
        "quoting": st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
        "lineterminator": st.sampled_from(["\n", "\r\n"]),
    }
)


def written(rows, separator=",", header=True, **dialect):
    page = io.StringIO(newline="")
    names = [f"c{d}" for d in range(len(rows[0]))]
    # With both characters in its line end, Python's writer quotes both.
    options = {"lineterminator": "\r\n", **dialect}
    csv.writer(page, delimiter=separator, **options).writerows([names, *rows] if header else rows)
    return page.getvalue().encode()


def blank_to_none(rows):
    return [tuple(cell or None for cell in row) for row in rows]


def strictly(data, separator=","):
    """The rows by Python's strict reader, empty lines passed over; None where it refuses."""
    text = io.StringIO(data.decode("utf-8-sig"), newline="")
    try:
        return [row for row in csv.reader(text, delimiter=separator, strict=True) if row]
    except csv.Error:
        return None


@given(tables, st.sampled_from([CSV, TSV]), dialects)
def test_any_table_written_by_csv_is_read_cell_for_cell(rows, layout, dialect):
    if any("\r" in cell for row in rows for cell in row):
        dialect["lineterminator"] = "\r\n"  # else the writer leaves a carriage return bare
    data = written(rows, layout.separator, **dialect)
    assert layout.read(data, "t").rows() == blank_to_none(rows)


@given(tables, st.sampled_from(",;\t|"))
def test_quick_and_strict_readers_agree(rows, separator):
    data, names = written(rows, separator), [f"c{d}" for d in range(len(rows[0]))]
    strict = read_strictly(data, names, Layout(separator), "t")
    assert strict.rows() == [tuple(row) for row in rows]
    quick = read_quickly(data, names, Layout(separator))
    if quick is not None:
        assert quick.equals(strict)


ORDINARY = {
    "plain": b"a,b,c\n1,no,true\n-12,yes,false\n",
    "no last line end": b"a,b,c\n1,no,true\n-12,yes,false",
    "carriage returns": b"a,b,c\r\n1,no,true\r\n-12,yes,false\r\n",
    "quotes": b'a,b,c\n"1",no,"true"\n-12,"yes",false\n',
    "quoted separators and line ends": b'a,b,c\n1,"no\r\n,",true\n-12,"""yes""",false\n',
    "a column without a name": b",b,c\n1,no,true\n-12,yes,false\n",
    "blanks": b'a,b,c\n1,,true\n,"",false\n',
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_files_are_read_by_the_quick_reader_itself(name):
    data = ORDINARY[name]
    quick = read_quickly(data, ["a", "b", "c"], Layout())
    assert quick is not None
    assert quick.equals(read_strictly(data, ["a", "b", "c"], Layout(), "t"))


PIECES = [
    "1",
    "x",
    '"',
    '""',
    '"5" x"',
    '6" pipe',
    ",",
    ",",
    "\n",
    "\n",
    "\r",
    "\r\n",
    " ",
    "\n\n",
    "é",
    '"a,b"',
    '"a\nb"',
]
files = st.lists(st.sampled_from(PIECES), max_size=24).map("".join)


def agrees_with_the_strict_reader(text, header="a,b\n"):
    """The table is Python's to the cell, or the file is refused; how many rows there are is never a guess."""
    data = f"{header}{text}".encode()
    rows = strictly(data)
    width = None if not rows else len(rows[0])
    sound = rows is not None and len(rows) > 1 and all(len(row) == width for row in rows)
    if sound:
        assert CSV.read(data, "t").rows() == blank_to_none(rows[1:])
        return
    named = "a header alone" if rows is not None and len(rows) < 2 else r"line \d+: expected"
    with pytest.raises(InputError, match=f"^t: .*{named}"):
        CSV.read(data, "t")


@given(files)
@settings(max_examples=400)
@example('"5" x",1\n2,3\n"5" x",1\n')
@example('6" pipe,1\n2,3\n6" pipe,1\n')
@example('1,"\n2,3\n4,"\n5,6\n')
@example('1,"a\n2,3\n4,b"\n')
@example("1,2\r3,4\r")
@example("\n\n1,2\n\n\n3,4\n\n")
@example('""\n1,2\n')
def test_every_file_has_the_rows_of_the_strict_reader(text):
    agrees_with_the_strict_reader(text)


@given(files)
@settings(max_examples=200)
@example("\n1\n\n2\n")
@example('""\n1\n')
def test_a_single_column_has_the_rows_of_the_strict_reader(text):
    agrees_with_the_strict_reader(text, "a\n")


@given(files, st.booleans())
@settings(max_examples=200)
def test_a_file_of_any_pieces_has_the_rows_of_the_strict_reader(text, mark):
    data = b"\xef\xbb\xbf" * mark + text.encode()
    rows = strictly(data)
    try:
        found = DATA.read(data, "t", separator=",", header="no").rows()
    except InputError:
        assert not rows or not any(rows[0]) or len({len(row) for row in rows}) > 1
    else:
        assert found == blank_to_none(rows)


@pytest.mark.parametrize("line", ['"5" x",1', '6" pipe,1', 'x,"y"z', '"a" ,2', '"a""b,1'])
def test_stray_quotes_never_swallow_rows(line):
    """Polars alone would read from one stray quote to the next, and lose the rows between."""
    body = "".join(f"{k},{k}\n" for k in range(50))
    data = f"a,b\n{line}\n{body}{line}\n{body}".encode()
    rows = strictly(data)
    if rows is None:
        with pytest.raises(InputError, match=r"t: line 2: expected well-formed cells.*check the quotes on that line"):
            CSV.read(data, "t")
    else:
        assert len(rows) == 103
        assert CSV.read(data, "t").rows() == blank_to_none(rows[1:])


@pytest.mark.parametrize("line", ['"5" x",1', '1,"2"3'])
@pytest.mark.parametrize("place", [0, 1, 3000])
def test_what_the_strict_reader_refuses_is_refused_with_the_line_named(line, place):
    rows = ["a,b", *["1,2"] * place, line, *["1,2"] * 10]
    with pytest.raises(InputError, match=rf"t\.csv: line {place + 2}: expected well-formed cells"):
        CSV.read("\n".join(rows).encode(), "t.csv")


def test_lines_are_counted_through_cells_that_run_over_several():
    data = b'a,b\n"1\n\n\n",2\n3\n'
    with pytest.raises(InputError, match="t: line 6: expected 2 cells"):
        CSV.read(data, "t")


@given(files)
def test_quotes_are_counted_as_the_strict_reader_parses_them(text):
    counts = outside_quotes(text.encode(), ",")
    rows = strictly(text.encode())
    if counts is not None and rows is not None and text and "\n\n" not in f"\n{text}".replace("\r", ""):
        assert counts == (sum(len(row) - 1 for row in rows), len(rows))


@pytest.mark.parametrize("line", ["1,2", "1,2,3,4", "1", '"1,2",3', "1,2,3,"])
@pytest.mark.parametrize("quote", ["", '"x",2,3\n'])
def test_a_ragged_line_is_named_wherever_it_stands(line, quote):
    rows = ["a,b,c", *["1,2,3"] * 3000, line, *["1,2,3"] * 10]
    with pytest.raises(InputError, match=r"t\.csv: line 3002: expected 3 cells, as on the first line, got \d; correct"):
        CSV.read(("\n".join(rows) + "\n" + quote).encode(), "t.csv")


@pytest.mark.parametrize("text", ["a,b,c\n1,2\n1,2,3,4\n", "a,b,c\n1,2,3,4\n1,2\n", 'a,b,c\n"1",2\n1,2,3,"4"\n'])
def test_short_and_long_lines_that_make_up_for_one_another_are_still_found(text):
    with pytest.raises(InputError, match="line 2"):
        CSV.read(text.encode(), "t")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", ["2,", "2,x", '"2","x"'])
def test_line_ends_of_every_system_and_blank_lines(end, last):
    data = end.join(["a,b", "1,x", "", last, ""]).encode()
    assert CSV.read(data, "t").rows() == [("1", "x"), ("2", "x" if "x" in last else None)]


def test_byte_order_mark_is_not_part_of_the_first_name():
    assert CSV.read(b"\xef\xbb\xbfa,b\n1,2\n", "t").names == ("a", "b")
    assert CSV.read(b'\xef\xbb\xbf"a",b\n1,2\n', "t").names == ("a", "b")


def test_headerless_columns_are_called_by_place():
    frame = DATA.read(b"0,1\n1,1\n", "t")
    assert frame.notes == ()
    assert (frame.names, frame.named, len(frame), frame.form.kind) == (("x0", "x1"), False, 2, "data")


def test_a_column_without_a_name_gets_one():
    assert CSV.read(b",a\n0,1\n", "t").names == ("column_1", "a")


def test_numbers_stay_as_they_are_written():
    """Names as 007 are no numbers: a text table's cells are text until its codec decides."""
    rows = [[f"{i / 7}", f"{i:05d}", "7.0", "1e1", "9" * 30] for i in range(3000)]
    frame = CSV.read(written(rows), "t")
    assert set(frame.table.dtypes) == {pl.String}
    assert not frame.typed
    assert frame.rows() == blank_to_none(rows)


def test_the_strict_reader_goes_on_from_block_to_block():
    rows = [[str(k), f"x{k % 7}"] for k in range(_BLOCK + 3)]
    data = written(rows).replace(b"\r\n", b"\r")
    assert read_quickly(data, ["c0", "c1"], Layout()) is None
    assert CSV.read(data, "t").rows() == blank_to_none(rows)
    with pytest.raises(InputError, match=f"line {len(rows) + 2}: expected 2 cells"):
        CSV.read(data + b"1\r", "t")


def test_a_cell_of_a_million_lines():
    long = ('a,b\n1,"' + "x\n" * 2**16 + '"\n2,y\n').encode()
    assert CSV.read(long, "t").rows() == [("1", "x\n" * 2**16), ("2", "y")]


def test_arff_names_the_line_of_another_length():
    head = b"@relation r\n% a comment\n@ATTRIBUTE 'a b' {x, y}\n@attribute \"c\" {1, 2}\n@data\n"
    frame = read_arff(head + b"x, 1\n\n% more\n'y' ,?\n", "r.arff")
    assert (frame.names, frame.rows()) == (("a b", "c"), [("x", "1"), ("y", None)])
    for body, match in ((b"x,1\ny\n", "line 7: expected 2 cells, got 1"), (b"", "got 2 and 0")):
        with pytest.raises(InputError, match=match):
            read_arff(head + body, "r.arff")
    with pytest.raises(InputError, match="no @data"):
        read_arff(b"a,b\n1,2\n", "r.arff")
