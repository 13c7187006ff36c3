"""Scikit-learn's own checks, its words and warnings, its searches, and pickling."""

import pickle
import re
import warnings

import numpy as np
import polars as pl
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from concrete_score.errors import InputError
from concrete_score.estimator import ConcreteScoreEstimator
from concrete_score.objectives import MaximumLikelihood
from tests.estimator.patients import SMALL, clinic, numbers


class OfNumbers(ConcreteScoreEstimator):
    """Says nothing of categories, so that scikit-learn tries it with continuous numbers."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = False
        return tags


@pytest.mark.parametrize(
    "estimator",
    [
        ConcreteScoreEstimator(steps=3),
        OfNumbers(steps=3, bins=5),
        ConcreteScoreEstimator(steps=3, bins=5, missing="category"),
        ConcreteScoreEstimator(steps=3, model="table", objective="csm", edges="all", neighborhood="hamming"),
    ],
    ids=["categories", "numbers", "blanks", "ratios"],
)
def test_scikit_learns_own_checks_pass_without_exemption(estimator):
    with warnings.catch_warnings():
        # Three steps on noise need not improve on nothing; the warning is tested below.
        warnings.simplefilter("ignore", ConvergenceWarning)
        results = check_estimator(estimator, on_skip=None)
    others = {result["check_name"] for result in results if result["status"] != "passed"}
    assert len(results) > 35
    assert others <= {"check_array_api_input"}  # scikit-learn runs it only with SCIPY_ARRAY_API set


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"model": "mad"}, "did you mean 'made'"),
        ({"model": 3}, "model: expected a registered name, the model itself"),
        ({"objective": 3}, "objective: expected a registered name, the objective itself"),
        ({"objective": lambda space: 3}, "a function that makes the objective, got one that makes int"),
        ({"edges": 3}, "edges: expected a registered name"),
        ({"objective": MaximumLikelihood, "edges": "paired"}, "no edges beside an objective"),
        ({"steps": "many"}, "steps: expected a whole number"),
        ({"steps": 0}, "steps: expected a number of at least 1"),
        ({"options": {"model.hiden": 3}}, "did you mean 'hidden'"),
        ({"options": {"patiense": 3}}, "options: expected the name of a setting"),
        ({"options": 3}, "a mapping such as"),
        ({"options": {"model.hidden": {1}}}, "options: expected plain numbers, texts or lists"),
        ({"bins": "many"}, "bins: expected a whole number"),
        ({"bins": {"weight": 3}}, "bins: expected the name of a column, got 'weight'"),
        ({"bins": {"age": 1}}, "2 bins or more"),
        ({"missing": "dropp"}, "missing: expected one of unobserved, drop, category, refuse"),
        ({"missing": 3}, "missing: expected one of unobserved, drop, category, refuse"),
        ({"max_categories": 2.5}, "max_categories: expected a whole number"),
        ({"missing": None}, "missing: expected a value, got None"),
        ({"valid_fraction": None}, "valid_fraction: expected a value, got None"),
        ({"options": {3: 1}}, "options: expected the name of a setting, got '3'"),
        ({"columns": 5}, "columns: expected a list of texts"),
        ({"valid_fraction": 1.5}, "valid_fraction: expected a share between 0 and 1"),
        ({"valid_fraction": "half"}, "valid_fraction: expected a share between 0 and 1"),
        ({"random_state": None}, "random_state: expected a whole number of at least 0"),
        ({"random_state": -1}, "random_state: expected a whole number of at least 0"),
    ],
)
def test_parameters_are_judged_in_fit_by_name(parameters, words):
    with pytest.raises(InputError, match=re.escape(words)):
        ConcreteScoreEstimator(**{"steps": 5, **parameters}).fit(clinic())


def test_tables_that_are_none_are_refused_in_scikit_learns_words(fitted):
    for X, kind, words in (
        (numbers()[:, 0], ValueError, "Reshape your data"),
        (sparse.csr_array(numbers()), TypeError, "Sparse data was passed"),
        (np.full((3, 2), 1j), ValueError, "Complex data not supported"),
        (numbers()[:, :1], ValueError, r"1 feature\(s\)"),
        (numbers()[:1], ValueError, r"1 sample\(s\)"),
        (np.array([[1.0, np.inf], [0.0, 1.0]]), ValueError, "infinity"),
    ):
        with pytest.raises(kind, match=words):
            ConcreteScoreEstimator(**SMALL).fit(X)
    with pytest.raises(ValueError, match="X has 2 features, but ConcreteScoreEstimator is expecting 3 features"):
        ConcreteScoreEstimator(**SMALL).fit(numbers()).score(numbers()[:, :2])
    strict = ConcreteScoreEstimator(**SMALL, unknown="refuse", missing="refuse").fit(clinic())
    with pytest.raises(InputError, match=r"a value seen in training.*'perhaps'.*correct it, or pass unknown='skip'$"):
        strict.score(clinic(3).with_columns(pl.lit("perhaps").alias("smoke")))
    with pytest.raises(InputError, match="no blank cells"):
        strict.score(clinic(3).with_columns(pl.lit(None).alias("smoke")))


def test_nothing_is_answered_before_fit_nor_after_a_fit_that_failed(tmp_path):
    model, rows = ConcreteScoreEstimator(**SMALL), clinic(5)
    with pytest.raises(InputError):
        model.fit(np.array([[1.0, 1.0], [1.0, 1.0]]))
    for ask in (model.sample, lambda: model.score(rows), lambda: model.explain(rows), lambda: model.save(tmp_path)):
        with pytest.raises(NotFittedError):
            ask()


def test_a_training_that_improves_nothing_warns():
    class Idle:
        """A loss without a slope."""

        def draw(self, x, generator, model=None):
            return x

        def loss(self, model, draws):
            return 0 * model.log_density(draws)

        def exact(self, model, pmf):
            return 0 * model.log_density(model.space.enumerate()).sum()

    with pytest.warns(ConvergenceWarning, match="no step improved"):
        ConcreteScoreEstimator(steps=5, objective=Idle(), options={"model.order_seed": 0}).fit(clinic())


def test_a_pickled_estimator_answers_the_same(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    assert again.score(clinic()) == fitted.score(clinic())
    assert again.sample(9).equals(fitted.sample(9))


def test_it_goes_into_scikit_learns_searches():
    plain = ConcreteScoreEstimator(**{**SMALL, "options": {"model.hidden": 12, "model.order_seed": 0}})
    search = GridSearchCV(plain, {"steps": [1, 60]}, cv=2).fit(clinic())
    assert search.best_params_ == {"steps": 60}
    scores = cross_val_score(ConcreteScoreEstimator(**SMALL), numbers(), cv=2)
    assert np.isfinite(scores).all()
