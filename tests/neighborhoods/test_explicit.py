"""Explicit graphs: every accepted form gives the same edges, every bad one a line that teaches."""

import networkx
import pytest
import scipy.sparse
import torch

from concrete_score.errors import InputError
from concrete_score.neighborhoods import explicit
from concrete_score.spaces import Space

SPACE = Space((2, 3))
EDGES = [(0, 5), (0, 1), (4, 2), (5, 0), (3, 0)]


def edge_set(n):
    source, _, target = n._edge_list
    return set(zip(source.tolist(), target.tolist(), strict=True))


def test_every_form_gives_the_same_edges():
    states = SPACE.state(torch.tensor(EDGES))
    row, col = zip(*EDGES, strict=True)
    matrix = scipy.sparse.coo_array(([1] * len(EDGES), (row, col)), shape=(6, 6))
    graph = networkx.DiGraph(EDGES)
    by_state = networkx.DiGraph([tuple(tuple(s) for s in pair.tolist()) for pair in states])
    for form in (EDGES, torch.tensor(EDGES), states, matrix, matrix.tocsr(), graph, by_state):
        assert edge_set(explicit(SPACE, form)) == set(EDGES)
    assert edge_set(explicit(SPACE, networkx.Graph([(0, 1)]))) == {(0, 1), (1, 0)}


def test_slots_keep_the_order_given():
    assert explicit(SPACE, EDGES).neighbors(SPACE.state(torch.tensor(0))).tolist() == [[1, 2], [0, 1]]


def test_a_graph_without_edges_is_legal():
    n = explicit(SPACE, [])
    assert (n.num_slots, n.symmetric, n.connected()) == (0, True, False)
    assert n.neighbors(SPACE.enumerate()).shape == (6, 0, 2)


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ([(0, 6)], r"edges\[0\]: expected states from 0 to 5, got 0 -> 6"),
        ([(0, 1), (-1, 2)], r"edges\[1\]: expected states from 0 to 5, got -1 -> 2"),
        ([(0, 1), (2, 2)], r"edges\[1\]: expected two different states"),
        ([(0, 1), (1, 2), (0, 1)], r"edges\[2\]: expected each edge once, got 0 -> 1"),
        ([(0.0, 1.0)], "expected integer state indices"),
        ([(0, 1, 2)], r"expected edges of shape \(E, 2\)"),
        ([[(0, 3), (0, 0)]], r"edges\[0, 0, 1\]: expected a value from 0 to 2"),
        (scipy.sparse.eye_array(5), "expected a matrix of shape"),
    ],
)
def test_bad_edges_are_refused_by_place(edges, words):
    with pytest.raises(InputError, match=words):
        explicit(SPACE, edges)


def test_too_large_a_space_is_refused():
    with pytest.raises(InputError, match="at most 4194304 states"):
        explicit(Space.bits(40), [(0, 1)])
