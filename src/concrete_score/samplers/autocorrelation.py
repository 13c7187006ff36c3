"""How long a chain remembers: integrated autocorrelation times, with their errors and whether a run is long enough.

See docs/mathematics.md, "Autocorrelation times".
"""

from dataclasses import dataclass
from math import inf, nan, sqrt

import torch
from jaxtyping import Float
from torch import Tensor

WINDOW = 5.0
"""Correlations are summed up to this many times their sum (Sokal)."""
LONG = 10.0
"""Autocorrelation times that a chain must last for its own to be known."""


@dataclass(frozen=True)
class AutocorrelationTime:
    """``τ = 1 + 2 Σ_t ρ(t)`` in draws: N correlated draws are worth ``N / τ`` independent ones."""

    value: float
    """NaN if the statistic never changed."""
    error: float
    """Its standard error."""
    window: int
    """How many lags were summed."""
    draws: int
    """Of each chain."""

    @property
    def long_enough(self) -> bool:
        """Whether each chain lasts ten times as long as it remembers; if not, the value may be far too low."""
        return self.draws >= LONG * self.value


@torch.no_grad()
def autocorrelation_time(trace: Float[Tensor, "draws chains"]) -> AutocorrelationTime:
    """The integrated autocorrelation time of a statistic over chains ``(N, C)`` that share their mean (Wolff, 2004).

    Autocovariances are averaged over chains, around the mean of all of them, so that chains which disagree count as
    slow, and summed up to a window of five times the sum itself. The error is ``τ √(2 (2W + 1) / N C)``.

    >>> g = torch.Generator().manual_seed(0)
    >>> noise = torch.randn(4000, 16, generator=g, dtype=torch.float64)
    >>> for i in range(1, 4000):
    ...     noise[i] += 0.8 * noise[i - 1]
    >>> found = autocorrelation_time(noise)   # (1 + 0.8) / (1 - 0.8) = 9
    >>> abs(found.value - 9) < 4 * found.error, found.long_enough
    (True, True)
    """
    draws, chains = trace.shape
    values = trace.double() - trace.double().mean()
    spread = float(values.square().mean())
    if not spread > 0:
        return AutocorrelationTime(nan, nan, 0, draws)
    padded = torch.fft.rfft(values, n=2 * draws, dim=0)
    sums = torch.fft.irfft(padded.abs().square(), n=2 * draws, dim=0)[:draws].sum(1)
    correlation = sums / (chains * (draws - torch.arange(draws, device=trace.device))) / spread
    running = 1 + 2 * correlation[1:].cumsum(0)
    lags = torch.arange(1, draws, device=trace.device)
    closed = (lags >= WINDOW * running).nonzero()
    if not len(closed):
        return AutocorrelationTime(inf, inf, draws, draws)
    window = int(closed[0]) + 1
    total = draws * chains
    # The mean is itself estimated, which takes a little off every correlation.
    value = float(running[window - 1]) * (1 + (2 * window + 1) / total)
    value = max(value, 1 / total)
    return AutocorrelationTime(value, value * sqrt(2 * (2 * window + 1) / total), window, draws)
