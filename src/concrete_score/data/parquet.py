"""Parquet files, read in this process; their sizes are checked first.

A damaged file can state any size, and the reader would ask for that much memory and end the whole process. So the
footer and every page header (Thrift's compact protocol) are read here before: pages must lie inside the file, and the
numbers of values must add up to the number of rows.
"""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import polars as pl

from concrete_score.data.frame import Form, Frame, as_frame
from concrete_score.errors import InputError
from concrete_score.files import DAMAGED, refuse_large, short

_MAGIC = b"PAR1"
_DEEPEST = 32
_READING = Lock()


def read_parquet(data: bytes, where: str) -> Frame:
    """A Parquet table; nulls are blank.

    Raises:
        InputError: not Parquet, damaged, too large, or a column that holds lists, structures or bytes.
    """
    if len(data) < 12 or data[:4] != _MAGIC or data[-4:] != _MAGIC:
        raise InputError("a Parquet file", "other bytes", where=where, fix=DAMAGED)
    try:
        size = _stated_size(data)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError("a Parquet file", "a damaged one (sizes that do not add up)", where, DAMAGED) from None
    refuse_large(size, where)
    try:
        with _without_panics():
            table = pl.read_parquet(io.BytesIO(data), use_statistics=False, hive_partitioning=False)
    # A damaged file can stop polars in many ways; its panic is not even an Exception.
    except (Exception, pl.exceptions.PanicException) as error:
        raise InputError("a Parquet file", f"a damaged one ({short(error)})", where=where, fix=DAMAGED) from None
    pools: dict[Any, Any] = {series.name: series.dtype for series in table if series.dtype in (pl.Categorical, pl.Enum)}
    try:
        # By way of text: a damaged file can hold numbers of categories that it has no words for.
        plain = table.cast(dict.fromkeys(pools, pl.String)).cast(pools)
        return Frame(as_frame(plain, where).table, Form("parquet"), where)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError("columns of categories", short(error), where=where, fix=DAMAGED) from None


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


def _stated_size(data: bytes) -> int:
    """The bytes that all pages together are said to take once unpacked.

    Raises:
        ValueError, IndexError, KeyError, TypeError: the file contradicts itself.
    """
    length = int.from_bytes(data[-8:-4], "little")
    body = len(data) - 8 - length
    if body < 4:
        raise ValueError("footer")
    footer, _ = _Thrift(data, len(data) - 8).struct(body)
    total, groups = 0, footer.get(4, [])
    if footer[3] != sum(group[3] for group in groups):
        raise ValueError("rows")
    for group in groups:
        for column in group[1]:
            total += _column_size(data, body, column[3], group[3])
    return total


def _column_size(data: bytes, end: int, chunk: dict[int, Any], rows: int) -> int:
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

    def __init__(self, data: bytes, end: int) -> None:
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
        return self.data[self.at - 1]

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
