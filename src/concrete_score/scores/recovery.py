"""The way back from log-ratios to the distribution (paper, theorem 1: completeness), and edge consistency.

See docs/mathematics.md, "Recovery and connected support".
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from concrete_score.errors import InputError, nearest
from concrete_score.protocols import Neighborhood
from concrete_score.shapes import PerSlotTable, States

if TYPE_CHECKING:
    from scipy.sparse import csr_array


_DIRECT_SOLVE = 20_000


@dataclass(frozen=True, eq=False)
class Recovery:
    """A distribution recovered from log-ratios, and how far the ratios were from being those of any distribution."""

    log_pmf: Tensor
    """``(S,)``, normalized; -inf at states known to have probability zero."""
    inconsistency: float
    """Root mean square over edges of ``l - (log p(y) - log p(x))``; zero for the scores of a distribution."""
    worst: float
    """The largest absolute residual of an edge."""


def recover(
    log_ratios: PerSlotTable,
    neighborhood: Neighborhood,
    states: States | None = None,
    method: str = "least_squares",
    generator: torch.Generator | None = None,
) -> Recovery:
    """The distribution whose log-ratios these are (theorem 1, completeness).

    Args:
        log_ratios: ``(S, K)``, one row per state of ``states``; values at invalid slots are ignored.
        neighborhood: weakly connected on the support.
        states: the states the rows belong to, all by default. With zero-probability states give only the support: a
            state reached by a ratio of -inf is known to be zero, and no path is taken through it.
        method: ``least_squares`` weighs all edges alike (exact where the ratios are consistent, and of least variance
            under independent errors); ``tree`` walks one spanning tree, breadth first, or a random one if
            ``generator`` is given.

    Raises:
        InputError: the support is not connected (two states in different components are named), a state is neither
            given nor reached, or a ratio is not a number.

    >>> from concrete_score.neighborhoods import chain
    >>> from concrete_score.scores import log_ratios
    >>> from concrete_score.targets import pmf
    >>> p = pmf([0.1, 0.2, 0.7])
    >>> rows = torch.tensor([[0], [1], [2]])
    >>> recover(log_ratios(p, chain(p.space), rows), chain(p.space)).log_pmf.exp()
    tensor([0.1000, 0.2000, 0.7000], dtype=torch.float64)
    """
    edges = _positive_edges(log_ratios, neighborhood, states)
    solve = {"least_squares": _least_squares, "tree": _spanning_tree}
    if method not in solve:
        raise InputError("a method", repr(method), fix=nearest(method, list(solve)))
    potential = solve[method](edges, generator)
    residual = edges.ratio - (potential[edges.target] - potential[edges.source])
    log_pmf = torch.full((neighborhood.space.num_states,), -torch.inf, dtype=torch.float64)
    log_pmf[edges.state] = potential.log_softmax(0)
    return Recovery(
        log_pmf,
        inconsistency=float(residual.square().mean().sqrt()) if len(residual) else 0.0,
        worst=float(residual.abs().max()) if len(residual) else 0.0,
    )


def recover_support(log_ratios: PerSlotTable, neighborhood: Neighborhood) -> Recovery:
    """The distribution whose log-ratios these are, some of them -inf, with its support.

    Ratios at a zero state mean nothing, and a learned ratio may be zero by mistake. So a state that some edge gives
    ratio zero counts as zero only if no state of the support gives it a ratio above zero; the support starts from the
    states that no edge gives zero, and grows until it is closed. An edge of -inf inside it is read from its far end.

    Args:
        log_ratios: ``(S, K)``, a row for each state of the space; values at invalid slots are ignored.
        neighborhood: weakly connected on the support.

    Raises:
        InputError: every state is called zero, the support is not connected, or an edge can be read from neither end.

    >>> from concrete_score.neighborhoods import hamming
    >>> from concrete_score.scores import log_ratios
    >>> from concrete_score.targets import pmf
    >>> p, support = pmf([[0.4, 0.3], [0.0, 0.3]]), torch.tensor([[0, 0], [0, 1], [1, 1]])
    >>> ratios = torch.full((4, 2), 0.4).double()                # anything at the zero state
    >>> ratios[p.space.index(support)] = log_ratios(p, hamming(p.space), support)
    >>> recover_support(ratios, hamming(p.space)).log_pmf.exp().round(decimals=6).tolist()
    [0.4, 0.3, 0.0, 0.3]
    """
    states = neighborhood.space.enumerate()
    ratios = log_ratios.detach().double()
    row, slot = neighborhood.valid(states).nonzero(as_tuple=True)
    target = neighborhood.space.index(neighborhood.neighbor(states[row], slot))
    ratio = ratios[row, slot]
    positive = _support(len(states), row, target, ratio == -torch.inf)
    if not positive.any():
        raise InputError("a state of positive probability", "ratios of zero towards every state", where="log_ratios")
    back = neighborhood.back_slot(states[row], slot)
    wrong = (ratio == -torch.inf) & positive[row] & positive[target] & (back >= 0)
    repaired = ratios.clone()
    repaired[row[wrong], slot[wrong]] = -ratios[target[wrong], back[wrong]]
    return recover(repaired[positive], neighborhood, states[positive])


def _support(count: int, source: Tensor, target: Tensor, zero: Tensor) -> Tensor:
    """Which states are positive ``(S,)``: those that no edge gives zero, and those that such states reach."""
    positive = torch.ones(count, dtype=torch.bool)
    positive[target[zero]] = False
    while True:
        reached = target[~zero & positive[source] & ~positive[target]]
        if not len(reached):
            return positive
        positive[reached] = True


@dataclass(frozen=True, eq=False)
class _Edges:
    """Edges between states of positive probability, numbered within the support."""

    state: Tensor
    source: Tensor
    target: Tensor
    ratio: Tensor

    def name(self, space_state: Callable[[Tensor], Tensor], i: int) -> str:
        return str(space_state(self.state[i]).tolist())


def _positive_edges(ratios: Tensor, neighborhood: Neighborhood, states: Tensor | None) -> _Edges:
    """Read the table of log-ratios as a list of edges within the support, and check that it determines a pmf."""
    space = neighborhood.space
    rows = space.enumerate() if states is None else space.check(states, "states")
    if ratios.shape != (len(rows), neighborhood.num_slots):
        raise InputError(
            f"log-ratios of shape ({len(rows)}, {neighborhood.num_slots}), a row per state and a column per slot",
            f"shape {tuple(ratios.shape)}",
            where="log_ratios",
        )
    row, slot = neighborhood.valid(rows).nonzero(as_tuple=True)
    source, ratio = space.index(rows)[row], ratios.detach().double()[row, slot]
    target = space.index(neighborhood.neighbor(rows[row], slot))
    bad = ratio.isnan() | (ratio == torch.inf)
    if bad.any():
        at = int(bad.nonzero()[0])
        raise InputError(
            "finite log-ratios, or -inf towards a zero state",
            f"{float(ratio[at])} at state {rows[row[at]].tolist()}, slot {int(slot[at])}",
            where="log_ratios",
        )
    known = torch.zeros(space.num_states, dtype=torch.int8)
    known[space.index(rows)] = 1
    zero = target[ratio == -torch.inf]
    _refuse_state(known[zero] == 1, zero, space.state, "reached by -inf but given a row of ratios", "give the support")
    known[zero] = -1
    unreached = (known == 0).nonzero().squeeze(-1)
    _refuse_state(unreached >= 0, unreached, space.state, "neither given nor reached", "give its row of ratios")
    inside = (ratio > -torch.inf) & (known[target] == 1)
    state = (known == 1).nonzero().squeeze(-1)
    number = torch.full((space.num_states,), -1).index_copy(0, state, torch.arange(len(state)))
    edges = _Edges(state, number[source[inside]], number[target[inside]], ratio[inside])
    _check_connected(edges, space.state)
    return edges


def _refuse_state(bad: Tensor, index: Tensor, state: Callable[[Tensor], Tensor], came: str, fix: str) -> None:
    if bad.any():
        name = state(index[bad.nonzero()[0, 0]]).tolist()
        raise InputError("each state given or known to be zero", f"the state {name} {came}", where="states", fix=fix)


def _check_connected(edges: _Edges, state: Callable[[Tensor], Tensor]) -> None:
    from scipy.sparse.csgraph import connected_components

    label = torch.from_numpy(connected_components(_graph(edges), directed=False)[1])
    if (label != label[0]).any():
        other = int((label != label[0]).nonzero()[0])
        raise InputError(
            "ratios on a connected support",
            f"no path between the states {edges.name(state, 0)} and {edges.name(state, other)}",
            where="neighborhood",
            fix="use a neighborhood that joins them, such as `complete`, `hamming` or a sampled one",
        )


def _graph(edges: _Edges, weight: Tensor | None = None) -> "csr_array":
    from scipy.sparse import csr_array

    weight = torch.ones(len(edges.source)) if weight is None else weight
    size = len(edges.state)
    # As int32: before SciPy 1.17 its graph routines take no other indices.
    ends = (edges.source.int().numpy(), edges.target.int().numpy())
    return csr_array((weight.numpy(), ends), shape=(size, size))


def _spanning_tree(edges: _Edges, generator: torch.Generator | None) -> Tensor:
    """Potentials along a spanning tree: each state is one edge away from its parent."""
    from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

    weight = torch.ones(len(edges.source))
    if generator is not None:  # the least tree of random weights is a random tree; weights stay clear of zero
        weight = 1 + torch.rand(len(edges.source), generator=generator, dtype=torch.float64)
    graph = minimum_spanning_tree(_graph(edges, weight)) if generator is not None else _graph(edges)
    parents = breadth_first_order(graph, 0, directed=False)[1]
    parent = torch.from_numpy(parents).long().clamp_min(0)
    potential = _step_to_parent(edges, parent)
    # Pointer doubling: after k rounds each state knows the sum over 2**k steps towards the root.
    while bool((parent != 0).any()):
        potential = potential + potential[parent]
        parent = parent[parent]
    return potential


def _step_to_parent(edges: _Edges, parent: Tensor) -> Tensor:
    """``log p(i) - log p(parent(i))`` read off one of the edges that join them, either way."""
    size = len(edges.state)
    code = torch.cat([edges.target * size + edges.source, edges.source * size + edges.target])
    value = torch.cat([edges.ratio, -edges.ratio])
    order = code.argsort(stable=True)
    wanted = torch.arange(size) * size + parent
    step = torch.zeros(size, dtype=torch.float64)
    child = torch.arange(size) != parent
    step[child] = value[order[torch.searchsorted(code[order], wanted[child])]]
    return step


def _least_squares(edges: _Edges, generator: torch.Generator | None) -> Tensor:
    """``argmin_φ Σ_edges (φ(y) - φ(x) - l)²``: one sparse Laplacian system, the first state grounded at 0."""
    import scipy.sparse.linalg as solvers
    from scipy.sparse import coo_array, csr_array

    size, count = len(edges.state), len(edges.source)
    if size == 1:
        return torch.zeros(1, dtype=torch.float64)
    sign = torch.cat([-torch.ones(count), torch.ones(count)]).double().numpy()
    position = (torch.arange(count).repeat(2).numpy(), torch.cat([edges.source, edges.target]).numpy())
    incidence = csr_array(coo_array((sign, position), shape=(count, size)))[:, 1:]
    laplacian, right = (incidence.T @ incidence).tocsc(), incidence.T @ edges.ratio.numpy()
    if size <= _DIRECT_SOLVE:
        solution = solvers.spsolve(laplacian, right)
    else:  # fill-in would explode on large grids and cubes; Jacobi-preconditioned conjugate gradients do not
        scale = 1 / laplacian.diagonal()
        jacobi = solvers.LinearOperator(laplacian.shape, matvec=lambda v: scale * v)
        solution, _ = solvers.cg(laplacian, right, rtol=1e-13, maxiter=20 * size, M=jacobi)
    return torch.cat([torch.zeros(1, dtype=torch.float64), torch.as_tensor(solution, dtype=torch.float64).reshape(-1)])
