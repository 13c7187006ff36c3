"""Files by their endings: which reader opens which."""

import gzip
import stat
import sys
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from concrete_score.data.binary import read_npy, read_npz, read_parquet
from concrete_score.data.frame import Frame
from concrete_score.data.text import Layout, read_text
from concrete_score.errors import InputError

Reader = Callable[[Path | bytes, str], Frame]

CSV = Layout("csv", ",")
TSV = Layout("tsv", "\t")
DATA = Layout("data", ",", header=False)

READERS: dict[str, Reader] = {
    ".csv": partial(read_text, layout=CSV),
    ".tsv": partial(read_text, layout=TSV),
    ".data": partial(read_text, layout=DATA),
    ".parquet": read_parquet,
    ".npy": read_npy,
    ".npz": read_npz,
}
"""Each but the archive may also be compressed: ``.csv.gz``, ``.data.gz`` and so on."""

STDIN = "-"


def read_file(path: str | Path) -> Frame:
    """The table in a file, by its ending; ``-`` is CSV on standard input.

    Raises:
        InputError: no such file, an unknown ending, or a file that is not what it is called; the line is named.

    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile(suffix=".csv") as file:
    ...     _ = file.write(b"smoke,age\\nyes,40\\n"), file.flush()
    ...     read_file(file.name).rows()
    [('yes', '40')]
    """
    if str(path) == STDIN:
        return _from_bytes(sys.stdin.buffer.read(), "standard input", READERS[".csv"])
    path, where = Path(path), str(path)
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError("a file", reason.lower(), where=where, fix="check the path") from None
    if stat.S_ISDIR(mode):
        raise InputError("a file", "a folder", where=where, fix="name a file inside it")
    reader, packed = reader_for(path, plain=not stat.S_ISREG(mode))
    if packed:
        return _from_bytes(_unpacked(path), where, reader)
    if not stat.S_ISREG(mode):
        return _from_bytes(path.read_bytes(), where, reader)
    return reader(path, where)


def reader_for(path: Path, *, plain: bool = False) -> tuple[Reader, bool]:
    """The reader of an ending, and whether the file is compressed; a ``plain`` stream without one is CSV."""
    packed = path.suffix.lower() == ".gz"
    ending = Path(path.stem).suffix.lower() if packed else path.suffix.lower()
    if ending in READERS and not (packed and ending == ".npz"):
        return READERS[ending], packed
    if plain and not ending:
        return READERS[".csv"], packed
    raise InputError(
        f"a file ending in {', '.join(READERS)} or one of these with .gz",
        repr(path.name),
        where=str(path),
        fix="rename it by what it holds",
    )


def _from_bytes(data: bytes, where: str, reader: Reader) -> Frame:
    if not data:
        raise InputError("a table", "an empty file", where=where, fix="give one with a header and rows")
    return reader(data, where)


def _unpacked(path: Path) -> bytes:
    try:
        with gzip.open(path) as file:
            return file.read()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(
            "a whole gzip file", " ".join(str(error).split())[:120], where=str(path), fix="copy the file again"
        ) from None
