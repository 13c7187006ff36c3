"""Rows to learn from and rows held out, and the digest that knows them again."""

import hashlib

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.files import canonical_json
from concrete_score.randomness import generator

FRACTION = 0.1
"""The share held out unless told otherwise."""


def hold_out(states: Tensor, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    """Training rows and held-out rows, divided at random; at least one row is left to learn from.

    Raises:
        InputError: ``fraction`` is not between 0 and 1.

    >>> train, valid = hold_out(torch.arange(20).reshape(10, 2), 0.2, seed=0)
    >>> len(train), len(valid)
    (8, 2)
    """
    if not 0 < fraction < 1:
        raise InputError("a share between 0 and 1", str(fraction), where="--valid-fraction")
    count = min(round(len(states) * fraction), len(states) - 1)
    order = torch.randperm(len(states), generator=generator(seed, "split"))
    return states[order[count:]], states[order[:count]]


def digest(states: Tensor) -> str:
    """SHA-256 of a table's kind, shape and values, in hex."""
    total = hashlib.sha256(canonical_json([str(states.dtype), list(states.shape)]))
    total.update(states.contiguous().view(torch.uint8).numpy().data)
    return total.hexdigest()
