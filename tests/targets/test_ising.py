import itertools
import math

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.protocols import DensityModel
from concrete_score.targets import Ising, log_normalizer


def lattice(rows: int, columns: int, periodic: bool) -> nx.Graph:
    """The lattice as a plain simple graph, one edge at a time."""
    graph = nx.Graph()
    graph.add_nodes_from(itertools.product(range(rows), range(columns)))
    for i, j in list(graph):
        for other in ((i + 1, j), (i, j + 1)):
            if periodic:
                other = (other[0] % rows, other[1] % columns)
            if other in graph and other != (i, j):
                graph.add_edge((i, j), other)
    return graph


def by_edges(model: Ising, x: list[int]) -> float:
    rows, columns = model.shape
    spin = {(i, j): 2 * x[i * columns + j] - 1 for i in range(rows) for j in range(columns)}
    bonds = sum(spin[a] * spin[b] for a, b in lattice(rows, columns, model.periodic).edges)
    return model.inverse_temperature * bonds + model.field * sum(spin.values())


models = st.builds(
    Ising,
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.floats(-2, 2),
    st.floats(-1, 1),
    st.booleans(),
)


@given(models, st.integers(0, 1000))
def test_log_density_counts_every_lattice_bond_once(model, seed):
    assert isinstance(model, DensityModel)
    x = model.space.uniform(6, torch.Generator().manual_seed(seed))
    expected = torch.tensor([by_edges(model, row) for row in x.tolist()], dtype=torch.float64)
    found = model.log_density(x.reshape(2, 3, -1))
    assert found.dtype == torch.float64
    assert torch.allclose(found.reshape(-1), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize(
    "shape", [(1, 1), (1, 2), (2, 1), (1, 7), (7, 1), (2, 2), (2, 5), (3, 3), (3, 4), (5, 3), (4, 4)]
)
@pytest.mark.parametrize(("coupling", "field"), [(0.44, 0.0), (-0.7, 0.3), (2.5, -0.1), (0.0, 0.0)])
def test_transfer_matrix_equals_enumeration(shape, periodic, coupling, field):
    model = Ising(shape, coupling, field, periodic)
    assert math.isclose(model.log_partition(), log_normalizer(model).item(), rel_tol=1e-12, abs_tol=1e-10)


def test_large_lattices_neither_overflow_nor_underflow():
    cold = Ising((9, 40), 30.0)
    # Two ground states share all 720 bonds' energy; everything else is e^-240 away.
    assert math.isclose(cold.log_partition(), 30.0 * 720 + math.log(2), rel_tol=1e-13)
    assert math.isclose(Ising((40, 9), 0.0).log_partition(), 360 * math.log(2), rel_tol=1e-13)
    assert math.isclose(Ising((40, 9), 0.3).log_partition(), Ising((9, 40), 0.3).log_partition(), rel_tol=1e-13)


def test_a_long_open_line_has_its_closed_form():
    n, coupling = 500, 0.8
    expected = n * math.log(2) + (n - 1) * math.log(math.cosh(coupling))
    assert math.isclose(Ising((1, n), coupling, periodic=False).log_partition(), expected, rel_tol=1e-12)


def test_a_long_ring_has_its_closed_form():
    n, coupling = 500, 0.8
    expected = n * math.log(2 * math.cosh(coupling)) + math.log1p(math.tanh(coupling) ** n)
    assert math.isclose(Ising((1, n), coupling).log_partition(), expected, rel_tol=1e-12)


def test_bad_lattices_are_refused():
    with pytest.raises(InputError, match="one side of at most 12, got 13 × 20"):
        Ising((13, 20), 0.1).log_partition()
    with pytest.raises(InputError, match="two sides of at least 1"):
        Ising((0, 3), 0.1)
    with pytest.raises(InputError, match="inverse_temperature: expected a finite number"):
        Ising((3, 3), math.nan)
