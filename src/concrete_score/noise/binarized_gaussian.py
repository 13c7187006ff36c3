"""Binarized Gaussian noise: add a normal draw to a bit, round, keep the parity; exactly a bit flip."""

from collections.abc import Sequence
from math import erfc, fsum, log, log1p, sqrt

from concrete_score.errors import InputError
from concrete_score.noise.categorical import symmetric
from concrete_score.noise.factorized import FactorizedNoise
from concrete_score.spaces import Space

SIGMAS = (0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.65)
"""The paper's seven levels (C.4)."""

_FLAT = 4.0  # from here on a flip has probability 1/2 to the last bit
_TERMS = 160  # half-integers up to 40 deviations at that width: the tails beyond are below the smallest float


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
