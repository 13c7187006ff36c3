"""`ConcreteScoreImputer`: blanks filled by a model of the whole table, as a scikit-learn transformer."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from concrete_score.defaults import FILLS
from concrete_score.estimator import ConcreteScoreEstimator


class ConcreteScoreImputer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fill blank cells by their most probable value, or a number's mean, given the other cells of their row.

    Args:
        estimator: how to model the table; a `ConcreteScoreEstimator` with its defaults if None.
        fill: what fills a number or date: ``mean``, ``median`` or ``mode`` of its distribution.
        steps, minutes, random_state: of the training, where no ``estimator`` is given.

    Attributes:
        estimator_: the fitted estimator.
        n_features_in_, feature_names_in_: how many columns there were, and their names, if they had any.

    >>> import numpy as np
    >>> rows = np.array([[0, 0], [1, 1]] * 50 + [[0, np.nan]])
    >>> ConcreteScoreImputer(steps=100).fit_transform(rows)[-1].tolist()
    [0.0, 0.0]
    """

    def __init__(
        self,
        estimator: Any = None,
        fill: str = FILLS[0],
        steps: Any = None,
        minutes: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.fill = fill
        self.steps = steps
        self.minutes = minutes
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "ConcreteScoreImputer":
        """Learn a model of the rows of ``X``, blanks and all."""
        settings = {"steps": self.steps, "minutes": self.minutes, "random_state": self.random_state}
        model = ConcreteScoreEstimator(**settings) if self.estimator is None else clone(self.estimator)
        self.estimator_ = model.fit(X)
        self.n_features_in_ = model.n_features_in_
        if hasattr(model, "feature_names_in_"):
            self.feature_names_in_ = model.feature_names_in_
        return self

    def transform(self, X: Any) -> Any:
        """``X`` with its blank cells filled, in its own kind; all other cells as they were."""
        check_is_fitted(self)
        return self.estimator_.impute(X, fill=self.fill)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The columns, as they came in."""
        check_is_fitted(self)
        return np.asarray(_check_feature_names_in(self, input_features), dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
