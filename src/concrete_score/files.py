"""Files that are whole or absent: atomic writes, gzip, canonical JSON, digests."""

import gzip
import hashlib
import json
import math
import os
import shutil
import tempfile
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from concrete_score.errors import InputError, Option

LOCK = ".lock"
"""The file of a folder whose lock its writer holds."""
DAMAGED = "check that the copy is whole and its ending is right"
"""What to do about a file that is not what its name says."""


@contextmanager
def atomic(path: str | Path, *, force: bool = True) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place, synced to disk, if the block ends well.

    Raises:
        InputError: ``path`` exists and ``force`` is false.
    """
    path = Path(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        with _into_stream(path) as draft:
            yield draft
        return
    refuse_existing(path, force)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The real suffix stays last: image and table writers choose their format by it.
    draft = path.with_name(f".{path.stem}.{os.getpid()}.{threading.get_ident():x}.draft{path.suffix}")
    try:
        yield draft
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        if path.exists():
            shutil.copymode(path, draft)
        os.replace(draft, path)
        _sync_folder(path.parent)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _into_stream(path: Path) -> Iterator[Path]:
    """A temporary path whose content goes into a pipe or a device, which is written to and never replaced."""
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / f"draft{path.suffix}"
        yield draft
        with path.open("wb") as stream, draft.open("rb") as written:
            shutil.copyfileobj(written, stream)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Within it, no other process writes into a folder; the lock of a process that died is free.

    Raises:
        InputError: another process holds the lock.
    """
    try:
        import fcntl
    except ImportError:  # no advisory locks on this system
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fix = ["wait until it has ended", ("choose another ", Option("out"))]
            came = "one that another process is writing"
            raise InputError("a folder of its own", came, str(folder), fix) from None
        yield


def refuse_existing(path: Path, force: bool) -> None:
    """Refuse an output path that exists, before the work that would fill it; pipes and devices may be written to."""
    if path.exists() and not force and (path.is_file() or path.is_dir()):
        raise InputError("a new output path", "one that exists", str(path), ["choose another", Option("force", True)])


def refuse_unwritable(path: Path) -> None:
    """Refuse an output path in a folder without write permission, or below a file."""
    fix = ("choose another ", Option("out"))
    standing = path if path.is_dir() else next(parent for parent in path.absolute().parents if parent.exists())
    if not standing.is_dir():
        raise InputError("a folder to write into", "a file", str(standing), fix)
    if not os.access(standing, os.W_OK | os.X_OK):
        raise InputError("a folder to write into", "one without write permission", str(standing), fix)


def read_bytes(path: Path) -> bytes:
    """A file's content; that of a ``.gz`` file uncompressed.

    Raises:
        InputError: the compressed file is damaged or cut short.
    """
    data = path.read_bytes()
    if path.suffix.lower() != ".gz":
        return data
    try:
        return gzip.decompress(data)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError("a whole gzip file", short(error), where=str(path), fix="copy the file again") from None


def short(error: BaseException | str) -> str:
    """Another library's message on one short line."""
    return (" ".join(str(error).split()) or type(error).__name__)[:120]


def write_text(path: str | Path, text: str, *, force: bool = True) -> None:
    """Write UTF-8 text atomically."""
    with atomic(path, force=force) as draft:
        draft.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any, *, force: bool = True) -> None:
    """Write readable JSON atomically; NaN and infinities become null."""
    write_text(path, json.dumps(finite(value), indent=1, ensure_ascii=False) + "\n", force=force)


def finite(value: Any) -> Any:
    """The same value with every non-finite number replaced by None, for JSON has none.

    >>> finite({"a": [1.0, float("nan")], "b": float("inf")})
    {'a': [1.0, None], 'b': None}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def flat(value: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as pairs of ``part.name`` and value; what is empty or unset is left out.

    >>> flat({"a": {"b": 1, "c": None}, "d": 0.001})
    [('a.b', '1'), ('d', '0.001')]
    """
    lines: list[tuple[str, str]] = []
    for key, each in value.items():
        if isinstance(each, Mapping):
            lines += flat(each, f"{prefix}{key}.")
        elif each is not None:
            lines.append((f"{prefix}{key}", f"{each:.6g}" if isinstance(each, float) else str(each)))
    return lines


def canonical_json(value: Any) -> bytes:
    """One spelling for equal values: sorted keys, no spaces; what digests are taken of.

    >>> canonical_json({"b": 1, "a": 2})
    b'{"a":2,"b":1}'
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def digest(data: bytes | Path) -> str:
    """SHA-256 of bytes or of a file's content, in hex.

    >>> digest(b"")[:8]
    'e3b0c442'
    """
    if isinstance(data, bytes):
        return hashlib.sha256(data).hexdigest()
    with data.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync_folder(folder: Path) -> None:
    # Without this a crash may forget the rename itself.
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
