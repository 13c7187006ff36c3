"""Reverse annealed importance sampling: an unbiased estimate of 1/Z, hence a lower bound on log-likelihood."""

from dataclasses import replace
from typing import Any

import torch

from concrete_score.likelihood.ais import BATCH
from concrete_score.likelihood.annealing import Annealing, Progress, Steps
from concrete_score.likelihood.exact import check_rows
from concrete_score.likelihood.weights import LogMean, log_mean


def reverse_ais(
    annealing: Annealing,
    samples: Any,
    generator: torch.Generator,
    batch: int = BATCH,
    progress: Progress | None = None,
) -> LogMean:
    """``log Ẑ_rev = -log mean_c (1/w_c)`` with ``E[1/w] = 1/Z``.

    Chains start at exact draws of the *model* and go down the path by the time reversals of ``T_K, …, T_1``, with
    ``log w = Σ_k [log f_k - log f_{k-1}](x_{k-1})``. As ``E log Ẑ_rev ≥ log Z``, ``log f(x) - log Ẑ_rev`` is a
    **lower** bound on the log-likelihood (Grosse, Ghahramani and Adams, 2015). From anything but exact draws it is no
    bound.

    Args:
        annealing: path, schedule and kernels, fixed beforehand.
        samples: exact independent draws of the target ``(C, D)``, one chain each.
        generator: all other randomness.

    >>> from concrete_score.likelihood.annealing import Geometric
    >>> from concrete_score.likelihood.bases import uniform
    >>> from concrete_score.likelihood.schedules import linear
    >>> from concrete_score.targets import random_rbm
    >>> generator = torch.Generator().manual_seed(0)
    >>> model = random_rbm(5, 3, 0.5, generator)
    >>> annealing = Annealing(Geometric(uniform(model.space), model), linear(50))
    >>> result = reverse_ais(annealing, model.sample(200, generator), generator)
    >>> abs(result.value - model.log_partition()) < 4 * result.stderr
    True
    """
    states = check_rows(annealing.path.space, samples)
    parts = torch.split(states, batch)
    tick = Steps(progress, annealing.schedule.steps * len(parts))
    down = log_mean(torch.cat([-annealing.down(part, generator, tick).log_weight for part in parts]))
    return replace(down, value=-down.value)
