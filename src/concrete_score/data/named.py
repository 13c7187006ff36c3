"""Data sets known by name: what there is, and where a file of one is to be found.

The registry ships with the package. A file is looked for in the folder given, in ``$CONCRETE_SCORE_DATA`` and in the
user's cache, each laid out as the entries' ``file``; what is found must have the digest on record.
"""

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from concrete_score.errors import InputError, nearest

FOLDER = "CONCRETE_SCORE_DATA"
"""The environment variable that names a folder of data sets."""
CACHE = "CONCRETE_SCORE_CACHE"
"""The environment variable that names another cache than the user's own."""
_WHOLE = "all"


@dataclass(frozen=True)
class Entry:
    """One file of a data set, as the registry records it."""

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
def data_sets() -> Mapping[str, Mapping[str, Entry]]:
    """Every data set's files by split.

    >>> sorted(data_sets()["nltcs"]), data_sets()["nltcs"]["test"].rows
    (['test', 'train', 'valid'], 3236)
    """
    text = files("concrete_score.data").joinpath("manifest.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, Entry]] = {}
    for entry in json.loads(text):
        found.setdefault(entry["name"], {})[entry["split"]] = Entry(**entry)
    return found


def entry_of(spec: str, split: str) -> Entry:
    """The file that ``NAME`` or ``NAME:SPLIT`` means; a bare name means ``split``, or the whole of an undivided set.

    Raises:
        InputError: no such data set or split.

    >>> entry_of("nltcs:valid", "test").file, entry_of("splice", "test").split
    ('twenty/nltcs/nltcs.valid.data.gz', 'all')
    """
    name, colon, chosen = spec.partition(":")
    sets = data_sets()
    if name not in sets:
        raise InputError(
            "an existing file, or NAME[:SPLIT] of a data set", repr(spec), where="DATA", fix=_advice(name, list(sets))
        )
    splits = sets[name]
    wanted = chosen if colon else (_WHOLE if _WHOLE in splits else split)
    if wanted not in splits:
        raise InputError(f"a split of {name}", repr(wanted), where="DATA", fix=nearest(wanted, list(splits)))
    return splits[wanted]


def cache_folder() -> Path:
    """Where downloads are kept."""
    if chosen := os.environ.get(CACHE):
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("concrete-score") / "data"


def folders(data_dir: str | Path | None = None) -> list[Path]:
    """Where files are looked for, first to last."""
    given = [Path(data_dir)] if data_dir else []
    shared = [Path(folder)] if (folder := os.environ.get(FOLDER)) else []
    return [*given, *shared, cache_folder()]


def present(entry: Entry, data_dir: str | Path | None = None) -> Path | None:
    """The file of an entry where it lies on this machine, unchecked, or None."""
    return next((path for folder in folders(data_dir) if (path := folder / entry.file).is_file()), None)


def locate(
    entry: Entry,
    data_dir: str | Path | None = None,
    *,
    base_url: str | None = None,
    say: Callable[[str], None] = lambda message: None,
) -> Path:
    """The checked file of an entry; downloaded into the cache if it is nowhere here.

    Raises:
        InputError: its digest is not the one on record, or it cannot be downloaded; says which file to put where.
    """
    path = present(entry, data_dir)
    if path is None:
        from concrete_score.data.fetch import fetch

        return fetch(entry, cache_folder() / entry.file, base_url=base_url, say=say)
    check_digest(unpack(path), entry, str(path), "remove it, and it is downloaded again")
    return path


def unpack(path: Path) -> bytes:
    """The uncompressed content of a ``.gz`` file.

    Raises:
        InputError: it is not whole.
    """
    try:
        with gzip.open(path) as file:
            return file.read()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError("a whole gzip file", reason, where=str(path), fix="copy or download it again") from None


def check_digest(raw: bytes, entry: Entry, where: str, fix: str) -> None:
    """Refuse bytes that are not those on record."""
    found = hashlib.sha256(raw).hexdigest()
    if found != entry.raw_sha256:
        raise InputError(
            f"the content on record (SHA-256 {entry.raw_sha256[:12]}…)",
            f"another ({found[:12]}…)",
            where=where,
            fix=fix,
        )


def _advice(name: str, known: list[str]) -> str:
    if any(mark in name for mark in "./\\"):
        return "check the path; 'csm data list' shows the names"
    return f"{nearest(name, known).partition('Known:')[0]}'csm data list' shows the names"
