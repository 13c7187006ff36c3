"""One measured value beside its bound, for benchmarks and experiments alike, and how a ratio of times is measured."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

Work = Callable[[], object]
Clock = Callable[[], float]

Measured = float | int | bool | None


@dataclass(frozen=True)
class Check:
    """A named value, the bound it must keep, and whether it does; a value that is not a number never does.

    ``relation`` is how value and bound are compared, for reading; it is not part of the JSON.

    >>> Check.at_most("total variation", 0.02, 0.05).to_json()
    {'name': 'total variation', 'value': 0.02, 'bound': 0.05, 'ok': True}
    >>> print(Check.within("slope", 1.3, 0.9, 1.1))
    slope: 1.3 not within 0.9 to 1.1
    """

    name: str
    value: Measured
    bound: Measured | tuple[float, float]
    ok: bool
    relation: str = "="

    @classmethod
    def at_most(cls, name: str, value: float, bound: float) -> "Check":
        return cls(name, value, bound, bool(value <= bound), "<=")

    @classmethod
    def at_least(cls, name: str, value: float, bound: float) -> "Check":
        return cls(name, value, bound, bool(value >= bound), ">=")

    @classmethod
    def within(cls, name: str, value: float, low: float, high: float) -> "Check":
        """``low <= value <= high``."""
        return cls(name, value, (low, high), bool(low <= value <= high), "within")

    @classmethod
    def equal(cls, name: str, value: Measured, bound: Measured) -> "Check":
        """``value == bound``: counts and truths."""
        return cls(name, value, bound, value == bound, "=")

    @property
    def value_text(self) -> str:
        """The value as it is printed."""
        return _text(self.value)

    @property
    def bound_text(self) -> str:
        """The bound as it is printed, with its relation."""
        if isinstance(self.bound, tuple):
            return f"{self.relation} {_text(self.bound[0])} to {_text(self.bound[1])}"
        return f"{self.relation} {_text(self.bound)}"

    def __str__(self) -> str:
        return f"{self.name}: {self.value_text}{'' if self.ok else ' not'} {self.bound_text}"

    def to_json(self) -> dict[str, Any]:
        """``{name, value, bound, ok}``; a bound of two ends is a list."""
        bound = list(self.bound) if isinstance(self.bound, tuple) else self.bound
        return {"name": self.name, "value": self.value, "bound": bound, "ok": self.ok}


def ratio_of_minima(work: Work, yardstick: Work, repeats: int = 5, clock: Clock | None = None) -> float:
    """``min time(work) / min time(yardstick)`` over repeats that take turns, after one unmeasured turn of each.

    Both are timed in one run, so that a slow or busy machine slows both alike.
    Disturbances only ever add time, so the shortest of several runs is the one least disturbed. Work so long that a
    busy machine interrupts it nearly always is better timed by ``clock=process_time``.

    >>> from time import sleep
    >>> ratio_of_minima(lambda: sleep(0.02), lambda: sleep(0.001), repeats=2) > 2
    True
    """
    clock = clock or perf_counter
    work(), yardstick()
    turns = [(_seconds(work, clock), _seconds(yardstick, clock)) for _ in range(repeats)]
    return min(turn[0] for turn in turns) / min(turn[1] for turn in turns)


def _text(value: Measured) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _seconds(work: Work, clock: Clock) -> float:
    start = clock()
    # The result is let go inside the measured time for both alike.
    work()
    return clock() - start
