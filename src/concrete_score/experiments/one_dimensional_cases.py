"""Sixteen categories and four neighborhoods: what the paper's figures 5 and 6 share (appendix B.2).

The paper names three cycles and a complete graph and shows the cycles in pictures only; ours walk the categories in
natural order, evens then odds, and in a permutation drawn once for all.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any

import torch

from concrete_score.metrics import total_variation
from concrete_score.neighborhoods import complete, cycle
from concrete_score.neighborhoods.product import Product
from concrete_score.randomness import generator
from concrete_score.shapes import PerStateTable
from concrete_score.spaces import Space
from concrete_score.targets.pmf import Pmf

TITLES: Mapping[str, str] = {
    "natural": "cycle, natural order",
    "evens_then_odds": "cycle, evens then odds",
    "permuted": "cycle, permuted",
    "complete": "complete",
}
"""The four neighborhoods, in the order they are shown."""


def neighborhood(name: str, space: Space) -> Product:
    """One of the four, on one site.

    >>> neighborhood("evens_then_odds", Space((6,))).neighbors(torch.tensor([4])).tolist()
    [[1]]
    """
    size = space.num_states
    orders = {
        "natural": tuple(range(size)),
        "evens_then_odds": (*range(0, size, 2), *range(1, size, 2)),
        "permuted": tuple(torch.randperm(size, generator=generator(0, "order")).tolist()),
    }
    return cycle(space, orders[name]) if name in orders else complete(space)


def held_against(truth: Pmf, log_pmf: PerStateTable) -> dict[str, float | None]:
    """The expected log-likelihood of a model, how far it stays below the entropy bound, and its total variation.

    Exact, over the truth: the bound is minus its entropy, and the distance to it ``KL(truth || model)``. What is
    infinite is None.
    """
    log_q = log_pmf.double().log_softmax(0)
    expected = float((truth.probabilities * log_q).sum())
    if not isfinite(expected):
        return {"log_likelihood": None, "below_bound": None, "total_variation": None}
    return {
        "log_likelihood": expected,
        "below_bound": -truth.entropy() - expected,
        "total_variation": total_variation(log_q.exp(), truth),
    }


def probabilities(log_pmf: PerStateTable) -> list[float]:
    """A distribution for a picture, in four digits."""
    return [round(value, 4) for value in log_pmf.double().softmax(0).tolist()]


def told(found: Mapping[str, Any], hidden: tuple[str, ...] = ("probabilities", "path")) -> dict[str, Any]:
    """What belongs into the JSON: numbers, not what only pictures need."""
    return {key: value for key, value in found.items() if key not in hidden}
