"""Kernels made of kernels: one after the other as one step, through a list of them, or colder and colder."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from concrete_score.errors import InputError, check_count
from concrete_score.protocols import DensityModel, Enumerable, Info, Kernel, State
from concrete_score.samplers.choice import auto
from concrete_score.samplers.surrogates import check_density
from concrete_score.samplers.tempered import Tempered
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


def hand_over(state: State, last: Any, kernel: Any) -> State:
    """Chains of the last kernel as the next one wants them; where its memory holds, they are not looked at anew."""
    kept = type(kernel) is type(last) and getattr(kernel, "portable", False)
    found: State = state if kept else kernel.init(*_plain(state))
    return found


def _plain(state: State) -> tuple[Tensor, Tensor | None]:
    return state.x, state.clamped


def carry(
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
        The last kernel's state. This makes a start, not a kernel: it keeps no distribution of its own.

    >>> from concrete_score.samplers import MetropolisHastings
    >>> from concrete_score.targets import Ising
    >>> warm_to_cold = [MetropolisHastings(Ising((3, 3), beta)) for beta in (0.1, 0.3)]
    >>> carry(warm_to_cold, torch.zeros(4, 9, dtype=torch.int64), 10, torch.Generator().manual_seed(0)).x.shape
    torch.Size([4, 9])
    """
    if not kernels or steps < 1:
        raise InputError("at least one kernel and one step", f"{len(kernels)} and {steps}", where="carry")
    state = kernels[0].init(x, clamped)
    for kernel in kernels:
        state = kernel.init(state.x, state.clamped)
        for _ in range(steps):
            state, _ = kernel.step(state, generator)
    return state


class Annealed(NamedTuple):
    """The best state that each chain saw."""

    x: Tensor
    """``(C, D)``."""
    log_density: Tensor
    """``(C,)`` in float64."""

    @property
    def best(self) -> Tensor:
        """The best state of all chains ``(D,)``."""
        return self.x[self.log_density.argmax()]


@torch.no_grad()
def anneal(
    model: DensityModel,
    x: Any,
    *,
    steps: int,
    generator: torch.Generator,
    temperatures: tuple[float, float] = (1.0, 0.1),
    kernel: Callable[[DensityModel], Kernel] = auto,
    clamped: Tensor | None = None,
) -> Annealed:
    """Find states of high density: chains of ``q^(1/T)`` while T falls geometrically (Kirkpatrick et al., 1983).

    Args:
        model: a density; its highest values, the lowest energies, are wanted.
        x: where the chains start ``(C, D)``, or how many to start at uniform states.
        steps: of the kernel, one at each temperature.
        temperatures: the first and the last. A good first one lets any change happen, a good last one hardly any.
        kernel: from a density to a kernel, by default the one that suits the model.
        clamped: sites that never move.

    Raises:
        InputError: no log-density, no steps, or temperatures that are not positive or do not fall.

    >>> from concrete_score.targets import independent_set
    >>> ring = independent_set(8, [[i, (i + 1) % 8] for i in range(8)])
    >>> anneal(ring, 4, steps=60, generator=torch.Generator().manual_seed(0)).best.sum().item()
    4
    """
    check_density(model, "anneal")
    check_count(steps, "steps", 1)
    first, last = temperatures
    if not 0 < last <= first < torch.inf:
        came = f"{first} to {last}"
        raise InputError("temperatures that fall and stay positive", came, where="temperatures", fix="such as (1, 0.1)")
    start = model.space.uniform(x, generator) if isinstance(x, int) else x
    state, found, mover = State(start, clamped), cast(Annealed | None, None), cast(Any, None)
    for k in range(steps):
        colder = kernel(Tempered(model, (first / last) ** (k / max(1, steps - 1)) / first))
        state, _ = colder.step(hand_over(state, mover, colder), generator)
        mover, found = colder, _better(found, colder, state, model)
    if found is None:  # pragma: no cover - there is at least one step
        raise RuntimeError("no steps")
    return found


def _better(found: Annealed | None, kernel: Any, state: State, model: DensityModel) -> Annealed:
    """Chain by chain the better of what was found and what is there; states are read only where they are."""
    value = kernel.log_density(state) if hasattr(kernel, "log_density") else model.log_density(state.x).double()
    if found is None:
        return Annealed(state.x.clone(), value)
    gained = (value > found.log_density).nonzero().squeeze(-1)
    if not len(gained):
        return found
    best = found.x.index_copy(0, gained, state.x[gained])
    return Annealed(best, torch.maximum(value, found.log_density))
