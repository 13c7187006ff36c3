"""How fast neighborhoods are walked, and whether a step on drawn edges grows with the sites faster than its network."""

import torch

from concrete_score.bench.checks import Check, Work, ratio_of_minima
from concrete_score.models import MADE
from concrete_score.neighborhoods import hamming
from concrete_score.objectives import BregmanObjective, PairedEdges, divergences
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


def step_growth_over_network(few: int = 128, many: int = 1024, batch: int = 128) -> Check:
    """One paired neighbor an example: the step's growth from few to many sites, over the bare network's growth.

    A step draws, evaluates a MADE on the rows and their neighbors, and goes back. The bare network goes forward and
    back on as many rows: ``(step(many) / step(few)) / (network(many) / network(few))``.
    """
    over_network = {sites: ratio_of_minima(*_step_and_network(sites, batch), repeats=15) for sites in (few, many)}
    value = over_network[many] / over_network[few]
    return Check.at_most(f"paired step, {many:,} sites / {few}, over the bare network's", value, 1.3)


def _step_and_network(sites: int, batch: int) -> tuple[Work, Work]:
    space = Space.bits(sites)
    model = MADE(space, generator=generator(0, "bench model"))
    objective = BregmanObjective(divergences.logistic, PairedEdges(hamming(space)))
    gen = generator(0, "bench")
    x, rows = space.uniform(batch, gen), space.uniform(2 * batch, gen)

    def step() -> None:
        model.zero_grad()
        _back(objective.loss(model, objective.draw(x, gen)).mean())

    def network() -> None:
        model.zero_grad()
        _back(model.log_density(rows).mean())

    return step, network


def _back(loss: torch.Tensor) -> None:
    loss.backward()  # type: ignore[no-untyped-call]
