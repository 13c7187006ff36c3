"""Loops around kernels: burn-in, thinning, streams of draws, and runs with a diagnosis: have the chains mixed?"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from math import inf, isnan, nan
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from concrete_score.errors import InputError, check_count
from concrete_score.protocols import DensityModel, Kernel, State

MIN_CHAINS = 2
MIN_DRAWS = 4
MAX_R_HAT = 1.01
MIN_ESS = 100.0
MIN_ACCEPTANCE = 0.01
Trace = Float[Tensor, "draws chains"]
"""One number a draw and chain."""
Statistic = Callable[[Tensor], Tensor]
"""From states ``(C, D)`` to one number a chain ``(C,)``."""
Progress = Callable[[int, int], None]
"""Called with the steps done and the steps in all, after every step."""


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
    """What is wrong, a sentence each; empty if nothing was found."""

    @property
    def mixed(self) -> bool:
        """Whether there is no warning. They may still all have missed the same mode."""
        return not self.warnings

    def __str__(self) -> str:
        lines = [f"{self.chains} chains of {self.draws} draws, {self.acceptance:.1%} of moves accepted"]
        for name, s in self.statistics.items():
            lines.append(f"{name}: {s.mean:.5g} ± {s.standard_error:.2g}, ESS {s.ess:.0f}, R-hat {s.r_hat:.3f}")
        return "\n".join([*lines, *(self.warnings or ("nothing speaks against these chains",))])


class Draw(NamedTuple):
    """The chains after some step that is kept."""

    state: State
    step: int
    """Steps since burn-in."""
    acceptance: float
    """Share of accepted moves since burn-in, so far."""
    passes: int
    """So far, burn-in included."""
    disagreement: float | None
    """See `Diagnosis`."""


@dataclass(frozen=True, eq=False)
class Samples:
    """What a run brought."""

    draws: Tensor = field(repr=False)
    """Kept states ``(N, C, D)`` in the narrowest type that holds them; empty if none were to be kept."""
    state: State = field(repr=False)
    """Where the chains ended, to go on from."""
    diagnosis: Diagnosis | None

    @property
    def rows(self) -> Tensor:
        """All draws of all chains in one table ``(N C, D)``, int64 if discrete."""
        flat = self.draws.flatten(0, 1)
        return flat if flat.dtype.is_floating_point else flat.long()


def stream(
    kernel: Kernel,
    x: Any,
    *,
    steps: int,
    generator: torch.Generator,
    burn_in: int = 0,
    thin: int = 1,
    clamped: Tensor | None = None,
    progress: Progress | None = None,
) -> Iterator[Draw]:
    """The chains after every ``thin``-th step beyond burn-in, one at a time: memory does not grow with the steps.

    Args:
        kernel: what to run.
        x: starts ``(C, D)``; or how many chains to start at uniformly drawn states; or the `State` of an earlier run.
        steps: beyond burn-in.
        burn_in: steps before the first draw.
        thin: keep every so many steps.
        clamped: sites that never move ``(C, D)`` or ``(D,)``.
        progress: called after every step.

    Raises:
        InputError: at once, before any step: numbers of steps that make no sense, or starts the kernel refuses.

    >>> from concrete_score.samplers import MetropolisHastings
    >>> from concrete_score.targets import Ising
    >>> kernel = MetropolisHastings(Ising((3, 3), 0.4))
    >>> [draw.step for draw in stream(kernel, 2, steps=6, thin=3, generator=torch.Generator().manual_seed(0))]
    [3, 6]
    """
    for name, value, least in (("steps", steps, 1), ("burn_in", burn_in, 0), ("thin", thin, 1)):
        check_count(value, name, least)
    if thin > steps:
        raise InputError(f"thin of at most the {steps} steps", str(thin), where="thin", fix="no draw would be kept")
    state = _start(kernel, x, clamped, generator)
    return _walk(kernel, state, steps, burn_in, thin, generator, progress)


def run(
    kernel: Kernel,
    x: Any,
    *,
    steps: int,
    generator: torch.Generator,
    burn_in: int = 0,
    thin: int = 1,
    clamped: Tensor | None = None,
    progress: Progress | None = None,
    statistics: Mapping[str, Statistic] | None = None,
    diagnose: bool = True,
    keep: bool = True,
) -> Samples:
    """Run chains, keep their draws, and judge whether they have mixed.

    Args:
        kernel, x, steps, generator, burn_in, thin, clamped, progress: as in `stream`.
        statistics: what to watch besides the log-density, by name.
        diagnose: compute ESS and R-hat of the log-density (where the kernel's model has one) and the statistics.
        keep: store the draws; without it memory holds one number a draw, chain and statistic.

    Raises:
        InputError: before any step; also too few chains or draws for R-hat, unless ``diagnose=False``.

    >>> from concrete_score.samplers import Gibbs
    >>> from concrete_score.targets import Ising
    >>> g = torch.Generator().manual_seed(0)
    >>> samples = run(Gibbs(Ising((2, 2), 0.2)), 8, steps=2000, burn_in=50, thin=10, generator=g)
    >>> samples.draws.shape, samples.diagnosis.mixed
    (torch.Size([200, 8, 4]), True)
    """
    if diagnose:
        check_enough(x if isinstance(x, int) else len(x.x if isinstance(x, State) else x), steps // max(1, thin))
    watched = _watched(kernel, statistics) if diagnose else {}
    drawn = stream(
        kernel, x, steps=steps, generator=generator, burn_in=burn_in, thin=thin, clamped=clamped, progress=progress
    )
    kept: list[Tensor] = []
    traces: dict[str, list[Tensor]] = {name: [] for name in watched}
    for draw in drawn:
        if keep:
            kept.append(_narrow(draw.state.x, kernel))
        for name, statistic in watched.items():
            traces[name].append(_value(name, statistic, draw.state.x))
    states = torch.stack(kept) if keep else draw.state.x.new_empty((0, *draw.state.x.shape))
    return Samples(states, draw.state, _diagnosis(draw, traces, steps // thin) if diagnose else None)


def _diagnosis(last: Any, traces: Mapping[str, list[Tensor]], draws: int) -> Diagnosis:
    """What the traces say of a run that ended with this draw."""
    summaries = {name: summarize(torch.stack(trace)) for name, trace in traces.items()}
    return Diagnosis(
        chains=len(last.state.x),
        draws=draws,
        acceptance=last.acceptance,
        passes=last.passes,
        statistics=summaries,
        disagreement=last.disagreement,
        warnings=judge(last.acceptance, summaries),
    )


def _start(kernel: Kernel, x: Any, clamped: Tensor | None, generator: torch.Generator) -> State:
    if isinstance(x, State):
        return x
    if isinstance(x, int):
        if x < 1:
            raise InputError("at least 1 chain", str(x), where="x")
        x = kernel.space.uniform(x, generator)
    return kernel.init(x, clamped)


def _walk(
    kernel: Kernel,
    state: State,
    steps: int,
    burn_in: int,
    thin: int,
    generator: torch.Generator,
    progress: Progress | None,
) -> Iterator[Draw]:
    accepted = disagreed = 0.0
    passes = 0
    for i in range(1, burn_in + steps + 1):
        state, info = kernel.step(state, generator)
        passes += info.passes
        done = i - burn_in
        disagreement = getattr(state.memory, "disagreement", None)
        if done > 0:
            accepted += float(info.accepted.double().mean())
            disagreed += 0.0 if disagreement is None else float(disagreement.mean())
        if progress is not None:
            progress(i, burn_in + steps)
        if done > 0 and done % thin == 0:
            yield Draw(state, done, accepted / done, passes, None if disagreement is None else disagreed / done)


def _watched(kernel: Kernel, statistics: Mapping[str, Statistic] | None) -> dict[str, Statistic]:
    model = getattr(kernel, "model", None)
    own = {"log_density": model.log_density} if isinstance(model, DensityModel) else {}
    watched = {**own, **(statistics or {})}
    if not watched:
        raise InputError(
            "a statistic to watch, for the kernel's model has no log-density",
            "none",
            where="statistics",
            fix='give one such as {"mean": lambda x: x.double().mean(-1)}, or pass diagnose=False',
        )
    return watched


@torch.no_grad()
def _value(name: str, statistic: Statistic, x: Tensor) -> Tensor:
    value = statistic(x)
    if value.shape != x.shape[:1]:
        raise InputError(f"one number a chain, shape ({len(x)},)", f"shape {tuple(value.shape)}", where=name)
    return value.detach().double().cpu()


def _narrow(x: Tensor, kernel: Kernel) -> Tensor:
    """Stored in one byte a site where its values fit, else in four."""
    if x.dtype.is_floating_point:
        return x.clone()
    return x.to(torch.uint8 if max(kernel.space.sizes) <= 256 else torch.int32)


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
    return tuple(found)
