"""RAISE, the reverse AIS estimator started at test rows (Burda, Grosse and Salakhutdinov, 2015)."""

from dataclasses import dataclass
from typing import Any

import torch

from concrete_score.likelihood.ais import BATCH
from concrete_score.likelihood.annealing import Annealing, Progress, Steps
from concrete_score.likelihood.exact import check_rows, row_log_densities
from concrete_score.likelihood.schedules import check_count
from concrete_score.likelihood.weights import check_finite, log_means
from concrete_score.shapes import PerState


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
        """Over rows."""
        return float(self.values.mean())


def raise_(
    annealing: Annealing,
    rows: Any,
    generator: torch.Generator,
    chains: int = 1,
    batch: int = BATCH,
    progress: Progress | None = None,
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

    >>> from concrete_score.likelihood.annealing import Geometric
    >>> from concrete_score.likelihood.bases import uniform
    >>> from concrete_score.likelihood.schedules import linear
    >>> from concrete_score.targets import pmf
    >>> model = pmf([0.25, 0.75])
    >>> annealing = Annealing(Geometric(uniform(model.space), model), linear(200))
    >>> result = raise_(annealing, [[1]], torch.Generator().manual_seed(0), chains=50)
    >>> 0.74 < result.values.exp().item() < 0.76
    True
    """
    check_count(chains, "chains", 1)
    states = check_rows(annealing.path.space, rows)
    log_f = row_log_densities(annealing.path.target, states)
    check_finite(log_f, "rows", "RAISE needs rows of positive density")
    parts = torch.split(states.repeat_interleave(chains, 0), batch)
    tick = Steps(progress, annealing.schedule.steps * len(parts))
    down = torch.cat([annealing.down(part, generator, tick).log_weight for part in parts])
    log_weights = log_f[:, None] - down.reshape(len(states), chains)
    if chains == 1:
        return Raise(log_weights[:, 0], torch.full_like(log_f, torch.nan), float("nan"))
    values, stderrs = log_means(log_weights)
    return Raise(values, stderrs, float(log_weights.var(-1).mean().sqrt()))
