"""Informed kernels: from scores as from densities, with zeros, and their bad input."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.models.score import DensityScore
from concrete_score.neighborhoods import cycle, hamming
from concrete_score.samplers import BALANCING, Gibbs, Informed, MetropolisHastings
from concrete_score.samplers.informed import _draw
from concrete_score.spaces import Space
from concrete_score.targets import Ising, pmf
from tests.samplers.checks import assert_counts_follow, assert_keeps, assert_stochastic, step_counts
from tests.samplers.test_mh import Scores
from tests.strategies import generators, neighborhoods, pmfs


@pytest.mark.parametrize("name", BALANCING)
def test_balancing_functions_balance(name):
    l = torch.linspace(-30, 30, 101, dtype=torch.float64)
    log_g = BALANCING[name]
    torch.testing.assert_close(log_g(l), l + log_g(-l))


@settings(max_examples=20)
@given(data=st.data())
def test_informed_by_scores_is_informed_by_the_density(data):
    n = data.draw(neighborhoods().filter(lambda n: n.num_slots > 0 and n.symmetric))
    density = pmf(data.draw(pmfs(n.space)), n.space)
    name = data.draw(st.sampled_from(sorted(BALANCING)))
    wanted = Informed(density, n, name).transition_matrix()
    assert_keeps(wanted, density.probabilities, reversible=True)
    for reading in ("forward", "mean"):
        kernel = Informed(DensityScore(density, n), balancing=name, reading=reading)
        torch.testing.assert_close(kernel.transition_matrix(), wanted, atol=1e-10, rtol=0)
        rows = n.space.enumerate()
        counts = step_counts(kernel, rows, max(20, 6000 // len(rows)), data.draw(generators()))
        assert_counts_follow(counts, wanted)


@pytest.mark.parametrize("name", BALANCING)
def test_informed_moves_keep_clear_of_impossible_states(name):
    p, g = pmf([[0.3, 0.0], [0.2, 0.5]]), torch.Generator().manual_seed(0)
    matrix = Informed(p, balancing=name, laziness=0.2).transition_matrix()
    assert_stochastic(matrix)
    assert_keeps(matrix, p.probabilities, reversible=True)
    for model in (p, DensityScore(p, hamming(p.space))):
        rows = torch.tensor([[0, 0], [1, 0], [1, 1]])
        counts = step_counts(Informed(model, balancing=name, laziness=0.2), rows, 3000, g)
        assert_counts_follow(counts, matrix[[0, 2, 3]])


def test_inconsistent_scores_follow_the_matrix_too():
    n, g = hamming(Space((3, 2))), torch.Generator().manual_seed(1)
    scores = Scores(n, torch.randn(6, 3, generator=g, dtype=torch.float64))
    for kernel in (Informed(scores), Informed(scores, reading="mean"), Gibbs(scores)):
        matrix = kernel.transition_matrix()
        assert_stochastic(matrix)
        assert_counts_follow(step_counts(kernel, n.space.enumerate(), 3000, g), matrix)


def test_informed_steps_accept_more_than_uniform_ones():
    model, g = Ising((6, 6), 0.4), torch.Generator().manual_seed(0)

    def acceptance(kernel):
        state, total = kernel.init(torch.zeros(64, 36, dtype=torch.int64)), 0.0
        for _ in range(200):
            state, info = kernel.step(state, g)
            total += info.accepted.double().mean().item() / 200
        return total

    assert acceptance(Informed(model)) > 0.85
    assert acceptance(MetropolisHastings(model)) < 0.5


def test_an_informed_step_of_a_score_model_costs_one_pass():
    scores = Scores(hamming(Space.bits(4)), torch.zeros(16, 4, dtype=torch.float64))
    kernel = Informed(scores)
    state = kernel.init(torch.zeros(3, 4, dtype=torch.int64))
    before = scores.passes
    _, info = kernel.step(state, torch.Generator().manual_seed(0))
    assert scores.passes - before == info.passes == 1


@pytest.mark.parametrize("slots", [1, 2, 7, 49, 784])
def test_slots_are_drawn_in_proportion_to_their_weights_and_never_without_weight(slots):
    g, chains = torch.Generator().manual_seed(0), 40_000
    ratios = 2 * torch.randn(slots, generator=g)
    ratios[1::3] = -torch.inf
    n = hamming(Space((slots + 1,)))
    kernel = Informed(Scores(n, ratios.expand(slots + 1, -1)))
    state = kernel.init(torch.zeros(chains, 1, dtype=torch.int64))
    counts = torch.bincount(_draw(state.memory, g), minlength=slots).double()
    assert counts[1::3].sum() == 0
    expected = chains * (ratios.double() / 2).softmax(0)
    z = ((counts - expected) / expected.sqrt())[expected > 5]
    assert z.square().sum() < len(z) + 5 * (2 * len(z)) ** 0.5
    assert z.abs().max() < 5


@pytest.mark.parametrize("build", [Informed, Gibbs])
@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_log_ratios_that_are_no_numbers_are_refused(build, broken):
    scores = Scores(hamming(Space.bits(2)), torch.full((4, 2), broken, dtype=torch.float64))
    with pytest.raises(InputError, match="finite log-ratios"):
        build(scores).init([[0, 0]])


def test_bad_pieces_are_refused_before_any_work():
    p = pmf(torch.full((4,), 0.25, dtype=torch.float64))
    with pytest.raises(InputError, match="symmetric"):
        Informed(DensityScore(p, cycle(p.space)))
    with pytest.raises(InputError, match="balancing"):
        Informed(p, balancing="square")
    with pytest.raises(InputError, match="same space"):
        Informed(p, hamming(Space((3,))))
    with pytest.raises(InputError, match="positive probability"):
        Informed(pmf([1.0, 0.0])).init([[1]])
