"""Figure 6: what is trained under noise is denoising CSM, lowering the noise repairs, and checks can fail."""

from dataclasses import replace

import pytest
import torch

from concrete_score.experiments import Settings, figure6
from concrete_score.experiments.figure5 import TITLES, neighborhood
from concrete_score.experiments.figure6 import inverted
from concrete_score.experiments.full_batch import EveryEdge
from concrete_score.models import Table
from concrete_score.noise import categorical
from concrete_score.objectives import Denoising, divergences
from concrete_score.randomness import generator
from concrete_score.spaces import Space

TINY = replace(figure6.QUICK, steps=100, lr=5e-2, level_steps=5)


@pytest.mark.parametrize("divergence", [divergences.csm, divergences.logistic], ids=lambda d: d.name)
@pytest.mark.parametrize("name", ["permuted", "complete"])
def test_integrating_the_noise_out_changes_a_constant_only(divergence, name):
    space = Space((5,))
    around, noise = neighborhood(name, space), categorical(space, (0.8,))
    pmf = torch.tensor([0.5, 0.0, 0.2, 0.3, 0.0], dtype=torch.float64)
    ours, sampled = EveryEdge(divergence, around, noise.noisy_pmf(pmf, 0)), Denoising(divergence, noise, around)
    models = [Table(space, generator(seed, "logits"), dtype=torch.float64) for seed in range(4)]
    apart = [(sampled.exact(model, pmf) - ours.value(model)).item() for model in models]
    assert max(apart) - min(apart) < 1e-9


def test_lowering_the_noise_repairs_what_the_lowest_alone_does_not():
    settings = Settings(quick=True)
    lowered, alone = (figure6.anneal(settings, "natural", way) for way in ("csm_annealed", "csm_lowest"))
    assert lowered["steps"] == alone["steps"]
    assert lowered["cost_of_noise"] < lowered["below_bound"] < 0.05
    assert alone["below_bound"] > 0.3
    assert lowered["clean_total_variation"] < 0.1 < alone["clean_total_variation"]


def test_noise_is_inverted_exactly():
    noise = categorical(Space((4,)), (0.9,))
    p = torch.tensor([0.7, 0.3, 0.0, 0.0], dtype=torch.float64)
    clean, clipped = inverted(noise.noisy_pmf(p, 0), noise)
    torch.testing.assert_close(clean, p, rtol=0, atol=1e-12)
    assert clipped < 1e-12
    clean, clipped = inverted(torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64), noise)
    assert clean.tolist() == [1.0, 0.0, 0.0, 0.0]
    assert clipped == pytest.approx(3 * (0.1 / 3) / (0.9 - 0.1 / 3))


def test_on_few_draws_a_cycle_fails_and_the_complete_graph_does_not():
    settings = Settings(quick=True)
    ring, full = (figure6.learn(settings, name, figure6.ROWS[0], "uniform") for name in ("natural", "complete"))
    assert ring["below_bound"] > 0.5
    assert ring["ended"] == "diverged"
    assert ring["kept"]["below_bound"] < ring["below_bound"]
    assert full["below_bound"] < figure6.TOLERANCE
    assert ring["empty"] > 0


@pytest.mark.slow
def test_the_figure_and_its_checks(monkeypatch):
    monkeypatch.setattr(figure6, "QUICK", TINY)
    monkeypatch.setattr(figure6, "ROWS", (1_000, 2_000))
    monkeypatch.setattr(figure6, "HELD_OUT", 500)
    found = figure6.run(Settings(quick=True))
    assert set(found.images) == {"figure6", "figure6-ways"}
    assert all(data.startswith(b"\x89PNG") for data in found.images.values())
    assert found.ours["natural-1000-uniform"]["fails"]
    assert "cycle, evens then odds" in found.text


def test_a_figure_where_nothing_fails_or_nothing_is_repaired_is_caught():
    good, bad = {"below_bound": 0.001}, {"below_bound": None}

    def ours(written, repaired):
        keys = [f"{figure6.ROWS[0]}-{start}" for start in figure6.STARTS]
        tables = {f"{name}-{key}": written for name in TITLES for key in keys}
        return tables | {f"{name}-{way}": repaired for name in TITLES for way in figure6.WAYS}

    assert [check.ok for check in figure6.checks_of(ours(good, good), Settings())] == [False] * 3 + [True] * 2
    unrepaired = figure6.checks_of(ours({"below_bound": 1.0}, {"below_bound": 0.9}), Settings())
    assert [check.ok for check in unrepaired] == [True] * 3 + [False, True] + [False] * 16
    assert not any(check.ok for check in figure6.checks_of(ours({"below_bound": 1.0}, bad), Settings())[5:])
