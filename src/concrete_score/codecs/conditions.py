"""Conditions on columns: how they are written, and which of a column's values meet them.

A condition is text, ``age>=65``: the longest column name that an operator follows, the operator, and the rest, which is
the value: ``income=>50K`` asks for the value ``>50K``. After `` in `` stands a list, its values parted by commas. Or it
is an entry of a mapping, ``{"smoke": "yes"}`` or ``{"country": ["US", "CA"]}``, whose values are taken as they are.
"""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from concrete_score.data.amounts import find_numbers
from concrete_score.data.frame import Array
from concrete_score.errors import InputError, Option, nearest

GIVEN = Option("given")
IN = "in"
COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
OPERATORS = ("!=", "<=", ">=", "=", "<", ">")
"""Longer ones first, for they begin like shorter ones."""

_COMMA = re.compile(r',(?=(?:[^"]*"[^"]*")*[^"]*$)')
"""A comma outside double quotes."""
_COMMAS = 3
"""Commas that a value in a list may have itself, unquoted."""
_LISTED = 8
"""Values named in a message; of more, the first and the last."""

Place = Callable[[str], int | None]
"""A column's value for a text, or None."""


@dataclass(frozen=True)
class Condition:
    """What one column is to be.

    >>> Condition(0, "in", ("US", "CA")).describe(["country"]), Condition(0, ">=", ("65",)).describe(["age"])
    ('country in US,CA', 'age>=65')
    """

    site: int
    operator: str
    """``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=`` or ``in``."""
    values: tuple[str, ...]
    """One, or of ``in`` one or more; a blank is empty."""
    plain: bool = False
    """Whether the values are a program's numbers, not what a person writes beside the column."""

    def describe(self, names: Sequence[str]) -> str:
        """As it is written."""
        sign = f" {IN} " if self.operator == IN else self.operator
        return f"{names[self.site]}{sign}{','.join(self.values)}"


def split_condition(text: Any, names: Sequence[str], noun: str = "column") -> tuple[str, str, str]:
    """A condition's name, operator and value; spaces around the operator are passed over where they are on its left.

    Raises:
        InputError: not a text, no name that an operator follows.

    >>> split_condition("income=>50K", ["income"]), split_condition("a=b<3", ["a", "a=b"])
    (('income', '=', '>50K'), ('a=b', '<', '3'))
    >>> split_condition("age >= 65", ["age"]), split_condition("country in US,CA", ["country"])
    (('age', '>=', '65'), ('country', 'in', 'US,CA'))
    """
    if not isinstance(text, str):
        raise InputError("texts such as 'age>=65'", repr(text), GIVEN)
    for name in sorted((name for name in names if text.startswith(name)), key=len, reverse=True):
        rest = text[len(name) :]
        if rest.startswith(f" {IN} "):
            return name, IN, rest[len(IN) + 2 :]
        bare = rest.lstrip(" ")
        for sign in OPERATORS:
            if bare.startswith(sign):
                value = bare[len(sign) :]
                return name, sign, value if bare == rest else value.lstrip(" ")
    if text in names:
        fix = ("write ", Option("given", [f"{text}=…"]))
        raise InputError(f"{noun.upper()}=VALUE, or another comparison", f"{text!r} without one", GIVEN, fix)
    ends = [at for sign in (*OPERATORS, f" {IN} ") if (at := text.find(sign)) >= 0]
    expected = f"{noun.upper()}=VALUE, or another comparison, with the name of a {noun}"
    raise InputError(expected, repr(text), GIVEN, nearest(text[: min(ends, default=len(text))].strip(), names))


def split_values(text: str, place: Place) -> tuple[str, ...]:
    """The values of a list, parted by commas: not by those within double quotes, nor by those of a known value.

    >>> split_values('US, CA,"Bonn, D"', {"US": 0}.get), split_values("[3, 4),[4, 5]", {"[3, 4)": 0, "[4, 5]": 1}.get)
    (('US', 'CA', 'Bonn, D'), ('[3, 4)', '[4, 5]'))
    """
    pieces = _COMMA.split(text)
    found: list[str] = []
    while pieces:
        runs = [",".join(pieces[:count]) for count in range(min(_COMMAS + 1, len(pieces)), 0, -1)]
        known = [(run, spelled) for run in runs for spelled in (run, run.strip()) if place(spelled) is not None]
        run, value = known[0] if known else (pieces[0], pieces[0].strip())
        quoted = len(value) > 1 and value[0] == value[-1] == '"' and not known
        found.append(value[1:-1] if quoted else value)
        pieces = pieces[run.count(",") + 1 :] if known else pieces[1:]
    return tuple(found)


def label_evidence(
    conditions: Sequence[Condition], name: str, natives: Sequence[Any], labels: Sequence[str], place: Place
) -> Array:
    """``log e(v)`` of a column each of whose values meets a condition or does not: 0 or -inf ``(V,)``.

    Args:
        conditions: on this column; all of them hold at once.
        name: of the column.
        natives: its values, in order; a blank is None.
        labels: the same as text.
        place: a value by its text.

    Raises:
        InputError: a value never seen in training, or one that cannot be compared with this column's.

    >>> two = [Condition(0, ">", ("1",)), Condition(0, "!=", ("5",))]
    >>> label_evidence(two, "n", [1, 3, 5], ["1", "3", "5"], {"1": 0, "3": 1, "5": 2}.get)
    array([-inf,   0., -inf])
    """
    met = np.ones(len(natives), dtype=bool)
    for each in conditions:
        met &= _among(each, name, labels, place) if each.operator not in COMPARISONS else _compared(each, name, natives)
    return as_evidence(met)


def as_evidence(met: Array) -> Array:
    """0 where a condition is met and -inf elsewhere ``(V,)``."""
    return np.where(met, 0.0, -np.inf)


def to_number(text: str, name: str, example: str = "") -> int | float:
    """The number that a column is compared with, whole numbers exactly; ``example`` is told where it is none.

    Raises:
        InputError: not a number.
    """
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if number != number:
        such = example and f", such as {example}"
        raise InputError(f"a number to compare {name!r} with{such}", repr(text), GIVEN)
    return number


def _among(condition: Condition, name: str, labels: Sequence[str], place: Place) -> Array:
    """Which values are among a condition's, or are not where that is asked ``(V,)``."""
    met = np.zeros(len(labels), dtype=bool)
    for text in condition.values:
        at = place(text)
        if at is None:
            raise InputError(f"a value of {name!r} seen in training", repr(text), GIVEN, nearest(text, labels))
        met[at] = True
    return met if condition.operator != "!=" else ~met


def _compared(condition: Condition, name: str, natives: Sequence[Any]) -> Array:
    """Which values are on the right side of a condition's ``(V,)``; no blanks."""
    compare, met = COMPARISONS[condition.operator], np.zeros(len(natives), dtype=bool)
    places = [place for place, native in enumerate(natives) if native is not None]
    keys, bound = _ordered([natives[place] for place in places], condition.values[0], name)
    met[places] = [compare(key, bound) for key in keys]
    return met


def _ordered(known: Sequence[Any], text: str, name: str) -> tuple[Sequence[Any], Any]:
    """Values and a text to compare them with: numbers by size, also where all texts are some, other texts as such."""
    if any(isinstance(native, str) for native in known):
        written = find_numbers(pl.Series(known, dtype=pl.String))
        return (known, text) if written is None else (written[1], to_number(written[0].read(text), name, known[-1]))
    if not known or not isinstance(known[0], bool):
        return known, to_number(text, name)
    truth = {"true": True, "1": True, "false": False, "0": False}.get(text.lower())
    if truth is None:
        raise InputError(f"true or false to compare {name!r} with", repr(text), GIVEN)
    return known, truth


def refuse_unmet(conditions: Sequence[Condition], names: Sequence[str], known: Sequence[str], pair: bool) -> None:
    """Refuse conditions on one column that no value meets: one alone, or several that contradict each other."""
    name = names[conditions[0].site]
    told = " and ".join(each.describe(names) for each in conditions)
    if not pair:
        span = f"{known[0]} to {known[-1]}" if len(known) > _LISTED else ", ".join(known)
        raise InputError(f"a condition that some value of {name!r} meets", told, GIVEN, f"its values: {span}")
    fix = "leave one of them out"
    raise InputError(f"one value for {name!r} that meets all conditions on it", f"none for {told}", GIVEN, fix)
