"""Kinds of columns, one class each: how the cells of a table's column become the values of a site, and back.

A kind encodes cells, decodes values, finds a value by its text, and keeps itself as plain values. New ones are
registered under ``columns``; ``kinds`` are the names it has in ``run.json``.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import log, log1p
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
import polars as pl

from concrete_score import registry
from concrete_score.codecs.conditions import COMPARISONS, GIVEN, Condition, as_evidence, label_evidence, to_number
from concrete_score.codecs.ranges import Histogram, edges_label, edges_listed, quantile_edges
from concrete_score.data.frame import Array
from concrete_score.errors import InputError, nearest

Value = str | int | bool

TEXT, INTEGER, BOOLEAN, NUMBER, BINS, DATE, POOLED = "text", "integer", "boolean", "number", "bins", "date", "pooled"
AMOUNT = "amount"
EXACT = float(2**53)
"""Beyond this, float64 does not distinguish all whole numbers."""

# No leading zeros: 007 is a name. A fraction of zeros is how some programs write whole numbers beside blanks.
INTEGER_PATTERN = r"^-?(0|[1-9][0-9]*)(\.0*)?$"
NUMBER_PATTERN = r"^[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_TRUTH = {"true": True, "false": False, "1": True, "0": False}
_SPAN = 2**16
"""Whole numbers that lie closer together are looked up in a table."""
UNKNOWN, BLANK = -1, -2
"""In the place of a site's value: a value never seen in training, and no value at all."""
_TYPES: Mapping[str, Any] = {TEXT: pl.String, INTEGER: pl.Int64, BOOLEAN: pl.Boolean, BINS: pl.String}


@runtime_checkable
class ColumnCells(Protocol):
    """What a kind of column needs to know of the cells it encodes."""

    name: str
    na: tuple[str, ...]

    @property
    def fractions(self) -> Array | None: ...
    @property
    def distinct(self) -> pl.Series: ...
    @property
    def codes(self) -> Array: ...
    @property
    def numbers(self) -> Array: ...
    @property
    def whole(self) -> Array | None: ...
    @property
    def decimal(self) -> bool: ...
    @property
    def blanks(self) -> int: ...
    @property
    def known(self) -> pl.Series: ...
    @property
    def temporal(self) -> bool: ...
    @property
    def counts(self) -> Array: ...
    @property
    def weights(self) -> Array | None: ...


class Quick(NamedTuple):
    """Cells all of which are known: their values, in any integers, and ``log P(cell | value)``, None for 0 ``(N,)``."""

    codes: Array
    log_inside: Array | None


class SiteColumn(ABC):
    """What a table's codec asks of each of its columns; the site's values are `natives`, in order, a blank the last."""

    name: str
    blank: bool
    kind: str
    lossy: ClassVar[bool] = False
    """Whether different cells share a value, so that one cannot stand for another."""
    ordered: ClassVar[bool] = False
    """Whether the values are ranges of one line, so that neighbors are alike."""
    reserve: float = 0.0
    """The probability kept for values never seen in training."""

    @property
    @abstractmethod
    def natives(self) -> tuple[Value | None, ...]:
        """The values as they stand in a table; a blank is None."""

    @property
    def size(self) -> int:
        """How many values the site takes."""
        return len(self.natives)

    @property
    def labels(self) -> tuple[str, ...]:
        """The values as text; a blank is empty."""
        return tuple(map(as_text, self.natives))

    @property
    def blank_place(self) -> int:
        """The site's value for a blank cell, or BLANK."""
        return self.size - 1 if self.blank else BLANK

    @abstractmethod
    def lookup(self, values: pl.Series, na: tuple[str, ...]) -> Array:
        """The site's value for each distinct value; UNKNOWN or BLANK where there is none."""

    def place(self, text: str) -> int | None:
        """The site's value for a text, or None."""
        found = int(self.lookup(pl.Series([text]), ())[0])
        return found if found >= 0 else None

    def log_evidence(self, conditions: Sequence[Condition]) -> Array:
        """``log e(v)``, the logarithm of the share of each value's cells that meets all conditions ``(size,)``."""
        return label_evidence(conditions, self.name, self.natives, self.labels, self.place)

    def extrapolated(self, conditions: Sequence[Condition]) -> str | None:
        """A warning where all that the conditions on this column allow lies beyond the training rows."""
        return None

    def encode(self, column: ColumnCells) -> Array:
        """Every cell's value ``(N,)``, UNKNOWN or BLANK where there is none."""
        return np.append(self.lookup(column.distinct, column.na), self.blank_place)[column.codes]

    def quick(self, cells: pl.Series) -> "Quick | None":
        """What `encode` and `log_inside` give, of typed cells all of which are plainly known; None of any others.

        A few passes over the cells, whatever they are, where the general way looks for the distinct ones.
        """
        return None

    def decode(
        self, codes: Array, rng: np.random.Generator | None = None, conditions: Sequence[Condition] = ()
    ) -> pl.Series:
        """The cells of a site's values ``(N,)``; blanks are null. What stands for several cells is drawn by ``rng``."""
        return pl.Series(self.name, self.natives, dtype=_TYPES[self.kind]).gather(pl.Series(codes))

    def log_unseen(self, rows: int) -> float:
        """``log P(a value never seen)`` after so many training rows; one row more where none is reserved."""
        return log(self.reserve or 1 / (rows + 1))

    def reserving(self, share: float) -> "SiteColumn":
        """The same column with this probability kept for values never seen."""
        return replace(self, reserve=share)  # type: ignore[type-var]

    @property
    def log_seen(self) -> float:
        """``log P(a value seen in training)``."""
        return log1p(-self.reserve)

    def log_inside(self, column: ColumnCells) -> Array | None:
        """``log P(cell | the site's value)`` of each cell ``(N,)``; None where it is always 0."""
        return None

    @property
    def log_sizes(self) -> Array | None:
        """`Codec.log_sizes` of the column's values ``(V,)``; None where all are 0."""
        return None

    def histogram(self, conditions: Sequence[Condition] = ()) -> Histogram | None:
        """Ranges to look at the column by, given conditions on it; None where its values are looked at themselves."""
        return None

    def summary(self, log_probs: Array, how: str) -> pl.Series | None:
        """What fills blanks of these log-probabilities ``(B, V)`` if not the most probable value; None where it is."""
        return None

    def parameters(self) -> dict[str, Any]:
        """The reading options that asked for this kind."""
        return {}

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Plain values from which the kind's ``from_json`` builds an equal one."""

    def with_blanks(self, found: Array, values: pl.Series, na: tuple[str, ...]) -> Array:
        """``found`` with the place of a blank where a distinct value means one."""
        found[is_blank(values, ("", *na))] = self.blank_place
        return found


@dataclass(frozen=True)
class Categories(SiteColumn):
    """A site whose values are a column's distinct values, ascending; a blank may be one more, the last.

    >>> column = Categories("smoke", "text", ("no", "yes"))
    >>> column.size, column.place("yes"), column.place("maybe")
    (2, 1, None)
    """

    name: str
    kind: str
    values: tuple[Value, ...]
    blank: bool = False
    reserve: float = 0.0
    kinds: ClassVar[tuple[str, ...]] = (TEXT, INTEGER, BOOLEAN)

    @classmethod
    def from_json(cls, value: Mapping[str, Any], blank: bool, where: str) -> "Categories":
        """From plain values, every one of them checked."""
        kind, values = value["kind"], value.get("values")
        wanted = {TEXT: str, INTEGER: int, BOOLEAN: bool}[kind]
        right = isinstance(values, list) and all(type(each) is wanted for each in values)
        if not right or not isinstance(values, list) or any(a >= b for a, b in pairwise(values)):
            raise InputError(f"ascending values of kind {kind}", repr(values)[:60], where=f"{where}.values")
        if not values or (wanted is int and not all(-(2**63) <= each < 2**63 for each in values)):
            raise InputError("at least one value, none beyond 64 bits", repr(values)[:60], where=f"{where}.values")
        return cls(value["name"], kind, tuple(values), blank, reserve_of(value, where))

    @property
    def natives(self) -> tuple[Value | None, ...]:
        """The values as they stand in a table; a blank is None."""
        return (*self.values, None) if self.blank else self.values

    def quick(self, cells: pl.Series) -> "Quick | None":
        if cells.null_count():
            return None
        if self.kind == BOOLEAN and cells.dtype == pl.Boolean and len(self.values) == 2:
            return Quick(cells.cast(pl.UInt8).to_numpy(), None)
        if self.kind == TEXT and cells.dtype == pl.String:
            if self._by_hash is None:
                found = cells.cast(pl.Enum(list(map(str, self.values))), strict=False)
                return None if found.null_count() else Quick(found.to_physical().to_numpy(), None)
            shift, table, expected = self._by_hash
            hashes = cells.hash().to_numpy()
            slots = hashes >> shift
            return Quick(np.take(table, slots), None) if (np.take(expected, slots) == hashes).all() else None
        if self.kind == INTEGER and cells.dtype.is_integer() and self._by_number is not None:
            low, table = self._by_number
            places = np.take(table, cells.cast(pl.Int64).to_numpy() - low, mode="clip")
            return None if places.min() < 0 else Quick(places, None)
        return None

    @cached_property
    def _by_hash(self) -> tuple[Any, Array, Array] | None:
        """The place of each text by the first bits of its hash, as many as tell all texts apart; and its whole hash.

        None where that takes more than `_SPAN` places. Another text has one of these hashes with probability 2^-64.
        """
        hashes = pl.Series(self.values, dtype=pl.String).hash().to_numpy()
        for bits in range(1, _SPAN.bit_length()):
            shift = np.uint64(64 - bits)
            slots = hashes >> shift
            if len(np.unique(slots)) == len(slots):
                table, expected = np.zeros(2**bits, dtype=np.int32), np.zeros(2**bits, dtype=np.uint64)
                table[slots], expected[slots] = np.arange(len(slots)), hashes
                expected[np.setdiff1d(np.arange(2**bits), slots)] = ~hashes[0]  # as good as none
                return shift, table, expected
        return None

    @cached_property
    def _by_number(self) -> tuple[int, Array] | None:
        """The number before the least value, and the place of each from there on; UNKNOWN in the gaps."""
        low, high = int(self.values[0]), int(self.values[-1])
        if high - low >= _SPAN or abs(low) >= EXACT:
            return None
        table = np.full(high - low + 3, UNKNOWN, dtype=np.int32)
        table[np.array([int(value) for value in self.values]) - low + 1] = np.arange(len(self.values))
        return low - 1, table

    def lookup(self, values: pl.Series, na: tuple[str, ...]) -> Array:
        known: dict[Value | None, int] = {value: place for place, value in enumerate(self.values)}
        places = [known.get(value, UNKNOWN) for value in spelled(values, self.kind)]
        if self.kind == TEXT and values.dtype == pl.Boolean:
            # Other programs write True; it is the same value.
            folded = {str(value).lower(): place for value, place in known.items()}
            places = [folded.get(str(value).lower(), UNKNOWN) for value in values.to_list()]
        return self.with_blanks(np.array(places, dtype=np.int64), values, na)

    def to_json(self) -> dict[str, Any]:
        plain = {"name": self.name, "kind": self.kind, "values": list(self.values), "blank": self.blank}
        return {**plain, "reserve": self.reserve} if self.reserve else plain


@dataclass(frozen=True)
class Bins(SiteColumn):
    """A site whose values are half-open ranges of a column of numbers; numbers beyond the ends fall into the end bins.

    >>> column = Bins("age", (0.5, 1.2, 7.0))
    >>> column.labels, column.place("1.2"), column.place("[0.5, 1.2)")
    (('[0.5, 1.2)', '[1.2, 7]'), 1, 0)
    """

    name: str
    edges: tuple[float, ...]
    blank: bool = False
    kind = BINS
    lossy = True
    kinds: ClassVar[tuple[str, ...]] = (BINS,)

    @classmethod
    def from_json(cls, value: Mapping[str, Any], blank: bool, where: str) -> "Bins":
        """From plain values, every one of them checked."""
        edges = value.get("edges")
        right = isinstance(edges, list) and all(type(edge) in (int, float) and np.isfinite(edge) for edge in edges)
        # The last range may hold one number alone.
        if not right or not isinstance(edges, list) or len(edges) < 3 or edges[-2] > edges[-1]:
            raise InputError("three or more ascending edges", repr(edges)[:60], where=f"{where}.edges")
        if any(a >= b for a, b in pairwise(edges[:-1])):
            raise InputError("three or more ascending edges", repr(edges)[:60], where=f"{where}.edges")
        return cls(value["name"], tuple(float(edge) for edge in edges), blank)

    @classmethod
    def fit(cls, column: ColumnCells, count: int, blank: bool, where: str) -> "Bins":
        """At most ``count`` ranges that hold about equally many rows."""
        return cls(column.name, quantile_edges(column.numbers, count, where, column.weights), blank)

    @property
    def natives(self) -> tuple[Value | None, ...]:
        """The ranges as text; a blank is None."""
        return (*edges_label(self.edges), None) if self.blank else edges_label(self.edges)

    def lookup(self, values: pl.Series, na: tuple[str, ...]) -> Array:
        numbers = as_numbers(values)
        found = np.where(np.isnan(numbers), UNKNOWN, self._cut(numbers))
        if values.dtype == pl.String:
            named = {label: place for place, label in enumerate(edges_label(self.edges))}
            for at in np.flatnonzero(found == UNKNOWN):
                found[at] = named.get(values[int(at)], UNKNOWN)
        return self.with_blanks(found, values, na)

    def encode(self, column: ColumnCells) -> Array:
        """Numbers are cut as they are, without looking for the distinct ones."""
        if column.fractions is not None:
            return np.where(np.isnan(column.fractions), self.blank_place, self._cut(column.fractions))
        return super().encode(column)

    def log_evidence(self, conditions: Sequence[Condition]) -> Array:
        """As of categories; a number to compare with must be an edge, for a range is drawn as a whole."""
        named = [each for each in conditions if each.operator not in COMPARISONS]
        met = super().log_evidence(named) == 0
        for each in conditions:
            if each.operator in COMPARISONS:
                met[: len(self.edges) - 1] &= self._within(each)
                met[len(self.edges) - 1 :] = False
        return as_evidence(met)

    def _within(self, condition: Condition) -> Array:
        """Which ranges lie on the right side of a number ``(V,)``.

        Raises:
            InputError: the number lies within a range.
        """
        bound, edges = to_number(condition.values[0], self.name), np.array(self.edges)
        low, high = edges[:-1], edges[1:]
        above = low > bound if condition.operator in (">", "<=") else low >= bound
        below = high < bound if condition.operator in (">=", "<") else high <= bound
        # All but the last range are open at their upper end.
        below[:-1] = high[:-1] <= bound
        cut = ~(above | below)
        if cut.any():
            at = int(cut.argmax())
            came, fix = f"{bound:g}, which lies in {self.labels[at]}", f"its edges: {edges_listed(self.edges)}"
            raise InputError(f"an edge of the ranges of {self.name!r} to compare with", came, GIVEN, fix)
        return above if condition.operator in (">", ">=") else below

    def parameters(self) -> dict[str, Any]:
        """The reading options that asked for this kind."""
        return {"bins": {self.name: self.size - self.blank}}

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, "edges": list(self.edges), "blank": self.blank}

    def _cut(self, numbers: Array) -> Array:
        return np.searchsorted(np.array(self.edges[1:-1]), numbers, side="right")


def column_from_json(value: Any, where: str) -> SiteColumn:
    """A kind of column from plain values, every one of them checked.

    Raises:
        InputError: a field is missing or of the wrong type, values repeat or are out of order.
    """
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        raise InputError("a column with a name", repr(value)[:60], where=where)
    blank, kind = value.get("blank", False), value.get("kind")
    if not isinstance(blank, bool):
        raise InputError("true or false", repr(blank), where=f"{where}.blank")
    known: dict[str, Any] = {}
    for name in registry.names("columns"):
        loaded = registry.load("columns", name)
        known |= dict.fromkeys(loaded.kinds, loaded)
    if not isinstance(kind, str) or kind not in known:
        fix = nearest(str(kind), list(known))
        raise InputError("a kind of column", repr(kind), where=f"{where}.kind", fix=fix)
    found: SiteColumn = known[kind].from_json(value, blank, where)
    return found


def reserve_of(value: Mapping[str, Any], where: str) -> float:
    """The probability that a column's plain values reserve for values never seen."""
    reserve = value.get("reserve", 0.0)
    if type(reserve) not in (int, float) or not 0 <= reserve < 1:
        raise InputError("a probability", repr(reserve)[:60], where=f"{where}.reserve")
    return float(reserve)


def as_numbers(values: pl.Series) -> Array:
    """Distinct values as float64, NaN where they are not numbers."""
    if values.dtype == pl.String:
        values = values.set(~values.str.contains(NUMBER_PATTERN), None)
    found: Array = values.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy()
    return found


def spelled(values: pl.Series, kind: str) -> list[Value | None]:
    """Values of any storage as values of a kind; None where they cannot be.

    >>> spelled(pl.Series(["1.0", "x"]), "integer"), spelled(pl.Series([True]), "text")
    ([1, None], ['true'])
    """
    return [_SPELL[kind](value) for value in values.to_list()]


def as_text(value: Any) -> str:
    """A cell as text; a blank is empty.

    >>> as_text(True), as_text(None), as_text(3)
    ('true', '', '3')
    """
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def is_blank(values: pl.Series, na: Sequence[str]) -> Array:
    """Which distinct values are among the texts in ``na``."""
    if not na or not len(values):
        return np.zeros(len(values), dtype=bool)
    if values.dtype == pl.String and len(values) <= len(na):  # a query takes longer than a few texts
        return np.array([value in na for value in values.to_list()])
    return values.cast(pl.String).is_in(list(na)).to_numpy()


def _as_integer(value: Any) -> int | None:
    if isinstance(value, str):
        if re.match(INTEGER_PATTERN, value):
            digits = value.partition(".")[0]
            # No 64-bit number is longer, and Python refuses to read very long ones.
            return int(digits) if len(digits) <= 20 else None
        if not re.match(NUMBER_PATTERN, value):
            return None
        value = float(value)
    if isinstance(value, float):
        return int(value) if abs(value) <= EXACT and value == int(value) else None
    return int(value)


def _as_boolean(value: Any) -> bool | None:
    return _TRUTH.get(str(value).lower())


_SPELL = {INTEGER: _as_integer, BOOLEAN: _as_boolean, TEXT: as_text}
