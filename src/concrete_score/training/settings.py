"""The settings of one training, as one frozen value built from ``key=value`` strings."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import cos, isfinite, pi
from typing import Any

from concrete_score.errors import InputError, nearest


@dataclass(frozen=True)
class TrainingSettings:
    """How a model is trained; every field can be given on the command line as ``--set name=value``.

    >>> TrainingSettings.of({"steps": "500", "schedule": "constant"}).steps
    500
    >>> TrainingSettings.of({"batchsize": "64"})
    Traceback (most recent call last):
    concrete_score.errors.InputError: batchsize: expected the name of a setting, got 'batchsize'; did you mean
    'batch_size'? Known: ...
    """

    steps: int = 10_000
    """How many steps to take at most."""
    batch_size: int = 128
    """Rows of one step, over all processes."""
    lr: float = 1e-3
    """Adam's rate at the start."""
    schedule: str = "cosine"
    """How the rate falls: a name of `SCHEDULES`."""
    clip_norm: float | None = None
    """Limit of the gradient's norm; None for none."""
    average: float | None = None
    """Decay of the weights' moving average, which is then what is validated and kept; None for none."""
    patience: int | None = None
    """Stop after this many steps without a better validation; None never does."""
    valid_every: int = 500
    """Steps between validations."""
    check_every: int = 20
    """Steps between looks at the loss (each waits for the device)."""
    checkpoint_seconds: float = 30.0
    """Seconds between checkpoints."""
    minutes: float | None = None
    """Stop after this long, all resumed parts together; None for no limit."""
    seed: int = 0
    """Names all randomness."""
    refresh_every: int = 100
    """Steps between refreshes of a self-proposal."""
    pool: int = 4096
    """States a self-proposal draws at each refresh."""
    retries: int = 3
    """How often the guard goes back with a smaller rate before it stops."""
    shrink: float = 0.3
    """By how much the guard multiplies the rate each time."""

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and not (isfinite(value) and value >= least):
                raise InputError(f"a number of at least {least}", str(value), where=name)
        for name in ("lr", "clip_norm", "minutes", "checkpoint_seconds"):
            value = getattr(self, name)
            if value is not None and not (isfinite(value) and value > 0):
                raise InputError("a number above 0", str(value), where=name)
        for name in ("average", "shrink"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1:
                raise InputError("a number between 0 and 1, both excluded", str(value), where=name)
        if self.schedule not in SCHEDULES:
            raise InputError("a schedule", repr(self.schedule), "schedule", nearest(self.schedule, list(SCHEDULES)))

    @classmethod
    def names(cls) -> list[str]:
        """The names of all settings."""
        return [field.name for field in fields(cls)]

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "TrainingSettings":
        """Settings from values or their text.

        Raises:
            InputError: an unknown name (with the nearest one) or a value of the wrong kind.
        """
        kinds = {field.name: str(field.type) for field in fields(cls)}
        for name in given:
            if name not in kinds:
                raise InputError("the name of a setting", repr(name), where=name, fix=nearest(name, list(kinds)))
        return cls(**{name: _read(name, value, kinds[name]) for name, value in given.items()})

    def to_json(self) -> dict[str, Any]:
        """Every setting by its name."""
        return asdict(self)

    def rate(self, step: int) -> float:
        """The schedule's rate at a step, before any shrinking by the guard."""
        return self.lr * SCHEDULES[self.schedule](step / self.steps)


def _cosine(share: float) -> float:
    return (1 + cos(pi * min(share, 1.0))) / 2


SCHEDULES = {"constant": lambda share: 1.0, "cosine": _cosine}
"""The rate, relative to its start, as a function of the share of steps taken."""

_LEAST = {
    "steps": 1,
    "batch_size": 1,
    "patience": 1,
    "valid_every": 1,
    "check_every": 1,
    "seed": 0,
    "refresh_every": 1,
    "pool": 1,
    "retries": 0,
}


def _read(name: str, value: Any, kind: str) -> Any:
    """A value of the field's kind, from itself or from its text."""
    if isinstance(value, str) and not kind.startswith("<class 'str'>"):
        value = parse_value(value)
    if value is None and "None" in kind:
        return None
    if "float" in kind and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if "int" in kind and "float" not in kind and isinstance(value, int) and not isinstance(value, bool):
        return value
    if "str" in kind and isinstance(value, str):
        return value
    wanted = "a word" if "str" in kind else "a number" if "float" in kind else "a whole number"
    raise InputError(wanted, repr(value), where=name)


def parse_value(text: str) -> Any:
    """A value from the command line: JSON where it is JSON, ``none`` for None, else the text itself.

    >>> parse_value("3"), parse_value("1e-3"), parse_value("none"), parse_value("[8, 4]"), parse_value("tanh")
    (3, 0.001, None, [8, 4], 'tanh')
    """
    if text.lower() == "none":
        return None
    try:
        return json.loads(text, parse_constant=lambda _: text)
    except ValueError:
        return text
