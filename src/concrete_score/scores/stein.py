"""The Stein limit (paper, proposition 1) and the relation to finite-difference score matching (section 3.2).

On ``R^D`` with neighbors ``x + δ e_i`` the Concrete score is a *forward* difference,
``c_i = δ ∂_i log p + δ²/2 ∂_i² p / p + O(δ³)``, while finite-difference score matching uses the *central* difference of
the log-density, ``(log p(x + δe_i) - log p(x - δe_i)) / 2 = δ ∂_i log p + O(δ³)``. They differ by
``δ²/2 ∂_i² p / p + O(δ³) = o(δ)``, as in the paper once the central difference carries its factor 1/2.
"""

from collections.abc import Callable

import torch
from torch import Tensor


def scaled_score(log_density: Callable[[Tensor], Tensor], x: Tensor, delta: float) -> Tensor:
    """``c(x; N_δ) / δ`` with ``N_δ(x) = {x + δ e_i}`` on ``R^D``: the Stein score up to O(δ) (proposition 1).

    Args:
        log_density: ``(..., D) -> (...)``, differentiable, on real points.
        x: ``(..., D)``.
        delta: the step, positive.

    >>> normal = lambda x: -x.square().sum(-1) / 2
    >>> scaled_score(normal, torch.tensor([[1.0, -2.0]], dtype=torch.float64), 1e-6).round(decimals=4)
    tensor([[-1.,  2.]], dtype=torch.float64)
    """
    shifted = x[..., None, :] + delta * torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    return (log_density(shifted) - log_density(x)[..., None]).expm1() / delta


def central_difference_score(log_density: Callable[[Tensor], Tensor], x: Tensor, delta: float) -> Tensor:
    """``(log p(x + δe_i) - log p(x - δe_i)) / 2δ``, as in finite-difference score matching: O(δ²) from Stein's."""
    step = delta * torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    return (log_density(x[..., None, :] + step) - log_density(x[..., None, :] - step)) / (2 * delta)
