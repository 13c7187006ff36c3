"""Separators and headers are noticed where there is no doubt; then the file is read as strictly as any other."""

import csv
import io
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from concrete_score.data.formats import CSV, DATA, TSV
from concrete_score.data.layout import NAMES, check_separator
from concrete_score.errors import PYTHON, InputError, spell

MARKS = [",", ";", "\t", "|"]
words = st.text(st.sampled_from("ab1,;|\t\"' .äüÉ-\n"), max_size=5) | st.sampled_from(["3,14", "-2", "NA", "1.234,5"])
tables = st.integers(2, 4).flatmap(
    lambda width: st.lists(st.lists(words, min_size=width, max_size=width), min_size=1, max_size=8)
)
plain = st.text(st.sampled_from("ab1äüÉ-%"), min_size=1, max_size=4)


def said(frame):
    return " & ".join(spell(note, PYTHON) for note in frame.notes)


def written(rows, **dialect):
    page = io.StringIO(newline="")
    csv.writer(page, **dialect).writerows(rows)
    return page.getvalue()


def independently(data, encoding, separator):
    """The rows by Python's own reader; of a semicolon file, columns of decimal commas as numbers."""
    text = io.StringIO(data.decode(encoding), newline="")
    names, *rows = (row for row in csv.reader(text, delimiter=separator, strict=True) if row)
    if separator == ";":
        columns = [_with_points(list(column)) for column in zip(*rows, strict=True)]
        rows = zip(*columns, strict=True)
    return tuple(names), [tuple(cell or None for cell in row) for row in rows]


def _with_points(column):
    known = [cell for cell in column if cell not in ("", "NA")]
    if not any("," in cell for cell in known):
        return column
    for grouped in (False, True):
        try:
            return [cell if cell in ("", "NA") else _number(cell, grouped) for cell in column]
        except ValueError:
            continue
    return column


def _number(cell, grouped):
    parts = cell.removeprefix("-").partition(",")
    groups = parts[0].split(".")
    sizes = [len(group) for group in groups[1:]]
    if (not grouped and sizes) or set(sizes) - {3} or not "".join((*groups, parts[2])).isdecimal():
        raise ValueError(cell)
    if (parts[1] and not parts[2]) or (grouped and not 0 < len(groups[0]) <= 3):
        raise ValueError(cell)
    return cell.replace(".", "").replace(",", ".")


@given(
    tables,
    st.sampled_from(MARKS),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    st.sampled_from([CSV, TSV, DATA]),
    st.booleans(),
)
@settings(max_examples=300)
def test_any_file_that_csv_writes_has_the_rows_that_csv_reads(rows, mark, encoding, end, quoting, layout, named):
    if end == "\r":  # else csv writes what it does not read
        rows = [[cell.replace("\n", "") for cell in row] for row in rows]
    names = [f"c{d}" for d in range(len(rows[0]))]
    text = written([names, *rows], delimiter=mark, lineterminator=end, quoting=quoting)
    options = {"header": "yes"} if named or layout is DATA else {}
    frame = layout.read(text.encode(encoding), "t", **options)
    assert (frame.names, frame.rows()) == independently(text.encode(encoding), encoding, mark)
    assert ("separated by" in said(frame)) == (mark != layout.separator)
    guessed = not text.isascii() or encoding != "latin-1"
    assert said(frame).startswith("read as") == (encoding != "utf-8" and guessed)


@given(tables, st.sampled_from(MARKS), st.sampled_from(["\n", "\r\n"]))
def test_a_layout_that_is_given_is_not_guessed(rows, mark, end):
    text = written([["1"] * len(rows[0]), *rows], delimiter=mark, lineterminator=end, quoting=csv.QUOTE_ALL)
    frame = CSV.read(text.encode(), "t", separator=NAMES[mark], header="no", encoding="utf-8")
    if not frame.notes:  # of decimal commas
        assert frame.rows()[1:] == [tuple(cell or None for cell in row) for row in rows]
    assert len(frame) == len(rows) + 1
    assert not frame.named


@given(
    st.integers(2, 4).flatmap(lambda width: st.lists(st.tuples(*[plain] * width), min_size=2, max_size=8)),
    st.sampled_from([" ", "  ", "\t "]),
    st.booleans(),
    st.booleans(),
)
def test_cells_aligned_by_spaces(rows, gap, aligned, quoted):
    rows = [tuple(f'"{cell} {cell}"' if quoted and d == 0 else cell for d, cell in enumerate(row)) for row in rows]
    width = 12 if aligned else 0
    text = "".join(" " * aligned + gap.join(cell.rjust(width) for cell in row) + " " * aligned + "\n" for row in rows)
    frame = CSV.read(text.encode(), "t", header="no")
    lines = io.StringIO(text.replace("\t", " "))
    expected = [csv.reader([line.strip()], delimiter=" ", skipinitialspace=True, strict=True) for line in lines]
    assert frame.rows() == [tuple(next(each)) for each in expected]
    assert "separated by spaces" in said(frame) or (gap == "\t " and not aligned)


@given(tables, st.sampled_from(MARKS), st.data())
@settings(max_examples=150)
def test_a_ragged_or_ill_quoted_line_is_refused_and_named_whatever_separates(rows, mark, data):
    cells = [[cell.replace("\n", "") for cell in row] for row in rows] + [["x"] * len(rows[0])] * 4
    lines = written(cells, delimiter=mark, lineterminator="\n", quoting=csv.QUOTE_ALL).splitlines()
    names = mark.join(f"c{d}" for d in range(len(rows[0])))
    at = data.draw(st.integers(0, len(lines) - 1))
    lines[at] = data.draw(st.sampled_from([lines[at] + mark, '"x"' + mark + '"y"z' + mark, '"x"']))
    with pytest.raises(InputError, match=rf"^t: line {at + 2}: expected (well-formed|\d cells)"):
        CSV.read("\n".join([names, *lines, ""]).encode(), "t")


@pytest.mark.parametrize("mark", [";", "\t", "|", " "])
def test_a_fault_far_below_what_was_looked_at_is_named(mark):
    rows = ["a b".replace(" ", mark), *["1 2".replace(" ", mark)] * 3000]
    rows[2500] = mark.join("123")
    with pytest.raises(InputError, match=rf"t: line 2501: expected 2 cells separated by {NAMES[mark]}s, as .* got 3"):
        CSV.read("\n".join(rows).encode(), "t")
    rows[2500] = mark.join(["1", '"2"x'])
    with pytest.raises(InputError, match="t: line 2501: expected well-formed cells"):
        CSV.read("\n".join(rows).encode(), "t")


SEPARATED = {
    "decimal commas without a header": ("1,5;2,5\n3,5;4,5\n5,25;6,5\n", ";", [("1.5", "2.5"), ("3.5", "4.5")]),
    "a comma among semicolons": ("id;height, cm;x\n1;2,5;a\n2;3,5;b\n", ";", [("1", "2.5", "a"), ("2", "3.5", "b")]),
    "semicolons among commas": ("a,b\nx;y,1\nz;w,2\n", ",", [("x;y", "1"), ("z;w", "2")]),
    "semicolons in every line of commas": ("a;b,c\nx;y,1\nz;w,2\n", ",", [("x;y", "1"), ("z;w", "2")]),
    "words": ("first name,b\nan a,1\na b,2\n", ",", [("an a", "1"), ("a b", "2")]),
    "one column": ("name\nx;y\nz\n", ",", [("x;y",), ("z",)]),
    "one column of sentences": ("text\na b\nc d\n", ",", [("a b",), ("c d",)]),
    "a space after each comma": ("a, b\n1, x y\n2, z\n", ",", [("1", "x y"), ("2", "z")]),
    "quotes behind a space": ('a, b\n1, "x"\n2, "y, z"\n', ",", None),
    "both decimal marks": ("a;b\n1,5;x\n1.5;y\n", ";", [("1,5", "x"), ("1.5", "y")]),
    "groups of three": ("a;b\n1.234,5;x\n12,25;y\n", ";", [("1234.5", "x"), ("12.25", "y")]),
    "a word among decimal commas": ("a;b\n1,5;x\nfew;y\n", ";", [("1,5", "x"), ("few", "y")]),
    "a blank among decimal commas": ("a;b\n1,5;x\nNA;y\n;z\n", ";", [("1.5", "x"), ("NA", "y"), (None, "z")]),
}


@pytest.mark.parametrize("name", SEPARATED)
def test_separators_of_real_files(name):
    text, mark, rows = SEPARATED[name]
    if rows is None:
        with pytest.raises(InputError, match="line 3: expected 2 cells"):
            CSV.read(text.encode(), "t")
        return
    frame = CSV.read(text.encode(), "t")
    assert frame.rows()[: len(rows)] == rows
    assert ("separated by" in said(frame)) == (mark != ",")


HEADED = {
    # first line, other lines, of .csv, of .data
    "names": ("age,job", ["1,a", "2,b"], True, True),
    "names of text alone": ("colour,size", ["red,big", "blue,small"], True, False),
    "text that comes again": ("red,big", ["red,big", "blue,small"], True, False),
    "numbers": ("0.5,7", ["0.25,3", "1.5,9"], False, False),
    "numbers in quotes": ('"0.5","7"', ['"0.25","3"', '"1.5","9"'], False, False),
    "bits": ("1,0,1,1", ["0,0,1,0", "1,1,1,1"], False, False),
    "numbers and words": ("5.1,3.5,setosa", ["4.9,3.0,setosa", "7.1,2.5,other"], False, False),
    "a new word": ("5.1,3.5,setosa", ["4.9,3.0,versicolor", "7.1,2.5,other"], True, False),
    "a blank as others write it": ("?,3.5,a", ["4.9,3.0,a", "7.1,?,b"], False, False),
    "a blank": (",3.5", ["1,3.0", "2,2.5"], True, False),
    "an index": (",0,1", ["0,5.5,2.5", "1,3.5,2.25"], True, False),
    "counted": ("0,1,2", ["3,2,2", "1,4,5"], True, False),
    "years": ("2010,2015,2020", ["2003,2009,2011", "1999,1999,1999"], True, False),
    "years above shares": ("2011,2012,2014", ["0.1,0.5,0.2", "0.3,0.2,0.9"], True, False),
    "years beside a name": ("country,1990,1991", ["fr,1,2", "de,2,3"], True, False),
    "two names": ("0,1", ["1,1", "0,0"], True, False),
    "numbers above words": ("1,2,x", ["a,b,c", "c,d,e"], True, False),
    "words above numbers, one twice": ("a,a", ["1,2", "3,4"], None, False),
    "one line": ("1,2", [], None, False),
}


@pytest.mark.parametrize("name", HEADED)
def test_a_first_line_is_names_or_a_row(name):
    first, body, csv_header, data_header = HEADED[name]
    text = "\n".join([first, *body, ""]).encode()
    if csv_header is None:
        with pytest.raises(InputError, match=r"a different name for every column|a header alone"):
            CSV.read(text, "t")
    else:
        frame = CSV.read(text, "t")
        assert (frame.named, len(frame)) == (csv_header, len(body) + (not csv_header))
        assert csv_header or "columns are called x0, x1, …; if it names them, add header='yes'" in said(frame)
        assert csv_header or frame.names[:2] == ("x0", "x1")
    found = DATA.read(text, "t")
    assert (found.named, len(found)) == (data_header, len(body) + (not data_header))
    assert data_header == ("its first line names the columns; if it is a row, add header='no'" in said(found))


def test_names_that_are_numbers_are_said():
    assert said(CSV.read(b"0,1,2\n3,2,2\n", "t")) == (
        "its first line (0, 1, 2) names the columns; if it is a row, add header='no'"
    )
    with pytest.raises(
        InputError, match=r"'a' for columns 1 and 3; rename one of them, or if it is a row, add header="
    ):
        CSV.read(b"a,b,a\na,b,b\n", "t")


numbers = st.integers(-99, 99).map(str) | st.floats(-9, 9).map(lambda x: f"{x:.2f}")
names = st.text(st.sampled_from("abcdef"), min_size=1, max_size=6)


@given(
    st.integers(2, 4).flatmap(
        lambda width: st.tuples(
            st.lists(names, min_size=width, max_size=width, unique=True),
            st.lists(st.lists(numbers | names, min_size=width, max_size=width), min_size=1, max_size=9),
        )
    )
)
def test_words_in_the_first_line_of_a_csv_are_always_names(table):
    first, rows = table
    frame = CSV.read(written([first, *rows]).encode(), "t")
    assert (frame.names, frame.rows()) == (tuple(first), [tuple(row) for row in rows])


@given(
    st.integers(2, 4).flatmap(
        lambda width: st.lists(st.lists(numbers, min_size=width, max_size=width), min_size=2, max_size=9)
    )
)
@example([["0", "0"], ["0", "0"]])
def test_no_row_of_numbers_without_names_is_lost_unsaid(rows):
    text = written(rows).encode()
    assert len(DATA.read(text, "t")) == len(rows)
    try:
        frame = CSV.read(text, "t")
    except InputError as error:
        assert "if it is a row, add header='no'" in str(error)  # noqa: PT017
    else:
        assert len(frame) == len(rows) or "if it is a row, add header='no'" in said(frame)


@pytest.mark.parametrize("value", ["", "ab", "é", "\n", '"', "a", "7", "\0", "-", 3, True, ["x"]])
def test_no_separator(value):
    with pytest.raises(InputError, match=r"^separator: expected a separator, .*comma, semicolon, tab, bar, space"):
        check_separator(value)


def test_separators_by_name_and_by_themselves():
    assert [check_separator(name) for name in ("comma", ";", "tab", "\\t", "bar", "space", "\x01", "auto", None)] == [
        ",", ";", "\t", "\t", "|", " ", "\x01", None, None,
    ]  # fmt: skip
    assert CSV.read(b"a:b\n1:2\n", "t", separator=":").rows() == [("1", "2")]


@pytest.mark.parametrize("value", ["maybe", "", 1.5, [], "YES"])
def test_no_answer(value):
    with pytest.raises(InputError, match=r"^header: expected yes, no or auto"):
        CSV.read(b"a,b\n1,2\n", "t", header=value)


def test_a_wide_or_long_first_line_is_noticed_too():
    for count in (300, 10_000):
        row = ";".join(["1,5"] * count)
        names = ";".join(f"c{d}" for d in range(count))
        frame = CSV.read(f"{names}\n{row}\n{row}\n".encode(), "t")
        assert (frame.table.width, len(frame), frame["c1"].to_list()) == (count, 2, ["1.5", "1.5"])
        assert re.search(rf"points in 'c0', 'c1', 'c2' and {count - 3} more columns", said(frame))


@pytest.mark.parametrize(
    ("data", "names", "rows", "note"),
    [
        ("# by hand\na,b,c\n1,2,3\n4,5,6\n7,8,9\n", ("a", "b", "c"), 3, "passed over: '# by hand'"),
        ("3,2,x,y\n1,2,3,4,0\n1,3,3,5,1\n2,2,3,4,1\n", ("x0", "x1", "x2", "x3", "x4"), 3, "passed over: '3,2,x,y'"),
        ("Prices\n\nin euro; 2024\nday;a;b\n1;1,5;2\n2;2,5;2\n3;1,5;1\n", ("day", "a", "b"), 3, "first 3 lines are"),
        ('"a" "b"\n"r1" 5 x\n"r2" 6 y\n"r3" 7 z\n', ("column_1", "a", "b"), 3, "no name for the first column"),
        ("a,b\n1,5,x\n2,6,y\n3,7,z\n", ("column_1", "a", "b"), 3, "no name for the first column"),
        ("a,b\r\n1,5,\r\n2,6,\r\n3,7,\r\n", ("a", "b", "column_3"), 3, "ends in a comma"),
        (" a , b \n 1 , x \n 2 , y \n", ("a", "b"), 2, "a space follows each comma"),
    ],
)
def test_what_stands_before_a_table_or_is_not_named_in_it_is_noticed(data, names, rows, note):
    frame = CSV.read(data.encode(), "t.csv")
    assert (frame.names, len(frame)) == (names, rows)
    assert note in said(frame)
    assert not any(cell is not None and cell != cell.strip() for row in frame.rows() for cell in row)


def test_a_fault_below_the_lines_before_a_table_is_found_by_its_line():
    body = "# by hand\na,b,c\n" + "1,2,3\n" * 300
    with pytest.raises(InputError, match="line 303: expected 3 cells"):
        CSV.read(f"{body}1,2\n".encode(), "t.csv")
    with pytest.raises(InputError, match="line 2: expected 1 cells"):
        CSV.read(b"one\n1,2\n3,4\n", "t.csv")  # too few rows to tell
