"""The theorems of annealed bounds, exact: expectations over all randomness by matrix products."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.baselines import Independent
from concrete_score.errors import InputError
from concrete_score.likelihood import (
    Annealing,
    EnumeratedAnnealing,
    Geometric,
    RBMPath,
    ais,
    linear,
    raise_,
    reverse_ais,
    uniform,
)
from concrete_score.likelihood.annealing_paths import Interpolated, default_kernel, time_reversal
from concrete_score.samplers import Colored, Composition, Sweep, systematic
from concrete_score.samplers.couplings import linear_fields, marks
from concrete_score.spaces import Space
from concrete_score.targets import asia, pmf, random_rbm
from tests.likelihood.helpers import KERNELS, Unnormalized, annealings, random_problem
from tests.strategies import pairwise_models


@given(annealings())
def test_the_mean_weight_of_ais_is_z(annealing):
    twin = EnumeratedAnnealing(annealing)
    assert abs(twin.ais_moment().log() - twin.log_partition) < 1e-10


@given(annealings())
def test_the_mean_inverse_weight_of_reverse_ais_is_one_over_z(annealing):
    twin = EnumeratedAnnealing(annealing)
    assert abs(twin.reverse_moment().log() + twin.log_partition) < 1e-10


@given(annealings())
def test_the_mean_weight_of_raise_is_the_annealing_approximation(annealing):
    twin = EnumeratedAnnealing(annealing)
    torch.testing.assert_close(twin.raise_moment(), twin.annealed(), rtol=1e-10, atol=1e-10)
    assert abs(twin.annealed().sum() - 1) < 1e-10


@given(annealings())
def test_ais_is_an_upper_and_reverse_ais_a_lower_bound_on_the_log_likelihood(annealing):
    twin = EnumeratedAnnealing(annealing)
    assert twin.ais_mean_log() <= twin.log_partition + 1e-12
    assert twin.reverse_mean_log() >= twin.log_partition - 1e-12


@given(annealings())
def test_raise_is_below_on_average_over_the_models_own_rows(annealing):
    twin = EnumeratedAnnealing(annealing)
    log_p = twin.log_densities[-1].log_softmax(0)
    assert log_p.exp() @ twin.raise_mean_log() <= log_p.exp() @ log_p + 1e-12
    # And for every single row below the log-likelihood of the annealing approximation.
    assert (twin.raise_mean_log() <= twin.annealed().log() + 1e-12).all()
    # The two lower bounds are one number: reverse AIS is RAISE averaged over the model.
    lower = log_p.exp() @ twin.log_densities[-1] - twin.reverse_mean_log()
    assert abs(lower - log_p.exp() @ twin.raise_mean_log()) < 1e-10


def test_raise_can_be_above_the_log_likelihood_of_one_row():
    """A rare state that annealing in one step reaches too often: a `lower` by that name would lie."""
    model = pmf([0.01, 0.99])
    lazy = Annealing(Geometric(uniform(model.space), model), linear(2), _sleepy)
    twin = EnumeratedAnnealing(lazy)
    rare = torch.tensor(0.01).log()
    assert twin.raise_mean_log()[0] > rare + 1
    assert model.probabilities @ twin.raise_mean_log() < model.probabilities @ model.log_pmf


def _sleepy(density):
    from concrete_score.samplers import MetropolisHastings

    return MetropolisHastings(density, laziness=0.9)


def test_raise_needs_the_time_reversal():
    """A sweep that is not turned around still averages to 1/Z, but no longer to the annealing approximation."""
    annealing = Annealing(random_problem((3, 2, 2), seed=4), linear(3))
    twin = EnumeratedAnnealing(annealing)
    kernel = systematic(annealing.path.target)
    forward, backward = kernel.transition_matrix(), time_reversal(kernel).transition_matrix()
    p = annealing.path.target.table.softmax(0)
    torch.testing.assert_close(p[:, None] * forward, (p[:, None] * backward).T, rtol=0, atol=1e-14)
    assert (forward - backward).abs().max() > 0.01
    turned = twin.raise_moment()

    class NotTurned(Composition):
        reversible = True

    time_reversal.register(NotTurned)(lambda kernel: kernel)
    wrong = EnumeratedAnnealing(
        Annealing(annealing.path, annealing.schedule, lambda density: NotTurned(systematic(density).kernels))
    )
    torch.testing.assert_close(turned, twin.annealed(), rtol=1e-10, atol=0)
    assert (wrong.raise_moment() - wrong.annealed()).abs().max() > 1e-4
    assert abs(wrong.reverse_moment().log() + wrong.log_partition) < 1e-10


@pytest.mark.parametrize("kind", ["geometric", "rbm"])
def test_bounds_close_as_one_over_the_steps(kind):
    """Each gap falls to zero, at the rate 1/K of a path walked at constant speed."""
    rbm = random_rbm(5, 3, 1.0, torch.Generator().manual_seed(1))
    path = {"geometric": random_problem((3, 2), seed=2), "rbm": RBMPath(rbm)}[kind]
    steps, gaps = (4, 8, 16, 32, 64), []
    for k in steps:
        twin = EnumeratedAnnealing(Annealing(path, linear(k)))
        p = twin.log_densities[-1].softmax(0)
        gaps.append(
            [
                float(twin.log_partition - twin.ais_mean_log()),
                float(twin.reverse_mean_log() - twin.log_partition),
                float((twin.annealed() - p).abs().sum()),
            ]
        )
    table = torch.tensor(gaps)
    slopes = (table[-1] / table[-2]).log() / torch.tensor(2.0).log()
    assert (table.diff(dim=0) < 0).all()
    assert ((slopes + 1).abs() < 0.1).all()


@pytest.mark.parametrize("base_bias", [None, torch.tensor([0.5, -1.0, 0.2, 2.0])])
def test_the_rbm_path_obeys_the_theorems(base_bias):
    model = random_rbm(4, 3, 1.0, torch.Generator().manual_seed(3))
    path = RBMPath(model, base_bias)
    twin = EnumeratedAnnealing(Annealing(path, linear(4)))
    assert abs(twin.log_densities[0].logsumexp(0)) < 1e-12
    torch.testing.assert_close(twin.log_densities[-1], model.log_density(model.space.enumerate()))
    assert abs(twin.ais_moment().log() - model.log_partition()) < 1e-10
    assert abs(twin.reverse_moment().log() + model.log_partition()) < 1e-10
    torch.testing.assert_close(twin.raise_moment(), twin.annealed(), rtol=1e-10, atol=1e-12)


def test_the_rbm_path_takes_its_increments_from_one_product():
    model = random_rbm(6, 3, 1.0, torch.Generator().manual_seed(3))
    path, states = RBMPath(model, torch.linspace(-1, 1, 6)), model.space.enumerate()
    expected = path.at(0.7).log_density(states) - path.at(0.2).log_density(states)
    torch.testing.assert_close(path.increment(states, 0.2, 0.7), expected, rtol=0, atol=2e-6)


@settings(max_examples=20)
@given(data=st.data(), sizes=st.sampled_from([(2, 2, 2), (3, 2, 3)]))
def test_pairwise_densities_on_the_way_are_drawn_by_structure(data, sizes):
    base = Independent.fit(Space(sizes).enumerate()[:-1], Space(sizes))
    model = data.draw(pairwise_models(Space(sizes)))
    half = Interpolated(base, model, 0.3)
    linear_half, states = linear_fields(half), model.space.enumerate()
    z = marks(model.space, states)
    found = linear_half.log_density(z, linear_half.fields(z))
    torch.testing.assert_close(found, half.log_density(states), rtol=0, atol=1e-5)
    assert isinstance(default_kernel(half), Sweep | Colored)
    twin = EnumeratedAnnealing(Annealing(Geometric(base, model), linear(3)))
    exact = model.log_density(states).logsumexp(0)
    assert abs(twin.ais_moment().log() - exact) < 1e-10
    assert abs(twin.reverse_moment().log() + exact) < 1e-10
    torch.testing.assert_close(twin.raise_moment(), twin.annealed(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("clamped", [None, torch.tensor([True, False, False, True])])
def test_layers_of_a_tempered_rbm_are_reversible_and_their_steps_follow_the_matrix(clamped):
    target, generator = random_rbm(4, 3, 1.0, torch.Generator().manual_seed(5)), torch.Generator().manual_seed(6)
    model = RBMPath(target, torch.tensor([0.5, -1.0, 0.2, 2.0])).at(0.6)
    kernel = default_kernel(model)
    matrix = kernel.transition_matrix(clamped)
    p = model.log_density(model.space.enumerate()).softmax(0)
    flow = p[:, None] * matrix
    torch.testing.assert_close(flow, flow.T, rtol=0, atol=1e-15)
    torch.testing.assert_close(matrix.sum(-1), torch.ones(16, dtype=torch.float64))
    n = 20_000
    start = model.space.state(torch.tensor(6)).expand(n, -1)
    moved = kernel.step(kernel.init(start, clamped), generator)[0].x
    counts = torch.bincount(model.space.index(moved), minlength=16).double()
    expected = n * matrix[6]
    assert (counts[expected == 0] == 0).all()
    seen = expected > 0
    chi_square = ((counts - expected)[seen].square() / expected[seen]).sum()
    assert chi_square < 16 + 4 * (2 * 16) ** 0.5


def test_a_space_too_large_is_refused():
    model = Unnormalized(Space.bits(13), torch.zeros(2**13, dtype=torch.float64))
    with pytest.raises(InputError, match="at most 4096 states"):
        EnumeratedAnnealing(Annealing(Geometric(uniform(model.space), model), linear(2)))


@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_states_that_base_and_target_exclude_are_excluded_all_the_way(kernel):
    base, target = (
        pmf([[0.2, 0.7], [0.1, 0.0]]),
        Unnormalized(Space((2, 2)), torch.tensor([3.0, 1, 2, 0]).double().log()),
    )
    path = Geometric(base, target)
    for beta in (0.1, 0.5, 0.9):
        assert path.at(beta).log_density(torch.tensor([1, 1])).item() == -torch.inf
    annealing = Annealing(path, linear(4), KERNELS[kernel])
    twin = EnumeratedAnnealing(annealing)
    log_z = torch.tensor(6.0).double().log()
    assert abs(twin.ais_moment().log() - log_z) < 1e-10
    assert abs(twin.reverse_moment().log() + log_z) < 1e-10
    torch.testing.assert_close(twin.raise_moment(), twin.annealed(), rtol=1e-10, atol=1e-10)
    assert twin.ais_mean_log() <= log_z <= twin.reverse_mean_log()
    assert twin.raise_mean_log()[3] == -torch.inf
    g = torch.Generator().manual_seed(0)
    up = ais(annealing, 4000, g)
    assert abs(up.value - log_z) < 5 * up.stderr
    down = reverse_ais(annealing, pmf([[3 / 6, 1 / 6], [2 / 6, 0.0]]).sample(4000, g), g)
    assert abs(down.value - log_z) < 5 * down.stderr


def test_rows_of_a_density_with_zeros_are_bounded_from_a_uniform_base():
    model, g = asia(), torch.Generator().manual_seed(0)
    rows = model.sample(20, g)
    found = raise_(Annealing(Geometric(uniform(model.space), model), linear(50)), rows, g, chains=50)
    twin = EnumeratedAnnealing(Annealing(Geometric(uniform(model.space), model), linear(50)))
    expected = twin.raise_moment().log()[model.space.index(rows)]
    assert ((found.values - expected).abs() < 6 * found.stderrs + 0.05).all()
