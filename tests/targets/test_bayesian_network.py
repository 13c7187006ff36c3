import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.protocols import DensityModel, Samplable
from concrete_score.spaces import Space
from concrete_score.targets import BayesianNetwork, random_network

networks = st.builds(
    lambda sizes, parents, seed: random_network(sizes, parents, torch.Generator().manual_seed(seed), 0.5),
    st.lists(st.integers(1, 4), min_size=1, max_size=5),
    st.integers(0, 4),
    st.integers(0, 10_000),
)


def product(network: BayesianNetwork, x: tuple[int, ...]) -> float:
    result = 1.0
    for d, table in enumerate(network.tables):
        result *= float(table[tuple(x[p] for p in network.parents[d])][x[d]])
    return result


@given(networks)
def test_density_is_the_product_of_table_entries_and_sums_to_one(network):
    assert isinstance(network, DensityModel)
    assert isinstance(network, Samplable)
    states = list(itertools.product(*map(range, network.space.sizes)))
    expected = torch.tensor([product(network, x) for x in states], dtype=torch.float64)
    found = network.log_density(torch.tensor(states)).exp()
    assert torch.allclose(found, expected, rtol=1e-11, atol=0)
    assert math.isclose(found.sum().item(), 1, abs_tol=1e-12)
    assert torch.allclose(network.joint().probabilities, expected, rtol=1e-11, atol=0)


@given(networks)
def test_marginals_are_sums_of_the_joint_and_order_puts_parents_first(network):
    table = network.joint().probabilities.reshape(network.space.sizes)
    for d, marginal in enumerate(network.marginals()):
        others = tuple(k for k in range(network.space.num_sites) if k != d)
        assert torch.allclose(marginal, table.sum(others) if others else table, rtol=1e-11, atol=0)
        assert all(network.order.index(p) < network.order.index(d) for p in network.parents[d])


@given(networks, st.integers(1, 4))
def test_random_networks_respect_their_bounds(network, limit):
    again = random_network(network.space.sizes, limit, torch.Generator().manual_seed(limit))
    assert all(len(p) <= limit for p in again.parents)
    assert again.space == network.space


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ancestral_samples_follow_the_joint(goodness_of_fit, generator, seed):
    network = random_network([3, 2, 4, 2, 3], 3, torch.Generator().manual_seed(seed), 0.7)
    drawn = network.space.index(network.sample(100_000, generator))
    assert goodness_of_fit(drawn, network.joint().probabilities) > 1e-3
    other = random_network([3, 2, 4, 2, 3], 3, torch.Generator().manual_seed(seed + 10), 0.7)
    assert goodness_of_fit(drawn, other.joint().probabilities) < 1e-12


def test_dirichlet_rows_have_the_mean_and_variance_of_their_concentration():
    concentration, size, rows = 0.5, 4, 2000
    network = random_network([size] * rows, 0, torch.Generator().manual_seed(11), concentration)
    table = torch.stack(list(network.tables))
    # Var p = (1/V)(1 - 1/V) / (V a + 1), and one row's entries are independent of another's.
    variance = (1 / size) * (1 - 1 / size) / (size * concentration + 1)
    squares = (table[:, 0] - 1 / size) ** 2
    assert abs((table[:, 0].mean() - 1 / size) / math.sqrt(variance / rows)) < 4
    assert abs((squares.mean() - variance) / (squares.std() / math.sqrt(rows))) < 4


def test_names_and_values_have_plain_defaults():
    network = BayesianNetwork(Space((2, 3)), ((), ()), ([0.5, 0.5], [0.2, 0.3, 0.5]))
    assert network.names == ("x0", "x1")
    assert network.values == (("0", "1"), ("0", "1", "2"))


HALF = [0.5, 0.5]
BAD = {
    "cycle": ({"parents": ((1,), (0,)), "tables": ([HALF, HALF], [HALF, HALF])}, "no cycle .*x[01] -> x[01] -> x[01]"),
    "own parent": ({"parents": ((0,), ()), "tables": ([HALF, HALF], HALF)}, "no cycle among the parents, got x0 -> x0"),
    "unknown parent": ({"parents": ((), (7,)), "tables": (HALF, [HALF, HALF])}, r"parents of 'x1': .*got \[7\]"),
    "parent twice": ({"parents": ((), (0, 0)), "tables": (HALF, [HALF, HALF])}, r"parents of 'x1': .*got \[0, 0\]"),
    "shape": ({"parents": ((), (0,)), "tables": (HALF, HALF)}, r"table of 'x1': expected shape \(2, 2\), got \(2,\)"),
    "row sum": ({"parents": ((), (0,)), "tables": (HALF, [HALF, [0.5, 0.6]])}, r"table of 'x1'\[1\]: .* got 1\.1"),
    "negative": ({"parents": ((), ()), "tables": (HALF, [1.5, -0.5])}, r"table of 'x1'\[1\]: .* got -0\.5"),
    "nan": ({"parents": ((), ()), "tables": ([math.nan, 1.0], HALF)}, r"table of 'x0'\[0\]: .* got nan"),
    "few tables": (
        {"parents": ((), ()), "tables": (HALF,)},
        "tables: .* each of 2 variables, got 1",
    ),
    "few parents": ({"parents": ((),), "tables": (HALF, HALF)}, "parents: expected one entry"),
    "few names": ({"parents": ((), ()), "tables": (HALF, HALF), "names": ("a",)}, "names: expected one entry"),
    "same names": ({"parents": ((), ()), "tables": (HALF, HALF), "names": ("a", "a")}, "distinct names"),
    "values": (
        {"parents": ((), ()), "tables": (HALF, HALF), "values": (("n", "y"), ("n", "y", "?"))},
        "values of 'x1': expected 2 distinct names",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_networks_are_refused_by_name(case):
    arguments, message = BAD[case]
    with pytest.raises(InputError, match=message):
        BayesianNetwork(Space((2, 2)), **arguments)


def test_bad_random_networks_are_refused():
    with pytest.raises(InputError, match="concentration: expected a positive number"):
        random_network([2, 2], 1, torch.Generator(), 0.0)
    with pytest.raises(InputError, match="max_parents"):
        random_network([2, 2], -1, torch.Generator())


def test_leaves_are_nobodys_parents_and_have_parents_themselves():
    leaves = {0, 3, 4}
    for seed in range(20):
        network = random_network([2, 3, 2, 4, 3, 2], 2, torch.Generator().manual_seed(seed), leaves=leaves)
        assert not leaves & {parent for each in network.parents for parent in each}
    assert any(network.parents[d] for d in leaves)
