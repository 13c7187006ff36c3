"""Which sites may be drawn together: interaction graphs, from the model or from the user, and colorings of them.

Two sites that do not interact are independent given all others, so that a class of one color may be drawn at once.
"""

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.protocols import DensityModel, Interacting
from concrete_score.spaces import as_tensor
from concrete_score.targets.pairwise import check_edges

PROBES = 64
"""Pairs of sites of one color that a model without a graph of its own is tried at."""
TOLERANCE = 1e-5
"""Of the mixed difference of a log-density, relative to its differences."""


@singledispatch
def interactions_of(model: Any) -> Tensor | None:
    """The interaction graph a model knows ``(E, 2)``, or None. ``interactions_of.register`` adds views of models."""
    return model.interactions() if isinstance(model, Interacting) else None


def find_graph(model: DensityModel, given: Any = None) -> Tensor | None:
    """The interactions of a model ``(E, 2)``: its own, or the user's, which may not leave out any of them.

    Raises:
        InputError: edges that are none, or a graph of another model.
    """
    own = interactions_of(model)
    if given is None:
        return own
    edges = as_tensor(given, "interactions").long().cpu().reshape(-1, 2)
    check_edges(edges, model.space.num_sites)
    edges = edges.sort(-1).values
    if own is not None:
        sites = model.space.num_sites
        missing = ~torch.isin(own[:, 0] * sites + own[:, 1], edges[:, 0] * sites + edges[:, 1])
        if missing.any():
            pair = tuple(own[missing.nonzero()[0, 0]].tolist())
            raise InputError(
                f"a graph with all {len(own)} interactions of the model",
                f"one without {pair}: that of another model",
                where="interactions",
                fix="leave it out: the model knows its own",
            )
    return edges


def find_coloring(model: DensityModel, colors: Any = None, interactions: Any = None) -> Tensor:
    """A color for each site ``(D,)``, from 0 on, such that no two interacting sites have the same.

    Args:
        model: a density.
        colors: the user's, checked; by default found: two where two are enough, else greedily.
        interactions: the user's graph, for a model that does not know its own.

    Raises:
        InputError: a coloring that is none, a graph of another model, or nothing to go by.

    >>> from concrete_score.targets import Ising
    >>> find_coloring(Ising((1, 4), 0.3)).tolist()
    [1, 0, 1, 0]
    """
    edges = find_graph(model, interactions)
    if colors is None and edges is None:
        raise InputError(
            "a model that knows which of its sites interact",
            type(model).__name__,
            where="model",
            fix="pass `interactions=` or `colors=`, or use `gibbs` or `multi_site`",
        )
    if colors is None:
        return _color(model.space.num_sites, edges)  # type: ignore[arg-type]  # checked above
    found = _as_colors(colors, model.space.num_sites)
    if edges is not None:
        _check_coloring(found, edges)
    if interactions_of(model) is None:
        _probe(model, found)
    return found


def _as_colors(colors: Any, sites: int) -> Tensor:
    given = as_tensor(colors, "colors").cpu()
    if given.dtype.is_floating_point or given.shape != (sites,) or (given < 0).any():
        came = f"{given.dtype} of shape {tuple(given.shape)}"
        raise InputError(f"one whole number a site, shape ({sites},)", came, where="colors")
    return given.long().unique(return_inverse=True)[1]  # type: ignore[no-untyped-call, no-any-return]


PATIENT = 2**23
"""Sites times edges up to which colors are chosen by saturation, a second's work; beyond, by degree."""


def _check_coloring(colors: Tensor, edges: Tensor) -> None:
    clash = (colors[edges[:, 0]] == colors[edges[:, 1]]).nonzero()
    if len(clash):
        one, other = edges[clash[0, 0]].tolist()
        raise InputError(
            "different colors for sites that interact",
            f"color {int(colors[one])} for both {one} and {other}",
            where="colors",
            fix="leave it out: a coloring is found from the graph",
        )


def _color(sites: int, edges: Tensor) -> Tensor:
    """Two colors where they are enough, else by saturation."""
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(range(sites))
    graph.add_edges_from(edges.tolist())
    try:
        found = nx.bipartite.color(graph)
    except nx.NetworkXError:  # an odd cycle
        found = nx.greedy_color(graph, "DSATUR" if sites * len(edges) <= PATIENT else "largest_first")
    colors = torch.empty(sites, dtype=torch.int64)
    colors[list(found)] = torch.tensor(list(found.values()))
    # A lonely site has any color; together they should start at 0.
    return colors - colors.min()


@torch.no_grad()
def _probe(model: DensityModel, colors: Tensor) -> None:
    """Try pairs of one color at random states: where their mixed difference is not 0, they interact.

    It finds no proof that a coloring is right, only mistakes.
    """
    g = torch.Generator().manual_seed(0)
    pairs = [pair for pair in _some_pairs(colors, g) if min(model.space.sizes[d] for d in pair) > 1]
    if not pairs:
        return
    one, other = torch.tensor(pairs).T
    x = model.space.uniform(len(pairs), g)
    corners = []
    for move in ((), (one,), (other,), (one, other)):
        y = x.clone()
        for site in move:
            value = (x.gather(1, site[:, None]).squeeze(1) + 1) % model.space.sizes_tensor()[site]
            y.scatter_(1, site[:, None], value[:, None])
        corners.append(model.log_density(y).double())
    mixed = (corners[3] - corners[1] - corners[2] + corners[0]).abs()
    size = torch.stack(corners).abs().amax(0) + 1
    bad = (mixed > TOLERANCE * size).nonzero()
    if len(bad):
        raise InputError(
            "one color only for sites that do not interact",
            f"sites {pairs[int(bad[0])]}, which do",
            where="colors",
            fix="give them different colors, or the model's `interactions=`",
        )


def _some_pairs(colors: Tensor, generator: torch.Generator) -> Sequence[tuple[int, int]]:
    found = []
    for color in range(int(colors.max()) + 1):
        sites = (colors == color).nonzero().squeeze(-1)
        if len(sites) > 1:
            chosen = torch.randint(len(sites), (PROBES, 2), generator=generator)
            found += [(int(sites[a]), int(sites[b])) for a, b in chosen.tolist() if a != b]
    return found
