"""A small clinic whose fitted model is known to the last digit: a run written with the truth as its weights."""

import itertools
import json
from pathlib import Path

import numpy as np
import polars as pl
import torch

from concrete_score import runs
from concrete_score.codecs import TableCodec
from concrete_score.data.formats import CSV
from concrete_score.files import canonical_json, digest
from concrete_score.spaces import Space
from concrete_score.training.recipe import Recipe, TrainingSettings
from concrete_score.training.store import TensorFile, write

SMOKE, AGE, ILL = ("no", "yes"), (30, 41, 55), ("False", "True")
STATES = list(itertools.product(SMOKE, AGE, ILL))
WEIGHTS = np.array([20, 2, 15, 3, 10, 5, 0, 0, 6, 9, 2, 8], dtype=float)
"""One a state; who smokes is never 30."""
PMF = WEIGHTS / WEIGHTS.sum()
COLUMNS = ("smoke", "age", "ill")
DATA = {"rows": 80, "sha256": "0" * 64, "valid": None}


def codec() -> TableCodec:
    """As fitted to a CSV file of all states."""
    rows = [dict(zip(COLUMNS, map(str, state), strict=True)) for state in STATES]
    text = pl.DataFrame(rows).write_csv().encode()
    return TableCodec.fit(CSV.read(text, "clinic.csv"))


def write_run(folder, codec_json, recipe, tensors, **config):
    """A run directory as if trained to these weights."""
    settings = {"recipe": recipe, "training": TrainingSettings(steps=5).to_json(), "valid_fraction": 0.1, **config}
    run = runs.create(folder, config=settings, codec=codec_json, data=DATA)
    write(folder / "model.safetensors", TensorFile("model", run.id, 5, {}, tensors))
    run.journal.append(step=5, loss=2.5, valid=-2.25, best_step=5)
    return str(folder)


def clinic_run(folder):
    """The clinic's run."""
    logits = torch.tensor(PMF).log().float()
    return write_run(folder, codec().to_json(), Recipe(model="table").to_json(), {"logits": logits})


def old_run(folder):
    """The same numbers in a run of the first format's integer tables."""
    logits = torch.tensor(PMF).log().float()
    codec_json = {"kind": "integers", "sizes": [2, 3, 2]}
    return write_run(folder, codec_json, Recipe(model="table").to_json(), {"logits": logits})


def energy_run(folder, sites=24):
    """An unnormalized model of more bits than anybody enumerates."""
    recipe = Recipe(model="energy", objective="logistic", model_options={"hidden": [3]}).resolved()
    codec_json = {"kind": "integers", "sizes": [2] * sites}
    model = recipe.build(Space((2,) * sites), TrainingSettings()).model
    return write_run(folder, codec_json, recipe.to_json(), dict(model.state_dict()))


def forged(path, **changes):
    """An untrusted run: fields replaced, the digest made to match."""
    file = Path(path) / "run.json"
    info = {**json.loads(file.read_text()), **changes}
    info.pop("digest")
    text = json.dumps({**info, "digest": digest(canonical_json(info))}, indent=1, ensure_ascii=False) + "\n"
    file.write_text(text)
    return str(path)


def probability(**fixed):
    """Of the states that agree with these values."""
    return sum(p for state, p in zip(STATES, PMF, strict=True) if agrees(state, fixed))


def agrees(state, fixed):
    """Whether a state has these values."""
    named = dict(zip(COLUMNS, state, strict=True))
    return all(str(named[name]) == str(value) for name, value in fixed.items())


def z(count, n, p):
    """How far a count is from its expectation, in standard errors."""
    return (count - n * p) / np.sqrt(n * p * (1 - p))
