"""The way between pictures and states: one site a pixel, row by row; bits, or a few grey levels."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil, isfinite
from typing import Any

import numpy as np
import torch

from concrete_score.data.codec import Rows
from concrete_score.data.frame import Array, Frame
from concrete_score.data.images import Images, check_pixels
from concrete_score.data.options import UNKNOWN, check_choice
from concrete_score.errors import InputError
from concrete_score.protocols import Encoded
from concrete_score.shapes import States
from concrete_score.spaces import Space

MISSING = ("refuse", "drop", "keep")
"""Blank pixels: refuse them with a count; drop their pictures; keep them as unobserved."""
MAX_LEVELS = 256
BLANK = -1
"""A whole grey value that marks a blank pixel where blanks are kept; in floats it is NaN."""
LARGEST = 2**16
"""The most pixels of a picture: a stranger's run.json must not fill the memory."""


@dataclass(frozen=True)
class ImageCodec:
    """Grey values from 0 to ``top`` as ``levels`` values of equal width; as bits, above ``threshold · top`` or not.

    Args:
        shape: height and width.
        levels: values of a pixel, from 2.
        top: the largest grey value.
        threshold: of bits, as a share of ``top``.
        dtype: what decoded pictures are made of.

    Raises:
        InputError: numbers out of range, or more levels than whole grey values.

    >>> codec = ImageCodec.fit(np.array([[[0, 255], [128, 127]]], dtype=np.uint8))
    >>> codec.encode(np.array([[[0, 255], [128, 127]]], dtype=np.uint8)).states.tolist()
    [[0, 1, 1, 0]]
    >>> codec.decode(torch.tensor([[1, 0, 0, 1]])).tolist()
    [[[255, 0], [0, 255]]]
    """

    shape: tuple[int, int]
    levels: int = 2
    top: int | float = 255
    threshold: float = 0.5
    dtype: str = "uint8"
    kind: str = "image"

    def __post_init__(self) -> None:
        if len(self.shape) != 2 or any(not isinstance(side, int) or side < 1 for side in self.shape):
            raise InputError("height and width, each at least 1", repr(self.shape), where="shape")
        if self.shape[0] * self.shape[1] > LARGEST:
            came = f"{self.shape[0]}x{self.shape[1]}"
            raise InputError(f"pictures of at most {LARGEST:,} pixels", came, where="shape", fix="scale them down")
        if isinstance(self.levels, bool) or not isinstance(self.levels, int) or not 2 <= self.levels <= MAX_LEVELS:
            raise InputError(f"from 2 to {MAX_LEVELS} grey levels", repr(self.levels), where="levels")
        if not (isfinite(self.top) and self.top > 0):
            raise InputError("a largest grey value above 0", repr(self.top), where="top")
        if not 0 < self.threshold < 1:
            raise InputError("a threshold between 0 and 1", repr(self.threshold), where="threshold")
        if np.dtype(self.dtype).kind != "f" and self.levels > self.top + 1:
            raise InputError(
                f"at most {int(self.top) + 1} levels, as there are grey values", str(self.levels), where="levels"
            )

    @classmethod
    def fit(cls, data: Any, levels: int = 2, threshold: float = 0.5, top: int | float | None = None) -> "ImageCodec":
        """The codec of pictures; the largest grey value is the one given, declared by the source, or seen.

        Raises:
            InputError: not N×H×W, negative or infinite grey values, or pictures that are all black.
        """
        images = _images(data)
        blank = _blanks(images)
        if blank.all():
            raise InputError("some pixels that are not blank", "none", where=images.where)
        _check_greys(images, np.inf, blank)
        seen = images.pixels[~blank].max().item()
        given = next((each for each in (top, images.top, seen) if each is not None), seen)
        if not given > 0:
            raise InputError(
                "a grey value above 0 somewhere", "pictures that are all 0", images.where, "check the file"
            )
        codec = cls(images.shape, levels, given, threshold, images.pixels.dtype.name)
        _check_greys(images, codec.top, blank)
        return codec

    @cached_property
    def space(self) -> Space:
        """One site a pixel."""
        return Space((self.levels,) * (self.shape[0] * self.shape[1]))

    @property
    def names(self) -> tuple[str, ...]:
        """``row,column`` of every site."""
        return tuple(f"{row},{column}" for row in range(self.shape[0]) for column in range(self.shape[1]))

    def encode(self, data: Any, *, missing: str = "refuse", unknown: str = "refuse") -> Encoded:
        """Pictures to states; `encode_rows` also says which pictures they are.

        Args:
            data: `Images`, or an array ``(N, H, W)`` in which NaN is a blank pixel; so is -1 where blanks are kept.
            missing: blank pixels: ``refuse``, ``drop`` their pictures, or ``keep`` them as unobserved (value 0).
            unknown: grey values above ``top``: ``refuse``, or ``skip`` their pictures.

        Raises:
            InputError: another shape, a grey value out of range (its place is named), or no picture is left.
        """
        return self.encode_rows(data, missing=missing, unknown=unknown).encoded

    def encode_rows(self, data: Any, *, missing: str = "refuse", unknown: str = "refuse") -> Rows:
        """As `encode`, with the positions of the pictures kept and the numbers of those left out."""
        check_choice(missing, MISSING, "missing")
        check_choice(unknown, UNKNOWN, "unknown")
        images = _images(data)
        if images.shape != self.shape:
            raise InputError(
                f"pictures of {self.shape[0]}x{self.shape[1]} pixels, as in training",
                f"{images.shape[0]}x{images.shape[1]}",
                where=images.where,
                fix="scale or crop them, or train on this shape",
            )
        pixels = images.pixels
        none = np.zeros(len(pixels), bool)
        blank = _blanks(images, negative=missing == "keep")
        strange = np.asarray(((pixels > self.top) & ~blank).any((1, 2))) if unknown == "skip" else none
        _check_greys(images, self.top, blank | strange[:, None, None])
        if missing == "refuse" and blank.any():
            raise InputError(
                "no blank pixels",
                f"{int(blank.sum())} in {int(blank.any((1, 2)).sum())} of {len(pixels)} pictures",
                where=images.where,
                fix="leave those pictures out, or fill them first (csm impute)",
            )
        dropped: Array = blank.any((1, 2)) & ~strange if missing == "drop" else none
        kept = np.flatnonzero(~(strange | dropped))
        if not len(kept):
            raise InputError(
                "pictures to use",
                f"none: {int(strange.sum())} out of range, {int(dropped.sum())} with blanks",
                where=images.where,
            )
        encoded = Encoded(self._states(pixels[kept], blank[kept]), self._observed(blank[kept]))
        return Rows(encoded, torch.from_numpy(kept), int(strange.sum()), int(dropped.sum()))

    def decode(self, states: States) -> Array:
        """States ``(N, D)`` to grey values ``(N, H, W)``: black, white and even steps between.

        Raises:
            InputError: not states of this space.
        """
        values = self.space.check(states, "states").reshape(-1, *self.shape).numpy(force=True)
        pictures: Array = np.array(self.greys, dtype=self.dtype)[values]
        return pictures

    @property
    def greys(self) -> list[int | float]:
        """The grey value of each level.

        >>> ImageCodec((2, 2), levels=3).greys
        [0, 128, 255]
        """
        return [self._grey(level) for level in range(self.levels)]

    def to_json(self) -> dict[str, Any]:
        """Plain values from which `from_json` builds an equal codec."""
        return {
            "kind": self.kind,
            "shape": list(self.shape),
            "levels": self.levels,
            "top": self.top,
            "threshold": self.threshold,
            "dtype": self.dtype,
        }

    @classmethod
    def from_json(cls, value: Any, where: str = "codec") -> "ImageCodec":
        """The codec of plain values, every one of them checked.

        Raises:
            InputError: a field is missing or of the wrong kind.

        >>> ImageCodec.from_json({"kind": "table"})
        Traceback (most recent call last):
        concrete_score.errors.InputError: codec.kind: expected 'image', got 'table'
        """
        if not isinstance(value, Mapping) or value.get("kind") != "image":
            came = repr(value.get("kind")) if isinstance(value, Mapping) else type(value).__name__
            raise InputError("'image'", came, where=f"{where}.kind")
        shape = value.get("shape")
        if not isinstance(shape, list) or len(shape) != 2 or not all(_is_number(side, int) for side in shape):
            raise InputError("height and width", repr(shape)[:60], where=f"{where}.shape")
        for name, kinds in (("levels", int), ("top", int | float), ("threshold", int | float)):
            if not _is_number(value.get(name), kinds):
                raise InputError("a number", repr(value.get(name))[:60], where=f"{where}.{name}")
        if value.get("dtype") not in _DTYPES:
            raise InputError("a kind of number", repr(value.get("dtype"))[:60], where=f"{where}.dtype")
        height, width = shape
        return cls((height, width), value["levels"], value["top"], float(value["threshold"]), value["dtype"])

    def _states(self, pixels: Array, blank: Array) -> torch.Tensor:
        """``(N, D)`` in one byte a pixel."""
        filled = np.where(blank, 0, pixels) if blank.any() else pixels
        if filled.dtype.kind == "f":
            values = self._level(filled)
        else:  # few grey values, each looked up
            values = self._level(np.arange(int(self.top) + 1))[filled.astype(np.intp)]
        return torch.from_numpy(np.ascontiguousarray(values.reshape(len(pixels), -1)))

    def _level(self, greys: Array) -> Array:
        if self.levels == 2:
            return (greys > self.threshold * self.top).astype(np.uint8)
        return np.minimum(greys * self.levels / self.top, self.levels - 1).astype(np.uint8)

    def _observed(self, blank: Array) -> torch.Tensor:
        if not blank.any():  # one flag stands for all pixels
            return torch.ones((1, 1), dtype=torch.bool).expand(len(blank), self.space.num_sites)
        return torch.from_numpy(~blank.reshape(len(blank), -1))

    def _grey(self, level: int) -> int | float:
        """Evenly spaced, and of whole numbers one that `encode` takes back to this level."""
        even = level * self.top / (self.levels - 1)
        if np.dtype(self.dtype).kind == "f" or level in (0, self.levels - 1):
            return even if np.dtype(self.dtype).kind == "f" else int(even)
        least, next_least = (ceil(each * self.top / self.levels) for each in (level, level + 1))
        return min(max(round(even), least), next_least - 1)


_DTYPES = ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float32", "float64")


def _is_number(value: Any, kinds: Any) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _images(data: Any) -> Images:
    if isinstance(data, Images):
        return data
    if isinstance(data, Frame):
        raise InputError(
            "pictures of shape (N, H, W)",
            f"a table of {len(data.columns)} columns",
            where=data.where,
            fix="this model was made for pictures; give .npy, .npz or IDX files, or another run",
        )
    array = np.asarray(data.numpy(force=True) if isinstance(data, torch.Tensor) else data)
    check_pixels(array, "data")
    if array.dtype.name not in _DTYPES:
        array = array.astype(np.float32 if array.dtype.kind == "f" else np.int64)
    return Images(array, "data")


def _blanks(images: Images, negative: bool = False) -> Array:
    """Which pixels are not known ``(N, H, W)``; ``negative`` takes -1 for a blank too."""
    pixels = images.pixels
    found: Array = np.isnan(pixels) if pixels.dtype.kind == "f" else np.zeros(pixels.shape, bool)
    if negative and pixels.dtype.kind in "if":
        found = found | (pixels == BLANK)
    return found if images.blank is None else found | images.blank


def _check_greys(images: Images, top: int | float, passed: Array) -> None:
    """Refuse a grey value outside 0 to ``top`` by picture, row and column; pixels that are ``passed`` over are not."""
    pixels = images.pixels
    if pixels.dtype.kind == "b":
        return
    bad = (pixels < 0) | (pixels > top) | (np.isinf(pixels) if pixels.dtype.kind == "f" else False)
    bad &= ~passed
    if bad.any():
        picture, row, column = (int(k) for k in np.argwhere(bad)[0])
        limit = "from 0" if top == np.inf else f"from 0 to {top:g}"
        raise InputError(
            f"grey values {limit}",
            f"{pixels[picture, row, column]}",
            where=f"{images.where}: picture {picture}, row {row}, column {column}",
            fix="scale the pictures as in training" if top < np.inf else "grey values begin at 0, which is black",
        )
