"""Objectives and models given as objects, score models, and tables that need a decision."""

import warnings
from copy import deepcopy

import numpy as np
import polars as pl
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from concrete_score.errors import InputError
from concrete_score.estimator import ConcreteScoreEstimator
from concrete_score.models import MADE, Table
from concrete_score.objectives import MaximumLikelihood
from concrete_score.randomness import generator
from tests.estimator.patients import SMALL, clinic


def test_an_objective_may_be_any_object_and_is_left_as_it_was(fitted, tmp_path):
    objective = MaximumLikelihood(fitted.codec_.space)
    given = ConcreteScoreEstimator(**{**SMALL, "objective": objective}).fit(clinic())
    assert given.score(clinic()) == fitted.score(clinic())
    assert given.objective is objective
    made = ConcreteScoreEstimator(**{**SMALL, "objective": lambda space: MaximumLikelihood(space)}).fit(clinic())
    assert made.score(clinic()) == fitted.score(clinic())
    with pytest.raises(InputError, match=r"registered names.*pickle the estimator"):
        given.save(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_homemade_objective_is_enough():
    class Doubled:
        """Twice the negative log-likelihood: the same minimizer."""

        def draw(self, x, generator, model=None):
            return x

        def loss(self, model, draws):
            return -2 * model.log_density(draws)

        def exact(self, model, pmf):
            return -2 * (pmf * model.log_density(model.space.enumerate())).sum()

    rows = clinic()
    found = ConcreteScoreEstimator(**SMALL, objective=Doubled()).fit(rows)
    independent = sum(
        np.log(rows[name].value_counts()["count"] / len(rows)).dot(rows[name].value_counts()["count"] / len(rows))
        for name in rows.columns
    )
    assert found.score(rows) > independent + 0.05


def test_a_model_may_be_an_object_and_is_copied(fitted):
    space = fitted.codec_.space
    parents = fitted.model_.base.parents
    smoothing = fitted.model_.base.pseudo_count
    model = MADE(space, hidden=12, parents=parents, pseudo_count=smoothing, generator=generator(0, "weights"))
    before = deepcopy(model.state_dict())
    settings = {"steps": 60, "lr": 0.02, "options": {"valid_every": 20}}
    given = ConcreteScoreEstimator(model=model, **settings).fit(clinic())
    assert given.score(clinic()) == fitted.score(clinic())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    by_ratios = ConcreteScoreEstimator(model=model, objective="logistic", **settings).fit(clinic())
    assert by_ratios.score(clinic()) > by_ratios.history_[0]["valid"]
    with pytest.raises(InputError, match=r"this table's space, sizes \(2, 3, 2\)"):
        ConcreteScoreEstimator(model=Table(type(space)((2, 2)))).fit(clinic())


def test_models_of_scores_alone_answer_too_and_large_ones_say_that_they_have_no_exact_likelihood():
    small = ConcreteScoreEstimator(model="mlp", objective="logistic", edges="all", steps=200, lr=0.01).fit(clinic())
    every = small.codec_.decode(small.codec_.space.enumerate()).native()
    assert np.exp(small.score_samples(every)).sum() == pytest.approx(1, abs=1e-9)
    bits = np.random.default_rng(0).integers(0, 2, (40, 24))
    large = ConcreteScoreEstimator(model="energy", objective="logistic", edges="paired", steps=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        large.fit(bits)
    for method in (large.score, large.score_samples):
        with pytest.raises(InputError, match=r"exact log-likelihood.*use evaluate\(\)"):
            method(bits)
    assert large.explain(bits[:2], top=1).shape == (2,)


def test_numbers_come_back_as_numbers_and_are_cut_into_bins_where_asked():
    rows = clinic().with_columns(pl.Series("weight", np.random.default_rng(0).normal(70, 9, 300)))
    plain = ConcreteScoreEstimator(**SMALL).fit(rows).sample(200)
    assert plain["weight"].dtype == pl.Float64
    assert 50 < plain["weight"].mean() < 90
    by_name = ConcreteScoreEstimator(**SMALL, bins={"weight": 4}).fit(rows)
    by_count = ConcreteScoreEstimator(**SMALL, bins=4).fit(rows)
    assert by_name.codec_ == by_count.codec_
    assert by_name.codec_.space.sizes == (2, 3, 2, 4)
    labels = set(by_name.codec_.columns[3].labels)
    assert set(by_name.sample(200)["weight"]) == labels
    heavy = by_name.sample(5, given={"weight": 200.0})
    assert heavy["weight"].unique().to_list() == [by_name.codec_.columns[3].labels[-1]]


def test_blanks_in_training_are_refused_dropped_or_a_category():
    rows = clinic().with_columns(pl.when(pl.int_range(300) < 5).then(None).otherwise(pl.col("smoke")).alias("smoke"))
    with pytest.raises(InputError, match=r"got 5 .*pass missing='drop', or pass missing='category'"):
        ConcreteScoreEstimator(**SMALL, missing="refuse").fit(rows)
    assert ConcreteScoreEstimator(**SMALL).fit(rows).codec_.space.sizes == (2, 3, 2)
    dropped = ConcreteScoreEstimator(**SMALL, missing="drop").fit(rows)
    assert dropped.codec_.space.sizes == (2, 3, 2)
    assert dropped.score(rows[5:]) == ConcreteScoreEstimator(**SMALL).fit(rows[5:]).score(rows[5:])
    kept = ConcreteScoreEstimator(**SMALL, missing="category").fit(rows)
    assert kept.codec_.space.sizes == (3, 3, 2)
    assert kept.sample(3, given={"smoke": None})["smoke"].to_list() == [None] * 3
