"""The arithmetic of a text table: each letter of the file is a separator, a quote, a line's end, or part of a cell.

A row with too few cells is read without complaint; so is 007 where a whole number was expected. Both leave a trace: the
file then holds fewer separators, or more letters, than the cells that were read imply.
"""

import mmap
from dataclasses import dataclass

import numpy as np
import polars as pl

from concrete_score.data.frame import Array

Buffer = bytes | mmap.mmap

_BLOCK = 2**18
_MARKS = '"\n\r'
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Tally:
    """How many separators there are, and how many letters that are neither marks nor line ends.

    >>> Tally.of_file(b'a,b\\n1,"x, y"\\n', ",")
    Tally(separators=3, letters=6)
    >>> Tally.of_texts(pl.Series(["a", "b", "x, y"]), np.array([2, 1, 1]), ",")
    Tally(separators=1, letters=6)
    """

    separators: int
    letters: int

    @classmethod
    def of_file(cls, view: Buffer, separator: str) -> "Tally":
        """The count over a whole file, its byte-order mark left out."""
        data = np.frombuffer(view, dtype=np.uint8)
        marks = [ord(mark) for mark in (separator, *_MARKS)]
        # Blocks that stay in the processor's cache are read from memory once for all marks.
        blocks = (data[start : start + _BLOCK] for start in range(0, len(data), _BLOCK))
        found = np.sum([[np.count_nonzero(block == mark) for mark in marks] for block in blocks], axis=0)
        size = len(data) - (len(_BYTE_ORDER_MARK) if view[:3] == _BYTE_ORDER_MARK else 0)
        del data, blocks
        return cls(int(found[0]), int(size - found.sum()))

    @classmethod
    def of_texts(cls, texts: pl.Series, counts: Array, separator: str) -> "Tally":
        """The count over cells: distinct texts ``(V,)``, and how often each occurs ``(V,)``."""
        often = counts.astype(np.int64)
        inside = [_times(texts.str.count_matches(mark, literal=True), often) for mark in (separator, *_MARKS)]
        return cls(inside[0], _times(texts.str.len_bytes(), often) - sum(inside))

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.separators + other.separators, self.letters + other.letters)


def _times(each: pl.Series, often: Array) -> int:
    return int(each.to_numpy().astype(np.int64) @ often)
