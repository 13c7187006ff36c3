"""The images' figures run at small size; bounds are judged by ``csm bench``, not here."""

import pytest

from concrete_score.bench import FIGURES, images
from concrete_score.bench.timing import ratio_of_minima


@pytest.mark.parametrize(
    ("figure", "bound"), [(images.train_unet, 1.15), (images.annealed_mh_step, 1.2), (images.channels_last, 1.0)]
)
def test_figures_at_small_size(figure, bound):
    check = figure(side=8, width=4, repeats=2)
    assert check.value > 0
    assert check.bound == bound
    assert "pictures of 8x8, width 4" in check.name


def test_figures_are_listed():
    assert {"train_unet", "annealed_mh", "channels_last"} <= set(FIGURES)


def test_a_clock_of_ones_own_is_the_one_that_counts():
    ticks = iter(float(tick) for tick in range(1000))
    spent = {"work": 3, "yardstick": 1}

    def advance(name):
        for _ in range(spent[name]):
            next(ticks)

    ratio = ratio_of_minima(lambda: advance("work"), lambda: advance("yardstick"), 2, clock=lambda: next(ticks))
    assert ratio == 4 / 2
