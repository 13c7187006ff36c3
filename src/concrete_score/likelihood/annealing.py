"""Annealing: chains that walk a path of densities up or down a schedule, and the exact twin of their estimates.

See docs/mathematics.md, "Likelihood bounds".
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import isfinite
from typing import Any, cast

import torch
from torch import Tensor

from concrete_score.errors import InputError, check_count
from concrete_score.likelihood.annealing_paths import KernelFactory, Path, default_kernel, time_reversal
from concrete_score.likelihood.exact import check_finite
from concrete_score.protocols import Enumerable, Kernel, State
from concrete_score.samplers.combined import hand_over
from concrete_score.samplers.matrices import LIMIT
from concrete_score.samplers.run import Progress
from concrete_score.shapes import PerState, PerStateTable, States
from concrete_score.spaces import check_same_space

BATCH = 1024
"""Chains run together, by default."""


@dataclass(frozen=True)
class Schedule:
    """``0 = β_0 < β_1 < … < β_K = 1``, fixed before the weighted chains run.

    Args:
        betas: K + 1 rising numbers, the first 0 and the last 1.

    Raises:
        InputError: fewer than two, not rising, or other ends.

    >>> Schedule((0.0, 0.5, 1.0)).steps
    2
    """

    betas: tuple[float, ...]

    def __post_init__(self) -> None:
        betas = tuple(float(beta) for beta in self.betas)
        if len(betas) < 2 or betas[0] != 0 or betas[-1] != 1:
            ends = f"{len(betas)} of them" if len(betas) < 2 else f"{betas[0]} to {betas[-1]}"
            raise InputError("inverse temperatures from 0 to 1, at least one step", ends, where="betas")
        for k, (low, high) in enumerate(pairwise(betas)):
            if not (isfinite(high) and low < high):
                raise InputError("rising inverse temperatures", f"{low}, then {high}", where=f"betas[{k + 1}]")
        object.__setattr__(self, "betas", betas)

    @property
    def steps(self) -> int:
        """The number of steps, K."""
        return len(self.betas) - 1


def linear(steps: int) -> Schedule:
    """``β_k = k / K``.

    >>> linear(4).betas
    (0.0, 0.25, 0.5, 0.75, 1.0)
    """
    check_count(steps, "steps", 1)
    return Schedule(tuple(k / steps for k in range(steps + 1)))


def evenly(betas: Sequence[float], lengths: Sequence[float], steps: int, floor: float = 0.1) -> Schedule:
    """Inverse temperatures that cut a measured length into equal pieces.

    Args:
        betas: K + 1 knots of the measurement, from 0 to 1.
        lengths: what was measured between them ``(K,)``, such as the spread of log-weight increments.
        steps: of the new schedule.
        floor: the share given to evenly spaced β, so that a stretch measured as empty is still walked.

    >>> evenly((0.0, 0.5, 1.0), (3.0, 1.0), 4, floor=0.0).betas
    (0.0, 0.16666666666666666, 0.3333333333333333, 0.5, 1.0)
    """
    import numpy as np

    check_count(steps, "steps", 1)
    knots = np.asarray(betas)
    length = np.asarray(lengths)
    total = length.sum()
    share = length / total if total > 0 else np.diff(knots)
    reached = np.concatenate([[0.0], np.cumsum((1 - floor) * share + floor * np.diff(knots))])
    inner = np.interp(np.arange(1, steps) / steps, reached / reached[-1], knots)
    return Schedule((0.0, *(float(beta) for beta in inner), 1.0))


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
        total, spreads = _blank(x)
        state, last = State(x), cast(Any, None)
        for low, high in self._rungs():
            increment = self._increment(state.x, low, high)
            total += increment
            spreads.append(_spread(increment))
            kernel = self.kernels(self.path.at(high))
            state, last = self._move(kernel, last, state, generator), kernel
            tick()
        return Climb(state.x, total, tuple(spreads))

    @torch.no_grad()
    def down(self, x: States, generator: torch.Generator, tick: Callable[[], None] = lambda: None) -> "Climb":
        """From ``x_K = x`` ``(C, D)`` back through the time reversals of ``T_K, …, T_1``; the same sum."""
        total, spreads = _blank(x)
        state, last = State(x), cast(Any, None)
        for low, high in reversed(list(self._rungs())):
            kernel = time_reversal(self.kernels(self.path.at(high)))
            state, last = self._move(kernel, last, state, generator), kernel
            increment = self._increment(state.x, low, high)
            total += increment
            spreads.append(_spread(increment))
            tick()
        return Climb(state.x, total, tuple(spreads[::-1]))

    def _rungs(self) -> Iterator[tuple[float, float]]:
        betas = self.schedule.betas
        return pairwise(betas)

    def _increment(self, x: States, low: float, high: float) -> PerState:
        value = self.path.increment(x, low, high)
        check_finite(value, "log-density", "anneal between densities that are positive on every state a chain visits")
        return value

    def _move(self, kernel: Any, last: Any, state: State, generator: torch.Generator) -> State:
        state = hand_over(state, last, kernel)
        for _ in range(self.sweeps):
            state, _ = kernel.step(state, generator)
        return state


@dataclass(frozen=True, eq=False)
class Climb:
    """Chains after a walk along the path, up or down."""

    x: States
    """``(C, D)``, where they ended."""
    log_weight: PerState
    """``Σ_k [log f_k - log f_{k-1}](x_{k-1})`` ``(C,)``."""
    spreads: tuple[float, ...]
    """The standard deviation over chains of each of the K increments, k rising whichever way they went."""


def _blank(x: States) -> tuple[PerState, list[float]]:
    """No weight, and no spreads yet."""
    return torch.zeros(len(x), dtype=torch.float64, device=x.device), []


def _spread(increment: PerState) -> float:
    return float(increment.std(correction=0))


class Steps:
    """Counts steps for a progress callback."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def __call__(self) -> None:
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


@dataclass(frozen=True, eq=False)
class EnumeratedAnnealing:
    """What one chain of an annealing is worth in expectation, over an enumerable space.

    With ``r_k = f_k / f_{k-1}`` and the matrices ``P_k`` of ``T_k``, ``P~_k`` of its time reversal:

    - ``E[w_AIS^m] = f_0 r_1^m P_1 r_2^m P_2 … r_K^m 1``,
    - ``E[w_rev^-m] = (f_K / Z) P~_K r_K^-m … P~_1 r_1^-m 1``,
    - ``E[w_RAISE | x] = f(x) (P~_K r_K^-1 … P~_1 r_1^-1 1)(x)``, to be compared with ``p_ann = f_0 P_1 … P_K``,

    and expectations of log-weights are sums of the ``log r_k`` under the chain's marginals.

    Args:
        annealing: on a space of at most 4096 states, with kernels that offer `transition_matrix`.

    >>> from concrete_score.likelihood import Geometric, linear, uniform
    >>> from concrete_score.targets import Ising
    >>> model = Ising((2, 2), 0.3)
    >>> twin = EnumeratedAnnealing(Annealing(Geometric(uniform(model.space), model), linear(3)))
    >>> abs(twin.ais_moment().log().item() - model.log_partition()) < 1e-12
    True
    """

    annealing: Annealing

    def __post_init__(self) -> None:
        self.annealing.path.space.check_enumerable(LIMIT)
        kernel = self.annealing.kernels(self.annealing.path.at(1.0))
        if not isinstance(kernel, Enumerable):
            came = type(kernel).__name__
            raise InputError("kernels with a transition matrix", came, where="kernels")

    @cached_property
    def log_densities(self) -> Tensor:
        """``log f_k`` of every state ``(K + 1, S)``."""
        path = self.annealing.path
        states = path.space.enumerate()
        with torch.no_grad():
            return torch.stack([path.at(beta).log_density(states).double() for beta in self.annealing.schedule.betas])

    @property
    def log_partition(self) -> Tensor:
        """The logarithm of the exact normalizer, ``log Z``."""
        return self.log_densities[-1].logsumexp(0)

    def ais_moment(self, power: int | float = 1.0) -> Tensor:
        """``E[w^power]`` of an AIS chain; Z for power 1."""
        measure = self.log_densities[0].exp()
        for log_ratio, forward in zip(self._log_ratios, self._matrices(), strict=True):
            measure = (measure * (power * log_ratio).exp()) @ forward
        return measure.sum()

    def reverse_moment(self, power: int | float = 1.0) -> Tensor:
        """``E[w^-power]`` of a reverse chain from an exact sample; 1/Z for power 1."""
        return self._target @ self._descent(power)

    def raise_moment(self, power: int | float = 1.0) -> PerStateTable:
        """``E[w(x)^power]`` of a RAISE chain from every state ``(S,)``; ``p_ann`` for power 1."""
        return (power * self.log_densities[-1]).exp() * self._descent(power)

    def annealed(self) -> PerStateTable:
        """``p_ann``: where an AIS chain ends ``(S,)``."""
        return self._marginals()[-1]

    def ais_mean_log(self) -> Tensor:
        """``E log w`` of one AIS chain, at most log Z."""
        marginals = torch.stack(self._marginals()[:-1])
        return torch.where(marginals > 0, marginals * self._log_ratios, 0.0).sum()

    def reverse_mean_log(self) -> Tensor:
        """``E log w`` of one reverse chain from an exact sample, at least log Z."""
        return self._target @ self._descent_mean_log()

    def raise_mean_log(self) -> PerStateTable:
        """``E log w(x)`` of one RAISE chain from every state ``(S,)``, at most ``log p_ann``."""
        return self.log_densities[-1] - self._descent_mean_log()

    @property
    def _target(self) -> Tensor:
        return self.log_densities[-1].softmax(0)

    @cached_property
    def _log_ratios(self) -> Tensor:
        # Where both are zero no chain ever is.
        return self.log_densities.diff(dim=0).nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf)

    def _marginals(self) -> list[Tensor]:
        marginals = [self.log_densities[0].exp()]
        for forward in self._matrices():
            marginals.append(marginals[-1] @ forward)
        return marginals

    def _descent(self, power: int | float) -> Tensor:
        """``E[Π_k r_k(x_{k-1})^-power | x_K = x]`` ``(S,)``, from the bottom up."""
        value = torch.ones_like(self.log_densities[0])
        for log_ratio, backward in self._descents():
            value = backward @ ((-power * log_ratio).exp() * value)
        return value

    def _descent_mean_log(self) -> Tensor:
        """``E[Σ_k log r_k(x_{k-1}) | x_K = x]`` ``(S,)``."""
        value = torch.zeros_like(self.log_densities[0])
        for log_ratio, backward in self._descents():
            value = backward @ (log_ratio + value)
        return value

    def _descents(self) -> Iterator[tuple[Tensor, Tensor]]:
        """``log r_k`` and the reversed matrix that leads there, from the bottom up; a chain never enters a zero of f_k,
        so the ratio of one, which is none, is given as 0."""
        for log_ratio, backward in zip(self._log_ratios, self._matrices(backward=True), strict=True):
            yield log_ratio.nan_to_num(posinf=torch.inf, neginf=0.0), backward

    def _matrices(self, backward: bool = False) -> Iterator[Tensor]:
        """The matrices of ``T_1, …, T_K``, or of their time reversals, ``sweeps`` times each."""
        for beta in self.annealing.schedule.betas[1:]:
            kernel: Kernel = self.annealing.kernels(self.annealing.path.at(beta))
            kernel = time_reversal(kernel) if backward else kernel
            if not isinstance(kernel, Enumerable):  # pragma: no cover - checked when built
                raise TypeError("no transition matrix")
            yield torch.linalg.matrix_power(kernel.transition_matrix(), self.annealing.sweeps)
