"""The least memory that a training asks for, before any of it is taken: a mistyped or untrusted size is refused."""

from math import prod
from typing import Any

from concrete_score.errors import Option
from concrete_score.files import refuse_large
from concrete_score.spaces import Space
from concrete_score.training.recipe import Recipe, TrainingSettings

_WIDE, _DEEP = ("hidden", "width"), ("blocks", "depth", "layers")
_WEIGHT = 16
"""Bytes of a weight with its gradient and Adam's two moments."""
_CELL = 8
"""Bytes of one value of one row, in a batch."""
_MOST = 2**40


def refuse_too_large(recipe: Recipe, settings: TrainingSettings, space: Space) -> None:
    """Refuse a model, batch or pool that one file's worth of memory cannot hold.

    Raises:
        InputError: about how many GiB it would take, and how to raise the limit.
    """
    values = sum(space.sizes)
    refuse_large(_CELL * settings.batch_size * values, Option("batch_size"), "a batch")
    if recipe.edges is not None:
        refuse_large(_CELL * settings.pool * space.num_sites, Option("set", {"pool": settings.pool}), "a pool")
    refuse_large(_WEIGHT * weights_at_least(recipe.model_options, values), Option("model"), "a model")


def weights_at_least(options: Any, values: int) -> int:
    """About how many weights a network of these options has on a space of so many values, all sites together.

    >>> weights_at_least({"hidden": 100, "blocks": 2}, 32)
    26400
    >>> weights_at_least({"hidden": [10, 20]}, 5)
    270
    """
    wide = [size for name in _WIDE for size in _sizes(options.get(name))]
    deep = prod(size for name in _DEEP for size in _sizes(options.get(name)))
    if len(wide) == 1:
        return max(deep, 1) * wide[0] * (wide[0] + values)
    return sum(a * b for a, b in zip([values, *wide], [*wide, 1], strict=True))


def _sizes(value: Any) -> list[int]:
    found = value if isinstance(value, list | tuple) else [value]
    return [min(abs(each), _MOST) for each in found if isinstance(each, int) and not isinstance(each, bool)]
