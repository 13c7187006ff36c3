"""One contract for every registered neighborhood: a new one is enrolled by its registry line."""

import networkx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score import registry
from concrete_score.neighborhoods import UniformProposal
from concrete_score.protocols import Neighborhood, SiteNeighborhood
from tests.strategies import generators, products, registered

NAMES = [*registry.names("neighborhoods"), "product"]
every = pytest.mark.parametrize("name", NAMES)


def built(name):
    return products() if name == "product" else registered(name)


def edges_of(n):
    """All edges by brute force: {(source index, slot): target index}."""
    states = n.space.enumerate()
    i, k = n.valid(states).nonzero(as_tuple=True)
    target = n.space.index(n.neighbor(states[i], k))
    return {(a, b): c for a, b, c in zip(i.tolist(), k.tolist(), target.tolist(), strict=True)}


@every
@given(data=st.data())
def test_no_state_is_its_own_neighbor_or_listed_twice_and_masks_hide_nothing(name, data):
    n = data.draw(built(name))
    assert isinstance(n, Neighborhood)
    states, edges = n.space.enumerate(), edges_of(n)
    n.space.check(n.neighbors(states))
    pairs = [(i, target) for (i, _), target in edges.items()]
    assert len(set(pairs)) == len(pairs), "listed twice"
    assert all(i != target for i, target in pairs), "its own neighbor"
    # An invalid slot leads back to x itself, so a mask can hide no edge.
    table = n.space.index(n.neighbors(states))
    valid = n.valid(states)
    assert torch.equal((table != torch.arange(len(states))[:, None]), valid)
    assert n.degree(states).tolist() == valid.sum(-1).tolist()
    assert {(i, k): int(table[i, k]) for i, k in edges} == edges


@every
@given(data=st.data())
def test_reverse_relation_is_the_inverse_of_the_forward_one(name, data):
    n = data.draw(built(name))
    edges = edges_of(n)
    states = n.space.enumerate()
    degree = n.reverse_degree(states)
    assert int(degree.sum()) == len(edges), "edge counts disagree"
    y = torch.repeat_interleave(torch.arange(len(states)), degree)
    j = torch.arange(len(y)) - (degree.cumsum(0) - degree)[y]
    x, slot = n.reverse_neighbor(states[y], j)
    found = set(zip(n.space.index(x).tolist(), slot.tolist(), y.tolist(), strict=True))
    assert found == {(x, k, y) for (x, k), y in edges.items()}


@every
@given(data=st.data())
def test_batched_calls_agree_with_single_ones(name, data):
    n = data.draw(built(name))
    if not n.num_slots:
        return
    states = n.space.enumerate()
    slot = torch.arange(len(states)) % n.num_slots
    one = torch.stack([n.neighbor(x, k) for x, k in zip(states, slot, strict=True)])
    assert torch.equal(n.neighbor(states, slot), one)
    doubled = states.reshape(1, *states.shape).expand(2, -1, -1)
    assert torch.equal(n.neighbors(doubled)[1], n.neighbors(states))
    has = n.reverse_degree(states) > 0
    last = n.reverse_degree(states[has]) - 1
    x, k = n.reverse_neighbor(states[has], last)
    assert torch.equal(n.neighbor(x, k), states[has])
    if isinstance(n, SiteNeighborhood):
        site, value = n.edit(states, slot)
        edited = states.clone().scatter_(-1, site[:, None], value[:, None])
        assert torch.equal(edited, one)


@every
@given(data=st.data())
def test_symmetrized_is_symmetric_and_contains_the_original(name, data):
    n = data.draw(built(name))
    original = {(i, y) for (i, _), y in edges_of(n).items()}
    both = original | {(y, i) for i, y in original}
    assert n.symmetric == (original == both)
    s = n.symmetrized()
    assert s.symmetric
    assert {(i, y) for (i, _), y in edges_of(s).items()} == both


@every
@given(data=st.data())
def test_back_slot_inverts(name, data):
    n = data.draw(built(name))
    edges = edges_of(n)
    states = n.space.enumerate()
    pairs = {(i, y): k for (i, k), y in edges.items()}
    x = states[:, None].expand(-1, n.num_slots, -1)
    back = n.back_slot(x, torch.arange(n.num_slots).expand(x.shape[:-1]))
    expected = [
        [pairs.get((edges[i, k], i), -1) if (i, k) in edges else -1 for k in range(n.num_slots)]
        for i in range(len(states))
    ]
    assert back.tolist() == expected


@every
@given(data=st.data())
def test_connectivity_agrees_with_brute_force(name, data):
    n = data.draw(built(name))
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(n.space.num_states))
    graph.add_edges_from((i, y) for (i, _), y in edges_of(n).items())
    components = list(networkx.weakly_connected_components(graph))
    assert n.connected() == (len(components) == 1)
    label = n.components()
    assert {frozenset(c) for c in components} == {
        frozenset((label == part).nonzero().flatten().tolist()) for part in label.unique()
    }
    adjacency = n.adjacency().tocoo()
    assert {(i, k - 1): y for i, y, k in zip(*adjacency.coords, adjacency.data, strict=True)} == edges_of(n)


@every
@given(data=st.data(), generator=generators())
def test_draws_are_valid_and_reach_every_slot_uniformly(name, data, generator):
    n = data.draw(built(name))
    draws = 400
    x = n.space.enumerate()[:, None].expand(-1, draws, -1)
    slot = n.draw(x, generator)
    count = torch.zeros((n.space.num_states, n.num_slots + 1)).scatter_add_(1, slot, torch.ones(slot.shape))
    count, degree = count[:, : n.num_slots], n.degree(x[:, 0])
    some = degree > 0
    expected = n.valid(x[:, 0])[some] * (draws / degree[some, None])
    assert (count[some][expected == 0] == 0).all(), "an invalid slot was drawn"
    z = (count[some] - expected) / (expected * (1 - 1 / degree[some, None]).clamp_min(1e-9)).sqrt().clamp_min(1e-3)
    assert z.numel() == 0 or z.abs().max() < 6


@every
@given(data=st.data(), generator=generators())
def test_uniform_proposal_gives_the_probability_there_and_back(name, data, generator):
    n = data.draw(built(name))
    x = n.space.enumerate()
    drawn = UniformProposal(n).draw(x, 3, generator)
    edges = {(i, y) for (i, _), y in edges_of(n).items()}
    degree = n.degree(x).tolist()
    for i in range(len(x)):
        for j, y in enumerate(n.space.index(drawn.target[i]).tolist()):
            forward, backward = drawn.log_forward[i, j].exp().item(), drawn.log_backward[i, j].exp().item()
            assert forward == pytest.approx(1 / degree[i] if degree[i] else 0)
            assert backward == pytest.approx(1 / degree[y] if (y, i) in edges and degree[i] else 0)
