"""One cell of table 1: a data set, a method and a seed, trained and tested (paper, section 5.4 and appendix C.3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from concrete_score import registry
from concrete_score.experiments.result import Settings
from concrete_score.fitting import Splits, load_splits
from concrete_score.shapes import States
from concrete_score.training import TrainingSettings, Validated, train
from concrete_score.training.examples import Examples
from concrete_score.training.recipe import Recipe
from concrete_score.training.starts import tree_start

PAPER_SETTINGS: Mapping[str, Any] = {
    "steps": 50_000,
    "batch_size": 128,
    "lr": 5e-4,
    "schedule": "constant",
    "patience": 5_000,
    "valid_every": 200,
    "check_every": 50,
}
"""The paper's settings; batch, patience and how often the validation is looked at are ours, where it is silent."""
AVERAGED: Mapping[str, Any] = {**PAPER_SETTINGS, "average": 0.9995}
"""The same, with a moving average of the weights."""
RENEWED: Mapping[str, Any] = {**AVERAGED, "refresh_every": 50, "pool": 2048}
"""The same, with how often the frozen copy of a self-proposal is renewed, and how many states it then draws."""
QUICK: Mapping[str, Any] = {
    "steps": 200,
    "lr": 1e-2,
    "valid_every": 50,
    "average": 0.9,
    "refresh_every": 10,
    "pool": 512,
}
"""What the quick size puts in the place of the above, where a method has it at all."""


@dataclass(frozen=True)
class TrainedMethod:
    """One row of the table: what is trained, and how.

    Args:
        label: for people.
        recipe: what differs from maximum likelihood of the paper's MADE (2 blocks of 100 tanh units).
        training: its settings, as far as they are not the defaults.
        family: whether it is one of our candidates.
        from_tree: whether the network starts as the Chow–Liu tree of the training rows.
    """

    label: str
    recipe: Mapping[str, Any]
    training: Mapping[str, Any] = field(default_factory=lambda: PAPER_SETTINGS)
    family: bool = False
    from_tree: bool = False


METHODS: Mapping[str, TrainedMethod] = {
    "ratio_matching": TrainedMethod("Ratio Matching", {"objective": "ratio_matching"}),
    "discrete_marginalization": TrainedMethod(
        "Discrete Marginalization", {"objective": "discrete_marginalization", "objective_options": {"sites": 1}}
    ),
    "csm": TrainedMethod("CSM as written", {"objective": "csm"}),
    "csm_weighed": TrainedMethod(
        "CSM on flips, weighed by its own copy",
        {"objective": "csm", "edges": "self_weighed", "objective_options": {"clip": 4.0}},
        {**AVERAGED, "refresh_every": 50},
        from_tree=True,
    ),
    "maximum_likelihood": TrainedMethod("maximum likelihood", {"objective": "maximum_likelihood"}),
    "maximum_likelihood_averaged": TrainedMethod(
        "maximum likelihood, averaged", {"objective": "maximum_likelihood"}, AVERAGED
    ),
    "logistic": TrainedMethod("logistic, flips", {"objective": "logistic"}, AVERAGED, family=True),
    "self_proposal_csm": TrainedMethod(
        "self-proposal, f = r²",
        {"objective": "csm", "edges": "self_proposal", "objective_options": {"clip": 4.0}},
        RENEWED,
        family=True,
    ),
    "self_proposal_logistic": TrainedMethod(
        "self-proposal, logistic", {"objective": "logistic", "edges": "self_proposal"}, RENEWED, family=True
    ),
}
"""Every method looks at no more than two densities an example a step, one flip, one site or one proposal, and with a
gradient at no others."""
BASELINES: Mapping[str, str] = {"independent": "independent", "chow_liu": "Chow–Liu tree"}
"""Fitted in closed form."""
_CHUNK = 4096


def baseline(settings: Settings, *, dataset: str, method: str, seed: int) -> dict[str, Any]:
    """A baseline fitted to the training rows by counting; nothing in it is random."""
    rows = load_splits(dataset)
    model: Any = registry.load("baselines", method).fit(rows.train, rows.space)
    found = {"dataset": dataset, "method": method, "seed": seed, "steps": 0, "seconds": 0.0}
    return {**found, **_tested(model, rows)}


def cell(
    settings: Settings,
    *,
    dataset: str,
    method: str,
    seed: int,
    recipe: Mapping[str, Any],
    training: Mapping[str, Any],
    from_tree: bool = False,
) -> dict[str, Any]:
    """Train one method on one data set; the weights kept are those of the best validation.

    Args:
        settings: the experiment's.
        dataset: a named set.
        method: its name in the table.
        seed: of weights, batches and draws.
        recipe: names and options of a `Recipe`.
        training: values of a `TrainingSettings`.
        from_tree: whether the network starts as the Chow–Liu tree of the training rows.
    """
    rows, how = load_splits(dataset), TrainingSettings.of({**training, "seed": seed})
    options = tree_start(Examples.of(rows.train), rows.space).options if from_tree else {}
    built = Recipe(**{"model_options": options, **recipe}).resolved().build(rows.space, how)
    curve = []
    for event in train(built.model, built.objective, rows.train, how, rows.valid, device=settings.device):
        if isinstance(event, Validated):
            curve.append([event.step, round(event.value, 4)])
        ended: Any = event
    found = {
        "dataset": dataset,
        "method": method,
        "seed": seed,
        "steps": ended.step,
        "best_step": ended.best_step,
        "seconds": round(ended.seconds, 1),
        "ended": ended.why,
        "message": ended.message,
        "curve": curve,
    }
    return {**found, **_tested(built.model, rows)}


def _tested(model: Any, rows: Splits) -> dict[str, float]:
    """The exact mean log-likelihood of both held-out splits, and the standard error over the test's rows."""
    valid, test = log_likelihoods(model, rows.valid), log_likelihoods(model, rows.test)
    return {
        "log_likelihood": float(test.mean()),
        "stderr": float(test.std()) / sqrt(len(test)),
        "valid_log_likelihood": float(valid.mean()),
    }


@torch.no_grad()
def log_likelihoods(model: Any, rows: States) -> Tensor:
    """``log q(x)`` of every row, in nats, float64 ``(N,)``."""
    parts = [rows[start : start + _CHUNK] for start in range(0, len(rows), _CHUNK)]
    return torch.cat([model.log_density(part.long()).double() for part in parts]).cpu()
