"""Parquet files, and NumPy's ``.npy`` and ``.npz``; nothing is ever unpickled."""

import io
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from concrete_score.data.frame import Array, Form, Frame
from concrete_score.data.native import as_frame, frame_of_array
from concrete_score.data.numpy_files import WHOLE, numpy_file, reason
from concrete_score.errors import InputError


def read_parquet(source: Path | bytes, where: str) -> Frame:
    """A Parquet table; nulls are blank.

    Raises:
        InputError: not Parquet, damaged, or a column that holds lists, structures or bytes.
    """
    if isinstance(source, bytes):
        with TemporaryDirectory() as folder:
            path = Path(folder) / "table.parquet"
            path.write_bytes(source)
            return read_parquet(path, where)
    data = source.read_bytes()
    if len(data) < 12 or data[:4] != b"PAR1" or data[-4:] != b"PAR1":
        raise InputError("a Parquet file", "an empty file" if not data else "other bytes", where=where, fix=WHOLE)
    if told := _probe(source):
        raise InputError("a Parquet file", f"a damaged one ({told})", where=where, fix=WHOLE)
    try:
        table = pl.read_parquet(io.BytesIO(data), use_statistics=False, hive_partitioning=False)
    # A damaged file can stop polars in many ways; its panic is not even an Exception.
    except (Exception, pl.exceptions.PanicException) as error:
        raise InputError("a Parquet file", f"a damaged one ({reason(error)})", where=where, fix=WHOLE) from None
    try:
        return Frame(as_frame(table, where).columns, Form("parquet"), where)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError("columns of categories", reason(error), where=where, fix=WHOLE) from None


def read_npy(source: Path | bytes, where: str) -> Frame:
    """One array ``(N, D)``; columns are called x0, x1, …"""
    return _frame(_load(source, where), "npy", where)


def read_npz(source: Path | bytes, where: str) -> Frame:
    """The array ``x`` of an archive, or its only one ``(N, D)``; columns are called x0, x1, …"""
    return _frame(_load(source, where), "npz", where)


def _probe(path: Path) -> str:
    """Why a Parquet file cannot be decoded, or nothing.

    A damaged page can ask for more memory than there is, and then the whole process ends, not only the call; so
    another process goes first.
    """
    told = subprocess.run(
        [sys.executable, "-c", _PROBE, os.fspath(path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    words = told.stdout.decode(errors="replace").split()
    return "" if told.returncode == 0 else " ".join(words)[:120] or "its pages contradict one another"


def _frame(array: Array, kind: str, where: str) -> Frame:
    frame = frame_of_array(array, where)
    return Frame(frame.columns, Form(kind, frame.form.dtype), where, named=False)


def _load(source: Path | bytes, where: str) -> Array:
    data = source if isinstance(source, bytes) else source.read_bytes()
    with numpy_file(data, where, "a NumPy file of plain numbers or text") as loaded:
        return loaded if isinstance(loaded, np.ndarray) else np.asarray(loaded[_chosen(loaded.files, where)])


def _chosen(names: list[str], where: str) -> str:
    if "x" in names:
        return "x"
    if len(names) != 1:
        raise InputError("an array named x, or one array alone", ", ".join(names) or "none", where=where)
    return names[0]


_PROBE = """
import io, sys
import polars as pl
try:
    with open(sys.argv[1], "rb") as file:
        pl.read_parquet(io.BytesIO(file.read()), use_statistics=False, hive_partitioning=False)
except BaseException as error:
    sys.exit(print(str(error)) or 3)
"""
