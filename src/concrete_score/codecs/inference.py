"""From a table to the kinds of its columns: how it is to be read, what each column is, and why.

What a column is, by default:

- one value in every row, or none: *constant*, kept aside;
- booleans, and text of few values: *categories*;
- text that is dates or times of one format, or of few that cannot be confused, and whole numbers such as 20240131:
  *date*;
- text that is numbers with a currency, a unit or parted thousands around or in them: *number*;
- a few words among numbers or dates, in few rows, count as not observed, and come back as they are;
- text all of whose cells differ, and whole numbers that count the rows or are called so: *identifier*, left aside;
- text of many values: the frequent ones stay, the rest is *pooled*; where hardly any two are equal it is left aside;
- whole numbers: *categories* up to `MAX_CODES` different values (codes, small counts), *number* beyond;
- other numbers: *number*.

An array without column names holds states: its whole numbers are categories as long as they are few enough.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from concrete_score.codecs.amounts import Amount
from concrete_score.codecs.aside import AsideColumn, Constant, FreeText, Identifier
from concrete_score.codecs.base import check_choice
from concrete_score.codecs.cells import Column
from concrete_score.codecs.columns import (
    AMOUNT,
    BOOLEAN,
    INTEGER,
    NUMBER,
    TEXT,
    Bins,
    Categories,
    SiteColumn,
    as_numbers,
)
from concrete_score.codecs.dates import Date
from concrete_score.codecs.joining import join_cells
from concrete_score.codecs.numbers import Number
from concrete_score.codecs.pooled import Pooled
from concrete_score.comparison.cells import FEW_WORDS, MANY, SPELLINGS, STRAY, blank_texts, counts_rows
from concrete_score.data.amounts import find_spelling
from concrete_score.data.frame import Array, Frame
from concrete_score.defaults import MAX_CATEGORIES, MAX_CODES, MISSING
from concrete_score.errors import InputError, Option, Part, Text, check_count, nearest

KINDS = ("category", "number", "date", "text", "identifier", "constant")
"""What a user may say that a column is."""
_FEW_TEXTS = 20
"""Texts of so few values are categories however few rows there are."""
_FIRST = 1000
"""Rows that are looked at before all of them are."""
_FAULTS = 100
"""Columns that are not what they were said to be, after which no further ones are looked for."""
_ROWS, _TEXTS, _FEW_ROWS = 20, 10, 5
"""Rows from which on whole numbers without gaps identify them; from which on different texts do; and from which on the
numbers 1, 2, 3, … in this order do, or different values that are called so.
"""


@dataclass(frozen=True)
class TableOptions:
    """How a table is to be read.

    Args:
        columns: the columns to use, in this order; all if empty.
        drop: columns to leave out.
        column: what columns are, where it is not to be inferred: ``{"zip": "category"}``; one of `KINDS`.
        bins: how many quantile ranges to cut a numeric column into, whose values are then the ranges; or one count for
            all columns of numbers.
        na: texts that mean a blank cell; by default the usual spellings in text files, and none elsewhere.
        max_categories: the most values a column of categories may take.
        missing: blank cells: ``unobserved``, ``drop`` their rows, make them a ``category``, or ``refuse`` them.
        weight: a column that says as how many rows each row counts; it is not modelled.

    >>> TableOptions(bins={"age": 1})
    Traceback (most recent call last):
    concrete_score.errors.InputError: bins={'age': 1}: expected 2 bins or more, got 1; ...
    """

    # Values are checked here, whatever their types: they may come from anyone's Python.
    columns: Any = ()
    drop: Any = ()
    column: Any = field(default_factory=dict)
    bins: Any = field(default_factory=dict)
    na: Any = None
    max_categories: Any = None
    missing: Any = MISSING[0]
    weight: Any = None

    def __post_init__(self) -> None:
        check_choice(self.missing, MISSING, "missing")
        for option in ("columns", "drop", "na"):
            if option != "na" or self.na is not None:
                object.__setattr__(self, option, _texts(getattr(self, option), option))
        if self.max_categories is not None:
            object.__setattr__(self, "max_categories", check_count(self.max_categories, Option("max-categories"), 2))
        if not isinstance(self.column, Mapping):
            raise InputError("a mapping such as {'zip': 'category'}", repr(self.column)[:60], Option("column"))
        for kind in self.column.values():
            check_choice(kind, KINDS, "column")
        counts = self.bins if isinstance(self.bins, Mapping) else {"": self.bins}
        for name, count in counts.items():
            if not isinstance(count, int | np.integer) or isinstance(count, bool):
                check_count(count, Option("bins"), 2)
            if count < 2:
                where = Option("bins", {name: count}) if name != "" else Option("bins")
                raise InputError("2 bins or more", str(count), where, ("for example ", Option("bins", {"COLUMN": 10})))

    def chosen(self, frame: Frame) -> Frame:
        """The table with the columns to use.

        Raises:
            InputError: a named column is not in the table.
        """
        present = frozenset(frame.names)
        columns, drop = (
            [_column(key, frame, present, name) for key in getattr(self, name)] for name in ("columns", "drop")
        )
        for option in ("bins", "column"):
            for key in getattr(self, option) if isinstance(getattr(self, option), Mapping) else ():
                _column(key, frame, present, option)
        drop += [] if self.weight is None else [_column(self.weight, frame, present, "weight")]
        left_out = frozenset(drop)
        names = [name for name in dict.fromkeys(columns or frame.names) if name not in left_out]
        if not names:
            raise InputError("at least one column", "none", where=frame.where)
        return frame if names == frame.table.columns else replace(frame, table=frame.table.select(names))

    def blanks(self, frame: Frame) -> tuple[str, ...]:
        """The texts that mean a blank cell of this table."""
        return blank_texts(frame, self.na)

    def asked(self, name: str, frame: Frame) -> str | None:
        """What a column was said to be."""
        kind: str | None = _of(self.column, name, frame)
        return kind

    def bins_of(self, name: str, frame: Frame) -> int | None:
        """Into how many ranges a column is to be cut whose values are the ranges."""
        return _of(self.bins, name, frame) if isinstance(self.bins, Mapping) else int(self.bins)


Tell = Callable[[int, int], None]
"""``tell(done, total)``: how far the work is."""


class Inferred(NamedTuple):
    """The kinds of a table's columns, and why each is what it is, by name."""

    columns: tuple[SiteColumn, ...]
    aside: tuple[AsideColumn, ...]
    why: tuple[tuple[str, str], ...]
    notes: tuple[tuple[Part, ...], ...] = ()
    """What was read in one way and may have been meant in another."""


class Judged(NamedTuple):
    """What one column is, why, and what else is to be said of it."""

    kind: SiteColumn | AsideColumn
    why: str
    notes: tuple[tuple[Part, ...], ...] = ()


def infer_columns(frame: Frame, options: TableOptions, tell: Tell = lambda done, total: None) -> Inferred:
    """The kind of every column of a table; of a sample of one, by what is known of all its rows.

    ``tell(done, total)`` receives how far it is: to judge each column alone is a quarter of the work, and the rest to
    look at what they say of one another.

    Raises:
        InputError: blank cells that may be neither; columns that cannot be what they were said to be, all in one
            message; or no column of two values or more.
    """
    na = options.blanks(frame)
    _refuse_constants(frame, options, na)
    columns = [Column.of_frame(frame, name, na) for name in frame.names]
    if all(column.blanks == len(column) for column in columns):
        raise _all_blank(frame)
    found = _judge_each(columns, frame, options, lambda done, total: tell(done, 4 * total))
    pairs = [
        (column, each.kind) for column, each in zip(columns, found, strict=True) if isinstance(each.kind, SiteColumn)
    ]
    sites = tuple(kind for _, kind in pairs)
    if not sites:
        raise _all_constant(frame)
    if options.missing == "refuse":
        fix_blanks: list[Text] = [Option("missing", "drop"), Option("missing", "category")]
        refuse_blanks(
            frame, {c.name: c.blanks for c, each in zip(columns, found, strict=True) if each.kind in sites}, fix_blanks
        )
    aside = tuple(each.kind for each in found if isinstance(each.kind, AsideColumn))
    # Which values occur together is told by rows, not by counts of each column's own.
    rows = (
        column if frame.census is None else Column(frame.table[column.name], na, frame.typed) for column, _ in pairs
    )
    codes = (kind.encode(column) for column, kind in zip(rows, sites, strict=True))
    joined = join_cells(sites, codes, lambda done, total: tell(total + 3 * done, 4 * total))
    why = tuple((c.name, each.why) for c, each in zip(columns, found, strict=True))
    return Inferred(tuple(joined), aside, why, tuple(note for each in found for note in each.notes))


def _refuse_constants(frame: Frame, options: TableOptions, na: Collection[str]) -> None:
    """Refuse a table in which nothing varies at first sight: a close look at very many columns takes minutes.

    A cell counts as blank here only where it certainly is; what is let pass is judged later.
    """
    if options.column or options.bins or frame.census is not None:
        return
    blanks, seen = frozenset(("", *na)) if not frame.typed else frozenset(("",)), False
    for series in frame.table:
        for cells in (series,) if len(frame) <= _FIRST else (series.head(_FIRST), series.unique()):
            values = set(cells.to_list())
            known = {value for value in values if value is not None and value == value and value not in blanks}
            if len(known) > 1 or (known and len(known) < len(values) and options.missing != "drop"):
                return
        seen |= bool(known)
    raise _all_constant(frame) if seen else _all_blank(frame)


def _all_blank(frame: Frame) -> InputError:
    return InputError("a table with values", "blank cells alone", where=frame.where, fix="give rows with values")


def _all_constant(frame: Frame) -> InputError:
    fix = "give a table whose columns depend on one another"
    return InputError("a column with two values or more", "none", frame.where, fix)


def refuse_blanks(frame: Frame, counts: Mapping[str, int], fix: list[Text]) -> None:
    """Refuse blank cells, with how many there are and in which columns."""
    if any(counts.values()):
        raise InputError("no blank cells (empty, NaN, None or null)", _listed(counts), where=frame.where, fix=fix)


class _Fault(Exception):
    """A column cannot be what it was said to be."""

    def __init__(self, reason: str, option: Option) -> None:
        self.reason, self.option = reason, option


def _judge_each(columns: Sequence[Column], frame: Frame, options: TableOptions, tell: Tell) -> list[Judged]:
    """What each column is.

    Raises:
        InputError: some cannot be what they were said to be.
    """
    faults: list[tuple[str, str, Option]] = []
    found: list[Judged] = []
    usual = cache(lambda: max((column.blanks for column in columns if len(column.known) > 1), default=0))
    for at, column in enumerate(columns):
        try:
            found.append(_judge(column, at, frame, options, usual))
        except _Fault as fault:
            faults.append((column.name, fault.reason, fault.option))
            if len(faults) == _FAULTS:  # of thousands no line could tell
                break
        tell(at + 1, len(columns))
    if faults:
        came = ", ".join(f"{name!r} ({reason})" for name, reason, _ in faults)
        fixes = {repr(option): option for _, _, option in faults}
        raise InputError("columns that are what they were said to be", came, frame.where, [tuple(fixes.values())])
    return found


def _judge(column: Column, at: int, frame: Frame, options: TableOptions, usual: Callable[[], int]) -> Judged:
    """What a column is: as it was said, or else as its cells suggest; other columns have ``usual`` blanks at most."""
    asked, count = options.asked(column.name, frame), options.bins_of(column.name, frame)
    blank = options.missing == "category" and column.blanks > 0
    if asked is not None:
        kind = _AS[asked](column, at, blank, options)
        return kind if isinstance(kind, Judged) else Judged(kind, "as asked for")
    if isinstance(options.bins, Mapping) and count is not None:
        if not column.numeric:
            raise _Fault(*_not_numbers(column, options))
        return Judged(_binned(column, count, blank, frame), f"cut into {count} ranges, as asked for")
    if not len(column.known):
        return Judged(Constant(column.name, at, None), "blank in every row: left aside")
    if len(column.known) == 1 and not (column.blanks and options.missing != "drop"):
        return Judged(_constant(column, at), "one value in every row: kept aside, and given back")
    if len(column.known) == 1 and column.blanks <= usual() and not blank:
        return Judged(_constant(column, at), "one value wherever it is known: kept aside, and given back")
    if len(column.known) == 1:
        return Judged(_category(column, True), "one value or blank: a blank counts as a value")
    return _inferred(column, at, blank, frame, options)


def _inferred(column: Column, at: int, blank: bool, frame: Frame, options: TableOptions) -> Judged:
    values, rows = len(column.known), int(column.counts.sum())
    distinct = values == rows and rows >= _FEW_ROWS and not blank and frame.named
    most = options.max_categories or MAX_CATEGORIES
    if column.kind == BOOLEAN:
        return Judged(_category(column, blank), "true or false")
    if column.kind == TEXT:
        if (found := _measured(column, blank)) is not None:
            return found
        return _text(column, at, blank, distinct, most)
    if column.kind == INTEGER and frame.named and (date := Date.of(column, blank=blank)) is not None:
        return _as_dates(date)
    codes = options.max_categories or (MAX_CODES if frame.named else MAX_CATEGORIES)
    if column.kind == INTEGER and distinct and _counts_rows(column):
        return Judged(Identifier.of(column, at), "whole numbers that tell the rows apart: left aside")
    count = None if isinstance(options.bins, Mapping) else options.bins_of(column.name, frame)
    if column.kind == INTEGER and values <= codes:
        return Judged(_category(column, blank), f"{values} whole numbers, few enough to be categories")
    if count is not None:
        return Judged(_binned(column, count, blank, frame), f"cut into {count} ranges, as asked for")
    kind = "whole numbers" if column.kind == INTEGER else "numbers"
    return Judged(Number.of(column, blank=blank), f"{values:,} different {kind}{_among(column)}")


def _among(column: Column) -> str:
    """What a number of different values refers to, where not all rows were looked at."""
    return "" if column.drawn is None else f" in {column.drawn:,} rows of {len(column):,}"


def _measured(column: Column, blank: bool) -> Judged | None:
    """Text that is dates, or numbers of more than `MAX_CODES` values, but for a few words; None of any other."""
    if (date := Date.of(column, blank=blank)) is not None:
        return _as_dates(date)
    if len(column.known) <= MAX_CODES:
        return None
    if (amount := Amount.of(column, blank=blank)) is not None:
        example = column.known[0]
        return Judged(amount, f"{len(column.known):,} different numbers{_among(column)} written like {example}")
    return _but_for_words(column, blank)


def _as_dates(date: Date) -> Judged:
    why = f"{date.what}s written {' or '.join((date.form, *date.others))}"
    if not date.others:
        return Judged(date, why)
    note = f"column {date.name!r} has {why}; new ones are written in the first way"
    return Judged(date, why, ((note,),))


def _but_for_words(column: Column, blank: bool) -> Judged | None:
    """A column of numbers or dates with a few words in it, for which a probability is reserved; None of any other."""
    like = _like_numbers(column.known)
    words = column.known.filter(pl.Series(~like)).to_list()
    odd = [count for text, count in zip(words, column.counts[~like], strict=True) if text not in SPELLINGS]
    if not 1 <= len(words) <= FEW_WORDS or sum(odd) > STRAY * column.counts.sum():
        return None
    rest, found = column.hiding(words), None
    if rest.numeric:
        found = Judged(Number.of(rest, blank=blank), f"{len(rest.known):,} different numbers{_among(rest)}")
    found = found or _measured(rest, blank)
    if found is None or not isinstance(found.kind, SiteColumn):
        return None
    cells, listed = rest.blanks - column.blanks, ", ".join(map(repr, words))
    told = f"column {column.name!r}: {listed}, in {cells:,} of {len(column):,} rows, counts as not observed, and stays"
    note = (f"{told}; or use ", Option("column", {column.name: "text"}))
    kind = found.kind.reserving(cells / max(1, len(column) - column.blanks))
    return Judged(kind, f"{found.why}, but for {listed}", (note, *found.notes))


def _text(column: Column, at: int, blank: bool, distinct: bool, most: int) -> Judged:
    values, rows = len(column.known), int(column.counts.sum())
    if distinct and (rows >= _TEXTS or _is_called_so(column)):
        return Judged(Identifier.of(column, at), "every row has another text: left aside")
    if _are_few(column, most):
        return Judged(_category(column, blank), f"{values} texts")
    pooled = Pooled.of(column, most, max(5, rows // 1000), blank)
    if not pooled.values:
        why = f"{values:,} texts{_among(column)}, none of them frequent: left aside, drawn back"
        return Judged(FreeText.of(column, at), why)
    kept = f"the {len(pooled.values)} frequent ones stay, the rest is pooled and drawn back"
    return Judged(pooled, f"{values:,} texts{_among(column)}: {kept}")


def _are_few(column: Column, most: int) -> bool:
    """Whether texts are few enough to be categories."""
    return len(column.known) <= max(_FEW_TEXTS, min(most, int(column.counts.sum()) // 5))


def _counts_rows(column: Column) -> bool:
    """Whether different whole numbers number the rows, where there are few of them in their order, or are called so."""
    if column.whole is None or len(column) >= _ROWS:
        return column.whole is not None and counts_rows(column.name, column.whole, len(column))
    in_order = bool((np.diff(column.whole) == 1).all()) and column.whole[0] in (0, 1)
    return in_order or _is_called_so(column)


def _is_called_so(column: Column) -> bool:
    """Whether a column has the name of one that identifies rows: numbers with gaps would do so by their name alone."""
    return counts_rows(column.name, np.array([0, 2]), 2)


def _category(column: Column, blank: bool) -> Categories:
    """Categories, with the probability that the values seen once say belongs to values not seen."""
    once = int((column.counts == 1).sum())
    reserve = 0.0 if column.kind == BOOLEAN else min(once / max(1, int(column.counts.sum())), 0.5)
    if column.kind == NUMBER:
        texts = tuple(sorted(map(str, column.known.to_list())))
        return Categories(column.name, TEXT, texts, blank, reserve)
    return Categories(column.name, column.kind, column.values, blank, reserve)


def _constant(column: Column, at: int) -> Constant:
    if column.whole is not None:
        return Constant(column.name, at, int(column.values[0]))
    return Constant(column.name, at, column.known[0])


def _binned(column: Column, count: int, blank: bool, frame: Frame) -> Bins:
    return Bins.fit(column, count, blank, f"{frame.where}: column {column.name!r}")


def _as_category(column: Column, at: int, blank: bool, options: TableOptions) -> SiteColumn | AsideColumn:
    if len(column.known) > 2**16:
        raise _Fault(f"{len(column.known):,} values, too many for categories", Option("column", {column.name: "text"}))
    return _category(column, blank) if len(column.known) > 1 or blank else _constant(column, at)


def _as_number(column: Column, at: int, blank: bool, options: TableOptions) -> SiteColumn | Judged:
    if column.numeric and len(column.known) > 1:
        return Number.of(column, blank=blank)
    if (amount := Amount.of(column, blank=blank)) is not None and len(column.known) > 1:
        return amount
    found = _but_for_words(column, blank) if column.kind == TEXT else None
    if found is None or found.kind.kind not in (NUMBER, AMOUNT):
        raise _Fault(*_not_numbers(column, options))
    return found


def _as_date(column: Column, at: int, blank: bool, options: TableOptions) -> SiteColumn:
    found = Date.of(column, blank=blank)
    if found is None:
        raise _Fault("not dates of one known format", _instead(column, options))
    return found


def _as_text(column: Column, at: int, blank: bool, options: TableOptions) -> SiteColumn | AsideColumn:
    rows = int(column.counts.sum())
    pooled = Pooled.of(column, options.max_categories or MAX_CATEGORIES, max(5, rows // 1000), blank)
    if pooled.values and pooled.pool:
        return pooled
    return FreeText.of(column, at) if not pooled.values else _category(column, blank)


_AS: Mapping[str, Any] = {
    "category": _as_category,
    "number": _as_number,
    "date": _as_date,
    "text": _as_text,
    "identifier": lambda column, at, blank, options: Identifier.of(column, at),
    "constant": lambda column, at, blank, options: _same(column, at),
}


def _same(column: Column, at: int) -> Constant:
    if len(column.known) != 1:
        raise _Fault(f"{len(column.known):,} values, so no constant", Option("drop", [column.name]))
    return _constant(column, at)


def _not_numbers(column: Column, options: TableOptions) -> tuple[str, Option]:
    """Why a column is not numbers: it is text, or numbers but for a word or two that could be declared blank."""
    texts = column.distinct.cast(pl.String)
    words = texts.filter(pl.Series(~_like_numbers(texts))).to_list()
    if not 1 <= len(words) <= FEW_WORDS < len(texts) or not _are_numbers(column.hiding(words)):
        return "not numbers", _instead(column, options)
    return f"numbers but for {', '.join(map(repr, words))}", Option("na", words)


def _like_numbers(texts: pl.Series) -> Array:
    """Which texts of a column are numbers, or have digits where most are no plain numbers ``(V,)``."""
    numbers: Array = np.isfinite(as_numbers(texts))
    return numbers if numbers.sum() > MANY * len(numbers) else texts.str.contains(r"\d").to_numpy()


def _are_numbers(column: Column) -> bool:
    return column.numeric or find_spelling(column.known) is not None


def _instead(column: Column, options: TableOptions) -> Option:
    """What to say that a column is that is not what was said, as its cells suggest."""
    few = _are_few(column, options.max_categories or MAX_CATEGORIES)
    numbers = _are_numbers(column) and len(column.known) > MAX_CODES
    return Option("column", {column.name: "number" if numbers else "category" if few else "text"})


def _texts(values: Any, option: str) -> tuple[Any, ...]:
    """The values of an option that takes several; texts, or columns of an array by number."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError("a list of texts", repr(values), Option(option))
    found = tuple(values)
    for value in found:
        numbered = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not isinstance(value, str) and (option == "na" or not numbered):
            raise InputError("a list of texts", f"{value!r} in it", Option(option))
    return found


def column_name(key: Any, frame: Frame) -> str:
    """A column's name; of an array, columns may also be called by number."""
    return f"x{key}" if not frame.named and isinstance(key, int | np.integer) else str(key)


def _of(values: Mapping[Any, Any], name: str, frame: Frame) -> Any:
    """What a mapping says of a column by its name, or its number in an array; None if nothing."""
    if name in values or frame.named:
        return values.get(name)
    return next((value for key, value in values.items() if column_name(key, frame) == name), None)


def _column(key: Any, frame: Frame, present: Collection[str], option: str) -> str:
    """The name of a column that an option names, among those present."""
    name = column_name(key, frame)
    if name not in present:
        raise InputError("the name of a column", repr(key), (frame.where, Option(option)), nearest(name, frame.names))
    return name


def _listed(counts: Mapping[str, int]) -> str:
    """How many blank cells there are, and in which columns most."""
    worst = sorted(counts.items(), key=lambda item: -item[1])
    named = [f"{name!r}: {count}" for name, count in worst if count]
    more = f" and {len(named) - 5} more columns" if len(named) > 5 else ""
    return f"{sum(counts.values())} ({', '.join(named[:5])}{more})"
