"""Means of importance weights in log space, with honest standard errors and words about heavy tails."""

from dataclasses import dataclass
from math import log, sqrt

from jaxtyping import Float
from torch import Tensor

from concrete_score.errors import InputError

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
        """Plain words where the tails are too heavy for the standard error to be believed, else None."""
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


def check_finite(values: Tensor, where: str, fix: str) -> None:
    """Refuse NaN and infinities by their place."""
    bad = ~values.isfinite()
    if bad.any():
        place = tuple(int(k) for k in bad.nonzero()[0])
        came = str(values[place].item())
        raise InputError("finite numbers", came, where=f"{where}[{', '.join(map(str, place))}]", fix=fix)


def mean_and_stderr(values: Float[Tensor, " rows"]) -> tuple[float, float]:
    """The mean of rows ``(N,)`` and its standard error; NaN for a single row.

    >>> import torch
    >>> mean_and_stderr(torch.tensor([1.0, 3.0]))
    (2.0, 1.0)
    """
    values = values.double()
    stderr = float(values.std()) / sqrt(len(values)) if len(values) > 1 else float("nan")
    return float(values.mean()), stderr
