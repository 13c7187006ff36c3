"""What a comparison says: plain sentences with their errors, and the same as values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from concrete_score.comparison.tables import Tables
from concrete_score.data.frame import Array
from concrete_score.errors import Text

LEVEL = 0.01
"""How often an honest table may be flagged for its privacy by chance, over all tests together."""
_ROUNDING = 1e-12
"""A share that no table has rows enough for."""
Update = Callable[..., None]


class Finding(NamedTuple):
    """One plain sentence; ``flagged`` is None where nothing is judged."""

    part: str
    text: Text
    flagged: bool | None = None


@dataclass(frozen=True)
class Part:
    """One part of a comparison: values under stable keys, and what they say."""

    values: Mapping[str, Any]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, eq=False)
class Task:
    """What is compared, and what is asked.

    Args:
        tables: real, synthetic and perhaps held-out rows.
        target: the column that rows are to predict.
        scores: log-likelihoods under the model that made the synthetic table, of real and of held-out rows.
        seed: names all randomness.
        update: receives progress.
    """

    tables: Tables
    target: str | None = None
    scores: tuple[Array, Array] | None = None
    seed: int = 0
    update: Update = field(default=lambda done, total, text="", note=False: None)

    def report(self, done: int, total: int, work: str) -> None:
        """Say how much of some work is done."""
        self.update(done, total, f"{work}: {100 * done // max(1, total)} %")

    def random(self, stream: str) -> np.random.Generator:
        """The randomness of one use: the same for the same seed, unrelated to any other."""
        return np.random.default_rng([self.seed, *stream.encode()])

    def draw(self, table: int, most: int, stream: str) -> Array:
        """Places of at most so many rows of a table, drawn without replacement, ascending."""
        rows = self.tables.rows[table]
        if rows <= most:
            return np.arange(rows)
        return np.sort(self.random(stream).choice(rows, most, replace=False))


def percent(share: float, digits: int = 2) -> str:
    """A share as a percentage; small ones keep two digits, what is an error of rounding is none.

    >>> percent(0.0123), percent(0.5), percent(0.00001234), percent(-1e-16)
    ('1.23 %', '50.00 %', '0.0012 %', '0.00 %')
    """
    if not isfinite(share):
        return "unknown"
    share = share if abs(share) > _ROUNDING else 0.0
    small = share != 0 and abs(share) < 0.5 * 10 ** -(2 + digits)
    return f"{100 * share:.2g} %" if small else f"{100 * share:.{digits}f} %"


def probability(value: float) -> str:
    """A p-value.

    >>> probability(0.0312), probability(1e-20)
    ('p = 0.031', 'p < 1e-6')
    """
    return "p < 1e-6" if value < 1e-6 else f"p = {value:.2g}"


def listed(texts: list[str]) -> str:
    """Texts in a row: commas, and one 'and'.

    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
