"""Kernels by structure: which one is chosen and why, what is frozen, what is refused, and what a run says of itself."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.models import DensityScore
from concrete_score.neighborhoods import hamming
from concrete_score.samplers import (
    Auxiliary,
    Colored,
    DiscreteLangevin,
    Gibbs,
    GibbsWithGradients,
    MultiSite,
    PathAuxiliary,
    Sweep,
    Tempering,
    adapt,
    adapt_ladder,
    anneal,
    autocorrelation_time,
    choose_kernel,
    factorized,
    run,
)
from concrete_score.samplers.surrogates import ExactRatios, FieldRatios
from concrete_score.spaces import Space
from concrete_score.targets import Ising, erdos_renyi, independent_set, pmf, potts, random_rbm, spin_glass
from tests.samplers.checks import assert_counts_follow, assert_keeps, masks, stationary, step_counts
from tests.strategies import generators, pairwise_models, spaces


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("kind", [MultiSite, DiscreteLangevin, PathAuxiliary])
def test_a_tuned_kernel_is_frozen(kind):
    model = Ising((2, 3), 0.4)
    kernel = kind(model)
    tuned, state = adapt(kernel, kernel.init(model.space.uniform(32, seeded())), seeded(), 30)
    step_size, before = tuned.step_size, tuned.transition_matrix()
    for _ in range(40):
        state, _ = tuned.step(state, seeded(1))
    assert tuned.step_size == step_size
    assert torch.equal(tuned.transition_matrix(), before)
    assert_keeps(before, stationary(model), reversible=True)


def test_a_small_dense_model_steps_as_a_large_one(monkeypatch):
    model, space = spin_glass(4, 1.0, seeded(2)), Space.bits(4)
    kernel, rows, clamped = MultiSite(model, 0.6), space.enumerate(), torch.tensor([False, True, False, False])
    cold = Tempering(model, (1.0, 0.4), lambda density: MultiSite(density, 0.6))
    pairs = cold.product_space.enumerate()
    for most in (factorized.MOST, 0):
        monkeypatch.setattr(factorized, "MOST", most)
        for mask in (None, clamped):
            assert_counts_follow(step_counts(kernel, rows, 1000, seeded(), mask), kernel.transition_matrix(mask))
        assert_counts_follow(step_counts(cold, pairs, 300, seeded()), cold.transition_matrix())


def test_what_a_small_step_remembers_is_what_a_look_sees():
    model = spin_glass(20, 1.5, seeded(2))
    for step_size in (0.2, 1e30):  # odds beyond what float32 holds
        kernel = MultiSite(model, step_size)
        state, _ = kernel.step(kernel.init(model.space.uniform(50, seeded())), seeded(1))
        again = kernel.init(state.x).memory
        torch.testing.assert_close(state.memory.log_stay, again.log_stay, atol=1e-4, rtol=1e-6)
        torch.testing.assert_close(state.memory.stay, again.stay, atol=1e-6, rtol=0)


def test_an_adapted_ladder_is_frozen():
    model = Ising((1, 3), 0.7)
    kernel = Tempering(model, (1.0, 0.9, 0.2), Sweep)
    found, state = adapt_ladder(kernel, kernel.init(model.space.uniform(32, seeded())), seeded(), 64)
    ladder, before = found.inverse_temperatures, found.transition_matrix()
    assert ladder != kernel.inverse_temperatures
    for _ in range(30):
        state, _ = found.step(state, seeded(1))
    assert found.inverse_temperatures == ladder
    assert torch.equal(found.transition_matrix(), before)


@settings(max_examples=20)
@given(data=st.data())
def test_pairwise_models_of_mixed_sizes_are_kept_with_sites_clamped(data):
    space = data.draw(spaces().filter(lambda s: 1 < s.num_states <= 24))
    model, clamped = data.draw(pairwise_models(space)), data.draw(masks(space))
    pi = stationary(model)
    for kernel in (Colored(model), Sweep(model), MultiSite(model), DiscreteLangevin(model)):
        for mask in (None, clamped):
            assert_keeps(kernel.transition_matrix(mask), pi, getattr(kernel, "reversible", False))


INNER = (Sweep, Colored, MultiSite, PathAuxiliary, GibbsWithGradients)


def by_local_fields(model):
    """Kernels that read a pairwise model's fields, small enough for a matrix over paths and products of states."""
    few = model.space.num_states <= 6
    return [
        GibbsWithGradients(model),
        MultiSite(model, 0.7),
        DiscreteLangevin(model, 0.5),
        PathAuxiliary(model, 2.0),
        choose_kernel(model).kernel,
        *(
            [
                Tempering(model, (1.0, 0.4), kind)
                for kind in (Sweep, Colored, MultiSite, PathAuxiliary, GibbsWithGradients)
            ]
            if few
            else []
        ),
    ]


@settings(max_examples=15)
@given(data=st.data())
def test_steps_by_local_fields_are_exact_and_follow_their_matrix(data):
    space = data.draw(spaces().filter(lambda s: 1 < s.num_states <= 12))
    model, clamped = data.draw(pairwise_models(space)), data.draw(masks(space))
    for kernel in by_local_fields(model):
        pi, rows = stationary(model), space.enumerate()
        if isinstance(kernel, Tempering):
            pi, rows = torch.kron(pi, (0.4 * pi.log()).softmax(0)), kernel.product_space.enumerate()
        for mask in (None, clamped):
            matrix = kernel.transition_matrix(mask)
            assert_keeps(matrix, pi, getattr(kernel, "reversible", False))
            if mask is None or not isinstance(kernel, Tempering):  # copies must agree where they are clamped
                counts = step_counts(kernel, rows, max(20, 4000 // len(rows)), data.draw(generators()), mask)
                assert_counts_follow(counts, matrix)


@settings(max_examples=15)
@given(data=st.data())
def test_ratios_by_local_fields_are_the_ratios(data):
    space = data.draw(spaces().filter(lambda s: 1 < s.num_states <= 24))
    model, x = data.draw(pairwise_models(space)), space.enumerate()
    found, exact = FieldRatios(model).look(x), ExactRatios(model).look(x)
    torch.testing.assert_close(found.others, exact.others, atol=1e-10, rtol=0)
    torch.testing.assert_close(found.log_density, exact.log_density)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (random_rbm(6, 3, 0.5, seeded()), "auxiliary"),
        (Ising((8, 8), 0.3), "colored"),
        (potts((6, 6), 3, 0.5), "colored"),
        (spin_glass(12, 1.0, seeded()), "sweep"),
        (pmf([0.2, 0.3, 0.5]), "gibbs"),
        (DensityScore(pmf([0.2, 0.3, 0.5]), hamming(Space((3,)))), "informed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_choice_uses_what_the_model_offers_and_says_why(model, name):
    choice = choose_kernel(model)
    assert choice.name == name
    assert str(choice) == f"{name}: {choice.why}"
    assert ":" in str(choice)


def test_a_pilot_lets_two_candidates_race():
    choice = choose_kernel(Ising((8, 8), 0.3), pilot=40, generator=seeded())
    assert choice.name in ("colored", "sweep")
    assert "in a pilot" in choice.why
    with pytest.raises(InputError, match="generator"):
        choose_kernel(Ising((8, 8), 0.3), pilot=40)


def test_auto_runs_tunes_and_says_so():
    model = Ising((8, 8), 0.3)
    found = run("auto", 8, model=model, steps=200, burn_in=20, generator=seeded()).diagnosis
    assert found.kernel.startswith("colored:")
    assert found.kernel in str(found)
    hidden = DensityOnly(model)
    assert run("auto", 4, model=hidden, steps=8, generator=seeded()).diagnosis.kernel.startswith("gibbs")
    with pytest.raises(InputError, match="auto"):
        run("colored", 4, steps=10, generator=seeded())
    with pytest.raises(InputError, match="no model"):
        run("auto", 4, steps=10, generator=seeded())


class DensityOnly:
    """A density that offers nothing else."""

    normalized = False

    def __init__(self, model):
        self.model, self.space = model, model.space

    def log_density(self, x):
        return self.model.log_density(x)


def correlated(memory, draws, chains, seed=0):
    """``x_t = memory x_{t-1} + noise``: its autocorrelation time is ``(1 + memory) / (1 - memory)``."""
    trace = torch.randn(draws, chains, generator=seeded(seed), dtype=torch.float64)
    trace[0] /= (1 - memory**2) ** 0.5
    for i in range(1, draws):
        trace[i] += memory * trace[i - 1]
    return trace


def test_autocorrelation_times_are_within_their_errors():
    scores = []
    for seed in range(12):
        found = autocorrelation_time(correlated(0.9, 2000, 8, seed))
        assert found.long_enough
        scores.append((found.value - 19) / found.error)
    assert max(map(abs, scores)) < 4
    assert abs(sum(scores)) / len(scores) ** 0.5 < 4


def test_a_run_too_short_to_tell_says_so():
    model = Ising((6, 6), 0.44)
    short = run(Gibbs(model), 16, steps=200, generator=seeded()).diagnosis
    assert any("too short to tell" in warning and "log_density" in warning for warning in short.warnings)
    enough = run(Colored(model), 16, steps=600, burn_in=50, generator=seeded()).diagnosis
    assert not any("too short" in warning for warning in enough.warnings)


def test_a_diagnosis_names_the_slowest_statistic_and_what_it_costs():
    model = Ising((6, 6), 0.4)
    statistics = {"magnetization": lambda x: x.double().mean(-1), "corner": lambda x: x[:, 0].double()}
    found = run(Colored(model), 16, steps=400, burn_in=50, generator=seeded(), statistics=statistics).diagnosis
    assert found.slowest == min(found.statistics, key=lambda name: found.statistics[name].ess) == "magnetization"
    assert found.ess_per_pass == pytest.approx(found.ess / 450)
    assert found.ess_per_second == pytest.approx(found.ess / found.seconds)
    assert found.round_trips is None
    assert "slowest: magnetization" in str(found)


def test_round_trips_are_reported():
    model = Ising((2, 2), 0.3)
    found = run(Tempering(model, (1.0, 0.5), Sweep), 8, steps=100, generator=seeded()).diagnosis
    assert found.round_trips > 10
    assert "round trips" in str(found)


def test_annealing_finds_the_largest_independent_set():
    edges = erdos_renyi(14, 0.3, seeded(3))
    model = independent_set(14, edges)
    exact = model.log_density(model.space.enumerate()).max()
    found = anneal(model, 16, steps=150, generator=seeded(), temperatures=(1.0, 0.1))
    assert abs(float(found.log_density.max() - exact)) < 1e-4
    torch.testing.assert_close(found.log_density, model.log_density(found.x), atol=1e-4, rtol=0)
    clamped = torch.zeros(14, dtype=torch.bool)
    clamped[:3] = True
    held = anneal(model, torch.zeros(4, 14, dtype=torch.int64), steps=20, generator=seeded(), clamped=clamped)
    assert (held.x[:, :3] == 0).all()


@pytest.mark.parametrize("temperatures", [(1.0, 0.0), (0.1, 1.0), (-1.0, -2.0), (float("inf"), 1.0)])
def test_temperatures_that_make_no_sense_are_refused(temperatures):
    with pytest.raises(InputError, match="temperatures") as refusal:
        anneal(Ising((2, 2), 0.3), 2, steps=5, generator=seeded(), temperatures=temperatures)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda m: Colored(m, colors=torch.zeros(9, dtype=torch.int64)), "leave it out"),
        (lambda m: Colored(m, interactions=torch.tensor([[0, 1]])), "another model"),
        (lambda m: Colored(DensityOnly(m)), "pass `interactions=`"),
        (lambda m: Colored(DensityOnly(m), colors=[0] * 9), "give them different colors"),
        (lambda m: Sweep(DensityOnly(m)), "use `gibbs`"),
        (lambda m: Auxiliary(m), "use `colored`"),
        (lambda m: Tempering(m, (1.0, 0.5, 0.7)), "coldest first"),
        (lambda m: Tempering(m, (1.0, -0.5)), "coldest first"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line_with_what_to_use(build, says):
    with pytest.raises(InputError) as refusal:
        build(Ising((3, 3), 0.4))
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)
