"""Noise levels spread evenly over the logarithm of the signal-to-noise ratio (DESIGN M8: a better schedule)."""

from math import exp, log, sqrt

from concrete_score.errors import InputError
from concrete_score.noise.categorical import symmetric
from concrete_score.noise.factorized import FactorizedNoise
from concrete_score.spaces import Space


def log_snr(space: Space, num_levels: int = 32, weakest: float = 5.0, strongest: float = -7.0) -> FactorizedNoise:
    """Keep a site's value, or draw any value, so that levels are evenly spaced in ``log λ²/(1 - λ²)``.

    λ is the correlation that is left of a site: it keeps its value with probability ``λ + (1 - λ)/V``, and steps
    multiply their λ, so any two levels compose. A picture's large features outlive the noise of single pixels: they
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
    if isinstance(num_levels, bool) or not isinstance(num_levels, int) or num_levels < 1:
        raise InputError("a whole number of at least 1", repr(num_levels), where="num_levels")
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
