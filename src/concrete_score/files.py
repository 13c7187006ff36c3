"""Files that are whole or absent: atomic writes, gzip, canonical JSON, digests; and how much memory one may take."""

import errno
import gzip
import hashlib
import io
import json
import math
import os
import re
import shutil
import stat
import tempfile
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from concrete_score.errors import InputError, Option, Text

LOCK = ".lock"
"""The file of a folder whose lock its writer holds."""
DAMAGED = "check that the copy is whole and its ending is right"
"""What to do about a file that is not what its name says."""
MEMORY = "CONCRETE_SCORE_MEMORY"
"""The environment variable that says how many GiB the content of one file may take, 2 by default."""
_GIB = 2**30
_PART = 2**20
_LONGEST = 150
"""Bytes of a file's own name in that of its draft."""
_DRAFT = re.compile(r"\.(.+)\.[0-9]+\.[0-9a-f]+\.draft(?:\.[a-z]+)?")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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
    stem = path.stem.encode(errors="surrogateescape")[:_LONGEST].decode(errors="ignore")
    draft = path.with_name(f".{stem}.{os.getpid()}.{threading.get_ident():x}.draft{path.suffix}")
    try:
        yield draft
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        if path.exists():
            shutil.copymode(path, draft)
        os.replace(draft, path)
        _sync_folder(path.parent)
    except OSError as error:
        if error.errno in _FULL and error.filename in (None, str(draft)):
            raise _no_space(error, path, draft) from None
        raise
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A temporary folder beside ``path`` that takes its place, its files synced to disk, if the block ends well.

    Drafts that killed writers of the same folder left are removed: hold a lock on its parent.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for leftover in path.parent.glob(f".{path.name}.*.draft"):
        shutil.rmtree(leftover, ignore_errors=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident():x}.draft")
    try:
        draft.mkdir()
        yield draft
        for written in draft.iterdir():
            with written.open("rb") as file:
                os.fsync(file.fileno())
        os.replace(draft, path)
        _sync_folder(path.parent)
    except OSError as error:
        if error.errno in _FULL:
            raise _no_space(error, path, draft) from None
        raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def is_draft(path: Path, stems: Sequence[str]) -> bool:
    """Whether a path has the name that `atomic` gives to what it writes in the place of a file with one of these stems.

    >>> is_draft(Path(".model.71.7f00.draft.safetensors"), ["model"]), is_draft(Path(".model.draft.txt"), ["model"])
    (True, False)
    """
    found = _DRAFT.fullmatch(path.name)
    return found is not None and found[1] in stems


def _no_space(error: OSError, path: Path, draft: Path) -> OSError:
    """A full disk, with the path and how much of the file had been written; as it came, but for its text."""
    parts = draft.iterdir() if draft.is_dir() else [draft]
    written = sum(part.stat().st_size for part in parts if part.exists())
    try:
        free = f"{shutil.disk_usage(path.parent).free:,} bytes are free there"
    except OSError:
        free = "how much is free there is not known"
    what = error.strerror or "no space left"
    text = f"{what} after {written:,} bytes; {free}, so make room or choose another place"
    return OSError(error.errno, text, str(path))


@contextmanager
def _into_stream(path: Path) -> Iterator[Path]:
    """A temporary path whose content goes into a pipe or a device, which is written to and never replaced."""
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / f"draft{path.suffix}"
        yield draft
        with named(path), path.open("wb") as stream, draft.open("rb") as written:
            shutil.copyfileobj(written, stream)


@contextmanager
def named(path: Path) -> Iterator[None]:
    """What the system says about a file that is open, with its path; of a full disk also how much is free."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        if error.errno in _FULL:
            raise _no_space(error, path, path) from None
        raise OSError(error.errno, error.strerror, str(path)) from None


@contextmanager
def locked(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Within it, no other process writes into a folder; the lock of a process that died is free.

    Raises:
        InputError: another process holds the lock, and it is not to be waited for.
    """
    try:
        import fcntl
    except ImportError:  # no advisory locks on this system
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    # A link or a pipe in the lock's place is neither followed nor waited for.
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(folder / LOCK, flags, 0o666), "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            fix = ["wait until it has ended", ("choose another ", Option("out"))]
            came = "one that another process is writing"
            raise InputError("a folder of its own", came, str(folder), fix) from None
        yield


def refuse_existing(path: Path, force: bool) -> None:
    """Refuse an output path that exists, before the work that would fill it; pipes and devices may be written to."""
    _refuse_impossible(path)
    if path.exists() and not force and (path.is_file() or path.is_dir()):
        raise InputError("a new output path", "one that exists", str(path), ["choose another", Option("force", True)])


def refuse_unwritable(path: Path) -> None:
    """Refuse an output path in a folder without write permission, below a file, or with a name no file can have."""
    fix = ("choose another ", Option("out"))
    _refuse_impossible(path)
    standing = path if path.is_dir() else next(parent for parent in path.absolute().parents if parent.exists())
    if not standing.is_dir():
        raise InputError("a folder to write into", "a file", str(standing), fix)
    if not os.access(standing, os.W_OK | os.X_OK):
        raise InputError("a folder to write into", "one without write permission", str(standing), fix)


def _refuse_impossible(path: Path) -> None:
    """Refuse a name that no file can have here: too long, or with a zero in it."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    except (OSError, ValueError) as error:
        name = str(path)
        came = f"one that cannot be ({short(getattr(error, 'strerror', None) or error)})"
        shown = f"{name[:80]}… ({len(name):,} characters)" if len(name) > 200 else name
        raise InputError("the name of a file", came, shown, ("choose another ", Option("out"))) from None


def read_bytes(path: Path) -> bytes:
    """A file's content; that of a ``.gz`` file uncompressed.

    Raises:
        InputError: the compressed file is damaged or cut short, or there is more than memory is meant for.
    """
    with named(path), path.open("rb") as file:
        packed: IO[bytes] = file
        if path.is_file():
            refuse_large(os.fstat(file.fileno()).st_size, str(path))
        else:  # a pipe or a device, which may have no end
            packed = io.BytesIO(read_bounded(file, str(path)))
        if path.suffix.lower() != ".gz":
            return packed.read()
        try:
            with gzip.open(packed) as unpacked:
                return read_bounded(unpacked, str(path), " unpacked")
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InputError("a whole gzip file", short(error), where=str(path), fix="copy the file again") from None


def read_bounded(file: io.BufferedIOBase | IO[bytes], where: str, how: str = "") -> bytes:
    """What can be read from a file that does not say how much that is.

    Raises:
        InputError: it is too much.
    """
    content, most = io.BytesIO(), memory_limit() // 4  # reading a text takes about four times its size
    while part := file.read(_PART):
        content.write(part)
        if content.tell() > most:
            raise _too_large(f"more than {most / _GIB:.3g} GiB{how}, and its cells", 8 * most, where)
    return content.getvalue()


def read_regular(path: Path) -> bytes:
    """The content of an ordinary file; a pipe or a device in its place is never waited for.

    Raises:
        InputError: something else lies there.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InputError("an ordinary file", "something else", str(path), "remove it")
    with os.fdopen(handle, "rb") as file:
        return file.read()


def memory_limit() -> int:
    """Bytes that the content of one file may take.

    Raises:
        InputError: the environment variable says no number of GiB.
    """
    text = os.environ.get(MEMORY, "").strip() or "2"
    try:
        limit = float(text)
    except ValueError:
        limit = math.nan
    if not 0 < limit < 2**20:
        raise InputError("a number of GiB", repr(text[:60]), MEMORY, f"for example {MEMORY}=8")
    return int(limit * _GIB)


def refuse_large(size: int, where: Text, what: str = "content") -> None:
    """Refuse what would take more memory than the content of one file may, before any of it is made.

    Raises:
        InputError: it is larger; says by how much, and how to raise the limit.
    """
    if size > memory_limit():
        raise _too_large(f"about {size // _GIB + 1:,} GiB", size, where, what)


def _too_large(came: str, size: int, where: Text, what: str = "content") -> InputError:
    fix = f"set the environment variable {MEMORY}={size // _GIB + 1} (GiB) if that is meant"
    return InputError(f"{what} that takes at most {memory_limit() / _GIB:.3g} GiB of memory", came, where, fix)


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


LISTED = 80
"""Characters of a list that are shown where settings are shown."""


def flat(value: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as pairs of ``part.name`` and value; what is empty or unset is left out, long lists are cut, and
    lists of lists counted.

    >>> flat({"a": {"b": 1, "c": None}, "d": 0.001, "e": [{"f": 2}], "g": [[0], []]})
    [('a.b', '1'), ('d', '0.001'), ('e.0.f', '2'), ('g', '2 lists')]
    """
    lines: list[tuple[str, str]] = []
    for key, each in value.items():
        if isinstance(each, list) and each and all(isinstance(part, Mapping) for part in each):
            lines += flat({str(place): part for place, part in enumerate(each)}, f"{prefix}{key}.")
        elif isinstance(each, Mapping):
            lines += flat(each, f"{prefix}{key}.")
        elif isinstance(each, list) and any(isinstance(part, list) for part in each):
            lines.append((f"{prefix}{key}", f"{len(each)} lists"))
        elif each is not None:
            text = f"{each:.6g}" if isinstance(each, float) else str(each)
            cut = isinstance(each, list) and len(text) > LISTED
            lines.append((f"{prefix}{key}", f"{text[:LISTED]}… ({len(each)} in all)" if cut else text))
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
