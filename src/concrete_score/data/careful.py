"""The slow, exact reader of delimited text: it reads what is right and names the line of what is not."""

import csv
import io
import mmap
from collections.abc import Iterator, Sequence
from itertools import islice

import polars as pl

from concrete_score.data.columns import text_column
from concrete_score.data.frame import Column
from concrete_score.errors import InputError

Buffer = bytes | mmap.mmap

_HEAD = 2**22
_ROWS = 50_000
_MARK = b"\xef\xbb\xbf"
_WIDE_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


def refuse_encoding(view: Buffer, where: str) -> None:
    """Refuse what cannot be UTF-8 text, before it is taken for a strange table.

    >>> refuse_encoding(b"a,b\\x00", "data.csv")
    Traceback (most recent call last):
    concrete_score.errors.InputError: data.csv: line 1: expected UTF-8 text, got a binary file (byte 0x00); ...
    """
    if wide := _WIDE_MARKS.get(view[:2]):
        raise InputError("UTF-8 text", wide, where=where, fix="save the file as UTF-8")
    at = view.find(b"\x00")
    if at >= 0:
        raise InputError(
            "UTF-8 text",
            "a binary file (byte 0x00)",
            where=f"{where}: line {_line(view, at)}",
            fix="give a text table, or name the file by its true ending",
        )


def first_record(view: Buffer, separator: str, where: str) -> list[str]:
    """The cells of the first line; a quoted cell may run over several."""
    head = view[:_HEAD]
    text = head.decode("utf-8-sig", errors="ignore" if len(head) == _HEAD else "surrogateescape")
    cells = next(_records(text, separator, where), [])
    if any("\ud800" <= letter <= "\udfff" for cell in cells for letter in cell):
        # Not UTF-8: this says where.
        decode(view[:], where)
    return cells


def read_carefully(data: bytes, names: Sequence[str], separator: str, header: bool, where: str) -> list[Column]:
    """All columns, by Python's own `csv` in strict mode; lines without any letter are passed over.

    Raises:
        InputError: not UTF-8, a quote left open, or a row with another number of cells; the line is named.
    """
    records = _records(decode(data, where), separator, where, len(names))
    if header:
        next(records, None)
    blocks = []
    while block := list(islice(records, _ROWS)):
        blocks.append(pl.DataFrame([pl.Series(f"x{d}", cells) for d, cells in enumerate(zip(*block, strict=True))]))
    if not blocks:
        return [text_column(pl.Series(name, [], dtype=pl.String)) for name in names]
    return [text_column(series.alias(name)) for series, name in zip(pl.concat(blocks), names, strict=True)]


def decode(data: bytes, where: str) -> str:
    """Bytes as UTF-8 text, or the line of the first that is not.

    >>> decode("Zürich".encode("latin-1"), "data.csv")
    Traceback (most recent call last):
    concrete_score.errors.InputError: data.csv: line 1: expected UTF-8 text, got byte 0xfc; ...
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The decoder counts from behind the byte-order mark.
        at = error.start + (len(_MARK) if data.startswith(_MARK) else 0)
        raise InputError(
            "UTF-8 text",
            f"byte 0x{data[at]:02x}",
            where=f"{where}: line {_line(data, at)}",
            fix="save the file as UTF-8",
        ) from None


def _records(text: str, separator: str, where: str, width: int | None = None) -> Iterator[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    while True:
        start = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise InputError(
                "well-formed cells", str(error), where=f"{where}: line {start}", fix="check the quotes on that line"
            ) from None
        if cells is None:
            return
        if not cells:
            continue
        if width is not None and len(cells) != width:
            raise InputError(
                f"{width} cells, as on the first line",
                str(len(cells)),
                where=f"{where}: line {start}",
                fix="mend that line; a cell that holds the separator needs double quotes",
            )
        yield cells


def _line(view: Buffer, at: int) -> int:
    return view[:at].count(b"\n") + 1
