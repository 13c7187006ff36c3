"""Tables out: the form follows the path's ending, or the form the data came in; CSV on standard output."""

import gzip
import io
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from concrete_score.data.frame import Array, Form, Frame, join
from concrete_score.data.native import to_array
from concrete_score.errors import InputError
from concrete_score.files import atomic, refuse_existing

Writer = Callable[[Iterator[Frame], Any], None]


def write_table(frame: Frame, path: str | Path, *, force: bool = False) -> None:
    """Write a table whole or not at all.

    Raises:
        InputError: the path exists and ``force`` is false, or its ending is unknown.

    >>> from tempfile import TemporaryDirectory
    >>> import polars as pl
    >>> from concrete_score.data import as_frame
    >>> with TemporaryDirectory() as folder:
    ...     write_table(as_frame(pl.DataFrame({"a": ["no", None], "b": [1, 2]})), f"{folder}/out.csv")
    ...     Path(f"{folder}/out.csv").read_text()
    'a,b\\nno,1\\n,2\\n'
    """
    write_parts([frame], path, force=force)


def write_parts(parts: Iterable[Frame], path: str | Path, *, force: bool = False) -> int:
    """Write a table that comes in parts, at least one, whole or not at all; text never holds more than one of them.

    Returns:
        How many rows it has.
    """
    path, rest = Path(path), iter(parts)
    first = next(rest)
    writer, packed = writer_for(path, first.form)
    refuse_existing(path, force)
    rows = 0

    def counted() -> Iterator[Frame]:
        nonlocal rows
        for frame in chain([first], rest):
            rows += frame.num_rows
            yield frame

    with atomic(path, force=force) as draft, draft.open("wb") as file:
        if packed:
            # No time stamp: equal tables are equal files.
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as inner:
                writer(counted(), inner)
        else:
            writer(counted(), file)
    return rows


def check_output(path: str | Path, form: Form, *, force: bool = False) -> None:
    """Say no to an output path before any work is done, rather than after."""
    writer_for(Path(path), form)
    refuse_existing(Path(path), force)


def to_csv(frame: Frame, *, header: bool = True) -> str:
    """A table as CSV text, for standard output; a later part of one has no header.

    >>> from concrete_score.data import as_frame
    >>> to_csv(as_frame(np.array([[0, 1]])))
    'x0,x1\\n0,1\\n'
    """
    page = io.BytesIO()
    _lines(frame, page, header=header)
    return page.getvalue().decode()


def writer_for(path: Path, form: Form) -> tuple[Writer, bool]:
    """The writer of a path's ending, or of the form without one, and whether to compress."""
    packed = path.suffix.lower() == ".gz"
    ending = Path(path.stem).suffix.lower() if packed else path.suffix.lower()
    ending = ending or f".{form.kind}"
    if ending in WRITERS and not (packed and ending == ".npz"):
        return WRITERS[ending], packed
    if not path.suffix:
        return WRITERS[".csv"], False
    raise InputError(
        f"an output ending in {', '.join(WRITERS)}", repr(path.name), where=str(path), fix="choose one of these"
    )


def _lines(frame: Frame, file: Any, separator: str = ",", *, header: bool) -> None:
    frame.to_polars().write_csv(file, separator=separator, include_header=header)


def _csv(parts: Iterator[Frame], file: Any, separator: str = ",") -> None:
    for number, frame in enumerate(parts):
        _lines(frame, file, separator, header=number == 0)


def _tsv(parts: Iterator[Frame], file: Any) -> None:
    _csv(parts, file, "\t")


def _data(parts: Iterator[Frame], file: Any) -> None:
    for frame in parts:
        _lines(frame, file, header=False)


def _parquet(parts: Iterator[Frame], file: Any) -> None:
    join(parts).to_polars().write_parquet(file)


def _npy(parts: Iterator[Frame], file: Any) -> None:
    np.save(file, _plain(join(parts)), allow_pickle=False)


def _npz(parts: Iterator[Frame], file: Any) -> None:
    np.savez_compressed(file, x=_plain(join(parts)))


def _plain(frame: Frame) -> Array:
    return to_array(Frame(frame.columns, Form("npy", frame.form.dtype), frame.where, frame.named))


WRITERS: dict[str, Writer] = {
    ".csv": _csv,
    ".tsv": _tsv,
    ".data": _data,
    ".parquet": _parquet,
    ".npy": _npy,
    ".npz": _npz,
}
