"""Pictures out: a grid as PNG, or the grey values themselves as a NumPy file."""

import io
import struct
import zlib
from collections.abc import Callable
from math import ceil, sqrt
from pathlib import Path

import numpy as np

from concrete_score.data.frame import Array
from concrete_score.errors import InputError

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_SMALLEST = 48
"""A picture whose longer side has fewer points is enlarged by a whole factor."""
BETWEEN = 96
"""The grey between the pictures of a grid."""


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
    return _SIGNATURE + b"".join(_chunk(kind, data) for kind, data in parts)


def grid(pictures: Array, columns: int | None = None, top: int | float | None = None) -> Array:
    """Pictures ``(N, H, W)`` side by side on a grey ground, row by row, small ones enlarged.

    Args:
        pictures: grey values from 0 to ``top``.
        columns: pictures a row; as many as make it square by default.
        top: what is white; the largest value there is by default.

    Returns:
        Grey values ``(H', W')`` from 0 to 255.

    >>> grid(np.ones((4, 48, 48))).shape
    (99, 99)
    """
    count, height, width = pictures.shape
    columns = min(count, columns or ceil(sqrt(count)))
    rows, scale = ceil(count / columns), max(1, _SMALLEST // max(height, width))
    white = top if top is not None else pictures.max() or 1
    grey = np.rint(pictures.astype(np.float64) * (255 / white)).clip(0, 255).astype(np.uint8)
    grey = grey.repeat(scale, 1).repeat(scale, 2)
    tall, wide = grey.shape[1] + 1, grey.shape[2] + 1
    page = np.full((rows * columns, tall, wide), BETWEEN, np.uint8)
    page[:count, 1:, 1:] = grey
    page = page.reshape(rows, columns, tall, wide).transpose(0, 2, 1, 3).reshape(rows * tall, columns * wide)
    return np.pad(page, ((0, 1), (0, 1)), constant_values=BETWEEN)


def grid_png(pictures: Array, columns: int | None = None, top: int | float | None = None) -> bytes:
    """`grid` as a PNG file."""
    return png(grid(pictures, columns, top))


def npy(pictures: Array) -> bytes:
    """The grey values as a ``.npy`` file."""
    page = io.BytesIO()
    np.save(page, pictures, allow_pickle=False)
    return page.getvalue()


def npz(pictures: Array, **more: Array) -> bytes:
    """The grey values as array ``x`` of a ``.npz`` file, with more arrays beside it."""
    page = io.BytesIO()
    np.savez_compressed(page, x=pictures, **more)  # type: ignore[arg-type]
    return page.getvalue()


FILES: dict[str, Callable[[Array], bytes]] = {".png": grid_png, ".npy": npy, ".npz": npz}
"""What pictures are written as, by a path's ending."""


def ending(path: Path) -> str:
    """A path's ending, which must be one of `FILES`.

    Raises:
        InputError: it is another.

    >>> ending(Path("GRID.PNG"))
    '.png'
    """
    found = path.suffix.lower()
    if found not in FILES:
        raise InputError(
            f"pictures in a file ending in {', '.join(FILES)}", repr(path.name), where=str(path), fix="choose one"
        )
    return found


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
