"""Schedules: even cuts, and a pilot that finds where the path is steep."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.likelihood import Annealing, EnumeratedAnnealing, Geometric, Schedule, linear, pilot, uniform
from concrete_score.likelihood.schedules import evenly
from concrete_score.spaces import Space
from tests.likelihood.helpers import Unnormalized


@given(st.lists(st.floats(0, 10), min_size=1, max_size=8), st.integers(1, 20))
def test_even_cuts_are_schedules_with_equal_lengths(lengths, steps):
    knots = linear(len(lengths)).betas
    schedule = evenly(knots, lengths, steps)
    assert schedule.steps == steps
    total = sum(lengths)
    share = [0.9 * l / total + 0.1 / len(lengths) if total else 1 / len(lengths) for l in lengths]

    def reached(beta):
        return sum(s * min(1.0, max(0.0, beta * len(lengths) - i)) for i, s in enumerate(share))

    for k, beta in enumerate(schedule.betas):
        assert reached(beta) == pytest.approx(k / steps, abs=1e-9)


def steep():
    """A target far from its base: most of the change happens at small β."""
    space = Space.bits(7)
    table = 25 * space.enumerate().double().mean(-1) ** 2 + torch.arange(128) % 3
    return Geometric(uniform(space), Unnormalized(space, table.double()))


def test_a_pilot_beats_the_linear_schedule_of_as_many_steps():
    path, gaps = steep(), []
    coarse = Annealing(path, linear(20))
    tuned = pilot(coarse, 20, torch.Generator().manual_seed(0), chains=400, rounds=3)
    for schedule in (linear(20), tuned):
        twin = EnumeratedAnnealing(Annealing(path, schedule))
        gaps.append(float(twin.log_partition - twin.ais_mean_log()))
        assert abs(twin.ais_moment().log() - twin.log_partition) < 1e-10
    assert gaps[1] < 0.8 * gaps[0]


def test_a_path_without_change_is_walked_evenly():
    space = Space.bits(2)
    path = Geometric(uniform(space), Unnormalized(space, torch.ones(4, dtype=torch.float64)))
    found = pilot(Annealing(path, linear(4)), 8, torch.Generator().manual_seed(0), chains=10)
    assert found.betas == pytest.approx(linear(8).betas)
    assert isinstance(found, Schedule)
