"""ARFF text with nominal attributes: names and declared values first, then rows parted by commas."""

import csv
import re
from collections.abc import Sequence

import polars as pl

from concrete_score.data.careful import decode
from concrete_score.data.columns import text_column
from concrete_score.data.frame import Form, Frame, unique_names
from concrete_score.errors import InputError

_ATTRIBUTE = re.compile(r"@attribute\s+(?:'([^']*)'|\"([^\"]*)\"|(\S+))\s", re.IGNORECASE)


def read_arff(data: bytes, where: str, drop: Sequence[str] = ()) -> Frame:
    """The rows of an ARFF file as a table of text; ``?`` is blank.

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
        rows.append(["" if cell.strip() == "?" else cell.strip() for cell in cells])
    if not rows or not names:
        raise InputError("attributes and rows", f"{len(names)} and {len(rows)}", where=where)
    cells_by_column = zip(unique_names(names, where), zip(*rows, strict=True), strict=True)
    columns = [text_column(pl.Series(name, cells, dtype=pl.String)) for name, cells in cells_by_column]
    return Frame(tuple(column for column in columns if column.name not in drop), Form("csv"), where)
