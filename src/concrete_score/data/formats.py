"""File formats, one value each: which endings it has, how it is read, as a whole or in parts, and how it is written.

A format that reads gives a data object (a `Frame`, `Images`, or another with the attributes ``kind`` and ``where``);
its ``kind`` names the codec that takes it. A format that writes is given the parts of one data object. New ones are
registered under ``formats``.
"""

import gzip
import io
import os
import stat
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from concrete_score import registry
from concrete_score.data.frame import Array, Form, frame_of_array
from concrete_score.data.images import MASK, Images, grid_png, read_idx
from concrete_score.data.parquet import read_parquet, stored_groups, stream_parquet
from concrete_score.data.pieces import estimated_memory as text_size
from concrete_score.data.sequences import read_a2m, read_fasta, read_text, write_fasta, write_text
from concrete_score.data.spool import write_parquet
from concrete_score.data.text import TextTable, read_arff
from concrete_score.errors import InputError, Option
from concrete_score.files import DAMAGED, atomic, read_bounded, read_bytes, refuse_existing, refuse_large, short

STDIN = "-"
READING = ("encoding", "header", "separator")
"""Options that say how a file is to be read; what is not given is noticed."""
_SAVED = {
    **dict.fromkeys((".xlsx", ".xls", ".ods", ".json", ".sav", ".dta", ".rds"), "save its table as CSV"),
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".gif", ".tif", ".tiff"), "save images as one array (N, H, W) in .npy"),
}
"""What to do with files of endings that are not read, where another name alone does not help."""
Say = Callable[[Any], None]
"""Receives messages: text, or parts of it with options that each skin spells."""


@dataclass(frozen=True)
class Format:
    """A file format.

    Args:
        name: as in ``csm list formats``.
        suffixes: the endings of its files; each may be followed by ``.gz`` if ``packed``.
        read: from a file's content and its name in messages to a data object; None if it is only written.
        write: from the parts of a data object to an open file; None if it is only read.
        holds: the kinds of data that it can write.
        packed: whether it may be compressed.
        options: which of the `READING` options its ``read`` takes by name.
        stream: from a path and its name in messages to the parts of a table, each with the bytes read so far; all of
            them are what ``read`` gives. None if it is only read as a whole.
        memory: from a path to about how many bytes its table takes in memory; its size where None.
    """

    name: str
    suffixes: tuple[str, ...]
    read: Callable[..., Any] | None = None
    write: Callable[[Iterator[Any], Any], None] | None = None
    holds: tuple[str, ...] = ("table",)
    packed: bool = True
    options: tuple[str, ...] = ()
    stream: Callable[..., Iterator[tuple[Any, int]]] | None = None
    memory: Callable[[Path], int] | None = None


def formats() -> dict[str, Format]:
    """Every registered format by its name."""
    return {name: registry.load("formats", name) for name in registry.names("formats")}


def read_file(path: str | Path, options: Mapping[str, Any] | None = None, say: Say = lambda message: None) -> Any:
    """The data in a file, by its ending; ``-`` is CSV on standard input.

    Args:
        path: the file.
        options: how to read it, by the names in `READING`; None means not given.
        say: receives what was noticed about the file, note by note.

    Raises:
        InputError: no such file, an unknown ending, or a file that is not what it is called; the line is named.

    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile(suffix=".csv") as file:
    ...     _ = file.write(b"smoke,age\\nyes,40\\n"), file.flush()
    ...     read_file(file.name).rows()
    [('yes', '40')]
    """
    if str(path) == STDIN:
        return read(csv, read_bounded(sys.stdin.buffer, "standard input"), "standard input", options=options, say=say)
    path, where = Path(path), str(path)
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        raise InputError("an existing file", "none", where=where, fix="check the path") from None
    if stat.S_ISDIR(mode):
        raise InputError("a file", "a folder", where=where, fix="name a file inside it")
    chosen = format_of(path, plain=not stat.S_ISREG(mode))
    check_options(chosen, options, where)
    return read(chosen, read_bytes(path), where, beside=path, options=options, say=say)


def read(
    chosen: Format,
    content: bytes,
    where: str,
    beside: Path | None = None,
    options: Mapping[str, Any] | None = None,
    say: Say = lambda message: None,
) -> Any:
    """The data object of a file's content; labels of images may lie in a file ``beside`` it."""
    if chosen.read is None:
        raise InputError("a format that can be read", chosen.name, where=where)
    if not content:
        raise InputError("data", "an empty file", where=where, fix="give a file with a header and rows")
    found = chosen.read(content, where, **check_options(chosen, options, where))
    for note in getattr(found, "notes", ()):
        say((f"note: {where}: ", *note))
    labelled = getattr(found, "with_labels_beside", None)
    return found if labelled is None or beside is None else labelled(beside)


def check_options(chosen: Format, options: Mapping[str, Any] | None, where: str) -> dict[str, Any]:
    """The options that were given.

    Raises:
        InputError: one that files of this format have no use for.
    """
    given = {name: value for name, value in (options or {}).items() if value is not None}
    for name in given:
        if name not in chosen.options:
            raise InputError(
                "an option of text tables alone", f"a {chosen.name} file", (where, Option(name)), "leave it out"
            )
    return given


def write_file(parts: Iterable[Any], path: str | Path, *, force: bool = False) -> int:
    """Write data that come in parts, at least one, whole or not at all; text never holds more than one part.

    Returns:
        How many rows there were.

    >>> import polars as pl
    >>> from tempfile import TemporaryDirectory
    >>> import polars as pl
    >>> from concrete_score.data.frame import as_frame
    >>> with TemporaryDirectory() as folder:
    ...     write_file([as_frame(pl.DataFrame({"a": ["no", None], "b": [1, 2]}))], f"{folder}/out.csv")
    ...     Path(f"{folder}/out.csv").read_text()
    2
    'a,b\\nno,1\\n,2\\n'
    """
    path, rest = Path(path), iter(parts)
    first = next(rest)
    chosen, packed = writer_of(path, first.kind, getattr(first, "form", Form("csv")).kind)
    refuse_existing(path, force)
    rows = 0

    def counted() -> Iterator[Any]:
        nonlocal rows
        for part in chain([first], rest):
            rows += len(part)
            yield part if first.kind in chosen.holds else part.frame()

    with atomic(path, force=force) as draft, draft.open("wb") as file:
        if packed:
            # No time stamp: equal tables are equal files.
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as inner:
                chosen.write(counted(), inner)  # type: ignore[misc]
        else:
            chosen.write(counted(), file)  # type: ignore[misc]
    return rows


def writer_of(path: Path, kind: str, form: str = "csv") -> tuple[Format, bool]:
    """The format that writes a kind of data to a path, and whether to compress; every kind can be written as a table.

    Raises:
        InputError: an ending that no format of this kind has.
    """
    ending, packed = _ending(path)
    known = [each for each in formats().values() if each.write is not None and {kind, "table"} & set(each.holds)]
    known.sort(key=lambda each: kind not in each.holds)  # an array of images before a table of pixels
    if not path.suffix:
        return next((each for each in known if each.name == form), csv), False
    for each in known:
        if ending in each.suffixes and (each.packed or not packed):
            return each, packed
    endings = list(dict.fromkeys(suffix for each in known for suffix in each.suffixes))
    raise InputError(f"an output ending in {', '.join(endings)}", repr(path.name), str(path), "choose one of these")


def format_of(path: Path, *, plain: bool) -> Format:
    """The format of a path's ending; a ``plain`` stream without one is CSV."""
    ending, packed = _ending(path)
    known = [each for each in formats().values() if each.read is not None]
    for each in known:
        if any(ending.endswith(suffix) for suffix in each.suffixes) and (each.packed or not packed):
            return each
    if plain and not ending:
        return csv
    endings = ", ".join(suffix for each in known for suffix in each.suffixes)
    expected, fix = (
        f"a file ending in {endings} or one of these with .gz",
        _SAVED.get(ending, "rename it by what it holds"),
    )
    raise InputError(expected, repr(path.name), str(path), fix)


def _ending(path: Path) -> tuple[str, bool]:
    """A path's ending before ``.gz``, and whether that is there; names of IDX files end in ``-ubyte``."""
    packed = path.suffix.lower() == ".gz"
    name = path.stem if packed else path.name
    return Path(name).suffix.lower() or ("ubyte" if name.endswith("ubyte") else ""), packed


@contextmanager
def _numpy_file(data: bytes, where: str) -> Iterator[Any]:
    """The array of an ``.npy`` file, or the open archive of an ``.npz`` file; nothing is ever unpickled.

    Raises:
        InputError: damaged, or Python objects; also if an array of the archive turns out to be so.
    """
    try:
        # Old headers make numpy warn; the array is checked anyway.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _check_numpy_sizes(data, where)
            loaded: Any = np.load(io.BytesIO(data), allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                yield loaded
                return
            with loaded:
                yield loaded
    except InputError:
        raise
    # Damaged headers and archives fail in a dozen ways, all meaning the same.
    except Exception as error:
        came, fix = f"a damaged one ({short(error)})", DAMAGED
        if not data.startswith((b"\x93NUMPY", b"PK")):
            came = "other bytes"
        elif "pickle" in str(error):
            came, fix = "Python objects, which are never loaded", "save an array of numbers or text"
        raise InputError("a NumPy file of plain numbers or text", came, where=where, fix=fix) from None


def _check_numpy_sizes(data: bytes, where: str) -> None:
    """Refuse arrays that take too much memory, by the sizes their headers state, or that state more than there is.

    Raises:
        InputError: too large.
        Exception: damaged.
    """
    if not data.startswith(b"PK"):
        refuse_large(_stated_size(io.BytesIO(data), len(data)), where)
        return
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        refuse_large(sum(member.file_size for member in members), where)
        for member in members:
            with archive.open(member) as file:
                refuse_large(_stated_size(file, member.file_size), where)


def _stated_size(file: Any, length: int) -> int:
    """The bytes that an array and its cells take, by its header; there must be as many in ``length``."""
    version = np.lib.format.read_magic(file)
    read_header: Any = np.lib.format.read_array_header_1_0 if version[0] == 1 else np.lib.format.read_array_header_2_0
    shape, _, kind = read_header(file)
    cells = prod(shape)
    if not kind.hasobject and file.tell() + cells * kind.itemsize != length:
        raise ValueError(f"{length} bytes do not hold shape {shape} of {kind}")
    return int(cells * max(kind.itemsize, 64 if kind.kind == "U" else 8))


def _read_npy(data: bytes, where: str) -> Any:
    with _numpy_file(data, where) as array:
        return Images(array, where) if array.ndim > 2 else frame_of_array(array, where, "npy")


def _read_npz(data: bytes, where: str) -> Any:
    """The array ``x`` of an archive, or its only one; beside images, labels ``y`` and a ``mask`` of blanks."""
    with _numpy_file(data, where) as archive:
        arrays = archive.files if hasattr(archive, "files") else []
        names = [name for name in arrays if name not in ("y", MASK)] or arrays
        if "x" not in names and len(names) != 1:
            raise InputError("an array named x, or one array alone", ", ".join(arrays) or "none", where=where)
        array = np.asarray(archive["x" if "x" in names else names[0]])
        if array.ndim <= 2:
            return frame_of_array(array, where, "npz")
        labels, blank = (archive[name] if name in arrays else None for name in ("y", MASK))
        return Images(array, where, labels, blank=blank)


def _arrays(parts: Iterator[Any]) -> dict[str, Array]:
    first, *rest = parts
    found: dict[str, Array] = type(first).join([first, *rest]).arrays()
    return found


def _write_npy(parts: Iterator[Any], file: Any) -> None:
    np.save(file, _arrays(parts)["x"], allow_pickle=False)


def _write_npz(parts: Iterator[Any], file: Any) -> None:
    np.savez_compressed(file, **_arrays(parts))  # type: ignore[arg-type]


def _parquet_size(path: Path) -> int:
    packed = path.suffix.lower() == ".gz"  # which is read as a whole, and checked then
    return 0 if packed else sum(group.size for group in stored_groups(path, str(path)))


def _write_png(parts: Iterator[Images], file: Any) -> None:
    whole = Images.join(parts)
    pixels = whole.pixels
    if whole.columns is not None:
        # Copies stand below one another; in the grid those of one image share a row.
        pixels = pixels.reshape(whole.columns, -1, *whole.shape).swapaxes(0, 1).reshape(pixels.shape)
    file.write(grid_png(pixels, whole.columns, whole.top))


def _read_idx(data: bytes, where: str) -> Images:
    return Images(read_idx(data, where), where)


CSV, TSV, DATA = TextTable("csv"), TextTable("tsv", "\t"), TextTable("data", header=False)
csv = Format("csv", (".csv",), CSV.read, CSV.write, options=READING, stream=CSV.stream, memory=text_size)
tsv = Format("tsv", (".tsv",), TSV.read, TSV.write, options=READING, stream=TSV.stream, memory=text_size)
data = Format("data", (".data",), DATA.read, DATA.write, options=READING, stream=DATA.stream, memory=text_size)
arff = Format("arff", (".arff",), read_arff, options=READING[:1])
parquet = Format("parquet", (".parquet",), read_parquet, write_parquet, stream=stream_parquet, memory=_parquet_size)
npy = Format("npy", (".npy",), _read_npy, _write_npy, ("table", "image"))
npz = Format("npz", (".npz",), _read_npz, _write_npz, ("table", "image"), packed=False)
idx = Format("idx", ("ubyte", ".idx"), _read_idx)
fasta = Format("fasta", (".fasta", ".fa", ".faa", ".fna", ".afa"), read_fasta, write_fasta, ("sequence",))
a2m = Format("a2m", (".a2m",), read_a2m)
text = Format("text", (".txt",), read_text, write_text, ("sequence",))
png = Format("png", (".png",), None, _write_png, ("image",), packed=False)
