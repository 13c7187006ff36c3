"""Families of noise: site by site and alike for all values, of categories, of rounded Gaussians, of even levels."""

from collections.abc import Sequence
from math import erfc, exp, fsum, log, log1p, sqrt

import torch
from torch import Tensor

from concrete_score.errors import InputError, check_count
from concrete_score.noise.factorized import FactorizedNoise
from concrete_score.noise.tables import by_size
from concrete_score.spaces import Space

SIGMAS = (0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.65)
"""The paper's seven levels (C.4)."""
_FLAT = 4.0  # from here on a flip has probability 1/2 to the last bit
_TERMS = 160  # half-integers up to 40 deviations at that width: the tails beyond are below the smallest float


def categorical(space: Space, weights: float | Sequence[float]) -> FactorizedNoise:
    """Keep a site's value with probability w, else draw one of its other values uniformly.

    ``q_d(x̃_d | x_d) = w`` if ``x̃_d = x_d``, else ``(1 - w) / (V_d - 1)`` (paper B.3). A site of size 1 always stays.

    Args:
        space: the space of the states.
        weights: one w for each level, ``0 < w < 1``, the weakest noise (largest w) first.

    Raises:
        InputError: a weight out of range, or weights that do not fall.

    >>> noise = categorical(Space((3,)), [0.9, 0.5])
    >>> noise.site_log_prob(level=1, site=0).exp()[0]
    tensor([0.5000, 0.2500, 0.2500], dtype=torch.float64)
    """
    schedule = (weights,) if isinstance(weights, int | float) else tuple(weights)
    if not schedule:
        raise InputError("at least one weight", "none", where="weights")
    for level, weight in enumerate(schedule):
        if not 0 < weight < 1:
            raise InputError(
                "a probability of staying between 0 and 1, both excluded",
                f"{weight}",
                where=f"weights[{level}]",
                fix="leave clean data out of the levels; 1/size is already pure noise",
            )
        if level and weight >= schedule[level - 1]:
            raise InputError(
                "weights that fall, the weakest noise first",
                f"{schedule[level - 1]} then {weight}",
                where=f"weights[{level}]",
                fix="sort them from largest to smallest, each once",
            )
    return symmetric(space, [log(weight) for weight in schedule], [log1p(-weight) for weight in schedule])


def symmetric(space: Space, log_stay: Sequence[float], log_leave: Sequence[float]) -> FactorizedNoise:
    """Noise that treats all values alike: stay, or leave for any other value.

    Args:
        space: the space of the states.
        log_stay: the log-probability of keeping a value at each level.
        log_leave: that of changing it, given apart because ``log(1 - q)`` would lose its digits.

    >>> symmetric(Space.bits(2), [log(0.75)], [log(0.25)]).site_log_prob(0, 1).exp().tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    stay, leave = (torch.tensor(logs, dtype=torch.float64)[:, None, None] for logs in (log_stay, log_leave))

    def log_kernel(size: int) -> Tensor:
        if size == 1:
            return torch.zeros_like(stay)
        return torch.where(torch.eye(size, dtype=torch.bool), stay, leave - log(size - 1))

    return FactorizedNoise(space, by_size(space, log_kernel))


def flip_probability(sigma: float) -> float:
    """The probability that ``round(x + σε) mod 2`` differs from the bit x (paper C.4).

    ``P = Σ_{k odd} P(|round(σε)| = k) = 2 Σ_{j≥0} (-1)^j Φ(-(j + 1/2) / σ)``: a sum of normal tails, whose terms fall
    so fast for small σ that nothing cancels.

    Raises:
        InputError: σ is not a positive number.

    >>> [round(flip_probability(sigma), 4) for sigma in (0.2, 0.65)]
    [0.0124, 0.4209]
    """
    if not sigma > 0:
        raise InputError("a positive standard deviation", f"{sigma}", where="sigma")
    scale = sqrt(2.0) * min(sigma, _FLAT)
    return fsum((-1) ** j * erfc((j + 0.5) / scale) for j in range(_TERMS))


def binarized_gaussian(space: Space, sigmas: Sequence[float] = SIGMAS) -> FactorizedNoise:
    """Bit flips with the probabilities of the paper's rounded Gaussian noise (C.4).

    Args:
        space: bits only.
        sigmas: one standard deviation for each level, the smallest first.

    Raises:
        InputError: a site that is not a bit, deviations that do not rise, or one so small that nothing ever flips.

    >>> noise = binarized_gaussian(Space.bits(784))
    >>> noise.num_levels, round(noise.site_log_prob(3, 0).exp()[0, 1].item(), 4)
    (7, 0.0956)
    """
    if set(space.sizes) != {2}:
        site = next(d for d, size in enumerate(space.sizes) if size != 2)
        raise InputError(
            "bits at every site", f"size {space.sizes[site]}", f"sizes[{site}]", "use `categorical` for other sizes"
        )
    if not sigmas:
        raise InputError("at least one standard deviation", "none", where="sigmas")
    flips = [flip_probability(sigma) for sigma in sigmas]
    for level, flip in enumerate(flips):
        if flip == 0:
            raise InputError(
                "a deviation at which bits flip", f"{sigmas[level]}", f"sigmas[{level}]", "start from 0.1 or more"
            )
        if level and flip <= flips[level - 1]:
            raise InputError(
                "deviations whose flips rise, the weakest noise first",
                f"{sigmas[level - 1]} then {sigmas[level]} (flips {flips[level - 1]:.6g} then {flip:.6g})",
                where=f"sigmas[{level}]",
                fix="sort them from smallest to largest; beyond 3 all flip half the bits",
            )
    return symmetric(space, [log1p(-flip) for flip in flips], [log(flip) for flip in flips])


def log_snr(space: Space, num_levels: int = 32, weakest: float = 5.0, strongest: float = -7.0) -> FactorizedNoise:
    """Keep a site's value, or draw any value, so that levels are evenly spaced in ``log λ²/(1 - λ²)``.

    λ is the correlation that is left of a site: it keeps its value with probability ``λ + (1 - λ)/V``, and steps
    multiply their λ, so any two levels compose. An image's large features outlive the noise of single pixels: they
    are decided where λ is a few hundredths, near 1/√D, and the paper's σ leave no level there.

    Args:
        space: sites of one size, of at least two values.
        num_levels: L.
        weakest, strongest: the first and the last log-ratio; 5 flips a bit in 600, -7 leaves λ = 0.03.

    Raises:
        InputError: fewer than one level, a range that does not fall, or sites of different sizes.

    >>> noise = log_snr(Space.bits(4), 3)
    >>> [round(noise.site_log_prob(level, 0).exp()[0, 1].item(), 4) for level in range(3)]
    [0.0017, 0.2407, 0.4849]
    """
    check_count(num_levels, "num_levels")
    if not weakest > strongest:
        raise InputError("a weakest log-ratio above the strongest", f"{weakest} and {strongest}", where="weakest")
    size = space.sizes[0]
    if size < 2 or len(set(space.sizes)) > 1:
        came = f"sizes {sorted(set(space.sizes))}"
        raise InputError("sites of one size, of at least two values", came, where="space", fix="use `categorical`")
    gap = (weakest - strongest) / max(1, num_levels - 1)
    kept = [sqrt(1 / (1 + exp(-(weakest - gap * level)))) for level in range(num_levels)]
    # 1 - λ is taken from 1 - λ², which is known to all its digits.
    lost = [1 / (1 + exp(weakest - gap * level)) / (1 + keep) for level, keep in enumerate(kept)]
    leave = [share * (size - 1) / size for share in lost]
    return symmetric(space, [log(1 - chance) for chance in leave], [log(chance) for chance in leave])
