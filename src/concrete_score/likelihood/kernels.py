"""Kernels for annealing: one for each density on the path, and its time reversal."""

from collections.abc import Callable
from functools import singledispatch
from typing import Any

from concrete_score.errors import InputError
from concrete_score.protocols import DensityModel, Kernel
from concrete_score.samplers import Composition, systematic

KernelFactory = Callable[[DensityModel], Kernel]
"""From a density to a kernel that keeps it."""


@singledispatch
def default_kernel(density: Any) -> Kernel:
    """A sweep of Gibbs updates, every site once in order; ``default_kernel.register`` knows better for a type.

    >>> from concrete_score.targets import Ising
    >>> len(default_kernel(Ising((2, 2), 0.3)).kernels)
    4
    """
    return systematic(density)


@singledispatch
def time_reversal(kernel: Any) -> Any:
    """``T~(x | y) = T(y | x) π(x) / π(y)``: the kernel itself if it is reversible, a composition backwards.

    Raises:
        InputError: the kernel does not say of itself that it is reversible.
    """
    if getattr(kernel, "reversible", False):
        return kernel
    raise InputError(
        "a reversible kernel, or a Composition of such",
        type(kernel).__name__,
        where="kernels",
        fix="anneal with gibbs, mh, informed, gwg or multi_site; a kernel of yours says `reversible = True`",
    )


@time_reversal.register
def _composition(kernel: Composition) -> Composition:
    return Composition(tuple(time_reversal(part) for part in reversed(kernel.kernels)))
