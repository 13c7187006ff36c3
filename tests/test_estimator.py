"""The estimator: scikit-learn's own checks, the same engine as ``csm``, and the same kind of table out as in."""

import json
import pickle
import re
import warnings
from copy import deepcopy

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from concrete_score import runs
from concrete_score.cli.main import main
from concrete_score.errors import InputError
from concrete_score.estimator import ConcreteScoreEstimator, load
from concrete_score.fitted import Fitted
from concrete_score.models import MADE, Table
from concrete_score.objectives import MaximumLikelihood
from concrete_score.randomness import generator

SMALL = {"steps": 60, "lr": 0.02, "options": {"model.hidden": 12, "valid_every": 20}}


def clinic(rows=300, seed=0):
    """Three columns that depend on one another: text, whole numbers, booleans."""
    draws = np.random.default_rng(seed)
    smoke = draws.random(rows) < 0.4
    age = draws.integers(0, 3, rows)
    ill = draws.random(rows) < np.where(smoke, 0.7, 0.1 + 0.1 * age)
    return pl.DataFrame({"smoke": np.where(smoke, "yes", "no"), "age": 20 + 15 * age, "ill": ill})


def numbers(rows=300, seed=0):
    """The same as an array of whole numbers."""
    frame = clinic(rows, seed)
    return np.stack([(frame["smoke"] == "yes").to_numpy().astype(int), frame["age"].to_numpy(), frame["ill"]], axis=1)


def csm(capsys, *words):
    """What ``csm`` writes on standard output."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        main(words)
    assert not left.value.code
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def fitted():
    return ConcreteScoreEstimator(**SMALL).fit(clinic())


class OfNumbers(ConcreteScoreEstimator):
    """Says nothing of categories, so that scikit-learn tries it with continuous numbers."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = False
        return tags


EXEMPT = {}
"""No check is exempt; one that scikit-learn runs only with SCIPY_ARRAY_API set is skipped, by its own choice."""


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
        results = check_estimator(estimator, expected_failed_checks=EXEMPT, on_skip=None)
    others = {result["check_name"] for result in results if result["status"] != "passed"}
    assert len(results) > 35
    assert others <= {"check_array_api_input"}


def test_what_is_saved_and_loaded_is_the_same_to_the_last_bit(fitted, tmp_path):
    fitted.save(tmp_path / "run")
    again = load(tmp_path / "run")
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
    theirs = load(tmp_path / "run")
    assert theirs.codec_.sites == mine.codec_.sites
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


KINDS = {
    "integers": numbers(),
    "narrow": numbers().astype(np.int8),
    "floats": numbers().astype(float),
    "text": numbers().astype(str),
    "objects": clinic().to_numpy().astype(object),
    "polars": clinic(),
    "pandas": pd.DataFrame({name: clinic()[name].to_list() for name in clinic().columns}),
}


@pytest.mark.parametrize("X", KINDS.values(), ids=KINDS)
def test_the_kind_that_goes_in_comes_out(X):
    before = deepcopy(X)
    model = ConcreteScoreEstimator(**SMALL).fit(X)
    drawn, filled = model.sample(30), model.impute(X[:20])
    for table, rows in ((drawn, 30), (filled, 20)):
        assert type(table) is type(X)
        assert table.shape == (rows, 3)
    if isinstance(X, np.ndarray):
        assert drawn.dtype == filled.dtype or X.dtype.kind == "U"
        assert drawn.dtype.kind == X.dtype.kind
        assert (filled == X[:20]).all()
        assert set(map(tuple, drawn.tolist())) <= set(map(tuple, X.tolist()))
        assert (before == X).all()
        assert model.explain(X[:2], top=1).dtype.names == ("row", "column", "from", "to", "log_ratio")
    else:
        assert list(drawn.dtypes) == list(X.dtypes)
        assert filled.equals(X[:20])
        assert before.equals(X)
        assert type(model.explain(X[:2])) is type(X)
        assert list(model.explain(X[:2]).columns) == ["row", "column", "from", "to", "log_ratio"]
    assert np.isfinite(model.score(drawn))


def test_conditions_hold_and_the_rest_follows_the_conditional(fitted):
    drawn = fitted.sample(4000, given={"smoke": "yes", "age": 35})
    assert drawn["smoke"].unique().to_list() == ["yes"]
    assert drawn["age"].unique().to_list() == [35]
    pair = pl.DataFrame({"smoke": ["yes"] * 2, "age": [35] * 2, "ill": [False, True]})
    weights = np.exp(fitted.score_samples(pair))
    share = weights[1] / weights.sum()
    z = (drawn["ill"].mean() - share) / np.sqrt(share * (1 - share) / 4000)
    assert abs(z) < 4


def test_conditions_know_the_values_in_any_spelling_and_columns_without_names_by_number():
    model = ConcreteScoreEstimator(**SMALL).fit(numbers())
    for given in ({0: 1}, {0: 1.0}, {"x0": "1"}, {np.int64(0): np.int8(1)}):
        assert (model.sample(20, given=given)[:, 0] == 1).all()
    truth = ConcreteScoreEstimator(**SMALL).fit(clinic())
    assert truth.sample(20, given={"ill": True})["ill"].all()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"smok": "yes"}, "did you mean 'smoke'"),
        ({"smoke": "yess"}, "'smoke' seen in training, got 'yess'; did you mean 'yes'"),
        ({"smoke": None}, "a value of 'smoke' seen in training"),
        ({0: "yes"}, "the name of a column"),
        ("smoke=yes", "a mapping such as"),
    ],
)
def test_conditions_that_nothing_meets_are_refused_by_name(fitted, given, words):
    with pytest.raises(InputError, match=re.escape(words)):
        fitted.sample(2, given=given)


def test_log_ratios_are_differences_of_log_likelihoods(fitted):
    rows = clinic(5, seed=2)
    found = fitted.log_ratios(rows)
    assert found.shape == (5, 7) == (5, len(fitted.changes_))
    here = fitted.score_samples(rows)
    for k, (column, label) in enumerate(fitted.changes_):
        value = {"smoke": str, "age": int, "ill": lambda word: word == "true"}[column](label)
        changed = rows.with_columns(pl.lit(value).alias(column))
        np.testing.assert_allclose(found[:, k], fitted.score_samples(changed) - here, atol=1e-12)


def test_explained_changes_are_the_largest_ratios_in_order(fitted):
    rows = clinic(20, seed=3)
    ratios = fitted.log_ratios(rows)
    found = fitted.explain(rows, top=2)
    assert found["row"].to_list() == [row for row in range(20) for _ in range(2)]
    names = {change: k for k, change in enumerate(fitted.changes_)}
    cells = {column: [str(cell).lower() for cell in rows[column].to_list()] for column in rows.columns}
    for row, column, before, after, ratio in found.rows():
        assert ratio == pytest.approx(ratios[row, names[column, after]], abs=1e-12)
        assert cells[column][row] == before != after
    for row in range(20):
        mine = found.filter(pl.col("row") == row)["log_ratio"].to_list()
        others = sorted(ratios[row][ratios[row] != 0], reverse=True)
        assert mine == pytest.approx(others[:2], abs=1e-12)


def test_blanks_are_filled_by_the_most_probable_value_and_nothing_else_is_touched(fitted):
    rows = clinic(30, seed=4).with_columns(pl.Series("note", [f"patient {k}" for k in range(30)]))
    holed = rows.with_columns(pl.when(pl.int_range(30) % 2 == 0).then(None).otherwise(pl.col("age")).alias("age"))
    filled = fitted.impute(holed)
    assert filled.drop("age").equals(rows.drop("age"))
    assert filled["age"][1::2].to_list() == rows["age"][1::2].to_list()
    tries = [rows[::2].with_columns(pl.lit(age).alias("age")) for age in (20, 35, 50)]
    best = np.argmax([fitted.score_samples(each) for each in tries], axis=0)
    assert filled["age"][::2].to_list() == [20 + 15 * k for k in best.tolist()]


def test_drawn_copies_are_stacked_and_follow_the_conditional(fitted):
    row = pl.DataFrame({"smoke": ["yes"], "age": [20], "ill": [None]}, schema_overrides={"ill": pl.Boolean})
    copies = fitted.impute(row, draws=3000)
    assert copies.columns == ["draw", "smoke", "age", "ill"]
    assert copies["draw"].to_list() == list(range(3000))
    weights = np.exp(fitted.score_samples(row.drop("ill").join(pl.DataFrame({"ill": [False, True]}), how="cross")))
    share = weights[1] / weights.sum()
    assert abs(copies["ill"].mean() - share) < 4 * np.sqrt(share * (1 - share) / 3000)
    model = ConcreteScoreEstimator(**SMALL).fit(numbers().astype(float))
    assert model.impute(np.array([[1.0, np.nan, 0.0]]), draws=4).shape == (4, 1, 3)


def test_pandas_rows_keep_their_index_and_none_is_blank(fitted):
    rows = pd.DataFrame({"smoke": ["yes", None], "age": [20, 35], "ill": [True, False]}, index=["ann", "bob"])
    filled = fitted.impute(rows)
    assert list(filled.index) == ["ann", "bob"]
    assert filled["smoke"].notna().all()
    assert rows["smoke"].isna().sum() == 1


def test_columns_are_found_by_name_and_others_passed_over(fitted):
    rows = clinic(10, seed=5)
    shuffled = rows.select("ill", pl.lit("x").alias("note"), "age", "smoke")
    assert (fitted.score_samples(shuffled) == fitted.score_samples(rows)).all()
    with pytest.raises(InputError, match="none named 'age'"):
        fitted.score(rows.drop("age"))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert fitted.score(rows.to_numpy()) == fitted.score(rows)


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
    model = MADE(space, hidden=12, parents=parents, generator=generator(0, "weights"))
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
        with pytest.raises(InputError, match=r"exact log-likelihood.*use evaluate\(X\)"):
            method(bits)
    assert large.explain(bits[:2], top=1).shape == (2,)


def test_numbers_are_refused_in_pythons_words_and_cut_into_bins_where_asked():
    rows = clinic().with_columns(pl.Series("weight", np.random.default_rng(0).normal(70, 9, 300)))
    with pytest.raises(InputError, match=r"'weight' \(non-integer numbers\); add bins=\{'weight': 10\}"):
        ConcreteScoreEstimator(**SMALL).fit(rows)
    by_name = ConcreteScoreEstimator(**SMALL, bins={"weight": 4}).fit(rows)
    by_count = ConcreteScoreEstimator(**SMALL, bins=4).fit(rows)
    assert by_name.codec_ == by_count.codec_
    assert by_name.codec_.space.sizes == (2, 3, 2, 4)
    labels = set(by_name.codec_.sites[3].labels)
    assert set(by_name.sample(200)["weight"]) == labels
    heavy = by_name.sample(5, given={"weight": 200.0})
    assert heavy["weight"].unique().to_list() == [by_name.codec_.sites[3].labels[-1]]


def test_blanks_in_training_are_refused_dropped_or_a_category():
    rows = clinic().with_columns(pl.when(pl.int_range(300) < 5).then(None).otherwise(pl.col("smoke")).alias("smoke"))
    with pytest.raises(InputError, match=r"5 .*NaN, None and null are blank: add missing='drop' or missing='category'"):
        ConcreteScoreEstimator(**SMALL).fit(rows)
    dropped = ConcreteScoreEstimator(**SMALL, missing="drop").fit(rows)
    assert dropped.codec_.space.sizes == (2, 3, 2)
    assert dropped.score(rows[5:]) == ConcreteScoreEstimator(**SMALL).fit(rows[5:]).score(rows[5:])
    kept = ConcreteScoreEstimator(**SMALL, missing="category").fit(rows)
    assert kept.codec_.space.sizes == (3, 3, 2)
    assert kept.sample(3, given={"smoke": None})["smoke"].to_list() == [None] * 3


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
        ({"options": {"model.hidden": {1}}}, "plain numbers, texts or lists"),
        ({"bins": "many"}, "bins: expected a whole number"),
        ({"bins": {"weight": 3}}, "bins: expected the name of a column, got 'weight'"),
        ({"bins": {"age": 1}}, "2 bins or more"),
        ({"missing": "dropp"}, "missing: expected one of refuse, drop, category"),
        ({"missing": 3}, "missing: expected refuse, drop or category"),
        ({"max_categories": 2.5}, "max_categories: expected a whole number"),
        ({"valid_fraction": 1.5}, "valid_fraction: expected a share between 0 and 1"),
        ({"valid_fraction": "half"}, "valid_fraction: expected a share between 0 and 1"),
        ({"random_state": None}, "random_state: expected a whole number from 0"),
        ({"random_state": -1}, "random_state: expected a whole number from 0"),
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
    with pytest.raises(InputError, match=r"a value seen in training.*'perhaps'.*mend it$"):
        fitted.score(clinic(3).with_columns(pl.lit("perhaps").alias("smoke")))
    with pytest.raises(InputError, match="no blank cells"):
        fitted.score(clinic(3).with_columns(pl.lit(None).alias("smoke")))


def test_nothing_is_answered_before_fit_nor_after_a_fit_that_failed(tmp_path):
    model, rows = ConcreteScoreEstimator(**SMALL), clinic(5)
    with pytest.raises(InputError):
        model.fit(np.array([[0.5, 1.0], [1.5, 0.0]]))
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


def test_an_occupied_directory_is_not_overwritten_unless_forced(fitted, tmp_path):
    fitted.save(tmp_path / "run")
    before = (tmp_path / "run" / "run.json").read_bytes()
    with pytest.raises(InputError, match="one that exists"):
        fitted.save(tmp_path / "run")
    assert (tmp_path / "run" / "run.json").read_bytes() == before
    fitted.save(tmp_path / "run", force=True)
    assert (tmp_path / "run" / "run.json").read_bytes() != before
    with pytest.raises(InputError, match="a run directory"):
        load(tmp_path / "nowhere")


def test_a_pickled_estimator_answers_the_same(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    assert again.score(clinic()) == fitted.score(clinic())
    assert again.sample(9).equals(fitted.sample(9))


def test_it_goes_into_scikit_learns_searches():
    search = GridSearchCV(ConcreteScoreEstimator(**SMALL), {"steps": [1, 60]}, cv=2).fit(clinic())
    assert search.best_params_ == {"steps": 60}
    scores = cross_val_score(ConcreteScoreEstimator(**SMALL), numbers(), cv=2)
    assert np.isfinite(scores).all()
