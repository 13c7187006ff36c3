"""Categorical noise: a site keeps its value with probability w, else takes any other one."""

from collections.abc import Sequence
from math import log, log1p

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.noise.factorized import FactorizedNoise
from concrete_score.noise.tables import by_size
from concrete_score.spaces import Space


def categorical(space: Space, weights: float | Sequence[float]) -> FactorizedNoise:
    """Keep a site's value with probability w, else draw one of its other values uniformly.

    ``q_d(x̃_d | x_d) = w`` if ``x̃_d = x_d``, else ``(1 - w) / (V_d - 1)`` (paper B.3). A site of size 1 always stays.

    Args:
        space: the space of the states.
        weights: one w for each level, ``0 < w < 1``, the weakest noise (largest w) first.

    Raises:
        InputError: a weight out of range, or weights that do not fall.

    >>> noise = categorical(Space((3,)), [0.9, 0.5])
    >>> noise.site_log_prob(level=1, site=0).exp()[0]
    tensor([0.5000, 0.2500, 0.2500], dtype=torch.float64)
    """
    schedule = (weights,) if isinstance(weights, int | float) else tuple(weights)
    if not schedule:
        raise InputError("at least one weight", "none", where="weights")
    for level, weight in enumerate(schedule):
        if not 0 < weight < 1:
            raise InputError(
                "a probability of staying between 0 and 1, both excluded",
                f"{weight}",
                where=f"weights[{level}]",
                fix="leave clean data out of the levels; 1/size is already pure noise",
            )
        if level and weight >= schedule[level - 1]:
            raise InputError(
                "weights that fall, the weakest noise first",
                f"{schedule[level - 1]} then {weight}",
                where=f"weights[{level}]",
                fix="sort them from largest to smallest, each once",
            )
    return symmetric(space, [log(weight) for weight in schedule], [log1p(-weight) for weight in schedule])


def symmetric(space: Space, log_stay: Sequence[float], log_leave: Sequence[float]) -> FactorizedNoise:
    """Noise that treats all values alike: stay, or leave for any other value.

    Args:
        space: the space of the states.
        log_stay: the log-probability of keeping a value at each level.
        log_leave: that of changing it, given apart because ``log(1 - q)`` would lose its digits.

    >>> symmetric(Space.bits(2), [log(0.75)], [log(0.25)]).site_log_prob(0, 1).exp().tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    stay, leave = (torch.tensor(logs, dtype=torch.float64)[:, None, None] for logs in (log_stay, log_leave))

    def log_kernel(size: int) -> Tensor:
        if size == 1:
            return torch.zeros_like(stay)
        return torch.where(torch.eye(size, dtype=torch.bool), stay, leave - log(size - 1))

    return FactorizedNoise(space, by_size(space, log_kernel))
