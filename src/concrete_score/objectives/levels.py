"""Which levels of a noise an objective corrupts rows at."""

from concrete_score.errors import InputError
from concrete_score.protocols import Noise


def chosen_levels(noise: Noise, levels: tuple[int, ...] | None) -> tuple[int, ...]:
    """The levels named, or all of the noise's.

    Raises:
        InputError: none, or one the noise does not have.

    >>> from concrete_score.noise import categorical
    >>> from concrete_score.spaces import Space
    >>> chosen_levels(categorical(Space((2,)), (0.9, 0.5)), None)
    (0, 1)
    """
    found = tuple(range(noise.num_levels)) if levels is None else levels
    bad = [level for level in found if not 0 <= level < noise.num_levels]
    if bad or not found:
        raise InputError(f"levels from 0 to {noise.num_levels - 1}", str(bad), where="levels")
    return found
