"""Parquet is read in this process: no byte that is wrong can end it, fill its memory or make it noisy."""

import io
import os
import subprocess
import sys
from contextlib import suppress
from itertools import product

import numpy as np
import polars as pl
import pytest

from concrete_score.data import parquet
from concrete_score.data.parquet import read_parquet, row_groups
from concrete_score.errors import InputError

TABLE = pl.DataFrame(
    {"a": ["x", "y", None] * 5, "b": list(range(15)), "c": [True, False, None] * 5, "d": [0.0, 1.5, 2.0] * 5}
).with_columns(e=pl.col("a").cast(pl.Categorical), f=pl.col("a").cast(pl.Enum(["x", "y", "z"])))
CODECS = ["uncompressed", "snappy", "zstd", "lz4", "gzip", "brotli"]

# Mutates a file on standard input in every way that a random generator finds, below a limit of memory.
CHILD = """
import random, resource, sys
from concrete_score.data.parquet import read_parquet
from concrete_score.errors import InputError

seed = sys.stdin.buffer.read()
read_parquet(seed, "t.parquet")
resource.setrlimit(resource.RLIMIT_AS, (2 * 2**30, 2 * 2**30))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
pick, refused = random.Random(int(sys.argv[1])), 0
HUGE = [b"\\xfe\\xff\\xff\\xff\\x0f", b"\\xff" * 8, b"\\xfe\\xff\\xff\\xff\\x07", b"\\x80\\x80\\x80\\x80\\x08"]
for _ in range(300):
    data = bytearray(seed)
    for _ in range(pick.randint(1, 3)):
        at, kind = pick.randrange(len(data)), pick.randrange(5)
        if kind == 0:
            data[at] ^= pick.randint(1, 255)
        elif kind == 1:
            size = pick.choice(HUGE)
            data[at : at + len(size)] = size  # a huge stated size in place of another
        elif kind == 2:
            data[at:at] = pick.choice(HUGE)
        elif kind == 3:
            del data[at : at + pick.randint(1, 8)]
        else:
            data = data[: max(at, 16)] + data[-8:]
    try:
        read_parquet(bytes(data), "t.parquet")
    except InputError as error:
        refused += 1
        assert str(error).startswith("t.parquet: ") and str(error).isprintable()
print(refused)
"""


def written(table=TABLE, **options):
    page = io.BytesIO()
    table.write_parquet(page, **options)
    return page.getvalue()


@pytest.mark.parametrize("rows", [None, 4])
@pytest.mark.parametrize("codec", CODECS)
def test_every_compression_and_any_number_of_row_groups(codec, rows):
    frame = read_parquet(written(compression=codec, row_group_size=rows), "t.parquet")
    assert frame.rows() == TABLE.cast({"e": pl.String, "f": pl.String}).rows()
    assert (frame.form.kind, frame.where, frame.typed) == ("parquet", "t.parquet", True)


def test_no_other_process_is_asked(monkeypatch):
    def never(*_, **__):
        raise AssertionError("another process")

    for module, name in ((subprocess, "Popen"), (os, "fork"), (os, "posix_spawn"), (os, "system")):
        monkeypatch.setattr(module, name, never)
    assert len(read_parquet(written(), "t")) == 15
    with pytest.raises(InputError, match="damaged"):
        read_parquet(written()[:-20] + b"PAR1", "t")
    assert not hasattr(parquet, "subprocess")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit of memory is Linux's")
@pytest.mark.parametrize("codec", CODECS)
def test_damage_never_ends_the_process_and_makes_no_noise(codec):
    """Flips, cuts and huge stated sizes, in a child whose memory is limited: it lives, and says nothing else."""
    for seed, rows in ((0, None), (1, 4)):
        data = written(compression=codec, row_group_size=rows)
        done = subprocess.run([sys.executable, "-c", CHILD, str(seed)], input=data, capture_output=True, check=False)
        assert (done.returncode, done.stderr.decode()) == (0, "")
        assert 150 < int(done.stdout) <= 300


@pytest.mark.slow
def test_any_byte_of_a_parquet_file_may_be_wrong(capfd):
    whole = written()
    for at, change in product(range(4, len(whole) - 4, 7), (0xFF, 0x01)):
        data = whole[:at] + bytes([whole[at] ^ change]) + whole[at + 1 :]
        with suppress(InputError):
            read_parquet(data, "t")
    assert capfd.readouterr() == ("", "")


def test_standard_error_is_back_after_a_panic(capfd):
    whole = written()
    for at in range(4, len(whole) - 4, 11):
        with suppress(InputError):
            read_parquet(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :], "t")
    os.write(2, b"still here")
    assert capfd.readouterr() == ("", "still here")


def test_files_cut_anywhere_are_refused():
    whole = written()
    for length in range(0, len(whole), 7):
        for data in (whole[:length], whole[:length] + b"PAR1", whole[:length] + whole[-8:]):
            if data != whole:
                with pytest.raises(InputError, match=r"^t: expected a Parquet file, got (other bytes|a damaged one)"):
                    read_parquet(data, "t")


def test_the_stated_size_covers_the_cells_and_its_limit_is_told(monkeypatch):
    table = pl.DataFrame({"a": np.arange(10_000), "b": ["a long text that repeats"] * 10_000})
    assert sum(group.size for group in row_groups(written(table), "t")) >= 16 * 2 * 10_000
    monkeypatch.setenv("CONCRETE_SCORE_MEMORY", "1e-6")
    with pytest.raises(InputError, match=r"^t: expected content that takes at most \S+ GiB of memory, got about 1 GiB"):
        read_parquet(written(table), "t")


def test_no_wrong_byte_loses_rows():
    """Polars alone gives fewer rows where a row group states fewer."""
    table = pl.DataFrame({"a": list(range(50)), "b": list(range(50))})
    whole, refused = written(table, compression="uncompressed"), 0
    for at in range(4, len(whole) - 8):
        if whole[at] == 100:  # 50, as Thrift writes it
            try:
                assert len(read_parquet(whole[:at] + bytes([60]) + whole[at + 1 :], "t")) == 50
            except InputError:
                refused += 1
    assert refused >= 8


@pytest.mark.parametrize(
    ("table", "match"),
    [
        (pl.DataFrame({"a": [[1], [2]], "b": [1, 2]}), "column 'a': expected a column of text, whole numbers"),
        (pl.DataFrame({"a": [{"x": 1}, {"x": 2}], "b": [1, 2]}), "column 'a'"),
        (pl.DataFrame({"a": [b"x", b"y"], "b": [1, 2]}), "column 'a'"),
        (pl.DataFrame({"a": []}, schema={"a": pl.Int64}), "got 0 rows"),
    ],
)
def test_columns_that_cannot_hold_categories(table, match):
    with pytest.raises(InputError, match=match):
        read_parquet(written(table), "t")
