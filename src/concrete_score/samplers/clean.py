"""What a noise-conditional model says of clean values: by its head, or recovered from its ratios."""

from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.models.sites import SiteTable
from concrete_score.noise import FactorizedNoise
from concrete_score.noise.tables import inside
from concrete_score.samplers.gibbs import check_all_changes
from concrete_score.samplers.heat_bath import conditionals
from concrete_score.shapes import States


def clean_log_probs(model: Any, noise: FactorizedNoise, level: int, x: States) -> SiteTable:
    """``log P(x_d = v | x̃)`` of every site at one level ``(C, D) -> (C, D, V)``; one pass.

    A denoising head gives it. From any other head's ratios it follows by undoing the noise: the noisy conditional of a
    site is ``q̃(b) = Σ_v π(v) q(b | v)``, so ``π = q̃ Q⁻¹`` and ``P(v | x̃) ∝ π(v) q(x̃_d | v)``. Ratios that belong to no
    noisy distribution may make π negative somewhere; it is cut at 0 there.

    Args:
        model: the score model of that level.
        noise: the levels' noise.
        level: which.
        x: noisy states ``(C, D)``.

    Raises:
        InputError: a model that does not list every value of a site.

    >>> from concrete_score.models.ideal import IdealDenoiser
    >>> from concrete_score.neighborhoods import hamming
    >>> from concrete_score.noise import categorical
    >>> from concrete_score.spaces import Space
    >>> ideal = IdealDenoiser.of(torch.tensor([0.2, 0.8]), categorical(Space((2,)), [0.75]), hamming(Space((2,))))
    >>> clean_log_probs(ideal.at(0), ideal.noise, 0, torch.tensor([[0]])).exp()
    tensor([[[0.4286, 0.5714]]], dtype=torch.float64)
    """
    if hasattr(model, "clean_log_probs"):
        found: Tensor = model.clean_log_probs(x)
        return found
    check_all_changes(model)
    noisy = conditionals(model, x).double().exp()
    table = noise.table[level].to(x.device)
    stored = table[:1] if table.stride(0) == 0 else table
    own = inside(noise.space, *stored.shape[:2]).to(x.device)
    # Padding becomes an identity block, so that it is undone without touching the site itself.
    kernel = stored.exp() + (~own).double() * torch.eye(own.shape[-1], dtype=torch.float64, device=x.device)
    prior = torch.linalg.solve(kernel.transpose(-2, -1), noisy[..., None]).squeeze(-1).clamp_min(0)
    site = torch.arange(x.shape[-1], device=x.device) % len(stored)
    told = stored[site, :, x]
    recovered: Tensor = (prior.log() + told).log_softmax(-1)
    return recovered


def check_noise(model: Any) -> FactorizedNoise:
    """The noise of a noise-conditional model, which must be known as a table.

    Raises:
        InputError: a model without levels, or with another kind of noise.
    """
    noise = getattr(model, "noise", None)
    if not isinstance(noise, FactorizedNoise) or not hasattr(model, "at"):
        raise InputError(
            "a noise-conditional model, with `at(level)` and a noise of independent sites",
            type(model).__name__,
            where="model",
            fix="build it with a noise such as `binarized_gaussian`",
        )
    return noise
