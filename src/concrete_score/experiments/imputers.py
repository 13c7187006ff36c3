"""Ways to fill the blanks of a table of numbers, some of which stand for categories: ours has these for rivals.

Each takes the table ``(N, D)`` with NaN for blanks and whether a column is a category ``(D,)``, and gives it back
without blanks; what fills a category is a code.
"""

import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec

import numpy as np
import polars as pl

from concrete_score.data.frame import Array

ROUNDS = 10
"""Of `IterativeImputer`."""
ITERATIONS = 5
"""Of miceforest, as its documentation counts them."""

Imputer = Callable[[Array, Array, int], Array]
"""From the table, which columns are categories, and a seed."""


def boosting(x: Array, categorical: Array, seed: int) -> Array:
    """One `HistGradientBoosting` a column, from all others; it reads blanks natively."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    filled = x.copy()
    for d in range(x.shape[1]):
        others = np.arange(x.shape[1]) != d
        known = ~np.isnan(x[:, d])
        values, counts = np.unique(x[known, d], return_counts=True)
        if len(values) == 1 or known.all():
            filled[:, d] = np.where(known, x[:, d], values[0])
            continue
        # Early stopping holds out rows of every class, which a class of one row does not allow.
        taught = known & ~np.isin(x[:, d], values[counts < 2]) if categorical[d] else known
        kind = HistGradientBoostingClassifier if categorical[d] else HistGradientBoostingRegressor
        model = kind(categorical_features=categorical[others], random_state=seed)
        model.fit(x[taught][:, others], x[taught, d])
        filled[~known, d] = model.predict(x[~known][:, others])
    return filled


def knn(x: Array, categorical: Array, seed: int) -> Array:
    """scikit-learn's `KNNImputer`, five neighbors, on standardized columns; categories are the nearest code."""
    from sklearn.impute import KNNImputer

    middle, scale = np.nanmean(x, 0), np.nanstd(x, 0)
    scale = np.where(scale > 0, scale, 1.0)
    return _rounded(KNNImputer().fit_transform((x - middle) / scale) * scale + middle, categorical)


def iterative(x: Array, categorical: Array, seed: int) -> Array:
    """`IterativeImputer` over `HistGradientBoostingRegressor`, ten rounds; categories are the nearest code."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401 - makes the next import possible
    from sklearn.impute import IterativeImputer

    model = HistGradientBoostingRegressor(random_state=seed)
    imputer = IterativeImputer(model, max_iter=ROUNDS, tol=0.0, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without a tolerance all rounds are done, and it says so
        return _rounded(imputer.fit_transform(x), categorical)


def miceforest(x: Array, categorical: Array, seed: int) -> Array:
    """miceforest with its defaults: LightGBM, mean matching; columns of one value are left to themselves."""
    import miceforest
    import pandas as pd

    lows, highs = np.nanmin(x, 0), np.nanmax(x, 0)
    varied = np.flatnonzero(lows < highs)
    columns = {
        f"c{d}": pd.Series(x[:, d]).astype("Int64").astype("category") if categorical[d] else pd.Series(x[:, d])
        for d in varied
    }
    kernel = miceforest.ImputationKernel(pd.DataFrame(columns), random_state=seed)
    kernel.mice(ITERATIONS)
    found = kernel.complete_data(0)
    filled = np.where(np.isnan(x), lows, x)
    for d in varied:
        filled[:, d] = found[f"c{d}"].astype(float).to_numpy()
    return filled


RIVALS: Mapping[str, Imputer] = {"boosting": boosting, "knn": knn, "iterative": iterative, "miceforest": miceforest}


def installed(name: str) -> bool:
    """Whether what a rival is made of is here: only miceforest comes with nothing else.

    >>> installed("knn")
    True
    """
    return name != "miceforest" or (find_spec("miceforest") is not None and find_spec("pandas") is not None)


def codes_of(column: pl.Series, values: list[str]) -> Array:
    """Cells of a category by their place among its values, NaN where blank ``(N,)``.

    >>> codes_of(pl.Series(["b", None, "a"]), ["a", "b"]).tolist()
    [1.0, nan, 0.0]
    """
    place = {value: float(at) for at, value in enumerate(values)}
    return np.array([np.nan if each is None else place[each] for each in column.to_list()])


def _rounded(filled: Array, categorical: Array) -> Array:
    found: Array = np.where(categorical, np.rint(filled), filled)
    return found
