"""Metropolis-Hastings: degrees, periods, one-way edges, the two readings of a score."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.models.score import DensityScore
from concrete_score.neighborhoods import chain, chain_two_way, cycle, cycle_two_way, explicit, grid_bounded, hamming
from concrete_score.samplers import MetropolisHastings, run
from concrete_score.spaces import Space
from concrete_score.targets import Ising, pmf
from tests.samplers.checks import assert_counts_follow, assert_keeps, assert_stochastic, step_counts
from tests.strategies import generators, neighborhoods, pmfs


class Scores:
    """Any table of log-ratios as a score model, counting its passes."""

    def __init__(self, neighborhood, table):
        self.neighborhood, self.table, self.passes = neighborhood, table, 0

    def log_ratios(self, x):
        self.passes += 1
        return self.table[self.neighborhood.space.index(x)]


def uniform_cycle(size):
    return pmf(torch.full((size,), 1 / size, dtype=torch.float64))


def test_a_uniform_even_cycle_is_periodic_and_laziness_cures_it():
    p = uniform_cycle(6)
    start = torch.eye(6, dtype=torch.float64)[0]
    plain = MetropolisHastings(p, cycle_two_way(p.space)).transition_matrix()
    assert torch.linalg.eigvalsh(plain)[0].item() == pytest.approx(-1)
    far = start @ torch.linalg.matrix_power(plain, 1000)
    assert (far - 1 / 6).abs().sum() / 2 == pytest.approx(0.5)  # every second state is empty, for ever
    lazy = MetropolisHastings(p, cycle_two_way(p.space), laziness=0.1).transition_matrix()
    assert torch.linalg.eigvalsh(lazy)[0].item() == pytest.approx(-0.8)
    torch.testing.assert_close(start @ torch.linalg.matrix_power(lazy, 1000), p.probabilities)


def test_real_chains_on_the_even_cycle_show_the_period():
    p, g = uniform_cycle(6), torch.Generator().manual_seed(0)

    def even_share(laziness):
        kernel = MetropolisHastings(p, cycle_two_way(p.space), laziness)
        state = kernel.init(torch.zeros(4000, 1, dtype=torch.int64))
        for _ in range(100):
            state, _ = kernel.step(state, g)
        return (state.x % 2 == 0).double().mean().item()

    assert even_share(0.0) == 1.0
    assert abs(even_share(0.2) - 0.5) < 5 * 0.5 / 4000**0.5


def test_without_the_degree_correction_the_chain_would_keep_the_degrees():
    # A star: the center has five neighbors, a leaf one. Uniform q needs acceptance 1/5 from leaf to center.
    space = Space((6,))
    star = explicit(space, [(i, 0) for i in range(1, 6)])
    matrix = MetropolisHastings(uniform_cycle(6), star).transition_matrix()
    assert matrix[1, 0].item() == pytest.approx(0.2)
    assert matrix[0, 1].item() == pytest.approx(0.2)
    assert_keeps(matrix, torch.full((6,), 1 / 6, dtype=torch.float64), reversible=True)


@settings(max_examples=20)
@given(data=st.data())
def test_a_score_model_samples_as_its_density_one_way_edges_included(data):
    n = data.draw(neighborhoods().filter(lambda n: n.num_slots > 0))
    density = pmf(data.draw(pmfs(n.space)), n.space)
    wanted = MetropolisHastings(density, n).transition_matrix()
    for reading in ("forward", "mean"):
        kernel = MetropolisHastings(DensityScore(density, n), reading=reading)
        torch.testing.assert_close(kernel.transition_matrix(), wanted, atol=1e-10, rtol=0)
        rows = n.space.enumerate()
        counts = step_counts(kernel, rows, max(20, 6000 // len(rows)), data.draw(generators()))
        assert_counts_follow(counts, wanted)


def test_inconsistent_scores_are_read_as_asked_and_their_disagreement_is_reported():
    n = cycle_two_way(Space((4,)))
    g = torch.Generator().manual_seed(0)
    scores = Scores(n, torch.randn(4, 2, generator=g, dtype=torch.float64))
    rows = n.space.enumerate()
    matrices = []
    for reading in ("forward", "mean"):
        kernel = MetropolisHastings(scores, reading=reading)
        matrix = kernel.transition_matrix()
        assert_stochastic(matrix)
        assert_counts_follow(step_counts(kernel, rows, 5000, g), matrix)
        matrices.append(matrix)
    assert (matrices[0] - matrices[1]).abs().max() > 0.01
    kernel = MetropolisHastings(scores)
    state, _ = kernel.step(kernel.init(torch.zeros(1000, 1, dtype=torch.int64)), g)
    up, down = (scores.table[0, 0] + scores.table[1, 1]).abs(), (scores.table[0, 1] + scores.table[3, 0]).abs()
    seen = state.memory.disagreement.unique()
    torch.testing.assert_close(seen, torch.stack([up, down]).sort().values)


def test_a_consistent_score_has_no_disagreement():
    p = pmf([0.1, 0.2, 0.3, 0.4])
    kernel = MetropolisHastings(DensityScore(p, cycle_two_way(p.space)))
    state, _ = kernel.step(kernel.init(torch.zeros(100, 1, dtype=torch.int64)), torch.Generator().manual_seed(0))
    assert state.memory.disagreement.max() < 1e-12


def test_a_step_costs_one_pass_and_says_so():
    n = hamming(Space.bits(5))
    scores = Scores(n, torch.zeros(32, 5, dtype=torch.float64))
    kernel, g = MetropolisHastings(scores), torch.Generator().manual_seed(0)
    state = kernel.init(torch.zeros(10, 5, dtype=torch.int64))
    before, told = scores.passes, 0
    for _ in range(7):
        state, info = kernel.step(state, g)
        told += info.passes
    assert scores.passes - before == told == 7


@pytest.mark.parametrize("laziness", [0.0, 0.3])
def test_impossible_states_are_never_entered(laziness):
    p = pmf([0.3, 0.0, 0.2, 0.5])
    g = torch.Generator().manual_seed(0)
    for model in (p, DensityScore(p, hamming(p.space))):
        kernel = MetropolisHastings(model, laziness=laziness)
        rows = torch.tensor([[0], [2], [3]])
        counts = step_counts(kernel, rows, 4000, g)
        assert counts[:, 1].sum() == 0
        matrix = MetropolisHastings(p, laziness=laziness).transition_matrix()
        assert_counts_follow(counts, matrix[[0, 2, 3]])
        assert_keeps(matrix, p.probabilities, reversible=True)


def test_a_state_without_neighbors_stays():
    space = Space((3,))
    kernel = MetropolisHastings(uniform_cycle(3), explicit(space, [(0, 1)]))
    state, info = kernel.step(kernel.init([[2], [2]]), torch.Generator().manual_seed(0))
    assert state.x.tolist() == [[2], [2]]
    assert not info.accepted.any()


def test_chains_are_clamped_one_by_one():
    kernel, g = MetropolisHastings(Ising((3, 3), 0.1)), torch.Generator().manual_seed(0)
    clamped = torch.rand(200, 9, generator=g) < 0.5
    start = kernel.space.uniform(200, g)
    state = kernel.init(start, clamped)
    for _ in range(200):
        state, _ = kernel.step(state, g)
    assert torch.equal(state.x[clamped], start[clamped])
    assert (state.x != start)[~clamped].double().mean() > 0.4  # the others do move


def test_bad_pieces_are_refused_before_any_work():
    p = uniform_cycle(4)
    with pytest.raises(InputError, match="same space"):
        MetropolisHastings(p, cycle(Space((5,))))
    with pytest.raises(InputError, match="same space"):
        MetropolisHastings(DensityScore(p, cycle(p.space)), cycle(Space((5,))))
    with pytest.raises(InputError, match="own neighborhood"):
        MetropolisHastings(DensityScore(p, cycle(p.space)), grid_bounded(p.space))
    with pytest.raises(InputError, match="laziness"):
        MetropolisHastings(p, laziness=1.0)
    with pytest.raises(InputError, match="reading"):
        MetropolisHastings(p, reading="backward")
    with pytest.raises(InputError, match="at least one edge"):
        MetropolisHastings(p, explicit(p.space, []))
    zero = pmf([0.5, 0.5, 0.0])
    with pytest.raises(InputError, match="positive probability"):
        MetropolisHastings(zero).init([[0], [2]])
    for broken in (torch.nan, torch.inf):
        scores = Scores(cycle_two_way(p.space), torch.full((4, 2), broken, dtype=torch.float64))
        with pytest.raises(InputError, match="finite log-ratios"):
            MetropolisHastings(scores).init([[0]])


def test_a_model_that_breaks_on_the_way_is_not_passed_over():
    n = cycle_two_way(Space((4,)))
    table = torch.zeros(4, 2, dtype=torch.float64)
    table[2] = torch.nan
    kernel, g = MetropolisHastings(Scores(n, table), reading="mean"), torch.Generator().manual_seed(0)
    with pytest.raises(InputError, match="NaN"):
        run(kernel, [[0]], steps=50, generator=g, diagnose=False)


@settings(max_examples=25)
@given(data=st.data())
def test_edges_known_one_way_are_read_that_way_whatever_else_is_impossible(data):
    """Also where the ratio the model happens to keep first is zero: at zero states, and of a raw head below -1."""
    space = Space((data.draw(st.integers(3, 5)),))
    n = data.draw(st.sampled_from([chain, cycle]))(space)
    table = torch.randn(space.num_states, n.num_slots, generator=data.draw(generators()), dtype=torch.float64)
    zero = torch.tensor(data.draw(st.lists(st.booleans(), min_size=space.num_states, max_size=space.num_states)))
    kernel = MetropolisHastings(Scores(n, table.masked_fill(zero[:, None], -torch.inf)))
    rows, g = space.enumerate(), torch.Generator().manual_seed(0)
    assert_counts_follow(step_counts(kernel, rows, 4000, g), kernel.transition_matrix())


@pytest.mark.parametrize("make", [chain, chain_two_way])
def test_a_zero_state_beside_the_way_changes_nothing(make):
    p, g = pmf([0.3, 0.5, 0.2, 0.0]), torch.Generator().manual_seed(0)
    kernel = MetropolisHastings(DensityScore(p, make(p.space)), laziness=0.1)
    state = kernel.init(p.sample(20_000, g))
    for _ in range(40):
        state, _ = kernel.step(state, g)
    share = torch.bincount(state.x[:, 0], minlength=4) / 20_000
    error = (p.probabilities * (1 - p.probabilities) / 20_000).sqrt()
    assert ((share - p.probabilities).abs() <= 4.5 * error).all()
