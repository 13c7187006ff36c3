"""Means, ratios and rates with their standard errors: how experiments say how sure they are."""

from math import sqrt

import torch
from torch import Tensor

from concrete_score.shapes import PerState

RESAMPLES = 1000


def mean_with_error(name: str, values: PerState) -> dict[str, float]:
    """The mean of independent values and its standard error, as ``name`` and ``name_error``.

    >>> mean_with_error("loss", torch.tensor([1.0, 1.0, 4.0], dtype=torch.float64))["loss_error"]
    1.0
    """
    return {name: values.mean().item(), f"{name}_error": values.std().item() / sqrt(len(values))}


def ratio_with_error(name: str, values: PerState, yardstick: PerState, generator: torch.Generator) -> dict[str, float]:
    """The ratio of two means over the same rows, its bootstrap error, and the same of a typical row.

    The ratio of means is what a minibatch feels; a few rows may rule it. The geometric mean of the rows' own ratios,
    ``name_typical``, is ruled by none.

    >>> found = ratio_with_error("ratio", torch.tensor([1.0, 4.0]), torch.tensor([2.0, 2.0]), torch.Generator())
    >>> found["ratio"], found["ratio_typical"]
    (1.25, 1.0)
    """
    n = len(values)
    chosen = torch.randint(n, (RESAMPLES, n), generator=generator, device=generator.device).to(values.device)
    logs = (values / yardstick).log()
    typical = logs.mean().exp().item()
    return {
        name: (values.mean() / yardstick.mean()).item(),
        f"{name}_error": (values[chosen].mean(1) / yardstick[chosen].mean(1)).std().item(),
        f"{name}_typical": typical,
        f"{name}_typical_error": typical * logs.std().item() / sqrt(n),
    }


def z_score(values: Tensor, expected: float) -> float:
    """How many standard errors the mean of independent values is off."""
    return (values.mean().item() - expected) / (values.std().item() / sqrt(len(values)))


def slope(errors: Tensor) -> float:
    """Of the log root mean square error of means of n errors, in log n: -1/2, unless a bias shows.

    A root mean square of g means is known to ``1/√(2g)`` of itself, so sizes weigh by their number of means.

    >>> noise = torch.randn(2**14, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> round(slope(noise), 2), slope(noise + 1.0) > -0.2
    (-0.5, True)
    """
    sizes = [4**power for power in range(6) if 4**power * 32 <= len(errors)]
    means = [errors[: len(errors) // n * n].reshape(-1, n).mean(1) for n in sizes]
    weight = torch.tensor([len(values) for values in means], dtype=torch.float64)
    root = torch.stack([values.double().square().mean().log() / 2 for values in means]).cpu()
    at = torch.tensor(sizes, dtype=torch.float64).log()
    at = at - (weight @ at) / weight.sum()
    return float((weight * at) @ root / (weight @ at.square()))
