"""Balancing functions ``g(t) = t g(1/t)``: how a locally informed proposal weighs a ratio (DESIGN M10)."""

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional

from concrete_score.errors import InputError, nearest

LogBalancing = Callable[[Tensor], Tensor]
"""``log g`` as a function of the log-ratio, elementwise."""

BALANCING: dict[str, LogBalancing] = {
    "sqrt": lambda l: l / 2,
    "barker": functional.logsigmoid,
    "min": lambda l: l.clamp_max(0),
    "max": lambda l: l.clamp_min(0),
}
"""√t, t/(1+t), min(1, t), max(1, t)."""


def find_balancing(name: str) -> LogBalancing:
    """The balancing function called ``name``, in log space.

    >>> import torch
    >>> find_balancing("barker")(torch.tensor(0.0)).exp().item()
    0.5
    """
    if name not in BALANCING:
        raise InputError("a balancing function", repr(name), "balancing", nearest(name, list(BALANCING)))
    return BALANCING[name]
