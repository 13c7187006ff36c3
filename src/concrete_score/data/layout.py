"""How a text table is laid out: what separates its cells, and whether its first line names the columns.

Both are noticed from the first records, and said. The format's own way is kept wherever the file can be read so:
another separator must divide every record into the same number of cells, and a first line is a row, or names, only
where the lines below it leave no doubt. A file is then read strictly in the way that was noticed.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from math import isclose
from typing import Any, NamedTuple

import numpy as np

from concrete_score.errors import InputError, Option, Part, nearest

SEEN = 200
"""Records from which the layout is noticed."""
_MOST, _NEARLY_ALL = 0.6, 0.9
"""The share of records that a separator, or spaces, must divide alike to be noticed in a file with faults."""
_PREAMBLE, _EVEN_ROWS, _SHOWN = 10, 3, 60
"""Lines before a table at most, rows of it that must be even to be told from them, and how much of them is shown."""
BLANKS = frozenset({"", "?", "NA", "N/A", "n/a", "#N/A", "nan", "NaN", "NAN", "null", "NULL", "None"})
"""What stands in a cell that is blank."""
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DECIMAL = re.compile(r"[+-]?[0-9.]*,[0-9]+([eE][+-]?[0-9]+)?")
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
SPACES = " "
"""The separator that means any number of spaces and tabs."""
NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", SPACES: "space"}
"""What the usual separators are called."""
_QUOTE, _NEWLINE, _RETURN = ord('"'), ord("\n"), ord("\r")
_CELLS = re.compile(r'"((?:[^"]|"")*)"|([^ \t"][^ \t]*)')
_LINE = re.compile(r'[ \t]*(?:(?:"(?:[^"]|"")*"|[^ \t"][^ \t]*)(?:[ \t]+|$))*')
_MARKS = {**dict(zip(NAMES.values(), NAMES, strict=True)), "\\t": "\t"}
_ANSWERS = {"yes": True, "no": False, "auto": None, True: True, False: False, None: None}

Record = list[str]
Note = tuple[Part, ...]


@dataclass(frozen=True)
class Layout:
    """How a text table is laid out.

    Args:
        separator: between its cells.
        header: whether the first line names the columns.
        padded: whether spaces around cells are no part of them.
        notes: what was noticed and is not usual.
        skipped: lines before the table.
        before: what the first line of the table lacks in front, and ``after`` at its end.
    """

    separator: str = ","
    header: bool = True
    padded: bool = False
    notes: tuple[Note, ...] = ()
    skipped: int = 0
    before: str = ""
    after: str = ""

    def table(self, data: bytes) -> bytes:
        """A file without the lines before its table, and with a name for every column."""
        for _ in range(self.skipped):
            data = data.partition(b"\n")[2]
        if self.after:
            line, end, rest = data.partition(b"\n")
            data = line.rstrip(b"\r") + self.after.encode() + end + rest
        return self.before.encode() + data


def notice(head: str, cut: bool, usual: Layout, separator: Any = None, header: Any = None) -> Layout:
    """The layout of a text table by its beginning.

    Args:
        head: the beginning of its text.
        cut: whether there is more.
        usual: how files of its format are laid out.
        separator: what separates its cells, one character or its name; noticed by default.
        header: ``yes`` or ``no``, whether the first line names the columns; noticed by default.

    Raises:
        InputError: no such separator, or no such answer.

    >>> found = notice("length;kind\\n3,5;a\\n2,25;b\\n", False, Layout())
    >>> found.separator, found.header
    (';', True)
    >>> notice("0.5,1\\n0.25,3\\n0.75,2\\n", False, Layout()).header
    False
    """
    chosen, named = check_separator(separator), check_header(header)
    start = _noticed_start(head, cut, usual.separator, chosen, named)
    head = start.table(head.encode()).decode()
    notes: list[Note] = list(start.notes)
    if chosen is None:
        chosen = _noticed_separator(head, cut, usual.separator)
        if chosen != usual.separator:
            own = Option("separator", NAMES[usual.separator])
            notes.append((f"its cells are separated by {NAMES[chosen]}s; if that is wrong, add ", own))
    sample = _sample(head, cut, chosen)
    rows = sample.rows if sample.even else []
    padded = separator is None and chosen != SPACES and _padded(rows, _sample(head, cut, chosen, padded=True))
    if padded:
        notes.append((f"a space follows each {NAMES.get(chosen, 'separator')}, and is no part of the cells",))
    if named is None:
        named, doubt = _noticed_header(rows, usual.header, decimal_commas=chosen == ";")
        notes.extend(doubt)
    return replace(start, separator=chosen, header=named, padded=padded, notes=tuple(notes))


def check_separator(value: Any) -> str | None:
    """A separator from its name or from itself; None for one that is to be noticed.

    Raises:
        InputError: not one ASCII character, or one that cells are made of.

    >>> check_separator("tab"), check_separator("^"), check_separator("auto")
    ('\\t', '^', None)
    """
    if value is None or value == "auto":
        return None
    if isinstance(value, str) and value in _MARKS:
        return _MARKS[value]
    usable = isinstance(value, str) and len(value) == 1 and "\0" < value < "\x7f"
    if not usable or value.isalnum() or value in "\"'\r\n.+-_":
        fix = nearest(str(value), list(NAMES.values()))
        raise InputError("a separator, by name or as one character", repr(value)[:60], Option("separator"), fix)
    return str(value)


def check_header(value: Any) -> bool | None:
    """Whether the first line names the columns, by an answer; None for what is to be noticed.

    Raises:
        InputError: another answer.
    """
    if not isinstance(value, str | bool | None) or value not in _ANSWERS:
        raise InputError("yes, no or auto", repr(value)[:60], Option("header"))
    return _ANSWERS[value]


class _Sample(NamedTuple):
    """The first records by one separator, and whether all of them were well-formed."""

    rows: list[Record]
    sound: bool

    @property
    def width(self) -> int:
        """Cells of the first record."""
        return len(self.rows[0]) if self.rows else 0

    @property
    def share(self) -> float:
        """How many records have as many cells as the first."""
        return sum(len(row) == self.width for row in self.rows) / max(len(self.rows), 1)

    @property
    def even(self) -> bool:
        """Whether every record has the same number of cells."""
        return self.sound and self.share == 1


def _sample(head: str, cut: bool, separator: str, padded: bool = False) -> _Sample:
    rows: list[Record] = []
    sound = True
    try:
        for cells in islice(records(head, separator, "", padded=padded), SEEN + 1):
            rows.append(cells)  # noqa: PERF402  what came before a fault is kept
    except InputError:
        sound = cut  # a beginning may end inside quotes
    if cut and sound and len(rows) <= SEEN:
        rows = rows[:-1]  # it may end inside a record
    return _Sample(rows[:SEEN], sound)


def _noticed_start(head: str, cut: bool, own: str, chosen: str | None, named: bool | None) -> Layout:
    """Lines of fewer cells before a table whose records are even, or a first line that lacks one name."""
    marks = [chosen] if chosen is not None else list(dict.fromkeys((own, ";", "\t", "|", ",")))
    found = {mark: _sample(head, cut, mark) for mark in marks}
    if any(sample.even and sample.width > 1 for sample in found.values()):
        return Layout()
    if chosen is None and own not in head.partition("\n")[0]:
        found[SPACES] = _sample(head, cut, SPACES)
    # Of several marks the one that divides the rows into most cells.
    for mark, sample in sorted(found.items(), key=lambda item: -len(item[1].rows[-1]) if item[1].rows else 0):
        widths = [len(row) for row in sample.rows]
        first = next((at for at in range(len(widths)) if len(set(widths[at:])) == 1), 0)
        even = sample.sound and len(widths) - first >= _EVEN_ROWS and max(widths[:first], default=0) < widths[-1]
        if not even or not 1 <= first <= _PREAMBLE:
            continue
        if first == 1 and widths[0] == widths[1] - 1 and named is not False and _all_names(sample.rows[0]):
            return _with_name(mark, sample.rows[1:])
        if mark != SPACES:
            return _below(head, mark, first)
    return Layout()


def _all_names(first: Record) -> bool:
    return all(first) and not any(map(_NUMBER.fullmatch, first)) and len(set(first)) == len(first)


def _with_name(mark: str, body: list[Record]) -> Layout:
    """A first line that has one name fewer than the rows have cells."""
    if not any(row[-1] for row in body):
        return Layout(
            notes=((f"every row ends in a {NAMES.get(mark, 'separator')} with no cell behind it",),), after=mark
        )
    note = "its first line has no name for the first column, which is called column_1"
    return Layout(notes=((note,),), before=f'""{mark}')


def _below(head: str, mark: str, first: int) -> Layout:
    """A table below so many records that are not part of it."""
    line = next(islice(_separated(head, mark, "", False), first, None))[0]
    shown = head.partition("\n")[0].strip()[:_SHOWN]
    count = "its first line is" if line == 2 else f"its first {line - 1} lines are"
    return Layout(notes=((f"{count} not part of the table below, and passed over: {shown!r}",),), skipped=line - 1)


def _noticed_separator(head: str, cut: bool, own: str) -> str:
    """The format's own separator, unless another one divides the records evenly and this one does not, or into fewer.

    Where none divides them evenly, the one that divides most: the line at fault is found by it.
    """
    found = {mark: _sample(head, cut, mark) for mark in dict.fromkeys((own, ";", "\t", "|", ","))}
    even = {mark: sample for mark, sample in found.items() if sample.even and sample.width > 1}
    if own == "," in even and ";" in even and _decimal_commas(even[";"].rows):
        return ";"
    if own not in even and _spaces(head, cut, found):
        return SPACES
    if not even and found[own].width < 2:
        even = {mark: sample for mark, sample in found.items() if sample.width > 1 and sample.share > _MOST}
    return max(even, key=lambda mark: (found[mark].width, mark == own), default=own)


def _spaces(head: str, cut: bool, found: Mapping[str, _Sample]) -> bool:
    """Whether spaces divide the records evenly, and nothing else could; a tab may stand among them."""
    start = _QUOTED.sub("", head.lstrip("\r\n").partition("\n")[0])
    if any(mark in start for mark in found if mark != "\t") or ("\t" in start and "  " not in start):
        return False
    spaced = _sample(head, cut, SPACES)
    divided = spaced.even or spaced.share > _NEARLY_ALL
    return divided and len(spaced.rows) > 1 and spaced.width >= max(found["\t"].width, 2)


def _decimal_commas(rows: list[Record]) -> bool:
    """Whether every comma stands inside a number."""
    return all(_DECIMAL.fullmatch(cell) for row in rows for cell in row if "," in cell)


def _padded(rows: list[Record], stripped: _Sample) -> bool:
    """Whether a space follows every separator, and the records are as even without it."""
    later = [cell for row in rows for cell in row[1:]]
    spaced = any(later) and all(cell.startswith(" ") or not cell for cell in later)
    return spaced and stripped.even and stripped.width == len(rows[0])


def _noticed_header(rows: list[Record], usual: bool, decimal_commas: bool) -> tuple[bool, list[Note]]:
    """Whether the first record names the columns, and a note where that is not usual or not certain."""
    if len(rows) < 2:
        return usual, []
    first, *body = ([_plain(cell, decimal_commas) for cell in row] for row in rows)
    columns = [[cell for cell in column if cell not in BLANKS] for column in zip(*body, strict=True)]
    numeric = [bool(column) and all(map(_NUMBER.fullmatch, column)) for column in columns]
    if not usual:
        if not _names_numbers(first, columns, numeric):
            return False, []
        return True, [("its first line names the columns; if it is a row, add ", Option("header", "no"))]
    if _is_row(first, columns, numeric):
        called = "its first line is a row like the others, so its columns are called x0, x1, …"
        return False, [(f"{called}; if it names them, add ", Option("header", "yes"))]
    if all(map(_NUMBER.fullmatch, filter(None, first))):
        shown = ", ".join(filter(None, first[:3])) + (", …" if len(first) > 3 else "")
        return True, [(f"its first line ({shown}) names the columns; if it is a row, add ", Option("header", "no"))]
    return True, []


def _plain(cell: str, decimal_commas: bool) -> str:
    return cell.strip().replace(",", ".") if decimal_commas else cell.strip()


def _names_numbers(first: Record, columns: Sequence[Record], numeric: Sequence[bool]) -> bool:
    """Whether a first record of different words stands above numbers, and none of its words comes again."""
    words = all(cell not in BLANKS and not _NUMBER.fullmatch(cell) for cell in first)
    again = any(cell in column for cell, column in zip(first, columns, strict=True))
    return words and any(numeric) and not again and len(set(first)) == len(first)


def _is_row(first: Record, columns: Sequence[Record], numeric: Sequence[bool]) -> bool:
    """Whether a first record has a number in each column of numbers, and elsewhere words that come again below it."""
    if not any(numeric):
        return False
    inside = []
    for cell, column, numbers in zip(first, columns, numeric, strict=True):
        blank = cell != "" and cell in BLANKS
        if not blank and not (_NUMBER.fullmatch(cell) if numbers else cell in column):
            return False
        if numbers and not blank:
            inside.append(_lies_in(float(cell), map(float, column)))
    # Numbers as names count evenly, or have nothing to do with those below them.
    return sum(inside) * 2 >= max(len(inside), 1) and not _count_evenly(first)


def _lies_in(number: float, column: Iterable[float]) -> bool:
    known = list(column)
    least, most = min(known), max(known)
    margin = max(most - least, abs(least), abs(most))
    return least - margin <= number <= most + margin


def _count_evenly(first: Record) -> bool:
    """Whether all cells are numbers in even steps, as in 0, 1, 2 or 2010, 2015, 2020; of two, 0 and 1 or 1 and 2."""
    if len(first) < 2 or not all(map(_NUMBER.fullmatch, first)):
        return False
    numbers = [float(cell) for cell in first]
    steps = [after - before for before, after in pairwise(numbers)]
    if len(numbers) == 2:
        return steps[0] == 1 and numbers[0] in (0, 1)
    return steps[0] != 0 and all(isclose(step, steps[0], rel_tol=1e-6) for step in steps)


def records(
    text: str, separator: str, where: str, width: int | None = None, padded: bool = False, skipped: int = 0
) -> Iterator[list[str]]:
    """The cells of each record; empty lines are passed over.

    Args:
        text: all of the file, or its beginning.
        separator: between cells; a space stands for any number of them.
        where: what to call the file in messages.
        width: how many cells each record must have.
        padded: whether spaces around a cell are no part of it.
        skipped: lines of the file before the text.

    Raises:
        InputError: a stray or open quote, or another number of cells; the line is named.

    >>> list(records('a,b\\n"1, 2",3\\n', ",", "t.csv")), list(records(" 1   2\\n10  3\\n", " ", "t.data"))
    ([['a', 'b'], ['1, 2', '3']], [['1', '2'], ['10', '3']])
    """
    read = _spaced if separator == SPACES else _separated
    for line, cells in read(text, separator, where, padded, skipped):
        if width is not None and len(cells) != width:
            fix = "correct that line; a cell that holds the separator needs double quotes"
            kind = "" if separator == "," else f" separated by {NAMES.get(separator, 'mark')}s"
            raise InputError(
                f"{width} cells{kind}, as on the first line", str(len(cells)), f"{where}: line {line}", fix
            )
        yield cells


def _separated(
    text: str, separator: str, where: str, padded: bool, skipped: int = 0
) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True, skipinitialspace=padded)
    while True:
        line = skipped + reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            place = f"{where}: line {line}"
            raise InputError("well-formed cells", str(error), place, "check the quotes on that line") from None
        if cells is None:
            return
        if cells:
            yield line, [cell.rstrip(" ") for cell in cells] if padded else cells


def _spaced(text: str, separator: str, where: str, padded: bool, skipped: int = 0) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(io.StringIO(text, newline=None), start=skipped + 1):
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
