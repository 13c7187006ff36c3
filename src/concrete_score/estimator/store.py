"""Estimators as run directories: what ``save`` writes, ``csm`` opens, and what ``csm fit`` makes, ``load`` opens."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from concrete_score import runs
from concrete_score.data import TableCodec
from concrete_score.data.options import MAX_CATEGORIES
from concrete_score.errors import InputError
from concrete_score.estimator.learning import Plan, parameters_of
from concrete_score.estimator.tables import bins_of
from concrete_score.training.checkpoints import TensorFile, write
from concrete_score.training.choice import Choice

if TYPE_CHECKING:
    from torch import nn


class Stored(NamedTuple):
    """A run read back: the estimator's parameters and all that fitting would have made."""

    parameters: dict[str, Any]
    plan: Plan
    codec: TableCodec
    model: "nn.Module"
    history: list[dict[str, Any]]
    best_step: int
    steps: int
    facts: dict[str, Any]
    reading: dict[str, Any]


def save(
    path: str | Path,
    plan: Plan,
    codec: TableCodec,
    model: "nn.Module",
    *,
    best_step: int,
    history: list[dict[str, Any]],
    facts: Mapping[str, Any],
    reading: Mapping[str, Any],
    force: bool,
) -> None:
    """Write a run directory with the model and its measurements; there is no checkpoint, for nothing is left to do.

    Args:
        facts: ``{rows, sha256, valid}`` of the data.
        reading: ``{valid_fraction, missing}``.

    Raises:
        InputError: the directory is occupied, or the model or objective is an object without a registered name.
    """
    if not plan.named:
        raise InputError(
            "a model and an objective of registered names, which is all that a run directory holds",
            "an object in place of a name",
            where="save",
            fix="register it (entry points concrete_score.models, concrete_score.objectives), or pickle the estimator",
        )
    config = {"recipe": plan.recipe.to_json(), "training": plan.settings.to_json(), **reading}
    run = runs.create(path, config=config, codec=codec.to_json(), data=facts, seed=plan.settings.seed, force=force)
    for line in history:
        run.journal.append(**line)
    write(run.path / runs.MODEL, TensorFile("model", run.id, best_step, {}, model.state_dict()))


def read(source: "str | Path | runs.Run") -> Stored:
    """Open a run directory, whoever made it.

    Raises:
        InputError: no run, a damaged one, one without a model, or one that is not of a table.
    """
    run = source if isinstance(source, runs.Run) else runs.open(source)
    codec = run.codec
    if not isinstance(codec, TableCodec):
        raise InputError("a run of a table", f"one of {codec.kind!r}", where=str(run.path), fix="choose another run")
    history, checkpoint = run.journal.read(), run.checkpoint()
    best_step = run.model_file().step
    steps = checkpoint.step if checkpoint is not None else max([best_step, *(line["step"] for line in history)])
    reading = {"valid_fraction": run.config["valid_fraction"], "missing": run.config.get("missing", "refuse")}
    parameters = {
        **parameters_of(run.recipe, run.settings),
        "bins": bins_of(codec) or None,
        "max_categories": max(MAX_CATEGORIES, *codec.space.sizes),
        **reading,
    }
    plan = Plan(Choice(run.recipe, run.settings.to_json()))
    return Stored(parameters, plan, codec, run.model(), history, best_step, steps, dict(run.info["data"]), reading)
