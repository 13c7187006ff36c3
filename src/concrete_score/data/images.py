"""Images: arrays N×H×W of grey values with labels where they are known, the IDX format, and grids as PNG."""

import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, sqrt
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl

from concrete_score.data.frame import DRAW, Array, Form, Frame
from concrete_score.errors import InputError
from concrete_score.files import DAMAGED, read_bytes

MASK = "mask"
"""The array of an ``.npz`` file that is True where a pixel is blank."""
_IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_SMALLEST = 48
"""An image whose longer side has fewer pixels is enlarged by a whole factor in a grid."""
BETWEEN = 96
"""The grey between the images of a grid."""


@dataclass(frozen=True, eq=False)
class Images:
    """Grey values ``(N, H, W)``, what they show, and where they come from.

    Raises:
        InputError: not N×H×W numbers, or labels or a mask of another shape.

    >>> Images(np.zeros((28, 28)), "x.npy")
    Traceback (most recent call last):
    concrete_score.errors.InputError: x.npy: expected images of shape (N, H, W), got shape (28, 28); ...
    """

    pixels: Array
    """``(N, H, W)``: whole numbers from 0, booleans, or floats, where NaN is a blank pixel."""
    where: str
    labels: Array | None = None
    """``(N,)`` whole numbers, where known."""
    top: int | float | None = None
    """The largest grey value there can be, where the source declares it."""
    blank: Array | None = None
    """``(N, H, W)`` bool: pixels that are not known, whatever stands there; beside NaN, which always means blank."""
    more: Mapping[str, Array] = field(default_factory=dict)
    """Further numbers ``(N,)`` to write beside the images, by name."""
    columns: int | None = None
    """How many copies of each image there are, all first ones first; a grid has a row an image. None: no copies."""
    kind: ClassVar[str] = "image"

    def __post_init__(self) -> None:
        if self.pixels.ndim != 3 or not self.pixels.size:
            one = "one image is (1, H, W); a table is no image"
            fix = "give each image one channel" if self.pixels.ndim == 4 else one
            raise InputError("images of shape (N, H, W)", f"shape {self.pixels.shape}", where=self.where, fix=fix)
        if self.pixels.dtype.kind not in "uibf":
            raise InputError("grey values, which are numbers", f"{self.pixels.dtype}", self.where, "save them as uint8")
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
                f"{len(self.pixels)} whole numbers as labels, one an image",
                f"{labels.dtype} of shape {labels.shape}",
                where=f"{self.where}: y",
            )
        if labels is not None:
            object.__setattr__(self, "labels", labels.astype(np.int64))

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.pixels.shape[1]), int(self.pixels.shape[2])

    @property
    def names(self) -> tuple[str, ...]:
        """``row,column`` of every pixel."""
        return pixel_names(self.shape)

    def take(self, rows: slice | Array) -> "Images":
        """Some of the images."""
        labels, blank = (None if each is None else each[rows] for each in (self.labels, self.blank))
        more = {name: values[rows] for name, values in self.more.items()}
        return replace(self, pixels=self.pixels[rows], labels=labels, blank=blank, more=more)

    def frame(self) -> Frame:
        """A table with a column a pixel, called ``row,column``."""
        cells = self.pixels.reshape(len(self), -1)
        columns = {**self.more, **{name: cells[:, site] for site, name in enumerate(self.names)}}
        return Frame(pl.DataFrame(columns), Form("csv"), self.where)

    def to_json(self) -> dict[str, Any]:
        """Shape, pixel names and one row of grey values an image."""
        rows = self.pixels.reshape(len(self), -1).tolist()
        more = {name: value.tolist() for name, value in self.more.items()}
        return {"shape": list(self.shape), "columns": list(self.names), "rows": rows, **more}

    def native(self) -> Array:
        """The array ``(N, H, W)``; draws that are counted stand on a new first axis."""
        draws = self.more.get(DRAW)
        return self.pixels if draws is None else self.pixels.reshape(int(draws.max()) + 1, -1, *self.shape)

    def arrays(self) -> dict[str, Array]:
        """What array files hold: the pixels, and further numbers by name."""
        return {"x": self.pixels, **self.more}

    def with_labels_beside(self, path: Path) -> "Images":
        """With the labels of the IDX file beside ``path``, if there is one."""
        beside = path.with_name(path.name.replace("images-idx3", "labels-idx1"))
        if beside == path or not beside.is_file():
            return self
        return replace(self, labels=read_idx(read_bytes(beside), str(beside)))

    @classmethod
    def join(cls, parts: "Iterable[Images]") -> "Images":
        """The parts of one set of images, at least one; what not every part has is left out."""
        first, *rest = parts

        def joined(arrays: list[Any]) -> Any:
            return None if any(each is None for each in arrays) else np.concatenate(arrays)

        every = [first, *rest]
        return replace(
            first,
            pixels=joined([each.pixels for each in every]),
            labels=joined([each.labels for each in every]),
            blank=joined([each.blank for each in every]),
            more={name: joined([each.more[name] for each in every]) for name in first.more},
        )


def pixel_names(shape: tuple[int, int]) -> tuple[str, ...]:
    """``row,column`` of every pixel, row by row.

    >>> pixel_names((1, 3))
    ('0,0', '0,1', '0,2')
    """
    return tuple(f"{row},{column}" for row in range(shape[0]) for column in range(shape[1]))


def read_idx(data: bytes, where: str) -> Array:
    """The array in an IDX file's bytes: a magic number, the sizes, then the values, all big-endian.

    Raises:
        InputError: another kind of file, or one that is too short or too long.

    >>> read_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), "labels").tolist()
    [7, 9]
    """
    if len(data) < 4 or data[:2] != b"\x00\x00" or data[2] not in _IDX_TYPES or not data[3]:
        raise InputError("an IDX file", "other bytes" if data else "an empty file", where=where, fix=DAMAGED)
    kind, axes = np.dtype(_IDX_TYPES[data[2]]), data[3]
    start = 4 + 4 * axes
    if len(data) < start or axes > 4:
        raise InputError("an IDX file", "one that ends in its header", where=where, fix=DAMAGED)
    shape = struct.unpack(f">{axes}I", data[4:start])
    wanted = start + kind.itemsize * int(np.prod(shape, dtype=object))
    if len(data) != wanted:
        came = f"{len(data)}"
        raise InputError(f"{wanted} bytes, as the header says of shape {shape}", came, where=where, fix=DAMAGED)
    values = np.frombuffer(data, kind, offset=start).reshape(shape)
    return values.astype(kind.newbyteorder("="))


def png(grey: Array) -> bytes:
    """Grey values ``(H, W)`` from 0, black, to 255, white, as a PNG file.

    >>> png(np.array([[0, 255]], np.uint8))[:4]
    b'\\x89PNG'
    """
    height, width = grey.shape
    rows = np.zeros((height, width + 1), np.uint8)  # each row begins with its filter, which is 0: none
    rows[:, 1:] = grey
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def grid(images: Array, columns: int | None = None, top: int | float | None = None) -> Array:
    """Images ``(N, H, W)`` side by side on a grey ground, row by row, small ones enlarged.

    Args:
        images: grey values from 0 to ``top``.
        columns: images a row; as many as make it square by default.
        top: what is white; the largest value there is by default.

    Returns:
        Grey values ``(H', W')`` from 0 to 255.

    >>> grid(np.ones((4, 48, 48))).shape
    (99, 99)
    """
    count, height, width = images.shape
    columns = min(count, columns or ceil(sqrt(count)))
    rows, scale = ceil(count / columns), max(1, _SMALLEST // max(height, width))
    white = top if top is not None else images.max() or 1
    grey = np.rint(images.astype(np.float64) * (255 / white)).clip(0, 255).astype(np.uint8)
    grey = grey.repeat(scale, 1).repeat(scale, 2)
    tall, wide = grey.shape[1] + 1, grey.shape[2] + 1
    page = np.full((rows * columns, tall, wide), BETWEEN, np.uint8)
    page[:count, 1:, 1:] = grey
    page = page.reshape(rows, columns, tall, wide).transpose(0, 2, 1, 3).reshape(rows * tall, columns * wide)
    return np.pad(page, ((0, 1), (0, 1)), constant_values=BETWEEN)


def grid_png(images: Array, columns: int | None = None, top: int | float | None = None) -> bytes:
    """`grid` as a PNG file."""
    return png(grid(images, columns, top))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
