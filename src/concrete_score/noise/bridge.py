"""The way back from one noise level to a weaker one, when the clean value is known (DESIGN M8).

Where levels compose, ``x → z_0 → z_1 → …`` is a Markov chain, and by Bayes' rule
``q(z_low | z_high, x) = q_low(z_low | x) step(z_high | z_low) / q_high(z_high | x)``, site by site.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from concrete_score.noise.factorized import FactorizedNoise
from concrete_score.shapes import States

Bridge = Float[Tensor, "sites values values values"]
"""``log q(z_low | z_high, clean)`` ``(D, V, V, V)``: ``[site, clean, high, low]``."""
SiteLogProbs = Float[Tensor, "*batch sites values"]
"""A distribution over the values of each site ``(..., D, V)``."""


def bridge(noise: FactorizedNoise, low: int | None, high: int) -> Bridge:
    """The posterior of the weaker level's value; ``low=None`` is no noise at all, the clean value itself.

    Args:
        noise: whose levels compose.
        low, high: two levels, ``low < high``, or None and any level.

    Returns:
        ``(D, V, V, V)``, -inf where something cannot be, and beyond a site's size. Sites that are alike share memory.

    Raises:
        InputError: the levels do not compose.

    >>> from concrete_score import Space
    >>> from concrete_score.noise import categorical
    >>> bridge(categorical(Space((2,)), [0.9, 0.74]), 0, 1)[0, 0].exp()  # clean 0: rows z_high, columns z_low
    tensor([[0.9730, 0.0270],
            [0.6923, 0.3077]], dtype=torch.float64)
    """
    weight = noise.table[high]  # [site, clean, high]
    if low is None:
        same = torch.eye(weight.shape[-1], dtype=torch.bool)[:, None, :]
        return torch.where(same & (weight > -torch.inf)[..., None], 0.0, -torch.inf)
    step = noise.step_log_prob(low, high)  # [site, low, high]
    joint = _once(noise.table[low])[:, :, None, :] + _once(step).transpose(-2, -1)[:, None]
    total = _once(weight)[..., None]
    found = torch.where(total > -torch.inf, joint - total, -torch.inf)
    return found.expand(noise.space.num_sites, -1, -1, -1)


def reverse_log_probs(clean: SiteLogProbs, noisy: States, way: Bridge) -> SiteLogProbs:
    """``log Σ_v P(x_d = v) q(z_low | z_high = x̃_d, v)``: a model's step to the weaker level ``(..., D, V)``.

    Args:
        clean: ``log P(x_d = v | x̃)`` ``(..., D, V)``.
        noisy: ``x̃`` at the higher level ``(..., D)``.
        way: a `bridge` from there.

    >>> from concrete_score import Space
    >>> from concrete_score.noise import categorical
    >>> way = bridge(categorical(Space((2,)), [0.9, 0.74]), 0, 1)
    >>> reverse_log_probs(torch.tensor([[[0.5, 0.5]]]).log(), torch.tensor([[0]]), way).exp()
    tensor([[[0.6403, 0.3597]]], dtype=torch.float64)
    """
    site = torch.arange(noisy.shape[-1], device=noisy.device) % len(_once(way))
    # Indexing with a slice between puts the sites' axes first: (..., D, clean, low).
    told = _once(way).to(noisy.device)[site, :, noisy.long()]
    return (clean[..., None] + told).logsumexp(-2)


def _once(table: Tensor) -> Tensor:
    """The table of one site where all are alike and share memory."""
    return table[:1] if table.stride(0) == 0 else table
