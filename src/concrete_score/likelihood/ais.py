"""Annealed importance sampling (Neal, 2001): an unbiased estimate of Z, hence an upper bound on log-likelihood."""

import torch

from concrete_score.likelihood.annealing import Annealing, Progress, Steps, batches
from concrete_score.likelihood.schedules import check_count
from concrete_score.likelihood.weights import LogMean, log_mean

BATCH = 1024


def ais(
    annealing: Annealing,
    chains: int,
    generator: torch.Generator,
    batch: int = BATCH,
    progress: Progress | None = None,
) -> LogMean:
    """``log Ẑ = log mean_c w_c`` with ``E w = Z``.

    Chains start at the base and take ``T_1, …, T_K``; ``log w = Σ_k [log f_k - log f_{k-1}](x_{k-1})``. As
    ``E log Ẑ ≤ log Z``, it is a stochastic *lower* bound on log Z, and ``log f(x) - log Ẑ`` an **upper** bound on the
    log-likelihood.

    Args:
        annealing: path, schedule and kernels, fixed beforehand.
        chains: independent ones, at least 2.
        generator: all randomness.
        batch: chains run together, which bounds the memory.
        progress: told after every step.

    >>> from concrete_score.likelihood.annealing import Geometric
    >>> from concrete_score.likelihood.bases import uniform
    >>> from concrete_score.likelihood.schedules import linear
    >>> from concrete_score.targets import Ising
    >>> model = Ising((2, 3), 0.3)
    >>> path = Geometric(uniform(model.space), model)
    >>> result = ais(Annealing(path, linear(50)), 200, torch.Generator().manual_seed(0))
    >>> abs(result.value - model.log_partition()) < 4 * result.stderr
    True
    """
    check_count(chains, "chains", 2)
    sizes = batches(chains, batch)
    tick = Steps(progress, annealing.schedule.steps * len(sizes))
    parts = [annealing.up(annealing.path.sample(n, generator), generator, tick).log_weight for n in sizes]
    return log_mean(torch.cat(parts))
