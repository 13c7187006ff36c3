"""Ratio matching for several values a site, as published and as corrected (paper, appendix D.1).

On bits the corrected form is the divergence ``f = 1 / (1 + r)`` on flips, which is registered as ``ratio_matching``.
"""

from torch import Tensor, where

from concrete_score.objectives.conditionals import SiteConditionalObjective
from concrete_score.spaces import Space


def corrected(log_q: Tensor, own: Tensor, exists: Tensor) -> Tensor:
    """``(1 - q(x_i | x_\\i))² + Σ_{ξ ≠ x_i} q(ξ | x_\\i)²``."""
    q = log_q.exp()
    mine = q.gather(-1, own[..., None]).squeeze(-1)
    return (1 - mine).square() + q.square().sum(-1) - mine.square()


def uncorrected(log_q: Tensor, own: Tensor, exists: Tensor) -> Tensor:
    """``Σ_ξ (1 - q(ξ | x_\\i))²``: nothing in it depends on the value observed at the site."""
    return where(exists, (1 - log_q.exp()).square(), 0).sum(-1)


def ratio_matching_multiclass(space: Space, sites: int | None = None) -> SiteConditionalObjective:
    """The corrected multi-class objective, the paper's *Ratio-fixed*."""
    return SiteConditionalObjective("ratio_matching_multiclass", corrected, space, sites)


def ratio_matching_uncorrected(space: Space, sites: int | None = None) -> SiteConditionalObjective:
    """The objective as first published, the paper's *Ratio*: its minimizer ignores the data."""
    return SiteConditionalObjective("ratio_matching_uncorrected", uncorrected, space, sites)
