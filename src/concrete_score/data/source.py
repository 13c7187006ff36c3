"""DATA as a person says it: an existing path wins, else the name of a data set."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl

from concrete_score.data.arff import read_arff
from concrete_score.data.frame import Column, Frame, Numbers, narrow
from concrete_score.data.named import Entry, entry_of, locate, unpack
from concrete_score.data.read import STDIN, read_file, reader_for
from concrete_score.errors import InputError


def load_table(
    spec: str | Path,
    split: str = "test",
    *,
    data_dir: str | Path | None = None,
    base_url: str | None = None,
    say: Callable[[str], None] = lambda message: None,
) -> Frame:
    """The table that DATA means.

    Args:
        spec: a path, ``-`` for CSV on standard input, or ``NAME[:SPLIT]`` of a data set.
        split: which split a bare name means.
        data_dir: a folder of data sets, looked into first.
        base_url: where to download from instead of the public place.
        say: takes lines of progress.

    Raises:
        InputError: no such file or name, or not a table; file, line and column are named.
    """
    text = str(spec)
    if is_path(text):
        return read_file(text)
    if isinstance(spec, Path):
        raise InputError("an existing file", "none", where=text, fix="check the path")
    entry = entry_of(text, split)
    return read_entry(entry, locate(entry, data_dir, base_url=base_url, say=say))


def is_path(spec: str) -> bool:
    """Whether DATA is a path rather than a name."""
    try:
        return spec == STDIN or Path(spec).exists()
    except (OSError, ValueError):
        return False


def read_entry(entry: Entry, path: Path) -> Frame:
    """A data set's file as a table; values its registry declares are categories, seen or not."""
    where = f"{entry.name}:{entry.split}"
    if entry.file.endswith(".arff.gz"):
        return read_arff(unpack(path), where, drop=("Instance_name",))
    if not entry.file.endswith(".data.gz"):
        raise InputError(
            "a data set of tables",
            f"{where}, a file of another kind",
            where=str(path),
            fix="choose another split or set",
        )
    reader, _ = reader_for(path)
    frame = reader(unpack(path), where)
    if not entry.is_bits:
        return frame
    return replace(frame, columns=tuple(_bits(column) for column in frame.columns))


def _bits(column: Column | Numbers) -> Column | Numbers:
    if isinstance(column, Numbers) or len(column.values) == 2 or not set(column.values) <= {"0", "1"}:
        return column
    # One value was seen; the other keeps its place.
    table = [int(value) for value in column.values] + [2]
    return Column(column.name, pl.Series(["0", "1"]), narrow(pl.Series(table).to_numpy()[column.codes], 3))
