"""Support diagnosis against brute force, and at a million rows."""

import networkx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.neighborhoods import diagnose_support, grid, hamming
from concrete_score.spaces import Space
from concrete_score.targets import asia
from tests.strategies import generators, neighborhoods


@given(n=neighborhoods(), generator=generators(), rows=st.integers(1, 40))
def test_diagnosis_agrees_with_brute_force(n, generator, rows):
    x = n.space.uniform(rows, generator)
    seen = n.space.index(x).tolist()
    source, _, target = n._edge_list
    leaving = [(a, b) for a, b in zip(source.tolist(), target.tolist(), strict=True) if a in set(seen)]
    inside = [(a, b) for a, b in leaving if b in set(seen)]
    graph = networkx.Graph(inside)
    graph.add_nodes_from(seen)
    components = list(networkx.connected_components(graph))
    shares = sorted((sum(s in c for s in seen) / rows for c in components), reverse=True)
    for stored in (x, x.to(torch.uint8)):
        d = diagnose_support(stored, n)
        assert (d.rows, d.distinct, d.num_components) == (rows, len(set(seen)), len(components))
        assert (d.edges, d.observed_edges) == (len(leaving), len(inside))
        assert d.component_shares == pytest.approx(shares)
        assert d.connected == (len(components) == 1)
        found = {}
        for state, label in zip(n.space.index(d.states.long()).tolist(), d.component.tolist(), strict=True):
            found.setdefault(label, set()).add(state)
        assert sorted(map(sorted, found.values())) == sorted(map(sorted, components))
        assert d.component.tolist() == sorted(d.component.tolist()), "largest component first"


def test_no_rows_is_an_error():
    with pytest.raises(InputError, match="at least one row"):
        diagnose_support(torch.empty((0, 2), dtype=torch.int64), grid(Space((2, 2))))


@pytest.mark.slow
def test_a_million_distinct_rows_of_fifty_sites():
    generator = torch.Generator().manual_seed(0)
    space = Space((2, 3, 4, 2, 5) * 10)
    n = hamming(space)
    half = space.uniform(500_000, generator)
    # Each row's partner is one edit away, so components are pairs unless chance joins more.
    partner = n.neighbor(half, n.draw(half, generator))
    d = diagnose_support(torch.cat([half, partner]).to(torch.uint8), n)
    assert d.distinct > 999_000
    assert d.observed_edges >= d.distinct
    assert d.num_components == pytest.approx(500_000, rel=1e-3)


def test_asia_falls_into_two_components_under_single_flips():
    """Its OR node makes 128 of 256 states impossible; flips cannot cross from `either` = no to yes."""
    network = asia()
    joint = network.joint()
    support = network.space.enumerate()[joint.probabilities > 0]
    d = diagnose_support(support, hamming(network.space))
    assert (d.distinct, d.num_components) == (128, 2)
    mass = torch.stack([joint.log_density(d.states[d.component == part]).exp().sum() for part in range(2)])
    assert sorted(mass.tolist()) == pytest.approx([0.064828, 0.935172], abs=1e-12)
    either = network.names.index("either")
    assert all(len(d.states[d.component == part][:, either].unique()) == 1 for part in range(2))


def test_rows_of_asia_are_told_apart_too():
    network = asia()
    rows = network.sample(20_000, torch.Generator().manual_seed(0))
    d = diagnose_support(rows, hamming(network.space))
    assert d.num_components >= 2
    assert d.largest_share == pytest.approx(0.935, abs=0.01)
