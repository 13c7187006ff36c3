"""What a page sets, from JSON of anybody's making to conditions on a model's columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from concrete_score.answers import Given
from concrete_score.codecs import Codec
from concrete_score.codecs.conditions import IN, OPERATORS, Condition
from concrete_score.errors import Command, InputError, Option, bounded, check_count
from concrete_score.protocols import Encoded

MOST_VALUES = 1000
"""Values of one condition."""
EACH = 4
"""Conditions for each column at most."""


class PageSkin:
    """Errors as the page words them: it has no options to name, so advice that needs one is left out."""

    verb = "use"

    def options(self, options: Sequence[Option]) -> str | None:
        return None

    def command(self, command: Command) -> str | None:
        return f"csm {command.name}"


SKIN = PageSkin()


class _Page(NamedTuple):
    """Where the cells of a question come from."""

    where: str = "what is set"


@dataclass(frozen=True, eq=False)
class Asked:
    """Conditions on some columns, as evidence and, where each leaves one value, as a row with blanks.

    >>> from concrete_score.codecs import codec_from_json
    >>> codec = codec_from_json({"kind": "integers", "sizes": [2, 3]})
    >>> asked = Asked.of(codec, {"given": [{"column": "x1", "operator": "=", "values": ["2"]}]})
    >>> asked.fixed, asked.row.rows.observed.tolist(), asked.complete
    ({1: 2}, [[False, True]], False)
    """

    codec: Codec
    conditions: tuple[Condition, ...]

    @classmethod
    def of(cls, codec: Codec, value: Mapping[str, Any]) -> "Asked":
        """From ``{"given": [{"column": …, "operator": …, "values": […]}, …]}``.

        Raises:
            InputError: other JSON, no such column, or no such value; in one line.
        """
        given = value.get("given", [])
        most = EACH * len(codec.names)
        if not isinstance(given, list) or len(given) > most:
            came = f"{len(given)} conditions" if isinstance(given, list) else type(given).__name__
            raise InputError(f"a list of at most {most} conditions", came, where="given")
        places = {name: site for site, name in enumerate(codec.names)}
        return cls(codec, tuple(_condition(codec, places, each) for each in given))

    @cached_property
    def evidence(self) -> dict[int, Tensor]:
        """What is known of each column that is set."""
        return self.codec.evidence(self.conditions)

    @cached_property
    def fixed(self) -> dict[int, int] | None:
        """The one value of each column that is set; None where one of them may have several."""
        left = {site: (weights > -torch.inf).nonzero().flatten().tolist() for site, weights in self.evidence.items()}
        return None if any(len(each) > 1 for each in left.values()) else {site: each[0] for site, each in left.items()}

    @property
    def complete(self) -> bool:
        """Whether every column has one value."""
        return self.fixed is not None and len(self.fixed) == len(self.codec.names)

    @property
    def row(self) -> Given:
        """One row in which only what is set is observed."""
        states = torch.zeros(1, len(self.codec.names), dtype=torch.int64)
        observed = torch.zeros_like(states, dtype=torch.bool)
        for site, value in (self.fixed or {}).items():
            states[0, site], observed[0, site] = value, True
        return Given(_Page(), Encoded(states, observed, torch.zeros(1, dtype=torch.int64)))


def text_of(value: Mapping[str, Any]) -> str | None:
    """The text of a question about one, if it has any.

    Raises:
        InputError: not a text.
    """
    text = value.get("text")
    if text is not None and not isinstance(text, str):
        raise InputError("a text", type(text).__name__, where="text")
    return text


def count_of(value: Mapping[str, Any], default: int, most: int, name: str = "count") -> int:
    """How many of something a question asks for.

    Raises:
        InputError: not a whole number from 1 to ``most``.
    """
    return check_count(value.get(name, default), name, 1, most)


def _condition(codec: Codec, places: Mapping[str, int], value: Any) -> Condition:
    """One condition of a question."""
    if not isinstance(value, Mapping) or not isinstance(value.get("column"), str):
        raise InputError("conditions with a column, an operator and values", bounded(repr(value), 100), where="given")
    name, operator, values = value["column"], value.get("operator", "="), value.get("values")
    if operator not in (*OPERATORS, IN):
        raise InputError(f"one of {' '.join((*OPERATORS, IN))}", bounded(repr(operator), 100), where="operator")
    texts = isinstance(values, list) and all(isinstance(each, str) for each in values)
    if not texts or not isinstance(values, list) or not 1 <= len(values) <= (MOST_VALUES if operator == IN else 1):
        raise InputError("the text of a value, or several after 'in'", bounded(repr(values), 100), where="values")
    site = places[name] if name in places else codec.site_of(name)
    return Condition(site, operator, tuple(values))
