"""The same engine as ``csm``: runs saved, loaded and opened, bit for bit."""

import json

import numpy as np
import polars as pl
import pytest
import torch
from sklearn.base import clone

from concrete_score import runs
from concrete_score.errors import InputError
from concrete_score.estimator import ConcreteScoreEstimator
from concrete_score.fitted import Fitted
from concrete_score.randomness import generator
from tests.estimator.patients import SMALL, clinic, csm


def test_what_is_saved_and_loaded_is_the_same_to_the_last_bit(fitted, tmp_path):
    fitted.save(tmp_path / "run")
    again = ConcreteScoreEstimator.load(tmp_path / "run")
    test = clinic(100, seed=1)
    assert again.score(test) == fitted.score(test)
    assert (again.score_samples(test) == fitted.score_samples(test)).all()
    assert again.sample(50).equals(fitted.sample(50))
    assert again.explain(test).equals(fitted.explain(test))
    assert (again.n_iter_, again.best_step_, again.history_) == (60, fitted.best_step_, fitted.history_)
    assert list(again.feature_names_in_) == ["smoke", "age", "ill"]
    assert runs.verify(tmp_path / "run") == ["run.json", "model.safetensors", "metrics.jsonl"]


def test_a_loaded_estimators_parameters_fit_the_same_model_again(fitted, tmp_path):
    fitted.save(tmp_path / "run")
    again = clone(ConcreteScoreEstimator.load(tmp_path / "run")).fit(clinic())
    assert again.score(clinic()) == fitted.score(clinic())


def test_the_score_is_the_exact_mean_that_evaluation_gives(fitted, tmp_path):
    fitted.save(tmp_path / "run")
    run = runs.open(tmp_path / "run")
    states = run.codec.encode(clinic(100, seed=1)).states.long()
    score = fitted.score(clinic(100, seed=1))
    found = Fitted(run.model().double(), run.space).evaluate(states, generator(0))
    assert (found.log_likelihood, found.method) == (score, "exact")
    assert Fitted(run.model(), run.space).evaluate(states, generator(0)).log_likelihood == pytest.approx(
        score, abs=1e-5
    )
    assert fitted.evaluate(clinic(100, seed=1)) == found


def test_probabilities_of_all_rows_sum_to_one(fitted):
    every = fitted.codec_.decode(fitted.codec_.space.enumerate()).native()
    assert np.exp(fitted.score_samples(every)).sum() == pytest.approx(1, abs=1e-12)


def test_it_learns_what_csm_fit_learns_bit_for_bit(tmp_path, capsys):
    clinic().write_parquet(tmp_path / "clinic.parquet")
    words = ["fit", str(tmp_path / "clinic.parquet"), "--out", str(tmp_path / "run"), "--steps", "60", "--lr", "0.02"]
    csm(capsys, *words, "--set", "model.hidden=12", "--set", "valid_every=20", "--seed", "3", "--quiet")
    mine = ConcreteScoreEstimator(**SMALL, random_state=3).fit(clinic())
    theirs = ConcreteScoreEstimator.load(tmp_path / "run")
    assert theirs.codec_.columns == mine.codec_.columns
    for name, weights in mine.model_.state_dict().items():
        assert torch.equal(weights, theirs.model_.state_dict()[name])
    assert theirs.get_params() == {**mine.get_params(), **theirs.get_params()}
    assert [line["valid"] for line in theirs.history_] == [line["valid"] for line in mine.history_]
    assert isinstance(theirs.sample(3), pl.DataFrame)


def test_csm_opens_what_is_saved(fitted, tmp_path, capsys):
    fitted.save(tmp_path / "run")
    clinic(50, seed=1).write_parquet(tmp_path / "test.parquet")
    drawn = csm(capsys, "sample", str(tmp_path / "run"), "-n", "20", "--given", "smoke=yes", "--quiet")
    assert drawn == fitted.sample(20, given={"smoke": "yes"}).write_csv()
    found = json.loads(csm(capsys, "evaluate", str(tmp_path / "run"), str(tmp_path / "test.parquet"), "--json"))
    assert found["method"] == "exact"
    assert found["log_likelihood"] == pytest.approx(fitted.score(clinic(50, seed=1)), abs=1e-5)


def test_a_given_held_out_table_decides_and_is_named_in_the_run(tmp_path):
    one = ConcreteScoreEstimator(**SMALL).fit(clinic(), valid=clinic(80, seed=1))
    one.save(tmp_path / "run")
    facts = json.loads((tmp_path / "run" / "run.json").read_text())["data"]
    assert (facts["rows"], facts["valid"]["rows"]) == (300, 80)
    last = one.history_[-1]
    assert last["best_step"] == last["step"]
    assert last["valid"] == pytest.approx(one.score(clinic(80, seed=1)), abs=1e-5)


def test_the_same_random_state_gives_the_same_and_another_gives_others(fitted):
    again = ConcreteScoreEstimator(**SMALL).fit(clinic())
    other = ConcreteScoreEstimator(**SMALL, random_state=1).fit(clinic())
    assert again.score(clinic()) == fitted.score(clinic()) != other.score(clinic())
    assert fitted.sample(40).equals(again.sample(40))
    assert fitted.sample(40).equals(fitted.sample(40))
    assert not fitted.sample(40).equals(fitted.sample(40, random_state=1))


def test_an_occupied_directory_is_not_overwritten_unless_forced(fitted, tmp_path):
    fitted.save(tmp_path / "run")
    before = (tmp_path / "run" / "run.json").read_bytes()
    with pytest.raises(InputError, match="one that exists"):
        fitted.save(tmp_path / "run")
    assert (tmp_path / "run" / "run.json").read_bytes() == before
    fitted.save(tmp_path / "run", force=True)
    assert (tmp_path / "run" / "run.json").read_bytes() != before
    with pytest.raises(InputError, match="a run directory"):
        ConcreteScoreEstimator.load(tmp_path / "nowhere")
