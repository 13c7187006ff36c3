"""Random and mutated bytes: a table or one InputError, never another exception, never a warning."""

import gzip
import io

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.data import TableCodec, TableOptions, binary
from concrete_score.data.arff import read_arff
from concrete_score.data.read import READERS, read_file
from concrete_score.errors import InputError


def _arrays():
    table = np.array([[0, 1, 2], [1, 0, 2], [0, 0, 1]])
    plain, packed, text = io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.save(plain, table)
    np.savez_compressed(packed, x=table)
    np.save(text, np.array([["a", "b"], ["c", "a"]]))
    return plain.getvalue(), packed.getvalue(), text.getvalue()


def _parquet():
    page = io.BytesIO()
    pl.DataFrame({"a": ["x", "y", None], "b": [1, 2, 3], "c": [True, False, True], "d": [0.0, 1.0, 2.0]}).write_parquet(
        page
    )
    return page.getvalue()


NPY, NPZ, TEXT_NPY = _arrays()
SEEDS = {
    ".csv": [b'a,b\n1,x\n2,"y, z"\n,w\n', "ä;ö,ü\r\n1,2\r\n".encode(), b'"a\nb",c\n"1""2",3\n'],
    ".tsv": [b"a\tb\n1\tx\n2\ty\n"],
    ".data": [b"0,1\n1,1\n"],
    ".parquet": [_parquet()],
    ".npy": [NPY, TEXT_NPY],
    ".npz": [NPZ],
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


# Each Parquet file is first decoded by another process, which takes its time.
def examples(ending):
    return 12 if ending == ".parquet" else 60


def survive(reader, data):
    said = None
    try:
        frame = reader(data, "fuzz")
        frame.to_polars()
        codec = TableCodec.fit(frame, TableOptions(missing="category"))
        assert codec.decode(codec.encode(frame).states).num_rows == frame.num_rows > 0
    except InputError as error:
        said = str(error)
    assert said is None or said.isprintable()


@pytest.mark.parametrize("ending", READERS)
def test_random_bytes(ending):
    @given(st.binary(max_size=200) | st.text(st.sampled_from('ab1,"\n\r\t '), max_size=60).map(str.encode))
    @settings(max_examples=60)
    def check(data):
        survive(READERS[ending], data)

    check()


@pytest.mark.parametrize(("ending", "number"), [(e, k) for e, seeds in SEEDS.items() for k in range(len(seeds))])
def test_mutated_files(ending, number):
    @given(mutated(SEEDS[ending][number]))
    @settings(max_examples=examples(ending))
    def check(data):
        survive(READERS[ending], data)

    check()


@given(mutated(b"@relation r\n@attribute 'a' {x, y}\n@attribute b {1, 2}\n@data\nx,1\ny,2\n"))
def test_mutated_arff(data):
    survive(read_arff, data)


def test_mutated_gzip(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "t.data.gz"

    @given(mutated(gzip.compress(b"0,1\n1,1\n" * 20, mtime=0)))
    def check(data):
        path.write_bytes(data)
        survive(lambda _, __: read_file(path), data)

    check()


def test_damage_that_would_end_the_process_is_one_error_and_no_noise(capfd, monkeypatch):
    """A child that dies by a signal, as on an impossible allocation, is a damaged file."""
    monkeypatch.setattr(binary, "_PROBE", "import os; os.abort()")
    with pytest.raises(InputError, match="pages contradict"):
        READERS[".parquet"](SEEDS[".parquet"][0], "fuzz")
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_any_byte_of_a_parquet_file_may_be_wrong(capfd):
    seed = SEEDS[".parquet"][0]
    for at in range(4, len(seed) - 4, 37):
        survive(READERS[".parquet"], seed[:at] + bytes([seed[at] ^ 0xFF]) + seed[at + 1 :])
    assert capfd.readouterr().err == ""


def test_letters_beyond_unicode_are_refused():
    page = io.BytesIO()
    np.save(page, np.array([["a", "b"], ["c", "d"]]))
    with pytest.raises(InputError):
        READERS[".npy"](page.getvalue()[:-1] + b"\x05", "fuzz")
