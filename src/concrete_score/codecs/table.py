"""Tables: one site a column of categories, numbers or dates; constants and identifiers are kept aside."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import signature
from itertools import repeat
from typing import Any

import numpy as np
import polars as pl
import torch

from concrete_score import registry
from concrete_score.codecs.aside import AsideColumn, aside_from_json, without_settled
from concrete_score.codecs.base import (
    Codec,
    all_observed,
    check_choice,
    check_kind,
    is_data,
    kept_rows,
    options_of,
    refuse_other_kind,
)
from concrete_score.codecs.cells import Column, any_row, as_rows, flags, row_weights, storage, with_unseen
from concrete_score.codecs.columns import BLANK, INTEGER, TEXT, Quick, SiteColumn, column_from_json
from concrete_score.codecs.columns import UNKNOWN as UNSEEN
from concrete_score.codecs.conditions import Condition
from concrete_score.codecs.filling import Filling, completed
from concrete_score.codecs.inference import TableOptions, column_name, infer_columns, refuse_blanks
from concrete_score.codecs.ranges import Histogram
from concrete_score.data.frame import ARRAYS, DRAW, Array, Form, Frame, as_frame
from concrete_score.defaults import FILLS, MISSING, UNKNOWN
from concrete_score.errors import Command, InputError, Option, Part, Text, nearest
from concrete_score.protocols import Encoded
from concrete_score.randomness import random_numbers
from concrete_score.shapes import States
from concrete_score.spaces import Space
from concrete_score.training.choice import Choice, choose

LARGEST = 2**16
"""The most values a column of whole numbers in an untrusted ``run.json`` may take."""
_SAID = {INTEGER: "category", "number": "number", "amount": "number", "date": "date", "pooled": "text"}
"""What to say that a column of a kind is."""
_SHOWN_KINDS = {**_SAID, TEXT: "category"}
_SHOWN = 5
_THREADED = 2**20
"""Cells from which on several threads encode them."""


@dataclass(frozen=True)
class TableCodec(Codec):
    """Columns of categories or ranges, each a site; values in order, so that equal data give equal codecs.

    >>> codec = TableCodec.fit(pl.DataFrame({"smoke": ["no", "yes", "no"], "age": [30, 41, 30]}))
    >>> codec.space.sizes
    (2, 2)
    >>> codec.encode(pl.DataFrame({"smoke": ["yes"], "age": [30]})).states.tolist()
    [[1, 0]]
    >>> codec.decode(torch.tensor([[0, 1]])).rows()
    [('no', 41)]
    """

    columns: tuple[SiteColumn, ...]
    form: Form
    na: tuple[str, ...] = ()
    named: bool = True
    aside: tuple[AsideColumn, ...] = ()
    """Columns without a site."""
    why: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """Of each column of the table why it is what it is."""
    rows: int = 0
    """Rows that the columns were inferred from."""
    weight: str | None = None
    """The column that says as how many rows each row counts."""
    remarks: tuple[tuple[Part, ...], ...] = field(default=(), compare=False)
    """What is to be said of columns when they have just been inferred; it is not kept."""
    kind = "table"
    noun = "rows"
    missing = MISSING[0]
    by_rows = True

    @classmethod
    def fit(
        cls, data: Any, options: TableOptions | None = None, tell: Callable[[int, int], None] | None = None
    ) -> "TableCodec":
        """The codec of a table.

        Args:
            data: a `Frame`, a numpy array ``(N, D)``, or a data frame.
            options: which columns, which bins, what is blank.
            tell: receives how far it is, ``tell(done, total)``.

        Raises:
            InputError: blank cells that are neither to be dropped nor a category; columns that cannot be categories,
                all in one message.
        """
        options = options or TableOptions()
        whole = cls.accept(data)
        frame = options.chosen(whole)
        weight = None if options.weight is None else column_name(options.weight, whole)
        found = infer_columns(frame, options, *([] if tell is None else [tell]))
        named = (frame.form, options.blanks(frame), frame.named)
        rows = len(frame) if frame.census is None else frame.census.rows
        return cls(found.columns, *named, found.aside, found.why, rows, weight, found.notes)

    @classmethod
    def infer(cls, data: Any, options: Mapping[str, Any]) -> "TableCodec":
        return cls.fit(data, options_of(TableOptions, options, "tables"))

    @classmethod
    def infer_telling(cls, data: Any, options: Mapping[str, Any], tell: Callable[[int, int], None]) -> "TableCodec":
        return cls.fit(data, options_of(TableOptions, options, "tables"), tell)

    @classmethod
    def accept(cls, data: Any, where: str = "data") -> Frame:
        if is_data(data) and data.kind != cls.kind:
            refuse_other_kind(data, "a table")
        return as_frame(data, where)

    @property
    def output_format(self) -> str:
        """The one that the table came in."""
        return self.form.kind

    @property
    def unnamed(self) -> bool:
        """Where the names of the columns are our own."""
        return not self.named

    @cached_property
    def space(self) -> Space:
        """One site a column."""
        return Space(tuple(column.size for column in self.columns))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in the order of the sites."""
        return tuple(column.name for column in self.columns)

    def encode(self, data: Any, *, missing: str = "refuse", unknown: str = "refuse") -> Encoded:
        """Data to states; where a column has a category for blanks, they take it.

        Raises:
            InputError: a column is absent, a cell is blank or unknown, or no row is left; row and column are named.
        """
        check_choice(missing, MISSING, "missing")
        check_choice(unknown, UNKNOWN, "unknown")
        whole = self.accept(data)
        frame = self._matched(whole)
        states: list[Array] = []
        absent: dict[int, Array] = {}
        unseen: dict[int, Array] = {}
        inside, always = np.zeros(len(frame)), 0.0
        for d, (column, series, quick) in enumerate(zip(self.columns, frame.table, self._quick(frame), strict=True)):
            if quick is not None:
                states.append(quick.codes)
                always += column.log_seen
                if quick.log_inside is not None:
                    inside += quick.log_inside
                continue
            cells = Column(series, self.na, frame.typed)
            codes = column.encode(cells)
            inside += with_unseen(column, codes, column.log_inside(cells), self.rows)
            if codes.min() < 0:
                absent |= {d: codes == BLANK} if (codes == BLANK).any() else {}
                unseen |= {d: codes == UNSEEN} if (codes == UNSEEN).any() else {}
                codes = np.where(codes < 0, 0, codes)
            states.append(codes)
        inside += always
        if unseen and unknown == "refuse":
            self._refuse_unknown(frame, unseen)
        if absent and missing in ("refuse", "category"):
            fix: list[Text] = [Option("missing", "drop"), ("fill them first with ", Command("impute"))]
            refuse_blanks(frame, {self.names[d]: int(mask.sum()) for d, mask in absent.items()}, fix)
        dropped = absent if missing == "drop" else {}
        hidden = {d: np.any([mask[d] for mask in (absent, unseen) if d in mask], 0) for d in {*absent, *unseen}}
        found = self._kept(frame, states, hidden, dropped, unseen if unknown == "skip" else {})
        return found._replace(
            log_inside=torch.from_numpy(inside)[found.kept] if inside.any() else None,
            unseen=flags(unseen, found.kept, len(self.columns)) if unknown == "reserve" else None,
            weights=None if self.weight is None else row_weights(whole, self.weight, found.kept),
        )

    def _quick(self, frame: Frame) -> Iterator[Quick | None]:
        """The columns of a table that can be encoded in the quick way, by as many threads as polars has."""
        if not frame.typed or self.na:
            return repeat(None, len(self.columns))
        if frame.table.width * len(frame) < _THREADED:
            return (column.quick(series) for column, series in zip(self.columns, frame.table, strict=True))
        with ThreadPoolExecutor(pl.thread_pool_size()) as pool:
            return pool.map(lambda column, series: column.quick(series), self.columns, list(frame.table))

    def decode(
        self,
        states: States,
        generator: torch.Generator | None = None,
        conditions: Sequence[Condition] = (),
        first: int = 0,
    ) -> Frame:
        """States ``(N, D)`` to a table of the form that came in; `Frame.native` gives the object.

        Args:
            states: what to decode.
            generator: draws the numbers inside their ranges, and the like; without it they are the middle ones.
            conditions: that the numbers drawn are to meet.
            first: the number of the first row, where these are part of a longer table: identifiers go on.

        Raises:
            InputError: not states of this space.
        """
        cells = self.space.check(states, "states").reshape(-1, len(self.columns)).numpy(force=True)
        rng = None if generator is None else random_numbers(generator)
        mine = [[each for each in conditions if each.site == d] for d in range(len(self.columns))]
        series = [column.decode(cells[:, d], rng, mine[d]) for d, column in enumerate(self.columns)]
        for each in sorted(self.aside, key=lambda each: each.at):
            series.insert(each.at, each.cells(len(cells), first, rng))
        return Frame(pl.DataFrame(series), self.form, "states", self.named)

    def fill(
        self,
        data: Any,
        rows: Encoded,
        states: States,
        draws: int | None,
        *,
        generator: torch.Generator | None = None,
        probs: Mapping[int, Array] | None = None,
        how: str = FILLS[0],
    ) -> Frame:
        """The table with its blanks filled; values are spelled as the table itself spells them.

        Values never seen in training stay as they are.

        >>> table = pl.DataFrame({"smoke": ["no", None], "age": [30, 41], "note": ["a", "b"]})
        >>> codec = TableCodec.fit(pl.DataFrame({"smoke": ["no", "yes"], "age": [30, 41]}))
        >>> codec.fill(table, codec.encode(table, missing="unobserved"), torch.tensor([[[0, 0], [1, 1]]]), None).rows()
        [('no', 30, 'a'), ('yes', 41, 'b')]
        """
        frame, times = self.accept(data), draws or 1
        counted = draws is not None and frame.form.kind not in ARRAYS
        if counted and DRAW in frame.names:
            fix = ("rename it, or leave out ", Option("draws"))
            raise InputError(f"a table without a column {DRAW!r}", "one that has it", frame.where, fix)
        check_choice(how, FILLS, "fill")
        order, kept_aside = self._names_in(frame), {each.name: each for each in self.aside}
        rng = None if generator is None else random_numbers(generator)
        filled: list[pl.Series] = []
        for series in frame.table:
            at = np.tile(np.arange(len(series)), (times, 1))
            if series.name in order:
                site = order.index(series.name)
                filling = Filling(rows, states, site, rng, None if probs is None else probs.get(site), how)
                series, at = completed(self.columns[site], series, at, filling)
            elif series.name in kept_aside:
                series = kept_aside[series.name].fill(series)
            filled.append(series.gather(pl.Series(at.reshape(-1))))
        if counted:
            filled.insert(0, pl.Series(DRAW, np.repeat(np.arange(times), len(frame))))
        return replace(frame, table=pl.DataFrame(filled))

    def natives(self, site: int) -> Sequence[Any]:
        """As they stand in the table; a blank is None."""
        return self.columns[site].natives

    def same_reading(self, other: Codec) -> bool:
        """Whether another codec has the same columns, whatever the reasons."""
        return self == other

    def log_sizes(self, site: int) -> Array | None:
        """Of numbers and dates, how many grid points of the training range each range has."""
        return self.columns[site].log_sizes

    def histogram(self, site: int, conditions: Sequence[Condition] = ()) -> Histogram | None:
        """Of numbers and dates, ranges of about equal width."""
        return self.columns[site].histogram([each for each in conditions if each.site == site])

    def site_kind(self, site: int) -> str:
        """Text, integer, boolean, number, date, pooled or bins."""
        return self.columns[site].kind

    def labels(self, site: int) -> tuple[str, ...]:
        """As text; a blank is empty."""
        return self.columns[site].labels

    def place(self, site: int, text: str) -> int | None:
        """A value by its text, or a range by a number in it."""
        return self.columns[site].place(text)

    def conditions(self, given: Any) -> tuple[Condition, ...]:
        """As of any data; a condition on a constant is met, or refused, as are those on other columns left aside."""
        return super().conditions(without_settled(given, self.names, self.aside))

    def log_evidence(self, site: int, conditions: Sequence[Condition]) -> Array:
        """As the column's kind compares its values."""
        return self.columns[site].log_evidence(conditions)

    def extrapolated(self, given: Any) -> list[str]:
        conditions = self.conditions(given)
        mine = {each.site: [other for other in conditions if other.site == each.site] for each in conditions}
        return [told for site, some in mine.items() if (told := self.columns[site].extrapolated(some))]

    def notes(self) -> list[tuple[Part, ...]]:
        """Words among numbers or dates, and dates of several formats."""
        return list(self.remarks)

    def fill_notes(self) -> list[str]:
        """Columns in which a blank was a value."""
        valued = [column.name for column in self.columns if column.blank]
        return [f"left as they are, for blank was a value in training: {', '.join(valued)}"] if valued else []

    def as_learned(self, data: Frame) -> Frame:
        """Texts of a text file that are a learned number or boolean as such, as sampled rows have them."""
        table = data.table
        for d, name in enumerate(self._names_in(data)):
            column, cells = self.columns[d], table[name]
            learned = column.decode(np.empty(0, np.int64)).dtype
            if cells.dtype == pl.String and learned != pl.String:
                found = Column(cells, typed=True)
                places = [column.place(text) for text in found.distinct.to_list()]
                if None not in places:
                    natives = pl.Series(name, [*(column.natives[place] for place in places if place is not None), None])
                    table = table.with_columns(natives.gather(pl.Series(found.codes)).alias(name))
        return Frame(table, data.form, data.where, data.named)

    def choose(self, recipe: Mapping[str, Any], training: Mapping[str, Any]) -> Choice:
        """As for any table, ranges of numbers read in their order; a model of images needs their shape."""
        choice = choose(recipe, training)
        takes = signature(registry.load("models", choice.recipe.model)).parameters
        ordered = [d for d, column in enumerate(self.columns) if column.ordered and column.size > 2]
        if ordered and "ordered" in takes and "ordered" not in choice.recipe.model_options:
            options = {**choice.recipe.model_options, "ordered": ordered}
            choice = choice._replace(recipe=replace(choice.recipe, model_options=options))
        if "shape" in takes and "shape" not in choice.recipe.model_options:
            raise InputError(
                f"images for the model {choice.recipe.model}, an array of shape (N, H, W)",
                f"a table of {len(self.columns)} columns",
                Option("data"),
                [
                    ("choose another ", Option("model")),
                    (Option("set", {"model.shape": "[H,W]"}), " if its columns are pixels"),
                ],
            )
        return choice

    def parameters(self) -> dict[str, Any]:
        """Bins, texts that mean blank, and the most values a column takes."""
        bins: dict[str, int] = {}
        for column in self.columns:
            bins |= column.parameters().get("bins", {})
        return {"bins": bins or None, "na": list(self.na), "column": self._asked or None, "weight": self.weight}

    @property
    def _asked(self) -> dict[str, str]:
        """What to say that columns are, for the same kinds to be inferred again from other rows."""
        kinds = {column.name: _SAID[column.kind] for column in self.columns if column.kind in _SAID}
        return kinds | {each.name: each.kind for each in self.aside}

    def schema(self) -> dict[str, Any]:
        """One entry a column."""
        why = dict(self.why)
        columns = [{"name": c.name, "kind": c.kind, "size": c.size, "values": list(c.labels)} for c in self.columns]
        aside = [{"name": each.name, "kind": each.kind} for each in self.aside]
        found = {"columns": [{**column, "why": why.get(str(column["name"]))} for column in columns]}
        return {**found, "aside": [{**each, "why": why.get(each["name"])} for each in aside]}

    def schema_table(self) -> tuple[str, Sequence[str], Sequence[Sequence[Any]]]:
        """One line a column."""
        heads = ["column", "kind", "size", "values", "why"]
        return "Columns:", heads, [self._line(name) for name in self._table_names]

    def _line(self, name: str) -> tuple[Any, ...]:
        why = dict(self.why).get(name, "")
        if name not in self.names:
            return name, next(each.kind for each in self.aside if each.name == name), "", "", why
        column = self.columns[self.names.index(name)]
        return name, _SHOWN_KINDS.get(column.kind, column.kind), column.size, _few(column.labels), why

    @property
    def _table_names(self) -> list[str]:
        """All columns in the order of the table."""
        names = list(self.names)
        for each in sorted(self.aside, key=lambda each: each.at):
            names.insert(each.at, each.name)
        return names

    def to_json(self) -> dict[str, Any]:
        """Plain values from which `from_json` builds an equal codec."""
        return {
            "kind": self.kind,
            "form": {"kind": self.form.kind, "dtype": self.form.dtype},
            "na": list(self.na),
            "named": self.named,
            **({} if self.weight is None else {"weight": self.weight}),
            "columns": [column.to_json() for column in self.columns],
            "aside": [each.to_json() for each in self.aside],
            "why": [list(each) for each in self.why],
            "rows": self.rows,
        }

    @classmethod
    def from_json(cls, value: Any, where: str = "codec") -> "TableCodec":
        """The codec of plain values, every one of them checked.

        Raises:
            InputError: a field is missing or of the wrong type.

        >>> TableCodec.from_json({"kind": "image"})
        Traceback (most recent call last):
        concrete_score.errors.InputError: codec.kind: expected 'table', got 'image'
        """
        check_kind(value, "table", where)
        form = Form.from_json(value.get("form"), f"{where}.form")
        na, columns = value.get("na", []), value.get("columns")
        if not isinstance(na, list) or not all(isinstance(text, str) for text in na):
            raise InputError("a list of texts", repr(na)[:60], where=f"{where}.na")
        if not isinstance(columns, list) or not columns:
            raise InputError("a list of columns", repr(columns)[:60], where=f"{where}.columns")
        found = tuple(column_from_json(each, f"{where}.columns[{d}]") for d, each in enumerate(columns))
        aside, why, rows = value.get("aside", []), value.get("why", []), value.get("rows", 0)
        if not isinstance(aside, list):
            raise InputError("a list of columns", repr(aside)[:60], where=f"{where}.aside")
        others = tuple(aside_from_json(each, f"{where}.aside[{d}]") for d, each in enumerate(aside))
        names = [*(column.name for column in found), *(each.name for each in others)]
        if len(set(names)) < len(names):
            raise InputError("a different name for every column", "the same name twice", where=f"{where}.columns")
        pairs = isinstance(why, list) and all(isinstance(each, list) and len(each) == 2 for each in why)
        if not pairs or not all(isinstance(text, str) for each in why for text in each):
            raise InputError("a list of names and reasons", repr(why)[:60], where=f"{where}.why")
        if type(rows) is not int or not 0 <= rows < 2**62:
            raise InputError("a number of rows", repr(rows)[:60], where=f"{where}.rows")
        weight = value.get("weight")
        if weight is not None and not isinstance(weight, str):
            raise InputError("the name of a column", repr(weight)[:60], where=f"{where}.weight")
        reasons = tuple((name, reason) for name, reason in why)
        return cls(found, form, tuple(na), bool(value.get("named", True)), others, reasons, rows, weight)

    def _names_in(self, frame: Frame) -> tuple[str, ...]:
        """The table's names of the codec's columns; by place where the table has no names."""
        return self.names if set(self.names) <= set(frame.names) else frame.names

    def _matched(self, frame: Frame) -> Frame:
        """The frame's columns in the order of the sites: by name, or by place where it has no names."""
        absent = [name for name in self.names if name not in frame.names]
        if not absent:
            return replace(frame, table=frame.table.select(self.names))
        if not (frame.named and self.named) and len(frame.names) == len(self.columns):
            return frame
        names = ", ".join(map(repr, absent[:10])) + (f" and {len(absent) - 10} more" if len(absent) > 10 else "")
        fix = nearest(absent[0], frame.names) if frame.named else f"give {len(self.columns)} columns"
        raise InputError("every column of the training data", f"none named {names}", where=frame.where, fix=fix)

    def _kept(
        self,
        frame: Frame,
        states: Sequence[Array],
        absent: Mapping[int, Array],
        dropped: Mapping[int, Array],
        skipped: Mapping[int, Array],
    ) -> Encoded:
        """The rows that may stay, as states; ``absent`` cells are not observed."""
        unknown = any_row(skipped, len(frame))
        blank = any_row(dropped, len(frame)) & ~unknown
        kept = kept_rows(unknown, blank, frame.where, self.noun)
        whole = len(kept) == len(frame)
        chosen = states if whole else [cells[kept] for cells in states]
        observed = all_observed(len(kept), len(self.columns))
        if any(mask[kept].any() for mask in absent.values()):
            observed = ~flags(absent, torch.from_numpy(kept), len(self.columns))
        stored = torch.from_numpy(as_rows(chosen, storage(self.space)))
        return Encoded(stored, observed, torch.from_numpy(kept), int(unknown.sum()), int(blank.sum()))

    def _refuse_unknown(self, frame: Frame, unseen: Mapping[int, Array]) -> None:
        """Refuse unknown values: the first by row and column, then how many more there are."""
        row, d = min((int(mask.argmax()), d) for d, mask in unseen.items())
        count = sum(int(mask.sum()) for mask in unseen.values())
        names = ", ".join(repr(self.names[d]) for d in list(unseen)[:_SHOWN])
        more = f" ({count} such cells, in {names}{' and more' if len(unseen) > _SHOWN else ''})" if count > 1 else ""
        labels = self.columns[d].labels
        known = ", ".join(labels[:_SHOWN]) + (f", … ({len(labels)} values)" if len(labels) > _SHOWN else "")
        raise InputError(
            f"a value seen in training ({known})",
            f"{frame.table[:, d][row]!r}{more}",
            where=f"{frame.where}: row {frame.first + row}, column {self.names[d]!r}",
            fix=["correct it", Option("unknown", "skip")],
        )


def _few(labels: Sequence[str], shown: int = 8) -> str:
    more = f", … ({len(labels)} in all)" if len(labels) > shown else ""
    return ", ".join(label or "(blank)" for label in labels[:shown]) + more
