"""How a model in training is judged: exact likelihood where it has one, else a held-out objective; higher is better."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from concrete_score.protocols import DensityModel, Objective
from concrete_score.randomness import generator

CHUNK = 2**20
"""How many sites (rows × D) are judged at a time."""
WITHOUT = 4096
"""How many training rows stand in where there is nothing held out."""

Judge = Callable[[Any], float]
"""From a model to one number, higher is better; the same draws each time."""


def has_likelihood(model: Any) -> bool:
    """Whether a model's exact log-likelihood can be read off."""
    return isinstance(model, DensityModel) and model.normalized


def judge_of(model: Any, objective: Objective, rows: Tensor, seed: int) -> Judge:
    """The mean log-density of ``rows`` ``(N, D)`` for a normalized density, else minus the held-out objective."""
    if has_likelihood(model):
        return lambda judged: _mean(judged.log_density(x) for _, x in _chunks(rows))
    return lambda judged: (
        -_mean(
            objective.loss(judged, objective.draw(x, generator(seed, "valid", start, x.device)))
            for start, x in _chunks(rows)
        )
    )


@torch.no_grad()
def _mean(parts: Iterator[Tensor]) -> float:
    values = torch.cat([part.double() for part in parts])
    return float(values.mean())


def _chunks(rows: Tensor) -> Iterator[tuple[int, Tensor]]:
    step = max(1, CHUNK // rows.shape[-1])
    for start in range(0, len(rows), step):
        yield start, rows[start : start + step].long()
