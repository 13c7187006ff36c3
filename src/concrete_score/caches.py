"""Encoded rows on the disk: a table that does not fit into memory is encoded once, and training maps the file.

    NAME.cache/KEY/cache.json      what it is of, what a run keeps of its data, and a digest of every file
                  /rows.states     the training rows, each a line of narrow integers; rows.observed and rows.weights
                                   beside it where cells are blank or rows weigh differently
                  /valid.*         the held-out rows likewise, with the logarithms of their numbers' probabilities

KEY is a digest of the codec, of names, sizes and times of the source files, and of how they are read and divided: a
cache of anything else has another name. It appears whole or not at all, and may be removed at any time: that costs
encoding the rows again.
"""

import atexit
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from concrete_score.codecs import Codec
from concrete_score.codecs.base import NothingLeft
from concrete_score.codecs.cells import storage
from concrete_score.data.frame import Frame
from concrete_score.errors import InputError
from concrete_score.files import LOCK, atomic_folder, canonical_json, digest, locked, short, write_text
from concrete_score.protocols import Encoded
from concrete_score.training.examples import Examples
from concrete_score.training.holding import Division

FORMAT = 1
MANIFEST = "cache.json"
ROWS, VALID = "rows", "valid"
STEP = 2**16
"""Rows moved at a time."""
_PARTS: Mapping[str, Any] = {"states": None, "observed": np.bool_, "weights": np.float64, "log_inside": np.float64}
"""What rows are made of, and the type of each; that of the states is the narrowest that holds them."""
Parts = Callable[[], Iterator[Frame]]


class Cached(NamedTuple):
    """Rows to learn from, held-out rows if the cache has any, and what is known of the data."""

    rows: Examples
    valid: Examples | None
    facts: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Recipe:
    """How a cache is made; ``about`` names all that its content depends on, as plain values.

    Args:
        codec: of the table.
        parts: starts a pass over the table.
        reading: ``missing`` and ``unknown``, as `Codec.encode` takes them.
        about: what the key is a digest of.
        divide: from the number of rows to which are held out; None where none are.
        facts: from all rows, in the order of the table, to what a run keeps to know them again.
        say: receives what was left out.
    """

    codec: Codec
    parts: Parts
    reading: Mapping[str, str]
    about: Any
    divide: Callable[[int], Division] | None
    facts: Callable[[Examples], dict[str, Any]]
    say: Callable[[Any], None] = lambda message: None

    @property
    def key(self) -> str:
        """The name of the cache."""
        about = {"format": FORMAT, "codec": self.codec.to_json(), "reading": dict(self.reading), "about": self.about}
        return digest(canonical_json(about))


def open_or_make(folder: Path, recipe: Recipe) -> Cached:
    """The rows of a recipe from the cache in ``folder``, which is made if it is not there or damaged.

    Of several processes one makes it, and the others wait for that.

    Raises:
        InputError: a cache of other data under this name; or what encoding refuses.
        OSError: no space is left; path and bytes are named, and nothing stays behind.
    """
    path = folder / recipe.key[:32]
    try:
        with locked(folder, wait=True):
            if path.exists():
                try:
                    return _opened(path, recipe.key)
                except _Damaged as damage:
                    recipe.say(f"{path}: {damage}; the rows are encoded again")
                    shutil.rmtree(path)
            with atomic_folder(path) as draft:
                _make(draft, recipe)
            return _opened(path, recipe.key, checked=True)
    except BaseException:
        _remove_empty(folder)
        raise


def temporary_folder() -> Path:
    """A folder that is removed when the program ends."""
    folder = Path(tempfile.mkdtemp(prefix="concrete-score-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def remove(folder: Path) -> None:
    """Remove all caches of a folder, and nothing else in it; the rows that are mapped stay readable."""
    for manifest in folder.glob(f"*/{MANIFEST}"):
        shutil.rmtree(manifest.parent, ignore_errors=True)
    _remove_empty(folder)


def _remove_empty(folder: Path) -> None:
    """Remove a folder that holds nothing but its lock."""
    if folder.is_dir() and all(each.name == LOCK for each in folder.iterdir()):
        shutil.rmtree(folder, ignore_errors=True)


class _Damaged(Exception):
    """A cache that is not as it was written."""


def _opened(path: Path, key: str, checked: bool = False) -> Cached:
    """The rows of a cache, mapped.

    Raises:
        _Damaged: a file is missing, or not as it was written.
        InputError: it is of other data.
    """
    try:
        info = json.loads((path / MANIFEST).read_bytes())
        rest = {name: value for name, value in info.items() if name != "digest"}
        sound = info["digest"] == digest(canonical_json(rest))
        files: dict[str, Any] = info["files"]
        sound = sound and (checked or all(digest(path / name) == file["sha256"] for name, file in files.items()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _Damaged(f"damaged ({short(error)})") from None
    if not sound:
        raise _Damaged("not as it was written")
    if info["key"] != key:
        fix = f"remove {path.parent}, which costs encoding the rows again"
        raise InputError("a cache of this data", "one of other data", str(path), fix)

    def examples(name: str) -> Examples | None:
        parts = {
            part: _mapped(path / f"{name}.{part}", **files[f"{name}.{part}"])
            for part in _PARTS
            if f"{name}.{part}" in files
        }
        return Examples(**parts) if parts else None

    rows = examples(ROWS)
    if rows is None:
        raise _Damaged("without rows")
    return Cached(rows, examples(VALID), dict(info["facts"]))


def _mapped(path: Path, dtype: str, shape: list[int], **_: Any) -> Tensor:
    """A file as a tensor; what is never written to is never copied into memory of our own. No empty file is mapped."""
    found = np.memmap(path, dtype, "c", shape=tuple(shape)) if all(shape) else np.empty(shape, dtype)
    return torch.from_numpy(found)


def _make(draft: Path, recipe: Recipe) -> None:
    """Encode all rows, take the held-out ones out, and write the manifest."""
    writer = _Writer(draft, recipe.codec)
    with writer:
        for frame in recipe.parts():
            try:
                writer.add(recipe.codec.encode(frame, **recipe.reading))
            except NothingLeft as nothing:
                writer.leave_out(nothing.unknown, nothing.blank)
    if not writer.rows:
        raise NothingLeft(writer.skipped, writer.dropped, frame.where, recipe.codec.noun)
    writer.report(recipe)
    arrays = writer.arrays()
    if "weights" in arrays and (arrays["weights"] == arrays["weights"][0]).all():  # then all weigh 1
        arrays.pop("weights")
        (draft / f"{ROWS}.weights").unlink()
    facts = recipe.facts(Examples(**{name: torch.from_numpy(each) for name, each in arrays.items()}))
    if recipe.divide is not None:
        shapes = _divided(draft, arrays, recipe.divide(len(arrays["states"])))
    else:
        shapes = {f"{ROWS}.{name}": each for name, each in arrays.items()}
    files = {
        name: {"dtype": each.dtype.str, "shape": list(each.shape), "sha256": digest(draft / name)}
        for name, each in shapes.items()
    }
    info = {"format": FORMAT, "key": recipe.key, "facts": facts, "files": files}
    write_text(draft / MANIFEST, json.dumps({**info, "digest": digest(canonical_json(info))}))


class _Writer:
    """The files of rows that come in parts."""

    def __init__(self, folder: Path, codec: Codec) -> None:
        self.folder, self.codec = folder, codec
        self.kinds = {**_PARTS, "states": storage(codec.space)}
        self.rows = self.dropped = self.skipped = self.blank_cells = 0
        self._stack, self._open = ExitStack(), dict[str, Any]()
        self._shapes: dict[str, tuple[int, ...]] = {}

    def __enter__(self) -> "_Writer":
        self._stack.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def add(self, found: Encoded) -> None:
        """More rows; a part of theirs that was not needed so far is written for those before it too."""
        count, sites = found.states.shape
        # One flag may stand for all cells; to count it once a cell takes as long as encoding them.
        blank = 0 if found.observed.stride() == (0, 0) else found.observed.numel() - int(found.observed.sum())
        self._write("states", found.states, (sites,), 0)
        if blank or "observed" in self._open:
            self._write("observed", found.observed, (sites,), 1)
        if found.weights is not None:
            self._write("weights", found.weights, (), 1)
        if found.log_inside is not None or "log_inside" in self._open:
            inside = torch.zeros(count, dtype=torch.float64) if found.log_inside is None else found.log_inside
            self._write("log_inside", inside, (), 0)
        self.rows += count
        self.leave_out(found.unknown, found.blank)
        self.blank_cells += blank

    def leave_out(self, unknown: int, blank: int) -> None:
        """Count rows that are not written."""
        self.dropped, self.skipped = self.dropped + blank, self.skipped + unknown

    def report(self, recipe: Recipe) -> None:
        """Say what was left out."""
        for count, what in ((self.dropped, "blank cells dropped"), (self.skipped, "unseen values skipped")):
            if count:
                recipe.say(f"{count:,} {self.codec.noun} with {what}")

    def arrays(self) -> dict[str, Any]:
        """The rows so far, mapped, and written to in place."""
        return {
            name: np.memmap(self.folder / f"{ROWS}.{name}", self.kinds[name], "r+", shape=(self.rows, *shape))
            for name, shape in self._shapes.items()
        }

    def _write(self, name: str, values: Tensor, shape: tuple[int, ...], before: int) -> None:
        kind = self.kinds[name]
        if name not in self._open:
            self._open[name] = self._stack.enter_context((self.folder / f"{ROWS}.{name}").open("wb"))
            self._shapes[name] = shape
            for start in range(0, self.rows, STEP):
                rows = min(STEP, self.rows - start)
                self._open[name].write(np.full((rows, *shape), before, dtype=kind).data)
        self._open[name].write(np.ascontiguousarray(values.numpy(), dtype=kind).data)


def _divided(folder: Path, arrays: dict[str, Any], division: Division) -> dict[str, Any]:
    """Files of held-out rows beside those of the training rows, which are put into their order in place."""
    shapes: dict[str, Any] = {}
    left = len(arrays["states"]) - len(division.valid)
    for name, each in arrays.items():
        held = np.array(each[division.valid.numpy()])
        held.tofile(folder / f"{VALID}.{name}")
        shapes[f"{VALID}.{name}"] = held
        if name == "log_inside":  # of training rows nobody asks for it
            (folder / f"{ROWS}.{name}").unlink()
            continue
        if division.order is not None:
            each[:left] = np.array(each)[division.order.numpy()]
        else:
            each[division.gaps.numpy()] = each[division.moved.numpy()]
        each.flush()
        with (folder / f"{ROWS}.{name}").open("r+b") as file:
            file.truncate(left * each[:1].nbytes)
        shapes[f"{ROWS}.{name}"] = each[:left]
    return shapes
