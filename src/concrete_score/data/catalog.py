"""DATA as a user names it: an existing path wins, else a named data set, looked for on this machine or downloaded.

The catalog ships with the package. A file of a set is looked for in the folder given, in ``$CONCRETE_SCORE_DATA`` and
in the user's cache, each laid out as the entries' ``file``; what is found must have the digest on record. A download is
whole, checked and in place, or not there at all; one that broke off is continued.
"""

import gzip
import hashlib
import json
import os
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from http.client import HTTPException
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import polars as pl

from concrete_score.data.formats import STDIN, Say, arff, data, read, read_file
from concrete_score.data.images import Images, read_idx
from concrete_score.errors import Command, InputError, Option, nearest
from concrete_score.files import atomic, read_bytes, short

FOLDER = "CONCRETE_SCORE_DATA"
"""The environment variable that names a folder of data sets."""
CACHE = "CONCRETE_SCORE_CACHE"
"""The environment variable that names another cache than the user's own."""
URL = "CONCRETE_SCORE_URL"
"""The environment variable that names another place with the same layout as `BASE_URL`."""
BASE_URL = "https://raw.githubusercontent.com"
TIMEOUT = 30.0
"""Seconds without an answer before a download counts as broken off."""
TRIES = 4
"""How often a download that breaks off is continued."""
DIGITS = "digits"
"""The 1,797 images of 8×8 pixels that come with scikit-learn."""
SPLITS = ("train", "valid", "test")
HELD_OUT = 10_000
"""How many of the last training images of an IDX set are its ``valid``."""
_WHOLE = "all"
_BLOCK = 2**16
_NAMES = ("", Command("data list"), " shows the names")
_AS_RECORDED = {"encoding": "utf-8", "header": "no", "separator": "comma"}
"""How tables of the catalog are laid out; nothing about them needs noticing."""


class _Refused(Exception):
    """The server's answer is final; another try would get the same."""


@dataclass(frozen=True)
class DataFile:
    """One file of a data set, as the catalog records it."""

    name: str
    split: str
    file: str
    rows: int
    repository: str
    commit: str
    source_path: str
    source_is_gzip: bool
    raw_sha256: str
    raw_bytes: int
    variables: int | None = None
    values: str = ""

    @property
    def is_bits(self) -> bool:
        """Whether every cell is 0 or 1 by declaration, seen or not."""
        return self.values == "0,1"


@cache
def data_sets() -> Mapping[str, Mapping[str, DataFile]]:
    """Every data set's files by split.

    >>> sorted(data_sets()["nltcs"]), data_sets()["nltcs"]["test"].rows
    (['test', 'train', 'valid'], 3236)
    """
    text = files("concrete_score.data").joinpath("manifest.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, DataFile]] = {}
    for entry in json.loads(text):
        found.setdefault(entry["name"], {})[entry["split"]] = DataFile(**entry)
    return found


def load(
    spec: str | Path,
    split: str = "test",
    *,
    data_dir: str | Path | None = None,
    base_url: str | None = None,
    options: Mapping[str, Any] | None = None,
    say: Say = lambda message: None,
) -> Any:
    """The data that DATA means.

    Args:
        spec: a path, ``-`` for CSV on standard input, or ``NAME[:SPLIT]`` of a data set.
        split: which split a bare name means: ``train``, ``valid`` or ``test``. The last 10,000 training images of an
            IDX set are its ``valid``; of ``digits`` every sixth is ``test`` and the one before it ``valid``.
        data_dir: a folder of data sets, looked into first.
        base_url: where to download from instead of the public place.
        options: how to read a file of text: ``encoding``, ``header``, ``separator``; what is not given is noticed.
        say: receives messages of progress, and what was noticed about the file.

    Raises:
        InputError: no such file, name or split, or a file that is not what it is called; file and line are named.

    >>> load("digits:train").pixels.shape
    (1199, 8, 8)
    """
    if is_path(spec):
        return read_file(spec, options, say)
    if isinstance(spec, Path):
        raise InputError("an existing file", "none", where=str(spec), fix="check the path")
    if given := [Option(name) for name, value in (options or {}).items() if value is not None]:
        raise InputError("an option of files of text", f"the name {spec!r}", given[0], "leave it out")
    name, _, chosen = spec.partition(":")
    if name == DIGITS:
        return _digits(chosen or split)
    splits = data_sets().get(name, {})
    if any("idx3" in entry.file for entry in splits.values()) and (chosen or split) in SPLITS:
        return _images(name, chosen or split, lambda entry: _located(entry, data_dir, base_url, say)[1])
    entry = entry_of(spec, split)
    return _read_entry(entry, *_located(entry, data_dir, base_url, say))


def is_path(spec: str | Path) -> bool:
    """Whether DATA is a path, or standard input, rather than a name."""
    try:
        return str(spec) == STDIN or Path(spec).exists()
    except (OSError, ValueError):
        return False


def brings_held_out(spec: Any) -> bool:
    """Whether DATA is a set's bare name that has a part for validation."""
    if not isinstance(spec, str) or is_path(spec):
        return False
    splits = data_sets().get(spec, {})
    return spec == DIGITS or "valid" in splits or any("idx3" in entry.file for entry in splits.values())


def entry_of(spec: str, split: str) -> DataFile:
    """The file that ``NAME`` or ``NAME:SPLIT`` means; a bare name means ``split``, or the whole of an undivided set.

    Raises:
        InputError: no such data set or split.

    >>> entry_of("nltcs:valid", "test").file, entry_of("splice", "test").split
    ('twenty/nltcs/nltcs.valid.data.gz', 'all')
    """
    name, colon, chosen = spec.partition(":")
    sets = data_sets()
    if name not in sets:
        expected = "an existing file, or NAME[:SPLIT] of a data set"
        if any(mark in name for mark in "./\\"):
            raise InputError(expected, repr(spec), Option("data"), ("check the path; ", *_NAMES))
        guess = nearest(name, [DIGITS, *sets]).partition("Known:")[0]
        raise InputError(expected, repr(spec), Option("data"), (guess, *_NAMES))
    splits = sets[name]
    wanted = chosen if colon else (_WHOLE if _WHOLE in splits else split)
    if wanted not in splits:
        raise InputError(f"a split of {name}", repr(wanted), Option("data"), nearest(wanted, list(splits)))
    return splits[wanted]


def cache_folder() -> Path:
    """Where downloads are kept."""
    if chosen := os.environ.get(CACHE):
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("concrete-score") / "data"


def present(entry: DataFile, data_dir: str | Path | None = None) -> Path | None:
    """The file of an entry where it lies on this machine, unchecked, or None."""
    shared = os.environ.get(FOLDER)
    folders = [*(Path(each) for each in (data_dir, shared) if each), cache_folder()]
    return next((path for folder in folders if (path := folder / entry.file).is_file()), None)


def locate(
    entry: DataFile,
    data_dir: str | Path | None = None,
    *,
    base_url: str | None = None,
    say: Say = lambda message: None,
) -> Path:
    """The checked file of an entry; downloaded into the cache if it is nowhere here.

    Raises:
        InputError: its digest is not the one on record, or it cannot be downloaded; says which file to put where.
    """
    return _located(entry, data_dir, base_url, say)[0]


def _located(entry: DataFile, data_dir: Any, base_url: str | None, say: Say) -> tuple[Path, bytes]:
    """The file of an entry, with its unpacked content."""
    path = present(entry, data_dir)
    if path is None:
        path = fetch(entry, cache_folder() / entry.file, base_url=base_url, say=say)
    content = read_bytes(path)
    _check_digest(content, entry, str(path), "remove it, and it is downloaded again")
    return path, content


def _read_entry(entry: DataFile, path: Path, content: bytes) -> Any:
    """A data set's file as a table; values its catalog declares are categories, seen or not."""
    where = f"{entry.name}:{entry.split}"
    if entry.file.endswith(".arff.gz"):
        frame = read(arff, content, where)
        return replace(frame, table=frame.table.drop([n for n in frame.names if n == "Instance_name"]))
    if not entry.file.endswith(".data.gz"):
        came = f"{where}, a file of another kind"
        raise InputError("a data set of tables", came, where=str(path), fix="choose another split or set")
    frame = read(data, content, where, options=_AS_RECORDED)
    if not entry.is_bits or not all(series.drop_nulls().is_in(["0", "1"]).all() for series in frame.table):
        return frame
    return replace(frame, table=frame.table.cast(pl.Enum(["0", "1"])))


def _images(name: str, split: str, content: Callable[[DataFile], bytes]) -> Images:
    stored = "test" if split == "test" else "train"
    parts = [f"{name}:{each}" for each in (stored, f"{stored}-labels")]
    pixels, labels = (read_idx(content(entry_of(part, split)), part) for part in parts)
    whole = Images(pixels, f"{name}:{split}", labels, top=255)
    held = {"train": slice(None, -HELD_OUT), "valid": slice(-HELD_OUT, None), "test": slice(None)}
    return whole.take(held[split])


def _digits(split: str) -> Images:
    from sklearn.datasets import load_digits

    splits = {"train": (0, 1, 2, 3), "valid": (4,), "test": (5,)}
    if split not in splits:
        raise InputError(f"a split of {DIGITS}", repr(split), Option("data"), nearest(split, list(splits)))
    found: Any = load_digits()
    # The images lie sorted by writer, so every split takes its share of each.
    rows = np.flatnonzero(np.isin(np.arange(len(found.images)) % 6, splits[split]))
    return Images(found.images.astype(np.uint8)[rows], f"{DIGITS}:{split}", found.target[rows], top=16)


def _check_digest(raw: bytes, entry: DataFile, where: str, fix: str) -> None:
    found = hashlib.sha256(raw).hexdigest()
    if found != entry.raw_sha256:
        expected = f"the content on record (SHA-256 {entry.raw_sha256[:12]}…)"
        raise InputError(expected, f"another ({found[:12]}…)", where=where, fix=fix)


def source_url(entry: DataFile, base_url: str | None = None) -> str:
    """Where the original of an entry lies.

    >>> source_url(entry_of("splice", "test"), "https://example.org/")
    'https://example.org/renatopp/arff-datasets/c59f172882592bb58982cc54d2d3c8a2b57e9b73/classification/splice.arff'
    """
    base = base_url or os.environ.get(URL) or BASE_URL
    path = quote(f"{entry.repository}/{entry.commit}/{entry.source_path}")
    return f"{base.rstrip('/')}/{path}"


def fetch(
    entry: DataFile,
    path: Path,
    *,
    base_url: str | None = None,
    timeout: float = TIMEOUT,
    say: Say = lambda message: None,
) -> Path:
    """Download an entry to ``path``, compressed; a part left by an earlier try is continued.

    Raises:
        InputError: the place cannot be reached, or what came is not what is on record; says which file to put where.
    """
    url = source_url(entry, base_url)
    if not url.startswith(("https://", "http://")):
        raise InputError("an address that begins with https:// or http://", repr(url[:60]), Option("url"))
    part = path.with_name(f"{path.name}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    say(f"downloading {url}")
    try:
        _complete(url, part, entry, timeout, say)
    except (_Refused, OSError, HTTPException, ValueError) as error:
        if isinstance(error, OSError) and not isinstance(error, urllib.error.URLError | TimeoutError | ConnectionError):
            raise
        raise InputError(
            f"to download {entry.name}:{entry.split}",
            short(getattr(error, "reason", None) or error),
            where=url,
            fix=f"try again later, or put the file (gzip, content SHA-256 {entry.raw_sha256[:12]}…) at {path}",
        ) from None
    try:
        content = part.read_bytes()
        _check_digest(_original(content, entry), entry, url, f"put the right file at {path}")
        with atomic(path) as draft:
            draft.write_bytes(content if entry.source_is_gzip else gzip.compress(content, mtime=0))
    finally:
        part.unlink(missing_ok=True)
    return path


def _complete(url: str, part: Path, entry: DataFile, timeout: float, say: Say) -> None:
    """Fill the part, continuing where the connection broke while each try brings something."""
    error: Exception | None = None
    for attempt in range(TRIES):
        before = part.stat().st_size if part.exists() else 0
        try:
            if _append(url, part, entry, timeout):
                return
            error = _Refused("the connection ended early")
        except (TimeoutError, ConnectionError, HTTPException, urllib.error.URLError) as broken:
            error = broken
        after = part.stat().st_size if part.exists() else 0
        if after == before and attempt:
            break
        say(f"the connection broke after {after} bytes; continuing")
    raise error or _Refused("nothing came")


def _append(url: str, part: Path, entry: DataFile, timeout: float) -> bool:
    """Read on from where the part ends; whether it is now whole."""
    have = part.stat().st_size if part.exists() else 0
    # Compressed originals have no size on record; a generous bound stops an endless answer.
    limit = entry.raw_bytes + 2**16
    headers = {"User-Agent": "concrete-score", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        answer: Any = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416 and have:
                # Nothing lies beyond the part: it is whole, or wrong, and the digest decides.
                return True
            if error.code < 500:
                raise _Refused(f"HTTP status {error.code}") from None
            raise
    with answer:
        resumed = answer.status == 206
        size = int(answer.headers.get("Content-Length") or -1)
        with part.open("ab" if resumed else "wb") as file:
            start = have if resumed else 0
            got = 0
            while block := answer.read(_BLOCK):
                got += len(block)
                if start + got > limit:
                    file.truncate(0)
                    raise _Refused(f"more than the {entry.raw_bytes} bytes on record")
                file.write(block)
    return got == size if size >= 0 else True


def _original(content: bytes, entry: DataFile) -> bytes:
    if not entry.source_is_gzip:
        return content
    # Never unpack more than is on record, whatever the file claims.
    machine = zlib.decompressobj(wbits=31)
    try:
        return machine.decompress(content, entry.raw_bytes + 1)
    except zlib.error:
        return b""
