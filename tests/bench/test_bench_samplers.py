"""The samplers' figures run at small size; bounds are judged by ``csm bench``, not here."""

import pytest
import torch

from concrete_score.bench import samplers


@pytest.mark.parametrize("figure", [samplers.mh_step, samplers.informed_step])
def test_step_figures_at_small_size(figure):
    check = figure(sites=6, hidden=8, chains=4, repeats=2)
    assert check.value > 0
    assert check.bound == 1.2
    assert "8-unit network on 6 bits" in check.name


def test_the_annealed_step_at_small_size():
    check = samplers.annealed_mh_step(side=8, width=4, chains=4, repeats=2)
    assert check.value > 0
    assert check.bound == 1.2
    assert "images of 8x8, width 4" in check.name


def test_the_gain_is_taken_once_for_both_figures():
    samplers._gain.cache_clear()
    size = {"side": 6, "chains": 32, "mh_steps": 800, "steps": 200}
    per_step, per_second = samplers.ess_per_step(**size), samplers.ess_per_second(**size)
    assert samplers._gain.cache_info().misses == 1
    assert (per_step.bound, per_second.bound) == (30.0, 5.0)
    assert per_second.value > 0
    assert per_step.value > 1  # a step of many sites is worth several of a single one even on 36 spins


def test_two_standard_errors_are_taken_off():
    sure, unsure = torch.full((8,), 2.0), torch.tensor([1.0, 3.0] * 4)
    assert samplers._ratio(sure, sure / 4) == 4
    error = unsure.std().item() / 2 / 8**0.5
    assert samplers._ratio(unsure, sure) == pytest.approx(1 - 2 * error)
