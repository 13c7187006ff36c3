"""The training figures run at small size; bounds are judged by ``csm bench``, not here."""

import pytest

from concrete_score.bench import training


@pytest.mark.parametrize("figure", [training.step_of_mlp, training.step_of_table, training.step_of_made])
def test_step_figures_at_small_size(figure):
    check = figure(steps=2)
    assert check.value > 0
    assert check.bound == training.BOUND


def test_checkpoint_figure_at_small_size():
    check = training.checkpoint_share(sites=4, hidden=3)
    assert 0 < check.value < 1


@pytest.mark.parametrize(("figure", "bound"), [(training.train_unet, 1.05), (training.channels_last, 1.0)])
def test_unet_figures_at_small_size(figure, bound):
    check = figure(side=8, width=4, repeats=2)
    assert check.value > 0
    assert check.bound == bound
    assert "images of 8x8, width 4" in check.name
