"""Draws, conditions, ratios, changes and filled blanks; the kind of table that goes in comes out."""

import re
from copy import deepcopy

import numpy as np
import pandas as pd
import polars as pl
import pytest

from concrete_score import load
from concrete_score.errors import InputError
from concrete_score.estimator import ConcreteScoreEstimator
from tests.estimator.patients import SMALL, clinic, numbers

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


def test_conditions_may_be_comparisons_and_have_a_probability(fitted):
    drawn = fitted.sample(500, given=["age>20", "age<=50", "smoke!=no"])
    assert drawn["age"].is_between(21, 50).all()
    assert (drawn["smoke"] == "yes").all()
    every = fitted.codec_.decode(fitted.codec_.space.enumerate()).native()
    chance = np.exp(fitted.score_samples(every))
    for given, met in (
        ({"age": [20, 35]}, every["age"].is_in([20, 35])),
        (["age>=35", "smoke=yes"], (every["age"] >= 35) & (every["smoke"] == "yes")),
    ):
        found = fitted.probability(given)
        assert found.value == pytest.approx(chance[met.to_numpy()].sum(), abs=1e-9)
        assert found.stderr == 0


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


def test_a_loaded_model_keeps_the_index_of_pandas_rows_and_counts_draws(fitted, tmp_path):
    fitted.save(tmp_path / "run")
    model = load(tmp_path / "run")
    rows = pd.DataFrame({"smoke": ["yes", None], "age": [20, 35], "ill": [True, False]}, index=["ann", "bob"])
    assert list(model.impute(rows).index) == ["ann", "bob"]
    for each in (model, fitted):
        with pytest.raises(InputError, match="draws: expected a whole number of at least 1"):
            each.impute(rows, 0)
        with pytest.raises(InputError, match=r"given: expected a mapping"):
            each.sample(2, given="smoke=yes")
        assert each.sample(2, given=["smoke=yes"])["smoke"].to_list() == ["yes"] * 2


def test_rows_with_blanks_count_by_what_is_there_unless_blanks_were_refused(fitted):
    rows = pl.DataFrame({"smoke": [None], "age": [20], "ill": [True]})
    both = [pl.DataFrame({"smoke": [smoke], "age": [20], "ill": [True]}) for smoke in ("no", "yes")]
    assert fitted.score(rows) == pytest.approx(np.logaddexp(*(fitted.score(each) for each in both)))
    strict = ConcreteScoreEstimator(steps=5, missing="refuse").fit(clinic())
    with pytest.raises(InputError, match=re.escape("; drop those rows, or fill them first with impute()")):
        strict.score(rows)
