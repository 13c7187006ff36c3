"""What ``fit`` does with pictures when it is not told: a U-Net, its noise and settings, each with its reason."""

from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from typing import Any

from concrete_score import registry
from concrete_score.training.choice import Choice, choose
from concrete_score.training.recipe import Recipe

MODEL, NOISE = "unet", "log_snr"
OBJECTIVES = {"denoising": "clean_value", "log_ratio": "denoising", "raw": "denoising"}
"""What each head learns by, where no objective is asked for."""
TRAINING: Mapping[str, Any] = {"lr": 1e-3, "average": 0.995, "valid_every": 200, "patience": 3_000}
"""Settings for pictures, where nothing else is asked for."""
DEEPEST, SMALL, NARROW = 2, 16, 32
"""Halvings at most; and the side up to which a picture is small, and the channels it is given."""

_WHY = {
    "model": "unet: pictures; a convolutional network that reads every pixel and the noise level",
    "clean_value": "objective clean_value: each pixel's clean value by cross-entropy, well scaled at every noise level",
    "denoising": "objective denoising: this head gives ratios, so the noise's own are matched",
    "noise": "noise log_snr: 32 levels even in the logarithm of the signal-to-noise ratio, down to almost no signal",
}


def choose_for_pictures(recipe: Mapping[str, Any], training: Mapping[str, Any]) -> Choice:
    """Fill in what was not given.

    Args:
        recipe: the fields of a `Recipe` that were given.
        training: the settings that were given.

    Raises:
        InputError: an unknown name, or a piece that nothing uses.

    >>> choice = choose_for_pictures({}, {"steps": 50})
    >>> choice.recipe.model, choice.recipe.objective, choice.recipe.noise
    ('unet', 'clean_value', 'log_snr')
    >>> choose_for_pictures({"model_options": {"head": "raw"}}, {}).recipe.objective
    'denoising'
    """
    if not reads_pictures(recipe.get("model", MODEL)):
        return choose(recipe, training)
    filled, why = {"model": MODEL, **recipe}, []
    if "model" not in recipe:
        why.append(_WHY["model"])
    if "objective" not in recipe:
        head = recipe.get("model_options", {}).get("head") or "denoising"
        filled["objective"] = OBJECTIVES.get(head, "denoising")
        why.append(_WHY[filled["objective"]])
    if "noise" not in recipe and "noise" in signature(registry.load("objectives", filled["objective"])).parameters:
        filled["noise"] = NOISE
        why.append(_WHY["noise"])
    return Choice(Recipe(**filled).resolved(), {**TRAINING, **training}, tuple(why))


def fit_to_shape(choice: Choice, shape: tuple[int, int]) -> Choice:
    """Fill in what depends on the pictures' height and width; a model that reads rows is left alone.

    >>> fit_to_shape(choose_for_pictures({}, {}), (8, 8)).recipe.model_options
    {'shape': [8, 8], 'depth': 2, 'width': 32}
    """
    recipe = choice.recipe
    if not reads_pictures(recipe.model):
        return choice
    chosen: dict[str, Any] = {"depth": min(DEEPEST, min(shape).bit_length() - 1)}
    if max(shape) <= SMALL:
        chosen["width"] = NARROW
    chosen = {name: value for name, value in chosen.items() if name not in recipe.model_options}
    words = ", ".join(f"{name} {value}" for name, value in chosen.items())
    why = (f"{words}: as pictures of {shape[0]}x{shape[1]} allow",) if words else ()
    options = {**recipe.model_options, "shape": list(shape), **chosen}
    return Choice(replace(recipe, model_options=options), choice.training, (*choice.why, *why))


def reads_pictures(model: str) -> bool:
    """Whether a registered model is told height and width.

    >>> reads_pictures("unet"), reads_pictures("made")
    (True, False)
    """
    return "shape" in signature(registry.load("models", model)).parameters
