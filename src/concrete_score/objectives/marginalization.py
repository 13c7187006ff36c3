"""Discrete marginalization, as published and as corrected (paper, appendix D.2).

On bits with flips the corrected form equals Concrete score matching up to a constant: ``s² - 2/s - 3`` a flip.
"""

import torch
from torch import Tensor

from concrete_score.objectives.conditionals import SiteConditionalObjective
from concrete_score.spaces import Space


def corrected(log_q: Tensor, own: Tensor, exists: Tensor) -> Tensor:
    """``1 / q(x_i | x_\\i)² - Σ_ξ 2 / q(ξ | x_\\i)``."""
    mine = log_q.gather(-1, own[..., None]).squeeze(-1)
    return (-2 * mine).exp() - 2 * _inverse(log_q, exists).sum(-1)


def uncorrected(log_q: Tensor, own: Tensor, exists: Tensor) -> Tensor:
    """``Σ_ξ (1 - 2 q) / q²``: nothing in it depends on the value observed at the site."""
    inverse = _inverse(log_q, exists)
    return (inverse.square() - 2 * inverse).sum(-1)


def _inverse(log_q: Tensor, exists: Tensor) -> Tensor:
    """``1 / q``, 0 at values that do not exist; masked before the exponential, so that gradients stay finite."""
    return torch.where(exists, (-torch.where(exists, log_q, 0)).exp(), 0)


def discrete_marginalization(space: Space, sites: int | None = None) -> SiteConditionalObjective:
    """The corrected objective, the paper's *Marginal-fixed*."""
    return SiteConditionalObjective("discrete_marginalization", corrected, space, sites)


def discrete_marginalization_uncorrected(space: Space, sites: int | None = None) -> SiteConditionalObjective:
    """The objective as first published, the paper's *Marginal*: its minimizer ignores the data."""
    return SiteConditionalObjective("discrete_marginalization_uncorrected", uncorrected, space, sites)
