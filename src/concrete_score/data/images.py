"""Pictures from files, names and scikit-learn: arrays N×H×W of grey values, with labels where they are known."""

import gzip
import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from concrete_score.data.frame import Array
from concrete_score.data.named import data_sets, entry_of, locate, unpack
from concrete_score.data.numpy_files import WHOLE, numpy_file
from concrete_score.data.source import is_path
from concrete_score.errors import InputError, nearest

DIGITS = "digits"
"""The 1,797 pictures of 8×8 pixels that come with scikit-learn."""
MASK = "mask"
"""The array of an ``.npz`` file that is True where a pixel is blank."""
VALID = 10_000
"""How many of the last training pictures of an IDX set are held out as its ``valid``."""
_IDX_NAME = re.compile(r"(ubyte|\.idx)(\.gz)?$")
_IDX_KINDS = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


@dataclass(frozen=True, eq=False)
class Images:
    """Grey values ``(N, H, W)``, what they show, and where they come from."""

    pixels: Array
    """``(N, H, W)``: whole numbers from 0, booleans, or floats, where NaN is a blank pixel."""
    where: str
    labels: Array | None = None
    """``(N,)`` whole numbers, where known."""
    top: int | float | None = None
    """The largest grey value there can be, where the source declares it."""
    blank: Array | None = None
    """``(N, H, W)`` bool: pixels that are not known, whatever stands there; beside NaN, which always means blank."""

    def __post_init__(self) -> None:
        check_pixels(self.pixels, self.where)
        labels, blank = self.labels, self.blank
        if blank is not None and (blank.shape != self.pixels.shape or blank.dtype.kind != "b"):
            raise InputError(
                f"True or False for each pixel, of shape {self.pixels.shape}",
                f"{blank.dtype} of shape {blank.shape}",
                where=f"{self.where}: {MASK}",
                fix="True marks a blank pixel",
            )
        if labels is not None and (labels.shape != self.pixels.shape[:1] or labels.dtype.kind not in "iu"):
            raise InputError(
                f"{len(self.pixels)} whole numbers as labels, one a picture",
                f"{labels.dtype} of shape {labels.shape}",
                where=f"{self.where}: y",
            )

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width."""
        return int(self.pixels.shape[1]), int(self.pixels.shape[2])

    def part(self, rows: slice | Array) -> "Images":
        """Some of the pictures."""
        labels, blank = (None if each is None else each[rows] for each in (self.labels, self.blank))
        return replace(self, pixels=self.pixels[rows], labels=labels, blank=blank)


def load_images(
    spec: str | Path,
    split: str = "test",
    *,
    data_dir: str | Path | None = None,
    base_url: str | None = None,
    say: Callable[[str], None] = lambda message: None,
) -> Images:
    """The pictures that DATA means: an existing path wins, else ``digits`` or a named set, ``NAME[:SPLIT]``.

    Args:
        spec: ``.npy`` or ``.npz`` (array ``x`` or the only one, labels ``y``, blanks ``mask``), an IDX file, or a name.
        split: which split a bare name means: ``train``, ``valid`` or ``test``. The last 10,000 training pictures of an
            IDX set are its ``valid``; of `digits` every sixth is ``test`` and the one before it ``valid``.
        data_dir: a folder of data sets, looked into first.
        base_url: where to download from instead of the public place.
        say: takes lines of progress.

    Raises:
        InputError: no such file, name or split, or not pictures; the file is named.

    >>> load_images("digits:train").pixels.shape
    (1199, 8, 8)
    """
    text = str(spec)
    if is_path(text):
        return read_images(text)
    if isinstance(spec, Path):
        raise InputError("an existing file", "none", where=text, fix="check the path")
    name, _, chosen = text.partition(":")
    if name == DIGITS:
        return _digits(chosen or split)
    return _named(name, chosen or split, data_dir, base_url, say)


def holds_images(spec: str | Path) -> bool:
    """Whether DATA means pictures rather than a table: three axes or more, an IDX file, or a named set of pictures."""
    text = str(spec)
    if not is_path(text):
        name = text.partition(":")[0]
        files = [entry.file for entry in data_sets().get(name, {}).values()]
        return name == DIGITS or any("idx3" in file for file in files)
    if _IDX_NAME.search(text):
        return True
    if not text.endswith((".npy", ".npz")) or not Path(text).is_file():
        return False
    try:
        return bool(_arrays(Path(text).read_bytes(), text)[0].ndim > 2)
    except InputError:
        return False


def read_images(path: str | Path) -> Images:
    """The pictures in a file; IDX labels are taken from the file beside it, if there is one.

    Raises:
        InputError: an unknown ending, a damaged file, or an array that is not N×H×W.
    """
    path, where = Path(path), str(path)
    if not path.is_file():
        raise InputError("a file", "a folder" if path.is_dir() else "none", where=where, fix="name a file of pictures")
    if _IDX_NAME.search(path.name):
        beside = path.with_name(path.name.replace("images-idx3", "labels-idx1"))
        labels = read_idx(_bytes(beside), str(beside)) if beside != path and beside.is_file() else None
        return Images(read_idx(_bytes(path), where), where, _whole(labels))
    if path.suffix in (".npy", ".npz"):
        pixels, labels, blank = _arrays(path.read_bytes(), where)
        return Images(pixels, where, _whole(labels), blank=blank)
    raise InputError(
        "pictures in a file ending in .npy, .npz, ubyte, ubyte.gz, .idx or .idx.gz",
        repr(path.name),
        where=where,
        fix="rename it by what it holds",
    )


def read_idx(data: bytes, where: str) -> Array:
    """The array in an IDX file's bytes: a magic number, the sizes, then the values, all big-endian.

    Raises:
        InputError: another kind of file, or one that is too short or too long.

    >>> read_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), "labels").tolist()
    [7, 9]
    """
    if len(data) < 4 or data[:2] != b"\x00\x00" or data[2] not in _IDX_KINDS or not data[3]:
        raise InputError("an IDX file", "other bytes" if data else "an empty file", where=where, fix=WHOLE)
    kind, axes = np.dtype(_IDX_KINDS[data[2]]), data[3]
    start = 4 + 4 * axes
    if len(data) < start:
        raise InputError("an IDX file", "one that ends in its header", where=where, fix=WHOLE)
    shape = struct.unpack(f">{axes}I", data[4:start])
    wanted = start + kind.itemsize * int(np.prod(shape, dtype=object))
    if len(data) != wanted:
        raise InputError(f"{wanted} bytes, as the header says of shape {shape}", f"{len(data)}", where=where, fix=WHOLE)
    values = np.frombuffer(data, kind, offset=start).reshape(shape)
    return values.astype(kind.newbyteorder("="))


def check_pixels(pixels: Array, where: str) -> None:
    """Refuse an array that is not N×H×W numbers.

    >>> check_pixels(np.zeros((28, 28)), "x.npy")
    Traceback (most recent call last):
    concrete_score.errors.InputError: x.npy: expected pictures of shape (N, H, W), got shape (28, 28); ...
    """
    if pixels.ndim != 3 or not pixels.size:
        fix = "give each picture one channel" if pixels.ndim == 4 else "one picture is (1, H, W); a table is no picture"
        raise InputError("pictures of shape (N, H, W)", f"shape {pixels.shape}", where=where, fix=fix)
    if pixels.dtype.kind not in "uibf":
        raise InputError("grey values, which are numbers", f"{pixels.dtype}", where=where, fix="save them as uint8")


def _named(
    name: str,
    split: str,
    data_dir: str | Path | None,
    base_url: str | None,
    say: Callable[[str], None],
) -> Images:
    known = [key for key, files in data_sets().items() if any("idx3" in entry.file for entry in files.values())]
    if name not in known:
        fix = nearest(name, [DIGITS, *known])
        raise InputError("an existing file, or NAME[:SPLIT] of pictures", repr(name), where="DATA", fix=fix)
    splits = ["train", "valid", "test"]
    if split not in splits:
        raise InputError(f"a split of {name}", repr(split), where="DATA", fix=nearest(split, splits))
    stored = "test" if split == "test" else "train"
    arrays = []
    for each in (stored, f"{stored}-labels"):
        entry = entry_of(f"{name}:{each}", split)
        arrays.append(read_idx(unpack(locate(entry, data_dir, base_url=base_url, say=say)), f"{name}:{each}"))
    whole = Images(arrays[0], f"{name}:{split}", _whole(arrays[1]), top=255)
    held = {"train": slice(None, -VALID), "valid": slice(-VALID, None), "test": slice(None)}
    return whole.part(held[split])


def _digits(split: str) -> Images:
    splits = {"train": (0, 1, 2, 3), "valid": (4,), "test": (5,)}
    if split not in splits:
        raise InputError(f"a split of {DIGITS}", repr(split), where="DATA", fix=nearest(split, list(splits)))
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise InputError(
            "scikit-learn, which holds the digits", "none installed", where="DATA", fix="pip install scikit-learn"
        ) from None
    found: Any = load_digits()
    # The pictures lie sorted by writer, so every split takes its share of each.
    rows = np.flatnonzero(np.isin(np.arange(len(found.images)) % 6, splits[split]))
    return Images(found.images.astype(np.uint8)[rows], f"{DIGITS}:{split}", _whole(found.target[rows]), top=16)


def _arrays(data: bytes, where: str) -> tuple[Array, Array | None, Array | None]:
    """The pictures of a NumPy file, their labels and their blanks."""
    with numpy_file(data, where, "a NumPy file of numbers") as loaded:
        if isinstance(loaded, np.ndarray):
            return loaded, None, None
        names = [name for name in loaded.files if name not in ("y", MASK)]
        if "x" not in names and len(names) != 1:
            came = ", ".join(loaded.files) or "none"
            raise InputError("an array named x, or one array alone (and labels y)", came, where=where)
        pixels = loaded["x" if "x" in names else names[0]]
        labels, blank = (loaded[name] if name in loaded.files else None for name in ("y", MASK))
        return pixels, labels, blank


def _bytes(path: Path) -> bytes:
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        return gzip.decompress(path.read_bytes())
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError("a whole gzip file", reason, where=str(path), fix="copy the file again") from None


def _whole(labels: Array | None) -> Array | None:
    return labels.astype(np.int64) if labels is not None and labels.dtype.kind in "iu" else labels
