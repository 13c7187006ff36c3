"""Objectives of single-site changes over a small space, every line of it once and nothing drawn.

A line is all states that differ in one site alone; on a plane, its rows and columns. For every state
`SiteConditionalObjective` looks at all values of a line again, and `hamming` at all pairs; here a line is looked at
once. The value is the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from concrete_score.neighborhoods import check_same_space
from concrete_score.protocols import DensityModel
from concrete_score.shapes import PerState, PerStateTable, States
from concrete_score.spaces import Space

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
        """The objective itself."""
        return self.loss(model, self._weight).squeeze(0) / len(self.pmf)

    @cached_property
    def _states(self) -> Tensor:
        return self.space.enumerate()

    @cached_property
    def _weight(self) -> Tensor:
        return self.pmf.reshape(self.space.sizes)
