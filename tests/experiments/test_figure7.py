"""Figure 7: the integrated objective is denoising CSM's mean, and the measured gradients are real ones."""

from dataclasses import replace

import pytest
import torch

from concrete_score.experiments import Settings, figure7
from concrete_score.experiments.figure7 import NoisyToy, integrated, measure, sampled, variance
from concrete_score.experiments.full_batch import EveryEdge
from concrete_score.models import Table
from concrete_score.neighborhoods import grid
from concrete_score.noise import categorical
from concrete_score.objectives import Denoising, divergences
from concrete_score.randomness import generator
from concrete_score.spaces import Space

SMALL = replace(figure7.QUICK, bins=9, rows=2_000, steps=300, sampled_steps=30, lr=2e-2, measured=3_000)
QUICK = Settings(quick=True)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(figure7, "QUICK", SMALL)


@pytest.mark.parametrize("divergence", [divergences.csm, divergences.logistic], ids=lambda d: d.name)
def test_integrating_rows_and_noise_out_changes_a_constant_only(divergence):
    space = Space((4, 3))
    noise, around = categorical(space, 0.6), grid(space)
    pmf = torch.rand(12, generator=generator(0, "weights"), dtype=torch.float64)
    pmf = pmf / pmf.sum()
    ours = EveryEdge(divergence, around, noise.noisy_pmf(pmf, 0))
    models = [Table(space, generator(seed, "logits"), dtype=torch.float64) for seed in range(3)]
    apart = [(Denoising(divergence, noise, around).exact(m, pmf) - ours.value(m)).item() for m in models]
    assert max(apart) - min(apart) < 1e-9


def test_measured_gradients_are_those_of_autograd():
    scene = NoisyToy.of("8gaussians", 0.7, QUICK)
    space = scene.plane.space
    objective = Denoising(divergences.csm, scene.noise, grid(space))
    model = Table(space, generator(3, "logits"), dtype=torch.float64)
    mean = torch.randn(space.num_states, generator=generator(0, "direction"), dtype=torch.float64)
    squared, along = measure(scene, objective, model, mean, replace(SMALL, measured=5), QUICK)
    gen = generator(0, "gradients", 0)
    draws = objective.draw(scene.plane.truth.sample(5, gen), gen)
    for row, loss in enumerate(objective.loss(model, draws)):
        (gradient,) = torch.autograd.grad(loss, model.logits, retain_graph=True)
        torch.testing.assert_close(squared[row], gradient.square().sum())
        torch.testing.assert_close(along[row], gradient @ mean)


def test_the_sampled_gradient_is_unbiased_and_noisier_the_weaker_the_noise():
    weak, strong = (variance(QUICK, "8gaussians", weight) for weight in (0.9, 0.3))
    assert weak["z"] < 5
    assert strong["z"] < 5
    assert weak["start"]["trace"] > 3 * strong["start"]["trace"]
    assert weak["solution"]["signal"] < 1e-20
    assert weak["solution"]["noise_to_signal"] is None


def test_with_the_noise_integrated_out_the_noisy_distribution_is_found():
    found = integrated(QUICK, "8gaussians", 0.5)
    assert found["total_variation"] < 0.01
    assert found["share_of_start"] == pytest.approx(found["total_variation"] / found["start"])
    drawn = sampled(QUICK, "8gaussians", 0.5)
    assert found["total_variation"] < drawn["total_variation"] < found["start"]
    assert drawn["corruptions_seen"] == 30 * 128


def test_the_figure_and_its_checks(monkeypatch):
    monkeypatch.setattr(figure7, "QUICK", replace(SMALL, steps=2, sampled_steps=2, measured=500))
    found = figure7.run(QUICK)
    assert len(found.checks) == 3 * 2 * 4
    unlearned = [check for check in found.checks if "uniform start" in check.name]
    assert len(unlearned) == 8
    assert not any(check.ok for check in unlearned)
    assert found.images["figure7"].startswith(b"\x89PNG")
    assert not any(key.startswith("samples") for key in found.ours["2spirals"]["w = 0.9"]["sampled"])
