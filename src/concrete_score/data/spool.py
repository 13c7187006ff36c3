"""Tables that come in parts and are gone through again, kept in temporary files meanwhile."""

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from concrete_score.data.frame import Frame

CELLS = 2**22
"""Of a part that is kept, about: small parts are joined."""


@dataclass(eq=False)
class Spool:
    """Parts of a table on the disk, in a temporary folder that goes when the spool does.

    Args:
        beside: the folder to keep them in, which is made; the system's own for temporary files by default.

    >>> from concrete_score.data.frame import as_frame
    >>> spool = Spool()
    >>> for rows in (range(3), range(3, 5)):
    ...     spool.add(as_frame(pl.DataFrame({"a": rows})))
    >>> [frame.rows() for frame in spool], len(spool)
    ([[(0,), (1,), (2,)], [(3,), (4,)]], 2)
    """

    beside: Path | None = None
    largest: int = 0
    """Rows of the largest part."""
    _frames: list[Frame] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.beside is not None:
            self.beside.mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix=".concrete-score-", dir=self.beside))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def add(self, part: Frame) -> None:
        """Keep one more part."""
        part.table.write_parquet(self._path(len(self._frames)), statistics=False)
        self._frames.append(replace(part, table=part.table.clear()))
        self.largest = max(self.largest, len(part))

    def __len__(self) -> int:
        return len(self._frames)

    def __iter__(self) -> Iterator[Frame]:
        for number, frame in enumerate(self._frames):
            yield replace(frame, table=pl.read_parquet(self._path(number), glob=False))

    def lazy(self) -> pl.LazyFrame:
        """All parts below each other; in the wider type where a column has two."""
        parts = [pl.scan_parquet(self._path(number), glob=False) for number in range(len(self))]
        return pl.concat(parts, how="vertical_relaxed")

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:08d}.parquet"


def in_large_parts(parts: Iterable[Frame], cells: int = CELLS) -> Iterator[Frame]:
    """The same rows in parts of about so many cells, the last of fewer."""
    waiting: list[Frame] = []
    count = 0
    for part in parts:
        waiting.append(part)
        count += len(part) * part.table.width
        if count >= cells:
            yield Frame.join(waiting)
            waiting, count = [], 0
    if waiting:
        yield Frame.join(waiting)


def write_parquet(parts: Iterable[Frame], file: Any) -> None:
    """Parts of a table to an open Parquet file, with as much memory as a large part takes."""
    large = in_large_parts(parts)
    first, second = next(large), next(large, None)
    if second is None:
        first.table.write_parquet(file)
        return
    spool = Spool(Path(name).parent if isinstance(name := getattr(file, "name", None), str) else None)
    for part in chain((first, second), large):
        spool.add(part)
    spool.lazy().sink_parquet(file, row_group_size=spool.largest)
