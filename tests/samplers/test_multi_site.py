"""Many sites at once, and gradients: relaxations are right, exactness for any step size, adaptation, the Ising gain."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.models import Energy
from concrete_score.models.score import DensityScore
from concrete_score.neighborhoods import hamming
from concrete_score.samplers import GibbsWithGradients, MetropolisHastings, MultiSite, Relaxed, Tempered, adapt, relax
from concrete_score.samplers.diagnosis import summarize
from concrete_score.samplers.surrogates import ExactRatios, Gradient
from concrete_score.scores import log_ratios
from concrete_score.spaces import Space
from concrete_score.targets import Ising, asia, pmf, random_rbm
from tests.samplers.checks import assert_counts_follow, assert_keeps, relaxed_targets, stationary, step_counts
from tests.strategies import generators, pmfs, spaces


@pytest.mark.parametrize(
    "model",
    [
        Ising((3, 4), 0.3, field=0.2),
        Ising((2, 3), -0.3, periodic=False),
        Ising((1, 4), 0.5),
        random_rbm(5, 3, 1.0, torch.Generator().manual_seed(0)),
        Energy(Space((2, 3, 1, 4)), (7,), generator=torch.Generator().manual_seed(0), dtype=torch.float64),
        Tempered(Ising((2, 2), 0.4), 0.3),
    ],
    ids=lambda m: type(m).__name__,
)
def test_a_relaxed_density_is_the_density_at_states(model):
    x = model.space.uniform(50, torch.Generator().manual_seed(1))
    torch.testing.assert_close(relax(model).log_density(x), model.log_density(x), check_dtype=False, atol=1e-6, rtol=0)


def test_gradients_of_an_ising_model_are_its_ratios():
    model = Ising((3, 4), 0.3, field=0.2)
    x = model.space.uniform(20, torch.Generator().manual_seed(0))
    guess, exact = Gradient(relax(model)).look(x), ExactRatios(model).look(x)
    torch.testing.assert_close(guess.others, exact.others, check_dtype=False, atol=1e-5, rtol=0)
    torch.testing.assert_close(guess.log_density, exact.log_density)


@settings(max_examples=15)
@given(data=st.data())
def test_the_exact_table_holds_the_hamming_ratios(data):
    space = data.draw(spaces().filter(lambda s: s.num_states > 1))
    density = pmf(data.draw(pmfs(space)), space)
    x = space.enumerate()
    table = ExactRatios(density).look(x).others
    listed = table[:, torch.arange(table.shape[-1]) < space.sizes_tensor()[:, None] - 1]
    torch.testing.assert_close(listed, log_ratios(density, hamming(space), x))
    assert (table.flatten(1).isfinite().sum(-1) == sum(s - 1 for s in space.sizes)).all()


@settings(max_examples=15)
@given(data=st.data())
def test_informed_by_exact_ratios_it_is_as_exact(data):
    space = data.draw(spaces().filter(lambda s: s.num_states > 1))
    density = pmf(data.draw(pmfs(space)), space)
    kernel = MultiSite(density, step_size=data.draw(st.sampled_from([0.1, 1.0, 10.0])))
    matrix = kernel.transition_matrix()
    assert_keeps(matrix, density.probabilities, reversible=True)
    rows = space.enumerate()
    assert_counts_follow(step_counts(kernel, rows, max(20, 8000 // len(rows)), data.draw(generators())), matrix)


@settings(max_examples=10)
@given(data=st.data())
def test_gradients_and_exact_ratios_lead_to_the_same_target_by_different_ways(data):
    space = data.draw(spaces(min_sites=2).filter(lambda s: s.num_states > 3))
    model = data.draw(relaxed_targets(space))
    pi = stationary(model)
    table = pmf(pi, space)
    for kernel in (GibbsWithGradients(model), MultiSite(model), MultiSite(table)):
        assert_keeps(kernel.transition_matrix(), pi, reversible=True)


def test_adaptation_reaches_its_target_then_freezes():
    model, g = Ising((8, 8), 0.3), torch.Generator().manual_seed(0)
    for first, target in ((2.0, 0.57), (1e-3, 0.8)):
        kernel = MultiSite(model, step_size=first)
        kernel, state = adapt(kernel, kernel.init(model.space.uniform(32, g)), g, 300, target)
        size, share = kernel.step_size, 0.0
        for _ in range(200):
            state, info = kernel.step(state, g)
            share += info.accepted.double().mean().item() / 200
        assert abs(share - target) < 0.05
        assert kernel.step_size == size


def test_clamped_chains_adapt_too():
    model, g = Ising((4, 4), 0.3), torch.Generator().manual_seed(0)
    start = model.space.uniform(20, g)
    clamped = torch.rand(20, 16, generator=g) < 0.5
    kernel = MultiSite(model)
    _, state = adapt(kernel, kernel.init(start, clamped), g, 50)
    assert torch.equal(state.x[clamped], start[clamped])
    assert (state.x != start).any()


def chains(kernel, state, steps, thin, model, generator):
    """Energy and magnetization every ``thin`` steps ``(N, C)`` each."""
    energy, magnetization = [], []
    for i in range(steps):
        state, _ = kernel.step(state, generator)
        if i % thin == 0:
            energy.append(model.log_density(state.x))
            magnetization.append(state.x.double().mean(-1))
    return torch.stack(energy), torch.stack(magnetization)


def worse_ess(traces):
    return min(summarize(trace).ess for trace in traces)


@pytest.mark.slow
def test_on_a_large_ising_model_a_multi_site_step_is_worth_thirty_uniform_ones():
    model, g = Ising((30, 30), 0.3), torch.Generator().manual_seed(0)
    kernel = MultiSite(model, 0.05)
    kernel, state = adapt(kernel, kernel.init(model.space.uniform(32, g)), g, 400)
    many = worse_ess(chains(kernel, state, 2500, 1, model, g)) / 2500
    single = MetropolisHastings(model)
    one = worse_ess(chains(single, single.init(state.x), 50000, 50, model, g)) / 50000
    assert many / one > 30


def test_bad_pieces_are_refused_before_any_work():
    p = pmf([0.5, 0.5])
    score = DensityScore(p, hamming(p.space))
    for build in (MultiSite, GibbsWithGradients):
        with pytest.raises(InputError, match="acceptance needs log_density"):
            build(score)
    with pytest.raises(InputError, match="extends to site probabilities"):
        GibbsWithGradients(p)
    with pytest.raises(InputError, match="step_size"):
        MultiSite(p, step_size=0.0)
    with pytest.raises(InputError, match="positive probability"):
        MultiSite(pmf([1.0, 0.0])).init([[1]])
    broken = Relaxed(Space.bits(2), lambda p: p[..., 1].sum(-1) * torch.nan)
    for build in (MultiSite, GibbsWithGradients):
        with pytest.raises(InputError, match="finite log-density"):
            build(broken).init([[0, 0]])
    kernel = MultiSite(p)
    with pytest.raises(InputError, match="at least 2 steps"):
        adapt(kernel, kernel.init([[0]]), torch.Generator(), 1)


@pytest.mark.parametrize("balancing", ["sqrt", "barker", "min", "max"])
def test_a_joint_proposal_that_is_impossible_is_rejected(balancing):
    p = pmf([[0.4, 0.25, 0.0], [0.3, 0.0, 0.05]])
    kernel, rows = MultiSite(p, 0.7, balancing), torch.tensor([[0, 0], [0, 1], [1, 0], [1, 2]])
    matrix = kernel.transition_matrix()
    counts = step_counts(kernel, rows, 5000, torch.Generator().manual_seed(0))
    assert_counts_follow(counts, matrix[p.space.index(rows)])
    assert (counts[:, p.probabilities == 0] == 0).all()


def test_rows_of_the_chest_clinic_stay_possible():
    model, g = asia(), torch.Generator().manual_seed(0)
    kernel = MultiSite(model, 0.3)
    state = kernel.init(model.sample(2000, g))
    for _ in range(30):
        state, _ = kernel.step(state, g)
    assert model.log_density(state.x).isfinite().all()
    p = model.log_density(model.space.enumerate()).exp()
    share = torch.bincount(model.space.index(state.x), minlength=len(p)) / 2000
    often = p > 0.01
    assert ((share - p)[often].abs() < 4.5 * (p * (1 - p) / 2000).sqrt()[often]).all()


def test_a_space_of_one_state_is_refused():
    space = Space((1, 1))
    for make in (MultiSite, GibbsWithGradients):
        with pytest.raises(InputError, match="at least two states"):
            make(Energy(space, generator=torch.Generator().manual_seed(0)))
