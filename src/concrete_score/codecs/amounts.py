"""Columns of numbers in a dress: currencies, percentages, units and parted thousands, which come back as they were."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl

from concrete_score.codecs.cells import Column
from concrete_score.codecs.columns import AMOUNT, ColumnCells, Quick
from concrete_score.codecs.conditions import Condition
from concrete_score.codecs.numbers import Number
from concrete_score.codecs.ranges import Allowed
from concrete_score.data.amounts import Spelling, find_spelling
from concrete_score.data.frame import Array


@dataclass(frozen=True)
class Amount(Number):
    """A site whose values are ranges of numbers that are written in one way, such as ``$1,234.50``.

    >>> import numpy as np
    >>> cells = Column(pl.Series("price", [f"${k},{k:03}.00" for k in range(1, 200)]))
    >>> column = Amount.of(cells)
    >>> column.labels[0], column.decode(np.array([0])).to_list(), column.place("$5,005.00"), column.place("5005")
    ('1001–32833', ['$16,889.00'], 0, 0)
    """

    spelling: Spelling = field(default_factory=Spelling)
    kind = AMOUNT
    kinds: ClassVar[tuple[str, ...]] = (AMOUNT,)

    @classmethod
    def of(cls, column: ColumnCells, ranges: int | None = None, blank: bool = False) -> "Amount | None":  # type: ignore[override]
        """The kind of a column all of whose cells are numbers written in one way; None of any other."""
        spelling = find_spelling(column.known)
        return None if spelling is None else cls._with(Number.of(_undressed(column, spelling), ranges, blank), spelling)

    @classmethod
    def _with(cls, number: Number, spelling: Spelling) -> "Amount":
        return cls(**{each.name: getattr(number, each.name) for each in fields(Number)}, spelling=spelling)

    @classmethod
    def from_json(cls, value: Mapping[str, Any], blank: bool, where: str) -> "Amount":
        """From plain values, every one of them checked."""
        spelling = Spelling.from_json(value.get("spelling"), f"{where}.spelling")
        return cls._with(Number.from_json(value, blank, where), spelling)

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "spelling": self.spelling.to_json()}

    def lookup(self, values: pl.Series, na: tuple[str, ...]) -> Array:
        """The cell of each distinct value: a number with or without what stands around it, or a cell's own label."""
        return super().lookup(_bare(values, self.spelling), na)

    def encode(self, column: ColumnCells) -> Array:
        """Every cell's value ``(N,)``, UNKNOWN or BLANK where there is none."""
        return super().encode(_undressed(column, self.spelling))

    def log_inside(self, column: ColumnCells) -> Array:
        """``log g_b(v)`` of each cell's number on the grid ``(N,)``; 0 where there is none."""
        return super().log_inside(_undressed(column, self.spelling))

    def quick(self, cells: pl.Series) -> Quick | None:
        """Texts are undressed one by one."""
        return None

    def allowed(self, conditions: Sequence[Condition]) -> Allowed:
        """The intervals of grid points that all conditions allow; their numbers may be written as in the column."""
        return super().allowed([each if each.plain else self._read(each) for each in conditions])

    def _read(self, condition: Condition) -> Condition:
        """With plain numbers for its values; a range's own label stays."""
        texts, labels = condition.values, self.labels
        values = tuple(text if text in labels else self.spelling.read(text) for text in texts)
        return replace(condition, values=values)

    def written(self, key: int) -> str:
        """A grid point as the column writes it."""
        return str(self.series(np.array([key]), np.array([True]))[0])

    def series(self, keys: Array, known: Array) -> pl.Series:
        """Grid points written as in the column ``(N,)``; null where not known."""
        return self.spelling.spell(super().series(keys, known))


def _bare(texts: pl.Series, spelling: Spelling) -> pl.Series:
    """Texts without what stands around a number; all others as they are."""
    if texts.dtype != pl.String:
        return texts
    plain = spelling.plain(texts)
    return plain.zip_with(plain.is_not_null(), texts)


def _undressed(column: ColumnCells, spelling: Spelling) -> Column:
    """The same cells as plain numbers."""
    texts = column.distinct if column.distinct.dtype == pl.String else column.distinct.cast(pl.String)
    bare = pl.concat([_bare(texts.rename(column.name), spelling), pl.Series(column.name, [None], dtype=pl.String)])
    return Column(bare.gather(pl.Series(column.codes)), column.na, weights=column.weights)
