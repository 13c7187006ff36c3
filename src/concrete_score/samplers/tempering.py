"""Copies of a chain at several temperatures that trade places: parallel tempering, all copies in one batch.

See docs/mathematics.md, "Tempering".
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor

from concrete_score.errors import InputError, check_count
from concrete_score.protocols import DensityModel, Enumerable, Info, Kernel, State
from concrete_score.randomness import uniform
from concrete_score.samplers import matrices
from concrete_score.samplers.base import check_clamped, check_log_density, check_start
from concrete_score.samplers.couplings import values
from concrete_score.samplers.mh import MetropolisHastings
from concrete_score.samplers.surrogates import check_density
from concrete_score.samplers.tempered import Tempered, TemperedCopies, check_ladder
from concrete_score.spaces import Space

FRESH, WARM, COLD = 0, 1, 2
"""Where a copy was last: at neither end, at the warmest place, at the coldest."""


class Replicas(NamedTuple):
    """All copies of each chain, coldest first, and how they travelled."""

    inner: Any
    """The `State` of one kernel for all copies, chain by chain; or the copies themselves ``(C, R, D)``."""
    copies: int
    was: Tensor
    """Which end each copy saw last ``(C, R)``."""
    trips: Tensor
    """Round trips of a chain's copies, from the coldest place to the warmest and back ``(C,)``."""
    swapped: Tensor
    """The sum over steps of the share of swaps made between neighbors ``(R-1,)``."""
    steps: int

    @property
    def x(self) -> Tensor:
        """The states of all copies ``(C, R, D)``."""
        if isinstance(self.inner, Tensor):
            return self.inner
        return self.inner.x.reshape(-1, self.copies, self.inner.x.shape[-1])  # type: ignore[no-any-return]

    @property
    def swap_rates(self) -> Tensor:
        """The share of swaps made between neighbors so far ``(R-1,)``."""
        return self.swapped / max(1, self.steps)


class ReplicaState(State):
    """Chains whose state is that of their coldest copy, made when it is first read."""

    def __init__(self, x: Any = None, clamped: Tensor | None = None, memory: Any = None) -> None:
        object.__setattr__(self, "clamped", clamped)
        object.__setattr__(self, "memory", memory)

    @cached_property
    def x(self) -> Tensor:
        """``(C, D)``."""
        inner = self.memory.inner
        marks = getattr(getattr(inner, "memory", None), "z", None)
        return self.memory.x[:, 0] if marks is None else values(marks[..., :: self.memory.copies])


@dataclass(frozen=True, eq=False)
class Tempering:
    """Copies of each chain at inverse temperatures β_1 = 1 > β_2 > …, that trade places.

    One step moves every copy ``inner_steps`` times, then tries to swap neighbors: first (1,2), (3,4), …, then (2,3),
    (4,5), …, each with probability ``min(1, (q(x_j)/q(x_i))^(β_i - β_j))``. It keeps ``Π_r q(x_r)^β_r``, so the first
    copy, which is the state, keeps q. Not reversible as a whole. Kernels that are `batched` (`mh`, `multi_site`,
    `dlmc`, `path_auxiliary`, `colored`, `sweep`) move all copies of all chains together; others one after the other.

    Args:
        model: a density model.
        inverse_temperatures: decreasing, from 1; `adapt_ladder` finds good ones.
        kernel: builds the kernel of a density, such as `MetropolisHastings` or `Sweep`.
        inner_steps: moves between swaps.

    Raises:
        InputError: no log-density, or temperatures out of order.

    >>> from concrete_score.targets import pmf
    >>> kernel = Tempering(pmf([0.4, 0.1, 0.5]), (1.0, 0.5))
    >>> kernel.transition_matrix().shape   # over pairs of states
    torch.Size([9, 9])
    """

    model: Any
    inverse_temperatures: tuple[float, ...] = (1.0, 0.6, 0.3)
    kernel: Callable[[DensityModel], Kernel] = MetropolisHastings
    inner_steps: int = 1

    def __post_init__(self) -> None:
        check_density(self.model, "tempering")
        object.__setattr__(self, "inverse_temperatures", check_ladder(self.inverse_temperatures))
        if self.inner_steps < 1:
            raise InputError("at least 1 step between swaps", str(self.inner_steps), where="inner_steps")
        if self._together is None:
            self._apart  # noqa: B018 - built, and thereby checked, at once

    @property
    def space(self) -> Space:
        space: Space = self.model.space
        return space

    @property
    def product_space(self) -> Space:
        """All copies side by side, coldest first: the space of `transition_matrix`."""
        return Space(self.space.sizes * self._copies)

    def init(self, x: Any, clamped: Tensor | None = None) -> State:
        """Chains at ``x`` ``(C, D)``, all copies of a chain at its state."""
        states, _ = check_start(self.space, x, clamped)
        return self.start(states[:, None].expand(-1, self._copies, -1), clamped)

    @torch.no_grad()
    def start(self, replicas: Tensor, clamped: Tensor | None = None) -> State:
        """Chains whose copies start apart ``(C, R, D)``; they must agree on clamped sites."""
        replicas = self.space.check(replicas, "replicas")
        if replicas.ndim != 3 or replicas.shape[1] != self._copies:
            expected = f"shape (C, {self._copies}, {self.space.num_sites})"
            raise InputError(expected, f"shape {tuple(replicas.shape)}", where="replicas")
        x = replicas[:, 0].contiguous()
        mask = check_clamped(clamped, x)
        if mask is not None and ((replicas != x[:, None]) & mask[:, None]).any():
            raise InputError("copies that agree on clamped sites", "different values", where="replicas")
        flat = replicas.flatten(0, 1)
        check_log_density(self.model.log_density(flat), flat)
        inner: Any = replicas
        if self._together is not None:
            inner = self._together.init(flat, None if mask is None else mask.repeat_interleave(self._copies, 0))
        was = torch.zeros(replicas.shape[:2], dtype=torch.int64, device=x.device)
        swapped = torch.zeros(self._copies - 1, dtype=torch.float64, device=x.device)
        return State(x, mask, Replicas(inner, self._copies, was, was[:, 0].clone(), swapped, 0))

    @torch.no_grad()
    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """Moves of all copies, then swaps; ``accepted`` is of the coldest copy's moves."""
        memory: Replicas = state.memory
        moved: Any
        if self._together is not None:
            moved, accepted, passes = self._move_together(self._together, memory.inner, generator)
            value = self._log_density(self._together, moved)
        else:
            moved, accepted, passes = self._move_apart(memory.inner, state.clamped, generator)
            value = self.model.log_density(moved.flatten(0, 1)).double()
        order, made = self._swaps(value.reshape(-1, self._copies), generator)
        inner = self._reorder(moved, order)
        was, trips = _travelled(memory.was.gather(1, order), memory.trips)
        kept = Replicas(inner, self._copies, was, trips, memory.swapped + made, memory.steps + 1)
        return ReplicaState(None, state.clamped, kept), Info(accepted, passes)

    def transition_matrix(self, clamped: Tensor | None = None) -> Tensor:
        """``P`` over `product_space` ``(S^R, S^R)``; it keeps ``Π_r q(x_r)^β_r / Z_r``. ``clamped`` is ``(D,)``."""
        self.product_space.check_enumerable(matrices.LIMIT)
        parts = []
        for kernel in self._apart:
            if not isinstance(kernel, Enumerable):
                raise InputError("kernels with a transition matrix", type(kernel).__name__, where="kernel")
            parts.append(torch.linalg.matrix_power(kernel.transition_matrix(clamped), self.inner_steps))
        moves = reduce(torch.kron, parts)
        matrix: Tensor = moves @ self._swap_matrix(0, clamped) @ self._swap_matrix(1, clamped)
        return matrix

    def _move_together(self, kernel: Kernel, inner: State, generator: torch.Generator) -> tuple[State, Tensor, int]:
        passes = 1  # the swaps look once more
        for _ in range(self.inner_steps):
            inner, info = kernel.step(inner, generator)
            passes += info.passes
        return inner, info.accepted[:: self._copies], passes

    def _move_apart(
        self, copies: Tensor, clamped: Tensor | None, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, int]:
        moved, accepted, passes = [], [], 2 * self._copies  # entering a kernel looks once, and so do the swaps
        for r, kernel in enumerate(self._apart):
            inner = kernel.init(copies[:, r], clamped)
            for _ in range(self.inner_steps):
                inner, info = kernel.step(inner, generator)
                passes += info.passes
            moved.append(inner.x)
            accepted.append(info.accepted)
        return torch.stack(moved, 1), accepted[0], passes

    def _log_density(self, kernel: Any, inner: State) -> Tensor:
        """Of all copies, at temperature 1 ``(C R,)``."""
        known: Tensor = kernel.log_density(inner) if hasattr(kernel, "log_density") else self.model.log_density(inner.x)
        return known.double()

    def _swaps(self, value: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Where each place takes its copy from ``(C, R)``, and the share of swaps made ``(R-1,)``."""
        chains, copies = value.shape
        value, order = value.clone(), torch.arange(copies, device=value.device).repeat(chains, 1)
        made = torch.zeros(copies - 1, dtype=torch.float64, device=value.device)
        unit, gaps = uniform((chains, copies - 1), generator, value.device).log_(), self._gaps.to(value.device)
        for first in (0, 1)[: copies - 1]:
            cold, warm = slice(first, copies - 1, 2), slice(first + 1, copies, 2)
            gain = value[:, warm] - value[:, cold]
            trade = unit[:, cold] < gaps[cold] * gain
            made[cold] = trade.double().mean(0)
            for table, apart in ((order, order[:, warm] - order[:, cold]), (value, gain)):
                moved = apart * trade
                table[:, cold] += moved
                table[:, warm] -= moved
        return order, made

    def _reorder(self, moved: Any, order: Tensor) -> Any:
        if isinstance(moved, Tensor):
            return moved.gather(1, order[..., None].expand_as(moved))
        flat = (order + self._copies * torch.arange(len(order), device=order.device)[:, None]).flatten()
        kernel: Any = self._together
        if hasattr(kernel, "reorder"):
            return kernel.reorder(moved, flat)
        return kernel.init(moved.x[flat], moved.clamped)

    def _swap_matrix(self, parity: int, clamped: Tensor | None) -> Tensor:
        """The swaps of pairs ``(i, i+1)`` with ``i`` of one parity, over the product space."""
        space, levels = self.product_space, self._copies
        states = space.enumerate().reshape(-1, levels, self.space.num_sites)
        value = self.model.log_density(states).double()
        free = matrices.free_sites(self.space, clamped)
        held = [d for d in range(self.space.num_sites) if d not in free]
        matrix = torch.eye(len(states), dtype=torch.float64)
        for i in range(parity, levels - 1, 2):
            swapped = states.clone()
            swapped[:, [i, i + 1]] = states[:, [i + 1, i]]
            chance = (float(self._gaps[i]) * (value[:, i + 1] - value[:, i])).clamp_max(0).exp()
            allowed = value.isfinite().all(1) & (states[:, i, held] == states[:, i + 1, held]).all(-1)
            chance = torch.where(allowed, chance, 0.0)
            swap = torch.diag(1 - chance)
            rows = torch.arange(len(states))
            swap.index_put_((rows, space.index(swapped.flatten(1))), chance, accumulate=True)
            matrix = matrix @ swap
        return matrix

    @property
    def _copies(self) -> int:
        return len(self.inverse_temperatures)

    @cached_property
    def _gaps(self) -> Tensor:
        """``β_i - β_{i+1}`` ``(R-1,)``."""
        return -torch.tensor(self.inverse_temperatures, dtype=torch.float64).diff()

    @cached_property
    def _together(self) -> Kernel | None:
        """One kernel for all copies, where it knows how to have a temperature for each chain."""
        try:
            kernel = self.kernel(TemperedCopies(self.model, self.inverse_temperatures))
        except InputError:
            return None
        return kernel if getattr(kernel, "batched", False) else None

    @cached_property
    def _apart(self) -> tuple[Kernel, ...]:
        return tuple(self.kernel(Tempered(self.model, beta)) for beta in self.inverse_temperatures)


def adapt_ladder(
    kernel: Tempering, state: State, generator: torch.Generator, steps: int, rounds: int = 4
) -> tuple[Tempering, State]:
    """Burn-in that finds temperatures with equal swap rates, then freezes them (Syed et al., 2021).

    Where swaps are rejected more often, temperatures come closer: the sum of rejections is cut into equal pieces. The
    coldest and the warmest stay. Only draws after this count.

    Args:
        kernel: where to begin; its number of temperatures is kept.
        state: of its chains.
        steps: in all; each round has twice as many as the one before.
        rounds: how often the ladder is moved.

    Returns:
        A kernel whose ladder never changes again, and the chains, burnt in, with their counts at zero.

    >>> from concrete_score.targets import Ising
    >>> first = Tempering(Ising((4, 4), 0.6), (1.0, 0.9, 0.1))
    >>> g = torch.Generator().manual_seed(0)
    >>> found, _ = adapt_ladder(first, first.init(first.space.uniform(64, g)), g, 300)
    >>> 0.3 < found.inverse_temperatures[1] < 0.8
    True
    """
    check_count(rounds, "rounds", 1)
    check_count(steps, "steps", 2**rounds)
    for k in range(rounds):
        for _ in range(max(1, steps * 2**k // (2**rounds - 1))):
            state, _ = kernel.step(state, generator)
        ladder = _equalized(kernel.inverse_temperatures, state.memory.swap_rates)
        kernel = replace(kernel, inverse_temperatures=ladder)
        state = kernel.start(state.memory.x, state.clamped)
    return kernel, state


def _equalized(betas: tuple[float, ...], rates: Tensor) -> tuple[float, ...]:
    """Inverse temperatures that cut the sum of rejections into equal pieces.

    >>> _equalized((1.0, 0.8, 0.2), torch.tensor([0.9, 0.5]))
    (1.0, 0.56..., 0.2)
    """
    if len(betas) < 3:
        return betas
    import numpy as np

    # A little for every rung, so that a stretch without rejections is still walked.
    rejected = (1 - rates).clamp(0, 1).cpu().numpy() + 0.01
    reached = np.concatenate([[0.0], np.cumsum(rejected)])
    wanted = np.linspace(0, reached[-1], len(betas))[1:-1]
    inner = np.interp(wanted, reached, np.array(betas))
    return (betas[0], *(float(beta) for beta in inner), betas[-1])


def _travelled(was: Tensor, trips: Tensor) -> tuple[Tensor, Tensor]:
    """Mark the copies at both ends, in place, and count those that come back from the warm one."""
    trips = trips + (was[:, 0] == WARM)
    # A copy starts a trip at the cold end: one that has not been there yet is not on its way back.
    was[:, -1].clamp_max_(WARM)
    was[:, 0] = COLD
    return was, trips
