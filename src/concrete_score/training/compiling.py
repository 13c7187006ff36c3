"""``torch.compile`` for a training's loss: on request, or where a trial says that it pays over the planned steps.

A compiled step rounds otherwise than a plain one, so what was chosen is kept in the run. Where nothing can be compiled
the loss stays as it is.
"""

import shutil
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

KINDS = ("no", "auto", "yes")
"""What may be asked for: never, by a trial, always."""
WORTH = 300.0
"""Seconds of planned steps from which on a trial is begun: compiling takes about a minute, and may win a fifth."""
_STEPS = 3
"""Steps that are timed of each kind, after one that is not."""
_COMPILERS = ("c++", "g++", "clang++", "cl")


class Trial(NamedTuple):
    """Seconds of a plain step, of a compiled one, and of compiling."""

    plain: float
    compiled: float
    once: float

    def pays(self, steps: int) -> bool:
        """Whether so many steps take less time compiled.

        >>> Trial(0.1, 0.08, 60.0).pays(1_000), Trial(0.1, 0.08, 60.0).pays(5_000)
        (False, True)
        """
        return self.once + steps * self.compiled < steps * self.plain

    def explain(self, steps: int) -> str:
        """What was found, in a line."""
        verdict = "it pays" if self.pays(steps) else "it does not pay"
        plain, compiled = 1e3 * self.plain, 1e3 * self.compiled
        times = f"a step takes {compiled:.3g} ms compiled and {plain:.3g} ms plain, compiling {self.once:.0f} s"
        return f"compile {'yes' if self.pays(steps) else 'no'}: {times}; over {steps:,} steps {verdict}"


def compiled(loss: nn.Module, *arguments: Any) -> nn.Module:
    """The loss compiled, tried on what it will be called with; the loss itself where that fails.

    Args:
        loss: a module that gives one number.
        arguments: of a call.
    """
    if not can_compile():
        return loss
    try:
        found: Any = torch.compile(loss)
        _back(found(*arguments), loss)
    except Exception:  # whatever a compiler on this machine trips over, a training does without it
        return loss
    return found  # type: ignore[no-any-return]


def can_compile() -> bool:
    """Whether there is a compiler: of C++ for the processor; graphics cards bring their own."""
    return torch.cuda.is_available() or any(shutil.which(name) for name in _COMPILERS)


def try_out(loss: nn.Module, arguments: Callable[[int], tuple[Any, ...]], steps: int) -> Trial | None:
    """Time a few plain and compiled steps; None where nothing is compiled, or so few steps are planned that it cannot
    pay.

    Args:
        loss: a module that gives one number; its weights are not moved.
        arguments: of its call at a step.
        steps: how many are planned.
    """
    plain = _seconds(loss, loss, arguments)
    if steps * plain < WORTH:
        return None
    start = perf_counter()
    found = compiled(loss, *arguments(0))
    once = perf_counter() - start
    return None if found is loss else Trial(plain, _seconds(found, loss, arguments), once)


def _seconds(call: nn.Module, loss: nn.Module, arguments: Callable[[int], tuple[Any, ...]]) -> float:
    """The shortest of a few steps."""
    found = []
    for step in range(1 + _STEPS):
        given, start = arguments(step), perf_counter()
        _back(call(*given), loss)
        found.append(perf_counter() - start)
    return min(found[1:])


def _back(value: Tensor, loss: nn.Module) -> None:
    """The backward pass, whose gradients nobody wants; it ends when the device is done."""
    try:
        torch.autograd.backward(value)
        float(value.detach())
    finally:
        for weight in loss.parameters():
            weight.grad = None
