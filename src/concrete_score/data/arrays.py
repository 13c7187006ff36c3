"""Integer tables from ``.npy``, ``.npz``, ``.data`` and ``.data.gz`` files, and from named data sets."""

import gzip
import hashlib
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import torch
from torch import Tensor

from concrete_score.errors import InputError, nearest
from concrete_score.files import canonical_json
from concrete_score.shapes import States

if TYPE_CHECKING:
    import numpy as np

FOLDER = "CONCRETE_SCORE_DATA"
"""The environment variable that names the folder of the named data sets."""
LARGEST = 2**16
"""The most values a column may take."""


def read(source: str, split: str = "train") -> States:
    """The states of a file, or of a named set's split, stored as narrowly as they fit ``(N, D)``.

    Args:
        source: an existing path, or ``NAME`` or ``NAME:SPLIT`` of a set found under ``$CONCRETE_SCORE_DATA``.
        split: which split a bare name means.

    Raises:
        InputError: no such file or set, or not a table of whole numbers from 0; file, row and column are named.
    """
    path = Path(source)
    if not path.is_file():
        path = _named(source, split)
    table = _table(path)
    return narrow(table, str(path))


def is_file(source: str) -> bool:
    """Whether a source is a path rather than a name."""
    return Path(source).is_file()


def narrow(table: Any, where: str) -> States:
    """A table of whole numbers from 0 in the narrowest kind that holds it.

    >>> narrow([[0, 1], [3, 0]], "x").dtype
    torch.uint8
    """
    import numpy as np

    values = np.asarray(table)
    if values.ndim != 2 or not values.size:
        raise InputError("a table of rows and columns", f"shape {values.shape}", where=where)
    if values.dtype.kind not in "iub":
        raise InputError("whole numbers", f"{values.dtype}", where=where, fix="turn categories into integers from 0")
    bad = (values < 0) | (values >= LARGEST) if values.dtype.kind != "b" else np.zeros(values.shape, bool)
    if bad.any():
        row, column = (int(k) for k in np.argwhere(bad)[0])
        raise InputError(
            f"whole numbers from 0 to {LARGEST - 1}",
            str(values[row, column]),
            where=f"{where}: row {row}, column x{column}",
        )
    kind = torch.uint8 if int(values.max()) < 256 else torch.int32
    return torch.from_numpy(values.astype(np.int64)).to(kind)


def sizes(*tables: Tensor) -> tuple[int, ...]:
    """How many values each column takes: the largest seen, plus 1.

    >>> sizes(torch.tensor([[0, 4], [1, 2]]))
    (2, 5)
    """
    widths = {table.shape[1] for table in tables}
    if len(widths) > 1:
        raise InputError("as many columns in every table", " and ".join(map(str, sorted(widths))), where="columns")
    return tuple((torch.stack([table.long().amax(0) for table in tables]).amax(0) + 1).tolist())


def digest(states: Tensor) -> str:
    """SHA-256 of a table's kind, shape and values, in hex."""
    total = hashlib.sha256(canonical_json([str(states.dtype), list(states.shape)]))
    total.update(states.contiguous().view(torch.uint8).numpy().data)
    return total.hexdigest()


def _named(source: str, split: str) -> Path:
    name, _, chosen = source.partition(":")
    folder = os.environ.get(FOLDER, "")
    root = Path(folder)
    found = {path.name: path for path in sorted(root.glob("*/*")) if path.is_dir()} if folder else {}
    path = found.get(name, root / name) / f"{name}.{chosen or split}.data.gz"
    if name not in found or not path.is_file():
        known = nearest(name, list(found)) if found else f"set {FOLDER} to the folder of the named data sets"
        raise InputError("a file, or NAME[:SPLIT] of a data set", repr(source), where="DATA", fix=known)
    return path


def _table(path: Path) -> "np.ndarray[Any, Any]":
    readers = {".npy": _array, ".npz": _array, ".data": _text, ".data.gz": _text}
    for suffix, reader in readers.items():
        if path.name.endswith(suffix):
            try:
                return reader(path)
            except (ValueError, EOFError, gzip.BadGzipFile, zlib.error, BadZipFile, UnicodeDecodeError) as error:
                if isinstance(error, InputError):
                    raise
                reason = " ".join(str(error).split())[:120]
                raise InputError("a table of whole numbers", reason or "an empty file", where=str(path)) from None
    raise InputError(f"a file ending in {', '.join(readers)}", path.name, where=str(path))


def _array(path: Path) -> "np.ndarray[Any, Any]":
    import numpy as np

    loaded: Any = np.load(path, allow_pickle=False)
    if not hasattr(loaded, "files"):
        return loaded  # type: ignore[no-any-return]
    with loaded:
        names = loaded.files
        if "x" not in names and len(names) != 1:
            raise InputError("an array named x, or one array alone", ", ".join(names) or "none", where=str(path))
        found: np.ndarray[Any, Any] = loaded["x" if "x" in names else names[0]]
        return found


def _text(path: Path) -> "np.ndarray[Any, Any]":
    import numpy as np

    opener: Any = gzip.open if path.name.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        lines = [line for line in file if line.strip()]
    if not lines:
        raise InputError("a table of whole numbers", "an empty file", where=str(path))
    return np.loadtxt(lines, delimiter=",", dtype=np.int64, ndmin=2)
