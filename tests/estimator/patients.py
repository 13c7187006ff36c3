"""The tables that the estimator's tests learn, and ``csm`` beside it."""

import numpy as np
import polars as pl
import pytest

from concrete_score.cli.main import main

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
