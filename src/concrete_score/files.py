"""Files that are whole or absent: atomic writes, canonical JSON, digests."""

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from concrete_score.errors import InputError


@contextmanager
def atomic(path: str | Path, *, force: bool = True) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place, synced to disk, if the block ends well.

    Raises:
        InputError: ``path`` exists and ``force`` is false.
    """
    path = Path(path)
    refuse_existing(path, force)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The real suffix stays last: picture and table writers choose their format by it.
    draft = path.with_name(f".{path.stem}.{os.getpid()}.draft{path.suffix}")
    try:
        yield draft
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(draft, path)
        _sync_folder(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def refuse_existing(path: Path, force: bool) -> None:
    """Say no before any work is done, rather than after."""
    if path.exists() and not force:
        raise InputError("a new output path", "one that exists", where=str(path), fix="choose another or add --force")


def refuse_unwritable(path: Path) -> None:
    """Likewise where nobody may write."""
    standing = path if path.is_dir() else next(parent for parent in path.absolute().parents if parent.exists())
    if not standing.is_dir():
        raise InputError("a folder to write into", "a file", where=str(standing), fix="choose another --out")
    if not os.access(standing, os.W_OK | os.X_OK):
        came = "one that does not let you"
        raise InputError("a folder to write into", came, where=str(standing), fix="choose another --out")


def write_text(path: str | Path, text: str, *, force: bool = True) -> None:
    """Write UTF-8 text atomically."""
    with atomic(path, force=force) as draft:
        draft.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any, *, force: bool = True) -> None:
    """Write readable JSON atomically; NaN and infinities become null."""
    write_text(path, json.dumps(finite(value), indent=1, ensure_ascii=False) + "\n", force=force)


def finite(value: Any) -> Any:
    """The same value with every non-finite number replaced by None, for JSON has no word for it.

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
