"""Both bounds in one call: RBM, MADE, an energy, a score model; and every refusal."""

import json

import pytest
import torch

from concrete_score.errors import InputError
from concrete_score.likelihood import (
    Annealing,
    Budget,
    Geometric,
    PathDensity,
    Schedule,
    ais,
    exact,
    linear,
    prepare,
    raise_,
    reverse_ais,
    sandwich,
    uniform,
)
from concrete_score.models import MADE, DensityScore, Energy
from concrete_score.neighborhoods import hamming
from concrete_score.samplers import Tempering
from concrete_score.spaces import Space
from concrete_score.targets import Ising, asia, log_normalizer, pmf, random_rbm
from tests.likelihood.helpers import Unnormalized, random_problem

QUICK = Budget(steps=40, chains=200, raise_chains=2, pilot_steps=10, pilot_chains=50)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_an_rbm_of_64_by_16_at_default_settings(seed):
    g = generator(seed)
    model = random_rbm(64, 16, 0.5, g)
    rows = model.sample(500, g)
    truth = float(model.log_density(rows).mean()) - model.log_partition()
    result = sandwich(model, rows, g)
    assert result.method == "sandwich"
    assert abs(result.gap) <= 0.05
    assert result.bound_stderr <= 0.02
    assert abs(result.upper - truth) <= 4 * result.bound_stderr
    assert abs(result.lower - truth) <= 4 * result.bound_stderr
    assert abs(result.raise_ - truth) <= 0.05
    assert result.warnings == ()


def test_a_small_rbm():
    g = generator()
    model = random_rbm(12, 6, 0.5, g)
    rows = model.sample(50, g)
    truth = float(model.log_density(rows).mean()) - model.log_partition()
    result = sandwich(model, rows, g, QUICK)
    assert abs(result.upper - truth) < 4 * result.bound_stderr
    assert abs(result.lower - truth) < 4 * result.bound_stderr


def test_made_as_if_it_were_unnormalized():
    """Its exact likelihood lies within the sandwich, up to the chains' own standard errors."""
    g = generator(1)
    model = MADE(Space((2, 3, 2, 3)), hidden=16, blocks=1, generator=g, dtype=torch.float64)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.5 * torch.randn(parameter.shape, generator=g, dtype=torch.float64)
    rows = model.sample(100, g)
    truth = exact(model, rows)
    result = sandwich(model, rows, g, QUICK)
    assert (truth.method, result.method, result.log_likelihood) == ("exact", "sandwich", None)
    assert result.lower - 3 * result.bound_stderr <= truth.log_likelihood <= result.upper + 3 * result.bound_stderr
    assert result.gap < 0.1
    assert result.stderr == pytest.approx(truth.stderr)


def test_a_coarse_sandwich_is_wide_but_around_the_truth_and_says_so():
    g = generator(2)
    model = Unnormalized(Space.bits(8), 3 * torch.randn(256, generator=g, dtype=torch.float64))
    normal = pmf(model.table.softmax(0), model.space)

    class Samplable(Unnormalized):
        def sample(self, n, generator):
            return normal.sample(n, generator)

    target = Samplable(model.space, model.table)
    rows = normal.sample(50, g)
    annealing = Annealing(Geometric(uniform(model.space), target), linear(2))
    result = sandwich(target, rows, g, Budget(steps=2, chains=50), annealing)
    truth = exact(model, rows).log_likelihood
    assert result.lower < truth < result.upper
    assert result.gap > 0.1
    assert any("anneal in more steps" in warning for warning in result.warnings)


def test_an_energy_has_no_lower_bound():
    g = generator(3)
    model = Energy(Space.bits(6), hidden=(8,), generator=g, dtype=torch.float64)
    rows = Space.bits(6).uniform(40, g)
    truth = exact(model, rows)
    result = sandwich(model, rows, g, QUICK)
    assert (result.method, result.lower, result.gap) == ("ais", None, None)
    assert truth.method == "enumeration"
    assert abs(result.upper - truth.log_likelihood) < 4 * result.bound_stderr
    assert abs(result.raise_ - truth.log_likelihood) < 4 * result.raise_stderr + 0.02


def test_a_score_model_through_its_paths():
    g = generator(4)
    model = Ising((2, 3), 0.4, field=0.2)
    density = PathDensity(DensityScore(model, hamming(model.space)))
    rows = model.space.uniform(10, g)
    result = sandwich(density, rows, g, Budget(steps=15, chains=100, raise_chains=2, pilot_steps=4, pilot_chains=20))
    assert abs(result.upper - exact(model, rows).log_likelihood) < 4 * result.bound_stderr


def test_rows_beyond_the_bound_are_drawn_by_the_seed():
    model = random_problem((2, 3)).target
    rows = model.space.uniform(100, generator())
    budget = Budget(steps=5, chains=10, bound_rows=20)
    one, again = (sandwich(model, rows, generator(5), budget) for _ in range(2))
    assert one.rows == 20
    assert one == again
    assert one != sandwich(model, rows, generator(6), budget)


def test_json_has_the_keys_of_evaluate():
    model = random_problem((2, 3)).target
    result = sandwich(model, model.space.uniform(10, generator()), generator(), Budget(steps=5, chains=10))
    told = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert set(told) == {
        *("rows", "log_likelihood", "lower", "upper", "raise", "stderr", "bound_stderr", "bits_per_site", "method")
    }
    assert told["log_likelihood"] is None
    assert told["lower"] is None
    assert told["raise"] == result.raise_


def test_the_pilot_is_frozen_before_the_weighted_chains():
    """A second use of one annealing changes nothing in it: schedules are values."""
    annealing = prepare(Ising((2, 2), 0.5), generator(), Budget(steps=10, pilot_steps=5, pilot_chains=10))
    before = annealing.schedule
    ais(annealing, 10, generator(1))
    assert annealing.schedule is before
    assert isinstance(before, Schedule)


class TestRefusals:
    model = Ising((2, 2), 0.3)
    rows = torch.zeros(3, 4, dtype=torch.int64)

    def check(self, match, call):
        with pytest.raises(InputError, match=match):
            call()

    def test_spaces_differ(self):
        self.check("same space", lambda: Geometric(uniform(Space.bits(3)), self.model))
        self.check("rows", lambda: sandwich(self.model, torch.zeros(3, 5, dtype=torch.int64), generator()))
        other = Annealing(Geometric(uniform(Space.bits(4)), Ising((2, 2), 0.4)), linear(2))
        self.check("leads to the target", lambda: sandwich(self.model, self.rows, generator(), annealing=other))

    def test_a_base_that_cannot_start(self):
        self.check("can be sampled", lambda: Geometric(self.model, self.model))
        table = Unnormalized(Space.bits(4), torch.zeros(16), normalized=True)
        self.check("can be sampled", lambda: Geometric(table, self.model))

    def test_a_score_model_is_no_density(self):
        score = DensityScore(self.model, hamming(self.model.space))
        self.check("PathDensity", lambda: sandwich(score, self.rows, generator()))

    def test_too_few(self):
        annealing = Annealing(Geometric(uniform(self.model.space), self.model), linear(2))
        self.check("at least 2", lambda: ais(annealing, 1, generator()))
        self.check("at least 2 chains", lambda: reverse_ais(annealing, self.rows[:1], generator()))
        self.check("at least 1", lambda: raise_(annealing, self.rows, generator(), chains=0))
        self.check("at least 1", lambda: linear(0))
        for name in ("steps", "chains", "pilot_chains", "batch"):
            self.check(name, lambda name=name: Budget(**{name: 0}))
        self.check("at least one", lambda: sandwich(self.model, self.rows[:0], generator()))

    def test_schedules(self):
        for betas in ((0.0,), (0.0, 0.5), (0.1, 1.0), (0.0, 0.6, 0.4, 1.0), (0.0, float("nan"), 1.0)):
            self.check("betas", lambda betas=betas: Schedule(betas))

    def test_densities_that_are_not_finite(self):
        impossible = asia()
        rows = torch.zeros(2, 8, dtype=torch.int64)
        rows[:, 0] = 1
        zero = (impossible.log_density(impossible.space.enumerate()) == -torch.inf).nonzero()[0]
        row = impossible.space.state(zero)
        self.check("positive density", lambda: sandwich(impossible, row, generator(), QUICK))
        possible = impossible.sample(3, generator())
        self.check("positive", lambda: sandwich(impossible, possible, generator(), QUICK))
        broken = Unnormalized(Space.bits(4), torch.full((16,), torch.nan))
        self.check("log-density", lambda: sandwich(broken, self.rows, generator(), QUICK))

    def test_a_row_is_called_as_the_caller_says_also_where_only_some_are_bounded(self):
        model, few = asia(), Budget(bound_rows=4)
        states = model.space.enumerate()
        zero = (model.log_density(states) == -torch.inf).nonzero().squeeze(-1)
        called = []

        def row_name(row):
            called.append(row)
            return f"line {row + 2}"

        self.check(
            r"^line \d+: .*positive density", lambda: sandwich(model, states, generator(), few, row_name=row_name)
        )
        assert called[0] in zero.tolist()

    def test_a_kernel_that_is_not_reversible(self):
        path = Geometric(uniform(self.model.space), self.model)
        self.check("reversible", lambda: Annealing(path, linear(2), lambda density: Tempering(density)))


def test_log_z_of_a_lattice_too_large_to_enumerate():
    """6×6 Ising, whose partition function a transfer matrix knows."""
    model = Ising((6, 6), 0.2)
    annealing = Annealing(Geometric(uniform(model.space), model), linear(20))
    result = ais(annealing, 100, generator(8))
    assert result.spread < 1
    assert abs(result.value - model.log_partition()) < 4 * result.stderr + result.spread**2 / 200
    assert log_normalizer(Ising((2, 2), 0.2)) == pytest.approx(Ising((2, 2), 0.2).log_partition())
