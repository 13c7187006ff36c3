"""Do a score model's ratios belong to one distribution? Edges are read both ways, and along different paths.

See docs/mathematics.md, "Metropolis–Hastings and score models" and "Recovery and connected support".
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.likelihood import path_spread
from concrete_score.protocols import DensityModel, ScoreModel
from concrete_score.samplers.base import pick
from concrete_score.scores import recover
from concrete_score.shapes import States

SLOTS = 8
"""Edges drawn at each row."""
RECOVERED = 4096
"""States up to which ratios are held against the one distribution that fits them best."""
SMALL, LARGE = 0.05, 0.5
"""Nats: up to the one a contradiction is negligible, above the other the ratios belong to no distribution."""


@dataclass(frozen=True)
class Consistency:
    """How far a model's ratios contradict each other, in nats; all zero for a density, by construction."""

    by_construction: bool = False
    edges: int = 0
    """Edges that were read both ways."""
    mean: float | None = None
    """The mean of ``|l(x→y) + l(y→x)|`` over them; None where each edge is known one way only."""
    worst: float | None = None
    paths: float | None = None
    """The standard deviation of a row's log-density over paths of different order, averaged over rows; None where
    there is one path only."""
    worst_path: float | None = None
    misfit: float | None = None
    """The root mean square distance to the ratios of the distribution that fits best, on small spaces; else None."""

    @property
    def largest(self) -> float:
        """The largest of what is typical: a mean over edges or paths, or the misfit."""
        return max((v for v in (self.mean, self.paths, self.misfit) if v is not None), default=0.0)

    @property
    def message(self) -> str:
        """A verdict with its numbers, as a sentence."""
        if self.by_construction:
            return "Consistent by construction: the model is a density, so its ratios contradict each other nowhere."
        facts = []
        if self.mean is not None:
            facts.append(f"edges read both ways differ by {self.mean:.3g} nats ({self.worst:.3g} at worst)")
        if self.paths is not None:
            facts.append(f"log-densities by different paths by {self.paths:.3g} nats ({self.worst_path:.3g} at worst)")
        if self.misfit is not None:
            facts.append(f"ratios and those of the one distribution that fits best by {self.misfit:.3g} nats")
        facts_text = (
            "; ".join(facts) or "there is nothing to compare: each edge is known one way, and no loop is closed"
        )
        return f"{_verdict(self.largest)}: {facts_text}."


def _verdict(value: float) -> str:
    if value <= SMALL:
        return "Consistent"
    if value <= LARGE:
        return "Somewhat inconsistent"
    return "Inconsistent, scores of no one distribution, for which no sampler keeps any"


@torch.no_grad()
def measure_consistency(model: Any, states: States, generator: torch.Generator, orders: int = 4) -> Consistency:
    """How consistent a model's ratios are at some rows ``(N, D)``.

    Args:
        model: a score model; a density is consistent by construction.
        states: where to look.
        generator: of the edges and orders drawn.
        orders: paths a row.

    >>> from concrete_score.models import DensityScore
    >>> from concrete_score.neighborhoods import hamming
    >>> from concrete_score.targets import Ising
    >>> model = Ising((3, 3), 0.4)
    >>> rows, scores = model.space.enumerate()[:50], DensityScore(model, hamming(model.space))
    >>> found = measure_consistency(scores, rows, torch.Generator())
    >>> found.edges, found.mean < 1e-12, found.paths < 1e-12
    (400, True, True)
    """
    if isinstance(model, DensityModel):
        return Consistency(by_construction=True)
    if not isinstance(model, ScoreModel):
        fix = "it must offer `log_density(x)`, or `neighborhood` and `log_ratios(x)`"
        raise InputError("a density model or a score model", type(model).__name__, where="model", fix=fix)
    difference = edge_differences(model, states, generator)
    seen = len(difference) > 0
    paths = _paths(model, states, generator, orders)
    return Consistency(
        edges=len(difference),
        mean=float(difference.mean()) if seen else None,
        worst=float(difference.max()) if seen else None,
        paths=None if paths is None else paths[0],
        worst_path=None if paths is None else paths[1],
        misfit=_misfit(model),
    )


def edge_differences(model: ScoreModel, states: States, generator: torch.Generator) -> Float[Tensor, " edges"]:
    """``|l(x→y) + l(y→x)|`` of some edges at each row that the model knows both ways ``(E,)``; zero states left out."""
    n = model.neighborhood
    if not n.num_slots:
        return torch.empty(0, dtype=torch.float64)
    x = states.repeat_interleave(min(SLOTS, n.num_slots), 0)
    slot = n.draw(x, generator)
    forward = pick(model.log_ratios(x), slot).double()
    back = n.back_slot(x, slot)
    # Nothing can be asked of an impossible neighbor.
    known = (back >= 0) & (n.degree(x) > 0) & forward.isfinite()
    if not known.any():
        return torch.empty(0, dtype=torch.float64)
    backward = pick(model.log_ratios(n.neighbor(x[known], slot[known])), back[known]).double()
    total = forward[known] + backward
    return total[total.isfinite()].abs()


def _paths(model: ScoreModel, states: Tensor, generator: torch.Generator, orders: int) -> tuple[float, float] | None:
    if model.neighborhood.space.num_sites < 2:
        return None
    try:
        found = path_spread(model, states, generator, orders, reference=states[0])
    except InputError:  # edges of several sites, ratios of zero on the way: no density by paths
        return None
    return found.mean, found.worst


def _misfit(model: ScoreModel) -> float | None:
    space = model.neighborhood.space
    if space.num_states > RECOVERED:
        return None
    try:
        return recover(model.log_ratios(space.enumerate()), model.neighborhood).inconsistency
    except InputError:  # ratios of zero from a raw head, or a graph in pieces: no distribution fits
        return None
