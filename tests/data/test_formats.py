"""Files: the same format out as in, whole or not at all; every bad one ends in one line that names it."""

import gzip
import io
import os
import threading
import zipfile

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.codecs import TableCodec, TableOptions
from concrete_score.data import as_frame, load, read_file, write_file
from concrete_score.data.formats import CSV, formats
from concrete_score.errors import InputError

TABLE = pl.DataFrame({"a": ["x", 'y"', "x, z"], "b": [1, 2, 1]})
READERS = {name: each for name, each in formats().items() if each.read is not None}


def refused(path, match):
    with pytest.raises(InputError, match=match) as caught:
        read_file(path)
    text = str(caught.value)
    assert path.name in text
    assert "\n" not in text
    return text


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "csv.gz", "tsv.gz", "parquet.gz"])
def test_what_is_written_is_read_again(tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    assert write_file([as_frame(TABLE)], path) == 3
    frame = read_file(path)
    assert (frame.form.kind, frame.where) == (ending.split(".")[0], str(path))
    codec = TableCodec.fit(frame)
    again = codec.decode(codec.encode(frame).states)
    write_file([again], tmp_path / "again")  # without an ending, as it came
    assert (tmp_path / "again").read_bytes()
    assert again.native().equals(TABLE)


@pytest.mark.parametrize("ending", ["data", "data.gz", "npy", "npz"])
def test_arrays_of_integers_too(tmp_path, ending):
    array = np.array([[0, 300], [1, 7], [1, 300]], dtype=np.uint16)
    write_file([as_frame(array)], tmp_path / f"t.{ending}")
    frame = read_file(tmp_path / f"t.{ending}")
    codec = TableCodec.fit(frame)
    write_file([codec.decode(codec.encode(frame).states)], tmp_path / f"u.{ending}")
    if ending == "npz":  # an archive holds the time
        assert np.array_equal(np.load(tmp_path / "u.npz")["x"], array)
    else:
        assert (tmp_path / f"u.{ending}").read_bytes() == (tmp_path / f"t.{ending}").read_bytes()


@pytest.mark.parametrize("ending", ["csv", "tsv", "data", "parquet", "csv.gz", "npy", "npz"])
def test_parts_make_the_file_of_the_whole(tmp_path, ending):
    frame = as_frame(TABLE.with_columns(c=pl.Series([0.5, 0.25, 7.5])))
    codec = TableCodec.fit(frame, TableOptions(bins={"c": 2}))
    states = codec.space.enumerate()
    write_file([codec.decode(states)], tmp_path / f"whole.{ending}")
    for size in (1, 5, len(states)):
        path = tmp_path / f"parts{size}.{ending}"
        assert write_file(map(codec.decode, states.split(size)), path) == len(states)
        assert read_file(path).rows() == read_file(tmp_path / f"whole.{ending}").rows()


def test_a_part_that_fails_leaves_nothing(tmp_path):
    def parts():
        yield as_frame(TABLE)
        raise InputError("a good part", "another")

    with pytest.raises(InputError, match="a good part"):
        write_file(parts(), tmp_path / "t.csv")
    assert list(tmp_path.iterdir()) == []


def test_blanks_are_empty_in_text_and_null_in_parquet(tmp_path):
    frame = as_frame(pl.DataFrame({"a": ["x", None], "b": [None, 2]}))
    assert frame.to_csv() == "a,b\nx,\n,2\n"
    assert frame.to_csv(header=False) == "x,\n,2\n"
    write_file([frame], tmp_path / "t.parquet")
    assert pl.read_parquet(tmp_path / "t.parquet").rows() == [("x", None), (None, 2)]
    write_file([frame], tmp_path / "t.npy")
    assert np.load(tmp_path / "t.npy").tolist() == [["x", ""], ["", "2"]]


@given(
    st.lists(
        st.tuples(*[st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"))] * 2), min_size=1
    )
)
def test_any_text_survives_csv(rows):
    frame = as_frame(pl.DataFrame(rows, schema={"a": pl.String, "b": pl.String}, orient="row"))
    blank = [tuple(cell or None for cell in row) for row in frame.rows()]
    assert CSV.read(frame.to_csv().encode(), "t").rows() == blank


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(pl.DataFrame, "write_csv", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError, match="full"):
        write_file([as_frame(TABLE)], tmp_path / "t.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["t.xlsx", "t.png", "t.arff", "t.npz.gz"])
def test_an_ending_that_nothing_writes_is_refused_before_work(tmp_path, name):
    with pytest.raises(InputError, match=r"an output ending in \.csv, \.tsv, \.data, \.parquet, \.npy, \.npz, got"):
        write_file([as_frame(TABLE)], tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_exists_is_not_touched(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("mine")
    with pytest.raises(InputError, match="one that exists; choose another, or pass force=True"):
        write_file([as_frame(pl.DataFrame({"a": [1], "b": [2]}))], path)
    assert path.read_text() == "mine"
    write_file([as_frame(pl.DataFrame({"a": [1], "b": [2]}))], path, force=True)
    assert path.read_text() == "a,b\n1,2\n"


def test_bins_go_out_as_labels(tmp_path):
    frame = as_frame(pl.DataFrame({"a": [0.25, 0.5, 1.5, 2.5], "b": [0, 1, 0, 1]}))
    codec = TableCodec.fit(frame, TableOptions(bins={"a": 2}))
    write_file([codec.decode(codec.encode(frame).states)], tmp_path / "t.csv")
    assert read_file(tmp_path / "t.csv").rows()[0] == ("[0.25, 1.5)", "0")


def test_a_file_is_opened_once_so_that_a_pipe_will_do(tmp_path):
    for name in ("pipe.csv", "pipe"):
        os.mkfifo(tmp_path / name)
        writer = threading.Thread(target=(tmp_path / name).write_bytes, args=(b"a,b\n1,2\n",), daemon=True)
        writer.start()
        assert read_file(tmp_path / name).rows() == [("1", "2")]
        writer.join()


def test_standard_input_is_csv(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n1,\n")))
    frame = load("-")
    assert (frame.rows(), frame.where) == ([("1", None)], "standard input")


TEXT = {
    "empty": (b"", "empty file"),
    "only_newlines": (b"\n\n\n", "an empty file"),
    "header_only": (b"a,b\n", "a header alone"),
    "header_only_bare": (b"a,b", "a header alone"),
    "binary": (b"\x89PNG\r\n\x1a\n\x00\x01\x02,", "binary file"),
    "zero": (b"a,b\n1,2\n3,\x00\n", "line 3: .*binary file"),
    "ragged": (b"a,b\n1,2\n3\n", "line 3: expected 2 cells, as on the first line, got 1"),
    "ragged_long": (b"a,b\n1,2\n3,4,5\n", "line 3: .* got 3"),
    "cut_character": ("a,b\nx,ü\nZürich,ü".encode()[:-1], "line 3: expected UTF-8 text, got byte 0xc3"),
    "no_character": (b"a,b\nx,1\nZ\x81rich,2\n", "line 3: expected text in UTF-8, UTF-16 or .*, got byte 0x81"),
    "cut_utf16": ("a,b\n1,2\n".encode("utf-16")[:-1], "line 2: expected UTF-16 text"),
    "duplicate": (b"a,b,a\n1,2,3\n", "line 1: .*'a' for columns 1 and 3"),
    "open_quote": (b'a,b\n1,"x\n2,y\n', "line 2: .*quotes"),
}


@pytest.mark.parametrize("name", TEXT)
def test_bad_text(tmp_path, name):
    data, match = TEXT[name]
    path = tmp_path / f"{name}.csv"
    path.write_bytes(data)
    assert ";" in refused(path, match)  # the advice


def npz(**arrays):
    page = io.BytesIO()
    np.savez(page, **arrays)
    return page.getvalue()


def npy(array, **more):
    page = io.BytesIO()
    np.save(page, array, **more)
    return page.getvalue()


def parquet(frame):
    page = io.BytesIO()
    frame.write_parquet(page)
    return page.getvalue()


def archive():
    page = io.BytesIO()
    with zipfile.ZipFile(page, "w") as file:
        file.writestr("x.npy", b"not an array")
    return page.getvalue()


BINARY = {
    "empty.npy": (b"", "empty file"),
    "text.npy": (b"a,b\n1,2\n", "other bytes"),
    "pickle.npy": (npy(np.array([[{}, []]], dtype=object), allow_pickle=True), "Python objects"),
    "cut.npy": (npy(np.eye(4, dtype=int))[:-8], "damaged"),
    "flat.npy": (npy(np.arange(4)), "shape"),
    "complex.npy": (npy(np.eye(2, dtype=complex)), "complex"),
    "beyond.npy": (npy(np.array([["a", "b"], ["c", "d"]]))[:-1] + b"\x05", "damaged|text"),
    "two.npz": (npz(a=np.eye(2), b=np.eye(2)), "one array alone, got a, b"),
    "none.npz": (archive(), "damaged|x"),
    "cut.npz": (npz(x=np.eye(2, dtype=int))[:-30], "damaged"),
    "single.npz": (npy(np.eye(2, dtype=int)), "an array named x, or one array alone"),
    "empty.parquet": (b"", "empty file"),
    "text.parquet": (b"a,b\n1,2\n3,4\n5,6\n", "other bytes"),
    "cut.parquet": (parquet(pl.DataFrame({"a": [1, 2]}))[:-20] + b"PAR1", "damaged"),
    "lists.parquet": (parquet(pl.DataFrame({"a": [[1], [2]], "b": [1, 2]})), "column 'a'"),
    "rowless.parquet": (parquet(pl.DataFrame({"a": []}, schema={"a": pl.Int64})), "0 rows"),
    "cut.data.gz": (gzip.compress(b"0,1\n1,0\n" * 100)[:-12], "gzip"),
    "plain.data.gz": (b"0,1\n", "gzip"),
    "table.xlsx": (b"PK", "ending in .*got 'table.xlsx'; save its table as CSV"),
    "table": (b"a,b\n1,2\n", "ending in .*; rename it by what it holds"),
    "picture.png": (b"\x89PNG", r"ending in .*; save images as one array \(N, H, W\) in .npy"),
    "archive.npz.gz": (b"", "ending in"),
}


@pytest.mark.parametrize("name", BINARY)
def test_bad_binaries(tmp_path, name):
    data, match = BINARY[name]
    path = tmp_path / name
    path.write_bytes(data)
    refused(path, match)


def test_no_file_and_a_folder(tmp_path):
    refused(tmp_path / "none.csv", "an existing file, got none; check the path")
    refused(tmp_path, "a file, got a folder; name a file inside it")


def _arrays():
    table = np.array([[0, 1, 2], [1, 0, 2], [0, 0, 1]])
    images = np.zeros((2, 3, 3), np.uint8)
    packed = io.BytesIO()
    np.savez_compressed(packed, x=table)
    head = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 3])
    return npy(table), packed.getvalue(), npy(np.array([["a", "b"], ["c", "a"]])), npy(images), head + images.tobytes()


NPY, NPZ, TEXT_NPY, IMAGES_NPY, IDX = _arrays()
SEEDS = {
    "csv": [b'a,b\n1,x\n2,"y, z"\n,w\n', "ä;ö,ü\r\n1,2\r\n".encode(), b'"a\nb",c\n"1""2",3\n'],
    "tsv": [b"a\tb\n1\tx\n2\ty\n"],
    "data": [b"0,1\n1,1\n"],
    "npy": [NPY, TEXT_NPY, IMAGES_NPY],
    "npz": [NPZ],
    "idx": [IDX],
    "arff": [b"@relation r\n@attribute 'a' {x, y}\n@attribute b {1, 2}\n@data\nx,1\ny,2\n"],
    "fasta": [b">one class=a\nACGT\n>two class=b\nAC-T\n"],
    "a2m": [b">one\nAC.gT-\n>two\nACaGT-\n"],
    "text": [b"a line\nanother\n\nlast"],
    "parquet": [
        parquet(
            pl.DataFrame(
                {"a": ["x", "y", None], "b": [1, 2, 3], "c": [True, False, True], "d": [0.0, 1.0, 2.0]}
            ).with_columns(e=pl.col("a").cast(pl.Categorical))
        )
    ],
}
TRICKS = [b"", b"\x00", b'"', b",", b"\n", b"\r", b"\xff", b"\xef\xbb\xbf", b"\xc3", b"PAR1", b"\x93NUMPY", b"9" * 30]


@st.composite
def mutated(draw, seed):
    data = bytearray(seed)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(data)))
        kind = draw(st.integers(0, 3))
        if kind == 0 and at < len(data):
            data[at] = draw(st.integers(0, 255))
        elif kind == 1:
            data[at:at] = draw(st.sampled_from(TRICKS) | st.binary(max_size=4))
        elif kind == 2:
            del data[at : at + draw(st.integers(1, 8))]
        else:
            data = data + data[at:]
    return bytes(data)


def survive(reader, data):
    """A table that can be encoded, or one InputError; nothing else, and never a warning."""
    said = None
    try:
        found = reader(data, "fuzz")
        if found.kind == "table":
            found.native()
            codec = TableCodec.fit(found, TableOptions(missing="category"))
            assert len(codec.decode(codec.encode(found).states)) == len(found) > 0
    except InputError as error:
        said = str(error)
    assert said is None or said.isprintable()


@pytest.mark.parametrize("name", READERS)
def test_random_bytes(name):
    @given(st.binary(max_size=200) | st.text(st.sampled_from('ab1,"\n\r\t '), max_size=60).map(str.encode))
    @settings(max_examples=60)
    def check(data):
        survive(READERS[name].read, data)

    check()


def test_every_format_has_a_seed():
    assert set(SEEDS) == set(READERS)


@pytest.mark.parametrize(("name", "number"), [(e, k) for e, seeds in SEEDS.items() for k in range(len(seeds))])
def test_mutated_files(name, number):
    survive(READERS[name].read, SEEDS[name][number])

    @given(mutated(SEEDS[name][number]))
    @settings(max_examples=60)
    def check(data):
        survive(READERS[name].read, data)

    check()


def test_mutated_gzip(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "t.data.gz"

    @given(mutated(gzip.compress(b"0,1\n1,1\n" * 20, mtime=0)))
    def check(data):
        path.write_bytes(data)
        survive(lambda _, __: read_file(path), data)

    check()
