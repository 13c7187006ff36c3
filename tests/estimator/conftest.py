"""One fitted estimator for a whole file."""

import pytest

from concrete_score.estimator import ConcreteScoreEstimator
from tests.estimator.patients import SMALL, clinic


@pytest.fixture(scope="module")
def fitted():
    return ConcreteScoreEstimator(**SMALL).fit(clinic())
