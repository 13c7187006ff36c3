"""How fast neighborhoods are walked, against the least any such walk must do to memory."""

import torch

from concrete_score.bench.checks import Check
from concrete_score.bench.timing import ratio_of_minima
from concrete_score.randomness import generator
from concrete_score.registry import load
from concrete_score.spaces import Space


def draw_over_clone(rows: int = 100_000, sites: int = 784) -> Check:
    """One uniform neighbor of each state of ``sites`` bits, against a copy of those states."""
    space = Space.bits(sites)
    neighborhood = load("neighborhoods", "hamming")(space)
    gen = generator(0, "bench")
    x = space.uniform(rows, gen)
    value = ratio_of_minima(lambda: neighborhood.neighbor(x, neighborhood.draw(x, gen)), x.clone)
    return Check.at_most(f"draw a neighbor of {rows:,} states of {sites} bits / clone them", value, 1.6)


def neighbors_over_fill(rows: int = 1_000_000, side: int = 91) -> Check:
    """All grid neighbors of many states in the plane, against filling a tensor of that size."""
    space = Space((side, side))
    neighborhood = load("neighborhoods", "grid")(space)
    x = space.uniform(rows, generator(0, "bench"))
    shape = tuple(neighborhood.neighbors(x).shape)
    value = ratio_of_minima(lambda: neighborhood.neighbors(x), lambda: torch.full(shape, 1))
    return Check.at_most(f"neighbors of {rows:,} states, {side}x{side} grid / fill as much", value, 5.0)
