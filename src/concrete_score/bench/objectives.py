"""Whether a training step on drawn edges grows with the number of sites faster than its network does."""

from collections.abc import Callable

import torch

from concrete_score.bench.checks import Check
from concrete_score.bench.timing import ratio_of_minima
from concrete_score.models import MADE
from concrete_score.neighborhoods import hamming
from concrete_score.objectives import BregmanObjective, Paired, divergences
from concrete_score.randomness import generator
from concrete_score.spaces import Space


def step_growth_over_network(few: int = 128, many: int = 1024, batch: int = 128) -> Check:
    """One paired neighbor an example: the step's growth from few to many sites, over the bare network's growth.

    A step draws, evaluates a MADE on the rows and their neighbors, and goes back. The bare network goes forward and
    back on as many rows: ``(step(many) / step(few)) / (network(many) / network(few))``.
    """
    over_network = {sites: ratio_of_minima(*_step_and_network(sites, batch), repeats=15) for sites in (few, many)}
    value = over_network[many] / over_network[few]
    return Check.at_most(f"paired step, {many:,} sites / {few}, over the bare network's", value, 1.3)


def _step_and_network(sites: int, batch: int) -> tuple[Callable[[], None], Callable[[], None]]:
    space = Space.bits(sites)
    model = MADE(space, generator=generator(0, "bench model"))
    objective = BregmanObjective(divergences.logistic, Paired(hamming(space)))
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
