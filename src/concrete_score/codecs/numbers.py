"""Columns of numbers: ordered ranges and atoms on the column's own grid, with a law inside each range.

A number v lies on its column's grid, ``v = k / 10^digits`` for a whole number k. The site's values are *cells*: an atom
is one grid point that many rows share, a range is an interval without the atoms in it. Together they cover the whole
line. Inside a cell b a number has the probability ``g_b(v)``, learned from the training values, so that

    log p(v) = log q(b) + log g_b(v)

is a probability on the grid, and columns cut in different ways compare (docs/mathematics.md, "Numbers").
"""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from typing import Any, ClassVar

import numpy as np
import polars as pl

from concrete_score.codecs.columns import (
    NUMBER,
    NUMBER_PATTERN,
    UNKNOWN,
    ColumnCells,
    Quick,
    SiteColumn,
    Value,
    reserve_of,
)
from concrete_score.codecs.conditions import GIVEN, IN, Condition
from concrete_score.codecs.ranges import (
    LIMIT,
    Allowed,
    Histogram,
    ascending,
    cut,
    even_intervals,
    grid_digits,
    intervals,
    meet,
)
from concrete_score.data.frame import Array
from concrete_score.errors import InputError

_BITS = 14
"""Bits of a bucket's number: so many buckets stay in the processor's cache."""


@dataclass(frozen=True)
class Number(SiteColumn):
    """A site whose values are ranges and atoms of a column of numbers, ascending.

    Args:
        name: the column's.
        digits: decimals of its grid; -2 is a grid of hundreds.
        starts: the first grid point of each piece, ascending; the first piece begins at minus `LIMIT`.
        cells: the site's value that each piece belongs to.
        weights: each piece's weight within its cell; its grid points are equally probable.
        span: the least and the largest grid point seen in training.
        decimal: whether the column is written with decimals even where its numbers are whole.
        blank: whether a blank is one more value, the last.
        reserve: the probability kept for cells that are no numbers.

    >>> rng = np.random.default_rng(0)
    >>> column = Number.fit("age", rng.integers(17, 91, 5000))
    >>> column.labels[:2], column.place("17"), column.size
    (('17', '18'), 0, 75)
    """

    name: str
    digits: int
    starts: tuple[int, ...]
    cells: tuple[int, ...]
    weights: tuple[float, ...]
    span: tuple[int, int]
    decimal: bool = False
    blank: bool = False
    reserve: float = 0.0
    kind = NUMBER
    lossy = True
    ordered = True
    kinds: ClassVar[tuple[str, ...]] = (NUMBER,)

    @classmethod
    def fit(
        cls,
        name: str,
        keys: Array,
        digits: int = 0,
        ranges: int | None = None,
        *,
        counts: Array | None = None,
        decimal: bool = False,
        blank: bool = False,
    ) -> "Number":
        """The cells of a column whose observed cells are the grid points ``keys`` ``(N,)``, each in so many rows."""
        starts, cells, weights = (tuple(each.tolist()) for each in cut(keys, ranges, counts))
        return cls(name, digits, starts, cells, weights, (int(keys.min()), int(keys.max())), decimal, blank)

    @classmethod
    def of(cls, column: ColumnCells, ranges: int | None = None, blank: bool = False) -> "Number":
        """The kind of a column of numbers, on the grid found in its cells."""
        finite = np.isfinite(column.numbers)
        digits = grid_digits(np.unique(column.numbers[finite]))
        keys, counts = _keys(column, digits)[finite], None if column.weights is None else column.weights[finite]
        return cls.fit(column.name, keys, digits, ranges, counts=counts, decimal=column.decimal, blank=blank)

    @classmethod
    def from_json(cls, value: Mapping[str, Any], blank: bool, where: str) -> "Number":
        """From plain values, every one of them checked."""
        lists = [value.get(each) for each in ("starts", "cells", "weights", "span")]
        digits, decimal = value.get("digits"), value.get("decimal", False)
        if type(digits) is not int or abs(digits) > 18 or not isinstance(decimal, bool):
            raise InputError("a grid of numbers", repr(digits)[:60], where=f"{where}.digits")
        starts, cells, weights, span = (each if isinstance(each, list) else [] for each in lists)
        whole = all(type(each) is int and abs(each) <= LIMIT for each in [*starts, *cells, *span])
        if not whole or not starts or starts[0] != -LIMIT or len(span) != 2 or span[0] > span[1]:
            raise InputError("whole grid points from the least on", repr(starts)[:60], where=f"{where}.starts")
        if any(a >= b for a, b in itertools.pairwise(starts)) or len(cells) != len(starts):
            raise InputError("ascending pieces, each of a cell", repr(cells)[:60], where=f"{where}.cells")
        if set(cells) != set(range(len(set(cells)))):
            raise InputError("cells numbered from 0", repr(cells)[:60], where=f"{where}.cells")
        right = len(weights) == len(starts) and all(type(w) in (int, float) and isfinite(w) and w > 0 for w in weights)
        if not right:
            raise InputError("a positive weight for each piece", repr(weights)[:60], where=f"{where}.weights")
        lows = tuple(float(weight) for weight in weights)
        ends, reserve = (span[0], span[1]), reserve_of(value, where)
        return cls(value["name"], digits, tuple(starts), tuple(cells), lows, ends, decimal, blank, reserve)

    def to_json(self) -> dict[str, Any]:
        plain = {
            "name": self.name,
            "kind": self.kind,
            "digits": self.digits,
            "starts": list(self.starts),
            "cells": list(self.cells),
            "weights": list(self.weights),
            "span": list(self.span),
            "decimal": self.decimal,
            "blank": self.blank,
        }
        return {**plain, "reserve": self.reserve} if self.reserve else plain

    @cached_property
    def size(self) -> int:
        """How many ranges and atoms there are."""
        return max(self.cells) + 1 + self.blank

    @cached_property
    def natives(self) -> tuple[Value | None, ...]:
        """The cells as text, ``17–22`` or ``40``; a blank is None."""
        texts = [self._label(a, b) for a, b in zip(*(ends.tolist() for ends in self.extent), strict=True)]
        texts = [f"{text} ({at})" if text in texts[:at] else text for at, text in enumerate(texts)]
        empty = np.flatnonzero(self._points == 0)
        for at in empty:
            texts[at] = "other values" if len(empty) == 1 else f"other values ({at})"
        return (*texts, None) if self.blank else tuple(texts)

    @property
    def neighbors(self) -> Array:
        """Pairs of cells that lie side by side, or one among the other ``(E, 2)``."""
        inside = (self._ends >= self.span[0]) & (self._starts <= self.span[1])
        single = self._width == 1
        lines = [self._cells[inside], self._cells[inside & single], self._cells[inside & ~single]]
        pairs = np.concatenate([np.sort(np.stack([line[:-1], line[1:]], 1), 1) for line in lines])
        found: Array = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
        return found

    def joined(self, group: Array) -> "Number":
        """The column with its cells joined: cell b becomes part of cell ``group[b]``, these renumbered ascending."""
        part = group[self._cells]
        return replace(self, cells=tuple(ascending(self._starts, np.array(self.weights), part).tolist()))

    def text(self, key: int) -> str:
        """A grid point as text."""
        return _spell(key, self.digits)

    def written(self, key: int) -> str:
        """A grid point as a condition may name it."""
        return self.text(key)

    def _label(self, low: int, high: int) -> str:
        """A range as text; a wide one on a fine grid in a few digits."""
        if low == high:
            return self.text(low)
        fine = max(0, len(str(high - low)) - 4) if self.digits > 0 else 0
        fine = min(fine, self.digits)
        first, last = (_spell(round(key / 10**fine), self.digits - fine) for key in (low, high))
        return f"{first} to {last}" if low < 0 else f"{first}–{last}"

    def keys(self, column: ColumnCells) -> Array:
        """Each cell's grid point ``(N,)``; 0 where it is blank or no number."""
        return _keys(column, self.digits)

    def lookup(self, values: pl.Series, na: tuple[str, ...]) -> Array:
        """The cell of each distinct value: a number, or a cell's own label."""
        named = {label: place for place, label in enumerate(self.natives)}
        found = np.full(len(values), UNKNOWN)
        for at, value in enumerate(values.to_list()):
            key = parse_key(str(value), self.digits)
            found[at] = named.get(str(value), UNKNOWN) if key is None else self.cell_of(np.array([key]))[0]
        return self.with_blanks(found, values, na)

    def encode(self, column: ColumnCells) -> Array:
        """Every cell's value ``(N,)``, UNKNOWN or BLANK where there is none."""
        numbers = column.numbers
        if np.isnan(numbers).sum() > column.blanks:  # words among the numbers, or labels of ranges
            return super().encode(column)
        found = np.where(np.isinf(numbers), UNKNOWN, self.cell_of(self.keys(column)))
        return np.where(np.isnan(numbers), self.blank_place, found)

    def log_inside(self, column: ColumnCells) -> Array:
        """``log g_b(v)`` of each cell's number on the grid ``(N,)``; 0 where there is none."""
        return np.where(np.isfinite(column.numbers), self.log_points(self.keys(column)), 0.0)

    def quick(self, cells: pl.Series) -> Quick | None:
        """Numbers by their bucket of the training range; those of a bucket with several pieces one by one."""
        if cells.null_count() or not cells.dtype.is_numeric() or cells.dtype.is_decimal():
            return None
        return self.quick_keys(_quick_keys(cells, self.digits))

    def quick_keys(self, keys: Array | None) -> Quick | None:
        """The same of grid points ``(N,)``."""
        if keys is None:
            return None
        shift, codes, log_points = self._buckets
        # The bucket before the first, and the one after the last, are for all that lies beyond.
        bucket = keys - (self.span[0] - (1 << shift))
        if shift:
            bucket >>= shift
        inside, found = np.take(log_points, bucket, mode="clip"), np.take(codes, bucket, mode="clip")
        if found.min() < 0:
            unsure = np.flatnonzero(found < 0)
            inside[unsure], found[unsure] = self.log_points(keys[unsure]), self.cell_of(keys[unsure])
        return Quick(found, inside)

    def decode(
        self, codes: Array, rng: np.random.Generator | None = None, conditions: Sequence[Condition] = ()
    ) -> pl.Series:
        """Numbers drawn inside the cells ``(N,)``, or each cell's middle without ``rng``; blanks are null."""
        known = codes < self.size - self.blank
        allowed = self.allowed(conditions)
        keys = self.drawn(np.where(known, codes, 0), rng, allowed)
        return self.series(keys if rng is None else self.within_span(keys, allowed), known)

    def within_span(self, keys: Array, allowed: Allowed) -> Array:
        """Drawn grid points ``(N,)``, those beyond the training range moved to the nearest point of it allowed.

        Only a cell that holds no value of the range is drawn from beyond it, that of other values where all values
        are atoms. They stay where they are if all that is allowed lies beyond.
        """
        found, away = keys, np.full(len(keys), np.inf)
        for low, high in meet([allowed, (self.span,)]):
            moved = keys.clip(low, high)
            far = np.abs(moved.astype(float) - keys.astype(float))
            found, away = np.where(far < away, moved, found), np.minimum(far, away)
        return found

    def drawn(self, cells: Array, rng: np.random.Generator | None, allowed: Allowed | None) -> Array:
        """A grid point of each cell ``(N,)``: its middle, or one drawn among those allowed."""
        return self.middles[cells] if rng is None else self._draw(cells, rng, allowed)

    def series(self, keys: Array, known: Array) -> pl.Series:
        """Grid points as the column's own numbers ``(N,)``; null where not known."""
        return _series(self.name, keys, self.digits, self.decimal).set(pl.Series(~known), None)

    def log_evidence(self, conditions: Sequence[Condition]) -> Array:
        """``log P(all conditions | cell)`` under the law inside each cell ``(V,)``.

        Raises:
            InputError: a value that is no number, or one that the column's grid cannot hold.
        """
        allowed = self.allowed(conditions)
        for each in conditions:
            if each.operator in ("=", IN) and not allowed and not self.allowed([each]):
                grid = "whole numbers only" if self.digits == 0 else f"multiples of {_spell(1, self.digits)} only"
                raise InputError(f"a value of {self.name!r}, which has {grid}", ", ".join(each.values), GIVEN)
        return self.interval_evidence(allowed)

    def extrapolated(self, conditions: Sequence[Condition]) -> str | None:
        return self.beyond_span(self.allowed(conditions), self.written)

    def beyond_span(self, allowed: Allowed, spell: Callable[[int], str]) -> str | None:
        """What `extrapolated` says of grid points that are allowed; ``spell`` writes one."""
        if meet([allowed, (self.span,)]):
            return None
        low, high = map(spell, self.span)
        sides = {each[0] > self.span[1] for each in allowed}
        side = f"outside {low} to {high}" if len(sides) > 1 else f"above {high}" if True in sides else f"below {low}"
        return f"no training row has {self.name!r} {side}: its values are extrapolated"

    def interval_evidence(self, allowed: Allowed) -> Array:
        """``log P(one of the intervals of grid points | cell)`` ``(V,)``."""
        share = self._overlap(allowed).sum(1) / self._width * self._mass
        total = np.bincount(self._cells, share, minlength=self.size - self.blank)
        with np.errstate(divide="ignore"):
            found = np.log(np.minimum(total, 1.0))
        return np.append(found, -np.inf) if self.blank else found

    def allowed(self, conditions: Sequence[Condition]) -> Allowed:
        """The intervals of grid points that all conditions allow, both ends included.

        Raises:
            InputError: a value that is no number.
        """
        return meet(intervals(each.operator, self._intervals(each.operator, each.values)) for each in conditions)

    def _intervals(self, operator: str, values: Sequence[str]) -> list[tuple[int, int]]:
        """The grid points of each value; a value between two of them is an empty interval."""
        keys = []
        for text in values:
            labels = {label: self._ends_of(cell) for cell, label in enumerate(self.natives) if label is not None}
            exact = _scaled(text, self.digits)
            if exact is None and text in labels and operator in ("=", "in"):
                keys.append(labels[text])
            elif exact is None:
                raise InputError(f"a number for {self.name!r}, such as {self.written(self.span[1])}", repr(text), GIVEN)
            else:
                low, high = int(np.ceil(exact)), int(np.floor(exact))
                keys.append((low, high))
        return keys

    @cached_property
    def middles(self) -> Array:
        """The grid point nearest to the mean of each cell ``(V,)``."""
        found = np.empty(max(self.cells) + 1, dtype=np.int64)
        low, high = np.maximum(self._starts, self.span[0]), np.minimum(self._ends, self.span[1])
        for cell, mean in enumerate(self.means):
            piece = np.flatnonzero(self._cells == cell)
            inside = piece[low[piece] <= high[piece]]
            piece = inside if len(inside) else piece
            first, last = (low, high) if len(inside) else (self._starts, self._ends)
            away = np.maximum(first[piece] - mean, mean - last[piece])
            best = piece[away.argmin()]
            found[cell] = int(min(max(round(mean), int(first[best])), int(last[best])))
        return found

    @cached_property
    def means(self) -> Array:
        """The mean of each cell's law, in steps of the grid ``(V,)``."""
        middle = self._starts.astype(float) + (self._width - 1) / 2
        return np.bincount(self._cells, self._mass * middle)

    @cached_property
    def log_sizes(self) -> Array:
        """``-E log g_b(v)`` of a number of each cell, drawn in the training range ``(V,)``.

        The logarithm of how many equally probable grid points are as spread: a cell's own points where its law is even,
        fewer where some of them hold most of its rows, more where much of the law lies beyond. A cell of nothing
        else is told by its whole law.
        """
        low, high = np.maximum(self._starts, self.span[0]), np.minimum(self._ends, self.span[1])
        points = np.maximum(high - low + 1.0, 0.0)
        beyond = (np.bincount(self._cells, points) == 0)[self._cells]
        points = np.where(beyond, self._width, points)
        share, some = self._mass / self._width * points, points > 0
        spread = np.zeros_like(share)
        spread[some] = share[some] * np.log(points[some] / share[some])
        found: Array = np.bincount(self._cells, spread) / np.bincount(self._cells, share)
        return np.append(found, 0.0) if self.blank else found

    @cached_property
    def _points(self) -> Array:
        """How many grid points of the training range lie in each cell ``(V,)``."""
        points = np.minimum(self._ends, self.span[1]) - np.maximum(self._starts, self.span[0]) + 1.0
        return np.bincount(self._cells, np.maximum(points, 0.0))

    def histogram(self, conditions: Sequence[Condition] = ()) -> Histogram:
        """Ranges of round width over the bulk of the training values.

        >>> column = Number.fit("age", np.random.default_rng(0).integers(17, 91, 5000))
        >>> found = column.histogram([Condition(0, ">=", ("80",))])
        >>> found.labels[0], found.labels[-1], found.conditions[1], found.shares.shape
        ('below 20', '90 and above', (('>=', '20'), ('<', '25')), (16, 75))
        >>> [round(float(found.shares[:, column.place(age)].sum()), 6) for age in ("79", "80")]
        [0.0, 1.0]
        """
        return self.spelled_histogram(self.allowed(conditions), lambda keys: list(map(self.written, keys)))

    def spelled_histogram(self, allowed: Allowed, spell: Callable[[Sequence[int]], Sequence[str]]) -> Histogram:
        """The ranges of `histogram` among the grid points that are allowed; ``spell`` writes grid points."""
        ranges = even_intervals(*self._bulk)
        whole = self.interval_evidence(allowed)
        with np.errstate(invalid="ignore"):
            parts = [np.exp(self.interval_evidence(meet([allowed, (each,)])) - whole) for each in ranges]
        lows = list(spell([low for low, _ in ranges[1:]]))
        starts, last = ["", *lows], list(spell([high for _, high in ranges[:-1]]))
        labels = [a if a == b else f"{a}–{b}" for a, b in zip(starts[1:-1], last[1:], strict=True)]
        pairs = [((">=", low), ("<", high)) for low, high in itertools.pairwise(lows)]
        if not lows:
            return Histogram(("all",), ((),), np.nan_to_num(np.stack(parts)))
        return Histogram(
            (f"below {lows[0]}", *labels, f"{lows[-1]} and above"),
            ((("<", lows[0]),), *pairs, ((">=", lows[-1]),)),
            np.nan_to_num(np.stack(parts)),
        )

    @cached_property
    def _bulk(self) -> tuple[int, int]:
        """The grid points between which all but a hundredth of the training values lie."""
        low, high = np.maximum(self._starts, self.span[0]), np.minimum(self._ends, self.span[1])
        inside = np.flatnonzero(low <= high)
        share = np.cumsum(np.array(self.weights)[inside])
        first, last = np.searchsorted(share / share[-1], [0.005, 0.995])
        return int(low[inside[first]]), int(high[inside[min(last, len(inside) - 1)]])

    def summary(self, log_probs: Array, how: str) -> pl.Series:
        """What fills blanks whose cells have these log-probabilities ``(B, V)``: a mean, median or mode on the grid."""
        keys = self.summary_keys(log_probs, how)
        return self.series(keys, np.ones(len(keys), dtype=bool))

    def summary_keys(self, log_probs: Array, how: str) -> Array:
        """The grid points of `summary` ``(B,)``."""
        probs = np.exp(log_probs[:, : self.size - self.blank])
        probs /= probs.sum(1, keepdims=True)
        if how == "mean":
            keys = np.rint(probs @ self.means).astype(np.int64)
        elif how == "median":
            by_piece = np.cumsum(probs[:, self._cells] * self._mass, 1)
            piece = np.minimum((by_piece < 0.5).sum(1), len(self.starts) - 1)
            rows = np.arange(len(piece))
            before = np.where(piece > 0, by_piece[rows, piece - 1], 0.0)
            inside = (0.5 - before) / np.maximum(by_piece[rows, piece] - before, 1e-300)
            keys = self._starts[piece] + (inside.clip(0, 1 - 1e-9) * self._width[piece]).astype(np.int64)
        else:
            keys = self.middles[(np.log(probs + 1e-300) - self.log_sizes[: probs.shape[1]]).argmax(1)]
        found: Array = keys.clip(*self.span)
        return found

    @cached_property
    def _starts(self) -> Array:
        return np.array(self.starts, dtype=np.int64)

    @cached_property
    def _cells(self) -> Array:
        return np.array(self.cells, dtype=np.int64)

    @cached_property
    def _ends(self) -> Array:
        """The last grid point of each piece ``(P,)``."""
        return np.append(self._starts[1:] - 1, LIMIT)

    @cached_property
    def _width(self) -> Array:
        found: Array = self._ends.astype(float) - self._starts.astype(float) + 1
        return found

    @cached_property
    def _mass(self) -> Array:
        """The probability of each piece within its cell ``(P,)``."""
        weights = np.array(self.weights)
        found: Array = weights / np.bincount(self._cells, weights)[self._cells]
        return found

    @cached_property
    def _log_point(self) -> Array:
        """``log g`` of one grid point of each piece ``(P,)``."""
        found: Array = np.log(self._mass) - np.log(self._width)
        return found

    @cached_property
    def extent(self) -> tuple[Array, Array]:
        """The least and the largest grid point of each cell within the training range ``(V,)``."""
        low, high = np.maximum(self._starts, self.span[0]), np.minimum(self._ends, self.span[1])
        inside = low <= high
        first, last = np.full(max(self.cells) + 1, LIMIT), np.full(max(self.cells) + 1, -LIMIT)
        np.minimum.at(first, self._cells[inside], low[inside])
        np.maximum.at(last, self._cells[inside], high[inside])
        beyond = first > last  # a cell of values between or beyond the atoms, none of them seen
        return np.where(beyond, self.span[0], first), np.where(beyond, self.span[1], last)

    def _ends_of(self, cell: int) -> tuple[int, int]:
        return int(self.extent[0][cell]), int(self.extent[1][cell])

    def _piece(self, keys: Array) -> Array:
        return np.searchsorted(self._starts, keys, side="right").clip(1) - 1

    @cached_property
    def _buckets(self) -> tuple[int, Array, Array]:
        """The training range in at most 2^14 equal buckets: the power of two that they are wide, and of each its cell
        and ``log g`` of its points; the cell is -1 where a piece begins inside, and in the outermost places.
        """
        low, high = self.span
        shift = max(0, (high - low).bit_length() - _BITS)
        first = low + (np.arange(((high - low) >> shift) + 1, dtype=np.int64) << shift)
        piece, last = self._piece(first), self._piece(np.minimum(first + ((1 << shift) - 1), high))
        codes = np.pad(np.where(piece == last, self._cells[piece], -1), 1, constant_values=-1)
        return shift, codes.astype(np.int16 if self.size < 2**15 else np.int64), np.pad(self._log_point[piece], 1)

    def cell_of(self, keys: Array) -> Array:
        """The cell of each grid point ``(N,)``."""
        return self._cells[self._piece(keys)]

    def log_points(self, keys: Array) -> Array:
        """``log g_b`` of each grid point in its own cell ``(N,)``."""
        return self._log_point[self._piece(keys)]

    def _overlap(self, allowed: Allowed) -> Array:
        """How many grid points each piece shares with each interval ``(P, I)``."""
        low = np.array([each[0] for each in allowed], dtype=float).reshape(1, -1)
        high = np.array([each[1] for each in allowed], dtype=float).reshape(1, -1)
        ends, starts = self._ends.astype(float)[:, None], self._starts.astype(float)[:, None]
        found: Array = np.maximum(np.minimum(ends, high) - np.maximum(starts, low) + 1, 0.0)
        return found

    def _draw(self, cells: Array, rng: np.random.Generator, allowed: Allowed | None) -> Array:
        """A grid point of each cell: a piece by weight, then one of its points; only those allowed.

        What is kept for numbers beyond the training range is for scoring them: they are drawn only in cells where the
        conditions leave nothing else, as values of a category never seen are not drawn either.
        """
        anywhere = ((-LIMIT, LIMIT),) if allowed is None else allowed
        within = meet([anywhere, (self.span,)])
        seen = np.bincount(self._cells, self._overlap(within).sum(1), minlength=max(self.cells) + 1) > 0
        found = np.empty(len(cells), dtype=np.int64)
        for chosen, rows in ((within, seen[cells]), (anywhere, ~seen[cells])):
            if rows.any():
                found[rows] = self._draw_among(cells[rows], rng, chosen)
        return found

    def _draw_among(self, cells: Array, rng: np.random.Generator, within: Allowed) -> Array:
        """A grid point of each cell in one of the intervals."""
        overlap = self._overlap(within)
        weight = (overlap / self._width[:, None] * self._mass[:, None]).ravel()
        owner = np.repeat(self._cells, len(within))
        order = np.argsort(owner, kind="stable")
        total = np.cumsum(weight[order])
        ends = np.searchsorted(owner[order], np.arange(max(self.cells) + 1), side="right")
        high = total[ends - 1]
        low = np.append(0.0, high[:-1])
        target = low[cells] + rng.random(len(cells)) * (high - low)[cells]
        slot = np.searchsorted(total, target, side="right").clip(0, len(total) - 1)
        pair = order[np.minimum(slot, ends[cells] - 1)]
        piece, interval = pair // len(within), pair % len(within)
        first = np.maximum(self._starts[piece], np.array([each[0] for each in within])[interval])
        last = np.minimum(self._ends[piece], np.array([each[1] for each in within])[interval])
        found: Array = rng.integers(first, np.maximum(first, last), endpoint=True)
        return found


def parse_key(text: str, digits: int) -> int | None:
    """The grid point nearest to a number's text, or None where it is no number."""
    exact = _scaled(text, digits)
    return None if exact is None else round(exact)


def _scaled(text: str, digits: int) -> float | int | None:
    if not re.match(NUMBER_PATTERN, text):
        return None
    try:
        whole = int(text)
        exact: float | int = whole * 10**digits if digits >= 0 else whole / 10**-digits
    except ValueError:
        scaled = float(text) * 10.0**digits
        if not isfinite(scaled):  # beyond what numbers are
            return None
        exact = round(scaled) if abs(scaled - round(scaled)) < 1e-6 * max(1.0, abs(scaled) * 1e-6) else scaled
    return exact if isinstance(exact, int) and abs(exact) <= LIMIT else max(min(float(exact), LIMIT), -LIMIT)


def _keys(column: ColumnCells, digits: int) -> Array:
    """Each cell as a grid point ``(N,)``, whole numbers exactly; 0 where it is blank or no number."""
    if column.whole is not None and digits >= 0:
        most = LIMIT // 10**digits
        exact: Array = column.whole.clip(-most, most) * 10**digits
        return exact
    scaled = column.numbers * 10.0**digits
    np.nan_to_num(scaled, copy=False, nan=0.0, posinf=float(LIMIT), neginf=-float(LIMIT))
    np.rint(np.clip(scaled, -float(LIMIT), float(LIMIT), out=scaled), out=scaled)
    found: Array = scaled.astype(np.int64)
    return found


def _quick_keys(cells: pl.Series, digits: int) -> Array | None:
    """The grid points of numbers without blanks ``(N,)``; None where some need a closer look."""
    values = cells.to_numpy()
    if cells.dtype.is_integer() and digits >= 0:
        least, largest = int(values.min()), int(values.max())
        if max(-least, largest) > LIMIT // 10**digits:
            return None
        found: Array = values.astype(np.int64, copy=False)
        return found if digits == 0 else found * 10**digits
    scaled = values.astype(np.float64, copy=False) * 10.0**digits
    with np.errstate(over="ignore", invalid="ignore"):
        # None is as large as 2^53 then, beyond which floats skip whole numbers; NaN and infinities fail it too.
        if not scaled @ scaled < 2.0**106:
            return None
    keys: Array = np.rint(scaled, out=scaled).astype(np.int64)
    return keys


def _spell(key: int, digits: int) -> str:
    if digits <= 0:
        return str(key * 10**-digits)
    return f"{key / 10**digits:.{min(digits, 15)}f}".rstrip("0").rstrip(".")


def _series(name: str, keys: Array, digits: int, decimal: bool) -> pl.Series:
    if digits <= 0 and not decimal:
        return pl.Series(name, keys * 10**-digits, dtype=pl.Int64)
    values = keys / 10.0**digits if digits > 0 else keys * 10.0**-digits
    return pl.Series(name, np.round(values, max(digits, 0)), dtype=pl.Float64)
