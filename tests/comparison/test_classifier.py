"""Classifiers: areas under the curve with honest errors, tables told apart or not, and what rows teach."""

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import roc_auc_score

from concrete_score.comparison import compare
from concrete_score.comparison.classifier import CATEGORIES, auc, features
from concrete_score.comparison.tables import align
from concrete_score.data import as_frame
from concrete_score.errors import InputError
from tests.comparison import law


def test_the_area_is_sklearns_and_its_error_that_of_fresh_samples():
    random = np.random.default_rng(0)
    drawn = [(random.normal(0.5, 1, 60).round(1), random.normal(0, 2, 80).round(1)) for _ in range(400)]
    areas = np.array([auc(*pair) for pair in drawn])
    one, other = drawn[0]
    labels = np.repeat([1, 0], [60, 80])
    assert areas[0, 0] == pytest.approx(roc_auc_score(labels, np.append(one, other)), abs=1e-12)
    assert areas[:, 1].mean() == pytest.approx(areas[:, 0].std(), rel=4 / np.sqrt(2 * 400))


def test_halves_of_one_table_cannot_be_told_apart():
    found = [compare(*law.draws(seed, 200, 200)[:2], parts=["two_sample"], seed=seed) for seed in range(3)]
    values = [each.values()["two_sample"] for each in found]
    z = [(each["auc"] - 0.5) / each["stderr"] for each in values]
    assert abs(sum(z)) / np.sqrt(len(z)) < 3
    # Each is flagged with a probability of one in a hundred: two of three would be one in three thousand.
    assert sum(each["flagged"] for each in values) <= 1
    assert "0.5 is chance" in found[0].findings[0].text


def test_the_column_that_differs_gives_it_away():
    real, synthetic, *_ = law.draws(1, 300, 300)
    found = compare(real, synthetic.with_columns(pl.col("pay") * 2), parts=["two_sample"])
    value = found.values()["two_sample"]
    assert value["flagged"]
    assert value["auc"] > 0.6
    assert value["columns"][0]["name"] == "pay"
    assert value["columns"][0]["drop"] > 5 * value["columns"][0]["stderr"]
    assert "Most by 'pay'" in found.findings[0].text


def test_an_area_below_chance_is_a_sign_of_copies():
    real, *_ = law.draws(1, 150)
    found = compare(real, real, parts=["two_sample"])
    assert found.values()["two_sample"]["auc"] < 0.4
    assert found.findings[0].flagged
    assert found.findings[0].text.endswith("a sign of copies.")


def test_few_rows_are_not_judged():
    real, synthetic, *_ = law.draws(0, 60, 20)
    found = compare(real, synthetic, parts=["two_sample"])
    assert found.values() == {"two_sample": None}
    assert "cannot be judged" in found.findings[0].text


def test_rare_categories_share_a_feature_value():
    random = np.random.default_rng(0)
    cells = [f"v{i}" for i in random.integers(0, 400, 5000)]
    tables = align([as_frame(pl.DataFrame({"x": cells}))] * 2, kinds={"x": "category"})
    x = features(tables.columns, [(0, np.arange(5000))])[:, 0]
    assert x.min() == 0
    assert x.max() == CATEGORIES - 1
    assert (x == CATEGORIES - 1).sum() > (x == 0).sum()


@pytest.mark.parametrize(("target", "metric"), [("sex", "auc"), ("group", "accuracy"), ("age", "r2")])
def test_rows_of_the_same_law_teach_the_same(target, metric):
    found = compare(*law.draws(2, 200, 200, 200)[:3], target=target, parts=["usefulness"])
    value = found.values()["usefulness"]
    assert value["metric"] == metric
    assert value["rows"] == [200, 200, 200]
    assert value["real"] - value["synthetic"] == pytest.approx(0, abs=4 * value["stderr"] + 0.02)
    assert f"{value['synthetic']:.4f}" in found.findings[0].text


def test_rows_without_the_dependence_teach_less():
    real, synthetic, holdout, _ = law.draws(3, 500, 500, 500)
    torn = synthetic.with_columns(synthetic["sex"].sample(fraction=1, shuffle=True, seed=0))
    value = compare(real, torn, holdout, target="sex", parts=["usefulness"]).values()["usefulness"]
    assert value["real"] > 0.7
    assert value["difference"] < -3 * value["stderr"]


def test_one_class_alone_teaches_nothing():
    real, synthetic, holdout, _ = law.draws(4, 100, 100, 100)
    one = synthetic.with_columns(pl.lit("f").alias("sex"))
    assert compare(real, one, holdout, target="sex", parts=["usefulness"]).values()["usefulness"]["synthetic"] == 0.5


def test_targets_that_cannot_be():
    real, synthetic, holdout, _ = law.draws(0, 60, 60, 60)
    with pytest.raises(InputError, match="the name of a column"):
        compare(real, synthetic, holdout, target="sxe", parts=["usefulness"])
    with pytest.raises(InputError, match="held-out rows"):
        compare(real, synthetic, target="sex", parts=["usefulness"])
    tables = [table.with_columns(pl.lit("c").alias("one")) for table in (real, synthetic, holdout)]
    with pytest.raises(InputError, match="2 to 50 categories"):
        compare(*tables, target="one", parts=["usefulness"])
    with pytest.raises(InputError, match="another column"):
        compare(*(table.select("sex") for table in tables), target="sex", parts=["usefulness"])
