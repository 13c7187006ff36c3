"""Every bad file ends in one line that names it and what to do; nothing else ever escapes."""

import gzip
import io
import zipfile

import numpy as np
import polars as pl
import pytest

from concrete_score.data import TableCodec, TableOptions, load_table, read_file, write_table
from concrete_score.errors import InputError


def refused(path, match, options=None):
    with pytest.raises(InputError, match=match) as caught:
        TableCodec.fit(load_table(str(path)), options)
    text = str(caught.value)
    assert "\n" not in text
    assert path.name in text
    assert ";" in text  # the advice
    return text


TEXT = {
    "empty": (b"", "empty file"),
    "white": (b"\n\n  \n", "one, '  '|a header alone"),
    "header_only": (b"a,b\n", "a header alone"),
    "header_only_bare": (b"a,b", "a header alone"),
    "binary": (b"\x89PNG\r\n\x1a\n\x00\x01\x02,", "binary file"),
    "ragged": (b"a,b\n1,2\n3\n", "line 3: expected 2 cells, as on the first line, got 1"),
    "ragged_long": (b"a,b\n1,2\n3,4,5\n", "line 3: .* got 3"),
    "latin": ("a,b\nx,1\nZürich,2\n".encode("latin-1"), "line 3: expected UTF-8 text, got byte 0xfc"),
    "latin_header": ("Straße,b\nx,1\n".encode("latin-1"), "line 1: expected UTF-8 text"),
    "utf16": ("a,b\n1,2\n".encode("utf-16"), "got UTF-16"),
    "duplicate": (b"a,b,a\n1,2,3\n", "line 1: .*'a' for columns 1 and 3"),
    "one_column": (b"a\n1\n2\n", "two columns or more, got one, 'a'"),
    "semicolons": (b"a;b\n1;2\n2;3\n", "semicolons"),
    "constant": (b"a,b\n1,x\n2,x\n", r"'b' \(one value in every row\).*--drop b"),
    "all_blank": (b"a,b\n,\n,\n", "blank cells alone"),
    "blank_column": (b"a,b,c\n1,,2\n2,,1\n", r"'b' \(blank in every row\)"),
    "open_quote": (b'a,b\n1,"x\n2,y\n', "line 2: .*quotes"),
    "blank_cells": (b"a,b\n1,x\n2,\n1,y\n", r"no blank cells, got 1 \('b': 1\); add --missing drop or --missing cat"),
}


@pytest.mark.parametrize("name", TEXT)
def test_bad_text(tmp_path, name):
    data, match = TEXT[name]
    path = tmp_path / f"{name}.csv"
    path.write_bytes(data)
    refused(path, match)


def test_many_categories_and_every_offending_column_in_one_message(tmp_path):
    rows = "\n".join(f"{i},name {i},{i / 7},{i % 2},{i % 7 / 4},k,{i % 3}" for i in range(100_000))
    path = tmp_path / "wide.csv"
    path.write_text(f"id,the name,share,bit,quarter,same,ok\n{rows}\n")
    text = refused(path, "columns of 2 to 256 categories")
    for word in ("'id' (100000 values)", "'the name' (100000 values)", "'share' (non-integer numbers)"):
        assert word in text
    for flag in ("--bins id=10", "--drop 'the name'", "--bins share=10", "--bins quarter=10", "--drop same"):
        assert flag in text
    assert "'bit'" not in text
    assert "'ok'" not in text
    mended = TableOptions(drop=("the name", "same"), bins={"id": 10, "share": 10, "quarter": 2})
    assert TableCodec.fit(read_file(path), mended).space.sizes == (10, 10, 2, 2, 3)


def test_bins_on_words_are_refused_among_the_others(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\nx,1\ny,2\n")
    refused(path, "'a' .not numbers, so no bins", TableOptions(bins={"a": 3}))


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
    "two.npz": (npz(a=np.eye(2), b=np.eye(2)), "one array alone, got a, b"),
    "none.npz": (archive(), "damaged|x"),
    "cut.npz": (npz(x=np.eye(2, dtype=int))[:-30], "damaged"),
    "empty.parquet": (b"", "empty file"),
    "text.parquet": (b"a,b\n1,2\n3,4\n5,6\n", "other bytes"),
    "cut.parquet": (parquet(pl.DataFrame({"a": [1, 2]}))[:-20] + b"PAR1", "damaged"),
    "lists.parquet": (parquet(pl.DataFrame({"a": [[1], [2]], "b": [1, 2]})), "column 'a'"),
    "rowless.parquet": (parquet(pl.DataFrame({"a": []}, schema={"a": pl.Int64})), "0 rows"),
    "cut.data.gz": (gzip.compress(b"0,1\n1,0\n" * 100)[:-12], "gzip"),
    "plain.data.gz": (b"0,1\n", "gzip"),
    "table.xlsx": (b"PK", "ending in"),
    "table": (b"a,b\n1,2\n", "ending in"),
}


@pytest.mark.parametrize("name", BINARY)
def test_bad_binaries(tmp_path, name):
    data, match = BINARY[name]
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(InputError, match=match) as caught:
        read_file(path)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file_folder_and_mistyped_name(tmp_path):
    with pytest.raises(InputError, match="check the path"):
        load_table(str(tmp_path / "none.csv"))
    with pytest.raises(InputError, match="a folder"):
        load_table(str(tmp_path))
    with pytest.raises(InputError, match="did you mean 'nltcs'"):
        load_table("nltc")
    with pytest.raises(InputError, match="a split of nltcs"):
        load_table("nltcs:tests")


def test_an_output_that_exists_is_not_touched(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("mine")
    frame = read_file(_table(tmp_path))
    with pytest.raises(InputError, match="--force"):
        write_table(frame, path)
    assert path.read_text() == "mine"
    write_table(frame, path, force=True)
    assert path.read_text() == "a,b\n1,2\n"


def _table(folder):
    (folder / "in.csv").write_text("a,b\n1,2\n")
    return folder / "in.csv"


def test_numbers_but_for_a_word_are_told_from_text(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{k}.5,{k % 2}\n" for k in range(20)) + "NA,1\n?,0\n")
    refused(path, r"'a' .numbers but for '\?', 'NA'.; add --na '\?' --na NA", TableOptions(bins={"a": 3}))
