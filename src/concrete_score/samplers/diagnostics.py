"""Have the chains mixed? Acceptance, effective sample sizes and R-hat, with the verdict in plain words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from math import inf, isnan, nan
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from concrete_score.errors import InputError

MIN_CHAINS = 2
MIN_DRAWS = 4
MAX_R_HAT = 1.01
MIN_ESS = 100.0
MIN_ACCEPTANCE = 0.01

Trace = Float[Tensor, "draws chains"]
"""One number a draw and chain."""


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
    disagreement: float | None = None
    """Mean ``|l(x→y) + l(y→x)|`` over proposed edges, of kernels that read a score model both ways."""
    warnings: tuple[str, ...] = ()
    """What is wrong, in plain words; empty if nothing was found."""

    @property
    def mixed(self) -> bool:
        """Whether nothing speaks against the chains. They may still all have missed the same mode."""
        return not self.warnings

    def __str__(self) -> str:
        lines = [f"{self.chains} chains of {self.draws} draws, {self.acceptance:.1%} of moves accepted"]
        for name, s in self.statistics.items():
            lines.append(f"{name}: {s.mean:.5g} ± {s.standard_error:.2g}, ESS {s.ess:.0f}, R-hat {s.r_hat:.3f}")
        return "\n".join([*lines, *(self.warnings or ("nothing speaks against these chains",))])


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
    return Summary(float(values.mean()), float(values.std() / ess**0.5), ess, r_hat)


def judge(acceptance: float, statistics: Mapping[str, Summary]) -> tuple[str, ...]:
    """What speaks against the chains, in plain words.

    >>> judge(0.5, {"energy": Summary(0.0, 0.1, 30.0, 1.2)})[0]
    'the chains have not mixed: R-hat of energy is 1.200, above 1.01; run longer, or use a kernel that moves farther'
    """
    said = []
    if acceptance < MIN_ACCEPTANCE:
        said.append(f"the chains hardly move: {acceptance:.2%} of proposals were accepted; take smaller steps")
    for name, s in statistics.items():
        if isnan(s.r_hat):
            said.append(f"{name} never changed, in any chain: nothing can be said about mixing")
        elif s.r_hat > MAX_R_HAT:
            said.append(
                f"the chains have not mixed: R-hat of {name} is {s.r_hat:.3f}, above {MAX_R_HAT}; "
                "run longer, or use a kernel that moves farther"
            )
        elif s.ess < MIN_ESS:
            said.append(f"{name} has only {s.ess:.0f} effective draws, fewer than {MIN_ESS:.0f}; run longer")
    return tuple(said)
