"""The pilot run: where to put the inverse temperatures, found once on chains that are then thrown away."""

from dataclasses import replace

import torch

from concrete_score.likelihood.annealing import Annealing
from concrete_score.likelihood.schedules import Schedule, check_count, evenly


def pilot(
    annealing: Annealing,
    steps: int,
    generator: torch.Generator,
    chains: int = 100,
    rounds: int = 2,
) -> Schedule:
    """A schedule of ``steps`` steps that equalizes the spread of the log-weight increments.

    With kernels that mix, the variance of ``log w`` is least when every step adds the same; the pilot measures
    ``sd([log f_k - log f_{k-1}](x_{k-1}))`` along a coarse schedule and cuts its running sum evenly. The result is a
    frozen value: adapting on the weighted chains themselves would break ``E[Ẑ] = Z``.

    Args:
        annealing: its schedule is the coarse one the first round walks.
        steps: of the schedule to make.
        generator: all randomness.
        chains: in each round, at least 2.
        rounds: each starts from the schedule of the one before.

    >>> from concrete_score.likelihood.annealing import Geometric
    >>> from concrete_score.likelihood.bases import uniform
    >>> from concrete_score.likelihood.schedules import linear
    >>> from concrete_score.targets import Ising
    >>> model = Ising((3, 3), 0.4)
    >>> annealing = Annealing(Geometric(uniform(model.space), model), linear(10))
    >>> pilot(annealing, 40, torch.Generator().manual_seed(0)).steps
    40
    """
    for value, name, least in ((steps, "steps", 1), (chains, "chains", 2), (rounds, "rounds", 1)):
        check_count(value, name, least)
    coarse = annealing.schedule.steps
    for k in range(rounds):
        climb = annealing.up(annealing.path.sample(chains, generator), generator)
        goal = steps if k == rounds - 1 else coarse
        annealing = replace(annealing, schedule=evenly(annealing.schedule.betas, climb.spreads, goal))
    return annealing.schedule
