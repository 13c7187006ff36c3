"""Figure 2 with the truth's own scores in place of a trained network's: what is left is the samplers' own doing."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from concrete_score.experiments import Settings, figure2
from concrete_score.models import DensityScore
from concrete_score.neighborhoods import cycle
from concrete_score.protocols import is_raw
from concrete_score.targets import sixteen_categories
from tests.samplers.test_mh import Scores

SMALL = replace(figure2.QUICK, draws=2_000, langevin_draws=2_000)


def perfect(*_):
    truth = sixteen_categories()
    return DensityScore(truth, cycle(truth.space)), SimpleNamespace(diverged=False)


def test_true_scores_are_sampled_up_to_the_noise_of_the_draws(monkeypatch):
    monkeypatch.setattr(figure2, "learn", perfect)
    monkeypatch.setattr(figure2, "QUICK", SMALL)
    found = figure2.run(Settings(quick=True))
    assert found.ours["recovered from the scores"] < 1e-9
    # Two thousand draws of sixteen categories are 0.03 off on average, give or take 0.006.
    for value in (found.ours["mh"], found.ours["denoised"]["mala"], found.ours["exact draws, as many"]):
        assert 0.005 < value < 0.055
    assert found.ours["noisy points"]["mala"] < 0.1
    assert [check.ok for check in found.checks[2:]] == [True] * 3
    assert found.images["figure2"].startswith(b"\x89PNG")
    assert found.paper.keys() <= found.ours.keys()


def test_wrong_scores_do_not_pass():
    """Flat ratios: every category as likely as any other."""
    truth = sixteen_categories()
    flat = Scores(cycle(truth.space), torch.zeros(16, 1, dtype=torch.float64))
    sampled = figure2.sample(truth, flat, SMALL, Settings())
    ours = {
        "mh": figure2.total_variation(sampled.mh, truth),
        "denoised": {"mala": figure2.total_variation(sampled.denoised["mala"], truth)},
    }
    checks = figure2._checks(ours, SMALL, figure2.score_errors(50))
    assert [check.ok for check in checks[:2]] == [False, False]


def test_the_formulas_of_the_plane():
    errors = figure2.score_errors(500)
    assert errors["corner sum, dependent sites"] < 1e-9
    assert errors["per coordinate, independent sites"] < 1e-9
    assert errors["per coordinate, dependent sites"] > 0.3


def test_points_are_counted_in_the_right_cells():
    truth = sixteen_categories()
    lower, mass = figure2.cells(truth)
    # As many points in each cell as belong there.
    count = (mass * 100_000).round().long()
    points = (lower + 0.1).repeat_interleave(count)[:, None]
    assert figure2.noisy_distance(points, truth) < 1e-3
    assert figure2.noisy_distance(points[points[:, 0] < 15.6] + 0.25, truth) > 0.02


@pytest.mark.parametrize("enumerated", [True, False])
def test_the_network_is_the_papers(monkeypatch, enumerated):
    monkeypatch.setattr(figure2, "ROWS", 1_000)
    monkeypatch.setattr(figure2, "HELD_OUT", 100)
    size = replace(SMALL, enumerated=enumerated, iterations=8)
    model, ended = figure2.learn(sixteen_categories(), size, Settings())
    assert ended.step == 8
    assert is_raw(model)
    shapes = [tuple(weight.shape) for name, weight in model.named_parameters() if "weight" in name]
    assert sorted(shapes) == sorted([(100, 1), (100, 100), (1, 100)])


@pytest.mark.slow
def test_the_quick_version_holds():
    found = figure2.run(Settings(quick=True))
    assert all(check.ok for check in found.checks), [str(check) for check in found.checks]
