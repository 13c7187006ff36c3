"""What a fit uses where nothing was asked for: a model, an objective and settings, each with its reason."""

from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from typing import Any, NamedTuple

from torch import Tensor

from concrete_score import registry
from concrete_score.defaults import (
    IMAGE_LR,
    IMAGE_MODEL,
    IMAGE_OBJECTIVE,
    LEAST_STEPS,
    LR,
    MODEL,
    MOST_STEPS,
    MOST_WORK,
    ROUNDS,
)
from concrete_score.shapes import States
from concrete_score.spaces import Space
from concrete_score.training.examples import Examples
from concrete_score.training.loop import WITHOUT
from concrete_score.training.portfolio import TREE_VALUES, plan_members
from concrete_score.training.recipe import Recipe, TrainingSettings
from concrete_score.training.starts import MIXED_PENALTIES, Say, find_start, find_starts, find_tree

TRAINING: Mapping[str, Any] = {"lr": LR, "average": 0.995, "valid_every": 200, "patience": 3_000}
"""Settings for tables, where nothing else is asked for."""
LARGE = 10_000
"""Rows from which on a larger network learns more than it invents."""
NETWORK: Mapping[str, Any] = {"hidden": 200, "activation": "silu"}
NETWORK_TRAINING: Mapping[str, Any] = {"weight_decay": 0.3}
"""That network, where no option of the model is asked for."""

STARTS = ("parents", "pseudo_count")
"""The options of a model that can start so."""
_WHOLE = {"minutes", "seed", "checkpoint_seconds"}
"""Settings of a mixture's whole training; any other that is given holds for each member."""
_DECIDED = {*STARTS, "order_seed"}
"""Options of a model that say where it starts."""

IMAGE_NOISE = "log_snr"
IMAGE_OBJECTIVES = {"denoising": IMAGE_OBJECTIVE, "log_ratio": "denoising", "raw": "denoising"}
"""What each head of a model of images learns by, where no objective is asked for."""
IMAGE_TRAINING: Mapping[str, Any] = {"lr": IMAGE_LR, "average": 0.995, "valid_every": 200, "patience": 3_000}
"""Settings for images, where nothing else is asked for."""
DEEPEST, SMALL, NARROW = 2, 16, 32
"""Halvings at most; and the side up to which an image is small, and the channels it is given."""

MIXTURE = "mixture"
"""The model of tables that `suits_mixture` tells."""
LEAST_COLUMNS, LEAST_HELD_OUT, MOST_ROWS = 16, 20, 2**20
"""A few columns are learned by one network; fewer held-out rows cannot weigh members; more rows cost too much each."""
PAIR_CELLS = 2**15
"""The most cells of pair tables, for hundreds of components each."""

_LIKELIHOOD = (
    "made with maximum_likelihood: exact likelihoods and draws, and the best held-out likelihood on our own data sets"
)
_MIXED = (
    f"mixture with maximum_likelihood: columns of at most {TREE_VALUES} values without blanks, where several kinds of"
    " models together explain held-out rows best; --model made is one network alone"
)
_LOGISTIC = "objective logistic: this model has no likelihood to maximize, and logistic ratios stay bounded on any rows"
_SELF_PROPOSAL = (
    "edges self_proposal: single changes may leave the data in pieces that no ratio joins; the model's own draws join"
    " them"
)


_ALIGNED = "potts: the columns of an alignment depend on one another in pairs, and its ratios are mutation effects"
_TEXT = "transformer: every position looks at every other, and any part can be filled in given the rest"
SUITED_OBJECTIVES = {
    "potts": ("pseudo_likelihood", "objective pseudo_likelihood: the log-loss of every site, in one product"),
    "transformer": (
        "clean_value",
        "objective clean_value with absorbing noise: each hidden value given the visible ones, in any order",
    ),
}
"""What a model without a likelihood learns by, where logistic ratios are not the best there is, and why."""
SUITED_NOISE = {"transformer": "absorbing"}
"""The noise of a model, where its objective takes one and none is asked for."""
SUITED_OPTIONS: Mapping[Any, Mapping[str, Any]] = {("transformer", "maximum_likelihood"): {"causal": True}}
"""Options that a model needs for an objective."""
SUITED_WEIGHTS: Mapping[Any, Mapping[str, Any]] = {("transformer", "clean_value", "absorbing"): {"power": 0.5}}
"""Options of an objective for a model and noise: less noisy steps at the price of other weights than the bound's."""
SUITED_TO_ORDER: Mapping[str, Mapping[str, Any]] = {"transformer": {"reach": 2, "mixed": True}}
"""Options of a model of sequences, where neighbors say most about one another, and steps are long."""
SUITED_TRAINING: Mapping[str, Mapping[str, Any]] = {
    "potts": {
        **{"lr": 3e-3, "batch_size": 512, "average": None, "l2_start": 16.0},
        **{"valid_every": 25, "checkpoint_seconds": 300.0},
    },
    "transformer": {"optimizer": "muon", "lr": 3e-3, "schedule": "warmed", "average": 0.999, "clip_norm": 1.0},
}
"""Settings of a model, where they are other than `TRAINING`."""

_FOR_IMAGES = {
    "model": "unet: a convolutional network that reads every pixel of an image and the noise level",
    "clean_value": "objective clean_value: each pixel's clean value by cross-entropy, well scaled at every noise level",
    "denoising": "objective denoising: this head gives ratios, so the noise's own are matched",
    "noise": "noise log_snr: 32 levels even in the logarithm of the signal-to-noise ratio, down to almost no signal",
}


class Choice(NamedTuple):
    """A whole recipe, settings, and what was chosen for the user with the reason.

    ``free`` says that no piece and no number of steps was asked for, so that the rows may decide for another model.
    """

    recipe: Recipe
    training: dict[str, Any]
    why: tuple[str, ...] = ()
    free: bool = False

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

    >>> choose({}, {}).free, choose({}, {"steps": 50}).free
    (True, False)
    >>> choice = choose({"objective": "logistic"}, {"steps": 50})
    >>> choice.recipe.model, choice.recipe.edges, choice.training["steps"]
    ('made', 'self_proposal', 50)
    >>> choose({"model": "energy"}, {}).recipe.objective
    'logistic'
    """
    why, free = [], not recipe and training.get("steps") is None
    if "model" not in recipe and "objective" not in recipe:
        why.append(_LIKELIHOOD)
    elif not {"objective", "noise"} & set(recipe) and not _has_likelihood(recipe["model"]):
        objective, reason = SUITED_OBJECTIVES.get(recipe["model"], ("logistic", _LOGISTIC))
        recipe = {**recipe, "objective": objective}
        why.append(reason)
    suited_noise = SUITED_NOISE.get(recipe.get("model", ""))
    if suited_noise and "noise" not in recipe and "noise" in _parameters("objectives", recipe["objective"]):
        recipe = {**recipe, "noise": suited_noise}
    more = SUITED_OPTIONS.get((recipe.get("model"), recipe.get("objective")), {})
    if more:
        recipe = {**recipe, "model_options": {**more, **recipe.get("model_options", {})}}
    weights = SUITED_WEIGHTS.get((recipe.get("model"), recipe.get("objective"), recipe.get("noise")), {})
    if weights:
        recipe = {**recipe, "objective_options": {**weights, **recipe.get("objective_options", {})}}
    filled = Recipe(**recipe)
    if filled.edges is None and filled.neighborhood is None and _can_propose(filled):
        filled = Recipe(**{**recipe, "edges": "self_proposal"})
        why.append(_SELF_PROPOSAL)
    suited = {**TRAINING, **SUITED_TRAINING.get(filled.model, {})}
    return Choice(filled.resolved(), {**suited, **training}, tuple(why), free)


def choose_for_sequences(recipe: Mapping[str, Any], training: Mapping[str, Any], *, aligned: bool) -> Choice:
    """Fill in what was not given for sequences: a Potts model where they are aligned, else a transformer.

    >>> choose_for_sequences({}, {}, aligned=True).recipe.objective
    'pseudo_likelihood'
    >>> choose_for_sequences({}, {}, aligned=False).recipe.model_options
    {'reach': 2, 'mixed': True}
    """
    asked = bool({"model", "objective"} & set(recipe))
    model, reason = ("potts", _ALIGNED) if aligned else ("transformer", _TEXT)
    if not asked:
        recipe = {**recipe, "model": model}
    near = SUITED_TO_ORDER.get(recipe.get("model", ""), {})
    if near:
        recipe = {**recipe, "model_options": {**near, **recipe.get("model_options", {})}}
    found = choose(recipe, training)
    return found if asked else found._replace(why=(reason, *found.why))


def choose_for_images(recipe: Mapping[str, Any], training: Mapping[str, Any], shape: tuple[int, int]) -> Choice:
    """Fill in what was not given for images of a height and width: a U-Net, its noise and settings.

    Raises:
        InputError: an unknown name, or a piece that nothing uses.

    >>> choice = choose_for_images({}, {"steps": 50}, (8, 8))
    >>> choice.recipe.model, choice.recipe.objective, choice.recipe.noise, choice.recipe.model_options
    ('unet', 'clean_value', 'log_snr', {'shape': [8, 8], 'depth': 2, 'width': 32})
    >>> choose_for_images({"model_options": {"head": "raw"}}, {}, (8, 8)).recipe.objective
    'denoising'
    """
    if "shape" not in _parameters("models", recipe.get("model", IMAGE_MODEL)):
        return choose(recipe, training)
    filled, why = {"model": IMAGE_MODEL, **recipe}, []
    if "model" not in recipe:
        why.append(_FOR_IMAGES["model"])
    if "objective" not in recipe:
        head = recipe.get("model_options", {}).get("head") or "denoising"
        filled["objective"] = IMAGE_OBJECTIVES.get(head, "denoising")
        why.append(_FOR_IMAGES[filled["objective"]])
    if "noise" not in recipe and "noise" in _parameters("objectives", filled["objective"]):
        filled["noise"] = IMAGE_NOISE
        why.append(_FOR_IMAGES["noise"])
    found = Recipe(**filled).resolved()
    sizes: dict[str, Any] = {"depth": min(DEEPEST, min(shape).bit_length() - 1)}
    if max(shape) <= SMALL:
        sizes["width"] = NARROW
    sizes = {name: value for name, value in sizes.items() if name not in found.model_options}
    if sizes:
        listed = ", ".join(f"{name} {value}" for name, value in sizes.items())
        why.append(f"{listed}: as images of {shape[0]}x{shape[1]} allow")
    options = {**found.model_options, "shape": list(shape), **sizes}
    return Choice(replace(found, model_options=options), {**IMAGE_TRAINING, **training}, tuple(why))


def fit_to_rows(
    choice: Choice,
    rows: States | Examples,
    space: Space,
    valid: Tensor | Examples | None = None,
    say: Say = lambda message: None,
    *,
    start: bool = True,
) -> Choice:
    """Fill in what depends on the rows: which model where none was asked for, how many steps, where the model starts.

    Args:
        choice: of `choose`.
        rows: to learn from ``(N, D)``, with blanks and weights or without.
        space: theirs.
        valid: held-out rows ``(M, D)``, which judge the starts.
        say: receives how far a long search is.
        start: whether to look for one, if the model takes one.

    >>> import torch
    >>> a = torch.tensor([0, 1] * 50)
    >>> found = fit_to_rows(choose({"model": "made"}, {}), torch.stack([a, a], 1), Space.bits(2))
    >>> found.recipe.model_options["parents"]
    [[], [0]]
    """
    choice = _mixed_where_suited(choice, Examples.of(rows), space, valid) if start else choice
    recipe, training, why, _ = choice
    suited = getattr(registry.load("models", recipe.model), "suited_training", None)
    if suited is not None:
        weights = Examples.of(rows).weights
        for name, (value, reason) in suited(space, float(len(rows) if weights is None else weights.sum())).items():
            if name not in training:
                training, why = {**training, name: value}, (*why, reason)
    if start and "members" in _parameters("models", recipe.model) and "members" not in recipe.model_options:
        return _with_members(choice, Examples.of(rows), space, valid, say)
    if start and recipe.model == MODEL and len(rows) >= LARGE and not set(NETWORK) & set(recipe.model_options):
        recipe = replace(recipe, model_options={**NETWORK, **recipe.model_options})
        training = {**NETWORK_TRAINING, **training}
        why = (*why, f"{NETWORK['hidden']} units a layer: {LARGE:,} rows or more teach them")
    if "steps" not in training:
        steps = _steps(recipe, len(rows), choice.settings.batch_size, space)
        training = {**training, "steps": steps}
        why = (*why, f"{steps:,} steps at most{_stop(choice.settings.patience, steps)}")
    if start and set(STARTS) <= set(_parameters("models", recipe.model)) and not _DECIDED & set(recipe.model_options):
        last = Examples.of(rows).often_blank
        if last and "last" in _parameters("models", recipe.model) and "last" not in recipe.model_options:
            recipe = replace(recipe, model_options={**recipe.model_options, "last": last})
            why = (*why, f"order: what is often blank comes last ({len(last):,} of {space.num_sites:,} columns)")
        found = find_start(recipe, rows, space, valid, say)
        recipe = replace(recipe, model_options={**recipe.model_options, **found.options})
        why = (*why, found.why)
    return Choice(recipe, training, why)


def _mixed_where_suited(choice: Choice, rows: Examples, space: Space, valid: Tensor | Examples | None) -> Choice:
    """The choice, or one of a mixture where nothing was asked for and the table suits it."""
    ordered = bool(
        choice.recipe.model_options
    )  # nothing was asked for: these are of columns whose values have an order
    if not choice.free or ordered or not suits_mixture(rows, space, 0 if valid is None else len(valid)):
        return choice
    return choice._replace(recipe=replace(choice.recipe, model=MIXTURE), why=(_MIXED,))


def suits_mixture(rows: Examples, space: Space, held_out: int) -> bool:
    """Whether a table is learned best by several kinds of models, as far as its shape tells.

    Unordered columns of few values each, all seen: numbers and blanks are what one network answers faster.

    Args:
        rows: to learn from.
        space: theirs.
        held_out: rows that weigh the members.

    >>> import torch
    >>> rows = Examples.of(torch.zeros(400, 30, dtype=torch.uint8))
    >>> suits_mixture(rows, Space.bits(30), 40), suits_mixture(rows, Space((30,) * 30), 40)
    (True, False)
    """
    columns = space.num_sites >= LEAST_COLUMNS and max(space.sizes) <= TREE_VALUES
    affordable = sum(size**2 for size in space.sizes) <= PAIR_CELLS and len(rows) <= MOST_ROWS
    return columns and affordable and rows.whole and held_out >= LEAST_HELD_OUT


def _with_members(choice: Choice, rows: Examples, space: Space, valid: Tensor | Examples | None, say: Say) -> Choice:
    """The members of a mixture, and their steps together."""
    recipe, training, why, _ = choice
    held_out = rows[:WITHOUT] if valid is None or not len(valid) else Examples.of(valid)
    starts = find_starts(Recipe(), rows, space, held_out, say)
    given = {name: value for name, value in training.items() if name not in _WHOLE and TRAINING.get(name, ()) != value}
    found = plan_members(
        [start.options for start in starts],
        len(MIXED_PENALTIES),
        len(rows),
        choice.settings.batch_size,
        given,
        options=NETWORK if len(rows) >= LARGE else {},
        timed=training.get("minutes") is not None,
        space=space,
        tree=find_tree(rows, space) if max(space.sizes) <= TREE_VALUES and space.num_sites > 1 else (),
    )
    recipe = replace(recipe, model_options={**recipe.model_options, "members": found.members})
    return Choice(recipe, {**training, "steps": found.steps}, (*why, found.why, f"the best of them {starts[0].why}"))


def _steps(recipe: Recipe, rows: int, batch_size: int, space: Space) -> int:
    """So many that each row is looked at often, as far as a network of this size can afford them."""
    most = MOST_STEPS
    if recipe.model == MODEL:
        read = sum(1 if size <= 2 else size for size in space.sizes)
        hidden = recipe.model_options.get("hidden", _parameters("models", MODEL)["hidden"].default)
        work = batch_size * hidden * (hidden + read) if type(hidden) is int else 0  # what is none is refused later
        most = min(most, MOST_WORK // max(work, 1))
    return max(min(ROUNDS * rows // batch_size, most), LEAST_STEPS)


def _stop(patience: int | None, steps: int) -> str:
    sooner = patience is not None and patience < steps
    return f", fewer after {patience:,} without a better validation" if sooner else ""


def _has_likelihood(model: str) -> bool:
    """Whether it is normalized, as what draws its own samples is."""
    return hasattr(registry.load("models", model), "sample")


def _can_propose(recipe: Recipe) -> bool:
    """Whether the objective draws edges, and the model can draw them itself."""
    return _has_likelihood(recipe.model) and "edges" in _parameters("objectives", recipe.objective)


def _parameters(kind: str, name: str) -> Mapping[str, Any]:
    """What a registered piece can be built with."""
    return signature(registry.load(kind, name)).parameters
