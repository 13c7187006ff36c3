"""What ``fit`` does when it is not told: a model, an objective and settings, each with its reason."""

from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from typing import Any, NamedTuple

from concrete_score import registry
from concrete_score.baselines.structure import learn_structure
from concrete_score.shapes import States
from concrete_score.spaces import Space
from concrete_score.training.recipe import Recipe
from concrete_score.training.settings import TrainingSettings

TRAINING: Mapping[str, Any] = {"lr": 2e-3, "valid_every": 200, "patience": 3_000}
"""Settings for tables, where nothing else is asked for."""
ROUNDS, LEAST, MOST = 40, 2_000, 10_000
"""How often each row is looked at, and the steps this may come to."""
COLUMNS = 128
"""The most columns among which dependences are searched for."""

_LIKELIHOOD = (
    "made with maximum_likelihood: exact likelihoods and draws, and the best held-out likelihood on our own data sets"
)
_LOGISTIC = "objective logistic: this model has no likelihood to maximize, and logistic ratios stay bounded on any rows"
_SELF_PROPOSAL = (
    "edges self_proposal: single changes may leave the data in pieces that no ratio joins; the model's own draws join"
    " them"
)


class Choice(NamedTuple):
    """A whole recipe, settings, and what was chosen for the user with the reason."""

    recipe: Recipe
    training: dict[str, Any]
    why: tuple[str, ...] = ()

    @property
    def settings(self) -> TrainingSettings:
        """The settings, checked.

        Raises:
            InputError: an unknown name or a value of the wrong kind.
        """
        return TrainingSettings.of(self.training)


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
    >>> choose({"model": "energy"}, {}).recipe.objective
    'logistic'
    """
    why = []
    if "model" not in recipe and "objective" not in recipe:
        why.append(_LIKELIHOOD)
    elif not {"objective", "noise"} & set(recipe) and not _has_likelihood(recipe["model"]):
        recipe = {**recipe, "objective": "logistic"}
        why.append(_LOGISTIC)
    filled = Recipe(**recipe)
    if filled.edges is None and filled.neighborhood is None and _can_propose(filled):
        filled = Recipe(**{**recipe, "edges": "self_proposal"})
        why.append(_SELF_PROPOSAL)
    return Choice(filled.resolved(), {**TRAINING, **training}, tuple(why))


def fit_to_rows(choice: Choice, rows: States, space: Space) -> Choice:
    """Fill in what depends on the rows: how many steps, and where the model starts.

    Args:
        choice: of `choose`.
        rows: to learn from ``(N, D)``.
        space: theirs.

    >>> import torch
    >>> a = torch.tensor([0, 1] * 50)
    >>> fit_to_rows(choose({}, {}), torch.stack([a, a], 1), Space.bits(2)).recipe.model_options["parents"]
    [[], [0]]
    """
    recipe, training, why = choice
    if "steps" not in training:
        training = {**training, "steps": min(max(ROUNDS * len(rows) // choice.settings.batch_size, LEAST), MOST)}
        why = (*why, f"{training['steps']:,} steps at most{_stop(choice.settings.patience, training['steps'])}")
    takes = signature(registry.load("models", recipe.model)).parameters
    free = "parents" in takes and not {"parents", "order_seed"} & set(recipe.model_options)
    if free and space.num_sites <= COLUMNS:
        parents = [list(each) for each in learn_structure(rows, space)]
        recipe = replace(recipe, model_options={**recipe.model_options, "parents": parents})
        why = (*why, f"starts from the {sum(map(len, parents))} dependences between columns that the rows show (BIC)")
    return Choice(recipe, training, why)


def _stop(patience: int | None, steps: int) -> str:
    sooner = patience is not None and patience < steps
    return f", fewer after {patience:,} without a better validation" if sooner else ""


def _has_likelihood(model: str) -> bool:
    """Whether it is normalized, as what draws its own samples is."""
    return hasattr(registry.load("models", model), "sample")


def _can_propose(recipe: Recipe) -> bool:
    """Whether the objective draws edges, and the model can draw them itself."""
    objective = registry.load("objectives", recipe.objective)
    return hasattr(registry.load("models", recipe.model), "sample") and "edges" in signature(objective).parameters
