"""Tables with numbers and blanks, small: errors that are judged, and blanks that follow their rows."""

import polars as pl
import pytest

from concrete_score.experiments import mixed
from concrete_score.experiments.result import Settings


@pytest.mark.slow
def test_sampled_rows_are_near_the_training_rows(data_dir, tmp_path):
    found = mixed.run(Settings(quick=True, store=tmp_path))
    assert [str(check) for check in found.checks if not check.ok] == []
    adult = found.ours["adult"]
    assert adult["train"]["shape"] > 0
    assert 0.4 < adult["auc"] < 0.8
    assert 0.5 < adult["usefulness"]["synthetic"] < 1
    assert "**ours**" in found.text


def test_rows_of_another_law_are_told_apart(data_dir):
    train, test = mixed.tables("adult", Settings(quick=True))
    shuffled = pl.DataFrame([column.sample(fraction=1, shuffle=True, seed=at) for at, column in enumerate(train.table)])
    found = mixed.judged("adult", train.table, shuffled, test.table, Settings())
    assert found["train"]["shape"] == 0  # each column alone is as it was
    assert found["train"]["trend"] > 5
    assert found["auc"] > 0.8
