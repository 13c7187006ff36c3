"""Parquet files, read in this process; their sizes are checked first.

A damaged file can state any size, and the reader would ask for that much memory and end the whole process. So the
footer and every page header (Thrift's compact protocol) are read here before: pages must lie inside the file, and the
numbers of values must add up to the number of rows.
"""

import io
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import polars as pl

from concrete_score.data.frame import Form, Frame, as_frame
from concrete_score.errors import InputError
from concrete_score.files import DAMAGED, refuse_large, short

_MAGIC = b"PAR1"
_DEEPEST = 32
CELLS, MOST = 2**22, 2**28
"""Of a part the cells, and of a row group that is read as a whole the unpacked bytes, about."""
_READING = Lock()


def read_parquet(data: bytes, where: str) -> Frame:
    """A Parquet table; nulls are blank.

    Raises:
        InputError: not Parquet, damaged, too large, or a column that holds lists, structures or bytes.
    """
    refuse_large(sum(group.size for group in row_groups(data, where)), where)
    return _frame(lambda: pl.read_parquet(io.BytesIO(data), use_statistics=False, hive_partitioning=False), where)


def stream_parquet(path: Path, where: str, *, cells: int = CELLS, most: int = MOST) -> Iterator[tuple[Frame, int]]:
    """The same table in parts, and how many bytes of the file hold each and those before it.

    Several small row groups are read at once, and a large one is divided: up to ``most`` bytes of pages are unpacked
    whole, beyond that the reader is asked for some of its rows at a time.

    Args:
        path: the file.
        where: what to call it in messages.
        cells: of one part, about.
        most: unpacked bytes of a row group that is read as a whole.

    Raises:
        InputError: as `read_parquet`; too large is what makes even one part too large.
    """
    groups = [group for group in stored_groups(path, where) if group.rows]
    scan = pl.scan_parquet(path, use_statistics=False, hive_partitioning=False, glob=False)
    width = max((group.columns for group in groups), default=1)
    size, first, read = max(1, cells // width), 0, 0
    for together in _batched(groups, size):
        rows, unpacked = (sum(each) for each in zip(*((g.rows, g.size) for g in together), strict=True))
        step = rows if unpacked <= most else size
        refuse_large(unpacked * min(step, rows) // max(1, rows), where, "rows")
        for start in range(0, rows, step):
            wanted = scan.slice(first, min(step, rows - start))
            whole = _frame(wanted.collect, where)
            read += round(sum(g.packed for g in together) * len(whole) / max(1, rows))
            for at in range(0, len(whole), size):
                part = replace(whole, table=whole.table.slice(at, size), first=first + at)
                yield part, read
            first += len(whole)


def _batched(groups: "Sequence[RowGroup]", size: int) -> "Iterator[list[RowGroup]]":
    """Neighboring row groups, together of about ``size`` rows unless one alone has more."""
    batch: list[RowGroup] = []
    for group in groups:
        if batch and sum(each.rows for each in batch) + group.rows > size:
            yield batch
            batch = []
        batch.append(group)
    if batch:
        yield batch


def _frame(read: Callable[[], pl.DataFrame], where: str) -> Frame:
    """What polars reads of a file whose sizes add up."""
    try:
        with _without_panics():
            table = read()
    # A damaged file can stop polars in many ways; its panic is not even an Exception.
    except (Exception, pl.exceptions.PanicException) as error:
        raise InputError("a Parquet file", f"a damaged one ({short(error)})", where=where, fix=DAMAGED) from None
    pools: dict[Any, Any] = {series.name: series.dtype for series in table if series.dtype in (pl.Categorical, pl.Enum)}
    try:
        # By way of text: a damaged file can hold numbers of categories that it has no words for.
        plain = table.cast(dict.fromkeys(pools, pl.String)).cast(pools) if pools else table
        return Frame(as_frame(plain, where).table, Form("parquet"), where)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError("columns of categories", short(error), where=where, fix=DAMAGED) from None


class RowGroup(NamedTuple):
    """A row group, as its footer and pages state it."""

    rows: int
    columns: int
    size: int
    """Bytes that its cells take once unpacked."""
    packed: int
    """Bytes in the file."""


def row_groups(data: Any, where: str) -> list[RowGroup]:
    """The row groups of a file's content, bytes or a mapped file.

    Raises:
        InputError: not Parquet, or damaged.
    """
    if len(data) < 12 or data[:4] != _MAGIC or data[-4:] != _MAGIC:
        raise InputError("a Parquet file", "other bytes", where=where, fix=DAMAGED)
    try:
        return _row_groups(data)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError("a Parquet file", "a damaged one (sizes that do not add up)", where, DAMAGED) from None


def stored_groups(path: Path, where: str) -> list[RowGroup]:
    """The row groups of a file, which is mapped rather than read."""
    if path.suffix.lower() == ".gz":
        raise InputError("a Parquet file that can be read in parts", "a compressed one", where, "unpack it first")
    if path.stat().st_size == 0:
        raise InputError("data", "an empty file", where=where, fix="give a file with rows")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return row_groups(content, where)


@contextmanager
def _without_panics() -> Iterator[None]:
    """Standard error closed meanwhile: a panic in polars is printed there, page by page, before it is an exception."""
    with _READING:
        try:
            saved = os.dup(2)
        except OSError:  # there is none
            yield
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, 2)
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            os.close(nowhere)


def _row_groups(data: Any) -> list[RowGroup]:
    """What footer and pages state.

    Raises:
        ValueError, IndexError, KeyError, TypeError: the file contradicts itself.
    """
    length = int.from_bytes(data[-8:-4], "little")
    body = len(data) - 8 - length
    if body < 4:
        raise ValueError("footer")
    footer, _ = _Thrift(data, len(data) - 8).struct(body)
    groups = footer.get(4, [])
    if footer[3] != sum(group[3] for group in groups):
        raise ValueError("rows")
    found = []
    for group in groups:
        sizes = [_column_size(data, body, column[3], group[3]) for column in group[1]]
        found.append(RowGroup(group[3], len(sizes), sum(sizes), sum(column[3][7] for column in group[1])))
    return found


def _column_size(data: Any, end: int, chunk: dict[int, Any], rows: int) -> int:
    """The unpacked bytes of one column chunk; its pages hold a value for each row."""
    start = min(offset for offset in (chunk.get(9), chunk.get(11)) if offset)
    stop = start + chunk[7]
    if not 4 <= start <= stop <= end:
        raise ValueError("offsets")
    at, size, values = start, 0, 0
    while at < stop:
        header, at = _Thrift(data, stop).struct(at)
        unpacked, packed = header[2], header[3]
        if packed < 0 or unpacked < 0 or at + packed > stop:
            raise ValueError("page")
        pages = [header[field][1] for field in (5, 8) if field in header]
        values, size, at = values + sum(pages), size + unpacked, at + packed
    # A list holds any number of values, and is refused by its name later.
    nested = len(chunk[3]) > 1
    if values != chunk[5] or rows < 0 or (values < rows if nested else values != rows):
        raise ValueError("values")
    return size + 16 * values


class _Thrift:
    """Structures of Thrift's compact protocol as ``{field: value}``."""

    def __init__(self, data: Any, end: int) -> None:
        self.data, self.end, self.at = data, end, 0

    def struct(self, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
        """The structure that begins at a byte, and where it ends."""
        if depth > _DEEPEST:
            raise ValueError("depth")
        self.at = at
        found: dict[int, Any] = {}
        field = 0
        while kind := self._byte():
            step = kind >> 4
            field = field + step if step else self._integer()
            found[field] = self._value(kind & 15, depth)
        return found, self.at

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._integer()
        if kind == 7:
            return self._skip(8)
        if kind == 8:
            return self._skip(self._varint())
        if kind in (9, 10):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            if count > self.end - self.at:
                raise ValueError("list")
            inner = head & 15
            return [self._byte() == 1 if inner in (1, 2) else self._value(inner, depth) for _ in range(count)]
        if kind == 12:
            return self.struct(self.at, depth + 1)[0]
        raise ValueError("type")

    def _byte(self) -> int:
        if not 0 <= self.at < self.end:
            raise IndexError("end")
        self.at += 1
        found: int = self.data[self.at - 1]
        return found

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise ValueError("integer")

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _skip(self, count: int) -> None:
        if count < 0 or self.at + count > self.end:
            raise IndexError("end")
        self.at += count
