"""Strict reading of text, record by record: the line at fault is named, and no two records are ever merged.

Quotes, separators and line ends are those of Python's `csv` in strict mode. Where spaces separate, any number of spaces
and tabs lies between two cells, and a quoted cell ends on its line.
"""

import csv
import io
import re
from collections.abc import Iterator

import numpy as np

from concrete_score.errors import InputError

SPACES = " "
"""The separator that means any number of spaces and tabs."""
NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", SPACES: "space"}
"""What the usual separators are called."""
_QUOTE, _NEWLINE, _RETURN = ord('"'), ord("\n"), ord("\r")
_CELLS = re.compile(r'"((?:[^"]|"")*)"|([^ \t"][^ \t]*)')
_LINE = re.compile(r'[ \t]*(?:(?:"(?:[^"]|"")*"|[^ \t"][^ \t]*)(?:[ \t]+|$))*')


def records(
    text: str, separator: str, where: str, width: int | None = None, padded: bool = False
) -> Iterator[list[str]]:
    """The cells of each record; empty lines are passed over.

    Args:
        text: all of the file, or its beginning.
        separator: between cells; a space stands for any number of them.
        where: what to call the file in messages.
        width: how many cells each record must have.
        padded: whether spaces before a cell are no part of it.

    Raises:
        InputError: a stray or open quote, or another number of cells; the line is named.

    >>> list(records('a,b\\n"1, 2",3\\n', ",", "t.csv")), list(records(" 1   2\\n10  3\\n", " ", "t.data"))
    ([['a', 'b'], ['1, 2', '3']], [['1', '2'], ['10', '3']])
    """
    found = _spaced(text, where) if separator == SPACES else _separated(text, separator, where, padded)
    for line, cells in found:
        if width is not None and len(cells) != width:
            fix = "correct that line; a cell that holds the separator needs double quotes"
            kind = "" if separator == "," else f" separated by {NAMES.get(separator, 'mark')}s"
            raise InputError(
                f"{width} cells{kind}, as on the first line", str(len(cells)), f"{where}: line {line}", fix
            )
        yield cells


def _separated(text: str, separator: str, where: str, padded: bool) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True, skipinitialspace=padded)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            place = f"{where}: line {line}"
            raise InputError("well-formed cells", str(error), place, "check the quotes on that line") from None
        if cells is None:
            return
        if cells:
            yield line, cells


def _spaced(text: str, where: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(io.StringIO(text, newline=None), start=1):
        line = line.removesuffix("\n")
        if not _LINE.fullmatch(line):
            came, fix = "a quote that does not enclose a cell", "check the quotes on that line"
            raise InputError("well-formed cells", came, f"{where}: line {number}", fix)
        cells = [plain or quoted.replace('""', '"') for quoted, plain in _CELLS.findall(line)]
        if cells:
            yield number, cells


def outside_quotes(data: bytes, separator: str) -> tuple[int, int] | None:
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
    quotes = np.flatnonzero(body == _QUOTE)
    if len(quotes) % 2:
        return None
    edges = np.zeros(256, bool)
    edges[[ord(separator), _NEWLINE, _RETURN, _QUOTE]] = True
    opening, closing = quotes[::2], quotes[1::2]
    before = edges[body[opening - 1]] | (opening == 0)
    after = edges[body[np.minimum(closing + 1, len(body) - 1)]] | (closing == len(body) - 1)
    if not (before.all() and after.all()):
        return None
    separators, lines = (
        int((np.searchsorted(quotes, np.flatnonzero(body == mark)) % 2 == 0).sum())
        for mark in (ord(separator), _NEWLINE)
    )
    return separators, lines + unfinished
