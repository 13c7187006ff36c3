"""Tables in parts: what is read in parts is what is read at once, and what is refused at once is refused in parts."""

import gzip
import os
import sys

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.data import as_frame, read_file, stream_batches, stream_files, write_file
from concrete_score.data.census import take_census
from concrete_score.data.formats import CSV, TextTable
from concrete_score.data.layout import Layout
from concrete_score.data.parquet import stream_parquet
from concrete_score.data.pieces import row_end
from concrete_score.data.streams import Stream, estimated_memory, is_large
from concrete_score.errors import InputError
from concrete_score.files import MEMORY


def parts_of(path, block=64, table=CSV, **options):
    return [frame for frame, _ in table.stream(path, "t.csv", block=block, **options)]


def joined(frames):
    return [row for frame in frames for row in frame.rows()]


def outcome(read):
    """The rows, or where and why there are none."""
    try:
        return read()
    except InputError as error:
        return str(error)


@given(
    st.lists(st.tuples(st.text('ab",;\n é', max_size=6), st.text("12", max_size=3)), min_size=3, max_size=40),
    st.integers(24, 200),
)
@settings(max_examples=60, deadline=None)
def test_a_csv_in_blocks_of_any_size_is_the_csv(tmp_path_factory, rows, block):
    path = tmp_path_factory.mktemp("blocks") / "t.csv"
    pl.DataFrame({"name": [row[0] for row in rows], "n": [row[1] for row in rows]}).write_csv(path)
    whole = CSV.read(path.read_bytes(), "t.csv", separator="comma", header="yes")
    parts = parts_of(path, max(block, len("name,n\n")), separator="comma", header="yes")
    assert joined(parts) == whole.rows()
    firsts = [frame.first for frame in parts]
    assert firsts == list(np.cumsum([0, *(len(frame) for frame in parts)])[:-1])


FAULTS = {
    "two stray quotes": "a,b\n" + "x,1\n" * 30 + '"x,1\n' + "x,2\n" * 30 + '"y,3\n' + "x,4\n" * 30,
    "an open quote": "a,b\n" + "x,1\n" * 30 + '"x,1\n' + "x,2\n" * 60,
    "a short row": "a,b\n" + "x,1\n" * 70 + "x\n" + "x,2\n" * 5,
    "a long row": "a,b\n" + "x,1\n" * 70 + "x,1,2\n" + "x,2\n" * 5,
    "text behind a quote": "a,b\n" + "x,1\n" * 70 + '"x"y,1\n' + "x,2\n" * 5,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_refused_as_in_memory_and_on_the_same_line(tmp_path, fault):
    path = tmp_path / "t.csv"
    path.write_text(FAULTS[fault])
    alone = outcome(lambda: CSV.read(path.read_bytes(), "t.csv").rows())
    assert isinstance(alone, str)
    assert outcome(lambda: joined(parts_of(path))) == alone


def test_quotes_within_cells_mean_what_they_mean_in_memory(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + '5" pipe,1\n' * 40 + '"6"" pipe",2\n' * 40)
    assert joined(parts_of(path)) == CSV.read(path.read_bytes(), "t.csv").rows()


def test_where_rows_end():
    assert row_end(b"a,b\nc", Layout()) == 4
    assert row_end(b"a,b", Layout()) == 0
    assert row_end(b"a,b\rc,d\re", Layout()) == 8
    assert row_end(b'"a\n', Layout()) == 0


@pytest.mark.parametrize(
    "text",
    [
        "a;b\n" + "1;2,5\n" * 20 + "3;4\n" * 20,
        "a;b\n" + "1;2\n" * 20 + "3;4,25\n" * 20,
        "a b  c\n" + "1   2 3\n" * 40,
        "made by a program\na,b,c\n" + "1,2,x\n" * 40,
        "a,b\r\n" + "1, 2\r\n" * 40,
        "a,b\n" + "1,2\n\n" * 40,
    ],
    ids=["decimal commas", "later decimal commas", "spaces", "a line before", "returns", "empty lines"],
)
def test_what_was_noticed_in_the_first_block_holds_for_all(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert joined(parts_of(path, 128)) == CSV.read(path.read_bytes(), "t.csv").rows()


def test_decimal_commas_that_a_later_block_contradicts_are_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b\n" + "1;2,5\n" * 40 + "1;large\n")
    with pytest.raises(InputError, match="decimal commas throughout column 'b'"):
        parts_of(path)


@pytest.mark.parametrize(
    ("before", "after"),
    [("1;12", "1;1.234,5"), ("1;1.234", "1;1.234,5"), ("1;1.234,5", "1;12,25x"), ("1;12,5", "1;1.234,5")],
)
def test_thousands_that_a_later_block_shows_are_refused(tmp_path, before, after):
    path = tmp_path / "t.csv"
    path.write_text("a;b\n" + f"{before}\n" * 40 + f"{after}\n")
    with pytest.raises(InputError, match="decimal commas throughout column 'b'"):
        parts_of(path)


@pytest.mark.parametrize("rows", [["1.234", "1,5"], ["1234", "1.234,5"], ["1.234,5", "12"], ["x", "1.234,5"]])
def test_thousands_in_blocks_are_those_of_the_whole(tmp_path, rows):
    path = tmp_path / "t.csv"
    path.write_text("a;b\n" + "".join(f"1;{row}\n" * 40 for row in rows))
    assert joined(parts_of(path)) == CSV.read(path.read_bytes(), "t.csv").rows()


@pytest.mark.parametrize(
    ("named", "written", "mark"),
    [
        ("utf-16", "utf-16-le", "\ufeff"),
        ("utf-16", "utf-16-be", "\ufeff"),
        ("utf-16", f"utf-16-{sys.byteorder[0]}e", ""),
        ("utf-32", "utf-32-be", "\ufeff"),
        ("utf-32", f"utf-32-{sys.byteorder[0]}e", ""),
        ("utf-16-be", "utf-16-be", "\ufeff"),
        ("utf-8-sig", "utf-8", "\ufeff"),
    ],
)
def test_an_encoding_that_is_named_holds_for_all_blocks(tmp_path, named, written, mark):
    path = tmp_path / "t.csv"
    path.write_bytes((mark + "stadt,n\n" + "Zürich,1\nKöln,2\n" * 60).encode(written))
    assert joined(parts_of(path, 128, encoding=named)) == [("Zürich", "1"), ("Köln", "2")] * 60


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1250"])
def test_encodings_of_blocks(tmp_path, encoding):
    path = tmp_path / "t.csv"
    path.write_bytes(("stadt,n\n" + "Zürich,1\nKöln,2\n" * 60).encode(encoding))
    how = {"encoding": encoding} if encoding == "cp1250" else {}
    assert joined(parts_of(path, 128, **how)) == [("Zürich", "1"), ("Köln", "2")] * 60


def test_bytes_of_another_encoding_in_a_later_block_name_their_line(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n" + b"x,1\n" * 60 + "ü,1\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"t.csv: line 62: expected UTF-8 text, got byte 0xfc; .*encoding"):
        parts_of(path)


def test_a_damaged_archive_is_one_line(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + os.urandom(3000).hex().encode() + b",1\n")[:-20])
    with pytest.raises(InputError, match="a whole gzip file"):
        stream_files([path]).whole()


@pytest.mark.parametrize(("group", "cells", "most"), [(3, 4, 2**28), (100, 10, 2**28), (100, 10, 1), (7, 1000, 2**28)])
def test_row_groups_of_any_size_are_the_table(tmp_path, group, cells, most):
    path = tmp_path / "t.parquet"
    table = pl.DataFrame({"a": range(100), "b": [str(k % 7) for k in range(100)]})
    table.write_parquet(path, row_group_size=group)
    frames = list(stream_parquet(path, "t", cells=cells, most=most))
    assert pl.concat([frame.table for frame, _ in frames]).equals(table)
    assert max(len(frame) for frame, _ in frames) <= max(cells // 2, 1)
    assert [read for _, read in frames] == sorted(read for _, read in frames)
    assert frames[-1][1] <= path.stat().st_size


def test_files_of_other_columns_or_types_are_named(tmp_path):
    def write(name, **columns):
        pl.DataFrame(columns).write_parquet(tmp_path / name)
        return tmp_path / name

    first = write("a.parquet", n=[1, 2], t=["x", "y"])
    assert stream_files([first, write("b.parquet", t=["z"], n=[3])]).whole().rows()[-1] == (3, "z")
    for other, message in (
        (write("c.parquet", n=[1.5], t=["z"]), r"c.parquet: column 'n': expected Int64 as in .*a.parquet, got Float64"),
        (write("d.parquet", n=[1]), r"d.parquet: expected the columns of .*a.parquet, got none named 't'"),
        (
            write("e.parquet", n=[1], t=["z"], u=[0]),
            r"e.parquet: expected the columns of .*a.parquet, got one more, 'u'",
        ),
    ):
        with pytest.raises(InputError, match=message):
            stream_files([first, other]).whole()


def test_a_folder_stands_for_its_files_by_name(tmp_path):
    for name in ("b.csv", "a.csv", ".hidden", "_SUCCESS"):
        (tmp_path / name).write_text(f"n,m\n{name},1\n")
    assert [row[0] for row in stream_files([tmp_path]).whole().rows()] == ["a.csv", "b.csv"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="an empty one"):
        stream_files([tmp_path / "empty"])


def test_a_file_that_changes_between_or_within_passes_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    stream = stream_files([path])
    assert len(stream.whole()) == 1
    path.write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(InputError, match="one that changed since"):
        stream.whole()


def test_what_cannot_be_read_twice_is_refused_or_kept(tmp_path):
    for name in ("t.npz", "x.txt"):
        (tmp_path / name).write_bytes(b"1")
        with pytest.raises(InputError, match="read in parts"):
            stream_files([tmp_path / name])
    with pytest.raises(InputError, match="an existing file"):
        stream_files([tmp_path / "none.csv"])
    with pytest.raises(InputError, match="standard input"):
        stream_files(["-"])


def test_batches_that_come_once_can_be_gone_through_again():
    def batches():
        yield np.array([[0, 1]])
        yield np.array([[2, 3], [4, 5]])

    stream = stream_batches(batches())
    for _ in range(2):
        assert [(frame.first, frame.rows()) for frame in stream] == [(0, [(0, 1)]), (1, [(2, 3), (4, 5)])]
    assert stream.whole().form == as_frame(np.array([[0, 1]])).form
    with pytest.raises(InputError, match="at least one batch"):
        stream_batches(iter([]))


def test_files_and_row_groups_without_rows_are_passed_over(tmp_path):
    table = pl.DataFrame({"a": range(5)})
    for name, part in (("0", table.clear()), ("1", table), ("2", table.clear())):
        part.write_parquet(tmp_path / f"{name}.parquet")
    assert joined(stream_files([tmp_path])) == table.rows()
    for read in (Stream.whole, Stream.head, take_census):
        with pytest.raises(InputError, match=r"0.parquet: expected a table with rows, got none"):
            read(stream_files([tmp_path / "0.parquet"]))
    arrow, path = table.to_arrow(), tmp_path / "groups.parquet"
    with pq.ParquetWriter(path, arrow.schema) as file:
        for rows in (0, 5, 0, 2):
            file.write_table(arrow.slice(0, rows))
    assert joined(stream_files([path])) == [*table.rows(), *table.rows()[:2]]


def test_each_note_on_how_files_are_read_is_said_once(tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_bytes("a;b\nü;1,5\n".encode("latin-1"))
    said = []
    stream = stream_files([tmp_path], say=said.append)
    assert [frame.notes for frame in stream] == [(), ()]
    assert [note[0] for note in said] == [f"note: {tmp_path / 'a.csv'}: "] * 3
    assert [note[1].split(" ")[:3] for note in said] == [
        ["read", "as", "Latin-1,"],
        ["its", "cells", "are"],
        ["decimal", "commas", "are"],
    ]
    take_census(stream)
    assert len(said) == 3


def test_progress_says_rows_and_bytes(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,2\n" * 50)
    told = []
    list(stream_files([path]).parts(lambda done, total, text: told.append((done, total, text))))
    assert told == [(path.stat().st_size, path.stat().st_size, "50 rows, 0.0 MB of 0.0 MB")]


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_a_table_is_large_where_it_would_be_refused_in_memory(tmp_path, monkeypatch, ending):
    path = tmp_path / f"t.{ending}"
    rng = np.random.default_rng(0)
    write_file([as_frame(pl.DataFrame({f"c{d}": rng.normal(size=40_000) for d in range(5)}))], path)
    stream = stream_files([path])
    assert not is_large(stream)
    monkeypatch.setenv(MEMORY, str(estimated_memory(stream) / 2**30 * 0.9))
    assert is_large(stream)
    if ending != "csv.gz":
        with pytest.raises(InputError, match="GiB"):
            read_file(path)


def test_text_tables_of_other_separators_are_streamed_by_their_own(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("a\tb\n" + "1\tx y\n" * 50)
    assert joined(parts_of(path, table=TextTable("tsv", "\t"))) == [("1", "x y")] * 50
