"""Downloads that can be taken up again: whole, checked and in place, or not there at all."""

import gzip
import os
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote

from concrete_score.data.named import Entry, check_digest
from concrete_score.errors import InputError
from concrete_score.files import atomic

BASE_URL = "https://raw.githubusercontent.com"
URL = "CONCRETE_SCORE_URL"
"""The environment variable that names another place with the same layout."""
TIMEOUT = 30.0
TRIES = 4
_BLOCK = 2**16
Say = Callable[[str], None]


class _Refused(Exception):
    """The server's answer is final; another try would get the same."""


def source_url(entry: Entry, base_url: str | None = None) -> str:
    """Where the original of an entry lies.

    >>> from concrete_score.data.named import entry_of
    >>> source_url(entry_of("splice", "test"), "https://example.org/")
    'https://example.org/renatopp/arff-datasets/c59f172882592bb58982cc54d2d3c8a2b57e9b73/classification/splice.arff'
    """
    base = base_url or os.environ.get(URL) or BASE_URL
    path = quote(f"{entry.repository}/{entry.commit}/{entry.source_path}")
    return f"{base.rstrip('/')}/{path}"


def fetch(
    entry: Entry,
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
    part = path.with_name(f"{path.name}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    say(f"downloading {url}")
    try:
        _complete(url, part, entry, timeout, say)
    except (_Refused, OSError, HTTPException) as error:
        if isinstance(error, OSError) and not isinstance(error, urllib.error.URLError | TimeoutError | ConnectionError):
            raise
        raise InputError(
            f"to download {entry.name}:{entry.split}",
            _reason(error),
            where=url,
            fix=f"try again later, or put the file (gzip, content SHA-256 {entry.raw_sha256[:12]}…) at {path}",
        ) from None
    try:
        check_digest(_original(part.read_bytes(), entry), entry, url, f"put the right file at {path}")
        with atomic(path) as draft:
            draft.write_bytes(_packed(part.read_bytes(), entry))
    finally:
        part.unlink(missing_ok=True)
    return path


def _complete(url: str, part: Path, entry: Entry, timeout: float, say: Say) -> None:
    """Fill the part, continuing where the line broke while each try brings something."""
    error: Exception | None = None
    for attempt in range(TRIES):
        before = part.stat().st_size if part.exists() else 0
        try:
            if _append(url, part, entry, timeout):
                return
            error = _Refused("the line ended early")
        except (TimeoutError, ConnectionError, HTTPException, urllib.error.URLError) as broken:
            error = broken
        after = part.stat().st_size if part.exists() else 0
        if after == before and attempt:
            break
        say(f"the line broke after {after} bytes; continuing")
    raise error or _Refused("nothing came")


def _append(url: str, part: Path, entry: Entry, timeout: float) -> bool:
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
                # Nothing lies beyond the part: it is whole, or wrong, and the digest tells.
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


def _original(data: bytes, entry: Entry) -> bytes:
    if not entry.source_is_gzip:
        return data
    # Never unpack more than is on record, whatever the file claims.
    machine = zlib.decompressobj(wbits=31)
    try:
        return machine.decompress(data, entry.raw_bytes + 1)
    except zlib.error:
        return b""


def _packed(data: bytes, entry: Entry) -> bytes:
    return data if entry.source_is_gzip else gzip.compress(data, mtime=0)


def _reason(error: Exception) -> str:
    inner = getattr(error, "reason", None) or error
    return " ".join(str(inner).split())[:120] or type(inner).__name__
