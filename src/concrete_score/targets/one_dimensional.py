"""The one-dimensional truths of the paper's experiments; it shows only pictures of them, these are ours, fixed."""

import torch

from concrete_score.spaces import Space
from concrete_score.targets.pmf import Pmf

_CATEGORIES = 16


def sixteen_categories() -> Pmf:
    """Two bumps on a floor, ``p_k ∝ exp(-(k-3)²/4) + 0.6 exp(-(k-11)²/6) + 0.1`` (paper, section 5.2).

    >>> sixteen_categories().probabilities.argmax().item()
    3
    """
    k = torch.arange(_CATEGORIES, dtype=torch.float64)
    bumps = (-((k - 3) ** 2) / 4).exp() + 0.6 * (-((k - 11) ** 2) / 6).exp()
    return _from_weights(bumps + 0.1)


def sine() -> Pmf:
    """One period of a wave, ``p_k ∝ 1 + 0.8 sin(2πk/16)`` (paper, B.2, first figure).

    >>> round(float(sine().probabilities[4]), 6)
    0.1125
    """
    k = torch.arange(_CATEGORIES, dtype=torch.float64)
    return _from_weights(1 + 0.8 * (2 * torch.pi * k / _CATEGORIES).sin())


def low_density() -> Pmf:
    """Two plateaus divided by a desert: weight 1 on {2, 3, 4, 10, 11, 12}, 1e-4 elsewhere (paper, B.2, second figure).

    >>> table = low_density().probabilities
    >>> round(float(table[2] / table[0]))
    10000
    """
    weights = torch.full((_CATEGORIES,), 1e-4, dtype=torch.float64)
    weights[[2, 3, 4, 10, 11, 12]] = 1.0
    return _from_weights(weights)


def _from_weights(weights: torch.Tensor) -> Pmf:
    return Pmf(Space((_CATEGORIES,)), weights.log() - weights.sum().log())
