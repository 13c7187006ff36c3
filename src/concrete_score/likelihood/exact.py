"""Exact log-likelihoods: of normalized models, and by summing over an enumerable space."""

from typing import Any

import torch

from concrete_score.errors import InputError
from concrete_score.likelihood.result import LogLikelihood
from concrete_score.likelihood.weights import mean_and_stderr
from concrete_score.protocols import DensityModel
from concrete_score.shapes import PerState, States
from concrete_score.spaces import ENUMERATION_LIMIT, Space
from concrete_score.targets import log_normalizer

CHUNK = 2**20
"""How many sites (rows × D) are evaluated at a time."""


def exact(model: DensityModel, rows: Any, limit: int = ENUMERATION_LIMIT) -> LogLikelihood:
    """The mean of ``log q(x) - log Z`` over rows, with its standard error.

    ``Z`` is 1 for a normalized model, else the sum over all states.

    Args:
        model: any density.
        rows: ``(N, D)``.
        limit: the largest space to enumerate.

    Raises:
        InputError: rows outside the model's space, a broken density, or an unnormalized model on too large a space.

    >>> from concrete_score.targets import pmf
    >>> result = exact(pmf([0.25, 0.75]), [[0], [1], [1], [1]])
    >>> round(result.log_likelihood, 6), result.method
    (-0.562335, 'exact')
    """
    states = check_rows(model.space, rows)
    values = row_log_densities(model, states)
    if not model.normalized:
        values = values - _log_normalizer(model, limit)
    mean, stderr = mean_and_stderr(values)
    return LogLikelihood(
        rows=len(states),
        sites=model.space.num_sites,
        method="exact" if model.normalized else "enumeration",
        log_likelihood=mean,
        lower=mean,
        upper=mean,
        stderr=stderr,
        bound_stderr=0.0,
    )


@torch.no_grad()
def row_log_densities(model: DensityModel, states: States, chunk: int = CHUNK) -> PerState:
    """``log q(x)`` of each row ``(N,)`` in float64, in bounded memory; -inf is legal, NaN and inf are refused."""
    step = max(1, chunk // states.shape[-1])
    values = torch.cat([model.log_density(part).double() for part in torch.split(states, step)])
    bad = ~(values < torch.inf)
    if bad.any():
        row = int(bad.nonzero()[0])
        came, fix = f"{values[row].item()} at row {row}", "the model is broken there"
        raise InputError("a log-density below infinity", came, where="model", fix=fix)
    return values


def check_rows(space: Space, rows: Any) -> States:
    """A table of at least one row ``(N, D)`` of the space's states."""
    states = space.check(rows, "rows")
    if states.ndim != 2 or not len(states):
        expected = f"rows of shape (N, {space.num_sites}), at least one"
        raise InputError(expected, f"shape {tuple(states.shape)}", where="rows")
    return states


@torch.no_grad()
def _log_normalizer(model: DensityModel, limit: int) -> float:
    value = float(log_normalizer(model, limit))
    if not abs(value) < float("inf"):
        raise InputError("a finite sum of densities", f"log Z = {value}", where="model", fix="the model is broken")
    return value
