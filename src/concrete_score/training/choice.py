"""What ``fit`` does when it is not told: a model, an objective and settings, each with its reason."""

from collections.abc import Mapping
from inspect import signature
from typing import Any, NamedTuple

from concrete_score import registry
from concrete_score.training.recipe import Recipe

TRAINING: Mapping[str, Any] = {"steps": 10_000, "lr": 5e-3, "valid_every": 250, "patience": 3_000}
"""Settings for tables, where nothing else is asked for."""

_LIKELIHOOD = (
    "made with maximum_likelihood: exact likelihoods and draws, and the best held-out likelihood on our own data sets"
)
_SELF_PROPOSAL = (
    "edges self_proposal: single changes may leave the data in pieces that no ratio joins; the model's own draws join"
    " them"
)


class Choice(NamedTuple):
    """A whole recipe, settings, and what was chosen for the user with the reason."""

    recipe: Recipe
    training: dict[str, Any]
    why: tuple[str, ...]


def choose(recipe: Mapping[str, Any], training: Mapping[str, Any]) -> Choice:
    """Fill in what was not given.

    Args:
        recipe: the fields of a `Recipe` that were given.
        training: the settings that were given.

    Raises:
        InputError: an unknown name, or a piece that nothing uses.

    >>> choice = choose({"objective": "logistic"}, {"steps": 50})
    >>> choice.recipe.model, choice.recipe.edges, choice.training["steps"]
    ('made', 'self_proposal', 50)
    """
    why = []
    if "model" not in recipe and "objective" not in recipe:
        why.append(_LIKELIHOOD)
    filled = Recipe(**recipe)
    if filled.edges is None and filled.neighborhood is None and _can_propose(filled):
        filled = Recipe(**{**recipe, "edges": "self_proposal"})
        why.append(_SELF_PROPOSAL)
    settings = {**TRAINING, **training}
    if "steps" not in training:
        stop = f"stops after {settings['patience']:,} without a better validation" if settings["patience"] else "whole"
        why.append(f"{settings['steps']:,} steps at most; {stop}")
    return Choice(filled.resolved(), settings, tuple(why))


def _can_propose(recipe: Recipe) -> bool:
    """Whether the objective draws edges, and the model can draw them itself."""
    objective = registry.load("objectives", recipe.objective)
    return recipe.model in ("made",) and "edges" in signature(objective).parameters
