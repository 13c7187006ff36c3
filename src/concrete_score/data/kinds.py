"""Which polars type reads a column of text quickest, guessed from its first rows.

A wrong guess costs time, never a cell: where a cell does not fit its type polars stops, and where a type forgets how a
cell was spelled (007 is 7, True is true), `concrete_score.data.tally` misses its letters or its capitals.
"""

import re
from collections.abc import Collection
from typing import Any

import polars as pl

SAMPLE = 1024
"""Rows looked at before a guess."""
Kinds = dict[str, Any]

_MANY = SAMPLE // 2
"""A column with more different values than this among the first rows does not repeat itself."""
_ROOM = 4
"""How many times more than was seen a narrow type must hold."""
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,5}")
_WHOLE_KINDS: dict[int, Any] = {2**7 - 1: pl.Int8, 2**15 - 1: pl.Int16, 2**31 - 1: pl.Int32}
_TRUTH = (("false", "true"), ("False", "True"), ("FALSE", "TRUE"))


def wide_kinds(sample: pl.DataFrame) -> Kinds:
    """One dictionary of categories for columns that repeat themselves; text for those that do not.

    >>> kinds = wide_kinds(pl.DataFrame({"x0": ["7", "8"] * 500, "x1": [str(row) for row in range(1000)]}))
    >>> [str(kind).partition("(")[0] for kind in kinds.values()]
    ['Categorical', 'String']
    """
    shared = pl.Categorical(pl.Categories.random())
    return {series.name: shared if series.n_unique() <= _MANY else pl.String() for series in sample}


def narrow_kinds(sample: pl.DataFrame) -> Kinds:
    """Whole numbers where the sample holds nothing else, then truth values, then few categories in one byte each.

    >>> sample = pl.DataFrame({"x0": ["7", "8"], "x1": ["true", ""], "x2": ["no", "yes"], "x3": ["007", "8"]})
    >>> [str(kind).partition("(")[0] for kind in narrow_kinds(sample).values()]
    ['Int8', 'Boolean', 'Categorical', 'Categorical']
    """
    return {series.name: _narrow(set(series.to_list())) for series in sample}


def truth_words(values: Collection[str | None]) -> tuple[str, str] | None:
    """How a column of truth values spells false and true, or None for any other column.

    >>> truth_words(["True", "", "False"])
    ('False', 'True')
    """
    known = {value for value in values if value}
    return next((words for words in _TRUTH if known and known.issubset(words)), None)


def _narrow(values: set[str | None]) -> Any:
    known = [value for value in values if value]
    if len(values) > _MANY:
        return pl.String()
    if known and all(map(_WHOLE.fullmatch, known)):
        largest = _ROOM * max(abs(int(value)) for value in known)
        return next(kind for bound, kind in _WHOLE_KINDS.items() if largest <= bound)()
    if truth_words(known):
        # Polars takes true and True for one; the tally counts capitals.
        return pl.Boolean()
    few = _ROOM * len(known) < 2**8
    return pl.Categorical(pl.Categories.random(physical=pl.UInt8 if few else pl.UInt16))
