"""Tables of text: CSV, TSV, headerless ``.data`` and ARFF, read strictly and written plainly.

Polars reads the cells. It forgives what a strict reader does not (rows with too few cells, stray quotes), so the
file's quotes, separators and line ends are checked against the rows that came out. A file that does not pass is read
again by Python's strict `csv`, which either succeeds or names the line at fault.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import polars as pl

from concrete_score.data.frame import Form, Frame, unique_names
from concrete_score.errors import InputError

_HEAD = 2**22
"""Bytes in which the first record must end."""
_BLOCK = 50_000
"""Rows that the strict reader holds as Python objects at a time."""
_MARK = b"\xef\xbb\xbf"
_QUOTE, _NEWLINE, _RETURN = ord('"'), ord("\n"), ord("\r")
_ATTRIBUTE = re.compile(r"@attribute\s+(?:'([^']*)'|\"([^\"]*)\"|(\S+))\s", re.IGNORECASE)


@dataclass(frozen=True)
class TextTable:
    """A text format: how its cells are separated, and whether the first line names the columns.

    >>> TextTable("csv").read(b"a,b\\n1,x\\n2,\\n", "data.csv").rows()
    [('1', 'x'), ('2', None)]
    """

    kind: str
    separator: str = ","
    header: bool = True

    def read(self, data: bytes, where: str) -> Frame:
        """A table of text cells.

        Raises:
            InputError: empty, binary, not UTF-8, ragged or without rows; the line is named.
        """
        _refuse_binary(data, where)
        first = _first_record(data, self.separator, where)
        if not any(first):
            raise InputError("a table", "an empty file", where=where, fix="give one with a header and rows")
        names = unique_names(first, where) if self.header else tuple(f"x{d}" for d in range(len(first)))
        table = self._read_quickly(data, names)
        if table is None:
            table = self._read_strictly(data, names, where)
        if not len(table):
            raise InputError("a table with rows", "a header alone", where=where, fix="add rows below the header")
        blank = [series.name for series in table if (series == "").any()]
        table = table.with_columns(pl.when(pl.col(name) != "").then(pl.col(name)).alias(name) for name in blank)
        return Frame(table, Form(self.kind), where, named=self.header)

    def write(self, parts: Iterator[Frame], file: Any) -> None:
        """The parts of a table below one another, the names once."""
        for number, frame in enumerate(parts):
            header = self.header and number == 0
            frame.table.write_csv(file, separator=self.separator, include_header=header)

    def _read_quickly(self, data: bytes, names: Sequence[str]) -> pl.DataFrame | None:
        """The cells by polars; None where the file is not plainly well-formed."""
        # Polars takes an empty line for a blank cell, and passes over a separator that ends the file: both could make
        # up for a row that is too short.
        if len(names) == 1 or data.endswith(self.separator.encode()):
            return None
        counts = _outside_quotes(data, self.separator)
        if counts is None:
            return None
        try:
            table = pl.read_csv(
                data,
                has_header=False,
                skip_rows=int(self.header),
                schema={f"x{d}": pl.String() for d in range(len(names))},
                separator=self.separator,
                quote_char='"' if b'"' in data else None,
                empty_string_is_null=False,
                # Missing cells are found by counting separators; polars' own guess of the width errs on quoted cells.
                missing_columns="insert",
                glob=False,
            )
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, OverflowError):
            return None
        rows = len(table) + self.header
        if counts != (rows * (len(names) - 1), rows):
            return None
        return table.rename(dict(zip(table.columns, names, strict=True)))

    def _read_strictly(self, data: bytes, names: Sequence[str], where: str) -> pl.DataFrame:
        """The cells by Python's `csv` in strict mode; empty lines are passed over.

        Raises:
            InputError: not UTF-8, a quote left open, or a row with another number of cells; the line is named.
        """
        records = _records(decode(data, where), self.separator, where, len(names))
        if self.header:
            next(records, None)
        blocks = []
        while block := list(islice(records, _BLOCK)):
            blocks.append(pl.DataFrame(dict(zip(names, map(list, zip(*block, strict=True)), strict=True))))
        return pl.concat(blocks) if blocks else pl.DataFrame({name: pl.Series([], dtype=pl.String) for name in names})


def read_arff(data: bytes, where: str) -> Frame:
    """The rows of an ARFF file with nominal attributes as a table of text; ``?`` is blank.

    Raises:
        InputError: not UTF-8, no attributes, no rows, or a row of another length; the line is named.

    >>> read_arff(b"@relation r\\n@attribute 'a' {x, y}\\n@attribute b {1, 2}\\n@data\\nx,1\\ny,?\\n", "r.arff").rows()
    [('x', '1'), ('y', None)]
    """
    lines = decode(data, where).splitlines()
    start = next((at for at, line in enumerate(lines) if line.strip().lower() == "@data"), None)
    if start is None:
        raise InputError("an ARFF file", "no @data", where=where)
    found = filter(None, map(_ATTRIBUTE.match, lines[:start]))
    names = [next(name for name in match.groups() if name is not None) for match in found]
    rows = []
    for number, line in enumerate(lines[start + 1 :], start=start + 2):
        if not line.strip() or line.startswith("%"):
            continue
        cells = next(csv.reader([line], quotechar="'", skipinitialspace=True))
        if len(cells) != len(names):
            raise InputError(f"{len(names)} cells", str(len(cells)), where=f"{where}: line {number}")
        rows.append([cell.strip() if cell.strip() not in ("", "?") else None for cell in cells])
    if not rows or not names:
        raise InputError("attributes and rows", f"{len(names)} and {len(rows)}", where=where)
    table = pl.DataFrame(rows, schema={name: pl.String() for name in unique_names(names, where)}, orient="row")
    return Frame(table, Form("csv"), where)


def decode(data: bytes, where: str) -> str:
    """Bytes as UTF-8 text.

    Raises:
        InputError: they are not; the line of the first wrong byte is named.

    >>> decode("Zürich".encode("latin-1"), "data.csv")
    Traceback (most recent call last):
    concrete_score.errors.InputError: data.csv: line 1: expected UTF-8 text, got byte 0xfc; ...
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The decoder counts from behind the byte-order mark.
        at = error.start + (len(_MARK) if data.startswith(_MARK) else 0)
        place = f"{where}: line {data.count(_NEWLINE, 0, at) + 1}"
        raise InputError("UTF-8 text", f"byte 0x{data[at]:02x}", place, "save the file as UTF-8") from None


def _refuse_binary(data: bytes, where: str) -> None:
    """Refuse what cannot be UTF-8 text, before it is taken for a strange table.

    >>> _refuse_binary(b"a,b\\x00", "data.csv")
    Traceback (most recent call last):
    concrete_score.errors.InputError: data.csv: line 1: expected UTF-8 text, got a binary file (byte 0x00); ...
    """
    if not data:
        raise InputError("a table", "an empty file", where=where, fix="give one with a header and rows")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError("UTF-8 text", "UTF-16", where=where, fix="save the file as UTF-8")
    at = data.find(b"\x00")
    if at >= 0:
        place = f"{where}: line {data.count(_NEWLINE, 0, at) + 1}"
        fix = "give a text table, or name the file by its true ending"
        raise InputError("UTF-8 text", "a binary file (byte 0x00)", place, fix)


def _first_record(data: bytes, separator: str, where: str) -> list[str]:
    """The cells of the first line; a quoted cell may run over several."""
    head = data[:_HEAD]
    text = head.decode("utf-8-sig", errors="ignore" if len(head) == _HEAD else "surrogateescape")
    cells = next(_records(text, separator, where), [])
    if any("\ud800" <= character <= "\udfff" for cell in cells for character in cell):
        decode(data, where)  # names the line
    return cells


def _outside_quotes(data: bytes, separator: str) -> tuple[int, int] | None:
    """How many separators and how many lines a well-formed file has outside its quotes; None for any other file.

    A quote opens a cell at its start, closes it at its end, or stands doubled inside; a doubled one is a close and an
    open without anything between them.
    """
    returns = data.count(b"\r")
    if returns and returns != data.count(b"\r\n"):
        return None
    unfinished = int(not data.endswith(b"\n"))
    if b'"' not in data:
        return data.count(separator.encode()), data.count(b"\n") + unfinished
    body = np.frombuffer(data, np.uint8)
    start = len(_MARK) if data.startswith(_MARK) else 0
    quotes = np.flatnonzero(body == _QUOTE)
    if len(quotes) % 2:
        return None
    edges = np.zeros(256, bool)
    edges[[ord(separator), _NEWLINE, _RETURN, _QUOTE]] = True
    opening, closing = quotes[::2], quotes[1::2]
    before = edges[body[opening - 1]] | (opening == start)
    after = edges[body[np.minimum(closing + 1, len(body) - 1)]] | (closing == len(body) - 1)
    if not (before.all() and after.all()):
        return None
    separators, lines = (
        int((np.searchsorted(quotes, np.flatnonzero(body == mark)) % 2 == 0).sum())
        for mark in (ord(separator), _NEWLINE)
    )
    return separators, lines + unfinished


def _records(text: str, separator: str, where: str, width: int | None = None) -> Iterator[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    while True:
        line = f"{where}: line {reader.line_num + 1}"
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise InputError("well-formed cells", str(error), line, "check the quotes on that line") from None
        if cells is None:
            return
        if not cells:
            continue
        if width is not None and len(cells) != width:
            fix = "correct that line; a cell that holds the separator needs double quotes"
            raise InputError(f"{width} cells, as on the first line", str(len(cells)), line, fix)
        yield cells
