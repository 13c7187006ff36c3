"""Columns of many texts: the frequent ones are values of the site, all others share one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from typing import Any, ClassVar

import numpy as np
import polars as pl

from concrete_score.codecs.columns import POOLED, ColumnCells, SiteColumn, Value, as_text, reserve_of
from concrete_score.codecs.conditions import Condition, label_evidence
from concrete_score.data.frame import Array
from concrete_score.errors import InputError

MOST_POOLED = 5_000
"""The most pooled texts that a run keeps, to draw from."""


@dataclass(frozen=True)
class Pooled(SiteColumn):
    """A site of the frequent texts of a column, ascending, and one more value for all others, which are drawn back.

    Args:
        values: the frequent texts.
        pool: the others.
        weights: how many rows each of the others has.
        reserve: the share of the pool kept for texts never seen.

    >>> column = Pooled("city", ("Oslo", "Rome"), ("Bree", "Ur"), (3, 1), 0.25)
    >>> column.labels, column.place("Ur"), column.place("Troy")
    (('Oslo', 'Rome', '(other)'), 2, 2)
    """

    name: str
    values: tuple[str, ...]
    pool: tuple[str, ...]
    weights: tuple[int, ...]
    reserve: float = 0.0
    blank: bool = False
    kind = POOLED
    lossy = True
    log_seen = 0.0  # the reserve is within the pool
    kinds: ClassVar[tuple[str, ...]] = (POOLED,)

    @classmethod
    def of(cls, column: ColumnCells, most: int, least: int, blank: bool = False) -> "Pooled":
        """The ``most`` frequent texts that at least ``least`` rows have stay, the rest is pooled."""
        texts, counts = column.known.cast(pl.String).to_list(), column.counts
        order = np.lexsort((np.arange(len(counts)), -counts))[: most - 1]
        frequent = {texts[at] for at in order if counts[at] >= least}
        rest = [(text, int(count)) for text, count in zip(texts, counts, strict=True) if text not in frequent]
        once, total = sum(count == 1 for _, count in rest), sum(count for _, count in rest)
        kept = sorted(sorted(rest, key=lambda each: -each[1])[:MOST_POOLED])
        pool, weights = zip(*kept, strict=True) if kept else ((), ())
        return cls(column.name, tuple(sorted(frequent)), pool, weights, min(once / max(total, 1), 0.5), blank)

    @classmethod
    def from_json(cls, value: Mapping[str, Any], blank: bool, where: str) -> "Pooled":
        """From plain values, every one of them checked."""
        values, pool, weights = (value.get(each) for each in ("values", "pool", "weights"))
        for texts in (values, pool):
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                raise InputError("a list of texts", repr(texts)[:60], where=f"{where}.values")
            if any(a >= b for a, b in pairwise(texts)):
                raise InputError("ascending texts", repr(texts)[:60], where=f"{where}.values")
        right = isinstance(weights, list) and all(type(each) is int and 0 < each < 2**53 for each in weights)
        if not right or not weights or len(weights) != len(pool) or set(values) & set(pool):  # type: ignore[arg-type]
            raise InputError("a positive count for each pooled text", repr(weights)[:60], where=f"{where}.weights")
        texts = tuple(values), tuple(pool), tuple(weights)  # type: ignore[arg-type]
        return cls(value["name"], *texts, reserve_of(value, where), blank)

    @property
    def natives(self) -> tuple[Value | None, ...]:
        """The frequent texts, then one name for all others; a blank is None."""
        other = "(other)"
        while other in self.values:
            other = f"({other})"
        return (*self.values, other, None) if self.blank else (*self.values, other)

    def lookup(self, values: pl.Series, na: tuple[str, ...]) -> Array:
        known = {value: place for place, value in enumerate(self.values)}
        texts = [as_text(value) for value in values.to_list()]
        found = np.array([known.get(text, len(self.values)) for text in texts], dtype=np.int64)
        return self.with_blanks(found, values, na)

    def log_inside(self, column: ColumnCells) -> Array:
        """``log P(text | pooled)``; a text never seen has what the pool reserves."""
        total = sum(self.weights)
        chances = {
            text: (1 - self.reserve) * weight / total for text, weight in zip(self.pool, self.weights, strict=True)
        }
        chances |= dict.fromkeys(self.values, 1.0)
        unseen = self.reserve or 1 / (total + 1)
        each = [chances.get(as_text(value), unseen) for value in column.distinct.to_list()]
        found: Array = np.append(np.log(each), 0.0)[column.codes]
        return found

    def decode(
        self, codes: Array, rng: np.random.Generator | None = None, conditions: Sequence[Condition] = ()
    ) -> pl.Series:
        """The texts, pooled ones drawn by their counts, or the name of all others where nothing may be random."""
        cells = pl.Series(self.name, self.natives, dtype=pl.String).gather(pl.Series(codes))
        pooled = np.flatnonzero(codes == len(self.values))
        if rng is None or not len(pooled):
            return cells
        chances = np.array(self.weights) * np.exp(self._met(conditions))
        chances = chances / chances.sum()
        drawn = rng.choice(len(self.pool), len(pooled), p=chances)
        return cells.scatter(pooled, pl.Series(self.pool, dtype=pl.String).gather(pl.Series(drawn)))

    def log_evidence(self, conditions: Sequence[Condition]) -> Array:
        """As of categories; of the pool, the share of its rows that meets all conditions."""
        texts = (*self.values, *self.pool)
        met = label_evidence(conditions, self.name, texts, texts, {text: k for k, text in enumerate(texts)}.get)
        weights = np.array(self.weights) * np.exp(met[len(self.values) :])
        with np.errstate(divide="ignore"):
            pooled = np.log(weights.sum() / sum(self.weights))
        return np.array([*met[: len(self.values)], pooled, *([-np.inf] if self.blank else [])])

    def _met(self, conditions: Sequence[Condition]) -> Array:
        """Which pooled texts meet conditions: 0 or -inf."""
        texts = (*self.values, *self.pool)
        places = {text: k for k, text in enumerate(texts)}
        return label_evidence(conditions, self.name, texts, texts, places.get)[len(self.values) :]

    def summary(self, log_probs: Array, how: str) -> pl.Series:
        """The most probable single text."""
        best = log_probs[:, : len(self.values) + 1].copy()
        top = int(np.argmax(self.weights))
        best[:, -1] += log(self.weights[top] / sum(self.weights))
        return pl.Series(self.name, (*self.values, self.pool[top]), dtype=pl.String).gather(pl.Series(best.argmax(1)))

    def to_json(self) -> dict[str, Any]:
        lists = {"values": list(self.values), "pool": list(self.pool), "weights": list(self.weights)}
        return {"name": self.name, "kind": self.kind, **lists, "reserve": self.reserve, "blank": self.blank}
