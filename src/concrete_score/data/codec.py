"""The way between a person's table and states: one site a column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from concrete_score.data.bins import quantile_edges
from concrete_score.data.frame import Array, Form, Frame, narrow
from concrete_score.data.meaning import Meaning, understand
from concrete_score.data.native import as_frame, form_from_json
from concrete_score.data.options import MISSING, UNKNOWN, TableOptions, check_choice
from concrete_score.data.refusals import refuse_blanks, refuse_columns
from concrete_score.data.sites import BLANK, Bins, Categories, Site, site_from_json
from concrete_score.data.threads import each
from concrete_score.data.unknown import refuse_unknown
from concrete_score.errors import InputError, nearest
from concrete_score.protocols import Encoded
from concrete_score.shapes import States
from concrete_score.spaces import Space

_BLOCK = 2**18
"""Cells turned over at a time."""


class Rows(NamedTuple):
    """Data as states, and which of its rows they are."""

    encoded: Encoded
    kept: Tensor
    """Positions of the rows that became states, ascending ``(N',)``."""
    unknown: int
    """Rows skipped for a value never seen in training."""
    blank: int
    """Rows dropped for a blank cell, and no unknown value."""


@dataclass(frozen=True)
class TableCodec:
    """Columns of categories or ranges, each a site; values in order, so that equal data give equal codecs.

    >>> import polars as pl
    >>> codec = TableCodec.fit(pl.DataFrame({"smoke": ["no", "yes", "no"], "age": [30, 41, 30]}))
    >>> codec.space.sizes
    (2, 2)
    >>> codec.encode(pl.DataFrame({"smoke": ["yes"], "age": [30]})).states.tolist()
    [[1, 0]]
    >>> codec.decode(torch.tensor([[0, 1]])).rows()
    [('no', 41)]
    """

    sites: tuple[Site, ...]
    form: Form
    na: tuple[str, ...] = ()
    named: bool = True
    kind: str = "table"

    @classmethod
    def fit(cls, data: Any, options: TableOptions | None = None) -> "TableCodec":
        """The codec of a table.

        Args:
            data: a `Frame`, a numpy array ``(N, D)``, or a data frame.
            options: which columns, which bins, what is blank.

        Raises:
            InputError: blank cells that are neither to be dropped nor a category; columns that cannot be categories,
                all in one message.
        """
        options = options or TableOptions()
        frame = options.chosen(as_frame(data))
        limit = options.max_categories
        meanings = {column.name: understand(column, options.na, limit, frame.typed) for column in frame.columns}
        refuse_columns(frame, meanings, options)
        if options.missing == "refuse":
            counts = {name: meaning.blanks for name, meaning in meanings.items()}
            refuse_blanks(frame, counts, "add --missing drop or --missing category")
        sites = tuple(each(lambda item: _site(*item, options, frame.where), meanings.items()))
        return cls(sites, frame.form, options.na, frame.named)

    @cached_property
    def space(self) -> Space:
        """One site a column."""
        return Space(tuple(site.size for site in self.sites))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in the order of the sites."""
        return tuple(site.name for site in self.sites)

    def encode(self, data: Any, *, missing: str = "refuse", unknown: str = "refuse") -> Encoded:
        """Data to states; `encode_rows` also says which rows they are.

        Args:
            data: a `Frame`, a numpy array ``(N, D)``, or a data frame; further columns are passed over.
            missing: blank cells: ``refuse``, ``drop`` their rows, or ``keep`` them as unobserved (value 0). Where a
                column has a category for blanks, they take it.
            unknown: values never seen in training: ``refuse``, or ``skip`` their rows.

        Raises:
            InputError: a column is absent, a cell is blank or unknown, or no row is left; row and column are named.
        """
        return self.encode_rows(data, missing=missing, unknown=unknown).encoded

    def encode_rows(self, data: Any, *, missing: str = "refuse", unknown: str = "refuse") -> Rows:
        """As `encode`, with the positions of the rows kept and the numbers of those left out."""
        check_choice(missing, MISSING, "missing")
        check_choice(unknown, UNKNOWN, "unknown")
        frame = self._matched(as_frame(data))
        states: list[Array] = []
        absent: dict[int, Array] = {}
        strange: dict[int, Array] = {}
        for d, (site, column) in enumerate(zip(self.sites, frame.columns, strict=True)):
            cells = site.encode(column, self.na)
            if cells.dtype.kind == "i" and len(cells) and cells.min() < 0:
                absent |= {d: cells == BLANK} if (cells == BLANK).any() else {}
                strange |= {d: cells == -1} if (cells == -1).any() else {}
                cells = np.where(cells < 0, 0, cells)
            states.append(cells)
        return self._judged(frame, states, absent, strange, missing, unknown)

    def decode(self, states: States) -> Frame:
        """States ``(N, D)`` to a table of the form that came in; `Frame.native` gives the object.

        Raises:
            InputError: not states of this space.
        """
        cells = self.space.check(states, "states").reshape(-1, len(self.sites)).numpy(force=True)
        columns = tuple(
            site.decode(narrow(np.ascontiguousarray(cells[:, d]), site.size + 1)) for d, site in enumerate(self.sites)
        )
        return Frame(columns, self.form, "states", self.named)

    def given(self, conditions: Sequence[str]) -> dict[int, int]:
        """Conditions ``COLUMN=VALUE`` as ``{site: value}``; the name is the longest column that fits.

        Raises:
            InputError: no such column or value, or two values for one column.

        >>> sites = Categories("a=b", "text", ("x", "y")), Categories("a", "text", ("b=x", "z"))
        >>> codec = TableCodec(sites, Form("csv"))
        >>> codec.given(["a=b=x"])
        {0: 0}
        """
        found: dict[int, int] = {}
        for text in conditions:
            fitting = [name for name in self.names if text.startswith(f"{name}=")]
            if text in self.names:
                raise InputError("COLUMN=VALUE", f"{text!r} without a value", "--given", f"say --given '{text}=…'")
            if not fitting:
                fix = nearest(text.partition("=")[0], list(self.names))
                raise InputError("COLUMN=VALUE with the name of a column", repr(text), where="--given", fix=fix)
            name = max(fitting, key=len)
            d = self.names.index(name)
            place = self.sites[d].place(text[len(name) + 1 :])
            if place is None:
                raise InputError(
                    f"a value of {name!r} seen in training",
                    repr(text[len(name) + 1 :]),
                    where="--given",
                    fix=nearest(text[len(name) + 1 :], list(self.sites[d].labels)),
                )
            if found.get(d, place) != place:
                raise InputError(f"one value for {name!r}", "two", where="--given", fix="give it once")
            found[d] = place
        return found

    def to_json(self) -> dict[str, Any]:
        """Plain values from which `from_json` builds an equal codec."""
        return {
            "kind": self.kind,
            "form": {"kind": self.form.kind, "dtype": self.form.dtype},
            "na": list(self.na),
            "named": self.named,
            "columns": [site.to_json() for site in self.sites],
        }

    @classmethod
    def from_json(cls, value: Any, where: str = "codec") -> "TableCodec":
        """The codec of plain values, every one of them checked.

        Raises:
            InputError: a field is missing or of the wrong kind.

        >>> TableCodec.from_json({"kind": "image"})
        Traceback (most recent call last):
        concrete_score.errors.InputError: codec.kind: expected 'table', got 'image'
        """
        if not isinstance(value, Mapping) or value.get("kind") != "table":
            came = repr(value.get("kind")) if isinstance(value, Mapping) else type(value).__name__
            raise InputError("'table'", came, where=f"{where}.kind")
        form = form_from_json(value.get("form"), f"{where}.form")
        na, columns = value.get("na", []), value.get("columns")
        if not isinstance(na, list) or not all(isinstance(word, str) for word in na):
            raise InputError("a list of texts", repr(na)[:60], where=f"{where}.na")
        if not isinstance(columns, list) or not columns:
            raise InputError("a list of columns", repr(columns)[:60], where=f"{where}.columns")
        sites = tuple(site_from_json(each, f"{where}.columns[{d}]") for d, each in enumerate(columns))
        if len({site.name for site in sites}) < len(sites):
            raise InputError("a different name for every column", "the same name twice", where=f"{where}.columns")
        return cls(sites, form, tuple(na), bool(value.get("named", True)))

    def _matched(self, frame: Frame) -> Frame:
        """The frame's columns in the order of the sites: by name, or by place where it has no names."""
        absent = [name for name in self.names if name not in frame.names]
        if not absent:
            return frame.keep(self.names)
        if not frame.named and len(frame.columns) == len(self.sites):
            return frame
        names = ", ".join(map(repr, absent[:10])) + (f" and {len(absent) - 10} more" if len(absent) > 10 else "")
        fix = nearest(absent[0], list(frame.names)) if frame.named else f"give {len(self.sites)} columns"
        raise InputError("every column of the training data", f"none named {names}", where=frame.where, fix=fix)

    def _judged(
        self,
        frame: Frame,
        states: Sequence[Array],
        absent: Mapping[int, Array],
        strange: Mapping[int, Array],
        missing: str,
        unknown: str,
    ) -> Rows:
        """The rows that may stay, as states."""
        if strange and unknown == "refuse":
            refuse_unknown(frame, self.sites, strange, self.na)
        if absent and missing in ("refuse", "category"):
            counts = {self.names[d]: int(mask.sum()) for d, mask in absent.items()}
            refuse_blanks(frame, counts, "drop those rows, or fill them first")
        skipped = _any_row(strange, frame.num_rows)
        dropped = _any_row(absent if missing == "drop" else {}, frame.num_rows) & ~skipped
        left_out = skipped | dropped
        whole = not left_out.any()
        kept = np.arange(frame.num_rows) if whole else np.flatnonzero(~left_out)
        if not len(kept):
            raise InputError(
                "rows to use",
                f"none: {int(skipped.sum())} with unknown values, {int(dropped.sum())} with blanks",
                where=frame.where,
            )
        chosen = states if whole else [cells[kept] for cells in states]
        # One flag stands for all cells where none is blank.
        observed = torch.ones((1, 1), dtype=torch.bool).expand(len(kept), len(self.sites))
        if absent and missing == "keep":
            observed = torch.ones((len(kept), len(self.sites)), dtype=torch.bool)
            for d, mask in absent.items():
                observed[:, d] = torch.from_numpy(~mask[kept])
        encoded = Encoded(torch.from_numpy(_rows(chosen, _storage(self.space))), observed)
        return Rows(encoded, torch.from_numpy(kept), int(skipped.sum()), int(dropped.sum()))


def _site(name: str, meaning: Meaning, options: TableOptions, where: str) -> Site:
    blank = options.missing == "category" and meaning.blanks > 0
    if name in options.bins:
        numbers = meaning.numbers()
        return Bins(name, quantile_edges(numbers, options.bins[name], f"{where}: column {name!r}"), blank)
    return Categories(name, meaning.kind, meaning.values, blank)


def _storage(space: Space) -> Any:
    """The narrowest integers torch computes with that hold every site."""
    largest = max(space.sizes) - 1
    return next(kind for kind in (np.uint8, np.int16, np.int32, np.int64) if largest <= np.iinfo(kind).max)


def _rows(columns: Sequence[Array], kind: Any) -> Array:
    """Columns ``D × (N,)`` as rows ``(N, D)``, turned over in blocks that stay in the processor's cache."""
    count, block = len(columns[0]), max(1, _BLOCK // len(columns))
    rows = np.empty((count, len(columns)), dtype=kind)
    piece = np.empty((len(columns), block), dtype=kind)
    for start in range(0, count, block):
        end = min(start + block, count)
        for d, cells in enumerate(columns):
            piece[d, : end - start] = cells[start:end]
        rows[start:end] = piece[:, : end - start].T
    return rows


def _any_row(masks: Mapping[int, Array], rows: int) -> Array:
    found = np.zeros(rows, dtype=bool)
    for mask in masks.values():
        found |= mask
    return found
