"""The discrete Langevin sampler as its authors publish it (Zhang, Liu and Liu, 2022): the yardstick of `samplers`.

A gradient at both ends of every step, by autograd and in float32, the density run twice more for the acceptance, and
nothing kept from one step to the next. ``step_size`` is written as the library's α, ``exp(-1 / 2a)`` of the paper's a,
so that both are tuned alike.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import log
from typing import Any, ClassVar

import torch
from torch import Tensor

from concrete_score.protocols import Info, State
from concrete_score.spaces import Space

EPSILON = 1e-10
"""Inside its logarithms, as published."""
Energy = Callable[[Tensor], Tensor]
"""A differentiable log-density of bits as floats ``(C, D)``, or of one-hot states ``(C, D, V)``: ``(C,)``."""


class FloatState(State):
    """Chains as the loop keeps them, bits or one-hot states as floats."""

    def __init__(self, x: Any = None, clamped: Tensor | None = None, memory: Any = None) -> None:
        object.__setattr__(self, "clamped", clamped)
        object.__setattr__(self, "memory", memory)

    @cached_property
    def x(self) -> Tensor:
        """``(C, D)`` int64."""
        return self.memory.long() if self.memory.ndim == 2 else self.memory.argmax(-1)  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class TextbookDMALA:
    """One step of every chain, written plainly.

    >>> kernel = TextbookDMALA(Space.bits(3), lambda x: x.sum(-1))
    >>> state, info = kernel.step(kernel.init(torch.zeros(4, 3, dtype=torch.int64)), torch.Generator().manual_seed(0))
    >>> state.x.shape, info.passes
    (torch.Size([4, 3]), 4)
    """

    space: Space
    energy: Energy
    step_size: float = 0.1

    largest: ClassVar[float] = 1.0

    def init(self, x: Tensor, clamped: Tensor | None = None) -> State:
        """Chains at ``x`` ``(C, D)``."""
        if max(self.space.sizes) == 2:
            return FloatState(memory=x.float())
        return FloatState(memory=torch.nn.functional.one_hot(x, max(self.space.sizes)).float())

    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """Propose, compute the way back, accept or not."""
        x = state.memory
        y, forward, backward = self._bits(x, generator) if x.ndim == 2 else self._categories(x, generator)
        with torch.no_grad():
            gain = self.energy(y) - self.energy(x) + backward - forward
            accepted = gain.exp() > torch.rand(gain.shape, generator=generator)
            share = accepted.float().reshape(-1, *(1,) * (x.ndim - 1))
            return FloatState(memory=y * share + x * (1.0 - share)), Info(accepted, 4)

    def with_step_size(self, step_size: float, state: State) -> tuple["TextbookDMALA", State]:
        return replace(self, step_size=step_size), state

    def _gradient(self, x: Tensor) -> Tensor:
        inside = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(self.energy(inside).sum(), inside)
        return slope.detach()

    def _bits(self, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        term = -log(self.step_size)
        delta = self._gradient(x) * -(2.0 * x - 1) / 2
        flip = torch.exp(delta - term) / (torch.exp(delta - term) + 1)
        chosen = (torch.rand(x.shape, generator=generator) < flip).float()
        y = (1.0 - x) * chosen + x * (1.0 - chosen)
        forward = torch.log(flip * chosen + (1 - flip) * (1.0 - chosen) + EPSILON).sum(-1)
        delta = self._gradient(y) * -(2.0 * y - 1) / 2
        flip = torch.exp(delta - term) / (torch.exp(delta - term) + 1)
        backward = torch.log(flip * chosen + (1 - flip) * (1.0 - chosen) + EPSILON).sum(-1)
        return y, forward, backward

    def _categories(self, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        log_forward = self._log_proposal(x)
        flat = log_forward.exp().reshape(-1, x.shape[-1])
        drawn = torch.multinomial(flat, 1, generator=generator).reshape(x.shape[:-1])
        y = torch.nn.functional.one_hot(drawn, x.shape[-1]).float()
        log_backward = self._log_proposal(y)
        return y, (log_forward * y).sum((-2, -1)), (log_backward * x).sum((-2, -1))

    def _log_proposal(self, x: Tensor) -> Tensor:
        slope = self._gradient(x)
        delta = (slope - (slope * x).sum(-1, keepdim=True)) / 2 + log(self.step_size) * (1 - x)
        return delta.log_softmax(-1)
