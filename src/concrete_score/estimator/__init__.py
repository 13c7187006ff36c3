"""The estimator: the whole library for one table, in scikit-learn's manners."""

from concrete_score.estimator.estimator import ConcreteScoreEstimator as ConcreteScoreEstimator
from concrete_score.estimator.estimator import load as load
