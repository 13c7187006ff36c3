"""Random small spaces, graphs and pmfs for hypothesis."""

import torch
from hypothesis import strategies as st

from concrete_score import registry
from concrete_score.errors import InputError
from concrete_score.neighborhoods import Chain, Complete, Cycle, Ordered, Product, Star
from concrete_score.spaces import Space


def generators():
    """A seeded torch generator."""
    return st.integers(0, 2**31).map(lambda seed: torch.Generator().manual_seed(seed))


@st.composite
def spaces(draw, min_sites=1, max_sites=3, max_size=4, max_states=48):
    """Mixed cardinalities, sites of size 1 and 2 included."""
    sizes = draw(st.lists(st.integers(1, max_size), min_size=min_sites, max_size=max_sites))
    space = Space(tuple(sizes))
    return space if space.num_states <= max_states else Space(tuple(sizes[:1]))


@st.composite
def pmfs(draw, space):
    """A positive pmf ``(S,)`` in float64, ratios up to about e**6."""
    logits = 1.5 * torch.randn(space.num_states, generator=draw(generators()), dtype=torch.float64)
    return logits.softmax(0)


@st.composite
def edge_lists(draw, space):
    """Distinct directed edges without loops, possibly none."""
    size = space.num_states
    pair = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)).filter(lambda e: e[0] != e[1])
    return draw(st.lists(pair, unique=True, max_size=3 * size)) if size > 1 else []


@st.composite
def site_rules(draw, size):
    """Any rule that fits a site of this size, relabelled or not."""
    rule = draw(
        st.sampled_from([Chain(), Chain(two_way=True), Cycle(), Cycle(two_way=True), Complete()])
        | st.builds(Star, st.integers(0, size - 1), st.booleans())
    )
    if draw(st.booleans()):
        return Ordered(rule, tuple(draw(st.permutations(range(size)))))
    return rule


@st.composite
def products(draw):
    """A product of different rules over mixed sites."""
    space = draw(spaces())
    return Product(space, tuple(draw(site_rules(size)) for size in space.sizes))


# Options beyond the space; a registered neighborhood that needs none is picked up by its name alone.
OPTIONS = {
    "explicit": lambda draw, space: {"edges": draw(edge_lists(space))},
    "star": lambda draw, space: {"center": draw(st.integers(0, space.num_states - 1))},
    "moore": lambda draw, space: {"wrap": draw(st.booleans())},
    "cycle": lambda draw, space: {"order": draw(st.none() | st.permutations(range(space.num_states)).map(tuple))},
}


@st.composite
def registered(draw, name):
    """The registered neighborhood on a random space, or on a random single site where it asks for one."""
    factory, options = registry.load("neighborhoods", name), OPTIONS.get(name, lambda draw, space: {})
    space = draw(spaces())
    try:
        factory(space, **({} if name != "explicit" else {"edges": []}))
    except InputError:
        space = draw(spaces(max_sites=1, max_size=7))
    return factory(space, **options(draw, space))


def neighborhoods():
    """Any registered neighborhood, or a mixed product."""
    return st.one_of(products(), *(registered(name) for name in registry.names("neighborhoods")))


def connected_neighborhoods():
    """Those on which scores determine the distribution."""
    return neighborhoods().filter(lambda n: n.connected())


@st.composite
def pairwise_models(draw, space, scale=1.0):
    """A random pairwise model: any graph over the sites, couplings of every shape."""
    from concrete_score.targets import Pairwise

    g, sites, width = draw(generators()), space.num_sites, max(space.sizes)
    pairs = [(a, b) for a in range(sites) for b in range(a)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    tables = (
        torch.randn(n, *shape, generator=g, dtype=torch.float64)
        for n, shape in ((sites, (width,)), (len(edges), (width, width)))
    )
    fields, couplings = tables
    return Pairwise(space, scale * fields, scale * couplings, torch.tensor(edges, dtype=torch.int64).reshape(-1, 2))


@st.composite
def rbms(draw, space):
    """A small random restricted Boltzmann machine with as many visible bits as the space has sites."""
    from concrete_score.targets import random_rbm

    return random_rbm(min(4, space.num_sites), draw(st.integers(1, 3)), 1.0, draw(generators()))
