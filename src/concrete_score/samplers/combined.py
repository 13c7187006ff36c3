"""Kernels made of kernels: one after the other, at several temperatures that trade places, or through a list."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from math import isfinite
from typing import Any, NamedTuple

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.protocols import DensityModel, Enumerable, Info, Kernel, State
from concrete_score.randomness import uniform
from concrete_score.samplers import matrices
from concrete_score.samplers.base import accept, check_clamped, check_log_density, check_start
from concrete_score.samplers.mh import MetropolisHastings
from concrete_score.samplers.surrogates import Relaxable, Relaxed, check_density, relax
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space, check_same_space


@dataclass(frozen=True, eq=False)
class Composition:
    """One step runs every kernel once, in order: ``P = P_1 P_2 … P_n``.

    It keeps what all of them keep. It is reversible only if the order does not matter or reads the same backwards;
    `reversed` is the time reversal of a composition of reversible kernels.

    Args:
        kernels: at least one, all of one space and one target.

    >>> from concrete_score.samplers.gibbs import Gibbs
    >>> from concrete_score.targets import Ising
    >>> model = Ising((1, 2), 0.5)
    >>> Composition((Gibbs(model, 0), Gibbs(model, 1))).transition_matrix().shape
    torch.Size([4, 4])
    """

    kernels: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        if not self.kernels:
            raise InputError("at least one kernel", "none", where="kernels")
        for kernel in self.kernels[1:]:
            check_same_space(self.kernels[0].space, kernel.space, "kernels")

    @property
    def space(self) -> Space:
        return self.kernels[0].space

    @property
    def model(self) -> Any:
        """The first kernel's target, if it has one."""
        return getattr(self.kernels[0], "model", None)

    def init(self, x: Any, clamped: Tensor | None = None) -> State:
        """Chains at ``x`` ``(C, D)``, checked by the first kernel."""
        return State(*_plain(self.kernels[0].init(x, clamped)))

    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """All kernels once; accepted if one of them accepted. What one remembers means nothing to the next."""
        accepted, passes = torch.zeros(len(state.x), dtype=torch.bool, device=state.x.device), 0
        for kernel in self.kernels:
            fresh = getattr(kernel, "memoryless", False)
            state, info = kernel.step(state if fresh else kernel.init(*_plain(state)), generator)
            accepted, passes = accepted | info.accepted, passes + info.passes + (not fresh)
        return State(*_plain(state)), Info(accepted, passes)

    def reversed(self) -> "Composition":
        """The same kernels in the other order."""
        return Composition(self.kernels[::-1])

    def transition_matrix(self, clamped: Tensor | None = None) -> Tensor:
        """The product of the kernels' matrices ``(S, S)``."""
        product = torch.eye(self.space.num_states, dtype=torch.float64)
        for kernel in self.kernels:
            if not isinstance(kernel, Enumerable):
                raise InputError("kernels with a transition matrix", type(kernel).__name__, where="kernels")
            product = product @ kernel.transition_matrix(clamped)
        return product


def _plain(state: State) -> tuple[Tensor, Tensor | None]:
    return state.x, state.clamped


@dataclass(frozen=True, eq=False)
class Tempered:
    """``q(x)^β``, a density model.

    >>> from concrete_score.targets import pmf
    >>> Tempered(pmf([0.36, 0.64]), 0.5).log_density(torch.tensor([[0], [1]])).exp()
    tensor([0.6000, 0.8000], dtype=torch.float64)
    """

    model: DensityModel
    inverse_temperature: float

    def __post_init__(self) -> None:
        if not (self.inverse_temperature > 0 and isfinite(self.inverse_temperature)):
            raise InputError("a positive number", str(self.inverse_temperature), where="inverse_temperature")

    @property
    def space(self) -> Space:
        return self.model.space

    @property
    def normalized(self) -> bool:
        """Only at β = 1."""
        return self.model.normalized and self.inverse_temperature == 1

    def log_density(self, x: States) -> PerState:
        return self.inverse_temperature * self.model.log_density(x)


@relax.register
def _tempered(model: Tempered) -> Relaxable:
    inner = relax(model.model)

    def function(probabilities: Tensor) -> Tensor:
        return model.inverse_temperature * inner.relaxed_log_density(probabilities)

    return Relaxed(model.space, function, inner.one_hot(torch.zeros(model.space.num_sites, dtype=torch.int64)).dtype)


class Replicas(NamedTuple):
    """All copies of each chain, coldest first."""

    x: Tensor
    """``(C, R, D)``."""


@dataclass(frozen=True, eq=False)
class Tempering:
    """Copies of each chain at inverse temperatures β_1 = 1 > β_2 > …, that trade places.

    One step moves every copy ``inner_steps`` times with its own kernel, then tries to swap neighbors: (1,2), (3,4), …
    or (2,3), (4,5), …, by a fair coin, each with probability ``min(1, (q(x_j)/q(x_i))^(β_i - β_j))``. It keeps
    ``Π_r q(x_r)^β_r``, so the first copy, which is the state, keeps q. Not reversible as a whole.

    Args:
        model: a density model.
        inverse_temperatures: decreasing, from 1.
        kernel: builds the kernel of a density, such as `MetropolisHastings` or `Informed`.
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
        betas = tuple(self.inverse_temperatures)
        if not betas or betas[0] != 1 or betas[-1] <= 0 or any(b >= a for a, b in pairwise(betas)):
            raise InputError(
                "inverse temperatures that fall from 1 and stay positive", str(betas), where="inverse_temperatures"
            )
        if self.inner_steps < 1:
            raise InputError("at least 1 step between swaps", str(self.inner_steps), where="inner_steps")
        self._kernels  # noqa: B018 - built, and thereby checked, at once

    @property
    def space(self) -> Space:
        space: Space = self.model.space
        return space

    @property
    def product_space(self) -> Space:
        """All copies side by side, coldest first: the space of `transition_matrix`."""
        return Space(self.space.sizes * len(self._kernels))

    def init(self, x: Any, clamped: Tensor | None = None) -> State:
        """Chains at ``x`` ``(C, D)``, all copies of a chain at its state."""
        states, _ = check_start(self.space, x, clamped)
        return self.start(states[:, None].expand(-1, len(self._kernels), -1), clamped)

    @torch.no_grad()
    def start(self, replicas: Tensor, clamped: Tensor | None = None) -> State:
        """Chains whose copies start apart ``(C, R, D)``; they must agree on clamped sites."""
        replicas = self.space.check(replicas, "replicas")
        if replicas.ndim != 3 or replicas.shape[1] != len(self._kernels):
            expected = f"shape (C, {len(self._kernels)}, {self.space.num_sites})"
            raise InputError(expected, f"shape {tuple(replicas.shape)}", where="replicas")
        x = replicas[:, 0].contiguous()
        mask = check_clamped(clamped, x)
        if mask is not None and ((replicas != x[:, None]) & mask[:, None]).any():
            raise InputError("copies that agree on clamped sites", "different values", where="replicas")
        flat = replicas.flatten(0, 1)
        check_log_density(self.model.log_density(flat), flat)
        return State(x, mask, Replicas(replicas))

    @torch.no_grad()
    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """Moves of all copies, then swaps; ``accepted`` is of the coldest copy's moves."""
        copies, accepted, passes = [], [], 0
        for r, kernel in enumerate(self._kernels):
            inner = kernel.init(state.memory.x[:, r], state.clamped)
            for _ in range(self.inner_steps):
                inner, info = kernel.step(inner, generator)
                passes += info.passes
            copies.append(inner.x)
            accepted.append(info.accepted)
        # Entering a kernel looks once at the copies, and the swaps once more.
        passes += 2 * len(copies)
        replicas = self._swap(torch.stack(copies, 1), generator)
        return State(replicas[:, 0], state.clamped, Replicas(replicas)), Info(accepted[0], passes)

    def transition_matrix(self, clamped: Tensor | None = None) -> Tensor:
        """``P`` over `product_space` ``(S^R, S^R)``; it keeps ``Π_r q(x_r)^β_r / Z_r``. ``clamped`` is ``(D,)``."""
        self.product_space.check_enumerable(matrices.LIMIT)
        parts = []
        for kernel in self._kernels:
            if not isinstance(kernel, Enumerable):
                raise InputError("kernels with a transition matrix", type(kernel).__name__, where="kernel")
            parts.append(torch.linalg.matrix_power(kernel.transition_matrix(clamped), self.inner_steps))
        moves = reduce(torch.kron, parts)
        swaps = [self._swap_matrix(parity, clamped) for parity in (0, 1)]
        matrix: Tensor = moves @ (swaps[0] + swaps[1]) / 2
        return matrix

    def _swap(self, replicas: Tensor, generator: torch.Generator) -> Tensor:
        """Trade places along every second pair ``(C, R, D)``."""
        value = self.model.log_density(replicas.flatten(0, 1)).double().reshape(replicas.shape[:2])
        odd = uniform((len(replicas),), generator, replicas.device) < 0.5
        order = torch.arange(replicas.shape[1], device=replicas.device).repeat(len(replicas), 1)
        for i, (warm, cool) in enumerate(pairwise(self.inverse_temperatures)):
            trade = accept((warm - cool) * (value[:, i + 1] - value[:, i]), generator) & (odd == bool(i % 2))
            order[:, i] += trade
            order[:, i + 1] -= trade.long()
        return replicas.gather(1, order[..., None].expand_as(replicas))

    def _swap_matrix(self, parity: int, clamped: Tensor | None) -> Tensor:
        """The swaps of pairs ``(i, i+1)`` with ``i`` of one parity, over the product space."""
        space, levels = self.product_space, len(self._kernels)
        states = space.enumerate().reshape(-1, levels, self.space.num_sites)
        value = self.model.log_density(states).double()
        free = matrices.free_sites(self.space, clamped)
        held = [d for d in range(self.space.num_sites) if d not in free]
        matrix = torch.eye(len(states), dtype=torch.float64)
        for i in range(parity, levels - 1, 2):
            swapped = states.clone()
            swapped[:, [i, i + 1]] = states[:, [i + 1, i]]
            gap = self.inverse_temperatures[i] - self.inverse_temperatures[i + 1]
            chance = (gap * (value[:, i + 1] - value[:, i])).clamp_max(0).exp()
            allowed = value.isfinite().all(1) & (states[:, i, held] == states[:, i + 1, held]).all(-1)
            chance = torch.where(allowed, chance, 0.0)
            swap = torch.diag(1 - chance)
            rows = torch.arange(len(states))
            swap.index_put_((rows, space.index(swapped.flatten(1))), chance, accumulate=True)
            matrix = matrix @ swap
        return matrix

    @cached_property
    def _kernels(self) -> tuple[Kernel, ...]:
        return tuple(self.kernel(Tempered(self.model, beta)) for beta in self.inverse_temperatures)


def anneal(
    kernels: list[Kernel],
    x: Any,
    steps: int,
    generator: torch.Generator,
    clamped: Tensor | None = None,
) -> State:
    """Chains carried through a list of kernels, ``steps`` moves with each: noise levels, strongest first, or tempered
    models, warmest first (paper, section 4.3).

    Args:
        kernels: of one space, such as ``[MetropolisHastings(net.at(level)) for level in reversed(range(L))]``.
        x: where the chains start ``(C, D)``.
        steps: with each kernel.

    Returns:
        The last kernel's state. Annealing is a start, not a kernel: it keeps no distribution of its own.

    >>> from concrete_score.targets import Ising
    >>> warm_to_cold = [MetropolisHastings(Ising((3, 3), beta)) for beta in (0.1, 0.3)]
    >>> anneal(warm_to_cold, torch.zeros(4, 9, dtype=torch.int64), 10, torch.Generator().manual_seed(0)).x.shape
    torch.Size([4, 9])
    """
    if not kernels or steps < 1:
        raise InputError("at least one kernel and one step", f"{len(kernels)} and {steps}", where="anneal")
    state = kernels[0].init(x, clamped)
    for kernel in kernels:
        state = kernel.init(state.x, state.clamped)
        for _ in range(steps):
            state, _ = kernel.step(state, generator)
    return state
