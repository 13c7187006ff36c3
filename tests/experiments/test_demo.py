"""The demo against what is known of the Asia network by hand."""

from math import log

import polars as pl
import pytest
import torch

import concrete_score as cs
from concrete_score.experiments import demo
from concrete_score.targets import asia


@pytest.fixture(scope="module")
def found():
    return demo.run(seed=0, rows=5000, steps=1500)


def test_support_falls_into_the_two_known_pieces(found):
    assert (found.support["possible_states"], found.support["possible_pieces"]) == (128, 2)
    yes = 1 - 0.9896 * 0.945  # p(either) = 1 - p(no tub) p(no lung)
    assert found.support["possible_piece_masses"] == pytest.approx([1 - yes, yes])
    assert found.support["pieces"] >= 2
    assert sum(found.support["piece_shares"]) == pytest.approx(1)


def test_what_was_learned_is_between_the_truth_and_the_baselines(found):
    rows = {model["model"]: model for model in found.models}
    entropy = asia().joint().entropy()
    assert rows["truth"]["kl"] == pytest.approx(0, abs=1e-12)
    assert rows["truth"]["impossible_mass"] == 0
    for model in rows.values():
        assert model["log_likelihood"] == pytest.approx(-entropy - model["kl"])
    assert 0 < rows["ours"]["kl"] < rows["chow_liu"]["kl"] < rows["independent"]["kl"]


def test_conditional_shares_are_near_the_exact_ones(found):
    shares = {each["column"]: each for each in found.samples["shares"]}
    assert shares["either"] == {"column": "either", "value": "yes", "drawn": 1.0, "truth": 1.0}
    p_tub, p_lung = 0.0104, 0.055
    assert shares["tub"]["truth"] == pytest.approx(p_tub / (1 - (1 - p_tub) * (1 - p_lung)), rel=1e-3)
    assert all(abs(each["drawn"] - each["truth"]) < 0.12 for each in shares.values())


def test_nobody_fills_better_than_the_truth(found):
    filled = found.imputation
    assert filled["cells"] == 2 * demo.HELD_OUT
    assert filled["log_loss"] > filled["least_log_loss"] > 0
    assert 0.8 < filled["right"] <= filled["best_possible"] + 0.01
    example = filled["example"]
    assert example["blanked"].count(None) == 2
    assert all(a is None or a == b for a, b in zip(example["blanked"], example["filled"], strict=True))


def test_the_strangest_row_is_explained_by_exact_ratios_too(found):
    changes = found.explanation["changes"]
    ratios = [change["log_ratio"] for change in changes]
    assert ratios == sorted(ratios, reverse=True)
    # A row's exact ratio, by the published tables.
    network = asia()
    row = torch.tensor([[0, 0, 0, 0, 1, 0, 0, 0]])
    model = cs.ConcreteScoreEstimator(steps=50).fit(demo.as_table(network, network.sample(500, torch.Generator())))
    changes = demo.explanation(network, row, model)["changes"]
    exact = {change["column"]: change["exact_log_ratio"] for change in changes}
    known = {"bronc": log(0.7 * 0.9 / (0.3 * 0.2)), "dysp": log(0.8 / 0.2), "smoke": log(0.9 * 0.6 / (0.99 * 0.3))}
    assert set(exact) & set(known)
    for column in set(exact) & set(known):
        assert exact[column] == pytest.approx(known[column])


def test_the_table_and_the_run_are_left_behind(tmp_path):
    found = demo.run(seed=1, rows=500, steps=100, out=tmp_path)
    table = pl.read_csv(tmp_path / demo.CSV)
    assert (table.height, table.columns) == (500, found.preview["columns"])
    model = cs.load(tmp_path / demo.RUN)
    assert model.sample(3).columns == table.columns


def test_same_seed_same_demo_other_seed_other_rows(found):
    again = demo.run(seed=0, rows=300, steps=50)
    assert demo.run(seed=0, rows=300, steps=50) == again
    assert demo.run(seed=1, rows=300, steps=50).preview != again.preview
