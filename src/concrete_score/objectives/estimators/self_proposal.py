"""Edges of a sampled neighborhood: Metropolis–Hastings ratios instead of plain ones.

Draw ``x ~ p`` and ``y ~ K(· | x)``; with ``ρ = q(y) K(x|y) / [q(x) K(y|x)]`` the loss ``h(ρ) - f'(1/ρ)`` is unbiased
for the Bregman divergence to the true ``ρ``, for every ``f``. With ``K(y|x) = q̄(y)``, a frozen copy of the model, its
expected gradient at ``q̄ = q`` is ``2 f''(1)`` times maximum likelihood's: its efficiency, reached through ratios
alone. Logistic ``f`` with a general ``K`` is conditional noise-contrastive estimation (Ceylan & Gutmann 2018).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.neighborhoods import check_same_space
from concrete_score.objectives.edges import Edges
from concrete_score.objectives.estimators.base import check_count
from concrete_score.protocols import DensityModel, SampledNeighborhood
from concrete_score.shapes import States
from concrete_score.spaces import Space


@dataclass(frozen=True)
class SelfProposal:
    """``m`` edges an example from a sampled neighborhood, each read both ways.

    Args:
        proposal: any kernel with known ``K(y|x)`` and ``K(x|y)``, both positive or both zero; an
            `IndependenceProposal` of a frozen copy of the model makes it the self-proposal.
        m: draws an example.
    """

    proposal: SampledNeighborhood
    m: int = 1

    def __post_init__(self) -> None:
        check_count(self.m)

    @property
    def space(self) -> Space:
        """The proposal's."""
        return self.proposal.space

    def check(self, model: Any) -> None:
        """Sampled edges need densities."""
        if not isinstance(model, DensityModel):
            raise InputError(
                "a density model for sampled edges",
                "a score model, which knows the ratios of its own slots only",
                where="model",
                fix="use edges of a finite neighborhood, such as `paired`",
            )
        check_same_space(model.space, self.space, "model and edges")

    def draw(self, x: States, generator: torch.Generator) -> Edges:
        """``m`` targets a row, edges there and back."""
        drawn = self.proposal.draw(x, self.m, generator)
        weight = (drawn.log_forward > -torch.inf).double() / self.m
        return _both_ways(x, drawn.target, drawn.log_forward, drawn.log_backward, weight)

    def outcomes(self, x: States) -> Iterator[tuple[Tensor, Edges]]:
        """All tuples of targets."""
        kernel, states, here = self.proposal.log_kernel().double(), self.space.enumerate(), self.space.index(x)
        stuck = torch.where((kernel[here] == -torch.inf).all(-1), 1.0, 0.0)
        for picked in product(range(len(states)), repeat=self.m):
            y = torch.tensor(picked)
            forward, backward = kernel[here][:, y], kernel[y][:, here].T
            # A row without targets draws padding, once: the choice (0, …, 0).
            probability = forward.exp().prod(-1) + stuck * float(not any(picked))
            weight = (forward > -torch.inf).double() / self.m
            yield probability, _both_ways(x, states[y].expand(len(x), -1, -1), forward, backward, weight)

    def enumerated(self) -> Edges:
        """Every pair of states, weighing ``K(y | x)``."""
        kernel, states = self.proposal.log_kernel().double(), self.space.enumerate()
        target = states.expand(len(states), -1, -1)
        return _both_ways(states, target, kernel, kernel.T, kernel.exp())


def _both_ways(x: Tensor, target: Tensor, forward: Tensor, backward: Tensor, weight: Tensor) -> Edges:
    """Edges ``x -> y`` weighing ``h``, edges ``y -> x`` weighing ``-f'``, offsets of opposite signs."""
    if bool(((weight > 0) & (backward == -torch.inf)).any()):
        raise InputError(
            "a proposal that can go back wherever it goes",
            "a drawn edge with K(x|y) = 0",
            where="proposal",
            fix="use a symmetric neighborhood, or an independence proposal",
        )
    m = target.shape[1]
    near, zeros = torch.arange(1, m + 1, device=x.device), torch.zeros(m, dtype=torch.int64, device=x.device)
    offset = torch.where(weight > 0, backward.double() - forward.double(), 0.0)
    nothing = torch.zeros_like(weight)
    return Edges(
        nodes=torch.cat([x[:, None], target], 1),
        source_node=torch.cat([zeros, near]),
        target_node=torch.cat([near, zeros]),
        slot=None,
        source_weight=torch.cat([weight, nothing], 1),
        target_weight=torch.cat([nothing, weight], 1),
        offset=torch.cat([offset, -offset], 1),
    )
