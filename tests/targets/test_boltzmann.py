"""Ising lattices and restricted Boltzmann machines against brute force, by edges and by hidden states."""

import itertools
import math

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.protocols import DensityModel, Samplable
from concrete_score.targets import RBM, Ising, from_density, log_normalizer, random_rbm


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


def seeded(visible: int, hidden: int, seed: int, scale: float = 1.0) -> RBM:
    return random_rbm(visible, hidden, scale, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("visible", "hidden"), [(1, 1), (3, 2), (2, 4), (4, 4)])
@pytest.mark.parametrize("seed", [0, 1])
def test_log_density_is_the_joint_summed_over_every_hidden_state(visible, hidden, seed):
    model = seeded(visible, hidden, seed, scale=3.0)
    assert isinstance(model, DensityModel)
    assert isinstance(model, Samplable)
    for v in itertools.product((0, 1), repeat=visible):
        total = 0.0
        for h in itertools.product((0, 1), repeat=hidden):
            energy = sum(v[i] * float(model.visible_bias[i]) for i in range(visible))
            energy += sum(h[j] * float(model.hidden_bias[j]) for j in range(hidden))
            energy += sum(v[i] * float(model.weights[i, j]) * h[j] for i in range(visible) for j in range(hidden))
            total += math.exp(energy)
        assert math.isclose(model.log_density(torch.tensor(v)).item(), math.log(total), rel_tol=1e-12, abs_tol=1e-12)


@pytest.mark.parametrize(("visible", "hidden"), [(1, 5), (6, 3), (3, 6), (12, 4), (10, 10), (14, 9)])
@pytest.mark.parametrize(("seed", "scale"), [(0, 0.3), (1, 2.0), (2, 20.0)])
def test_log_partition_equals_enumeration_of_the_visible_bits(visible, hidden, seed, scale):
    model = seeded(visible, hidden, seed, scale)
    assert math.isclose(model.log_partition(), log_normalizer(model).item(), rel_tol=1e-13, abs_tol=1e-10)


def test_a_hidden_layer_too_large_to_enumerate_is_met_from_the_visible_side():
    # The transposed machine has the same partition function, found by enumerating the same small layer.
    model = seeded(3, 22, 4)
    mirrored = RBM(model.weights.T, model.hidden_bias, model.visible_bias)
    assert math.isclose(model.log_partition(), mirrored.log_partition(), rel_tol=1e-14)
    assert math.isclose(model.log_partition(), log_normalizer(mirrored).item(), rel_tol=1e-13)


def test_chunks_do_not_change_the_result(monkeypatch):
    whole = seeded(9, 7, 0).log_partition()
    monkeypatch.setattr("concrete_score.targets.boltzmann._CHUNK_NUMBERS", 30)
    assert math.isclose(whole, seeded(9, 7, 0).log_partition(), rel_tol=1e-14)


@pytest.mark.parametrize(("visible", "hidden"), [(6, 3), (3, 6)])
def test_samples_follow_the_visible_distribution(goodness_of_fit, generator, visible, hidden):
    model = seeded(visible, hidden, 7, scale=1.5)
    drawn = model.space.index(model.sample(100_000, generator))
    assert goodness_of_fit(drawn, from_density(model).probabilities) > 1e-3
    assert goodness_of_fit(drawn, from_density(seeded(visible, hidden, 8)).probabilities) < 1e-12


def test_bad_machines_are_refused():
    with pytest.raises(InputError, match="at most 20 units to enumerate, got 21 visible and 22 hidden"):
        seeded(21, 22, 0).log_partition()
    with pytest.raises(InputError, match="weights: expected finite numbers"):
        RBM(torch.full((2, 2), math.nan), torch.zeros(2), torch.zeros(2))
    with pytest.raises(InputError, match=r"visible_bias \(V,\) .* got shapes \(\(3, 2\), \(2,\), \(3,\)\)"):
        RBM(torch.zeros(3, 2), torch.zeros(2), torch.zeros(3))
