"""The comparison of estimators: what it refuses, how its statistics behave, and that its quick size holds."""

import pytest
import torch

from concrete_score.errors import InputError
from concrete_score.experiments import Settings, estimators, reproduce
from concrete_score.experiments.estimators import ratio_with_error, slope, z_score


@pytest.mark.slow
def test_quick_size_holds(data_dir, tmp_path):
    result = reproduce("estimators", Settings(quick=True), tmp_path)
    assert [str(check) for check in result.failed] == []
    written = {path.name for path in (tmp_path / "estimators").iterdir()}
    assert written == {"estimators.json", "estimators.md", "estimators.png"}


@pytest.mark.parametrize("folder", ["", "nowhere"])
def test_absent_data_names_the_file_and_its_place(monkeypatch, tmp_path, folder):
    monkeypatch.setenv("CONCRETE_SCORE_DATA", str(tmp_path / folder) if folder else "")
    with pytest.raises(InputError, match=r"\$CONCRETE_SCORE_DATA/twenty/plants/plants\.train\.data\.gz") as caught:
        estimators.run(Settings(quick=True))
    assert "put the file there" in caught.value.fix


def noise(n, seed=0):
    return torch.randn(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_slope_is_minus_one_half_for_independent_errors_and_flat_for_a_bias():
    assert slope(noise(2**15)) == pytest.approx(-0.5, abs=0.015)
    assert slope(noise(2**15) + 1.0) > -0.2
    repeated = noise(2**11)[:, None].expand(-1, 16).flatten()  # errors that come in sixteens do not average out
    assert slope(repeated) > -0.3


def test_bootstrap_errors_cover_the_truth_about_as_often_as_they_say():
    """Means 2 and 1 of independent exponentials: the ratio is within one error of 2 about 68 % of the time."""
    inside = 0
    for seed in range(200):
        generator = torch.Generator().manual_seed(seed)
        rows = torch.empty((2, 300), dtype=torch.float64).exponential_(generator=generator)
        found = ratio_with_error("r", 2 * rows[0], rows[1], generator)
        inside += abs(found["r"] - 2) < found["r_error"]
    assert 0.58 < inside / 200 < 0.78


def test_z_scores_of_honest_draws_are_standard_and_a_bias_is_seen():
    z = torch.tensor([z_score(noise(400, seed), 0.0) for seed in range(100)])
    assert z.std() == pytest.approx(1, abs=0.25)
    assert abs(z_score(noise(400) + 0.5, 0.0)) > 4


def test_wrong_variance_or_bias_fails_its_check():
    good = estimators.on_draws(noise(4096).reshape(64, 64), torch.ones(64, dtype=torch.float64))
    assert abs(good["bias_z"]) < 4
    assert abs(good["variance_z"]) < 4
    biased = estimators.on_draws(noise(4096).reshape(64, 64) + 0.2, torch.ones(64, dtype=torch.float64))
    assert abs(biased["bias_z"]) > 4
    wrong = estimators.on_draws(noise(4096).reshape(64, 64), torch.full((64,), 2.0, dtype=torch.float64))
    assert abs(wrong["variance_z"]) > 4
