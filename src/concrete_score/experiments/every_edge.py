"""An objective on edges over a small space, every edge once and nothing drawn: full-batch training of a density.

`training.Enumerated` looks at every state with all its neighbors, twice an edge; here a density is evaluated once a
state, which makes tens of thousands of steps a matter of seconds. The value is the same.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from concrete_score.neighborhoods import check_same_space
from concrete_score.objectives import Bregman
from concrete_score.protocols import DensityModel, Neighborhood
from concrete_score.shapes import PerState, PerStateTable, States


class WeighedPairs(NamedTuple):
    """Directed edges as state indices, with the probabilities of their ends."""

    source: Tensor
    target: Tensor
    source_weight: Tensor
    target_weight: Tensor


@dataclass(frozen=True, eq=False)
class EveryEdge:
    """``S · J_f`` of a known distribution, ``J_f = Σ_x Σ_k p(x) h(s_k(x)) - p(N(x)_k) f'(s_k(x))`` (paper, theorem 3).

    With the histogram of training draws as ``p`` it is the sample's own objective in one piece. The factor S keeps a
    state's gradient at the order of one, far above the 1e-8 that Adam adds to its denominator. For training give a
    batch of one row: what it holds does not matter.

    Args:
        divergence: the convex ``f``.
        neighborhood: of an enumerable space.
        pmf: the distribution ``(S,)``; zeros allowed.

    >>> from concrete_score import objectives
    >>> from concrete_score.models import Table
    >>> from concrete_score.neighborhoods import cycle
    >>> from concrete_score.spaces import Space
    >>> space, pmf = Space((4,)), torch.tensor([0.1, 0.2, 0.3, 0.4])
    >>> ring, model = cycle(space), Table(space)
    >>> round(EveryEdge(objectives.divergences.csm, ring, pmf).exact(model, pmf).item(), 6)
    -1.0
    """

    divergence: Bregman
    neighborhood: Neighborhood
    pmf: PerStateTable

    def check(self, model: Any) -> None:
        """A density on the same space, with ratios this ``f`` can read."""
        check_same_space(model.space, self.neighborhood.space, "model and neighborhood")
        self.divergence.check_head(model)

    def draw(self, x: States, generator: torch.Generator, model: Any = None) -> WeighedPairs:
        """All edges, whatever the rows."""
        return self._pairs

    def loss(self, model: DensityModel, draws: WeighedPairs) -> PerState:
        """``S · J_f`` as one number ``(1,)``."""
        density = model.log_density(self._states)
        log_ratio = density.index_select(0, draws.target) - density.index_select(0, draws.source)
        source, target = draws.source_weight.to(density.dtype), draws.target_weight.to(density.dtype)
        terms = source * self.divergence.a(log_ratio) - target * self.divergence.b(log_ratio)
        return len(self.pmf) * terms.sum()[None]

    def exact(self, model: DensityModel, pmf: PerStateTable) -> Tensor:
        """``J_f`` of another distribution."""
        return EveryEdge(self.divergence, self.neighborhood, pmf).value(model)

    def value(self, model: DensityModel) -> Tensor:
        """``J_f`` itself."""
        return self.loss(model, self._pairs).squeeze(0) / len(self.pmf)

    @cached_property
    def _states(self) -> Tensor:
        return self.neighborhood.space.enumerate()

    @cached_property
    def _pairs(self) -> WeighedPairs:
        source, slot = self.neighborhood.valid(self._states).nonzero(as_tuple=True)
        target = self.neighborhood.space.index(self.neighborhood.neighbor(self._states[source], slot))
        felt = (self.pmf[source] > 0) | (self.pmf[target] > 0)  # an edge between two empty states adds nothing
        source, target = source[felt], target[felt]
        return WeighedPairs(source, target, self.pmf[source], self.pmf[target])
