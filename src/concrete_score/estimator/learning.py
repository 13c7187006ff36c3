"""From an estimator's parameters to a trained model: the same choices, recipe and loop as ``csm fit``."""

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn

from concrete_score import training
from concrete_score.errors import InputError
from concrete_score.protocols import Objective
from concrete_score.spaces import Space
from concrete_score.training.choice import TRAINING, Choice, choose, fit_to_rows
from concrete_score.training.events import Event, Finished, Progress, Validated, WentBack
from concrete_score.training.recipe import Built, Recipe, sort_settings
from concrete_score.training.settings import TrainingSettings

PIECES = ("model", "objective", "edges", "neighborhood")
SETTINGS = ("steps", "minutes", "batch_size", "lr")
_KINDS = {"model": nn.Module, "objective": Objective}


class Learned(NamedTuple):
    """A trained model and the account of its training."""

    model: nn.Module
    ended: Finished
    history: list[dict[str, Any]]
    """What ``metrics.jsonl`` holds, one value a validation."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What is to be trained and how; ``model`` and ``objective`` are set where no names were given."""

    choice: Choice
    model: nn.Module | Callable[[Space], nn.Module] | None = None
    objective: Objective | Callable[[Space], Objective] | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Plan":
        """The plan of an estimator's parameters.

        Raises:
            InputError: an unknown name or setting, or a value of the wrong kind.

        >>> plan = Plan.of({"objective": "logistic", "options": {"model.hidden": 8}, "random_state": 3})
        >>> plan.recipe.edges, dict(plan.recipe.model_options), plan.settings.seed
        ('self_proposal', {'hidden': 8}, 3)
        """
        training, recipe = sort_settings(_words(given.get("options")))
        training |= {name: _plain(given[name]) for name in SETTINGS if given.get(name) is not None}
        training["seed"] = seed_of(given.get("random_state", 0))
        pieces = {name: given[name] for name in PIECES if given.get(name) is not None}
        objects = {name: pieces.pop(name) for name in _KINDS if not isinstance(pieces.get(name, ""), str)}
        for name, value in {**pieces, **objects}.items():
            _check_piece(name, value)
        if "objective" in objects and "edges" in pieces:
            raise InputError("no edges beside an objective that has its own", repr(pieces["edges"]), where="edges")
        choice = choose({**recipe, **pieces}, training)
        plan = cls(choice, **objects)
        seed_of(plan.settings.seed)  # reads the settings: what is out of place is refused here
        return plan

    @property
    def recipe(self) -> Recipe:
        """Names and options."""
        return self.choice.recipe

    @property
    def settings(self) -> TrainingSettings:
        """How it is trained."""
        return self.choice.settings

    def fit_to_rows(self, rows: Tensor, space: Space) -> "Plan":
        """The plan with what depends on the rows, as ``csm fit`` chooses it."""
        found = fit_to_rows(self.choice, rows, space)
        # A model that came as an object starts as it is.
        return replace(self, choice=found if self.model is None else found._replace(recipe=self.choice.recipe))

    @property
    def named(self) -> bool:
        """Whether names say it all, so that a run directory can hold it."""
        return self.model is None and self.objective is None

    def build(self, space: Space) -> Built:
        """The model with its first weights, and the objective; given objects are copied, never changed.

        Raises:
            InputError: pieces that do not fit.
        """
        if self.named:
            return self.recipe.build(space, self.settings)
        model: nn.Module = (
            self.recipe.build_model(space, self.settings) if self.model is None else _made("model", self.model, space)
        )
        here = getattr(model, "space", None) or getattr(getattr(model, "neighborhood", None), "space", None)
        if here != space:
            raise InputError(f"a model of this table's space, sizes {space.sizes}", f"one of {here}", where="model")
        if self.objective is not None:
            return Built(model, _made("objective", self.objective, space))
        return Built(model, self.recipe.build_objective(space, self.settings, model))


def learn(
    plan: Plan, built: Built, rows: Tensor, valid: Tensor | None, device: str, show: Callable[[Event], None]
) -> Learned:
    """Train to the end."""
    history: list[dict[str, Any]] = []
    loss: float | None = None
    last: Event | None = None
    for last in training.train(*built, rows, plan.settings, valid, device=device):
        show(last)
        match last:
            case Progress():
                loss = last.loss
            case Validated():
                history.append({"step": last.step, "loss": loss, "valid": last.value, "best_step": last.best_step})
            case WentBack():
                back = {"went_back_to": last.to_step, "rate": last.rate, "why": last.reason}
                history.append({"step": last.step, **back})
    if not isinstance(last, Finished):
        raise RuntimeError("training ended without an ending")
    return Learned(built.model.to("cpu").requires_grad_(False), last, history)


def parameters_of(recipe: Recipe, settings: TrainingSettings) -> dict[str, Any]:
    """The estimator's parameters that give this plan: the way back from `Plan.of`.

    >>> parameters_of(Recipe(model_options={"hidden": 8}), TrainingSettings.of({**TRAINING, "seed": 3}))["options"]
    {'model.hidden': 8}
    """
    values = settings.to_json()
    usual = {**TrainingSettings().to_json(), **TRAINING}
    options = {f"model.{name}": value for name, value in recipe.model_options.items()}
    options |= {f"objective.{name}": value for name, value in recipe.objective_options.items()}
    options |= {f"noise.{name}": value for name, value in recipe.noise_options.items()}
    options |= {} if recipe.noise is None else {"noise": recipe.noise}
    told = {*SETTINGS, "seed"}
    options |= {name: value for name, value in values.items() if name not in told and value != usual[name]}
    return {
        **{name: getattr(recipe, name) for name in PIECES},
        **{name: values[name] for name in SETTINGS},
        "options": options or None,
        "random_state": settings.seed,
    }


def seed_of(random_state: Any) -> int:
    """A seed from a ``random_state``: a whole number from 0.

    Raises:
        InputError: anything else; all randomness here is named, so there is no default source to share.
    """
    whole = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if not whole or random_state < 0:
        raise InputError("a whole number from 0", repr(random_state), where="random_state")
    return int(random_state)


def _made(name: str, value: Any, space: Space) -> Any:
    """A model or objective on a space: a copy of the one given, or what the function given makes."""
    if not _is_maker(name, value):
        return deepcopy(value)
    found = value(space)
    if not isinstance(found, _KINDS[name]):
        raise InputError(f"a function that makes the {name}", f"one that makes {type(found).__name__}", where=name)
    return found


def _is_maker(name: str, value: Any) -> bool:
    # A class has all its objects' methods, and is still no object of itself.
    return callable(value) and (isinstance(value, type) or not isinstance(value, _KINDS[name]))


def _check_piece(name: str, value: Any) -> None:
    if name in _KINDS and not isinstance(value, str | _KINDS[name]) and not callable(value):
        expected = f"a registered name, the {name} itself, or a function of the space that makes it"
        raise InputError(expected, type(value).__name__, where=name)
    if name not in _KINDS and not isinstance(value, str):
        raise InputError("a registered name", repr(value), where=name, fix=f"see csm list {name.rstrip('s')}s")


def _words(options: Any) -> tuple[str, ...]:
    """Options as the words of ``--set``, so that both are read alike."""
    if options is not None and not isinstance(options, Mapping):
        raise InputError("a mapping such as {'model.hidden': 300}", type(options).__name__, where="options")
    try:
        return tuple(f"{name}={_word(value)}" for name, value in (options or {}).items())
    except TypeError as error:
        raise InputError("plain numbers, texts or lists", str(error), where="options") from None


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(_plain(value))


def _plain(value: Any) -> Any:
    """A number of NumPy's as Python's own."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value
