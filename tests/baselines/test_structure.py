"""Graphs found by counting: without cycles, with no single change that pays, and right where the rows are clear."""

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.baselines.structure import _Search, learn_structure
from concrete_score.errors import InputError
from concrete_score.models.autoregressive import parents_first
from concrete_score.randomness import generator
from concrete_score.spaces import Space
from concrete_score.targets import BayesianNetwork
from concrete_score.targets.bayesian_network import random_network


def search_of(rows, space, parents):
    found = _Search(rows.T.numpy().astype(np.int64), space.sizes, 3)
    return sum(found._score(d, frozenset(each)) for d, each in enumerate(parents))


@given(st.integers(0, 10_000), st.lists(st.integers(2, 4), min_size=2, max_size=6), st.integers(0, 3))
def test_no_cycles_no_more_parents_than_allowed_and_no_single_change_pays(seed, sizes, most):
    truth = random_network(sizes, 2, generator(seed, "network"))
    rows = truth.sample(300, generator(seed, "rows"))
    found = learn_structure(rows, truth.space, most)
    order = parents_first(found, truth.space)  # refuses cycles
    assert sorted(order) == list(range(len(sizes)))
    assert max(map(len, found)) <= most
    here = search_of(rows, truth.space, found)
    for a, b in combinations(range(len(sizes)), 2):
        for child, other in ((a, b), (b, a)):
            changed = [set(each) for each in found]
            changed[child] ^= {other}
            try:
                parents_first([sorted(each) for each in changed], truth.space)
            except InputError:
                continue
            if len(changed[child]) <= most:
                assert search_of(rows, truth.space, changed) <= here + 1e-6


def test_the_score_is_the_likelihood_less_its_price():
    rows = torch.tensor([[0, 0], [0, 0], [1, 1], [1, 0]])
    first = 4 * np.log(0.5) - np.log(4) / 2
    second = 2 * np.log(0.5) - np.log(4) / 2 * 2
    assert search_of(rows, Space.bits(2), [(), (0,)]) == pytest.approx(first + second)


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


def test_many_rows_are_drawn_from_and_others_refused():
    a = torch.randint(2, (60_000, 1), generator=generator(0, "rows"), dtype=torch.uint8)
    assert sum(map(len, learn_structure(torch.cat([a, a], 1), Space.bits(2)))) == 1
    with pytest.raises(InputError, match="2 sites"):
        learn_structure(a, Space.bits(2))
