"""Predictions of one column, and the imputer, as scikit-learn asks for them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import concrete_score as cs
from concrete_score.errors import InputError

RNG = np.random.default_rng(0)
GROUP = RNG.integers(0, 3, 400)
TABLE = pd.DataFrame({"x": np.round(GROUP * 4 + RNG.normal(size=400), 2), "g": np.array(["u", "v", "w"])[GROUP]})


def test_a_chosen_column_is_predicted_whatever_it_holds():
    words = cs.ConcreteScoreEstimator(steps=100, target="g").fit(TABLE)
    probs = words.predict_proba(TABLE[["x"]])
    assert probs.shape == (400, 3)
    assert np.allclose(probs.sum(1), 1)
    assert (words.predict(TABLE) == TABLE["g"]).mean() > 0.9
    assert (np.array(words.classes_)[probs.argmax(1)] == words.predict(TABLE[["x"]])).all()
    numbers = cs.ConcreteScoreEstimator(steps=100, target="x").fit(TABLE)
    found = numbers.predict(TABLE)
    assert np.abs(found - GROUP * 4).mean() < 0.6
    assert not hasattr(cs.ConcreteScoreEstimator(), "predict")
    with pytest.raises(InputError, match="target: expected the name of a column"):
        cs.ConcreteScoreEstimator(steps=1, target="y").fit(TABLE).predict(TABLE)


def test_the_imputer_is_a_transformer():
    holes = TABLE.copy()
    holes.loc[::4, "x"] = np.nan
    holes.loc[1::4, "g"] = None
    imputer = cs.ConcreteScoreImputer(steps=100).set_output(transform="pandas")
    filled = make_pipeline(imputer, FunctionTransformer()).fit_transform(holes)
    assert filled.columns.tolist() == ["x", "g"]
    assert not filled.isna().any().any()
    kept = holes.notna()
    assert (filled[kept["x"]]["x"] == holes[kept["x"]]["x"]).all()
    assert (filled["g"] == TABLE["g"]).mean() > 0.9
    assert np.abs(filled["x"] - TABLE["x"]).mean() < 0.6
