"""The demo against what is known of the Asia network by hand."""

from math import isinf, log

import pytest
import torch

from concrete_score.experiments import demo
from concrete_score.targets import asia, pmf


@pytest.fixture(scope="module")
def found():
    return demo.run(seed=0)


def test_scores_of_a_row_are_products_of_the_tables():
    # A patient with nothing but bronchitis, no dyspnoea: ratios from the published conditional tables.
    network = asia()
    row = torch.tensor([0, 0, 0, 0, 1, 0, 0, 0])
    changes = {c["column"]: c for c in demo.explain(network, row)["changes"]}
    assert changes["bronc"]["log_ratio"] == pytest.approx(log(0.7 * 0.9 / (0.3 * 0.2)))
    assert changes["dysp"]["log_ratio"] == pytest.approx(log(0.8 / 0.2))
    assert changes["smoke"]["log_ratio"] == pytest.approx(log(0.9 * 0.6 / (0.99 * 0.3)))
    assert changes["smoke"]["concrete_score"] == pytest.approx(0.9 * 0.6 / (0.99 * 0.3) - 1)
    for impossible in ("tub", "lung", "either"):
        assert isinf(changes[impossible]["log_ratio"])
        assert changes[impossible]["concrete_score"] == -1.0


def test_changes_come_most_welcome_first(found):
    ratios = [change["log_ratio"] for change in found.explanation["changes"]]
    assert ratios == sorted(ratios, reverse=True)
    assert len(ratios) == 8


def test_support_falls_into_the_two_known_pieces(found):
    assert (found.support["possible_states"], found.support["possible_pieces"]) == (128, 2)
    yes = 1 - 0.9896 * 0.945  # p(either) = 1 - p(no tub) p(no lung)
    assert found.support["possible_piece_masses"] == pytest.approx([1 - yes, yes])
    assert found.support["pieces"] >= 2
    assert sum(found.support["piece_shares"]) == pytest.approx(1)


def test_models_are_ordered_as_their_freedom(found):
    rows = {model["model"]: model for model in found.models}
    entropy = asia().joint().entropy()
    assert rows["truth"]["kl"] == pytest.approx(0, abs=1e-12)
    assert rows["truth"]["impossible_mass"] == 0
    for model in rows.values():
        assert model["log_likelihood"] == pytest.approx(-entropy - model["kl"])
    assert 0 < rows["mixture"]["kl"] < rows["chow_liu"]["kl"] < rows["independent"]["kl"]


def test_recovery_is_exact(found):
    assert found.recovery["largest_error"] < 1e-14


def test_recovery_reports_its_real_error():
    truth = pmf([0.7, 0.2, 0.1])
    report = demo.recovery(truth)
    assert report["recovered"] == pytest.approx([0.7, 0.2, 0.1])
    assert report["truth"] == pytest.approx([0.7, 0.2, 0.1])


def test_same_seed_same_demo_other_seed_other_rows(found):
    assert demo.run(seed=0) == found
    assert demo.run(seed=1).preview != found.preview
