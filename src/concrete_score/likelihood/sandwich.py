"""The sandwich: a lower and an upper bound on a log-likelihood in one call (DESIGN M12)."""

from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.likelihood.ais import ais
from concrete_score.likelihood.annealing import Annealing, Progress, Steps, batches, check_density
from concrete_score.likelihood.exact import check_rows, row_log_densities
from concrete_score.likelihood.preparation import Budget, exact_sampler, prepare
from concrete_score.likelihood.raise_ import Raise, raise_
from concrete_score.likelihood.result import LogLikelihood
from concrete_score.likelihood.reverse_ais import reverse_ais
from concrete_score.likelihood.weights import HEAVY, LogMean, check_finite, mean_and_stderr
from concrete_score.protocols import Samplable


def sandwich(
    target: Any,
    rows: Any,
    generator: torch.Generator,
    budget: Budget | None = None,
    annealing: Annealing | None = None,
    progress: Progress | None = None,
) -> LogLikelihood:
    """Bounds on the mean log-likelihood of rows: AIS from above, reverse AIS from below, RAISE beside them.

    ``upper = mean log f(x) - log Ẑ`` and ``lower = mean log f(x) - log Ẑ_rev``. Without exact draws of the target there
    is no reverse AIS and no lower bound: `lower` is then None and the method ``ais``.

    Args:
        target: any density; whether it is normalized is not asked.
        rows: ``(N, D)``; if more than ``budget.bound_rows``, that many are drawn from them and all means are theirs.
        generator: all randomness.
        budget: steps and chains.
        annealing: path, schedule and kernels; by default `prepare`'s, from a pilot run.
        progress: told after every step of the weighted chains.

    Raises:
        InputError: pieces of different spaces, rows outside it or of density zero, before any chain runs.

    >>> from concrete_score.targets import random_rbm
    >>> generator = torch.Generator().manual_seed(0)
    >>> model = random_rbm(8, 4, 0.5, generator)
    >>> result = sandwich(model, model.sample(20, generator), generator, Budget(steps=50, chains=100))
    >>> result.method, abs(result.gap) < 0.1
    ('sandwich', True)
    """
    check_density(target, "target")
    budget = budget or Budget()
    states = _some(check_rows(target.space, rows), budget.bound_rows, generator)
    log_f = row_log_densities(target, states)
    check_finite(log_f, "rows", "the bounds need rows of positive density")
    if annealing is not None and annealing.path.target is not target:
        raise InputError("an annealing that leads to the target", "one to another model", where="annealing")
    annealing = annealing or prepare(target, generator, budget)
    sampler = exact_sampler(target)
    count = _count(annealing, budget, len(states), sampler, progress)
    above = ais(annealing, budget.chains, generator, budget.batch, count)
    below = None
    if sampler is not None:
        exact_draws = sampler.sample(budget.chains, generator)
        below = reverse_ais(annealing, exact_draws, generator, budget.batch, count)
    beside = raise_(annealing, states, generator, budget.raise_chains, budget.batch, count)
    mean, stderr = mean_and_stderr(log_f)
    return LogLikelihood(
        rows=len(states),
        sites=target.space.num_sites,
        method="ais" if below is None else "sandwich",
        lower=None if below is None else mean - below.value,
        upper=mean - above.value,
        raise_=beside.mean,
        stderr=stderr,
        bound_stderr=max(bound.stderr for bound in (above, below) if bound is not None),
        raise_stderr=float(beside.stderrs.square().sum().sqrt()) / len(states),
        warnings=_warnings(above, below, beside),
    )


def _some(states: Tensor, most: int, generator: torch.Generator) -> Tensor:
    if len(states) <= most:
        return states
    order = torch.randperm(len(states), generator=generator, device=generator.device)
    return states[order[:most].sort().values.to(states.device)]


def _count(
    annealing: Annealing, budget: Budget, rows: int, sampler: Samplable | None, progress: Progress | None
) -> Progress:
    """One count over all parts of the work."""
    directions = 1 if sampler is None else 2
    runs = directions * len(batches(budget.chains, budget.batch))
    runs += len(batches(rows * budget.raise_chains, budget.batch))
    tick = Steps(progress, annealing.schedule.steps * runs)
    return lambda done, total: tick()


def _warnings(above: LogMean, below: LogMean | None, beside: Raise) -> tuple[str, ...]:
    named = [("upper", above.warning), ("lower", None if below is None else below.warning)]
    found = [f"{name}: {text}" for name, text in named if text is not None]
    if beside.spread > HEAVY:
        found.append(f"raise: log-weights spread over {beside.spread:.1f} nats: too low; anneal in more steps")
    return tuple(found)
