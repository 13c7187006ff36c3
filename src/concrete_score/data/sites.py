"""One column of a codec: how its values become the values of a site, and back."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import polars as pl

from concrete_score.data.bins import cut, edges_label
from concrete_score.data.frame import Array, Column, Numbers
from concrete_score.data.meaning import BOOLEAN, INTEGER, TEXT, Value, cell_numbers, is_blank, spelled, value_numbers
from concrete_score.errors import InputError

UNKNOWN, BLANK = -1, -2
_TYPES: dict[str, Any] = {TEXT: pl.String, INTEGER: pl.Int64, BOOLEAN: pl.Boolean}


@dataclass(frozen=True)
class Categories:
    """A site whose values are a column's distinct values, ascending; a blank may be one more, the last.

    >>> site = Categories("smoke", "text", ("no", "yes"))
    >>> site.size, site.place("yes"), site.place("maybe")
    (2, 1, None)
    """

    name: str
    kind: str
    values: tuple[Value, ...]
    blank: bool = False

    @property
    def size(self) -> int:
        """How many values the site takes."""
        return len(self.values) + self.blank

    @property
    def labels(self) -> tuple[str, ...]:
        """The values as text; a blank is empty."""
        words = (str(value).lower() if self.kind == BOOLEAN else str(value) for value in self.values)
        return (*words, "") if self.blank else tuple(words)

    def place(self, text: str) -> int | None:
        """The site's value for a text, or None."""
        found = int(self.lookup(pl.Series([text]), ())[0])
        return found if found >= 0 else None

    def learned(self, words: set[str]) -> dict[str, Value]:
        """What words stand for, in the column's own kind; those that it does not know are left out.

        >>> sorted(Categories("age", "integer", (30, 41)).learned({"41", "old"}).items())
        [('41', 41)]
        """
        spelt = sorted(words)
        places = self.lookup(pl.Series(spelt, dtype=pl.String), ())
        return {word: self.values[at] for word, at in zip(spelt, places, strict=True) if 0 <= at < len(self.values)}

    def lookup(self, values: pl.Series, na: tuple[str, ...]) -> Array:
        """The site's value for each distinct value; UNKNOWN or BLANK where there is none."""
        known: dict[Value | None, int] = {value: place for place, value in enumerate(self.values)}
        places = [known.get(value, UNKNOWN) for value in spelled(values, self.kind)]
        if self.kind == TEXT and values.dtype == pl.Boolean:
            # Other programs write True; it is the same word.
            folded = {str(value).lower(): place for value, place in known.items()}
            places = [folded.get(str(value).lower(), UNKNOWN) for value in values.to_list()]
        found = np.array(places, dtype=np.int64)
        found[is_blank(values, ("", *na))] = self.blank_place
        return found

    @property
    def blank_place(self) -> int:
        """The site's value for a blank cell, or BLANK."""
        return len(self.values) if self.blank else BLANK

    def encode(self, column: Column | Numbers, na: tuple[str, ...]) -> Array:
        """Every cell's value ``(N,)``, UNKNOWN or BLANK where there is none."""
        if isinstance(column, Numbers):
            distinct, codes = np.unique(column.numbers[~np.isnan(column.numbers)], return_inverse=True)
            cells = np.full(len(column), len(distinct))
            cells[~np.isnan(column.numbers)] = codes
            column = Column(column.name, pl.Series(distinct), cells)
        return _looked_up(self.lookup(column.values, na), self.blank_place, column.codes)

    def decode(self, codes: Array) -> Column:
        """The column of these values."""
        return Column(self.name, pl.Series(self.values, dtype=_TYPES[self.kind]), codes)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"name": self.name, "kind": self.kind, "values": list(self.values), "blank": self.blank}


@dataclass(frozen=True)
class Bins:
    """A site whose values are half-open ranges of a column of numbers; numbers beyond the ends fall into the end bins.

    >>> site = Bins("age", (0.5, 1.2, 7.0))
    >>> site.labels, site.place("1.2"), site.place("[0.5, 1.2)")
    (('[0.5, 1.2)', '[1.2, 7]'), 1, 0)
    """

    name: str
    edges: tuple[float, ...]
    blank: bool = False
    kind: ClassVar[str] = "bins"

    @property
    def size(self) -> int:
        """How many values the site takes."""
        return len(self.edges) - 1 + self.blank

    @property
    def labels(self) -> tuple[str, ...]:
        """The ranges as text; a blank is empty."""
        words = edges_label(self.edges)
        return (*words, "") if self.blank else words

    @property
    def blank_place(self) -> int:
        """The site's value for a blank cell, or BLANK."""
        return len(self.edges) - 1 if self.blank else BLANK

    def place(self, text: str) -> int | None:
        """The site's value for a number or a range's label, or None."""
        found = int(self.lookup(pl.Series([text]), ())[0])
        return found if found >= 0 else None

    def learned(self, words: set[str]) -> dict[str, Value]:
        """Nothing: numbers and ranges are both words of such a column, and stay as they are."""
        return {}

    def lookup(self, values: pl.Series, na: tuple[str, ...]) -> Array:
        """The site's value for each distinct value; UNKNOWN or BLANK where there is none."""
        numbers = value_numbers(values)
        found = np.where(np.isnan(numbers), UNKNOWN, cut(numbers, self.edges))
        if values.dtype == pl.String:
            named = {label: place for place, label in enumerate(edges_label(self.edges))}
            for at in np.flatnonzero(found == UNKNOWN):
                found[at] = named.get(values[int(at)], UNKNOWN)
        found[is_blank(values, ("", *na))] = self.blank_place
        return found

    def encode(self, column: Column | Numbers, na: tuple[str, ...]) -> Array:
        """Every cell's value ``(N,)``, UNKNOWN or BLANK where there is none."""
        if isinstance(column, Numbers):
            numbers = cell_numbers(column, na)
            return np.where(np.isnan(numbers), self.blank_place, cut(numbers, self.edges))
        return _looked_up(self.lookup(column.values, na), self.blank_place, column.codes)

    def decode(self, codes: Array) -> Column:
        """The column of these ranges' labels."""
        return Column(self.name, pl.Series(edges_label(self.edges), dtype=pl.String), codes)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"name": self.name, "kind": self.kind, "edges": list(self.edges), "blank": self.blank}


Site = Categories | Bins


def site_from_json(value: Any, where: str) -> Site:
    """A site from plain values, every one of them checked.

    Raises:
        InputError: a field is missing or of the wrong kind, values repeat or are out of order.
    """
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        raise InputError("a column with a name", repr(value)[:60], where=where)
    blank, kind = value.get("blank", False), value.get("kind")
    if not isinstance(blank, bool):
        raise InputError("true or false", repr(blank), where=f"{where}.blank")
    if kind == Bins.kind:
        return Bins(value["name"], _checked_edges(value.get("edges"), where), blank)
    wanted = {TEXT: str, INTEGER: int, BOOLEAN: bool}.get(kind) if isinstance(kind, str) else None
    if wanted is None:
        raise InputError("text, integer, boolean or bins", repr(kind), where=f"{where}.kind")
    values = value.get("values")
    right = isinstance(values, list) and all(type(each) is wanted for each in values)
    if not right or not isinstance(values, list) or any(a >= b for a, b in pairwise(values)):
        raise InputError(f"ascending values of kind {kind}", repr(values)[:60], where=f"{where}.values")
    if not values or (wanted is int and not all(-(2**63) <= each < 2**63 for each in values)):
        raise InputError("at least one value, none beyond 64 bits", repr(values)[:60], where=f"{where}.values")
    return Categories(value["name"], str(kind), tuple(values), blank)


def _checked_edges(edges: Any, where: str) -> tuple[float, ...]:
    right = isinstance(edges, list) and all(type(edge) in (int, float) and np.isfinite(edge) for edge in edges)
    # The last range may hold one number alone.
    if not right or len(edges) < 3 or edges[-2] > edges[-1] or any(a >= b for a, b in pairwise(edges[:-1])):
        raise InputError("three or more ascending edges", repr(edges)[:60], where=f"{where}.edges")
    return tuple(float(edge) for edge in edges)


def _looked_up(places: Array, blank: int, codes: Array) -> Array:
    """Each code's place; codes that already are their places stay as they are."""
    count = len(places)
    if np.array_equal(places, np.arange(count)) and (blank == count or not (codes == count).any()):
        return codes
    table = np.append(places, blank)
    for kind in (np.int8, np.uint8, np.int16, np.int32):
        bounds = np.iinfo(kind)
        if bounds.min <= table.min() and table.max() <= bounds.max:
            table = table.astype(kind)
            break
    return np.take(table, codes)
