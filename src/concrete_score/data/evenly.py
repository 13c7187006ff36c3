"""Some rows of many, drawn evenly in one pass: the same ones, however the table is cut into parts."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from concrete_score.data.frame import Frame
from concrete_score.randomness import generator, uniform

BLOCK = 2**13
"""Rows whose keys come from one generator."""


class RowSample:
    """At most so many rows, in their order: those of the least of random keys.

    Args:
        most: how many.

    Parts are anything with ``take(positions)`` and a class method ``join(parts)``, such as `Frame`.
    """

    def __init__(self, most: int) -> None:
        self.most, self.rows = most, 0
        self.found: Any = None
        self._key = torch.empty(0, dtype=torch.float64)

    def add(self, part: Any, count: int, generator: torch.Generator) -> None:
        """A part of so many rows, whose keys come from the generator."""
        self.rows += count
        key = torch.cat([self._key, uniform((count,), generator, torch.device("cpu"))])
        kept = key.argsort(stable=True)[: self.most].sort().values
        fresh = kept[kept >= len(self._key)] - len(self._key)
        old = kept[kept < len(self._key)]
        if self.found is None:
            self.found = part.take(fresh.numpy())
        elif len(fresh):
            self.found = type(part).join([self.found.take(old.numpy()), part.take(fresh.numpy())])
        self._key = key[kept]


class SomeRows(NamedTuple):
    """Rows that stand for more."""

    frame: Frame
    rows: int
    """How many there were."""


def some_rows(parts: Iterable[Frame], most: int, seed: int, stream: str = "rows") -> SomeRows:
    """At most so many rows of a table that comes in parts, drawn evenly.

    >>> import polars as pl
    >>> from concrete_score.data.frame import as_frame
    >>> frames = [as_frame(pl.DataFrame({"a": range(at, at + 50)})) for at in range(0, 200, 50)]
    >>> one, other = some_rows(frames, 20, 0), some_rows([Frame.join(frames)], 20, 0)
    >>> one.frame.table.equals(other.frame.table), len(one.frame), one.rows
    (True, 20, 200)
    """
    found = RowSample(most)
    for number, frame in enumerate(regrouped(parts, BLOCK)):
        found.add(frame, len(frame), generator(seed, stream, number))
    return SomeRows(found.found, found.rows)


def regrouped(frames: Iterable[Frame], size: int) -> Iterator[Frame]:
    """The same rows in frames of ``size`` rows, the last of fewer; each knows the number of its first row."""
    waiting: list[Frame] = []
    count = first = 0
    for frame in frames:
        waiting.append(frame)
        count += len(frame)
        if count < size:
            continue
        whole = Frame.join(waiting)
        end = count - count % size
        for start in range(0, end, size):
            yield replace(whole, table=whole.table.slice(start, size), first=first + start)
        waiting, count, first = [replace(whole, table=whole.table.slice(end))], count - end, first + end
    if count:
        yield replace(Frame.join(waiting), first=first)
