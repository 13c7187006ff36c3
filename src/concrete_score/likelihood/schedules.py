"""Schedules: the inverse temperatures an annealing passes through."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite

from concrete_score.errors import InputError


@dataclass(frozen=True)
class Schedule:
    """``0 = β_0 < β_1 < … < β_K = 1``, fixed before the weighted chains run.

    Args:
        betas: K + 1 rising numbers, the first 0 and the last 1.

    Raises:
        InputError: fewer than two, not rising, or other ends.

    >>> Schedule((0.0, 0.5, 1.0)).steps
    2
    """

    betas: tuple[float, ...]

    def __post_init__(self) -> None:
        betas = tuple(float(beta) for beta in self.betas)
        if len(betas) < 2 or betas[0] != 0 or betas[-1] != 1:
            ends = f"{len(betas)} of them" if len(betas) < 2 else f"{betas[0]} to {betas[-1]}"
            raise InputError("inverse temperatures from 0 to 1, at least one step", ends, where="betas")
        for k, (low, high) in enumerate(pairwise(betas)):
            if not (isfinite(high) and low < high):
                raise InputError("rising inverse temperatures", f"{low}, then {high}", where=f"betas[{k + 1}]")
        object.__setattr__(self, "betas", betas)

    @property
    def steps(self) -> int:
        """K."""
        return len(self.betas) - 1


def linear(steps: int) -> Schedule:
    """``β_k = k / K``.

    >>> linear(4).betas
    (0.0, 0.25, 0.5, 0.75, 1.0)
    """
    check_count(steps, "steps", 1)
    return Schedule(tuple(k / steps for k in range(steps + 1)))


def evenly(betas: Sequence[float], lengths: Sequence[float], steps: int, floor: float = 0.1) -> Schedule:
    """Inverse temperatures that cut a measured length into equal pieces.

    Args:
        betas: K + 1 knots of the measurement, from 0 to 1.
        lengths: what was measured between them ``(K,)``, such as the spread of log-weight increments.
        steps: of the new schedule.
        floor: the share given to evenly spaced β, so that a stretch measured as empty is still walked.

    >>> evenly((0.0, 0.5, 1.0), (3.0, 1.0), 4, floor=0.0).betas
    (0.0, 0.16666666666666666, 0.3333333333333333, 0.5, 1.0)
    """
    import numpy as np

    check_count(steps, "steps", 1)
    knots = np.asarray(betas)
    length = np.asarray(lengths)
    total = length.sum()
    share = length / total if total > 0 else np.diff(knots)
    reached = np.concatenate([[0.0], np.cumsum((1 - floor) * share + floor * np.diff(knots))])
    inner = np.interp(np.arange(1, steps) / steps, reached / reached[-1], knots)
    return Schedule((0.0, *(float(beta) for beta in inner), 1.0))


def check_count(value: int, name: str, least: int) -> None:
    """A whole number that is large enough."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"a whole number of at least {least}", repr(value), where=name)
