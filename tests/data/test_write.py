"""The same format out as in, whole or not at all."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.data import TableCodec, TableOptions, as_frame, read_file, to_csv, write_parts, write_table
from concrete_score.data.read import CSV
from concrete_score.data.text import read_text
from concrete_score.errors import InputError

TABLE = pl.DataFrame({"a": ["x", 'y"', "x, z"], "b": [1, 2, 1]})


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "csv.gz", "tsv.gz"])
def test_what_is_written_is_read_again(tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    write_table(as_frame(TABLE), path)
    frame = read_file(path)
    assert frame.form.kind == ending.split(".")[0]
    codec = TableCodec.fit(frame)
    write_table(codec.decode(codec.encode(frame).states), tmp_path / "again")
    assert (tmp_path / "again").read_bytes()
    assert codec.decode(codec.encode(frame).states).native().equals(TABLE)


@pytest.mark.parametrize("ending", ["data", "data.gz", "npy", "npz"])
def test_arrays_of_integers_too(tmp_path, ending):
    array = np.array([[0, 300], [1, 7], [1, 300]], dtype=np.uint16)
    write_table(as_frame(array), tmp_path / f"t.{ending}")
    frame = read_file(tmp_path / f"t.{ending}")
    codec = TableCodec.fit(frame)
    write_table(codec.decode(codec.encode(frame).states), tmp_path / f"u.{ending}")
    assert (tmp_path / f"u.{ending}").read_bytes() == (tmp_path / f"t.{ending}").read_bytes()


@pytest.mark.parametrize("ending", ["csv", "tsv", "data", "parquet", "csv.gz", "npy", "npz"])
def test_parts_make_the_file_of_the_whole(tmp_path, ending):
    frame = as_frame(TABLE.with_columns(c=pl.Series([0.5, 0.25, 7.5])))
    codec = TableCodec.fit(frame, TableOptions(bins={"c": 2}))
    states = codec.space.enumerate()
    write_table(codec.decode(states), tmp_path / f"whole.{ending}")
    for size in (1, 5, len(states)):
        path = tmp_path / f"parts{size}.{ending}"
        assert write_parts(map(codec.decode, states.split(size)), path) == len(states)
        assert read_file(path).rows() == read_file(tmp_path / f"whole.{ending}").rows()


def test_a_part_that_fails_leaves_nothing(tmp_path):
    def parts():
        yield as_frame(TABLE)
        raise InputError("a good part", "another")

    with pytest.raises(InputError, match="a good part"):
        write_parts(parts(), tmp_path / "t.csv")
    assert list(tmp_path.iterdir()) == []


def test_blanks_are_empty_in_text_and_null_in_parquet(tmp_path):
    frame = as_frame(pl.DataFrame({"a": ["x", None], "b": [None, 2]}))
    assert to_csv(frame) == "a,b\nx,\n,2\n"
    write_table(frame, tmp_path / "t.parquet")
    assert pl.read_parquet(tmp_path / "t.parquet").rows() == [("x", None), (None, 2)]
    write_table(frame, tmp_path / "t.npy")
    assert np.load(tmp_path / "t.npy").tolist() == [["x", ""], ["", "2"]]


@given(
    st.lists(
        st.tuples(*[st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"))] * 2), min_size=1
    )
)
def test_any_text_survives_csv(rows):
    frame = as_frame(pl.DataFrame(rows, schema={"a": pl.String, "b": pl.String}, orient="row"))
    assert read_text(to_csv(frame).encode(), "t", CSV).rows() == frame.rows()


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(pl.DataFrame, "write_csv", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError, match="full"):
        write_table(as_frame(TABLE), tmp_path / "t.csv")
    assert list(tmp_path.iterdir()) == []


def test_unknown_ending_is_refused_before_work(tmp_path):
    with pytest.raises(InputError, match="ending"):
        write_table(as_frame(TABLE), tmp_path / "t.xlsx")


def test_bins_go_out_as_labels(tmp_path):
    frame = as_frame(pl.DataFrame({"a": [0.25, 0.5, 1.5, 2.5], "b": [0, 1, 0, 1]}))
    codec = TableCodec.fit(frame, TableOptions(bins={"a": 2}))
    write_table(codec.decode(codec.encode(frame).states), tmp_path / "t.csv")
    assert read_file(tmp_path / "t.csv").rows()[0] == ("[0.25, 1.5)", "0")
