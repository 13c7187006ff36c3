"""Dates and times as people write them: which format, or few formats, a column of texts is written in."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from re import findall, fullmatch, sub
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from concrete_score.data.frame import Array

_DAYS = ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y")
_WORDS = ("%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%b %d %Y", "%d %B %Y", "%B %d, %Y", "%B %d %Y", "%d-%b-%y", "%d %b %y")
_SHORT = ("%m/%d/%y", "%d/%m/%y", "%d.%m.%y")
_CLOCK = ("%H:%M", "%H:%M:%S", "%H:%M:%S%.f", "%I:%M %p", "%I:%M:%S %p", "%I:%M%p", "%I:%M:%S%p")
_SPARED = (("%d", "%-d"), ("%m", "%-m"), ("%H", "%-H"), ("%I", "%-I"), ("%p", "%P"))
"""Leading zeros that some leave out, and AM that some write am."""
_OFFSET = r"[+-]\d\d:?\d\d$"
"""A time zone as an offset, at the end of a time."""
COMPACT = "%Y%m%d"
"""Dates that read as whole numbers of eight digits."""
_SPANS = (
    (r"\d{4}", "{}-01-01", "%Y-%m-%d", "1y"),
    (r"\d{4}-\d\d", "{}-01", "%Y-%m-%d", "1mo"),
    (r"[^\W\d]+ \d{4}", "1 {}", "%d %B %Y", "1mo"),
    (r"\d{4}-\d\d-\d\d", "{}", "%Y-%m-%d", "1d"),
)
"""Texts that name a year, a month or a day: their first day, its format, and how long they last."""
MONTH, DAY = 2_629_746_000_000, 86_400_000_000
"""Microseconds of a month on average and of a day; the points of a grid of months are their first days."""
TYPES: Mapping[str, Any] = {"date": pl.Date, "datetime": pl.Datetime("us"), "time": pl.Time}
_FEW, _LOOKED_AT, _MOST = 20, 200, 3
"""Texts that must look like dates, texts that say which format most have, and the most formats of a column."""
_LEAST = 5
"""Whole numbers all of which are dates: fewer different ones may be so by chance."""


class Written(NamedTuple):
    """How dates are written: formats in strftime's codes, the most used first, and which of `TYPES` they are."""

    forms: tuple[str, ...]
    what: str


def find_formats(texts: pl.Series) -> Written | None:
    """The few formats in one of which every text is a date or time; None where there are none.

    Of two formats that read the same texts the first of a list is taken: years first, then months first. Texts in
    several formats are dates only where no format reads what is written in another.

    >>> find_formats(pl.Series(["2024-01-31", "31.01.2024", "2024-02-01"]))
    Written(forms=('%Y-%m-%d', '%d.%m.%Y'), what='date')
    >>> find_formats(pl.Series(["01/31/2024", "31/01/2024", "01/02/2024"])) is None
    True
    """
    if (one := find_format(texts)) is not None:
        return Written((one[0],), one[1])
    if texts.dtype != pl.String or not _look_like_dates(texts):
        return None
    found: list[tuple[str, str, pl.Series]] = []
    rest = texts
    while len(rest):
        best = find_format(rest) or _commonest(rest)
        if best is None or len(found) == _MOST or (found and best[1] != found[0][1]):
            return None
        read = rest.filter(moments(rest, *best).is_not_null())
        found.append((*best, read))
        rest = rest.filter(moments(rest, *best).is_null())
    found.sort(key=lambda each: -len(each[2]))
    for form, what, _ in found:
        if any(moments(read.head(_LOOKED_AT), form, what).count() for other, _, read in found if other != form):
            return None
    return Written(tuple(form for form, _, _ in found), found[0][1])


def find_format(texts: pl.Series, forms: Sequence[str] = ()) -> tuple[str, str] | None:
    """The format in which all texts are dates or times, and which of them they are; None where there is none.

    Of several, the first of ``forms``, by default of all: years first, then months first. Whole numbers are dates
    where all of at least five read as year, month and day.

    >>> find_format(pl.Series(["2024-01-31 12:30", "2024-02-01 00:00"])), find_format(pl.Series(["a", "2024-01-31"]))
    (('%Y-%m-%d %H:%M', 'datetime'), None)
    >>> find_format(pl.Series([20240131, 20240201, 20240202, 20240205, 20240206]))
    ('%Y%m%d', 'date')
    """
    if texts.dtype.is_integer():
        return (COMPACT, "date") if _compact(texts) else None
    if texts.dtype != pl.String or not len(texts) or not _look_like_dates(texts):
        return None
    few = texts.head(_FEW)
    zone = few.str.extract(rf"({_OFFSET})")[0] or ""
    if zone and ":" in few[0].removesuffix(zone) and texts.str.ends_with(zone).all():
        bare = find_format(texts.str.head(-len(zone)), forms)
        return None if bare is None or bare[1] != "datetime" else (bare[0] + zone, bare[1])
    for form in forms or _plain_formats():
        what = what_of(form)
        if moments(few, form, what).null_count() == 0 and not moments(texts, form, what).null_count():
            return _as_written(texts, form, what), what
    return None


def is_format(form: Any) -> bool:
    """Whether a text is one of the formats that `find_format` finds."""
    return isinstance(form, str) and (form == COMPACT or sub(_OFFSET, "", form) in _all_formats())


def what_of(form: str) -> str:
    """Whether a format writes a ``date``, a ``datetime`` or a ``time``."""
    clock = any(hour in form for hour in ("%H", "%-H", "%I", "%-I"))
    return "date" if not clock else "datetime" if "%Y" in form or "%y" in form else "time"


def moments(texts: pl.Series, form: str, what: str) -> pl.Series:
    """Texts as microseconds, since 1970 or midnight; null where they are not of the format."""
    plain = form.replace("%-", "%").replace("%P", "%p")
    if texts.dtype != pl.String:
        texts = texts.cast(pl.String)
    parsed = texts.str.strptime(TYPES[what], plain, strict=False, exact=True)
    if what == "time":
        return parsed.cast(pl.Int64) // 1000
    if "%Y" in plain and parsed.count():  # it would read the year 24 too, and Feb 2005 as the 20th of the year 5
        parsed = parsed.set((parsed.dt.year() < 1000) & ~texts.str.contains(r"\b0\d{3}"), None)
    return parsed.cast(pl.Datetime("us")).cast(pl.Int64)


def find_span(text: str, what: str, forms: Sequence[str] = ()) -> tuple[int, int] | None:
    """The first and the last microsecond of a year, month, day or moment; None where a text is none of them.

    Day and month stand in the order of one of ``forms``, unless the year comes first or the month is a word.

    >>> find_span("1970-01", "datetime"), find_span("1970-01-02", "date"), find_span("soon", "date")
    ((0, 2678399999999), (86400000000, 172799999999), None)
    >>> find_span("Jan 1970", "date"), find_span("2/1/70", "date", ["%d/%m/%Y"]), find_span("2/1/1970", "date")
    ((0, 2678399999999), (86400000000, 86400000000), None)
    """
    for pattern, whole, form, step in _SPANS:
        if what != "time" and fullmatch(pattern, text):
            first = moments(pl.Series([whole.format(text)]), form, "date")
            if first.count():
                after = first.cast(pl.Datetime("us")).dt.offset_by(step).cast(pl.Int64)
                return int(first[0]), int(after[0]) - 1
    orders = {"", "Ymd", *map(_order, forms)}
    tried = [form for form in _plain_formats() if "b" in form.lower() or _order(form) in orders]
    found = find_format(pl.Series([text]), [form for form in tried if what_of(form) == what])
    if found is None:
        return None
    moment = int(moments(pl.Series([text]), *found)[0])
    return moment, moment


def _order(form: str) -> str:
    """In which order a format writes day, month and year: ``mdY``."""
    return "".join(findall(r"[dmbY]", form.replace("B", "b").replace("y", "Y"))).replace("b", "m")


def to_grid(stamps: Array, step: int) -> Array:
    """The last point at or before each moment, of a grid of so many microseconds from 1970 on.

    >>> to_grid(np.array([-1, 0, 40 * DAY]), MONTH).tolist(), from_grid(np.array([-1, 1]), MONTH).tolist()
    ([-1, 0, 1], [-2678400000000, 2678400000000])
    """
    months = step == MONTH
    found: Array = (
        stamps.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64) if months else stamps // step
    )
    return found


def from_grid(keys: Array, step: int) -> Array:
    """The moments of a grid's points, in microseconds; points beyond the years 1 to 9999 are moved to these."""
    keys = keys.clip(*to_grid(np.array([-62_135_596_800_000_000, 253_402_300_799_000_000]), step))
    found: Array = (
        keys.astype("datetime64[M]").astype("datetime64[us]").astype(np.int64) if step == MONTH else keys * step
    )
    return found


def as_temporal(stamps: pl.Series, what: str) -> pl.Series:
    """Microseconds as polars' dates, datetimes or times."""
    if what == "time":
        return (stamps * 1000).cast(pl.Time)
    return stamps.cast(pl.Datetime("us")).cast(TYPES[what])


def _look_like_dates(texts: pl.Series) -> bool:
    return bool(texts.head(_FEW).str.contains(r"\d[-/.: ]|[a-z] \d").all())


def _compact(numbers: pl.Series) -> bool:
    """Whether whole numbers are days of the years 1800 to 2199, all of them: that is hardly ever chance."""
    if len(numbers) < _LEAST or not ((numbers >= 1800_01_01) & (numbers <= 2199_12_31)).all():
        return False
    return moments(numbers, COMPACT, "date").null_count() == 0


def _commonest(texts: pl.Series) -> tuple[str, str] | None:
    """The format that reads most of some texts spread over all of them, if it reads one of them."""
    few = texts.gather_every(max(1, len(texts) // _LOOKED_AT))
    zones = few.str.extract(rf"({_OFFSET})").drop_nulls().unique(maintain_order=True).to_list()
    clocked = [form for form in _plain_formats() if what_of(form) == "datetime" and not form.endswith("Z")]
    tried = [*_plain_formats(), *(form + zone for zone in zones[:_MOST] for form in clocked)]
    counts = [moments(few, form, what_of(form)).count() for form in tried]
    most = max(counts)
    if not most:
        return None
    form = tried[counts.index(most)]
    read = texts.filter(moments(texts, form, what_of(form)).is_not_null())
    return _as_written(read, form, what_of(form)), what_of(form)


@cache
def _plain_formats() -> tuple[str, ...]:
    """All formats with leading zeros, as they are tried."""
    timed = [f"{day}{gap}{clock}{zone}" for day in _DAYS for gap in " T" for clock in _CLOCK for zone in ("", "Z")]
    return (*_CLOCK, *_DAYS, *_WORDS, *_SHORT, *(form for form in timed if "p" not in form or form[-1] != "Z"))


@cache
def _all_formats() -> frozenset[str]:
    return frozenset(each for form in _plain_formats() for each in (form, *_spared(form)))


def _spared(form: str) -> Iterator[str]:
    """Variants of a format, those that leave out most leading zeros first."""
    variants = [form]
    for whole, spared in _SPARED:
        variants += [each.replace(whole, spared) for each in variants if whole in each]
    yield from reversed(variants[1:])


def _as_written(texts: pl.Series, form: str, what: str) -> str:
    """The variant of a format that writes the texts as they are; with leading zeros where none does."""
    first = texts.head(1000)
    cells = as_temporal(moments(first, form, what), what)
    for each in (form, *_spared(form)):
        if cells.dt.strftime(each).equals(first, check_names=False):
            return each
    return form
