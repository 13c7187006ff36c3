"""Objectives over a small space with nothing drawn, on every edge or every line once: full-batch training of a density.

`training.Enumerated` looks at every state with all its neighbors, twice an edge; `EveryEdge` evaluates a density once a
state, which makes tens of thousands of steps a matter of seconds. A line is all states that differ in one site alone;
on a plane, its rows and columns. For every state `SiteConditionalObjective` looks at all values of a line again, and
`hamming` at all pairs; `EveryLine` looks at a line once. The values are the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from concrete_score.objectives import Bregman
from concrete_score.protocols import DensityModel, Neighborhood
from concrete_score.shapes import PerState, PerStateTable, States
from concrete_score.spaces import Space, check_same_space


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
        """``J_f`` itself, without the factor S."""
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


Function = Callable[[Tensor], Tensor]
LineLoss = Callable[[Tensor, Tensor, int], Tensor]
"""From the states' weights and their ``log q(x_i | x_\\i)``, as tables of the space, and i, to one number."""


def by_value(own: Function, every: Function) -> LineLoss:
    """A site's loss ``own(q(x_i)) + Σ_ξ every(q(ξ))``, both functions of ``log q``."""

    def loss(weight: Tensor, log_q: Tensor, site: int) -> Tensor:
        return (weight * own(log_q)).sum() + (weight.sum(site) * every(log_q).sum(site)).sum()

    return loss


def csm_on_hamming(weight: Tensor, log_q: Tensor, site: int) -> Tensor:
    """``Σ_x p(x) Σ_{y ≠ x} s² - Σ_y p(y) Σ_{x ≠ y} 2s`` over pairs on a line, ``s = q(y)/q(x)``: both are products."""
    q, inverse = log_q.exp(), (-log_q).exp()
    squares = ((weight * inverse.square()).sum(site) * q.square().sum(site)).sum()
    ratios = ((weight * q).sum(site) * inverse.sum(site)).sum()
    return squares - 2 * ratios + weight.sum()  # the sums hold s = 1 of each state with itself


LOSSES: dict[str, LineLoss] = {
    "ratio_matching_uncorrected": by_value(torch.zeros_like, lambda l: (1 - l.exp()).square()),
    "ratio_matching_multiclass": by_value(lambda l: 1 - 2 * l.exp(), lambda l: (2 * l).exp()),
    "discrete_marginalization_uncorrected": by_value(torch.zeros_like, lambda l: (-2 * l).exp() - 2 * (-l).exp()),
    "discrete_marginalization": by_value(lambda l: (-2 * l).exp(), lambda l: -2 * (-l).exp()),
    "csm": csm_on_hamming,
}
"""The paper's four baselines (appendix D), and CSM on all changes of one site, by the names of their objectives."""


@dataclass(frozen=True, eq=False)
class EveryLine:
    """``S`` times the expected loss of a distribution's site conditionals; for training give a batch of one row.

    Args:
        name: of the objective, a key of `LOSSES`.
        space: an enumerable space.
        pmf: the distribution ``(S,)``; zeros allowed.

    >>> from concrete_score import objectives
    >>> from concrete_score.models import Table
    >>> space, pmf = Space((2, 3)), torch.tensor([0.1, 0.2, 0.3, 0.4, 0.0, 0.0])
    >>> name, model = "ratio_matching_multiclass", Table(space)
    >>> same = objectives.build(name, space).exact(model, pmf)
    >>> bool(torch.isclose(EveryLine(name, space, pmf).value(model), same))
    True
    """

    name: str
    space: Space
    pmf: PerStateTable

    def check(self, model: Any) -> None:
        """A density on the same space."""
        check_same_space(model.space, self.space, "model and objective")

    def draw(self, x: States, generator: torch.Generator, model: Any = None) -> Tensor:
        """The probabilities of all states, whatever the rows."""
        return self._weight

    def loss(self, model: DensityModel, draws: Tensor) -> PerState:
        """``S`` times the objective as one number ``(1,)``."""
        density = model.log_density(self._states).reshape(self.space.sizes)
        weight = draws.to(density.dtype)
        total = density.new_zeros(())
        for site in range(self.space.num_sites):
            total = total + LOSSES[self.name](weight, density.log_softmax(site), site)
        return len(self.pmf) * total[None]

    def exact(self, model: DensityModel, pmf: PerStateTable) -> Tensor:
        """The objective of another distribution."""
        return EveryLine(self.name, self.space, pmf).value(model)

    def value(self, model: DensityModel) -> Tensor:
        """The objective itself, without the factor S."""
        return self.loss(model, self._weight).squeeze(0) / len(self.pmf)

    @cached_property
    def _states(self) -> Tensor:
        return self.space.enumerate()

    @cached_property
    def _weight(self) -> Tensor:
        return self.pmf.reshape(self.space.sizes)
