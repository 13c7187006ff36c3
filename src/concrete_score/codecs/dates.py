"""Columns of dates and times: numbers on a grid of months, days, seconds or the like, in the column's own format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl

from concrete_score.codecs.columns import DATE, UNKNOWN, ColumnCells, Quick, SiteColumn, Value
from concrete_score.codecs.conditions import GIVEN, Condition
from concrete_score.codecs.numbers import Number
from concrete_score.codecs.ranges import Allowed, Histogram, intervals, meet
from concrete_score.data.dates import (
    COMPACT,
    DAY,
    MONTH,
    TYPES,
    as_temporal,
    find_formats,
    find_span,
    from_grid,
    is_format,
    moments,
    to_grid,
)
from concrete_score.data.frame import Array
from concrete_score.errors import InputError

_STEPS = (MONTH, DAY, 3_600_000_000, 60_000_000, 1_000_000, 1_000, 1)
"""Microseconds of a month, a day, an hour, a minute, a second, a millisecond and one."""


@dataclass(frozen=True)
class Date(SiteColumn):
    """A site whose values are ranges of dates or times, ascending.

    Args:
        number: the ranges, on the grid of ``step``.
        form: how cells are written, in strftime's codes.
        step: microseconds between two grid points.
        what: ``date``, ``datetime`` or ``time``.
        typed: whether the column holds dates, not text.
        others: further formats in which cells may be written; new ones are written in the first.

    >>> from concrete_score.codecs.cells import Column
    >>> column = Date.of(Column(pl.Series("day", [f"{d}.01.2024" for d in range(1, 32)])))
    >>> column.form, column.decode(np.array([0, 1])).to_list(), column.place("2.1.2024")
    ('%-d.%m.%Y', ['4.01.2024', '12.01.2024'], 0)
    """

    number: Number
    form: str
    step: int
    what: str
    typed: bool = False
    others: tuple[str, ...] = ()
    kind = DATE
    lossy = True
    ordered = True
    kinds: ClassVar[tuple[str, ...]] = (DATE,)

    @classmethod
    def of(cls, column: ColumnCells, ranges: int | None = None, blank: bool = False) -> "Date | None":
        """The kind of a column all of whose cells are dates or times, of one format or few; None of any other."""
        whole = column.known.cast(pl.Int64, strict=False) if column.whole is not None else column.known
        found = find_formats(column.known if whole.null_count() else whole)
        if found is None:
            return None
        moments = _read(column.distinct, *found)
        known = (moments.is_not_null() & column.distinct.is_in(column.known.implode())).to_numpy()
        stamps = moments.fill_null(0).to_numpy()
        step = next(each for each in _STEPS if (from_grid(to_grid(stamps[known], each), each) == stamps[known]).all())
        keys, seen = np.append(to_grid(stamps, step), 0)[column.codes], np.append(known, False)[column.codes]
        counts = None if column.weights is None else column.weights[seen]
        number = Number.fit(column.name, keys[seen], 0, ranges, counts=counts, blank=blank)
        return cls(number, found.forms[0], step, found.what, column.temporal, found.forms[1:])

    @classmethod
    def from_json(cls, value: Mapping[str, Any], blank: bool, where: str) -> "Date":
        """From plain values, every one of them checked."""
        form, step, what = value.get("form"), value.get("step"), value.get("what")
        others = value.get("others", [])
        known = isinstance(others, list) and all(map(is_format, [form, *others]))
        if not known or type(step) is not int or step not in _STEPS or what not in TYPES:
            raise InputError("a known format of dates", repr(form)[:60], where=f"{where}.form")
        typed = value.get("typed", False)
        if not isinstance(typed, bool):
            raise InputError("true or false", repr(typed)[:60], where=f"{where}.typed")
        return cls(Number.from_json(value, blank, where), str(form), step, str(what), typed, tuple(others))

    def to_json(self) -> dict[str, Any]:
        more = {"kind": self.kind, "form": self.form, "step": self.step, "what": self.what, "typed": self.typed}
        return {**self.number.to_json(), **more, **({"others": list(self.others)} if self.others else {})}

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.number.name

    @property
    def blank(self) -> bool:  # type: ignore[override]
        return self.number.blank

    @property
    def reserve(self) -> float:  # type: ignore[override]
        return self.number.reserve

    def reserving(self, share: float) -> "Date":
        """The same column with this probability kept for cells that are no dates."""
        return replace(self, number=replace(self.number, reserve=share))

    @property
    def size(self) -> int:
        """How many ranges there are."""
        return self.number.size

    @property
    def neighbors(self) -> Array:
        """Pairs of ranges that lie side by side ``(E, 2)``."""
        return self.number.neighbors

    def joined(self, group: Array) -> "Date":
        """The column with its ranges joined."""
        return replace(self, number=self.number.joined(group))

    @property
    def log_sizes(self) -> Array | None:
        """Logarithm of how many grid points each range has ``(V,)``."""
        return self.number.log_sizes

    @cached_property
    def natives(self) -> tuple[Value | None, ...]:
        """The ranges as text; a blank is None."""
        low, high = self.number.extent
        first, last = self._texts(low).to_list(), self._texts(high).to_list()
        texts = [a if a == b else f"{a}–{b}" for a, b in zip(first, last, strict=True)]
        names = [text if text not in texts[:at] else f"{text} ({at})" for at, text in enumerate(texts)]
        return (*names, None) if self.blank else tuple(names)

    def lookup(self, values: pl.Series, na: tuple[str, ...]) -> Array:
        """The range of each distinct value: a date, or a range's own label."""
        texts = values.cast(pl.String)
        moments = self._parsed(texts)
        found = np.where(moments.is_null().to_numpy(), UNKNOWN, self.number.cell_of(self._keys(moments)))
        named = {label: place for place, label in enumerate(self.natives)}
        for at in np.flatnonzero(found == UNKNOWN):
            found[at] = named.get(texts[int(at)], UNKNOWN)
        return self.with_blanks(found, values, na)

    def log_inside(self, column: ColumnCells) -> Array:
        """``log P(date | its range)`` on the grid ``(N,)``; 0 where there is none."""
        moments = self._parsed(column.distinct.cast(pl.String))
        each = np.where(moments.is_null().to_numpy(), 0.0, self.number.log_points(self._keys(moments)))
        return np.append(each, 0.0)[column.codes]

    def quick(self, cells: pl.Series) -> Quick | None:
        """Stored days, without writing them as texts."""
        if cells.dtype != pl.Date or self.what != "date" or not self.typed or cells.null_count():
            return None
        days = cells.to_physical().to_numpy().astype(np.int64)
        return self.number.quick_keys(days if self.step == DAY else to_grid(days * DAY, self.step))

    def decode(
        self, codes: Array, rng: np.random.Generator | None = None, conditions: Sequence[Condition] = ()
    ) -> pl.Series:
        """Dates drawn inside the ranges ``(N,)``, or each range's middle where nothing may be random."""
        known = codes < self.size - self.blank
        allowed = self.allowed(conditions)
        keys = self.number.drawn(np.where(known, codes, 0), rng, allowed)
        return self._written(keys if rng is None else self.number.within_span(keys, allowed), known)

    def allowed(self, conditions: Sequence[Condition]) -> Allowed:
        """The intervals of grid points that all conditions allow.

        Raises:
            InputError: a value that is no date in the column's format, nor in ISO's, nor in another with its order.
        """
        return meet(intervals(each.operator, self._intervals(each.values)) for each in conditions)

    def _intervals(self, values: Sequence[str]) -> list[tuple[int, int]]:
        """The grid points of each value: one, those of a whole day, month or year, or none between two of them."""
        keys = []
        for text in values:
            moment = self._parsed(pl.Series([text]))[0]
            forms = (self.form, *self.others)
            span = find_span(text, self.what, forms) if moment is None else (int(moment), int(moment))
            if span is None:
                last = np.array(self.number.span[1:])
                day = "" if self.what == "time" else str(self._moment(last)[0])[:10]
                also = day and f", or a day, month or year such as {day}, {day[:7]} or {day[:4]}"
                expected = f"a {self.what} for {self.name!r}, such as {self._texts(last)[0]}{also}"
                raise InputError(expected, repr(text), GIVEN)
            before, end = to_grid(np.array([span[0] - 1, span[1]]), self.step).tolist()
            keys.append((before + 1, end))
        return keys

    def log_evidence(self, conditions: Sequence[Condition]) -> Array:
        """``log P(all conditions | range)`` ``(V,)``."""
        return self.number.interval_evidence(self.allowed(conditions))

    def extrapolated(self, conditions: Sequence[Condition]) -> str | None:
        return self.number.beyond_span(self.allowed(conditions), lambda key: str(self._texts(np.array([key]))[0]))

    def histogram(self, conditions: Sequence[Condition] = ()) -> Histogram:
        """Ranges of about equal length over the bulk of the training values."""

        def spell(keys: Sequence[int]) -> Sequence[str]:
            texts: list[str] = self._texts(np.array(keys, dtype=np.int64)).to_list()
            return texts

        return self.number.spelled_histogram(self.allowed(conditions), spell)

    def summary(self, log_probs: Array, how: str) -> pl.Series:
        """What fills blanks of these log-probabilities ``(B, V)``: a mean, median or mode on the grid."""
        keys = self.number.summary_keys(log_probs, how)
        return self._written(keys, np.ones(len(keys), dtype=bool))

    def _parsed(self, texts: pl.Series) -> pl.Series:
        return _read(texts, (self.form, *self.others), self.what)

    def _keys(self, moments: pl.Series) -> Array:
        return to_grid(moments.fill_null(0).to_numpy(), self.step)

    def _moment(self, keys: Array) -> pl.Series:
        stamps = from_grid(keys, self.step)
        return as_temporal(pl.Series(self.name, stamps.clip(0, DAY - 1) if self.what == "time" else stamps), self.what)

    def _texts(self, keys: Array) -> pl.Series:
        return self._moment(keys).dt.strftime(self.form)

    def _written(self, keys: Array, known: Array) -> pl.Series:
        cells = self._moment(keys) if self.typed else self._texts(keys)
        cells = cells.cast(pl.Int64) if self.form == COMPACT else cells
        return cells.alias(self.name).set(pl.Series(~known), None)


def _read(texts: pl.Series, forms: Sequence[str], what: str) -> pl.Series:
    """Texts as microseconds by the first format that reads each; null where none does."""
    found = moments(texts, forms[0], what)
    for form in forms[1:]:
        found = found.zip_with(found.is_not_null(), moments(texts, form, what))
    return found
