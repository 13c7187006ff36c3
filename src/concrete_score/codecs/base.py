"""What every kind of data does its own way, as one abstract class: callers never ask which kind it is.

A codec reads data of its kind, infers itself from them, turns them into states and back, parses conditions, names
cells, fills blanks, and chooses the model and objective for what was not asked for. A new one is a file with a subclass
and a line in the registry, under ``codecs``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from itertools import combinations
from typing import Any, ClassVar, NoReturn, TypeVar

import numpy as np
import torch
from torch import Tensor

from concrete_score import registry
from concrete_score.codecs.conditions import (
    GIVEN,
    IN,
    Condition,
    label_evidence,
    refuse_unmet,
    split_condition,
    split_values,
)
from concrete_score.codecs.ranges import Histogram
from concrete_score.data.frame import Array
from concrete_score.defaults import FILLS
from concrete_score.errors import InputError, Option, Part, nearest
from concrete_score.protocols import Encoded
from concrete_score.shapes import States
from concrete_score.spaces import Space
from concrete_score.training.choice import Choice, choose

Options = TypeVar("Options")
Self = TypeVar("Self", bound="Codec")


class Codec(ABC):
    """The way between a user's data and states; concrete codecs are frozen values."""

    kind: ClassVar[str]
    """Its name in the registry, in ``run.json``, and in the data objects that it takes."""
    noun: ClassVar[str]
    """What one calls the examples, in the plural."""
    missing: ClassVar[str] = "refuse"
    """What is done with blank cells to learn from, where nothing was asked for."""
    site_noun: ClassVar[str] = "columns"
    """What one calls the sites."""
    precise: ClassVar[bool] = True
    """Whether answers are computed in double precision: what a row gets then does not depend on the rows beside it."""
    by_rows: ClassVar[bool] = False
    """Whether each example is encoded and filled by itself, so that part of the data has the states it has in all."""
    has_grid: ClassVar[bool] = False
    """Whether examples can be looked at side by side, as `grid` draws them."""
    from_noise: ClassVar[bool] = False
    """Whether a model with noise levels always draws as a chain from noise."""

    @property
    def output_format(self) -> str:
        """The format of an output file whose name has no ending."""
        return "csv"

    @property
    def unnamed(self) -> bool:
        """Whether the sites came without names, so that a whole number may stand for one."""
        return False

    @property
    @abstractmethod
    def space(self) -> Space: ...

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """What each site is called."""

    @classmethod
    @abstractmethod
    def infer(cls: type[Self], data: Any, options: Mapping[str, Any]) -> Self:
        """The codec of data to learn from; ``options`` are those that were given, by name."""

    @classmethod
    def infer_telling(cls: type[Self], data: Any, options: Mapping[str, Any], tell: Callable[[int, int], None]) -> Self:
        """`infer`; where that takes long, ``tell(done, total)`` receives how far it is."""
        return cls.infer(data, options)

    @classmethod
    @abstractmethod
    def from_json(cls: type[Self], value: Any, where: str) -> Self:
        """The codec of a ``run.json``, every value of it checked."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Plain values from which `from_json` builds an equal codec."""

    @classmethod
    @abstractmethod
    def accept(cls, data: Any, where: str = "data") -> Any:
        """A data object of this kind from one, or from a Python object; others are refused."""

    @abstractmethod
    def encode(self, data: Any, *, missing: str = "refuse", unknown: str = "refuse") -> Encoded:
        """Data to states.

        Args:
            data: what `accept` takes.
            missing: blank cells: ``refuse``, ``drop`` their rows, or keep them as ``unobserved`` (value 0).
            unknown: values never seen in training: ``refuse``, or ``skip`` their rows.
        """

    @abstractmethod
    def decode(
        self,
        states: States,
        generator: torch.Generator | None = None,
        conditions: Sequence[Condition] = (),
        first: int = 0,
    ) -> Any:
        """States ``(N, D)`` to a data object of the form that came in.

        Args:
            states: of this codec's space.
            generator: draws what a value leaves open, where it stands for several cells; without it that is typical.
            conditions: that those cells are to meet.
            first: the number of the first example, where these are part of more.
        """

    @abstractmethod
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
    ) -> Any:
        """Data with their blanks filled from ``states`` ``(M, N', D)``, all else as it came.

        Args:
            data: what was encoded as ``rows``.
            rows: its states, with ``missing="unobserved"``.
            states: completed rows, M copies.
            draws: None for one copy; otherwise copies are stacked, and numbered by `DRAW`.
            generator: draws what a state leaves open.
            probs: log-probabilities of the blanks of each site ``(B, V)``, by row, for `how` to sum up.
            how: what fills a number, one of `defaults.FILLS`.
        """

    def log_sizes(self, site: int) -> Array | None:
        """Logarithm of how many equally probable cells each value of a site stands for ``(V,)``; None where all are 1.

        Where some are more probable, the entropy of which of them it is.
        """
        return None

    def histogram(self, site: int, conditions: Sequence[Condition] = ()) -> Histogram | None:
        """Ranges to look at a site by, given conditions; None where its values are looked at themselves."""
        return None

    @abstractmethod
    def natives(self, site: int) -> Sequence[Any]:
        """A site's values in order, as they stand in the data."""

    @abstractmethod
    def labels(self, site: int) -> tuple[str, ...]:
        """A site's values in order, as text."""

    @abstractmethod
    def place(self, site: int, text: str) -> int | None:
        """A site's value for a text, or None."""

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """What the data look like, as plain values for ``csm show --json``."""

    @abstractmethod
    def schema_table(self) -> tuple[str, Sequence[str], Sequence[Sequence[Any]]]:
        """The same for people: a title, column heads and rows."""

    def site_kind(self, site: int) -> str:
        """What kind of values a site has."""
        return self.kind

    def describe(self, site: int, value: int) -> str:
        """A cell in the data's own words: ``column=value``."""
        return f"{self.names[site]}={self.labels(site)[value]}"

    def notes(self) -> list[tuple[Part, ...]]:
        """What was read in one way and may have been meant in another, with the option for that."""
        return []

    def fill_notes(self) -> list[str]:
        """Which blanks are left as they are when others are filled."""
        return []

    def as_learned(self, data: Any) -> Any:
        """Filled data with texts that are a learned number or boolean as such, for JSON."""
        return data

    def warnings(self, data: Any, rows: Encoded) -> list[str]:
        """What is suspicious about data encoded with this codec."""
        return []

    def grid(self, states: States, columns: int | None = None) -> bytes | None:
        """States as one PNG image of examples side by side; None for data that cannot be looked at so."""
        return None

    def choose(self, recipe: Mapping[str, Any], training: Mapping[str, Any]) -> Choice:
        """A whole recipe: what was given, and for the rest what suits this data, with the reasons."""
        return choose(recipe, training)

    def parameters(self) -> dict[str, Any]:
        """The reading options that would infer this codec again, for the estimator of a run."""
        return {}

    def same_reading(self, other: "Codec") -> bool:
        """Whether another codec reads data in the same way."""
        return self.to_json() == other.to_json()

    def conditions(self, given: Any) -> tuple[Condition, ...]:
        """Conditions from texts such as ``age>=65``, or from a mapping of sites to values or lists of values.

        Args:
            given: ``["age>=65", "country in US,CA"]``, ``{"smoke": "yes", "country": ["US", "CA"]}``, a list of
                `Condition`, or None. Sites without names may be called by number. See `codecs.conditions` for what
                texts may say.

        Raises:
            InputError: neither, no such site, or no operator.
        """
        if given is None:
            return ()
        if isinstance(given, str) or not isinstance(given, Mapping | Sequence):
            expected = "a mapping such as {'smoke': 'yes'}, or a list of texts such as ['age>=65']"
            raise InputError(expected, type(given).__name__, Option("given"))
        if isinstance(given, Mapping):
            return tuple(self._equality(name, value) for name, value in given.items())
        return tuple(map(self._condition, given))

    def evidence(self, conditions: Sequence[Condition]) -> dict[int, Tensor]:
        """What conditions say of the sites they are on: ``log e(v)``, the logarithm of the share of a value's cells
        that meets all of them ``(size,)`` each.

        Raises:
            InputError: a value never seen, a condition that no value meets, or some that contradict each other.
        """
        found: dict[int, Tensor] = {}
        for site in dict.fromkeys(each.site for each in conditions):
            mine = [each for each in conditions if each.site == site]
            log_weights = self.log_evidence(site, mine)
            if not (log_weights > -np.inf).any():
                self._refuse_unmet(site, mine)
            found[site] = torch.from_numpy(np.asarray(log_weights, dtype=np.float64))
        return found

    def log_evidence(self, site: int, conditions: Sequence[Condition]) -> Array:
        """``log e(v)`` of one site's values under all conditions on it at once ``(size,)``."""
        place = partial(self.place, site)
        return label_evidence(conditions, self.names[site], self.natives(site), self.labels(site), place)

    def extrapolated(self, given: Any) -> list[str]:
        """Warnings of conditions, as `conditions` takes them, that leave only values beyond the training rows."""
        return []

    def given(self, conditions: Any) -> dict[int, int]:
        """Conditions that leave one value of each of their sites, as ``{site: value}``.

        Args:
            conditions: what `conditions` takes.

        Raises:
            InputError: no such site or value, or another number of values for one site.
        """
        found: dict[int, int] = {}
        for site, log_weights in self.evidence(self.conditions(conditions)).items():
            (left,) = np.nonzero(log_weights.numpy() > -np.inf)
            if len(left) > 1:
                raise InputError(f"one value for {self.names[site]!r}", f"{len(left)}", Option("given"))
            found[site] = int(left[0])
        return found

    def _equality(self, key: Any, value: Any) -> Condition:
        """A condition of a mapping."""
        site = self.site_of(key)
        if isinstance(value, str) or not isinstance(value, Iterable):
            return Condition(site, "=", (_spelled(value),), plain=not isinstance(value, str))
        values = tuple(map(_spelled, value))
        if not values:
            raise InputError(f"a value for {self.names[site]!r}", "an empty list", Option("given"))
        return Condition(site, IN, values, plain=not any(isinstance(each, str) for each in value))

    def _condition(self, text: Any) -> Condition:
        """A condition of a text."""
        if isinstance(text, Condition):
            return text
        name, sign, value = split_condition(text, self.names, self.site_noun.removesuffix("s"))
        site = self.names.index(name)
        return Condition(site, sign, split_values(value, partial(self.place, site)) if sign == IN else (value,))

    def _refuse_unmet(self, site: int, conditions: Sequence[Condition]) -> None:
        """Name the one condition, or the fewest together, that no value of a site meets."""
        for count in (1, 2, len(conditions)):
            for some in combinations(conditions, min(count, len(conditions))):
                if not (self.log_evidence(site, some) > -np.inf).any():
                    refuse_unmet(some, self.names, self.labels(site), len(some) > 1)

    def site_of(self, key: Any, where: Option = GIVEN) -> int:
        """The site of a name; of sites without names, of a number.

        Raises:
            InputError: no such site.
        """
        number = self.unnamed and isinstance(key, int | np.integer) and not isinstance(key, bool)
        if number and 0 <= key < len(self.names):
            return int(key)
        if str(key) not in self.names:
            expected = f"the name of a {self.site_noun.removesuffix('s')}"
            raise InputError(expected, repr(key), where, nearest(str(key), self.names))
        return self.names.index(str(key))


def codec_of(kind: Any, where: str = "codec") -> type[Codec]:
    """The registered codec of a kind of data.

    Raises:
        InputError: no codec is registered under this name.
    """
    known = registry.names("codecs")
    if not isinstance(kind, str) or kind not in known:
        raise InputError("a kind of codec", repr(kind), where=f"{where}.kind", fix=nearest(str(kind), known))
    found: type[Codec] = registry.load("codecs", kind)
    return found


def codec_from_json(value: Any, where: str = "codec") -> Codec:
    """The codec of a ``run.json``.

    Raises:
        InputError: of a kind that is not known here, or not as it was written.

    >>> codec_from_json({"kind": "integers", "sizes": [2, 3]}).names
    ('x0', 'x1')
    """
    return codec_of(value.get("kind") if isinstance(value, Mapping) else None, where).from_json(value, where)


def check_kind(value: Any, kind: str, where: str) -> None:
    """Refuse plain values that are not those of a kind of codec."""
    if not isinstance(value, Mapping) or value.get("kind") != kind:
        came = repr(value.get("kind")) if isinstance(value, Mapping) else type(value).__name__
        raise InputError(repr(kind), came, where=f"{where}.kind")


def options_of(kind: Callable[..., Options], given: Mapping[str, Any], noun: str) -> Options:
    """A codec's options from those given by name; None means not given.

    Raises:
        InputError: an option that this kind of data does not have.
    """
    known = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    chosen = {name: value for name, value in given.items() if value is not None}
    for name in chosen:
        if name not in known:
            options = [part for each in known for part in (", ", Option(each))][1:]
            fix = (f"leave it out; {noun} have ", *options)
            raise InputError(f"an option of {noun}", "one of another kind of data", Option(name), fix)
    return kind(**chosen)


def is_data(value: Any) -> bool:
    """Whether a value is a data object, as formats read them, rather than one of Python's."""
    return hasattr(value, "kind") and hasattr(value, "where")


def refuse_other_kind(data: Any, expected: str) -> NoReturn:
    """Refuse a data object of another codec's kind."""
    noun = codec_of(data.kind).noun
    raise InputError(expected, noun, where=data.where, fix=f"give {expected}, or a run made of {noun}")


def check_choice(value: Any, known: Sequence[str], name: str) -> None:
    """Refuse a value that is not among those an option takes."""
    if value not in known:
        raise InputError(f"one of {', '.join(known)}", repr(value), Option(name), nearest(str(value), known))


def kept_rows(unknown: Array, blank: Array, where: str, noun: str) -> Array:
    """Positions of the rows that are neither skipped nor dropped ``(N',)``.

    Raises:
        NothingLeft: no row is left.
    """
    kept: Array = np.flatnonzero(~(unknown | blank))
    if not len(kept):
        raise NothingLeft(int(unknown.sum()), int(blank.sum()), where, noun)
    return kept


class NothingLeft(InputError):
    """All rows were skipped or dropped: so many of them for an unknown value, so many for a blank."""

    def __init__(self, unknown: int, blank: int, where: str, noun: str) -> None:
        self.unknown, self.blank = unknown, blank
        super().__init__(f"{noun} to use", f"none: {unknown} with unknown values, {blank} with blanks", where=where)


def all_observed(rows: int, sites: int) -> Tensor:
    """One flag that stands for all cells where none is blank ``(N, D)``."""
    return torch.ones((1, 1), dtype=torch.bool).expand(rows, sites)


def _spelled(value: Any) -> str:
    """A value of a condition as text; a blank is empty."""
    return "" if value is None or value != value else str(value)
