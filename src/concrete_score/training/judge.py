"""What decides which weights are kept: one number of the held-out rows, with the same draws at every look."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.models.completing import LISTED, complete
from concrete_score.protocols import DensityModel, Objective, ObservedObjective
from concrete_score.randomness import generator
from concrete_score.training.examples import Examples

CHUNK = 2**20
"""How many sites (rows × D) are judged at a time."""
LOOKS = 32
"""Draws that fill the blanks of a held-out row where not all completions are listed."""

Judge = Callable[[Any], float]
"""From a model to one number, higher is better; the same draws each time."""


def has_likelihood(model: Any) -> bool:
    """Whether a model's exact log-likelihood can be read off."""
    return isinstance(model, DensityModel) and model.normalized


def judge_of(model: Any, objective: Objective | None, rows: Tensor | Examples, seed: int) -> Judge:
    """The mean log-density of ``rows`` ``(N, D)`` for a normalized density, else minus the held-out objective.

    Rows with blanks count by the probability of what was seen of them: exact where their completions are few, else a
    bound from `LOOKS` draws. Rows with weights count by these.
    """
    examples = Examples.of(rows)
    if has_likelihood(model):
        return lambda judged: _mean(
            (
                _log_density(judged, part, generator(seed, "valid", start, part.states.device))
                for start, part in _chunks(examples)
            ),
            examples.weights,
        )
    if objective is None:
        raise InputError("an objective for a model without a likelihood", "none", where="objective")
    return lambda judged: (
        -_mean(
            (
                _loss(judged, objective, part, generator(seed, "valid", start, part.states.device))
                for start, part in _chunks(examples)
            ),
            examples.weights,
        )
    )


def _log_density(model: Any, part: Examples, random: torch.Generator) -> Tensor:
    """Of what was seen of each row ``(n,)``."""
    x = part.states.long()
    if part.observed is None:
        return model.log_density(x)  # type: ignore[no-any-return]
    return complete(model, x, part.observed, LOOKS, random).log_density(model)


def _loss(model: Any, objective: Objective, part: Examples, random: torch.Generator) -> Tensor:
    """The objective at each row ``(n,)``, blanks filled by the model."""
    if part.observed is not None and isinstance(objective, ObservedObjective):
        return objective.loss(model, objective.draw_observed(part.states.long(), part.observed, random, model))
    return objective.loss(model, objective.draw(part.completed(model, random).states.long(), random))


@torch.no_grad()
def _mean(parts: Iterator[Tensor], weights: Tensor | None) -> float:
    values = torch.cat([part.double() for part in parts])
    return float(values.mean() if weights is None else (values * weights).sum() / weights.sum())


def _chunks(rows: Examples) -> Iterator[tuple[int, Examples]]:
    each = rows.states.shape[-1] * (1 if rows.observed is None else LISTED * LOOKS)
    step = max(1, CHUNK // each)
    for start in range(0, len(rows), step):
        yield start, rows[slice(start, start + step)]
