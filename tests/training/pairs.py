"""Every model with every objective it can learn by, small: what one process and several must train alike.

Run as a script, ``python pairs.py OUT`` trains them all and writes their weights; so does ``torchrun … pairs.py OUT``.
"""

import sys
from pathlib import Path

import torch

from concrete_score import registry
from concrete_score.errors import InputError
from concrete_score.randomness import generator
from concrete_score.spaces import Space
from concrete_score.training import TrainingSettings, fit
from concrete_score.training.processes import rank
from concrete_score.training.recipe import Recipe

SPACE = Space((2, 3, 2))
PICTURES = {"unet": Space.bits(4)}
SMALL = {
    "made": {"hidden": 6},
    "mlp": {"hidden": 6},
    "energy": {"hidden": [6]},
    "unet": {"shape": [2, 2], "width": 4, "depth": 1},
    "latent": {"components": 3, "hidden": 4},
    "mixture": {
        "members": [
            {"model": "made", "options": {"hidden": 4}},
            {"model": "latent", "options": {"components": 3, "hidden": 4}},
        ]
    },
    "transformer": {"width": 4, "depth": 1, "heads": 2},
}
LEVELED = ("mlp", "unet", "transformer")
"""Models that know noise levels."""
HEADS = {"clean_value": {"head": "denoising"}}
LEVELS = ("denoising", "noisy", "clean_value")
"""Objectives on noise levels."""
NOISE = {"noise": "categorical", "noise_options": {"weights": [0.8, 0.6]}}
STEPS, BATCH = 6, 7
"""A batch that two processes cannot share evenly."""


def recipes() -> dict[str, Recipe]:
    """All that fit together, by name."""
    found = {}
    for model in registry.names("models"):
        for objective in registry.names("objectives"):
            for edges in [None, *registry.names("edges")] if objective == "csm" else [None]:
                noise = NOISE if objective in LEVELS else {}
                options = {"levels": [1]} if objective == "denoising" and model not in LEVELED else {}
                head = HEADS.get(objective, {}) if model in LEVELED else {}
                recipe = Recipe(
                    model,
                    objective,
                    edges,
                    model_options={**SMALL.get(model, {}), **head},
                    objective_options=options,
                    **noise,
                )
                try:
                    recipe.resolved().build(space(model), TrainingSettings(pool=32))
                except InputError:
                    continue
                found[f"{model}-{objective}-{edges}"] = recipe.resolved()
    return found


def space(model: str) -> Space:
    return PICTURES.get(model, SPACE)


def rows(model: str = "") -> torch.Tensor:
    return space(model).uniform(40, generator(0, "rows")).to(torch.uint8)


def train_all() -> dict[str, torch.Tensor]:
    """The weights of all after a few steps."""
    weights = {}
    for name, recipe in recipes().items():
        settings = TrainingSettings(
            steps=STEPS, batch_size=BATCH, lr=0.01, valid_every=STEPS, check_every=2, refresh_every=3, pool=32
        )
        built = recipe.build(space(recipe.model), settings)
        # In float32 Adam turns the rounding of a gradient that is zero into whole steps of either sign.
        built.model.double()
        fit(built.model, built.objective, rows(recipe.model), settings)
        weights |= {f"{name}/{key}": value.clone() for key, value in built.model.state_dict().items()}
    return weights


if __name__ == "__main__":
    from safetensors.torch import save_file

    torch.set_num_threads(1)
    trained = train_all()
    if rank() == 0:
        save_file(trained, Path(sys.argv[1]))
