"""Annealing: a path of densities from one that is known to one that is wanted, walked up or down (DESIGN M12)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import torch

from concrete_score.errors import InputError
from concrete_score.likelihood.kernels import KernelFactory, default_kernel, time_reversal
from concrete_score.likelihood.schedules import Schedule, check_count
from concrete_score.likelihood.weights import check_finite
from concrete_score.neighborhoods import check_same_space
from concrete_score.protocols import DensityModel, Samplable
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space

Progress = Callable[[int, int], None]
"""Told how many steps are done, and how many there are."""


@runtime_checkable
class Path(Protocol):
    """Densities ``f_β`` from a normalized one that can be sampled (β = 0) to the target (β = 1)."""

    @property
    def space(self) -> Space: ...
    @property
    def target(self) -> DensityModel: ...

    def at(self, beta: float) -> DensityModel:
        """``f_β``; ``at(0)`` is normalized, ``at(1)`` is the target."""
        ...

    def increment(self, x: States, low: float, high: float) -> PerState:
        """``log f_high(x) - log f_low(x)`` ``(C,)`` in float64."""
        ...

    def sample(self, n: int, generator: torch.Generator) -> States:
        """``n`` exact draws from ``at(0)``."""
        ...


@dataclass(frozen=True, eq=False)
class Interpolated:
    """``log f_β(x) = (1 - β) log base(x) + β log target(x)``, not normalized in between.

    Args:
        base: a normalized density.
        target: any density on the same space.
        beta: from 0 to 1.

    >>> from concrete_score.targets import pmf
    >>> half = Interpolated(pmf([0.5, 0.5]), pmf([0.1, 0.9]), 0.5)
    >>> half.log_density(torch.tensor([[0]])).exp().square().item()   # 0.5 × 0.1, rooted
    0.05...
    """

    base: DensityModel
    target: DensityModel
    beta: float

    def __post_init__(self) -> None:
        check_same_space(self.base.space, self.target.space, "base and target")
        if not 0 <= self.beta <= 1:
            raise InputError("a number from 0 to 1", str(self.beta), where="beta")

    @property
    def space(self) -> Space:
        """The common one."""
        return self.base.space

    @property
    def normalized(self) -> bool:
        """Only at an end that is."""
        ends = {0.0: self.base.normalized, 1.0: self.target.normalized}
        return ends.get(self.beta, False)

    def log_density(self, x: States) -> PerState:
        """``(..., D) -> (...)``; at the ends only one of the two is run."""
        if self.beta == 0:
            return self.base.log_density(x).double()
        target = self.target.log_density(x).double()
        if self.beta == 1:
            return target
        # Not `lerp`, whose difference of two -inf is no number.
        return (1 - self.beta) * self.base.log_density(x).double() + self.beta * target


@dataclass(frozen=True, eq=False)
class Geometric:
    """The geometric path ``f_β = base^(1-β) target^β``: a `Path`.

    Args:
        base: normalized, samplable, and positive wherever the target is.
        target: any density.

    Raises:
        InputError: different spaces; a base that is not normalized or cannot be sampled.

    >>> from concrete_score.targets import Ising
    >>> from concrete_score.likelihood.bases import uniform
    >>> Geometric(uniform(Ising((2, 2), 0.4).space), Ising((2, 2), 0.4)).at(0.5).normalized
    False
    """

    base: Any
    target: DensityModel

    def __post_init__(self) -> None:
        check_density(self.base, "base")
        check_density(self.target, "target")
        check_same_space(self.base.space, self.target.space, "base and target")
        if not self.base.normalized or not isinstance(self.base, Samplable):
            raise InputError(
                "a base that is normalized and can be sampled",
                type(self.base).__name__,
                where="base",
                fix="use `uniform(space)` or a fitted baseline",
            )

    @property
    def space(self) -> Space:
        """The common one."""
        return self.target.space

    def at(self, beta: float) -> Interpolated:
        """``f_β``."""
        return Interpolated(self.base, self.target, beta)

    def increment(self, x: States, low: float, high: float) -> PerState:
        """``(high - low)(log target - log base)``."""
        log_ratio: PerState = self.target.log_density(x).double() - self.base.log_density(x).double()
        return (high - low) * log_ratio

    def sample(self, n: int, generator: torch.Generator) -> States:
        """Draws of the base."""
        states: States = self.base.sample(n, generator)
        return states


@dataclass(frozen=True, eq=False)
class Annealing:
    """A path, its schedule, and kernels ``T_k`` that keep ``f_k = f_{β_k}``: all that is fixed before chains run.

    ``p_ann``, the *annealing approximation*, is where the chain ends that starts at the base and takes ``T_1, …, T_K``.

    Args:
        path: from base to target.
        schedule: K steps.
        kernels: from a density to a kernel that keeps it; reversible, or a `Composition` of such.
        sweeps: how often each ``T_k`` is applied.
    """

    path: Path
    schedule: Schedule
    kernels: KernelFactory = default_kernel
    sweeps: int = 1

    def __post_init__(self) -> None:
        check_count(self.sweeps, "sweeps", 1)
        kernel = self.kernels(self.path.at(1.0))
        check_same_space(kernel.space, self.path.space, "kernel and path")
        time_reversal(kernel)

    @torch.no_grad()
    def up(self, x: States, generator: torch.Generator, tick: Callable[[], None] = lambda: None) -> "Climb":
        """From base draws ``(C, D)`` through ``T_1, …, T_K``; ``Σ_k [log f_k - log f_{k-1}](x_{k-1})`` on the way."""
        total, spreads = torch.zeros(len(x), dtype=torch.float64, device=x.device), []
        for low, high in self._rungs():
            increment = self._increment(x, low, high)
            total += increment
            spreads.append(_spread(increment))
            x = self._move(self.kernels(self.path.at(high)), x, generator)
            tick()
        return Climb(x, total, tuple(spreads))

    @torch.no_grad()
    def down(self, x: States, generator: torch.Generator, tick: Callable[[], None] = lambda: None) -> "Climb":
        """From ``x_K = x`` ``(C, D)`` back through the time reversals of ``T_K, …, T_1``; the same sum."""
        total, spreads = torch.zeros(len(x), dtype=torch.float64, device=x.device), []
        for low, high in reversed(list(self._rungs())):
            x = self._move(time_reversal(self.kernels(self.path.at(high))), x, generator)
            increment = self._increment(x, low, high)
            total += increment
            spreads.append(_spread(increment))
            tick()
        return Climb(x, total, tuple(spreads[::-1]))

    def _rungs(self) -> Iterator[tuple[float, float]]:
        betas = self.schedule.betas
        return pairwise(betas)

    def _increment(self, x: States, low: float, high: float) -> PerState:
        value = self.path.increment(x, low, high)
        check_finite(value, "log-density", "anneal between densities that are positive on every state a chain visits")
        return value

    def _move(self, kernel: Any, x: States, generator: torch.Generator) -> States:
        state = kernel.init(x)
        for _ in range(self.sweeps):
            state, _ = kernel.step(state, generator)
        moved: States = state.x
        return moved


def check_density(model: Any, name: str) -> DensityModel:
    """A model that gives log-densities."""
    if not isinstance(model, DensityModel):
        came, fix = type(model).__name__, "a score model's density is `PathDensity`"
        raise InputError("a density model", came, where=name, fix=fix)
    return model


@dataclass(frozen=True, eq=False)
class Climb:
    """Chains after a walk along the path, up or down."""

    x: States
    """``(C, D)``, where they ended."""
    log_weight: PerState
    """``Σ_k [log f_k - log f_{k-1}](x_{k-1})`` ``(C,)``."""
    spreads: tuple[float, ...]
    """The standard deviation over chains of each of the K increments, k rising whichever way they went."""


def _spread(increment: PerState) -> float:
    return float(increment.std(correction=0))


class Steps:
    """Counts steps for a progress callback."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def __call__(self) -> None:
        """One more."""
        self.done += 1
        if self.progress is not None:
            self.progress(self.done, self.total)


def batches(total: int, batch: int) -> list[int]:
    """The sizes of ``total`` chains in batches.

    >>> batches(5, 2)
    [2, 2, 1]
    """
    check_count(batch, "batch", 1)
    return [min(batch, total - start) for start in range(0, total, batch)]
