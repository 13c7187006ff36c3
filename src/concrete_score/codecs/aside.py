"""Columns that a model leaves aside: constants, identifiers, and texts of which hardly any two are equal.

They are no sites. A table may lack them when it is encoded; sampled rows get them back: the constant, a fresh
identifier, a text drawn from the training table.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from concrete_score import registry
from concrete_score.codecs.columns import ColumnCells, as_text
from concrete_score.codecs.conditions import (
    COMPARISONS,
    GIVEN,
    IN,
    Condition,
    label_evidence,
    split_condition,
    split_values,
)
from concrete_score.errors import InputError, Option, Text, nearest

MOST_TEXTS = 5_000
"""The most texts of a column that a run keeps, to draw from."""


class AsideColumn(ABC):
    """A column without a site."""

    name: str
    at: int
    """Its place in the table."""
    kind: ClassVar[str]

    @abstractmethod
    def cells(self, count: int, first: int, rng: np.random.Generator | None) -> pl.Series:
        """The cells of ``count`` sampled rows, the first of which is number ``first``."""

    @abstractmethod
    def values(self) -> dict[str, Any]:
        """What it keeps, as plain values."""

    def fill(self, cells: pl.Series) -> pl.Series:
        """Cells with their blanks filled, where that makes sense."""
        return cells

    def check_met(self, condition: Condition) -> None:
        """Refuse a condition that is not met in every row that a model draws."""
        expected = "conditions on columns that the model knows"
        fix: Text = ("to have it modelled, fit again with ", Option("column", {self.name: "category"}))
        raise InputError(expected, f"one on {self.name!r}, which is {self.kind} and left aside", GIVEN, fix)

    def to_json(self) -> dict[str, Any]:
        """Plain values from which `aside_from_json` builds an equal column."""
        return {"name": self.name, "kind": self.kind, "at": self.at, **self.values()}


@dataclass(frozen=True)
class Constant(AsideColumn):
    """A column of one value, or of blanks alone.

    >>> Constant("country", 0, "NL").cells(2, 0, None).to_list()
    ['NL', 'NL']
    """

    name: str
    at: int
    value: str | int | float | bool | None
    kind = "constant"

    @classmethod
    def from_json(cls, value: Mapping[str, Any], where: str) -> "Constant":
        constant = value.get("value")
        if constant is not None and type(constant) not in (str, int, float, bool):
            raise InputError("one plain value", repr(constant)[:60], where=f"{where}.value")
        if type(constant) is int and not -(2**63) <= constant < 2**63:
            raise InputError("a number of at most 64 bits", repr(constant)[:60], where=f"{where}.value")
        return cls(value["name"], value["at"], constant)

    def values(self) -> dict[str, Any]:
        return {"value": self.value}

    def cells(self, count: int, first: int, rng: np.random.Generator | None) -> pl.Series:
        return pl.Series(self.name, [self.value], dtype=pl.String if self.value is None else None).new_from_index(
            0, count
        )

    def check_met(self, condition: Condition) -> None:
        """Refuse a condition that the constant does not meet."""
        label, values = as_text(self.value), condition.values
        if condition.operator in COMPARISONS:
            met = label_evidence([condition], self.name, [self.value], [label], _no_place)[0] == 0
        else:
            met = (label in values) != (condition.operator == "!=")
        if not met:
            expected = f"a condition that {self.name!r} meets, which is {label or 'blank'} in every row"
            raise InputError(expected, condition.describe([self.name]), GIVEN, "leave it out")

    def fill(self, cells: pl.Series) -> pl.Series:
        """Blanks take the constant."""
        if self.value is None or not cells.null_count():
            return cells
        return cells.fill_null(pl.Series([self.value]).cast(cells.dtype, strict=False)[0])


@dataclass(frozen=True)
class Identifier(AsideColumn):
    """A column of names or numbers that tell the rows apart; new rows continue the count.

    >>> Identifier("id", 0, "P", 4, 17).cells(2, 0, None).to_list()
    ['P0017', 'P0018']
    """

    name: str
    at: int
    prefix: str | None
    """What stands before the number; None where the column holds whole numbers."""
    width: int
    """Digits, with leading zeros; 0 for as many as it takes."""
    start: int
    """The first number that is free."""
    kind = "identifier"

    @classmethod
    def of(cls, column: ColumnCells, at: int) -> "Identifier":
        """Continue a column's numbers, or texts that end in numbers; other texts get ``new-1, new-2, …``."""
        if column.whole is not None:
            return cls(column.name, at, None, 0, int(column.whole.max()) + 1)
        parts = [re.fullmatch(r"(.*?)(\d{1,15})", text) for text in column.known.cast(pl.String).to_list()]
        prefixes = {part[1] for part in parts if part} if all(parts) else set()
        if len(prefixes) != 1:
            return cls(column.name, at, "new-", 0, 1)
        digits = [part[2] for part in parts if part]
        widths = {len(each) for each in digits}
        width = widths.pop() if len(widths) == 1 else 0
        return cls(column.name, at, prefixes.pop(), width, max(map(int, digits)) + 1)

    @classmethod
    def from_json(cls, value: Mapping[str, Any], where: str) -> "Identifier":
        prefix, width, start = value.get("prefix"), value.get("width"), value.get("start")
        whole = type(width) is int and type(start) is int and 0 <= width <= 20 and abs(start) < 2**62
        if not (prefix is None or isinstance(prefix, str)) or not whole:
            raise InputError("how identifiers continue", repr(start)[:60], where=f"{where}.start")
        return cls(value["name"], value["at"], prefix, width, start)  # type: ignore[arg-type]

    def values(self) -> dict[str, Any]:
        return {"prefix": self.prefix, "width": self.width, "start": self.start}

    def cells(self, count: int, first: int, rng: np.random.Generator | None) -> pl.Series:
        numbers = pl.int_range(self.start + first, self.start + first + count, eager=True).alias(self.name)
        if self.prefix is None:
            return numbers
        texts = numbers.cast(pl.String)
        return (self.prefix + (texts.str.zfill(self.width) if self.width else texts)).alias(self.name)


@dataclass(frozen=True)
class FreeText(AsideColumn):
    """A column of texts of which hardly any two are equal; new rows get one of them, drawn evenly.

    >>> FreeText("note", 2, ("a",)).cells(2, 0, None).to_list()
    ['a', 'a']
    """

    name: str
    at: int
    texts: tuple[str, ...]
    kind = "text"

    @classmethod
    def of(cls, column: ColumnCells, at: int) -> "FreeText":
        texts = column.known.cast(pl.String)
        return cls(column.name, at, tuple(texts[:: max(1, -(-len(texts) // MOST_TEXTS))].to_list()))

    @classmethod
    def from_json(cls, value: Mapping[str, Any], where: str) -> "FreeText":
        texts = value.get("texts")
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            raise InputError("a list of texts", repr(texts)[:60], where=f"{where}.texts")
        return cls(value["name"], value["at"], tuple(texts))

    def values(self) -> dict[str, Any]:
        return {"texts": list(self.texts)}

    def cells(self, count: int, first: int, rng: np.random.Generator | None) -> pl.Series:
        at = np.zeros(count, dtype=np.int64) if rng is None else rng.integers(0, len(self.texts), count)
        return pl.Series(self.name, self.texts, dtype=pl.String).gather(pl.Series(at))


def without_settled(given: Any, names: Sequence[str], aside: Sequence[AsideColumn]) -> Any:
    """Conditions without those on columns left aside, each of which every row meets.

    Raises:
        InputError: one of those that are left out is not met by every row, or cannot be judged.

    >>> without_settled(["a=1", "country=NL"], ["a"], [Constant("country", 1, "NL")])
    ['a=1']
    """
    known = {each.name: each for each in aside}
    if isinstance(given, Mapping):
        for name in [key for key in given if key in known]:
            value = given[name]
            several = not isinstance(value, str) and isinstance(value, Iterable)
            known[name].check_met(Condition(0, IN, tuple(map(as_text, value if several else [value]))))
        return {key: value for key, value in given.items() if key not in known}
    if not known or isinstance(given, str) or not isinstance(given, Sequence):
        return given
    left = []
    for text in given:
        if not isinstance(text, str) or not text.startswith(tuple(known)):
            left.append(text)
            continue
        name, sign, value = split_condition(text, [*names, *known])
        if name in known:
            known[name].check_met(Condition(0, sign, split_values(value, _no_place) if sign == IN else (value,)))
        else:
            left.append(text)
    return left


def _no_place(text: str) -> int | None:
    return None


def aside_from_json(value: Any, where: str) -> AsideColumn:
    """A column without a site from plain values, every one of them checked.

    Raises:
        InputError: a field is missing or of the wrong type.
    """
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        raise InputError("a column with a name", repr(value)[:60], where=where)
    at, kind = value.get("at"), value.get("kind")
    if type(at) is not int or not 0 <= at < 2**31:
        raise InputError("a place in the table", repr(at)[:60], where=f"{where}.at")
    known = {registry.load("aside", name).kind: registry.load("aside", name) for name in registry.names("aside")}
    if not isinstance(kind, str) or kind not in known:
        raise InputError("a kind of column", repr(kind), where=f"{where}.kind", fix=nearest(str(kind), list(known)))
    found: AsideColumn = known[kind].from_json(value, where)
    return found
