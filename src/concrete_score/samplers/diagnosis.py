"""Have chains mixed? Effective draws, R-hat, autocorrelation times with their errors, and when a run is too short to
tell. See docs/mathematics.md, "Autocorrelation times".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from math import inf, isnan, nan, sqrt
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from concrete_score.errors import InputError

MIN_CHAINS = 2
MIN_DRAWS = 4
MAX_R_HAT = 1.01
MIN_ESS = 100.0
MIN_ACCEPTANCE = 0.01
WINDOW = 5.0
"""Correlations are summed up to this many times their sum (Sokal)."""
LONG = 10.0
"""Autocorrelation times that a chain must last for its own to be known."""
Trace = Float[Tensor, "draws chains"]
"""One number a draw and chain."""


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

    def __str__(self) -> str:
        return f"{self.value:.3g} ± {self.error:.2g} draws"


@torch.no_grad()
def autocorrelation_time(trace: Trace) -> AutocorrelationTime:
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


@dataclass(frozen=True)
class Summary:
    """One statistic over all draws."""

    mean: float
    standard_error: float
    """Of the mean, with the chains' autocorrelation accounted for; NaN if the statistic never changed."""
    ess: float
    """How many independent draws the chains are worth for the mean; NaN if the statistic never changed."""
    r_hat: float
    """Between over within chains (rank-normalized, split): near 1 where chains agree, infinite if none moves."""
    time: AutocorrelationTime | None = None
    """How many draws a chain remembers, with its error."""


@dataclass(frozen=True)
class Diagnosis:
    """How a run of chains went."""

    chains: int
    draws: int
    """Kept, of each chain."""
    acceptance: float
    """Share of accepted moves after burn-in."""
    passes: int
    """Of the network or density over all chains, burn-in included."""
    statistics: Mapping[str, Summary] = field(default_factory=dict)
    """By name."""
    disagreement: float | None = None
    """Mean ``|l(x→y) + l(y→x)|`` over proposed edges, of kernels that read a score model both ways."""
    warnings: tuple[str, ...] = ()
    """What is wrong, a sentence each; empty if nothing was found."""
    seconds: float = nan
    """That all steps took, burn-in included."""
    round_trips: float | None = None
    """Of a chain's copies from the coldest temperature to the warmest and back, a chain; None without temperatures."""
    kernel: str = ""
    """Which one was chosen and why, where that was left to the library."""

    @property
    def mixed(self) -> bool:
        """Whether there is no warning. They may still all have missed the same mode."""
        return not self.warnings

    @property
    def slowest(self) -> str | None:
        """The statistic with the fewest effective draws; None if none ever changed."""
        known = {name: s.ess for name, s in self.statistics.items() if not isnan(s.ess)}
        return min(known, key=known.__getitem__) if known else None

    @property
    def ess(self) -> float:
        """Effective draws of the slowest statistic."""
        return nan if self.slowest is None else self.statistics[self.slowest].ess

    @property
    def ess_per_second(self) -> float:
        """Of the slowest statistic."""
        return self.ess / self.seconds if self.seconds > 0 else nan

    @property
    def ess_per_pass(self) -> float:
        """Of the slowest statistic; a pass is one look at all chains."""
        return self.ess / self.passes if self.passes else nan

    def __str__(self) -> str:
        lines = [self.kernel] if self.kernel else []
        lines.append(f"{self.chains} chains of {self.draws} draws, {self.acceptance:.1%} of moves accepted")
        lines += [f"{name}: {_line(s)}" for name, s in self.statistics.items()]
        if self.slowest is not None:
            speed = f"{self.ess_per_second:.3g} effective draws a second, {self.ess_per_pass:.3g} a pass"
            lines.append(f"slowest: {self.slowest}, {speed}")
        if self.round_trips is not None:
            lines.append(f"round trips between the temperatures: {self.round_trips:.3g} a chain")
        return "\n".join([*lines, *(self.warnings or ("nothing speaks against these chains",))])


def _line(s: Summary) -> str:
    time = "" if s.time is None else f", autocorrelation time {s.time}"
    return f"{s.mean:.5g} ± {s.standard_error:.2g}, ESS {s.ess:.0f}, R-hat {s.r_hat:.3f}{time}"


def check_enough(chains: int, draws: int) -> None:
    """R-hat compares chains with each other: one chain, or next to no draws, cannot be judged.

    >>> check_enough(1, 100)
    Traceback (most recent call last):
    concrete_score.errors.InputError: chains: expected at least 2 chains for R-hat, got 1; ...
    """
    if chains < MIN_CHAINS:
        fix = "start more chains, or pass diagnose=False"
        raise InputError(f"at least {MIN_CHAINS} chains for R-hat", str(chains), where="chains", fix=fix)
    if draws < MIN_DRAWS:
        fix = "run longer, thin less, or pass diagnose=False"
        raise InputError(f"at least {MIN_DRAWS} draws a chain for R-hat", str(draws), where="steps", fix=fix)


def summarize(trace: Trace) -> Summary:
    """Mean, its error, effective sample size and R-hat of a statistic ``(N, C)``.

    >>> import torch
    >>> noise = torch.randn(500, 4, generator=torch.Generator().manual_seed(0))
    >>> s = summarize(noise)
    >>> 1500 < s.ess < 2500, abs(s.r_hat - 1) < 0.01
    (True, True)
    """
    stats: Any = import_module("arviz_stats.base").array_stats  # slow to import, so only when asked

    check_enough(trace.shape[1], len(trace))
    values = trace.double().T.numpy()
    if values.min() == values.max():
        return Summary(float(values.flat[0]), nan, nan, nan)
    if (values == values[:, :1]).all():  # every chain sits still, at its own place
        return Summary(float(values.mean()), nan, float(len(values)), inf)
    axes = {"chain_axis": 0, "draw_axis": 1}
    with np.errstate(invalid="ignore", divide="ignore"):
        ess = float(stats.ess(values, method="mean", **axes))
        r_hat = float(stats.rhat(values, **axes))
        if isnan(r_hat):  # a statistic of two values may be constant once folded around its median
            r_hat = float(stats.rhat(values, method="split", **axes))
    time = autocorrelation_time(trace)
    return Summary(float(values.mean()), float(values.std() / ess**0.5), ess, r_hat, time)


def judge(acceptance: float, statistics: Mapping[str, Summary]) -> tuple[str, ...]:
    """Warnings about the chains.

    >>> judge(0.5, {"energy": Summary(0.0, 0.1, 30.0, 1.2)})[0]
    'the chains have not mixed: R-hat of energy is 1.200, above 1.01; run longer, or use a kernel that moves farther'
    """
    found = []
    if acceptance < MIN_ACCEPTANCE:
        found.append(f"the chains hardly move: {acceptance:.2%} of proposals were accepted; take smaller steps")
    for name, s in statistics.items():
        if isnan(s.r_hat):
            found.append(f"{name} never changed, in any chain: nothing can be said about mixing")
        elif s.r_hat > MAX_R_HAT:
            found.append(
                f"the chains have not mixed: R-hat of {name} is {s.r_hat:.3f}, above {MAX_R_HAT}; "
                "run longer, or use a kernel that moves farther"
            )
        elif s.ess < MIN_ESS:
            found.append(f"{name} has only {s.ess:.0f} effective draws, fewer than {MIN_ESS:.0f}; run longer")
        if s.time is not None and not s.time.long_enough and not isnan(s.time.value):
            found.append(_too_short(name, s.time))
    return tuple(found)


def _too_short(name: str, time: AutocorrelationTime) -> str:
    least = "beyond its end" if time.value == inf else f"of {time.value:.3g} draws or more"
    return (
        f"the run is too short to tell: chains of {time.draws} draws remember {name} for a time {least}; "
        f"run at least {LONG:.0f} such times long"
    )
