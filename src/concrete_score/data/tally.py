"""The arithmetic of a text table: each letter of the file is a separator, a quote, a line's end, or part of a cell.

A row with too few cells is read without complaint; so is 007 where a whole number was expected, and True for true. All
leave a trace: the file then holds fewer separators, or more letters, or other capitals than the cells that were read
imply. Of truth values, capital initials and other capitals are counted apart: in a column written True and False, true
can only lower the former and TRUE only raise the latter, so that no two mistakes cancel.
"""

import mmap
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
import polars as pl

from concrete_score.data.frame import Array
from concrete_score.data.threads import each

Buffer = bytes | mmap.mmap

_BLOCK = 2**18
_PART = 2**25
_MARKS = '"\n\r'
_INITIALS = "FT"
_ALPHABET = 26
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Tally:
    """How many separators there are, how many letters that are neither marks nor line ends, and how many capitals.

    >>> Tally.of_file(b'a,b\\n1,"x, Y"\\n', ",")
    Tally(separators=3, letters=6, initials=0, capitals=1)
    >>> Tally.of_texts(pl.Series(["a", "b", "x, Y"]), np.array([2, 1, 1]), ",")
    Tally(separators=1, letters=6, initials=0, capitals=1)
    """

    separators: int
    letters: int
    initials: int = 0
    """F and T, as in False and True."""
    capitals: int = 0
    """All others of A to Z."""

    @classmethod
    def of_file(cls, view: Buffer, separator: str) -> "Tally":
        """The count over a whole file, its byte-order mark left out."""
        data = np.frombuffer(view, dtype=np.uint8)
        marks = (separator, *_MARKS)
        parts = [data[start : start + _PART] for start in range(0, len(data), _PART)]
        found = np.sum(each(lambda part: _occurrences(part, marks), parts), axis=0)
        size = len(data) - (len(_BYTE_ORDER_MARK) if view[:3] == _BYTE_ORDER_MARK else 0)
        del data, parts
        return cls(int(found[0]), int(size - found[: len(marks)].sum()), *found[len(marks) :].tolist())

    @classmethod
    def of_texts(cls, texts: pl.Series, counts: Array, separator: str) -> "Tally":
        """The count over cells: distinct texts ``(V,)``, and how often each occurs ``(V,)``."""
        often = counts.astype(np.int64)
        inside = [_times(texts.str.count_matches(mark, literal=True), often) for mark in (separator, *_MARKS)]
        initials = _times(texts.str.count_matches(f"[{_INITIALS}]"), often)
        capitals = _times(texts.str.count_matches("[A-Z]"), often) - initials
        return cls(inside[0], _times(texts.str.len_bytes(), often) - sum(inside), initials, capitals)

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))


def _occurrences(data: Array, marks: Sequence[str]) -> Array:
    """How often each mark occurs in bytes, then how many capital initials and other capitals there are."""
    # Blocks that stay in the processor's cache are read from memory once for all marks.
    blocks = (data[start : start + _BLOCK] for start in range(0, len(data), _BLOCK))
    counts = [[*_counts(block, marks), *_capitals(block)] for block in blocks]
    found: Array = np.array(counts).sum(axis=0)
    return found


def _counts(block: Array, marks: Sequence[str]) -> list[int]:
    return [int(np.count_nonzero(block == ord(mark))) for mark in marks]


def _capitals(block: Array) -> tuple[int, int]:
    # Below A the difference wraps around to large numbers.
    capitals = int(np.count_nonzero(block - np.uint8(ord("A")) < _ALPHABET))
    initials = sum(_counts(block, _INITIALS)) if capitals else 0
    return initials, capitals - initials


def _times(each: pl.Series, often: Array) -> int:
    return int(each.to_numpy().astype(np.int64) @ often)
