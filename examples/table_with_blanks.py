"""A table with a fifth of its cells blank: learn it as it is, fill it, and hold the filling against what was hidden."""

import numpy as np
import polars as pl
import torch

import concrete_score as cs
from concrete_score.targets import asia


def main(steps: int = 2000, rows: int = 2000) -> dict[str, float]:
    """The share of hidden cells that the model and the most frequent value of each column get right."""
    network = asia()  # the chest clinic, whose distribution is known
    states = network.sample(rows, torch.Generator().manual_seed(0)).numpy()
    whole = pl.DataFrame({name: np.array(["no", "yes"])[states[:, d]] for d, name in enumerate(network.names)})

    hidden = np.random.default_rng(0).random(states.shape) < 0.2
    holes = whole.with_columns(
        pl.Series(name, [None if gone else cell for cell, gone in zip(whole[name], hidden[:, d], strict=True)])
        for d, name in enumerate(whole.columns)
    )

    model = cs.ConcreteScoreEstimator(steps=steps).fit(holes)  # blanks count as not observed
    filled = model.impute(holes)
    usual = whole.select(pl.all().mode().first())
    right, guessed = (
        np.array([(table[name] == whole[name]).to_numpy() for name in whole.columns]).T[hidden].mean()
        for table in (filled, pl.concat([usual] * rows))
    )
    draws = model.sample(1000, given={"smoke": "yes"})
    return {
        "filled right": float(right),
        "most frequent value right": float(guessed),
        "lung cancer given smoking": float((draws["lung"] == "yes").mean()),
        "the same in the table": float((whole.filter(pl.col("smoke") == "yes")["lung"] == "yes").mean()),
    }


if __name__ == "__main__":
    for name, value in main().items():
        print(f"{name:28}{value:.3f}")
