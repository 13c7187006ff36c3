"""Memorization: are samples nearer to the training data than fresh data are?"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Integer
from torch import Tensor
from torch.nn import functional

from concrete_score.errors import InputError
from concrete_score.metrics.bootstrap import Estimate, bootstrap

Rows = Integer[Tensor, "_ _"]
"""Rows ``(N, D)``."""

CHUNK = 2**24
"""How many distances are held at a time."""
NEAR = 0.01
"""The share of fresh data that counts as suspiciously near."""
TIMES = 3.0
"""How many times more samples than fresh data may lie that near."""


@dataclass(frozen=True)
class Memorization:
    """Distances to the nearest training state, of samples and of fresh data, in changed sites."""

    samples: Estimate
    """The mean distance of samples."""
    fresh: Estimate
    """The mean distance of held-out data."""
    radius: int
    """The distance within which 1 % of the fresh data lie."""
    near: Estimate
    """The share of samples within it."""
    fresh_near: float
    """The share of fresh data within it: about 1 %, more where distances tie."""
    copies: float
    """The share of samples that are training states."""
    fresh_copies: float
    """The share of fresh data that are."""

    @property
    def passed(self) -> bool:
        """Whether no more than three times as many samples as fresh data lie near training states, within error."""
        return self.near.value <= TIMES * self.fresh_near + 3 * self.near.stderr

    def to_json(self) -> dict[str, Any]:
        """Plain numbers."""
        return {
            "sample_distance": self.samples.value,
            "sample_distance_stderr": self.samples.stderr,
            "fresh_distance": self.fresh.value,
            "fresh_distance_stderr": self.fresh.stderr,
            "radius": self.radius,
            "near": self.near.value,
            "near_stderr": self.near.stderr,
            "fresh_near": self.fresh_near,
            "copies": self.copies,
            "fresh_copies": self.fresh_copies,
            "passed": self.passed,
        }


def memorization(
    samples: Rows, train: Rows, fresh: Rows, generator: torch.Generator, resamples: int = 100
) -> Memorization:
    """Samples against fresh data, by their distance to the training data, with bootstrap errors.

    Args:
        samples: drawn states ``(N, D)``.
        train: what was learned from ``(M, D)``.
        fresh: held-out data ``(F, D)``.
        generator: the source of the resamples.

    >>> g = torch.Generator().manual_seed(0)
    >>> train, fresh, new = (torch.randint(2, (500, 20), generator=g) for _ in range(3))
    >>> memorization(new, train, fresh, g).passed, memorization(train, train, fresh, g).passed
    (True, False)
    """
    drawn, held = nearest_distances(samples, train), nearest_distances(fresh, train)
    radius = int(held.double().quantile(NEAR, interpolation="lower"))
    table = torch.stack([drawn.double(), (drawn <= radius).double()], 1)
    value, stderr = bootstrap(lambda weight: weight @ table, (table,), generator, resamples)
    fresh_value, fresh_stderr = bootstrap(lambda weight: weight @ held.double(), (held,), generator, resamples)
    return Memorization(
        samples=Estimate(float(value[0]), float(stderr[0])),
        fresh=Estimate(float(fresh_value), float(fresh_stderr)),
        radius=radius,
        near=Estimate(float(value[1]), float(stderr[1])),
        fresh_near=float((held <= radius).double().mean()),
        copies=float((drawn == 0).double().mean()),
        fresh_copies=float((held == 0).double().mean()),
    )


def nearest_distances(rows: Rows, reference: Rows) -> Integer[Tensor, " n"]:
    """How many sites each row differs in from the nearest of ``reference`` ``(N, D), (M, D) -> (N,)``.

    Agreeing sites are counted by one product of matrices, exact in float32 up to 2^24 sites.

    >>> nearest_distances(torch.tensor([[0, 1, 1]]), torch.tensor([[0, 0, 0], [0, 1, 0]])).tolist()
    [1]
    """
    if rows.ndim != 2 or reference.ndim != 2 or rows.shape[1] != reference.shape[1] or not len(reference):
        raise InputError(
            "two tables of as many sites", f"{tuple(rows.shape)} and {tuple(reference.shape)}", where="rows"
        )
    if not len(rows):
        return rows.new_zeros(0, dtype=torch.int64)
    width = 1 + max(int(rows.max()), int(reference.max()))
    sites = rows.shape[1]
    step = max(1, CHUNK // (sites * width))
    each = max(1, CHUNK // step)
    best = torch.full((len(rows),), sites, dtype=torch.int64)
    for part in torch.split(reference, step):
        known = _spelled(part, width)
        agreed = torch.cat([(_spelled(some, width) @ known.T).amax(1) for some in torch.split(rows, min(each, step))])
        apart = (sites - agreed) / 2 if width == 2 else sites - agreed
        best = torch.minimum(best, apart.round().long().cpu())
    return best


def _spelled(states: Tensor, width: int) -> Tensor:
    """Bits as -1 and 1, whose product is what agrees less what differs; other values one-hot."""
    return 2.0 * states - 1 if width == 2 else functional.one_hot(states.long(), width).flatten(1).float()
