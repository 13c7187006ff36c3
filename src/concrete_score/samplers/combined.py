"""Kernels made of kernels: one after the other as one step, or through a list of them."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.protocols import Enumerable, Info, Kernel, State
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

    >>> from concrete_score.samplers import MetropolisHastings
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
