"""Bootstrap errors: what a statistic would do on other samples of the same size."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from concrete_score.errors import InputError


class Estimate(NamedTuple):
    """A number and its standard error."""

    value: float
    stderr: float


def bootstrap(
    statistic: Callable[..., Tensor],
    samples: tuple[Tensor, ...],
    generator: torch.Generator,
    resamples: int = 100,
) -> tuple[Tensor, Tensor]:
    """A statistic of weighted samples, and its standard error over resampled weights.

    Drawing N rows with replacement is the same as weighing each by how often it was drawn, so rows are never copied.

    Args:
        statistic: of one weight vector ``(N_i,)`` of sum 1 for each sample, to a tensor of any shape.
        samples: what is weighed; only the lengths ``N_i`` are used.
        generator: the source of the draws.
        resamples: how many, at least 2.

    Returns:
        The statistic at equal weights, and its standard deviation over the resamples, of the same shape.

    >>> x = torch.arange(400.0).double()
    >>> value, stderr = bootstrap(lambda w: w @ x, (x,), torch.Generator().manual_seed(0), 400)
    >>> value.item(), bool(abs(stderr - x.std() / 20) < 1)
    (199.5, True)
    """
    if resamples < 2 or any(not len(sample) for sample in samples):
        raise InputError("at least 2 resamples of samples that are not empty", f"{resamples}", where="bootstrap")
    equal = statistic(*(torch.full((len(sample),), 1 / len(sample), dtype=torch.float64) for sample in samples))
    again = torch.stack(
        [statistic(*(_weights(len(sample), generator) for sample in samples)) for _ in range(resamples)]
    )
    return equal, again.std(0)


def _weights(count: int, generator: torch.Generator) -> Tensor:
    drawn = torch.randint(count, (count,), generator=generator, device=generator.device).cpu()
    return torch.bincount(drawn, minlength=count).double() / count
