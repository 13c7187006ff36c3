"""From a table to the kinds of its columns: how it is to be read, what each column can be, and what to do if not."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np

from concrete_score.codecs.base import check_choice
from concrete_score.codecs.cells import Column
from concrete_score.codecs.columns import NUMBER, Bins, Categories, ColumnKind
from concrete_score.data.frame import Frame
from concrete_score.defaults import MAX_CATEGORIES, MISSING
from concrete_score.errors import InputError, Option, Text, check_count, nearest

_FEW = 3
"""Words in a column of numbers that may mean blank."""


@dataclass(frozen=True)
class TableOptions:
    """How a table is to be read.

    Args:
        columns: the columns to use, in this order; all if empty.
        drop: columns to leave out.
        bins: how many quantile ranges to cut a numeric column into; or one count for every column that could not be
            categories otherwise.
        na: texts that mean a blank cell.
        max_categories: the most values a column may take.
        missing: blank cells: ``refuse``, ``drop`` their rows, or make them a ``category``.

    >>> TableOptions(bins={"age": 1})
    Traceback (most recent call last):
    concrete_score.errors.InputError: bins={'age': 1}: expected 2 bins or more, got 1; ...
    """

    # Values are checked here, whatever their types: they may come from anyone's Python.
    columns: Any = ()
    drop: Any = ()
    bins: Any = field(default_factory=dict)
    na: Any = ()
    max_categories: Any = MAX_CATEGORIES
    missing: Any = "refuse"

    def __post_init__(self) -> None:
        check_choice(self.missing, MISSING[:3], "missing")
        for option in ("columns", "drop", "na"):
            object.__setattr__(self, option, _texts(getattr(self, option), option))
        object.__setattr__(self, "max_categories", check_count(self.max_categories, Option("max-categories"), 2))
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
        columns, drop = ([_column(key, frame, name) for key in getattr(self, name)] for name in ("columns", "drop"))
        for key in self.bins if isinstance(self.bins, Mapping) else ():
            _column(key, frame, "bins")
        names = [name for name in dict.fromkeys(columns or frame.names) if name not in drop]
        return Frame(frame.table.select(names), frame.form, frame.where, frame.named)

    def bins_of(self, columns: Mapping[str, Column], frame: Frame) -> dict[str, int]:
        """How many ranges each of the columns is cut into; those that were left out are not among them."""
        if not isinstance(self.bins, Mapping):
            return {name: self.bins for name, column in columns.items() if self._cannot_be_categories(column)}
        return {name: count for key, count in self.bins.items() if (name := _name(key, frame)) in columns}

    def _cannot_be_categories(self, column: Column) -> bool:
        return column.kind == NUMBER or (column.numeric and len(column.known) > self.max_categories)


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


def _name(key: Any, frame: Frame) -> str:
    """A column's name; of an array, columns may also be called by number."""
    return f"x{key}" if not frame.named and isinstance(key, int | np.integer) else str(key)


def _column(key: Any, frame: Frame, option: str) -> str:
    """The name of a column that an option names."""
    name = _name(key, frame)
    if name not in frame.names:
        raise InputError("the name of a column", repr(key), (frame.where, Option(option)), nearest(name, frame.names))
    return name


def infer_columns(frame: Frame, options: TableOptions) -> tuple[ColumnKind, ...]:
    """The kind of every column of a table.

    Raises:
        InputError: blank cells that are neither to be dropped nor a category; columns that cannot be categories, all
            in one message.
    """
    columns = {series.name: Column(series, options.na, frame.typed) for series in frame.table}
    bins = options.bins_of(columns, frame)
    _refuse_columns(frame, columns, bins, options)
    found: list[ColumnKind] = []
    for name, column in columns.items():
        blank = options.missing == "category" and column.blanks > 0
        if name in bins:
            found.append(Bins.fit(column, bins[name], blank, f"{frame.where}: column {name!r}"))
        else:
            found.append(Categories(name, column.kind, column.values, blank))
    return tuple(found)


def refuse_blanks(frame: Frame, counts: Mapping[str, int], fix: list[Text]) -> None:
    """Refuse blank cells, with how many there are and in which columns."""
    if any(counts.values()):
        raise InputError("no blank cells (empty, NaN, None or null)", _listed(counts), where=frame.where, fix=fix)


def _listed(counts: Mapping[str, int]) -> str:
    """How many blank cells there are, and in which columns most."""
    worst = sorted(counts.items(), key=lambda item: -item[1])
    named = [f"{name!r}: {count}" for name, count in worst if count]
    more = f" and {len(named) - 5} more columns" if len(named) > 5 else ""
    return f"{sum(counts.values())} ({', '.join(named[:5])}{more})"


def _refuse_columns(
    frame: Frame, columns: Mapping[str, Column], bins: Mapping[str, int], options: TableOptions
) -> None:
    """Refuse a table that cannot be a product of categories, with all its faults in one message."""
    if len(columns) < 2:
        came = f"one, {next(iter(columns))!r}" if columns else "none"
        fix = "give a table whose columns depend on one another"
        raise InputError("two columns or more", came, where=frame.where, fix=fix)
    if all(column.blanks == len(frame) for column in columns.values()):
        raise InputError("a table with values", "blank cells alone", where=frame.where, fix="give rows with values")
    found = [(name, fault) for name, column in columns.items() if (fault := _fault(column, frame, bins, options))]
    left_out = {name for name, (_, option) in found if option.name == "drop"}
    kept = {name: column for name, column in columns.items() if name not in left_out}
    counts = {name: column.blanks for name, column in kept.items()} if options.missing == "refuse" else {}
    if not found:
        refuse_blanks(frame, counts, [Option("missing", "drop"), Option("missing", "category")])
        return
    faults = ", ".join(f"{name!r} ({reason})" for name, (reason, _) in found)
    options_that_help = {repr(option): option for _, (_, option) in found}
    if any(counts.values()):
        faults += f", and blank cells (empty, NaN, None or null): {_listed(counts)}"
        options_that_help["missing"] = Option("missing", "drop")
    raise InputError(
        f"columns of 2 to {options.max_categories} categories",
        faults,
        where=frame.where,
        fix=[tuple(options_that_help.values()), ("choose other columns with ", Option("columns"))],
    )


def _fault(column: Column, frame: Frame, bins: Mapping[str, int], options: TableOptions) -> tuple[str, Option] | None:
    drop, cut = Option("drop", [column.name]), Option("bins", {column.name: 10})
    if column.blanks == len(frame):
        return "blank in every row", drop
    if column.name in bins:
        return None if column.numeric else _not_numbers(column, drop)
    if column.kind == NUMBER:
        return "non-integer numbers", cut
    if len(column.known) > options.max_categories:
        return f"{len(column.known)} values", cut if column.numeric else drop
    if len(column.values) + (column.blanks > 0 and options.missing == "category") < 2:
        return "one value in every row", drop
    return None


def _not_numbers(column: Column, drop: Option) -> tuple[str, Option]:
    """Why a column cannot be cut: it is text, or numbers but for a word or two that could be declared blank."""
    words = [str(value) for value in column.distinct if not _is_number(str(value))]
    if not 1 <= len(words) <= _FEW < len(column.distinct):
        return "not numbers, so no bins", drop
    return f"numbers but for {', '.join(map(repr, words))}", Option("na", words)


def _is_number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False
