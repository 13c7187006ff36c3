"""One contract for every registered format: a new one is enrolled by its registry line."""

import gzip

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score import registry
from concrete_score.codecs import codec_of
from concrete_score.data import Images, Sequences, as_frame, read_file, stream_files, write_file
from concrete_score.data.formats import Format, formats, writer_of
from concrete_score.errors import InputError

ALL = formats()
DATA = {
    "table": as_frame(pl.DataFrame({"a": ["x", 'y"', "x, z", "é\n"], "b": ["1", "2", "1", "7"]})),
    "image": Images(np.random.default_rng(0).integers(0, 256, (5, 4, 3), dtype=np.uint8), "x", top=255),
    "sequence": Sequences(("ACGT" * 30, "AC", "G--T", "A", "TT"), "x"),
}
TEXT = ("csv", "tsv", "data", "arff", "fasta", "a2m", "text")
"""Formats of plain text, where a file cut short is another file."""


def content(found):
    """What a data object holds, for comparison."""
    return {
        "table": lambda: found.rows(),
        "image": lambda: found.pixels.tolist(),
        "sequence": lambda: found.texts,
    }[found.kind]()


BOTH = [name for name, each in ALL.items() if each.read is not None and each.write is not None]
READ = [name for name, each in ALL.items() if each.read is not None]
WRITTEN = [name for name, each in ALL.items() if each.write is not None]


def endings(chosen):
    """Every ending of its files, packed or not; one without a dot ends a whole name."""
    for suffix in chosen.suffixes:
        name = f"file{suffix}" if suffix.startswith(".") else f"file-{suffix}"
        yield name
        if chosen.packed:
            yield f"{name}.gz"


def written(folder, name, kind):
    path = folder / next(endings(ALL[name]))
    write_file([DATA[kind]], path, force=True)
    return path


@pytest.mark.parametrize("name", ALL)
def test_a_format_is_called_as_it_is_registered_and_reads_or_writes(name):
    each = ALL[name]
    assert isinstance(each, Format)
    assert each.name == name
    assert each.suffixes
    assert each.read is not None or each.write is not None
    for kind in each.holds:
        assert codec_of(kind).kind == kind
    for suffix in each.suffixes:
        assert suffix == suffix.lower()


def test_suffixes_are_unique():
    found = [suffix for each in ALL.values() for suffix in each.suffixes]
    assert len(found) == len(set(found))
    assert ".gz" not in found
    assert set(registry.names("formats")) == set(ALL)


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in BOTH for kind in ALL[name].holds])
def test_what_is_written_is_read_again(tmp_path, name, kind):
    data = DATA[kind]
    for place, ending in enumerate(endings(ALL[name])):
        path = tmp_path / ending
        assert write_file([data], path) == len(data)
        assert writer_of(path, kind)[0] == ALL[name]
        if place % 2:
            assert gzip.decompress(path.read_bytes()) == (tmp_path / path.stem).read_bytes()
        found = read_file(path)
        assert (found.kind, found.where, len(found)) == (kind, str(path), len(data))
        if kind == "table":
            assert found.rows() == data.rows()
            assert found.names == (data.names if found.named else ("x0", "x1"))
        else:
            assert content(found) == content(data)


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in WRITTEN for kind in ALL[name].holds])
def test_parts_are_the_whole_and_an_unfinished_file_is_none(tmp_path, name, kind):
    data = DATA[kind]
    whole = written(tmp_path, name, kind)
    parts = tmp_path / f"parts-{whole.name}"
    assert write_file((data.take(np.arange(k, min(k + 2, len(data)))) for k in range(0, len(data), 2)), parts) == len(
        data
    )
    if ALL[name].read is None:
        assert parts.read_bytes() == whole.read_bytes()
    else:
        one, other = read_file(whole), read_file(parts)
        assert content(one) == content(other)

    def broken():
        yield data
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        write_file(broken(), tmp_path / f"broken-{whole.name}")
    assert not [path for path in tmp_path.iterdir() if "broken" in path.name]
    with pytest.raises(InputError, match="one that exists"):
        write_file([data], whole)


@pytest.mark.parametrize("name", [name for name in BOTH if ALL[name].stream is not None])
def test_parts_that_are_streamed_are_the_whole_that_is_read(tmp_path, name):
    for ending in endings(ALL[name]):
        path = tmp_path / ending
        write_file([DATA["table"]], path)
        if name == "parquet" and path.suffix == ".gz":
            with pytest.raises(InputError, match="unpack it"):
                stream_files([path]).whole()
            continue
        whole, found = read_file(path), stream_files([path]).whole()
        assert found.table.equals(whole.table)
        assert (found.form, found.where, found.named) == (whole.form, whole.where, whole.named)
        twice = stream_files([path, path])
        assert [frame.first for frame in twice] == [0, len(whole)]
        assert twice.whole().rows() == whole.rows() * 2
        assert ALL[name].memory(path) > 0


def refused(path):
    with pytest.raises(InputError) as caught:
        read_file(path)
    assert str(path) in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", READ)
def test_empty_files_are_refused(tmp_path, name):
    for ending in endings(ALL[name]):
        (tmp_path / ending).write_bytes(gzip.compress(b"") if ending.endswith(".gz") else b"")
        refused(tmp_path / ending)


@pytest.mark.parametrize("name", READ)
def test_random_bytes_are_refused_in_one_line_that_names_the_file(tmp_path_factory, name):
    folder = tmp_path_factory.mktemp("random")

    @given(st.binary(min_size=1, max_size=300), st.booleans())
    @settings(max_examples=60)
    def check(data, packed):
        path = folder / list(endings(ALL[name]))[packed and ALL[name].packed]
        # A text table may consist of almost anything but a zero byte.
        content = data + b"\x00" if name in TEXT else data
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        refused(path)

    check()


@pytest.mark.parametrize("name", READ)
def test_what_is_not_packed_is_refused_under_a_packed_name(tmp_path, name):
    for ending in endings(ALL[name]):
        if ending.endswith(".gz"):
            (tmp_path / ending).write_bytes(b"a,b\n1,2\n")
            refused(tmp_path / ending)


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name in BOTH for kind in ALL[name].holds if name not in TEXT]
)
def test_truncated_files_are_refused(tmp_path, name, kind):
    path = written(tmp_path, name, kind)
    whole = path.read_bytes()
    for length in {1, 4, 8, len(whole) // 2, len(whole) - 9, len(whole) - 1}:
        path.write_bytes(whole[:length])
        refused(path)


@pytest.mark.parametrize("name", [name for name in BOTH if name in ("csv", "tsv", "data")])
def test_a_text_table_cut_within_a_row_is_refused(tmp_path, name):
    path = written(tmp_path, name, "table")
    whole = path.read_bytes()
    for cut in (whole.rindex(b'"') - 1, whole.rindex(b'"')):  # within a quoted cell
        path.write_bytes(whole[:cut])
        refused(path)


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name in BOTH for kind in ALL[name].holds if ALL[name].packed]
)
def test_truncated_packed_files_are_refused(tmp_path, name, kind):
    path = tmp_path / list(endings(ALL[name]))[1]
    write_file([DATA[kind]], path)
    whole = path.read_bytes()
    for length in (1, 5, len(whole) // 2, len(whole) - 8, len(whole) - 1):
        path.write_bytes(whole[:length])
        refused(path)
