"""Runs to report on: one of each kind of model, with names that contain markup."""

import numpy as np
import polars as pl
import torch

from concrete_score import runs
from concrete_score.codecs import TableCodec, codec_from_json
from concrete_score.fitting import hold_out
from concrete_score.randomness import generator
from concrete_score.spaces import Space
from concrete_score.training.recipe import Recipe, TrainingSettings
from concrete_score.training.store import TensorFile, write

SCRIPT = "<script>alert(1)</script>"
QUOTED = "\"'><img src=x onerror=alert(2)>"
CONTROL = "bell\x07 \x1b[31mred\x00 \u202eleft"
HOSTILE = (SCRIPT, QUOTED, CONTROL, "</style><style>*{display:none}", "n" * 5000)
VALUES = ("<b>no</b>", "&lt;yes&gt;", "</title>")

RECIPES = {
    "made": Recipe(model="made", model_options={"hidden": 16}),
    "table": Recipe(model="table"),
    "energy": Recipe(model="energy", objective="logistic", model_options={"hidden": [8]}),
    "mlp": Recipe(model="mlp", objective="logistic", model_options={"hidden": 8}),
}
"""A model with an exact likelihood and draws, an enumerated one, one without a sum, one without a density."""


def table(names, rows=400, values=("no", "yes"), seed=0):
    """Columns each of which mostly repeats the one before."""
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, len(values), (rows, 1)).repeat(len(names), 1)
    noise = rng.integers(0, len(values), cells.shape)
    cells = np.where(rng.random(cells.shape) < 0.3, noise, cells)
    words = np.array(values, dtype=object)
    return pl.DataFrame({name: words[cells[:, d]].tolist() for d, name in enumerate(names)})


def columns(count):
    """Plain names."""
    return [f"c{d}" for d in range(count)]


def numbers(sizes, rows=40):
    """A table without names, of columns that no file would be allowed to have: a codec and its states."""
    space = Space(sizes)
    return codec_from_json({"kind": "integers", "sizes": list(sizes)}), space.uniform(rows, generator(0, "numbers"))


def _encoded(frame):
    codec = TableCodec.fit(frame)
    return codec, codec.encode(frame).states


def make_run(folder, frame, recipe=RECIPES["made"], journal=None):
    """A run directory as if trained, with its rows and held-out rows; its weights are the first ones."""
    codec, states = frame if isinstance(frame, tuple) else _encoded(frame)
    settings, recipe = TrainingSettings(steps=40), recipe.resolved()
    config = {"recipe": recipe.to_json(), "training": settings.to_json(), "valid_fraction": 0.25, "missing": "refuse"}
    data = {"rows": len(states), "sha256": "0" * 64, "valid": None}
    written = codec.to_json() if codec.named else {"kind": "integers", "sizes": list(codec.space.sizes)}
    run = runs.create(folder, config=config, codec=written, data=data)
    model = recipe.build(codec.space, settings).model
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn(weight.shape, generator=generator(1, "weights")))
    write(folder / runs.MODEL, TensorFile("model", run.id, 20, {}, dict(model.state_dict())))
    for line in journal or [
        {"step": 0, "loss": None, "valid": -5.0, "best_step": 0},
        {"step": 20, "loss": 4.5, "valid": -4.0, "best_step": 20},
        {"step": 40, "loss": 4.0, "valid": -4.25, "best_step": 20},
    ]:
        run.journal.append(**line)
    train, held = hold_out(states, 0.25, 0)
    return run, train, held
