"""Tables of text: CSV, TSV, headerless ``.data`` and ARFF, read strictly and written plainly.

Encoding and layout are noticed, or given. Polars reads the cells. It forgives what a strict reader does not (rows with
too few cells, stray quotes), so the file's quotes, separators and line ends are checked against the rows that came out.
A file that does not pass is read again by Python's strict `csv`, which either succeeds or names the line at fault.
"""

import csv
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from concrete_score.data.encoding import as_utf8
from concrete_score.data.frame import Form, Frame, unique_names
from concrete_score.data.layout import BLANKS, SPACES, Layout, Note, notice, outside_quotes, records
from concrete_score.data.pieces import BLOCK, pieces
from concrete_score.errors import InputError, Option

_HEADS = (2**16, 2**19, 2**22)
"""Bytes from which the layout is noticed: the fewest with some records. The first record must end in the most."""
_FEW = 8
_BLOCK = 50_000
"""Rows that the strict reader holds as Python objects at a time."""
_LOOKED_AT = 50
"""Rows that say whether a column can be numbers."""
_WIDE = 5000
"""Columns from which on looking at each of them takes longer than looking through the file."""
_SHOWN = 3
_ATTRIBUTE = re.compile(r"@attribute\s+(?:'([^']*)'|\"([^\"]*)\"|(\S+))\s", re.IGNORECASE)
_NOTHING = "|".join(map(re.escape, sorted(BLANKS)))
_DECIMAL = rf"^(?:{_NOTHING}|[+-]?([0-9]+(,[0-9]+)?|,[0-9]+)([eE][+-]?[0-9]+)?)$"
_BOTH = r"\..*,"
_GROUPED = rf"^(?:{_NOTHING}|[+-]?[0-9]{{1,3}}(\.[0-9]{{3}})*(,[0-9]+)?)$"


@dataclass(frozen=True)
class TextTable:
    """A text format: how its cells are separated, and whether the first line names the columns.

    >>> TextTable("csv").read(b"a,b\\n1,x\\n2,\\n", "data.csv").rows()
    [('1', 'x'), ('2', None)]
    >>> found = TextTable("csv").read(b"a;b\\n1,5;x\\n2,25;y\\n", "data.csv")
    >>> found.rows(), len(found.notes)
    ([('1.5', 'x'), ('2.25', 'y')], 2)
    """

    kind: str
    separator: str = ","
    header: bool = True

    def read(
        self, data: bytes, where: str, *, encoding: Any = None, header: Any = None, separator: Any = None
    ) -> Frame:
        """A table of text cells; what was noticed about the file is in its ``notes``.

        Args:
            data: the file's content.
            where: what to call it in messages.
            encoding: by its name; noticed by default.
            header: ``yes`` or ``no``, whether the first line names the columns; noticed by default.
            separator: one character, or its name; noticed by default.

        Raises:
            InputError: empty, binary, of no known encoding, ragged or without rows; the line is named.
        """
        data, notes, _ = as_utf8(data, where, encoding)
        layout = notice(*_head(data), Layout(self.separator, self.header), separator, header)
        data = layout.table(data)
        table = _cells(data, _names_of(data, layout, where), layout, where)
        if not len(table):
            raise InputError("a table with rows", "a header alone", where=where, fix="add rows below the header")
        if layout.separator == ";":
            table, more = _with_decimal_points(table)
            layout = replace(layout, notes=(*layout.notes, *more))
        return Frame(table, Form(self.kind), where, named=layout.header, notes=(*notes, *layout.notes))

    def stream(
        self,
        path: Path,
        where: str,
        *,
        encoding: Any = None,
        header: Any = None,
        separator: Any = None,
        block: int = BLOCK,
    ) -> Iterator[tuple[Frame, int]]:
        """The same table in parts, and how many bytes of the file were read for each and those before it.

        Encoding and layout are noticed in the first block. All parts together are what `read` gives, unless a later
        block contradicts the first, which is refused.

        Raises:
            InputError: as `read`; or decimal commas in some blocks of a column that others show to be text.
        """
        layout, names, commas = Layout(), tuple[str, ...](), _DecimalCommas()

        def look(data: bytes, more: bool) -> Layout:
            nonlocal layout
            head, cut = _head(data)
            layout = notice(head, cut or more, Layout(self.separator, self.header), separator, header)
            return layout

        first, notes = 0, tuple[Note, ...]()
        for piece in pieces(path, where, encoding, look, block):
            data, here = piece.data, replace(layout, header=False, skipped=piece.lines)
            if not names:
                data, here, notes = layout.table(data), layout, (*piece.notes, *layout.notes)
                names = _names_of(data, layout, where)
            table = _cells(data, names, here, where)
            if layout.separator == ";":
                table, more = commas.points(table, where)
                notes = (*notes, *more)
            if len(table):
                frame = Frame(table, Form(self.kind), where, named=layout.header, notes=notes, first=first)
                yield frame, piece.read
                first, notes = first + len(table), ()
        if not first:
            raise InputError("a table with rows", "a header alone", where=where, fix="add rows below the header")

    def write(self, parts: Iterator[Frame], file: Any) -> None:
        """The parts of a table below one another, the names once."""
        for number, frame in enumerate(parts):
            header = self.header and number == 0
            frame.table.write_csv(file, separator=self.separator, include_header=header)


def _head(data: bytes) -> tuple[str, bool]:
    """The beginning of a file that is surely UTF-8, and whether there is more."""
    size = next((each for each in _HEADS if data.count(b"\n", 0, each) >= _FEW), _HEADS[-1])
    return data[:size].decode(errors="ignore"), size < len(data)


def _names_of(data: bytes, layout: Layout, where: str) -> tuple[str, ...]:
    """The names of a file's columns, or x0, x1, … where it has none."""
    first = _first_record(data, layout, where)
    if not any(first):
        raise InputError("a table", "an empty file", where=where, fix="give one with a header and rows")
    return _names(first, where) if layout.header else tuple(f"x{d}" for d in range(len(first)))


def _cells(data: bytes, names: Sequence[str], layout: Layout, where: str) -> pl.DataFrame:
    """The cells of a file in a known layout; empty ones are null."""
    # Polars gives empty cells as null, but not those that were quoted or stripped.
    plain = not layout.padded and b'""' not in data
    table = read_quickly(data, names, layout, nulls=plain)
    if table is not None and plain:
        return table
    return _without_empty(read_strictly(data, names, layout, where) if table is None else table, data, layout.separator)


def _names(first: Sequence[str], where: str) -> tuple[str, ...]:
    try:
        return unique_names(first, where)
    except InputError as error:
        fix = [error.fix, ("if it is a row, add ", Option("header", "no"))]
        raise InputError(error.expected, error.came, error.where, fix) from None


def _first_record(data: bytes, layout: Layout, where: str) -> list[str]:
    """The cells of the first line; a quoted cell may run over several."""
    text = data[: _HEADS[-1]].decode(errors="ignore")
    return next(records(text, layout.separator, where, padded=layout.padded), [])


def read_quickly(data: bytes, names: Sequence[str], layout: Layout, *, nulls: bool = False) -> pl.DataFrame | None:
    """The cells by polars, empty ones as null if ``nulls``; None where the file is not plainly well-formed."""
    # Polars takes an empty line for a blank cell, and passes over a separator that ends the file: both could make up
    # for a row that is too short.
    separator = layout.separator
    if separator == SPACES or len(names) == 1 or data.endswith(separator.encode()):
        return None
    counts = outside_quotes(data, separator)
    if counts is None:
        return None
    try:
        table = pl.read_csv(
            data,
            has_header=False,
            skip_rows=int(layout.header),
            schema={f"x{d}": pl.String() for d in range(len(names))},
            separator=separator,
            quote_char='"' if b'"' in data else None,
            empty_string_is_null=nulls,
            # Missing cells are found by counting separators; polars' own guess of the width errs on quoted cells.
            missing_columns="insert",
            glob=False,
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, OverflowError):
        return None
    rows = len(table) + layout.header
    if counts != (rows * (len(names) - 1), rows):
        return None
    if layout.padded:
        table = table.with_columns(pl.all().str.strip_chars(" "))
    table.columns = list(names)
    return table


def read_strictly(data: bytes, names: Sequence[str], layout: Layout, where: str) -> pl.DataFrame:
    """The cells by Python's `csv` in strict mode; empty lines are passed over.

    Raises:
        InputError: a quote left open, or a row with another number of cells; the line is named.
    """
    found = records(data.decode(), layout.separator, where, len(names), layout.padded, layout.skipped)
    if layout.header:
        next(found, None)
    blocks = []
    while block := list(islice(found, _BLOCK)):
        blocks.append(pl.DataFrame(dict(zip(names, map(list, zip(*block, strict=True)), strict=True))))
    return pl.concat(blocks) if blocks else pl.DataFrame({name: pl.Series([], dtype=pl.String) for name in names})


def _with_decimal_points(table: pl.DataFrame) -> tuple[pl.DataFrame, list[Note]]:
    """Decimal commas as points in each column all of whose cells are numbers so written.

    >>> found = _with_decimal_points(pl.DataFrame({"a": ["3,14", "-2", "NA"], "b": ["1,5", "1.5", "2"]}))
    >>> found[0].rows()
    [('3.14', '1,5'), ('-2', '1.5'), ('NA', '2')]
    """
    decimal = _numbers(table, _DECIMAL)
    grouped = [name for name in _numbers(table, _GROUPED, _BOTH) if name not in set(decimal)]
    return _as_points(table, decimal, grouped), _comma_notes(table, {*decimal, *grouped})


def _as_points(table: pl.DataFrame, decimal: list[str], grouped: list[str]) -> pl.DataFrame:
    if not decimal and not grouped:
        return table
    table = table.with_columns(pl.col(grouped).str.replace_all(".", "", literal=True))
    return table.with_columns(pl.col(decimal + grouped).str.replace_all(",", ".", literal=True))


def _comma_notes(table: pl.DataFrame, known: Collection[str]) -> list[Note]:
    changed = [name for name in table.columns if name in known]
    if not changed:
        return []
    shown = ", ".join(map(repr, changed[:_SHOWN]))
    more = f" and {len(changed) - _SHOWN} more columns" if len(changed) > _SHOWN else ""
    return [(f"decimal commas are read as points in {shown}{more}",)]


class _DecimalCommas:
    """`_with_decimal_points` of a table that comes in parts.

    A column may begin with whole numbers, which are the same either way. One that some parts show to be numbers with
    commas, and others to be text, is refused: nothing tells what the whole column is before all of it was read.
    """

    def __init__(self) -> None:
        self._decimal: list[str] | None = None
        """Columns all of whose cells so far are numbers, if commas are points."""
        self._groupable: list[str] = []
        """Columns all of whose cells so far are numbers, if points are between their thousands."""
        self._grouped: list[str] = []
        self._changed: set[str] = set()

    def points(self, table: pl.DataFrame, where: str) -> tuple[pl.DataFrame, list[Note]]:
        """The next part, and what is new about its columns."""
        before, now = self._decimal, _numbers(table, _DECIMAL, "")
        first = before is None
        if before is None:
            before = self._groupable = list(table.columns)
        self._groupable = _numbers(table.select(self._groupable), _GROUPED, "")
        grouped = [name for name in self._groupable if table[name].str.contains(_BOTH).any()]
        if first:
            self._grouped = grouped
        able = [name for name in before if name in set(now)]
        other = [name for name in self._changed if name not in able and name not in self._grouped]
        other += [name for name in self._grouped if name not in self._groupable]
        other += [name for name in grouped if name not in self._grouped]
        if other:
            expected, fix = f"decimal commas throughout column {other[0]!r}", "write them all in one way"
            raise InputError(expected, "them in some rows, and text in others", where, fix)
        decimal = [name for name in able if table[name].str.contains(",", literal=True).any()]
        new = {*decimal, *self._grouped} - self._changed
        self._decimal, self._changed = able, self._changed | new
        return _as_points(table, decimal, self._grouped), _comma_notes(table, new)


def _numbers(table: pl.DataFrame, pattern: str, some: str = ",") -> list[str]:
    """The columns all of whose cells match a pattern, and one of them some other."""
    # The first cells rule out most columns; a pattern is made ready once here, and once a column by polars.
    ready = re.compile(pattern)
    columns = table.head(_LOOKED_AT).to_dict(as_series=False)
    likely = [name for name, cells in columns.items() if all(cell is None or ready.match(cell) for cell in cells)]
    rest = [] if len(table) <= _LOOKED_AT else likely
    whole = set(likely) - set(rest) | {name for name in rest if table[name].str.contains(pattern).all()}
    return [name for name in likely if name in whole and _any_cell(table[name], columns[name], some)]


def _any_cell(cells: pl.Series, first: list[str | None], pattern: str) -> bool:
    found = not pattern or any(cell is not None and re.search(pattern, cell) for cell in first)
    return found or (len(cells) > len(first) and bool(cells.str.contains(pattern).any()))


def _without_empty(table: pl.DataFrame, data: bytes, separator: str) -> pl.DataFrame:
    """Empty cells as null; of a wide file without two marks beside one another it is known that there are none."""
    mark = separator.encode()
    beside = (mark + mark, mark + b"\n", mark + b"\r", b"\n" + mark, b"\r" + mark, b'""')
    wide = table.width > _WIDE and not data.startswith(mark) and not data.endswith(mark)
    if wide and not any(pair in data for pair in beside):
        return table
    empty = table.select((pl.all() == "").any()).row(0)
    blank = pl.col([name for name, some in zip(table.columns, empty, strict=True) if some])
    return table.with_columns(pl.when(blank != "").then(blank)) if any(empty) else table


def read_arff(data: bytes, where: str, *, encoding: Any = None) -> Frame:
    """The rows of an ARFF file with nominal attributes as a table of text; ``?`` is blank.

    Raises:
        InputError: not UTF-8, no attributes, no rows, or a row of another length; the line is named.

    >>> read_arff(b"@relation r\\n@attribute 'a' {x, y}\\n@attribute b {1, 2}\\n@data\\nx,1\\ny,?\\n", "r.arff").rows()
    [('x', '1'), ('y', None)]
    """
    text, notes, _ = as_utf8(data, where, encoding)
    lines = text.decode().splitlines()
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
    return Frame(table, Form("csv"), where, notes=notes)
