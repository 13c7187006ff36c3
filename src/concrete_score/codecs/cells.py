"""The cells of one column of a table: their distinct values, and whether these are text, numbers or booleans."""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
import torch

from concrete_score.codecs.columns import (
    BLANK,
    BOOLEAN,
    EXACT,
    INTEGER,
    INTEGER_PATTERN,
    NUMBER,
    NUMBER_PATTERN,
    TEXT,
    SiteColumn,
    Value,
    as_numbers,
    is_blank,
    spelled,
)
from concrete_score.codecs.columns import UNKNOWN as UNSEEN
from concrete_score.data.frame import Array, Frame
from concrete_score.errors import InputError, Option
from concrete_score.spaces import Space

_SHORT = 256
"""Cells of a column that are numbered in Python."""
_SPAN = 2**20
"""Whole numbers that lie closer together are counted, which is quicker than sorting."""


class Column:
    """One column's cells, looked at once.

    Args:
        cells: as they came; null, NaN, the empty text and ``na`` are blank.
        na: texts that mean a blank cell.
        typed: whether text is known to be text; otherwise it means numbers where all of it reads so.
        weights: as how many rows each cell counts ``(N,)``; 1 by default.
        total: rows of the table, where the cells are a sample of them.

    >>> column = Column(pl.Series("a", ["10", "9", "NA"]), ["NA"])
    >>> column.kind, column.values, column.blanks
    ('integer', (9, 10), 1)
    """

    def __init__(
        self,
        cells: pl.Series,
        na: Sequence[str] = (),
        typed: bool = False,
        weights: Array | None = None,
        total: int | None = None,
    ) -> None:
        self.name, self.na, self.typed, self._stored = cells.name, tuple(na), typed, cells.dtype
        self.weights, self._total = weights, total
        # A data frame's own Enum may declare values that no row has; they are no more values here than a Categorical's.
        self.cells = _plain(cells.cast(pl.String) if typed and cells.dtype == pl.Enum else cells)

    @classmethod
    def of_frame(cls, frame: Frame, name: str, na: Sequence[str]) -> "Column":
        """A column of a table; where the table is a sample of a larger one, by what is known of all rows."""
        cells, census = frame.table[name], frame.census
        if census is None:
            return cls(cells, na, frame.typed)
        if name in census.tallies:
            values, counts = census.tallies[name]
            return cls(values.alias(name), na, frame.typed, counts)
        return cls(pl.concat([cells, census.ends[name]]), na, frame.typed, total=census.rows)

    def hiding(self, words: Sequence[str]) -> "Column":
        """The same cells, of which more texts mean a blank."""
        return Column(self.cells, (*self.na, *words), self.typed, self.weights, self._total)

    def __len__(self) -> int:
        if self._total is not None:
            return self._total
        return len(self.cells) if self.weights is None else int(self.weights.sum())

    @property
    def drawn(self) -> int | None:
        """How many rows of the table are looked at, where not all are."""
        return None if self._total is None else len(self.cells)

    @cached_property
    def fractions(self) -> Array | None:
        """Every cell as float64, NaN where blank ``(N,)``, if all are numbers and not all of them whole; else None."""
        if self.cells.dtype == pl.Float64:
            numbers = self.cells
        elif self.cells.dtype != pl.String or self.typed or not _reads_as_number(self.cells):
            return None
        else:
            numbers = self.cells.cast(pl.Float64, strict=False)
            blank = self.cells.null_count() + int((self.cells == "").sum())
            if numbers.null_count() > blank or not numbers.drop_nulls().is_finite().all():
                return None
            if not (numbers != numbers.floor()).any():
                return None
        return self._as_floats(numbers)

    def _as_floats(self, numbers: pl.Series) -> Array:
        """Numbers with NaN where they are blank, or declared so ``(N,)``."""
        found: Array = numbers.fill_null(float("nan")).to_numpy()
        hidden = [float(word) for word in self.na if re.match(NUMBER_PATTERN, word)]
        return np.where(np.isin(found, hidden), np.nan, found) if hidden else found

    @cached_property
    def decimal(self) -> bool:
        """Whether its numbers are written with decimals, be they zeros, or stored as floats."""
        if self._stored.is_float() or self._stored.is_decimal():
            return True
        return self.cells.dtype == pl.String and bool(self.cells.str.contains(".", literal=True).any())

    @cached_property
    def whole(self) -> Array | None:
        """Every cell as int64, 0 where blank ``(N,)``, if all are whole; otherwise None."""
        if self.cells.dtype == pl.Int64:  # as they are, without looking for the distinct ones
            plain: Array = self.cells.fill_null(0).to_numpy()
            return plain
        if self.kind != INTEGER:
            return None
        values = np.array([0 if v is None else v for v in spelled(self.distinct, INTEGER)], dtype=np.int64)
        found: Array = np.append(values, 0)[self.codes]
        return found

    @cached_property
    def distinct(self) -> pl.Series:
        """The distinct values, ascending, blank cells left out: String, Int64, Float64 or Boolean."""
        return self._factors[0]

    @cached_property
    def codes(self) -> Array:
        """``(N,)`` positions in `distinct`; ``len(distinct)`` marks a blank cell."""
        return self._factors[1]

    @cached_property
    def _factors(self) -> tuple[pl.Series, Array]:
        if self.fractions is not None:
            known = ~np.isnan(self.fractions)
            values, inverse = np.unique(self.fractions[known], return_inverse=True)
            return pl.Series(values), _with_blanks(inverse, known, len(values))
        factors: tuple[pl.Series, Array] = _FACTORS.get(self.cells.dtype, _text_factors)(self.cells)
        return factors

    @cached_property
    def _hidden(self) -> Array:
        """Which distinct values the texts in ``na`` declare blank."""
        return is_blank(self.distinct, self.na)

    @cached_property
    def blanks(self) -> int:
        """How many cells are blank."""
        if self.fractions is not None or self.cells.dtype == pl.Int64:
            blank = np.isnan(self.numbers)
            found = int(blank.sum() if self.weights is None else self.weights[blank].sum())
        else:
            found = int(self._counts[np.append(self._hidden, True)].sum())
        return found if self._total is None else round(found * self._total / len(self.cells))

    @cached_property
    def known(self) -> pl.Series:
        """The distinct values that do not mean blank."""
        return self.distinct.filter(pl.Series(~self._hidden)) if self._hidden.any() else self.distinct

    @cached_property
    def counts(self) -> Array:
        """How many cells have each of the values in `known` ``(V,)``."""
        found: Array = self._counts[:-1][~self._hidden]
        return found

    @property
    def _counts(self) -> Array:
        """How many cells have each of the values in `distinct`, and last how many are blank."""
        found = np.bincount(self.codes, self.weights, minlength=len(self.distinct) + 1)
        return found if self.weights is None else np.rint(found).astype(np.int64)

    @property
    def temporal(self) -> bool:
        """Whether the cells are stored as dates or times."""
        return bool(self._stored.is_temporal())

    @cached_property
    def kind(self) -> str:
        """``text``, ``integer``, ``boolean``, or ``number`` if not all are whole."""
        if self.fractions is not None or self.cells.dtype == pl.Int64:
            return NUMBER if self.fractions is not None else INTEGER
        return TEXT if self.typed and self.known.dtype == pl.String else _kind(self.known)

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """The distinct values as their kind, ascending; of fractions there are none."""
        if self.kind == NUMBER:
            return ()
        if self.known.dtype != pl.String or self.kind == TEXT:
            return tuple(self.known.to_list())
        return tuple(sorted({value for value in spelled(self.known, self.kind) if value is not None}))

    @property
    def numeric(self) -> bool:
        """Whether the column can be cut into bins."""
        return self.kind in (INTEGER, NUMBER)

    @cached_property
    def numbers(self) -> Array:
        """Every cell as float64; NaN where blank or not a number ``(N,)``."""
        if self.fractions is not None:
            return self.fractions
        if self.cells.dtype == pl.Int64:
            return self._as_floats(self.cells.cast(pl.Float64))
        numbers = np.where(self._hidden, np.nan, as_numbers(self.distinct))
        found: Array = np.append(numbers, np.nan)[self.codes]
        return found


def _plain(cells: pl.Series) -> pl.Series:
    """Cells as Boolean, Int64, Float64, Enum or text; whole numbers in float storage become integers."""
    kind = cells.dtype
    if kind == pl.Boolean or kind == pl.Enum:
        return cells
    if kind.is_integer():
        wide = cells.cast(pl.Int64, strict=False)
        return wide if wide.null_count() == cells.null_count() else cells.cast(pl.String)
    if kind.is_float() or kind.is_decimal():
        numbers = cells.cast(pl.Float64).fill_nan(None)
        whole = ((numbers == numbers.floor()) & (numbers.abs() <= EXACT)).all()
        return numbers.cast(pl.Int64) if whole else numbers
    return cells.cast(pl.String)


def _reads_as_number(cells: pl.Series) -> bool:
    first = cells.drop_nulls().head(1).to_list()
    return not first or re.fullmatch(NUMBER_PATTERN, first[0]) is not None or first[0] == ""


def _with_blanks(inverse: Array, known: Array, count: int) -> Array:
    codes = np.full(len(known), count)
    codes[known] = inverse
    return codes


def _integer_factors(cells: pl.Series) -> tuple[pl.Series, Array]:
    known = cells.is_not_null().to_numpy()
    numbers = cells.drop_nulls().to_numpy()
    if len(numbers) and int(numbers.max()) - int(numbers.min()) < _SPAN:
        place = numbers - numbers.min()
        seen = np.bincount(place) > 0
        values, inverse = np.flatnonzero(seen) + int(numbers.min()), (np.cumsum(seen) - 1)[place]
    else:
        values, inverse = np.unique(numbers, return_inverse=True)
    return pl.Series(values, dtype=pl.Int64), _with_blanks(inverse, known, len(values))


def _boolean_factors(cells: pl.Series) -> tuple[pl.Series, Array]:
    values = cells.drop_nulls().unique().sort()
    codes = cells.cast(pl.Int64).fill_null(2).to_numpy()
    place = np.array([*(list(values).index(each) if each in values else 0 for each in (False, True)), len(values)])
    return values.alias(""), place[codes]


def _text_factors(cells: pl.Series) -> tuple[pl.Series, Array]:
    """Categories number the texts as they come; their order is that of code points. An Enum's values are declared."""
    if cells.dtype == pl.String and len(cells) <= _SHORT:
        return _short_factors(cells.to_list())
    if cells.dtype == pl.Enum:
        values = cells.dtype.categories  # type: ignore[attr-defined]
        codes = cells.to_physical().cast(pl.Int64).fill_null(len(values)).to_numpy()
    else:
        numbered = cells.cast(pl.Categorical(pl.Categories.random()))
        physical = numbered.to_physical()
        seen = physical.drop_nulls().unique().sort()
        values = seen.cat.to(numbered.dtype).cast(pl.String)
        place = np.full(int(seen.max()) + 2 if len(seen) else 1, len(values))  # type: ignore[arg-type]
        place[seen.to_numpy()] = np.arange(len(values))
        codes = place[physical.cast(pl.Int64).fill_null(len(place) - 1).to_numpy()]
    order = values.arg_sort().to_numpy()
    ascending = values.gather(order)
    empty = int(len(ascending) > 0 and ascending[0] == "")
    rank = np.empty(len(order) + 1, dtype=np.int64)
    rank[order], rank[len(order)] = np.arange(len(order)) - empty, len(order) - empty
    rank[rank < 0] = len(order) - empty
    return ascending[empty:].alias(""), rank[codes]


def _short_factors(texts: list[str | None]) -> tuple[pl.Series, Array]:
    """As `_text_factors`, without its dozen queries, which take longer than a few cells."""
    values = sorted({text for text in texts if text})
    place = {text: at for at, text in enumerate(values)}
    return pl.Series(values, dtype=pl.String), np.array(
        [place.get(text or "", len(values)) for text in texts], np.int64
    )


_FACTORS: Mapping[Any, Any] = {pl.Int64: _integer_factors, pl.Boolean: _boolean_factors}


def _kind(values: pl.Series) -> str:
    if values.dtype != pl.String:
        return BOOLEAN if values.dtype == pl.Boolean else INTEGER if values.dtype == pl.Int64 else NUMBER
    if not len(values):
        return TEXT
    if values.str.contains(INTEGER_PATTERN).all():
        whole = values.str.replace(r"\.0*$", "").cast(pl.Int64, strict=False)
        return TEXT if whole.null_count() else INTEGER
    if not values.str.contains(NUMBER_PATTERN).all():
        return TEXT
    numbers = as_numbers(values)
    if not np.isfinite(numbers).all():
        return TEXT
    if (numbers != np.floor(numbers)).any():
        return NUMBER
    return INTEGER if (np.abs(numbers) <= EXACT).all() else TEXT


_BLOCK = 2**18
"""Cells transposed at a time."""


def storage(space: Space) -> Any:
    """The narrowest integers torch computes with that hold every site."""
    largest = max(space.sizes) - 1
    return next(kind for kind in (np.uint8, np.int16, np.int32, np.int64) if largest <= np.iinfo(kind).max)


def as_rows(columns: Sequence[Array], kind: Any) -> Array:
    """Columns ``D × (N,)`` as rows ``(N, D)``, transposed in blocks that stay in the processor's cache."""
    count, block = len(columns[0]), max(1, _BLOCK // len(columns))
    rows = np.empty((count, len(columns)), dtype=kind)
    piece = np.empty((len(columns), block), dtype=kind)
    for start in range(0, count, block):
        end = min(start + block, count)
        for d, cells in enumerate(columns):
            piece[d, : end - start] = cells[start:end]
        rows[start:end] = piece[:, : end - start].T
    return rows


def with_unseen(column: SiteColumn, codes: Array, inside: Array | None, rows: int) -> Array:
    """``log P(cell | the site's value)`` of each cell, of a value never seen what is reserved for it ``(N,)``."""
    seen = np.full(len(codes), column.log_seen) if inside is None else inside + column.log_seen
    return np.where(codes == UNSEEN, column.log_unseen(rows), np.where(codes == BLANK, 0.0, seen))


def flags(masks: Mapping[int, Array], kept: torch.Tensor, sites: int) -> torch.Tensor:
    """Cells by site as one table ``(N', D)`` bool."""
    found = torch.zeros((len(kept), sites), dtype=torch.bool)
    for d, mask in masks.items():
        found[:, d] = torch.from_numpy(mask)[kept]
    return found


def any_row(masks: Mapping[int, Array], rows: int) -> Array:
    found = np.zeros(rows, dtype=bool)
    for mask in masks.values():
        found |= mask
    return found


def row_weights(frame: Frame, name: str, kept: torch.Tensor) -> torch.Tensor | None:
    """The weights of the rows that stay, where the table has the column of weights.

    Raises:
        InputError: a weight that is not a number from 0 on; its row is named.
    """
    if name not in frame.names:
        return None
    numbers = frame.table[name].cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy()[kept]
    wrong = ~(np.isfinite(numbers) & (numbers >= 0))
    if wrong.any():
        row = int(kept[int(wrong.argmax())])
        came = repr(frame.table[name][row])
        where = f"{frame.where}: row {frame.first + row}, column {name!r}"
        raise InputError("a weight, a number from 0 on", came, where, ("correct it, or leave out ", Option("weight")))
    if not numbers.any():
        raise InputError("some weight above 0", "none", f"{frame.where}: column {name!r}")
    return torch.from_numpy(numbers.copy())
