"""Bounds on a log-likelihood by annealed importance sampling: upper, lower, RAISE, and all of them in one call.

See docs/mathematics.md, "Likelihood bounds".
"""

from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from concrete_score.errors import InputError, check_count
from concrete_score.likelihood.annealing import BATCH, Annealing, Steps, batches
from concrete_score.likelihood.annealing_paths import check_density
from concrete_score.likelihood.exact import LogLikelihood, check_finite, check_rows, mean_and_stderr, row_log_densities
from concrete_score.likelihood.preparation import Budget, exact_sampler, prepare
from concrete_score.protocols import Samplable
from concrete_score.samplers.completions import RowName, row_by_number
from concrete_score.samplers.run import Progress
from concrete_score.shapes import PerState

LogWeights = Float[Tensor, "*rows chains"]
"""Logarithms of weights ``(..., C)``; the last axis is averaged over."""
HEAVY = 1.0
"""A spread of log-weights, in nats, beyond which a mean of weights hangs on few chains."""
FEW = 0.1
"""A share of effective chains below which it does too: a few large weights hardly widen the spread."""


@dataclass(frozen=True)
class LogMean:
    """``log mean(w)`` of C independent weights and how far to trust it.

    Attributes:
        value: ``log((1/C) Σ_c w_c)``; by Jensen's inequality at most ``log E w`` in expectation.
        stderr: of the value, to first order: ``sd(w) / (mean(w) √C)``.
        spread: the standard deviation of the log-weights, in nats.
        effective: ``(Σ w)² / Σ w²``, as how many equal weights these count.
        chains: C.
    """

    value: float
    stderr: float
    spread: float
    effective: float
    chains: int

    @property
    def warning(self) -> str | None:
        """A sentence where the tails are too heavy for the standard error to be right, else None."""
        if self.spread <= HEAVY and self.effective >= FEW * self.chains:
            return None
        return (
            f"log-weights spread over {self.spread:.1f} nats, and {self.chains} chains count as {self.effective:.1f}: "
            "the bound holds but is loose, and its standard error is too small; anneal in more steps"
        )


def log_mean(log_weights: Float[Tensor, " chains"]) -> LogMean:
    """The logarithm of the mean of weights ``(C,)``, C at least 2.

    >>> import torch
    >>> result = log_mean(torch.tensor([0.0, 0.0, 0.0]))
    >>> result.value, result.stderr, round(result.effective, 6)
    (0.0, 0.0, 3.0)
    """
    value, stderr = log_means(log_weights)
    spread = float(log_weights.double().std())
    doubled = log_weights.double()
    effective = float((2 * doubled.logsumexp(-1) - (2 * doubled).logsumexp(-1)).exp())
    return LogMean(float(value), float(stderr), spread, effective, len(log_weights))


def log_means(log_weights: LogWeights) -> tuple[Tensor, Tensor]:
    """``log mean(w)`` along the last axis ``(..., C) -> (...)``, and its standard error by the delta method.

    Raises:
        InputError: fewer than two weights, or one that is not a finite number.
    """
    count = log_weights.shape[-1]
    if count < 2:
        raise InputError("at least 2 chains, for a standard error", str(count), where="chains")
    check_finite(log_weights, "log-weights", "the densities along the path are broken, or too far apart")
    log_weights = log_weights.double()
    value = log_weights.logsumexp(-1) - log(count)
    relative = (log_weights - value[..., None]).exp()
    return value, relative.std(-1) / sqrt(count)


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
        progress: called after every step.

    >>> from concrete_score.likelihood import Geometric, linear, uniform
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

    >>> from concrete_score.likelihood import Geometric, linear, uniform
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


@dataclass(frozen=True, eq=False)
class Raise:
    """The RAISE estimate of each row.

    Attributes:
        values: ``log mean_c w_c(x)`` ``(N,)``.
        stderrs: of each value, of the chains' randomness ``(N,)``; NaN with a single chain a row.
        spread: the root mean square, over rows, of the standard deviation of a row's log-weights; NaN likewise.
    """

    values: PerState
    stderrs: PerState
    spread: float

    @property
    def mean(self) -> float:
        """The mean of the rows' values."""
        return float(self.values.mean())


def raise_(
    annealing: Annealing,
    rows: Any,
    generator: torch.Generator,
    chains: int = 1,
    batch: int = BATCH,
    progress: Progress | None = None,
    row_name: RowName = row_by_number,
) -> Raise:
    """``log mean_c w_c(x)`` with ``log w = log f(x) - Σ_k [log f_k - log f_{k-1}](x_{k-1})`` and ``E w = p_ann(x)``.

    Chains start at the row, ``x_K = x``, and take the time reversals of ``T_K, …, T_1``. The estimate is a stochastic
    lower bound on the log-likelihood under ``p_ann``, the annealing approximation of the model. It is below the model's
    own log-likelihood on average over the *model's* rows, or as ``p_ann`` approaches the model; for one row it may be
    above. Its name is ``raise``, never ``lower``.

    Args:
        annealing: path, schedule and kernels, fixed beforehand.
        rows: ``(N, D)``.
        generator: all randomness.
        chains: for each row; more of them tighten the bound.
        batch: chains run together.
        progress: called after every step.
        row_name: what a row is called in errors.

    >>> from concrete_score.likelihood import Geometric, linear, uniform
    >>> from concrete_score.targets import pmf
    >>> model = pmf([0.25, 0.75])
    >>> annealing = Annealing(Geometric(uniform(model.space), model), linear(200))
    >>> result = raise_(annealing, [[1]], torch.Generator().manual_seed(0), chains=50)
    >>> 0.74 < result.values.exp().item() < 0.76
    True
    """
    check_count(chains, "chains", 1)
    states = check_rows(annealing.path.space, rows)
    log_f = row_log_densities(annealing.path.target, states, row_name=row_name)
    check_finite(log_f, row_name, "RAISE needs rows of positive density")
    parts = torch.split(states.repeat_interleave(chains, 0), batch)
    tick = Steps(progress, annealing.schedule.steps * len(parts))
    down = torch.cat([annealing.down(part, generator, tick).log_weight for part in parts])
    log_weights = log_f[:, None] - down.reshape(len(states), chains)
    if chains == 1:
        return Raise(log_weights[:, 0], torch.full_like(log_f, torch.nan), float("nan"))
    values, stderrs = log_means(log_weights)
    return Raise(values, stderrs, float(log_weights.var(-1).mean().sqrt()))


def sandwich(
    target: Any,
    rows: Any,
    generator: torch.Generator,
    budget: Budget | None = None,
    annealing: Annealing | None = None,
    progress: Progress | None = None,
    row_name: RowName = row_by_number,
) -> LogLikelihood:
    """Bounds on the mean log-likelihood of rows: AIS from above, reverse AIS from below, and RAISE.

    ``upper = mean log f(x) - log Ẑ``, ``lower = mean log f(x) - log Ẑ_rev``; None where the target has no exact draws.

    Args:
        target: any density; whether it is normalized is not asked.
        rows: ``(N, D)``; if more than ``budget.bound_rows``, that many are drawn from them and all means are theirs.
        generator: all randomness.
        budget: steps and chains.
        annealing: path, schedule and kernels; by default `prepare`'s, from a pilot run.
        progress, row_name: called after every step of the weighted chains; what a row is called in errors.

    Raises:
        InputError: pieces of different spaces, rows outside it or of density zero, before any chain runs.

    >>> from concrete_score.targets import random_rbm
    >>> gen = torch.Generator().manual_seed(0)
    >>> model = random_rbm(8, 4, 0.5, gen)
    >>> result = sandwich(model, model.sample(20, gen), gen, Budget(steps=50, chains=100))
    >>> result.method, abs(result.gap) < 0.1
    ('sandwich', True)
    """
    budget = budget or Budget()
    states, log_f = _bounded_rows(target, rows, budget.bound_rows, generator, row_name)
    annealing = annealing or prepare(target, generator, budget)
    if annealing.path.target is not target:
        raise InputError("an annealing that leads to the target", "one to another model", where="annealing")
    above, below, raised = _bounds(annealing, states, budget, generator, progress)
    mean, stderr = mean_and_stderr(log_f)
    return LogLikelihood(
        rows=len(states),
        sites=target.space.num_sites,
        method="ais" if below is None else "sandwich",
        lower=None if below is None else mean - below.value,
        upper=mean - above.value,
        raise_=raised.mean,
        stderr=stderr,
        bound_stderr=max(bound.stderr for bound in (above, below) if bound is not None),
        raise_stderr=float(raised.stderrs.square().sum().sqrt()) / len(states),
        warnings=_warnings(above, below, raised),
    )


def _bounds(
    annealing: Annealing, states: Tensor, budget: Budget, generator: torch.Generator, progress: Progress | None
) -> tuple[Any, Any, Any]:
    """AIS, reverse AIS (None without exact draws of the target) and RAISE, in this order."""
    sampler = exact_sampler(annealing.path.target)
    count = _count(annealing, budget, len(states), sampler, progress)
    above = ais(annealing, budget.chains, generator, budget.batch, count)
    below = None
    if sampler is not None:
        exact_draws = sampler.sample(budget.chains, generator)
        below = reverse_ais(annealing, exact_draws, generator, budget.batch, count)
    return above, below, raise_(annealing, states, generator, budget.raise_chains, budget.batch, count)


def _bounded_rows(
    target: Any, rows: Any, most: int, generator: torch.Generator, row_name: RowName
) -> tuple[Tensor, Tensor]:
    """At most ``most`` of the rows ``(n, D)``, in their order, and their log-densities ``(n,)``, all finite."""
    check_density(target, "target")
    states = check_rows(target.space, rows)
    chosen = torch.arange(len(states))
    if len(states) > most:
        chosen = torch.randperm(len(states), generator=generator, device=generator.device)[:most].sort().values
    states = states[chosen.to(states.device)]

    def name(row: int) -> str:
        return row_name(int(chosen[row]))

    log_f = row_log_densities(target, states, row_name=name)
    check_finite(log_f, name, "the bounds need rows of positive density")
    return states, log_f


def _count(
    annealing: Annealing, budget: Budget, rows: int, sampler: Samplable | None, progress: Progress | None
) -> Progress:
    """One count over all parts of the work."""
    directions = 1 if sampler is None else 2
    runs = directions * len(batches(budget.chains, budget.batch))
    runs += len(batches(rows * budget.raise_chains, budget.batch))
    tick = Steps(progress, annealing.schedule.steps * runs)
    return lambda done, total: tick()


def _warnings(above: LogMean, below: LogMean | None, raised: Raise) -> tuple[str, ...]:
    named = [("upper", above.warning), ("lower", None if below is None else below.warning)]
    found = [f"{name}: {text}" for name, text in named if text is not None]
    if raised.spread > HEAVY:
        found.append(f"raise: log-weights spread over {raised.spread:.1f} nats: too low; anneal in more steps")
    return tuple(found)
