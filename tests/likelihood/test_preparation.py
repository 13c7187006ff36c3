"""Before weighted chains run: schedules cut evenly, and a pilot that finds where the path is steep and step sizes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.baselines import Independent
from concrete_score.errors import InputError
from concrete_score.likelihood import (
    Annealing,
    EnumeratedAnnealing,
    Geometric,
    Schedule,
    TunedMultiSite,
    ais,
    linear,
    pilot,
    prepare,
    tune,
    uniform,
)
from concrete_score.likelihood.annealing import evenly
from concrete_score.likelihood.preparation import relax_interpolated
from concrete_score.models import Energy
from concrete_score.samplers import Relaxed
from concrete_score.spaces import Space
from concrete_score.targets import Ising, pmf
from tests.likelihood.helpers import Unnormalized, random_problem


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


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def energy_path(seed=0):
    g, space = generator(seed), Space((3, 2, 4))
    base = Independent.fit(space.uniform(10, g), space)
    return Geometric(base, Energy(space, hidden=(6,), generator=g, dtype=torch.float64))


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_the_relaxed_density_is_the_interpolated_one(beta):
    path = energy_path()
    states = path.space.enumerate()
    relaxed = relax_interpolated(path.at(beta)).log_density(states)
    torch.testing.assert_close(relaxed, path.at(beta).log_density(states), rtol=0, atol=1e-12)


def test_the_theorems_hold_with_tuned_kernels():
    path = energy_path(1)
    tuned = tune(path, generator(2), chains=20, knots=4, steps=5)
    twin = EnumeratedAnnealing(Annealing(path, linear(4), tuned))
    assert abs(twin.ais_moment().log() - twin.log_partition) < 1e-10
    assert abs(twin.reverse_moment().log() + twin.log_partition) < 1e-10
    torch.testing.assert_close(twin.raise_moment(), twin.annealed(), rtol=1e-10, atol=0)


def test_flat_and_symmetric_densities_do_not_drive_the_step_size_away():
    model = Ising((4, 4), 0.05)
    tuned = tune(Geometric(uniform(model.space), model), generator(), knots=5)
    assert max(tuned.step_sizes) <= 1
    coupled = Ising((8, 8), 0.35)
    assert tune(Geometric(uniform(coupled.space), coupled), generator(), knots=5).step_sizes[-1] < 0.5


def test_a_lattice_of_144_spins():
    model = Ising((12, 12), 0.2)
    path = Geometric(uniform(model.space), model)
    tuned = tune(path, generator(3), chains=50, knots=5, steps=10)
    result = ais(Annealing(path, linear(100), tuned), 100, generator(4))
    assert result.spread < 1
    assert abs(result.value - model.log_partition()) < 4 * result.stderr + result.spread**2 / 100


def test_step_sizes_are_kept_beyond_the_knots():
    tuned = TunedMultiSite((0.5, 1.0), (0.4, 0.1))
    assert [tuned.step_size(beta) for beta in (0.0, 0.5)] == [0.4, 0.4]
    assert tuned.step_size(1.0) == pytest.approx(0.1)


def test_targets_are_annealed_by_structure_else_by_gradients_else_by_sweeps():
    from concrete_score.likelihood import Budget, default_kernel

    budget = Budget(steps=5, pilot_steps=3, pilot_chains=10)
    assert prepare(Ising((2, 2), 0.3), generator(), budget).kernels is default_kernel
    slope_only = Relaxed(Space.bits(2), lambda p: p[..., 1].sum(-1))
    assert isinstance(prepare(slope_only, generator(), budget).kernels, TunedMultiSite)
    assert prepare(random_problem((2, 3)).target, generator(), budget).kernels is default_kernel


def test_refusals():
    table = pmf([0.5, 0.5])
    for match, path in {
        "between independent sites": Geometric(table, table),
        "extends to site probabilities": Geometric(uniform(table.space), table),
    }.items():
        with pytest.raises(InputError, match=match):
            tune(path, generator())
