"""Images: one site a pixel, row by row; bits, or a few grey levels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor

from concrete_score.codecs.base import (
    Codec,
    all_observed,
    check_choice,
    check_kind,
    is_data,
    kept_rows,
    options_of,
    refuse_other_kind,
)
from concrete_score.codecs.conditions import Condition
from concrete_score.data.frame import DRAW, Array
from concrete_score.data.images import Images, grid_png, pixel_names
from concrete_score.defaults import LEVELS, MAX_LEVELS, MISSING, THRESHOLD, UNKNOWN
from concrete_score.errors import Command, InputError, Option
from concrete_score.protocols import Encoded
from concrete_score.shapes import States
from concrete_score.spaces import Space
from concrete_score.training.choice import Choice, choose_for_images

BLANK = -1
"""A whole grey value that marks a blank pixel where blanks are kept; in floats it is NaN."""
LARGEST = 2**16
"""The most pixels of an image: an untrusted ``run.json`` must not fill the memory."""
_INTEGERS = frozenset(["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
_LOOKED_UP = 2**16
"""The largest grey value whose levels are kept in a table; a stranger's run may state any."""
_DTYPES = _INTEGERS | {"bool", "float32", "float64"}


@dataclass(frozen=True)
class ImageOptions:
    """How images are to be read.

    Args:
        levels: grey levels; 2 are bits.
        threshold: of bits, as a share of the largest grey value.
        missing: images with blank pixels: ``refuse`` or ``drop`` them.
    """

    levels: int = LEVELS
    threshold: float | None = None
    missing: str = "refuse"

    def __post_init__(self) -> None:
        check_choice(self.missing, ("refuse", "drop"), "missing")
        if self.levels > 2 and self.threshold is not None:
            raise InputError("a threshold of bits alone", f"{self.levels} levels", Option("threshold"), "leave it out")


@dataclass(frozen=True)
class ImageCodec(Codec):
    """Grey values from 0 to ``top`` as ``levels`` values of equal width; as bits, above ``threshold · top`` or not.

    Args:
        shape: height and width.
        levels: values of a pixel, from 2.
        top: the largest grey value.
        threshold: of bits, as a share of ``top``.
        dtype: what decoded images are made of.

    Raises:
        InputError: numbers out of range, or more levels than whole grey values.

    >>> codec = ImageCodec.fit(np.array([[[0, 255], [128, 127]]], dtype=np.uint8))
    >>> codec.encode(np.array([[[0, 255], [128, 127]]], dtype=np.uint8)).states.tolist()
    [[0, 1, 1, 0]]
    >>> codec.decode(torch.tensor([[1, 0, 0, 1]])).pixels.tolist()
    [[[255, 0], [0, 255]]]
    """

    shape: tuple[int, int]
    levels: int = LEVELS
    top: int | float = 255
    threshold: float = THRESHOLD
    dtype: str = "uint8"
    kind = "image"
    noun = "images"
    site_noun = "pixels"
    # A convolution in double precision takes twice as long, and an image's bits need none of it.
    precise = False
    from_noise = True
    has_grid = True

    def __post_init__(self) -> None:
        if len(self.shape) != 2 or any(not isinstance(side, int) or side < 1 for side in self.shape):
            raise InputError("height and width, each at least 1", repr(self.shape), where="shape")
        if self.shape[0] * self.shape[1] > LARGEST:
            came = f"{self.shape[0]}x{self.shape[1]}"
            raise InputError(f"images of at most {LARGEST:,} pixels", came, where="shape", fix="scale them down")
        if isinstance(self.levels, bool) or not isinstance(self.levels, int) or not 2 <= self.levels <= MAX_LEVELS:
            raise InputError(f"from 2 to {MAX_LEVELS} grey levels", repr(self.levels), Option("levels"))
        if not (isfinite(self.top) and self.top > 0):
            raise InputError("a largest grey value above 0", repr(self.top), where="top")
        if not 0 < self.threshold < 1:
            raise InputError("a threshold between 0 and 1", repr(self.threshold), Option("threshold"))
        if np.dtype(self.dtype).kind != "f" and self.levels > self.top + 1:
            expected = f"at most {int(self.top) + 1} levels, as there are grey values"
            raise InputError(expected, str(self.levels), Option("levels"))

    @classmethod
    def fit(
        cls, data: Any, levels: int = LEVELS, threshold: float = THRESHOLD, top: int | float | None = None
    ) -> "ImageCodec":
        """The codec of images; the largest grey value is the one given, declared by the source, or seen.

        Raises:
            InputError: not N×H×W, negative or infinite grey values, or images that are all black.
        """
        images = cls.accept(data)
        blank = _blanks(images)
        if blank.all():
            raise InputError("some pixels that are not blank", "none", where=images.where)
        _check_greys(images, np.inf, blank)
        seen = images.pixels[~blank].max().item()
        seen = int(seen) if isinstance(seen, bool) else seen  # True is white, and 1 in a run's JSON
        given = next((each for each in (top, images.top, seen) if each is not None), seen)
        if not given > 0:
            raise InputError("a grey value above 0 somewhere", "images that are all 0", images.where, "check the file")
        codec = cls(images.shape, levels, given, threshold, images.pixels.dtype.name)
        _check_greys(images, codec.top, blank)
        return codec

    @classmethod
    def infer(cls, data: Any, options: Mapping[str, Any]) -> "ImageCodec":
        chosen = options_of(ImageOptions, options, "images")
        return cls.fit(data, chosen.levels, THRESHOLD if chosen.threshold is None else chosen.threshold)

    @classmethod
    def accept(cls, data: Any, where: str = "data") -> Images:
        """Images, or an array ``(N, H, W)`` in which NaN is a blank pixel; so is -1 where blanks are kept."""
        if isinstance(data, Images):
            return data
        if is_data(data):
            refuse_other_kind(data, "images of shape (N, H, W)")
        array = np.asarray(data.numpy(force=True) if isinstance(data, Tensor) else data)
        if array.dtype.name not in _DTYPES and array.dtype.kind in "iuf":
            array = array.astype(np.float32 if array.dtype.kind == "f" else np.int64)
        return Images(array, where)

    @cached_property
    def space(self) -> Space:
        """One site a pixel."""
        return Space((self.levels,) * (self.shape[0] * self.shape[1]))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """``row,column`` of every site."""
        return pixel_names(self.shape)

    def encode(self, data: Any, *, missing: str = "refuse", unknown: str = "refuse") -> Encoded:
        """Images to states; unknown are grey values above ``top``.

        Raises:
            InputError: another shape, a grey value out of range (its place is named), or no image is left.
        """
        check_choice(missing, MISSING, "missing")
        check_choice(unknown, UNKNOWN, "unknown")
        images = self.accept(data)
        if images.shape != self.shape:
            raise InputError(
                f"images of {self.shape[0]}x{self.shape[1]} pixels, as in training",
                f"{images.shape[0]}x{images.shape[1]}",
                where=images.where,
                fix="scale or crop them, or train on this shape",
            )
        pixels = images.pixels
        none = np.zeros(len(pixels), bool)
        blank = _blanks(images, negative=missing == "unobserved")
        unseen = np.asarray(((pixels > self.top) & ~blank).any((1, 2))) if unknown == "skip" else none
        _check_greys(images, self.top, blank | unseen[:, None, None])
        if missing not in ("drop", "unobserved") and blank.any():
            came = f"{int(blank.sum())} in {int(blank.any((1, 2)).sum())} of {len(pixels)} images"
            fix = [Option("missing", "drop"), ("fill them first with ", Command("impute"))]
            raise InputError("no blank pixels", came, images.where, fix)
        dropped: Array = blank.any((1, 2)) & ~unseen if missing == "drop" else none
        kept = kept_rows(unseen, dropped, images.where, self.noun)
        states, observed = self._states(pixels[kept], blank[kept]), self._observed(blank[kept])
        return Encoded(states, observed, torch.from_numpy(kept), int(unseen.sum()), int(dropped.sum()))

    def decode(
        self,
        states: States,
        generator: torch.Generator | None = None,
        conditions: Sequence[Condition] = (),
        first: int = 0,
    ) -> Images:
        """States ``(N, D)`` to grey values ``(N, H, W)``: black, white and even steps between.

        Raises:
            InputError: not states of this space.
        """
        values = self.space.check(states, "states").reshape(-1, *self.shape).numpy(force=True)
        return Images(np.array(self.greys, dtype=self.dtype)[values], "states", top=self.top)

    def fill(self, data: Any, rows: Encoded, states: States, draws: int | None, **choices: Any) -> Images:
        """Images with their blank pixels filled; of several draws, each image's copies are side by side in a grid."""
        images = self.accept(data)
        copies, kept = len(states), rows.kept.numpy()
        pixels = np.broadcast_to(images.pixels, (copies, *images.pixels.shape)).copy()
        painted = self.decode(states.flatten(0, 1)).pixels.reshape(copies, len(kept), *self.shape)
        known = rows.observed.numpy().reshape(len(kept), *self.shape)
        pixels[:, kept] = np.where(known, pixels[:, kept], painted)
        more = {} if draws is None else {DRAW: np.repeat(np.arange(copies), len(images))}
        columns = None if draws is None else copies
        return Images(pixels.reshape(-1, *self.shape), images.where, top=self.top, more=more, columns=columns)

    @property
    def greys(self) -> list[int | float]:
        """The grey value of each level.

        >>> ImageCodec((2, 2), levels=3).greys
        [0, 128, 255]
        """
        return [self._grey(level) for level in range(self.levels)]

    def natives(self, site: int) -> Sequence[Any]:
        """The grey values, the same everywhere."""
        return self.greys

    def labels(self, site: int) -> tuple[str, ...]:
        """The grey values as text."""
        return tuple(str(grey) for grey in self.greys)

    def place(self, site: int, text: str) -> int | None:
        """The level of a grey value from 0 to ``top``."""
        try:
            grey = float(text)
        except ValueError:
            return None
        return int(self._level(np.array([grey]))[0]) if 0 <= grey <= self.top else None

    def warnings(self, data: Any, rows: Encoded) -> list[str]:
        """Images of bits given to a model of 256 greys would be black all over."""
        largest = self.accept(data).pixels.max()
        if not largest > 0 or rows.states[rows.observed].any():
            return []
        seen = f"the largest grey value is {largest:g}, in training it was {self.top:g}"
        return [f"every pixel counts as black: {seen}"]

    def grid(self, states: States, columns: int | None = None) -> bytes:
        """Images side by side on a grey ground."""
        return grid_png(self.decode(states).pixels, columns, self.top)

    def choose(self, recipe: Mapping[str, Any], training: Mapping[str, Any]) -> Choice:
        """A U-Net of the images' height and width, unless another model was asked for."""
        return choose_for_images(recipe, training, self.shape)

    def schema(self) -> dict[str, Any]:
        """Height, width, and how grey values become states."""
        facts = self.to_json()
        return {"images": {name: facts[name] for name in facts if name not in self._unused}}

    def schema_table(self) -> tuple[str, Sequence[str], Sequence[Sequence[Any]]]:
        """One line a fact."""
        return "Images:", ["fact", "value"], [(name, str(value)) for name, value in self.schema()["images"].items()]

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
            InputError: a field is missing or of the wrong type.

        >>> ImageCodec.from_json({"kind": "table"})
        Traceback (most recent call last):
        concrete_score.errors.InputError: codec.kind: expected 'image', got 'table'
        """
        check_kind(value, "image", where)
        shape = value.get("shape")
        if not isinstance(shape, list) or len(shape) != 2 or not all(_is_number(side, int) for side in shape):
            raise InputError("height and width", repr(shape)[:60], where=f"{where}.shape")
        for name, kinds in (("levels", int), ("top", int | float), ("threshold", int | float)):
            if not _is_number(value.get(name), kinds):
                raise InputError("a number", repr(value.get(name))[:60], where=f"{where}.{name}")
        if not isinstance(value.get("dtype"), str) or value["dtype"] not in _DTYPES:
            raise InputError("a type of number", repr(value.get("dtype"))[:60], where=f"{where}.dtype")
        height, width = shape
        return cls((height, width), value["levels"], value["top"], float(value["threshold"]), value["dtype"])

    @property
    def _unused(self) -> tuple[str, ...]:
        return ("kind",) if self.levels == 2 else ("kind", "threshold")

    def _states(self, pixels: Array, blank: Array) -> Tensor:
        """``(N, D)`` in one byte a pixel."""
        filled = np.where(blank, 0, pixels) if blank.any() else pixels
        if filled.dtype.kind == "f" or self.top > _LOOKED_UP:
            values = self._level(filled if filled.dtype.kind == "f" else filled.astype(np.float64))
        else:  # few grey values, each looked up
            values = self._level(np.arange(int(self.top) + 1))[filled.astype(np.intp)]
        return torch.from_numpy(np.ascontiguousarray(values.reshape(len(pixels), -1)))

    def _level(self, greys: Array) -> Array:
        if self.levels == 2:
            return (greys > self.threshold * self.top).astype(np.uint8)
        return np.minimum(greys * self.levels / self.top, self.levels - 1).astype(np.uint8)

    def _observed(self, blank: Array) -> Tensor:
        if not blank.any():
            return all_observed(len(blank), self.space.num_sites)
        return torch.from_numpy(~blank.reshape(len(blank), -1))

    def _grey(self, level: int) -> int | float:
        """Evenly spaced, and of whole numbers one that `encode` takes back to this level."""
        even = level * self.top / (self.levels - 1)
        if np.dtype(self.dtype).kind == "f" or level in (0, self.levels - 1):
            return even if np.dtype(self.dtype).kind == "f" else int(even)
        least, next_least = (ceil(each * self.top / self.levels) for each in (level, level + 1))
        return min(max(round(even), least), next_least - 1)


def _is_number(value: Any, kinds: Any) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _blanks(images: Images, negative: bool = False) -> Array:
    """Which pixels are not known ``(N, H, W)``; ``negative`` takes -1 for a blank too."""
    pixels = images.pixels
    found: Array = np.isnan(pixels) if pixels.dtype.kind == "f" else np.zeros(pixels.shape, bool)
    if negative and pixels.dtype.kind in "if":
        found = found | (pixels == BLANK)
    return found if images.blank is None else found | images.blank


def _check_greys(images: Images, top: int | float, passed: Array) -> None:
    """Refuse a grey value outside 0 to ``top`` by image, row and column; pixels that are ``passed`` over are not."""
    pixels = images.pixels
    if pixels.dtype.kind == "b":
        return
    bad = (pixels < 0) | (pixels > top) | (np.isinf(pixels) if pixels.dtype.kind == "f" else False)
    bad &= ~passed
    if bad.any():
        image, row, column = (int(k) for k in np.argwhere(bad)[0])
        raise InputError(
            f"grey values {'from 0' if top == np.inf else f'from 0 to {top:g}'}",
            f"{pixels[image, row, column]}",
            where=f"{images.where}: image {image}, row {row}, column {column}",
            fix="scale the images as in training" if top < np.inf else "grey values begin at 0, which is black",
        )
