"""Graphs found by counting: acyclic, no worse than the slow search finds them, and right where rows are clear."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.baselines import structure
from concrete_score.baselines.structure import Climb, Families, learn_structure
from concrete_score.errors import InputError
from concrete_score.fitting import load_splits
from concrete_score.models.autoregressive import parents_first
from concrete_score.randomness import generator
from concrete_score.spaces import Space
from concrete_score.targets import BayesianNetwork
from concrete_score.targets.bayesian_network import random_network
from tests.baselines.slow_structure import changes, slow_log_likelihood, slow_score, slow_structure

mixed_sizes = st.lists(st.integers(1, 5), min_size=2, max_size=5)


def drawn(seed, sizes, count):
    return random_network(sizes, 2, generator(seed, "network")).sample(count, generator(seed, "rows"))


@given(st.integers(0, 10_000), mixed_sizes, st.booleans(), st.booleans(), st.booleans())
def test_gains_are_differences_of_enumerated_log_likelihoods(seed, sizes, blanks, weighted, by_lines):
    rng = np.random.default_rng(seed)
    rows = drawn(seed, sizes, 70).numpy()  # more than one word of bits, and not whole ones
    observed = rng.random(rows.shape) < 0.8 if blanks else np.ones(rows.shape, dtype=bool)
    weights = rng.random(70) + 0.1 if weighted else None
    kept = structure.CHEAP
    structure.CHEAP = 10**6 if by_lines else -1
    try:
        counted = Families(rows.T.copy(), tuple(sizes), observed.T.copy() if blanks else None, weights)
        child, *others = rng.permutation(len(sizes)).tolist()
        parents, candidates = others[: len(others) // 2], others[len(others) // 2 :]
        gains = counted.gains(child, parents, np.array(candidates, dtype=np.int64))
        likelihood = counted.log_likelihood(child, parents)
    finally:
        structure.CHEAP = kept
    known = np.where(observed, rows.astype(object), None).tolist()
    assert likelihood == pytest.approx(slow_log_likelihood(known, sizes, child, parents, weights), abs=1e-9)
    for candidate, gain in zip(candidates, gains, strict=True):
        # Both on the rows in which the candidate is known too.
        here = [[None] * len(row) if row[candidate] is None else row for row in known]
        more = slow_log_likelihood(here, sizes, child, [*parents, candidate], weights)
        assert gain == pytest.approx(more - slow_log_likelihood(here, sizes, child, parents, weights), abs=1e-9)


@given(st.integers(0, 10_000), mixed_sizes, st.booleans(), st.integers(1, 30))
def test_gains_of_all_pairs_by_products_are_those_of_each(seed, sizes, blanks, lines):
    rng = np.random.default_rng(seed)
    rows = drawn(seed, sizes, 70).numpy()
    observed = (rng.random(rows.shape) < 0.8).T.copy() if blanks else None
    counted = Families(rows.T.copy(), tuple(sizes), observed)
    kept, structure.LINES = structure.LINES, lines
    told = []
    try:
        pairs = counted.pair_gains(lambda done, total: told.append(done / total))
    finally:
        structure.LINES = kept
    for child in range(len(sizes)):
        others = np.delete(np.arange(len(sizes)), child)
        assert pairs[child, others] == pytest.approx(counted.gains(child, (), others), abs=1e-9)
    assert told == sorted(told)
    assert (told[0], told[-1]) == (0, 1)


def test_pairs_counted_at_once_lead_to_the_same_network(monkeypatch):
    rows = drawn(5, [12, 13, 2, 14, 3, 12, 20, 2], 2_000)
    space = Space((12, 13, 2, 14, 3, 12, 20, 2))
    found = learn_structure(rows, space)
    monkeypatch.setattr(structure, "CHEAP", 10**6)
    assert sum(map(len, found)) > 3
    assert learn_structure(rows, space) == found


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.lists(st.integers(1, 3), min_size=2, max_size=4), st.integers(0, 3))
def test_never_below_the_slow_search(seed, sizes, most):
    rows = drawn(seed, sizes, 60)
    found, slow = learn_structure(rows, Space(tuple(sizes)), most), slow_structure(rows.tolist(), sizes, most)
    assert slow_score(rows.tolist(), sizes, found) >= slow_score(rows.tolist(), sizes, slow) - 1e-6


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.lists(st.integers(2, 4), min_size=2, max_size=5), st.integers(0, 3))
def test_no_cycles_no_more_parents_than_allowed_and_no_single_change_pays(seed, sizes, most):
    rows = drawn(seed, sizes, 100)
    found = learn_structure(rows, Space(tuple(sizes)), most)
    assert sorted(parents_first(found, Space(tuple(sizes)))) == list(range(len(sizes)))  # refuses cycles
    assert max(map(len, found)) <= most
    here = slow_score(rows.tolist(), sizes, found)
    for other, _ in changes([set(each) for each in found], most):
        assert slow_score(rows.tolist(), sizes, other) <= here + 1e-6


def test_the_score_is_the_likelihood_less_its_price():
    rows = np.array([[0, 0], [0, 0], [1, 1], [1, 0]])
    first = 4 * np.log(0.5) - np.log(4) / 2
    second = 2 * np.log(0.5) - np.log(4) / 2 * 2
    assert Climb(Families(rows.T.copy(), (2, 2)), 3).score(((), (0,))) == pytest.approx(first + second)


@pytest.mark.parametrize(("name", "score"), [("nltcs", -99741.153), ("media", -32956.384), ("plants", -237684.731)])
def test_real_rows_score_as_the_plain_greedy_search_did(name, score, data_dir):
    parts = load_splits(name)
    found = learn_structure(parts.train, parts.space)
    climb = Climb(Families(np.ascontiguousarray(parts.train.T), parts.space.sizes), 3)
    assert climb.score(found) >= score - 0.001


def test_a_collider_is_found_with_its_direction():
    # Two causes that are independent until their effect is seen: only this graph says so.
    table = [[[0.95, 0.05], [0.2, 0.8]], [[0.3, 0.7], [0.9, 0.1]]]
    truth = BayesianNetwork(Space.bits(3), ((), (), (0, 1)), ([0.4, 0.6], [0.7, 0.3], table))
    rows = truth.sample(5000, generator(0, "rows"))
    assert learn_structure(rows, truth.space) == ((), (), (0, 1))


def test_independent_columns_stay_alone_and_copies_are_joined():
    rows = Space((2, 3, 2)).uniform(4000, generator(0, "rows"))
    assert learn_structure(rows, Space((2, 3, 2))) == ((), (), ())
    rows[:, 2] = rows[:, 0]
    assert learn_structure(rows, Space((2, 3, 2))) in (((), (), (0,)), ((2,), (), ()))


def test_blanks_and_weights_leave_a_clear_dependence_clear():
    gen = generator(0, "rows")
    rows = Space((2, 3, 2)).uniform(3000, gen)
    rows[:, 2] = rows[:, 0]
    observed = torch.rand(rows.shape, generator=gen) < 0.7
    rows[~observed] = 0  # what stands in a blank must not matter
    found = learn_structure(rows, Space((2, 3, 2)), observed=observed)
    assert found in (((), (), (0,)), ((2,), (), ()))
    noise = Space((2, 3, 2)).uniform(3000, gen)
    both, weights = torch.cat([rows, noise]), torch.cat([torch.ones(3000), torch.full((3000,), 1e-9)])
    seen = torch.cat([observed, torch.ones_like(observed)])
    assert learn_structure(both, Space((2, 3, 2)), observed=seen, weights=weights) == found


def test_a_wide_chain_is_found_among_its_nearest_columns(monkeypatch):
    monkeypatch.setattr(structure, "CANDIDATES", 8)
    gen, sites = generator(0, "rows"), 200
    flips = (torch.rand(2000, sites, generator=gen) < 0.2).long()
    rows = flips.cumsum(1).remainder(2).to(torch.uint8)
    told = []
    found = learn_structure(rows, Space.bits(sites), tell=lambda done, total: told.append((done, total)))
    links = {frozenset((d, p)) for d, parents in enumerate(found) for p in parents}
    assert sum(frozenset((d, d + 1)) in links for d in range(sites - 1)) == sites - 1
    assert sum(map(len, found)) <= 1.05 * sites
    assert told[-1] == (sites + sum(map(bool, found)), 2 * sites)


def test_several_searches_are_told_as_one_that_only_goes_forward():
    gen, told = generator(0, "rows"), []
    rows = torch.stack([torch.randint(size, (60,), generator=gen) for size in (2, 3, 9, 2, 20)], 1)
    rows[:, 3] = rows[:, 0]
    learn_structure(rows, Space((2, 3, 9, 2, 20)), tell=lambda done, total: told.append(done / total))
    assert told == sorted(told)
    assert told[0] <= 0.1
    assert 0.5 < told[-1] <= 1.0


def test_less_of_the_penalty_finds_more():
    rows = drawn(3, [2] * 8, 200)
    few, many = (sum(map(len, learn_structure(rows, Space.bits(8), penalty=p))) for p in (1.0, 0.1))
    assert few < many


def test_many_rows_are_drawn_from_and_others_refused():
    a = torch.randint(2, (60_000, 1), generator=generator(0, "rows"), dtype=torch.uint8)
    assert sum(map(len, learn_structure(torch.cat([a, a], 1), Space.bits(2)))) == 1
    with pytest.raises(InputError, match="2 sites"):
        learn_structure(a, Space.bits(2))


def test_columns_of_many_values_are_children_of_the_few_valued_ones_they_depend_on():
    """Each of four columns of 9 values shows most of two columns of three; they tell each other more than these do."""
    random = generator(0, "wide columns")
    a, b = (torch.randint(3, (4_000,), generator=random) for _ in range(2))
    wide = []
    for _ in range(4):
        noise = torch.randint(9, a.shape, generator=random)
        shown = torch.randperm(9, generator=random)[3 * a + b]
        wide.append(torch.where(torch.rand(a.shape, generator=random) < 0.8, shown, noise))
    rows, space = torch.stack([*wide, a, b], 1), Space((9, 9, 9, 9, 3, 3))
    assert learn_structure(rows, space) == ((4, 5),) * 4 + ((), ())

    families = Families(rows.T.numpy(), space.sizes)
    greedy = Climb(families, 3).run()
    assert any(set(each) & set(range(4)) for each in greedy)  # without stages: wide columns depend on one another
    assert Climb(families, 3).score(greedy) < Climb(families, 3).score(learn_structure(rows, space))
