"""A long text in pieces that each end where a row ends, so that it is read with as much memory as one piece takes.

A row ends at a line end outside quotes. Where quotes stand as they should (`layout.outside_quotes`), the last such line
end of a block is found by counting them; otherwise Python's strict reader goes through the block, so that a stray quote
means here what it means in a file that is read as a whole.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from concrete_score.data.encoding import Recoder, as_utf8, text_memory
from concrete_score.data.layout import SPACES, Layout, Note, outside_quotes
from concrete_score.errors import InputError
from concrete_score.files import short

BLOCK = 2**24
"""Bytes read at a time."""
LONGEST = 8
"""Blocks within which a row must end."""
HEAD = 2**20
"""Bytes from which the memory of a whole text is estimated."""


class Piece(NamedTuple):
    """Whole rows of a text in UTF-8."""

    data: bytes
    lines: int
    """Lines of the file before it."""
    read: int
    """Bytes of the file read so far; of a compressed one as they lie on the disk."""
    notes: tuple[Note, ...] = ()
    """What was noticed about the encoding, with the first piece."""


def pieces(
    path: Path, where: str, encoding: Any, layout_of: Callable[[bytes, bool], Layout], block: int = BLOCK
) -> Iterator[Piece]:
    """The pieces of a text file.

    Args:
        path: the file, compressed if its name ends in ``.gz``.
        where: what to call it in messages.
        encoding: its name; noticed from the first block by default.
        layout_of: from the first block, and whether there is more, to how rows are laid out.
        block: bytes read at a time.

    Raises:
        InputError: empty, binary, of no known encoding, a damaged archive, or a row without an end.
    """
    with path.open("rb") as raw, gzip.open(raw) if path.suffix.lower() == ".gz" else raw as file:
        first = _read(file, block, where)
        more = len(first) == block
        # A line end is no place to cut an encoding of several bytes a character, whose blocks are even anyway.
        whole = more and b"\n" in first and b"\x00" not in first
        start = first[: first.rfind(b"\n") + 1] if whole else first
        text = as_utf8(start, where, encoding)
        layout, recode = layout_of(text.data, more), Recoder(text.encoding, where)
        waiting, notes, lines = text.data, text.notes, 0
        for more_bytes, last in _blocks(file, first[len(start) :], more, block, where):
            waiting += recode(more_bytes, lines + waiting.count(b"\n"), last)
            cut = len(waiting) if last else row_end(waiting, layout)
            if cut:
                yield Piece(waiting[:cut], lines, raw.tell(), notes)
                lines, waiting, notes = lines + waiting.count(b"\n", 0, cut), waiting[cut:], ()
            elif not last and len(waiting) > LONGEST * block:
                came, fix = f"more than {len(waiting):,} bytes without one", "check the quotes from that line on"
                raise InputError("the end of a row", came, f"{where}: line {lines + 1}", fix)


def _blocks(file: Any, rest: bytes, more: bool, size: int, where: str) -> Iterator[tuple[bytes, bool]]:
    """What is left of the first block, then the others; and whether nothing follows."""
    yield rest, not more
    while more:
        block = _read(file, size, where)
        more = bool(block)
        yield block, not more


def row_end(data: bytes, layout: Layout) -> int:
    """After the last row that surely ends within a beginning of a text; 0 where none does.

    >>> row_end(b'a,"1\\n2"\\nb,"3\\n4', Layout())
    8
    >>> row_end(b'5" pipe,1\\n6" pipe,"2\\n', Layout())
    10
    """
    end = data.rfind(b"\n") + 1
    if layout.separator == SPACES or (end and b'"' not in data):
        return end
    if end and b'"' in data:
        body = np.frombuffer(data, np.uint8)
        quotes, ends = np.flatnonzero(body == ord('"')), np.flatnonzero(body == ord("\n"))
        outside = ends[np.searchsorted(quotes, ends) % 2 == 0]
        cut = int(outside[-1]) + 1 if len(outside) else 0
        if cut and outside_quotes(data[:cut], layout.separator) is not None:
            return cut
    return _strict_end(data.decode(errors="ignore"), layout)


def _strict_end(text: str, layout: Layout) -> int:
    """The same by the strict reader; what it refuses is left for the next piece, which then begins with it.

    Raises:
        csv.Error: the first row is at fault whatever follows.
    """
    read = end = 0

    def counted() -> Iterator[str]:
        nonlocal read
        for line in io.StringIO(text, newline=""):
            read += len(line)
            yield line

    reader = csv.reader(counted(), delimiter=layout.separator, strict=True, skipinitialspace=layout.padded)
    try:
        for _ in reader:
            # A return may be half of a line end, and a row without a line end may go on.
            if text[read - 1] == "\n" or (text[read - 1] == "\r" and read < len(text)):
                end = read
    except csv.Error:
        if not end and read < len(text):
            end = len(text)  # the reader of the piece says what is wrong with it, and on which line
    return len(text[:end].encode())


def estimated_memory(path: Path) -> int:
    """About how many bytes a text file takes as a table in memory, by its beginning."""
    size = path.stat().st_size
    packed = path.suffix.lower() == ".gz"
    with path.open("rb") as raw, gzip.open(raw) if packed else raw as file:
        head = _read(file, HEAD, str(path))
        read = max(1, min(raw.tell(), size)) if packed else max(1, len(head))
    return int(text_memory(head, small=0) * max(1.0, size / read))


def _read(file: Any, size: int, where: str) -> bytes:
    """Bytes of an open file, as many as asked for unless it ends.

    Raises:
        InputError: the compressed file is damaged or cut short.
    """
    try:
        found: bytes = file.read(size)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError("a whole gzip file", short(error), where=where, fix="copy the file again") from None
    return found
