"""The Fréchet distance between two samples, seen through features: how far apart two Gaussians of their moments are."""

import torch
from jaxtyping import Float
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.metrics.bootstrap import Estimate, bootstrap

FeatureRows = Float[Tensor, "_ _"]
"""One row of features a picture ``(N, F)``."""


def frechet(one: FeatureRows, other: FeatureRows, generator: torch.Generator, resamples: int = 50) -> Estimate:
    """``|μ₁ - μ₂|² + tr(Σ₁ + Σ₂ - 2 (Σ₁ Σ₂)^½)``, with a bootstrap error over both samples.

    Two samples of one distribution are not at distance 0: the distance of fresh data from the training data, at the
    same number of rows, is the floor that others are to be held against.

    Args:
        one, other: features ``(N, F)``, ``(M, F)``, more rows than features.
        generator: the source of the resamples.
        resamples: how many.

    Raises:
        InputError: different features, too few rows, or numbers that are not finite.

    >>> g = torch.Generator().manual_seed(0)
    >>> a, b = (torch.randn(2000, 3, generator=g, dtype=torch.float64) for _ in range(2))
    >>> near, far = frechet(a, b, g), frechet(a, 2 * b + 1, g)
    >>> near.value < 0.02, abs(far.value - 6) < 4 * far.stderr
    (True, True)
    """
    one, other = _check(one, "one"), _check(other, "other")
    if one.shape[1] != other.shape[1]:
        raise InputError("as many features on both sides", f"{one.shape[1]} and {other.shape[1]}", where="features")

    def distance(left: Tensor, right: Tensor) -> Tensor:
        return gaussian_distance(*_moments(one, left), *_moments(other, right))

    value, stderr = bootstrap(distance, (one, other), generator, resamples)
    return Estimate(float(value), float(stderr))


def gaussian_distance(mean: Tensor, cov: Tensor, other_mean: Tensor, other_cov: Tensor) -> Float[Tensor, ""]:
    """The squared Fréchet (2-Wasserstein) distance of two Gaussians.

    ``tr (Σ₁ Σ₂)^½`` is the sum of the roots of the eigenvalues of ``R Σ₂ R``, ``R = Σ₁^½``, which is symmetric.

    >>> one = torch.eye(2, dtype=torch.float64)
    >>> gaussian_distance(torch.zeros(2).double(), one, torch.ones(2).double(), 4 * one).item()
    4.0
    """
    value, vector = torch.linalg.eigh(cov)
    root = (vector * value.clamp_min(0).sqrt()) @ vector.T
    both = torch.linalg.eigvalsh(root @ other_cov @ root).clamp_min(0).sqrt().sum()
    apart = (mean - other_mean).square().sum()
    # Rounding may leave the distance of equal Gaussians just below zero.
    distance: Tensor = (apart + cov.trace() + other_cov.trace() - 2 * both).clamp_min(0)
    return distance


def _moments(rows: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    mean = weight @ rows
    centered = rows - mean
    return mean, (centered * weight[:, None]).T @ centered


def _check(features: Tensor, where: str) -> Tensor:
    rows = features.detach().cpu().double()
    if rows.ndim != 2 or len(rows) <= rows.shape[1]:
        raise InputError("more rows than features", f"shape {tuple(rows.shape)}", where=where, fix="draw more samples")
    if not rows.isfinite().all():
        raise InputError("finite features", "NaN or infinity", where=where)
    return rows
