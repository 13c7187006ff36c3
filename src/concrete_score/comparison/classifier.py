"""Rows as features of gradient-boosted trees, and areas under the ROC curve with their errors."""

from typing import Any

import numpy as np

from concrete_score.comparison.tables import Column
from concrete_score.data.frame import Array

CATEGORIES = 254
"""The most values of one feature; rarer ones are pooled."""
TREES, MOST_TREES = 100, 500
"""How many trees are grown; and at most, where growing ends once a tenth of the rows gains nothing from it."""


def features(columns: tuple[Column, ...], rows: list[tuple[int, Array]]) -> Array:
    """Chosen rows of chosen tables below one another ``(N, D)``: numbers, or places of categories; NaN where blank.

    Categories beyond `CATEGORIES` are pooled by their frequency among all rows of the first table named.
    """
    found = [np.concatenate([_feature(column, table)[at] for table, at in rows]) for column in columns]
    return np.stack(found, axis=1)


def _feature(column: Column, table: int) -> Array:
    cells = column.cells[table]
    if column.ordered:
        return cells
    size = len(column.labels)
    codes = np.arange(size + 1, dtype=float)
    if size > CATEGORIES:
        counts = sum(np.bincount(part, minlength=size + 1)[:size] for part in column.cells)
        codes[np.argsort(-np.asarray(counts), kind="stable")] = np.minimum(np.arange(size), CATEGORIES - 1)
    codes[size] = np.nan
    return codes[cells]


def trees(
    columns: tuple[Column, ...], random: np.random.Generator, *, regression: bool = False, stop: bool = False
) -> Any:
    """Gradient-boosted trees, untrained, that know categories; with ``stop`` they end growing by themselves."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
    mask = [not column.ordered for column in columns]
    seed = int(random.integers(2**31))
    rounds = MOST_TREES if stop else TREES
    return kind(max_iter=rounds, early_stopping=stop, categorical_features=mask, random_state=seed)


def auc(positive: Array, negative: Array) -> tuple[float, float]:
    """The probability that a positive's score exceeds a negative's, ties half, and DeLong's standard error of it.

    >>> auc(np.array([3.0, 2.0]), np.array([1.0, 2.0]))
    (0.875, 0.1767766952966369)
    """
    above, below = _placements(positive, negative), 1 - _placements(negative, positive)
    variance = sum(float(np.var(part, ddof=1)) / len(part) for part in (above, below) if len(part) > 1)
    return float(above.mean()), float(np.sqrt(variance))


def _placements(scores: Array, others: Array) -> Array:
    """Of each score the share of the others below it, ties half ``(N,)``."""
    others = np.sort(others)
    return (np.searchsorted(others, scores, "left") + np.searchsorted(others, scores, "right")) / (2 * len(others))
