"""The mean of losses under a known distribution: what every enumerating twin ends with."""

import torch
from torch import Tensor

from concrete_score.shapes import PerState, PerStateTable


def expectation(pmf: PerStateTable, losses: PerState) -> Tensor:
    """``Σ_x p(x) loss(x)``; what never happens costs nothing, however impossible a model thinks it.

    >>> expectation(torch.tensor([0.5, 0.5, 0.0]), torch.tensor([1.0, 3.0, torch.inf]))
    tensor(2.)
    """
    return pmf @ torch.where(pmf > 0, losses.to(pmf.dtype), 0.0)
