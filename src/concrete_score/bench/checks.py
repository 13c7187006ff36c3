"""One measured value beside its bound: what benchmarks and experiments are judged by."""

from dataclasses import dataclass
from typing import Any

Value = float | int | bool | None


@dataclass(frozen=True)
class Check:
    """A named value, the bound it must keep, and whether it does; a value that is not a number never does.

    ``relation`` says how value and bound are compared, for people; it is not part of the JSON.

    >>> Check.at_most("total variation", 0.02, 0.05).to_json()
    {'name': 'total variation', 'value': 0.02, 'bound': 0.05, 'ok': True}
    >>> print(Check.within("slope", 1.3, 0.9, 1.1))
    slope: 1.3 not within 0.9 to 1.1
    """

    name: str
    value: Value
    bound: Value | tuple[float, float]
    ok: bool
    relation: str = "="

    @classmethod
    def at_most(cls, name: str, value: float, bound: float) -> "Check":
        """``value <= bound``."""
        return cls(name, value, bound, bool(value <= bound), "<=")

    @classmethod
    def at_least(cls, name: str, value: float, bound: float) -> "Check":
        """``value >= bound``."""
        return cls(name, value, bound, bool(value >= bound), ">=")

    @classmethod
    def within(cls, name: str, value: float, low: float, high: float) -> "Check":
        """``low <= value <= high``."""
        return cls(name, value, (low, high), bool(low <= value <= high), "within")

    @classmethod
    def equal(cls, name: str, value: Value, bound: Value) -> "Check":
        """``value == bound``: counts and truths."""
        return cls(name, value, bound, value == bound, "=")

    @property
    def value_text(self) -> str:
        """The value for people."""
        return _text(self.value)

    @property
    def bound_text(self) -> str:
        """The bound for people, with its relation."""
        if isinstance(self.bound, tuple):
            return f"{self.relation} {_text(self.bound[0])} to {_text(self.bound[1])}"
        return f"{self.relation} {_text(self.bound)}"

    def __str__(self) -> str:
        return f"{self.name}: {self.value_text}{'' if self.ok else ' not'} {self.bound_text}"

    def to_json(self) -> dict[str, Any]:
        """``{name, value, bound, ok}``; a bound of two ends is a list."""
        bound = list(self.bound) if isinstance(self.bound, tuple) else self.bound
        return {"name": self.name, "value": self.value, "bound": bound, "ok": self.ok}


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
