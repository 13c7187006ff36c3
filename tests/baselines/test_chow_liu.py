"""The tree is the best tree, a known tree is found again, and messages stay exact where products would vanish."""

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.stats import contingency, entropy

from concrete_score.baselines import ChowLiu, chow_liu
from concrete_score.baselines.chow_liu import maximum_spanning_tree, mutual_information
from concrete_score.errors import InputError
from concrete_score.models import pairs
from concrete_score.randomness import generator
from concrete_score.spaces import Space

MIXED = Space((2, 3, 1, 4))


def random_rows(space, n, seed):
    g = generator(seed, "rows")
    weights = torch.empty(space.num_states, dtype=torch.float64).exponential_(generator=g) ** 2
    return space.state(torch.multinomial(weights, n, replacement=True, generator=g))


def naive_information(rows, d, e, sizes, pseudo_count=0.0):
    """Mutual information of two columns from their contingency table, cell by cell."""
    table = contingency.crosstab(rows[:, d], rows[:, e], levels=(range(sizes[d]), range(sizes[e]))).count
    p = table + pseudo_count / table.size
    p = p / p.sum()
    return entropy(p.sum(0)) + entropy(p.sum(1)) - entropy(p.ravel())


def edges_of(parents):
    return {frozenset((d, p)) for d, p in enumerate(parents) if p >= 0}


def spanning_trees(sites):
    """All of them: sets of ``sites - 1`` edges that join everything."""
    pairs = list(combinations(range(sites), 2))
    for edges in combinations(pairs, sites - 1):
        reached = {0}
        for _ in edges:
            reached |= {b for a, b in edges if a in reached} | {a for a, b in edges if b in reached}
        if len(reached) == sites:
            yield edges


def tree_log_likelihood(rows, edges):
    """The maximum log-likelihood of a tree: pair frequencies over the edges, divided by repeated sites."""
    total = 0.0
    count = lambda columns: np.unique(rows[:, columns], axis=0, return_inverse=True, return_counts=True)[1:]  # noqa: E731
    degree = np.bincount(np.array(edges).ravel(), minlength=rows.shape[1])
    for columns, power in [*((list(e), 1) for e in edges), *(([d], 1 - k) for d, k in enumerate(degree))]:
        inverse, counts = count(columns)
        total += power * np.log(counts[inverse.ravel()] / len(rows)).sum()
    return total


@pytest.mark.parametrize("wide", [0, 8])
@pytest.mark.parametrize("pseudo_count", [0.0, 2.5])
def test_mutual_information_is_that_of_the_smoothed_pairs(pseudo_count, wide, monkeypatch):
    monkeypatch.setattr(pairs, "WIDE", wide)
    rows = random_rows(MIXED, 50, 0)
    ours = mutual_information(rows, MIXED, pseudo_count)
    for d, e in combinations(range(4), 2):
        expected = naive_information(rows.numpy(), d, e, MIXED.sizes, pseudo_count)
        assert abs(ours[d, e].item() - expected) < 1e-12
        assert abs(ours[e, d].item() - expected) < 1e-12


def test_pairs_counted_in_blocks_are_the_same_pairs(monkeypatch):
    rows = random_rows(MIXED, 50, 1).to(torch.uint8)
    whole = mutual_information(rows, MIXED, 1.0)
    monkeypatch.setattr(chow_liu, "PAIR_FLOATS", 30)
    torch.testing.assert_close(mutual_information(rows, MIXED, 1.0), whole, rtol=0, atol=1e-14)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("sizes", [(2, 2, 2, 2), (2, 3, 2, 4)])
def test_no_spanning_tree_is_better(seed, sizes):
    space = Space(sizes)
    rows = random_rows(space, 60, seed)
    model = ChowLiu.fit(rows, space, pseudo_count=0)
    every = list(spanning_trees(4))
    assert len(every) == 16
    information = [sum(naive_information(rows.numpy(), d, e, sizes) for d, e in tree) for tree in every]
    likelihood = [tree_log_likelihood(rows.numpy(), tree) for tree in every]
    chosen = [{frozenset(edge) for edge in tree} for tree in every].index(edges_of(model.parents))
    assert abs(information[chosen] - max(information)) < 1e-12  # the best, or tied with it
    ours = model.log_density(rows).sum().item()
    assert abs(ours - max(likelihood)) < 1e-9
    assert min(likelihood) < ours - 1


@pytest.mark.parametrize("seed", range(5))
def test_a_known_tree_is_found_again(seed):
    """Each child copies its parent (modulo its size) with probability 0.7, else is uniform."""
    space = Space((3, 2, 4, 3, 2, 3, 4))
    g = generator(seed, "tree")
    parents = (-1, *(int(torch.randint(d, (), generator=g)) for d in range(1, 7)))
    uniform = torch.stack([torch.arange(4) < size for size in space.sizes]).double()
    uniform = uniform / uniform.sum(-1, keepdim=True)
    copies = torch.stack([torch.nn.functional.one_hot(torch.arange(4) % size, 4) for size in space.sizes]).double()
    tables = 0.3 * uniform[:, None] + 0.7 * copies
    tables[0] = uniform[0]
    for d, parent in enumerate(parents):
        tables[d, (space.sizes[parent] if parent >= 0 else 1) :] = 0.0
    truth = ChowLiu(space, parents, tables.log())
    found = ChowLiu.fit(truth.sample(20_000, g), space)
    assert edges_of(found.parents) == edges_of(parents)
    x = truth.sample(5_000, g)
    gap = truth.log_density(x) - found.log_density(x)
    assert gap.mean() < 5e-3


def test_pairs_of_the_fitted_tree_are_the_smoothed_pairs_of_the_data():
    """So the density does not depend on where the tree is rooted."""
    space, pseudo_count = Space((2, 3, 2, 4)), 1.5
    rows = random_rows(space, 80, 3)
    model = ChowLiu.fit(rows, space, pseudo_count=pseudo_count)
    for d, parent in enumerate(model.parents):
        if parent < 0:
            continue
        pair = Space((space.sizes[parent], space.sizes[d])).enumerate()
        x = torch.zeros(len(pair), 4, dtype=torch.int64)
        x[:, [parent, d]] = pair
        observed = torch.zeros(4, dtype=torch.bool)
        observed[[parent, d]] = True
        counts = (rows[:, [parent, d]] == pair[:, None]).all(-1).sum(-1).double()
        expected = (counts + pseudo_count / len(pair)) / (len(rows) + pseudo_count)
        ours = model.log_marginal(x, observed.expand_as(x)).exp()
        torch.testing.assert_close(ours, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("pseudo_count", [0, 4])
def test_columns_that_never_change_still_get_a_tree(pseudo_count):
    """All mutual information is 0, which a sparse matrix would read as no edges at all."""
    model = ChowLiu.fit(torch.zeros(5, 4, dtype=torch.uint8), MIXED, pseudo_count=pseudo_count)
    assert len(edges_of(model.parents)) == 3
    assert abs(model.log_density(MIXED.enumerate()).exp().sum().item() - 1) < 1e-12


def test_one_site_is_a_tree():
    model = ChowLiu.fit([[0], [0], [2]], Space((3,)), pseudo_count=0)
    assert model.parents == (-1,)
    torch.testing.assert_close(
        model.log_density(torch.arange(3)[:, None]).exp(), torch.tensor([2 / 3, 0, 1 / 3], dtype=torch.float64)
    )


def test_a_parent_value_never_seen_has_a_uniform_child():
    model = ChowLiu.fit([[0, 0], [1, 1]], Space((3, 2)), pseudo_count=0)
    assert model.parents == (-1, 0)
    assert model.log_tables[1].exp().tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]


def test_a_forest_answers_like_its_separate_trees():
    g = generator(0, "forest")
    tables = torch.randn(5, 3, 3, dtype=torch.float64, generator=g).log_softmax(-1)
    parents = (2, -1, -1, 1, 3)
    tables[[1, 2], 1:] = -torch.inf
    space = Space((3,) * 5)
    model = ChowLiu(space, parents, tables)
    assert abs(model.log_density(space.enumerate()).exp().sum().item() - 1) < 1e-12
    x = space.uniform(30, g)
    observed = torch.rand(x.shape, generator=g) < 0.5
    left = torch.tensor([True, False, True, False, False])  # the tree of sites 0 and 2
    parts = [model.log_marginal(x, observed & side) for side in (left, ~left)]
    torch.testing.assert_close(model.log_marginal(x, observed), parts[0] + parts[1], rtol=1e-12, atol=0)
    alone = model.site_log_conditionals(x, observed & left)[:, left]
    torch.testing.assert_close(model.site_log_conditionals(x, observed)[:, left], alone, rtol=1e-10, atol=1e-12)


def test_messages_do_not_vanish_on_long_trees():
    """A star of 2,000 leaves whose evidence e^{±4000} decides its center, and a probability far below any float."""
    leaves = 2_000
    table = torch.tensor([[0.99, 0.01], [0.05, 0.95]], dtype=torch.float64).log()
    tables = table.repeat(leaves + 1, 1, 1)
    tables[0] = torch.tensor([[0.5, 0.5], [0.0, 0.0]], dtype=torch.float64).log()
    model = ChowLiu(Space.bits(leaves + 1), (-1,) + (0,) * leaves, tables)
    x = torch.zeros(3, leaves + 1, dtype=torch.int64)
    x[1], x[2, ::2] = 1, 1
    observed = torch.ones_like(x, dtype=torch.bool)
    observed[:, 0] = False
    n1 = x[:, 1:].sum(-1, keepdim=True)
    joint = np.log(0.5) + (leaves - n1) * table[:, 0] + n1 * table[:, 1]
    torch.testing.assert_close(model.log_marginal(x, observed), joint.logsumexp(-1), rtol=1e-12, atol=0)
    ours = model.site_log_conditionals(x, observed)[:, 0]
    torch.testing.assert_close(ours, joint.log_softmax(-1), rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("parents", [(1, 0, -1), (0, -1, -1), (-1, 3, 0), (-1, 0)])
def test_parents_that_are_no_forest_are_refused(parents):
    with pytest.raises(InputError, match="parents: expected"):
        ChowLiu(Space.bits(3), parents, torch.zeros(3, 2, 2, dtype=torch.float64))


def test_the_tree_keeps_the_order_of_tiny_weights():
    """Differences far below the rounding of a shifted weight still decide."""
    weights = torch.tensor([[0.0, 1e-30, 2e-30], [1e-30, 0.0, 3e-30], [2e-30, 3e-30, 0.0]], dtype=torch.float64)
    assert edges_of(maximum_spanning_tree(weights)) == {frozenset((0, 2)), frozenset((1, 2))}
