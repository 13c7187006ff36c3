"""Densities of score models along paths."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.likelihood import PathDensity, path_spread
from concrete_score.models import DensityScore
from concrete_score.neighborhoods import Product, chain, grid, grid_bounded, hamming, moore
from concrete_score.scores import recover
from concrete_score.spaces import Space
from concrete_score.targets import Ising, Pmf
from tests.strategies import generators, spaces


@st.composite
def consistent(draw):
    space, generator = draw(spaces()), draw(generators())
    target = Pmf(space, torch.randn(space.num_states, generator=generator, dtype=torch.float64).log_softmax(0))
    neighborhood = draw(st.sampled_from([hamming, grid, grid_bounded]))(space)
    order = draw(st.permutations(range(space.num_sites)))
    reference = space.uniform(1, generator)[0]
    return target, DensityScore(target, neighborhood), reference, order


@given(consistent())
def test_consistent_scores_give_back_their_density_by_any_path(case):
    target, score, reference, order = case
    states = target.space.enumerate()
    density = PathDensity(score, reference, order)
    expected = target.log_density(states) - target.log_density(reference)
    torch.testing.assert_close(density.log_density(states), expected, rtol=1e-10, atol=1e-10)
    assert path_spread(score, states, torch.Generator().manual_seed(0), 3, reference).worst < 1e-10


class Inconsistent:
    """Random log-ratios, of no distribution."""

    def __init__(self, neighborhood, seed=0, scale=1.0):
        self.neighborhood, self.seen = neighborhood, 0
        shape = (neighborhood.space.num_states, neighborhood.num_slots)
        self.table = scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)

    def log_ratios(self, x):
        self.seen += len(x)
        return self.table[self.neighborhood.space.index(x)]


def brute_force(model, reference, x, order):
    """Walk a Hamming path by hand."""
    n, total, state = model.neighborhood, 0.0, reference.clone()
    for site in order:
        if state[site] != x[site]:
            goal = state.clone()
            goal[site] = x[site]
            slot = (n.neighbors(state) == goal).all(-1).nonzero().item()
            total += float(model.log_ratios(state[None])[0, slot])
            state = goal
    return total


def test_each_step_reads_the_edge_it_takes():
    space = Space((3, 2, 4))
    model, reference, order = Inconsistent(hamming(space)), torch.tensor([2, 0, 1]), (1, 2, 0)
    states = space.enumerate()
    found = PathDensity(model, reference, order).log_density(states)
    expected = torch.tensor([brute_force(model, reference, x, order) for x in states], dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_a_bounded_grid_is_walked_one_by_one_and_a_cycle_the_short_way():
    space = Space((6,))
    x = torch.tensor([[5]])
    for neighborhood, values in ((grid_bounded(space), [0, 1, 2, 3, 4]), (grid(space), [0])):
        model = Inconsistent(neighborhood)
        starts = torch.tensor(values)[:, None]
        goals = torch.cat([starts[1:], x])
        slots = (neighborhood.neighbors(starts) == goals[:, None]).all(-1).int().argmax(-1)
        expected = model.table[starts[:, 0], slots].sum()
        torch.testing.assert_close(PathDensity(model).log_density(x), expected[None])


def test_at_most_one_pass_a_site_and_none_for_the_reference():
    space = Space.bits(6)
    model = Inconsistent(hamming(space))
    density = PathDensity(model)
    density.log_density(torch.zeros(5, 6, dtype=torch.int64))
    assert model.seen == 0
    density.log_density(torch.ones(5, 6, dtype=torch.int64))
    assert model.seen == 5 * 6


def test_spread_measures_inconsistency_in_proportion():
    space = Space.bits(4)
    spreads = [
        path_spread(Inconsistent(hamming(space), scale=s), space.enumerate(), torch.Generator().manual_seed(0), 6).mean
        for s in (0.1, 0.2)
    ]
    assert spreads[0] > 0.01
    assert spreads[1] == pytest.approx(2 * spreads[0])


def test_agrees_with_recovery_by_least_squares_when_consistent():
    model = Ising((2, 3), 0.5)
    score = DensityScore(model, hamming(model.space))
    states = model.space.enumerate()
    recovered = recover(score.log_ratios(states), score.neighborhood).log_pmf
    torch.testing.assert_close(PathDensity(score).log_density(states).log_softmax(0), recovered)


def test_leading_axes_and_chunks(monkeypatch):
    from concrete_score.likelihood import path_density

    space = Space((3, 3))
    density = PathDensity(Inconsistent(hamming(space)))
    whole = density.log_density(space.enumerate())
    monkeypatch.setattr(path_density, "CHUNK", 1)
    assert density.log_density(space.enumerate().reshape(3, 3, 2)).flatten().equal(whole)


def test_784_sites_need_no_table():
    space = Space.bits(784)

    class Field:
        neighborhood = hamming(space)

        def log_ratios(self, x):
            return 1.0 - 2.0 * x.double()

    x = space.uniform(2, torch.Generator().manual_seed(0))
    torch.testing.assert_close(PathDensity(Field()).log_density(x), x.sum(-1).double())


def test_refusals():
    space = Space((3, 3))
    good = Inconsistent(hamming(space))
    for match, call in {
        "edges change one site": lambda: PathDensity(Inconsistent(moore(space))),
        "score model": lambda: PathDensity(Ising((2, 2), 0.1)),
        "reference": lambda: PathDensity(good, [0, 3]),
        "one state": lambda: PathDensity(good, [[0, 0]]),
        "order": lambda: PathDensity(good, order=(0, 0)),
        "no way from 1 to 0": lambda: PathDensity(Inconsistent(chain(Space((4,)))), [1]),
        "at least 2": lambda: path_spread(good, space.enumerate(), torch.Generator(), orders=1),
    }.items():
        with pytest.raises(InputError, match=match):
            call()
    assert isinstance(good.neighborhood, Product)


def test_orders_are_all_different_so_that_a_contradiction_is_always_seen():
    space = Space((5, 5))
    score, x = Inconsistent(grid(space)), space.enumerate()
    found = {round(path_spread(score, x, torch.Generator().manual_seed(seed)).mean, 9) for seed in range(40)}
    assert len(found) == 1  # two sites have two orders, and both are walked
    assert found.pop() > 0.1


def test_one_site_has_one_path():
    p = Pmf(Space((4,)), torch.randn(4, generator=torch.Generator().manual_seed(0)).double().log_softmax(0))
    assert path_spread(DensityScore(p, hamming(p.space)), p.space.enumerate(), torch.Generator()).worst == 0
