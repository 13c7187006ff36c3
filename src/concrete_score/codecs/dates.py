"""Columns of dates and times: numbers on a grid of days, seconds or the like, in the column's own format."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl

from concrete_score.codecs.columns import DATE, UNKNOWN, ColumnCells, SiteColumn, Value
from concrete_score.codecs.conditions import GIVEN, Condition
from concrete_score.codecs.numbers import Number
from concrete_score.codecs.ranges import Allowed, intervals, meet
from concrete_score.data.frame import Array
from concrete_score.errors import InputError

_DAYS = ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y")
_WORDS = ("%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y", "%m/%d/%y", "%d/%m/%y", "%d.%m.%y")
_CLOCK = ("%H:%M", "%H:%M:%S", "%H:%M:%S%.f")
_STEPS = (86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000, 1_000, 1)
"""Microseconds of a day, an hour, a minute, a second, a millisecond and one."""
_TYPES: Mapping[str, Any] = {"date": pl.Date, "datetime": pl.Datetime("us"), "time": pl.Time}


@dataclass(frozen=True)
class Date(SiteColumn):
    """A site whose values are ranges of dates or times, ascending.

    Args:
        number: the ranges, on the grid of ``step``.
        form: how cells are written, in strftime's codes.
        step: microseconds between two grid points.
        what: ``date``, ``datetime`` or ``time``.
        typed: whether the column holds dates, not text.

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
    kind = DATE
    lossy = True
    ordered = True
    kinds: ClassVar[tuple[str, ...]] = (DATE,)

    @classmethod
    def of(cls, column: ColumnCells, ranges: int | None = None, blank: bool = False) -> "Date | None":
        """The kind of a column all of whose cells are dates or times of one format; None of any other."""
        texts = column.known
        found = find_format(texts)
        if found is None:
            return None
        form, what = found
        moments = _moments(texts, form, what).to_numpy()
        step = next(each for each in _STEPS if not (moments % each).any())
        keys = np.append(_moments(column.distinct, form, what).fill_null(0).to_numpy() // step, 0)[column.codes]
        seen = np.append(_moments(column.distinct, form, what).is_not_null().to_numpy(), False)[column.codes]
        number = Number.fit(column.name, keys[seen], 0, ranges, blank=blank)
        return cls(number, form, step, what, column.temporal)

    @classmethod
    def from_json(cls, value: Mapping[str, Any], blank: bool, where: str) -> "Date":
        """From plain values, every one of them checked."""
        form, step, what = value.get("form"), value.get("step"), value.get("what")
        if form not in set(_formats()) or type(step) is not int or step not in _STEPS or what not in _TYPES:
            raise InputError("a known format of dates", repr(form)[:60], where=f"{where}.form")
        typed = value.get("typed", False)
        if not isinstance(typed, bool):
            raise InputError("true or false", repr(typed)[:60], where=f"{where}.typed")
        return cls(Number.from_json(value, blank, where), str(form), step, str(what), typed)

    def to_json(self) -> dict[str, Any]:
        more = {"kind": self.kind, "form": self.form, "step": self.step, "what": self.what, "typed": self.typed}
        return {**self.number.to_json(), **more}

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.number.name

    @property
    def blank(self) -> bool:  # type: ignore[override]
        return self.number.blank

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

    def decode(
        self, codes: Array, rng: np.random.Generator | None = None, conditions: Sequence[Condition] = ()
    ) -> pl.Series:
        """Dates drawn inside the ranges ``(N,)``, or each range's middle where nothing may be random."""
        known = codes < self.size - self.blank
        return self._written(self.number.drawn(np.where(known, codes, 0), rng, self.allowed(conditions)), known)

    def allowed(self, conditions: Sequence[Condition]) -> Allowed:
        """The intervals of grid points that all conditions allow.

        Raises:
            InputError: a value that is no date in the column's format, nor in ISO's.
        """
        return meet(intervals(each.operator, self._intervals(each.values)) for each in conditions)

    def _intervals(self, values: Sequence[str]) -> list[tuple[int, int]]:
        keys = []
        for text in values:
            moment = self._parsed(pl.Series([text]))
            iso = find_format(pl.Series([text]))
            if moment.null_count() and iso is not None and iso[1] == self.what:
                moment = _moments(pl.Series([text]), *iso)
            if moment.null_count():
                example = self._texts(self.number.extent[0])[0]
                raise InputError(f"a {self.what} for {self.name!r}, such as {example}", repr(text), GIVEN)
            whole, rest = divmod(int(moment[0]), self.step)
            keys.append((whole + (rest > 0), whole))
        return keys

    def log_evidence(self, conditions: Sequence[Condition]) -> Array:
        """``log P(all conditions | range)`` ``(V,)``."""
        return self.number.interval_evidence(self.allowed(conditions))

    def summary(self, log_probs: Array, how: str) -> pl.Series:
        """What fills blanks of these log-probabilities ``(B, V)``: a mean, median or mode on the grid."""
        keys = self.number.summary_keys(log_probs, how)
        return self._written(keys, np.ones(len(keys), dtype=bool))

    def _parsed(self, texts: pl.Series) -> pl.Series:
        return _moments(texts, self.form.replace("%-", "%"), self.what)

    def _keys(self, moments: pl.Series) -> Array:
        found: Array = moments.fill_null(0).to_numpy() // self.step
        return found

    def _moment(self, keys: Array) -> pl.Series:
        unit = 86_400_000_000 if self.what == "time" else None
        micros = keys * self.step if unit is None else (keys * self.step).clip(0, unit - 1)
        # Years from 1 to 9999, as far as calendars write them.
        stamps = pl.Series(self.name, micros.clip(-62_135_596_800_000_000, 253_402_300_799_000_000))
        if self.what == "time":
            return (stamps * 1000).cast(pl.Time)
        return stamps.cast(pl.Datetime("us")).cast(_TYPES[self.what])

    def _texts(self, keys: Array) -> pl.Series:
        return self._moment(keys).dt.strftime(self.form)

    def _written(self, keys: Array, known: Array) -> pl.Series:
        cells = self._moment(keys) if self.typed else self._texts(keys)
        return cells.alias(self.name).set(pl.Series(~known), None)


def find_format(texts: pl.Series) -> tuple[str, str] | None:
    """The format in which all texts are dates or times, and which of them they are; None where there is none.

    Of several, the first of the list: years first, then months first.

    >>> find_format(pl.Series(["2024-01-31 12:30", "2024-02-01 00:00"])), find_format(pl.Series(["a", "2024-01-31"]))
    (('%Y-%m-%d %H:%M', 'datetime'), None)
    """
    if texts.dtype != pl.String or not len(texts):
        return None
    few = texts.head(20)
    if not few.str.contains(r"\d[-/.: ]|[a-z] \d").all():
        return None
    for form in _formats():
        what = _what(form)
        if (
            "%-" not in form
            and _moments(few, form, what).null_count() == 0
            and not _moments(texts, form, what).null_count()
        ):
            return _as_written(texts, form, what), what
    return None


def _formats() -> Iterator[str]:
    """All formats, as they are tried; those without leading zeros after those with."""
    plain = [*_CLOCK, *_DAYS, *_WORDS]
    plain += [f"{day}{gap}{clock}{zone}" for day in _DAYS for gap in " T" for clock in _CLOCK for zone in ("", "Z")]
    yield from plain
    for form in plain:
        yield from _less_padded(form)


def _less_padded(form: str) -> list[str]:
    day = form.replace("%d", "%-d")
    month = form.replace("%m", "%-m")
    both = day.replace("%m", "%-m")
    hour = [each.replace("%H", "%-H") for each in (form, day, month, both)]
    return [each for each in dict.fromkeys([both, day, month, *hour]) if each != form]


def _as_written(texts: pl.Series, form: str, what: str) -> str:
    """The variant of a format that writes the texts as they are; with leading zeros where none does."""
    moments = _moments(texts.head(1000), form, what)
    for each in (form, *_less_padded(form)):
        if _rendered(moments, what).dt.strftime(each).equals(texts.head(1000), check_names=False):
            return each
    return form


def _rendered(moments: pl.Series, what: str) -> pl.Series:
    if what == "time":
        return (moments * 1000).cast(pl.Time)
    return moments.cast(pl.Datetime("us")).cast(_TYPES[what])


def _what(form: str) -> str:
    return "time" if form.startswith(("%H", "%-H")) else "datetime" if "%H" in form or "%-H" in form else "date"


def _moments(texts: pl.Series, form: str, what: str) -> pl.Series:
    """Texts as microseconds, since 1970 or midnight; null where they are not of the format."""
    if texts.dtype != pl.String:
        texts = texts.cast(pl.String)
    parsed = texts.str.strptime(_TYPES[what], form, strict=False, exact=True)
    if what == "time":
        return parsed.cast(pl.Int64) // 1000
    return parsed.cast(pl.Datetime("us")).cast(pl.Int64)
