"""What is trained, by names alone: a model, an objective and the pieces they are made of."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from inspect import Parameter, signature
from typing import Any, NamedTuple

from torch import nn

from concrete_score import registry
from concrete_score.errors import InputError, nearest
from concrete_score.protocols import Objective
from concrete_score.randomness import generator
from concrete_score.spaces import Space
from concrete_score.training.proposals import PooledProposal
from concrete_score.training.settings import TrainingSettings, parse_value

_PIECES = ("space", "neighborhood", "noise", "generator", "edges", "proposal", "dtype", "weight")
"""Arguments that are built here, never given as options."""
_OPTIONS = ("model", "objective", "noise")
"""Pieces that take options ``piece.name=value``."""


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

    model: str = "made"
    objective: str = "maximum_likelihood"
    edges: str | None = None
    neighborhood: str | None = None
    noise: str | None = None
    model_options: Mapping[str, Any] = field(default_factory=dict)
    objective_options: Mapping[str, Any] = field(default_factory=dict)
    noise_options: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """For ``run.json``."""
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
        model: nn.Module = _call(registry.load("models", self.model), pieces, self.model_options, "model")
        return model

    def build_objective(self, space: Space, settings: TrainingSettings, model: nn.Module) -> Objective:
        """The objective; ``model`` is what a self-proposal draws from, and may be one that no name stands for."""
        pieces = self._pieces(space)
        if self.edges is not None:
            pieces["edges"] = self.edges
            if "proposal" in signature(registry.load("edges", self.edges)).parameters:
                pieces["proposal"] = PooledProposal(model, settings.pool, settings.seed)
        loaded = registry.load("objectives", self.objective)
        objective: Objective = _call(loaded, pieces, self.objective_options, "objective")
        return objective

    def _pieces(self, space: Space) -> dict[str, Any]:
        """What model and objective may both ask for."""
        pieces: dict[str, Any] = {"space": space}
        if self.neighborhood is not None:
            loaded = registry.load("neighborhoods", self.neighborhood)
            pieces["neighborhood"] = _call(loaded, pieces, {}, self.neighborhood)
        if self.noise is not None:
            pieces["noise"] = _call(registry.load("noise", self.noise), pieces, self.noise_options, "noise")
        return pieces


def _call(builder: Callable[..., Any], pieces: Mapping[str, Any], options: Mapping[str, Any], where: str) -> Any:
    """Call a builder with the pieces it asks for and the options given."""
    parameters = signature(builder).parameters
    # A generator is passed where it is required: a table starts uniform, as in the paper, unless told otherwise.
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
            # A neighborhood is known by its name alone.
            fix = (
                f"use --set {where}.NAME=VALUE"
                if where in _OPTIONS
                else "choose one that needs none, or build it in Python"
            )
            raise InputError(f"the options of this {where}", reason, where, fix) from None
        raise


def _missing(parameters: Mapping[str, Parameter], given: Mapping[str, Any]) -> list[str]:
    kinds = (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
    return [
        name for name, p in parameters.items() if p.default is p.empty and p.kind not in kinds and name not in given
    ]


def sort_settings(words: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """``key=value`` words as training settings and as pieces of a recipe.

    Raises:
        InputError: a word without ``=``, or an unknown key with the nearest one.

    >>> sort_settings(("lr=0.01", "model.hidden=50", "noise=categorical"))
    ({'lr': '0.01'}, {'model_options': {'hidden': 50}, 'noise': 'categorical'})
    """
    training: dict[str, Any] = {}
    recipe: dict[str, Any] = {}
    known = [*TrainingSettings.names(), "noise", *(f"{piece}.NAME" for piece in _OPTIONS)]
    for word in words:
        key, equals, value = word.partition("=")
        piece, dot, name = key.partition(".")
        if not equals:
            raise InputError("KEY=VALUE", repr(word), where="--set", fix="for example --set average=0.999")
        if key in TrainingSettings.names():
            training[key] = value
        elif dot and piece in _OPTIONS and name:
            recipe.setdefault(f"{piece}_options", {})[name] = parse_value(value)
        elif key == "noise":
            recipe["noise"] = value
        else:
            raise InputError("the name of a setting", repr(key), where="--set", fix=nearest(key, known))
    return training, recipe
