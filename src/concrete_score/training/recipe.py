"""What is trained and how, by names and plain values alone: a recipe of registered pieces, and the settings."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from inspect import Parameter, signature
from math import cos, isfinite, pi, prod
from typing import Any, NamedTuple

from torch import nn

from concrete_score import registry
from concrete_score.defaults import BATCH_SIZE, MODEL, OBJECTIVE
from concrete_score.errors import InputError, Option, bounded, nearest
from concrete_score.files import refuse_large
from concrete_score.protocols import Objective
from concrete_score.randomness import generator
from concrete_score.spaces import Space
from concrete_score.training.compiling import KINDS
from concrete_score.training.copies import FrozenCopy, PooledProposal
from concrete_score.training.optimizers import OPTIMIZERS

_PIECES = ("space", "neighborhood", "noise", "generator", "edges", "proposal", "copy", "dtype", "weight")
"""Arguments that are built here, never given as options."""
_OPTIONS = ("model", "objective", "noise")
"""Pieces that take options ``piece.name=value``."""
_WIDE, _DEEP = ("hidden", "width"), ("blocks", "depth", "layers")
_WEIGHT = 16
"""Bytes of a weight with its gradient and Adam's two moments."""
_CELL = 8
"""Bytes of one value of one row, in a batch."""
_MOST = 2**40


@dataclass(frozen=True)
class TrainingSettings:
    """How a model is trained; every field can be given by its name (``csm fit --set name=value``).

    >>> TrainingSettings.of({"steps": "500", "schedule": "constant"}).steps
    500
    >>> TrainingSettings.of({"batchsize": "64"})
    Traceback (most recent call last):
    concrete_score.errors.InputError: batchsize: expected the name of a setting, got 'batchsize'; did you mean
    'batch_size'? Known: ...
    """

    steps: int = 10_000
    """How many steps to take at most."""
    batch_size: int = BATCH_SIZE
    """Rows of one step, over all processes."""
    optimizer: str = "adam"
    """A name of `OPTIMIZERS`: adam, or muon for a model with matrices between features."""
    lr: float = 1e-3
    """Adam's rate at the start."""
    schedule: str = "cosine"
    """How the rate falls: a name of `SCHEDULES`."""
    weight_decay: float = 0.0
    """The share of its size that a weight loses at a step of rate 1."""
    l2: float = 0.0
    """Times the sum of squares of all weight matrices, or of what a model has ``penalized``, added to the loss of
    training and never to a validation."""
    l2_start: float = 1.0
    """Times l2 at the first step, from where it falls by a constant factor a step to l2 itself at the last."""
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
    compile: str = "no"
    """Whether the loss goes through ``torch.compile``: ``no``, ``yes``, or ``auto``, by a trial at the start."""

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and not (_usable(value) and value >= least):
                raise InputError(f"a number of at least {least}", bounded(str(value), 60), where=name)
        for name in ("lr", "clip_norm", "minutes", "checkpoint_seconds"):
            value = getattr(self, name)
            if value is not None and not (_usable(value) and value > 0):
                raise InputError("a number above 0", str(value), where=name)
        for name in ("average", "shrink"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1:
                raise InputError("a number between 0 and 1, both excluded", str(value), where=name)
        if self.compile not in KINDS:
            raise InputError("no, auto or yes", repr(self.compile), "compile")
        if self.schedule not in SCHEDULES:
            raise InputError("a schedule", repr(self.schedule), "schedule", nearest(self.schedule, list(SCHEDULES)))
        if self.optimizer not in OPTIMIZERS:
            known = nearest(self.optimizer, list(OPTIMIZERS))
            raise InputError("an optimizer", repr(self.optimizer), "optimizer", known)

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

    def rate(self, step: int, seconds: float = 0.0) -> float:
        """The schedule's rate at a step and time, before any shrinking by the guard."""
        late = 0.0 if self.minutes is None else seconds / (60 * self.minutes)
        return self.lr * SCHEDULES[self.schedule](step / self.steps, late)

    def penalty(self, step: int) -> float:
        """What the sum of squares counts at a step.

        >>> settings = TrainingSettings(steps=100, l2=0.01, l2_start=16.0)
        >>> [round(settings.penalty(step), 4) for step in (0, 50, 100)]
        [0.16, 0.04, 0.01]
        """
        return float(self.l2 * self.l2_start ** (1 - min(step / self.steps, 1.0)))


def _cosine(share: float) -> float:
    return (1 + cos(pi * min(share, 1.0))) / 2


WARM = 0.03
"""The share of the steps in which the rate of ``warmed`` rises."""
SCHEDULES: Mapping[str, Callable[[float, float], float]] = {
    "constant": lambda steps, minutes: 1.0,
    "cosine": lambda steps, minutes: _cosine(steps),
    "timed": lambda steps, minutes: _cosine(max(steps, minutes)),
    "warmed": lambda steps, minutes: min(1.0, (steps + 1e-3) / WARM) * _cosine(steps),
}
"""The rate, relative to its start, by the shares of the steps taken and of the minutes gone."""

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
    "weight_decay": 0,
    "l2": 0,
    "l2_start": 1,
}


def _usable(value: int | float) -> bool:
    """Whether a number is finite, and small enough to be counted with."""
    try:
        return isfinite(value) and abs(value) < 2**63
    except OverflowError:
        return False


def _read(name: str, value: Any, kind: str) -> Any:
    """A value of the field's kind, from itself or from its text."""
    if isinstance(value, str) and not kind.startswith("<class 'str'>"):
        value = parse_value(value)
    if value is None and "None" in kind:
        return None
    if isinstance(value, int) and not _usable(value):
        raise InputError("a number below 2^63", bounded(repr(value), 60), where=name)
    if "float" in kind and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if "int" in kind and "float" not in kind and isinstance(value, int) and not isinstance(value, bool):
        return value
    if "str" in kind and isinstance(value, str):
        return value
    wanted = "a word" if "str" in kind else "a number" if "float" in kind else "a whole number"
    raise InputError(wanted, bounded(repr(value), 100), where=name)


def parse_value(text: str) -> Any:
    """A value from the command line: JSON where it is JSON, ``none`` for None, else the text itself.

    >>> parse_value("3"), parse_value("1e-3"), parse_value("none"), parse_value("[8, 4]"), parse_value("tanh")
    (3, 0.001, None, [8, 4], 'tanh')
    """
    if text.lower() == "none":
        return None
    try:
        return json.loads(text, parse_constant=lambda _: text)
    except (ValueError, RecursionError):
        return text


class Built(NamedTuple):
    """A model with its first weights and its objective."""

    model: nn.Module
    objective: Objective


@dataclass(frozen=True)
class Recipe:
    """Names and options of all that a training is made of; each name is looked up in the registry, nowhere else.

    >>> recipe = Recipe(model="table", objective="logistic").resolved()
    >>> recipe.edges, recipe.neighborhood
    ('paired', 'hamming')
    >>> recipe.build(Space((2, 3)), TrainingSettings()).objective.divergence.name
    'logistic'
    """

    model: str = MODEL
    objective: str = OBJECTIVE
    edges: str | None = None
    neighborhood: str | None = None
    noise: str | None = None
    model_options: Mapping[str, Any] = field(default_factory=dict)
    objective_options: Mapping[str, Any] = field(default_factory=dict)
    noise_options: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Recipe":
        """The recipe of a ``run.json``."""
        return cls(**{each.name: value[each.name] for each in fields(cls)})

    def resolved(self) -> "Recipe":
        """With defaults spelled out, and names checked.

        Raises:
            InputError: an unknown name, or a piece that nothing here uses.
        """
        model, objective = registry.load("models", self.model), registry.load("objectives", self.objective)
        takes = set(signature(model).parameters) | set(signature(objective).parameters)
        edges = self.edges
        if "edges" in takes and edges is None:
            edges = signature(objective).parameters["edges"].default
        sampled = edges is not None and "proposal" in signature(registry.load("edges", edges)).parameters
        wanted = "neighborhood" in takes and (not sampled or "neighborhood" in signature(model).parameters)
        neighborhood = self.neighborhood or ("hamming" if wanted else None)
        found = replace(self, edges=edges, neighborhood=neighborhood)
        for name, needed in (("edges", "edges" in takes), ("neighborhood", wanted), ("noise", "noise" in takes)):
            if getattr(found, name) is not None and not needed:
                raise InputError(
                    f"no {name} with {self.model} and {self.objective}, which use none",
                    repr(getattr(found, name)),
                    where=name,
                    fix="leave it out, or choose another objective",
                )
        return found

    def build(self, space: Space, settings: TrainingSettings) -> Built:
        """The model and the objective on a space.

        Raises:
            InputError: an unknown name or option, or pieces that do not fit.
        """
        model = self.build_model(space, settings)
        objective = self.build_objective(space, settings, model)
        check = getattr(objective, "check", None)  # ours have it; a third party's needs only what the protocol asks for
        if check is not None:
            check(model)
        return Built(model, objective)

    def build_model(self, space: Space, settings: TrainingSettings) -> nn.Module:
        """The model with its first weights; also beside an objective that no name stands for."""
        pieces = {**self._pieces(space), "generator": generator(settings.seed, "weights")}
        model: nn.Module = build_piece(registry.load("models", self.model), pieces, self.model_options, "model")
        return model

    def build_objective(self, space: Space, settings: TrainingSettings, model: nn.Module) -> Objective:
        """The objective; ``model`` is what a self-proposal draws from, and may be one that no name stands for."""
        pieces = self._pieces(space)
        if self.edges is not None:
            pieces["edges"] = self.edges
            takes = signature(registry.load("edges", self.edges)).parameters
            if "proposal" in takes:
                pieces["proposal"] = PooledProposal(model, settings.pool, settings.seed)
            if "copy" in takes:
                pieces["copy"] = FrozenCopy(model)
        loaded = registry.load("objectives", self.objective)
        objective: Objective = build_piece(loaded, pieces, self.objective_options, "objective")
        return objective

    def _pieces(self, space: Space) -> dict[str, Any]:
        """What model and objective may both ask for."""
        pieces: dict[str, Any] = {"space": space}
        if self.neighborhood is not None:
            loaded = registry.load("neighborhoods", self.neighborhood)
            pieces["neighborhood"] = build_piece(loaded, pieces, {}, self.neighborhood)
        if self.noise is not None:
            pieces["noise"] = build_piece(registry.load("noise", self.noise), pieces, self.noise_options, "noise")
        return pieces


def build_piece(builder: Callable[..., Any], pieces: Mapping[str, Any], options: Mapping[str, Any], where: str) -> Any:
    """Call a builder with the pieces it asks for and the options given."""
    parameters = signature(builder).parameters
    # A generator is passed where it is required: a table starts uniform, as in the paper, unless asked otherwise.
    given = {
        name: value
        for name, value in pieces.items()
        if name in parameters and (name != "generator" or parameters[name].default is Parameter.empty)
    }
    allowed = [name for name in parameters if name not in _PIECES and name != "options"]
    open_ended = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values())
    for name in options:
        if name in _PIECES or (name not in allowed and not open_ended):
            raise InputError(
                f"an option of this {where}", repr(name), where=f"{where}.{name}", fix=nearest(name, allowed)
            )
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    try:
        return builder(**given, **values)
    except TypeError as error:
        if options or _missing(parameters, {**given, **values}):
            reason = str(error).partition("() ")[2] or str(error)
            if where in _OPTIONS:
                fix: Any = Option("set", {f"{where}.NAME": "VALUE"})
            else:  # a neighborhood is known by its name alone
                fix = "choose one that needs none, or build it in Python"
            raise InputError(f"the options of this {where}", bounded(reason, 300), where, fix) from None
        raise


def _missing(parameters: Mapping[str, Parameter], given: Mapping[str, Any]) -> list[str]:
    kinds = (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
    return [
        name for name, p in parameters.items() if p.default is p.empty and p.kind not in kinds and name not in given
    ]


def sort_settings(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings by name as those of the training and as pieces of a recipe; texts are read, ``piece.name`` is an option.

    Raises:
        InputError: an unknown name, with the nearest one.

    >>> sort_settings({"lr": "0.01", "model.hidden": "50", "noise": "categorical"})
    ({'lr': '0.01'}, {'model_options': {'hidden': 50}, 'noise': 'categorical'})
    """
    training: dict[str, Any] = {}
    recipe: dict[str, Any] = {}
    known = [*TrainingSettings.names(), "noise", *(f"{piece}.NAME" for piece in _OPTIONS)]
    for key, value in given.items():
        piece, dot, name = key.partition(".")
        if key in TrainingSettings.names():
            training[key] = value
        elif dot and piece in _OPTIONS and name:
            chosen = parse_value(value) if isinstance(value, str) else value
            if isinstance(chosen, int) and not _usable(chosen):
                raise InputError("a number below 2^63", bounded(str(value), 60), where=key)
            recipe.setdefault(f"{piece}_options", {})[name] = chosen
        elif key == "noise":
            recipe["noise"] = value
        else:
            raise InputError("the name of a setting", repr(key), Option("set"), nearest(key, known))
    return training, recipe


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
