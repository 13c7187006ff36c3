"""Neighborhoods known by a kernel ``K(y | x)`` one can draw from."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from concrete_score.protocols import DensityModel, Neighborhood, Proposal, Samplable
from concrete_score.shapes import States
from concrete_score.spaces import Space


@dataclass(frozen=True)
class UniformProposal:
    """``K(y | x) = 1 / |N(x)|`` on a finite neighborhood.

    An edge without a way back has ``log K(x | y) = -inf``; a state without neighbors gets padded draws whose
    ``log_forward`` is ``-inf``.

    >>> from concrete_score.neighborhoods import grid_bounded
    >>> kernel = UniformProposal(grid_bounded(Space((3,))))
    >>> drawn = kernel.draw(torch.tensor([[0]]), 2, torch.Generator().manual_seed(0))
    >>> drawn.target.tolist(), drawn.log_forward.exp().tolist(), drawn.log_backward.exp().tolist()
    ([[[1], [1]]], [[1.0, 1.0]], [[0.5, 0.5]])
    """

    neighborhood: Neighborhood

    @property
    def space(self) -> Space:
        return self.neighborhood.space

    def draw(self, x: States, m: int, generator: torch.Generator) -> Proposal:
        """``m`` independent uniform neighbors of each row ``(B, m, D)``."""
        source = x[:, None].expand(-1, m, -1)
        slot = self.neighborhood.draw(source, generator)
        target = self.neighborhood.neighbor(source, slot)
        way_back = self.neighborhood.back_slot(source, slot) >= 0
        forward = -self.neighborhood.degree(x).double().log()[:, None].expand(-1, m)
        backward = -self.neighborhood.degree(target).double().log()
        return Proposal(
            target,
            torch.where(forward == torch.inf, -torch.inf, forward),
            torch.where(way_back, backward, -torch.inf),
        )

    def log_kernel(self) -> Tensor:
        """``-log |N(x)|`` on edges, -inf elsewhere ``(S, S)``."""
        states = self.space.enumerate()
        row, slot = self.neighborhood.valid(states).nonzero(as_tuple=True)
        target = self.space.index(self.neighborhood.neighbor(states[row], slot))
        kernel = torch.full((len(states), len(states)), -torch.inf, dtype=torch.float64)
        kernel[row, target] = -self.neighborhood.degree(states).double().log()[row]
        return kernel


@runtime_checkable
class SamplableDensity(DensityModel, Samplable, Protocol):
    """Anything that can sample and give its log-density."""


@dataclass(frozen=True, eq=False)
class IndependenceProposal:
    """``K(y | x) = q̄(y)``: a sampled, weighted complete neighborhood, whatever the state.

    With ``q̄`` a frozen copy of the model in training this is the *self-proposal*.
    """

    proposal: SamplableDensity

    @property
    def space(self) -> Space:
        return self.proposal.space

    @torch.no_grad()
    def draw(self, x: States, m: int, generator: torch.Generator) -> Proposal:
        """``m`` independent draws of ``q̄`` for each row ``(B, m, D)``."""
        target = self.proposal.sample(len(x) * m, generator).reshape(len(x), m, x.shape[-1])
        density: Tensor = self.proposal.log_density(torch.cat([x[:, None], target], 1))
        return Proposal(target, density[:, 1:], density[:, :1].expand(-1, m))

    @torch.no_grad()
    def log_kernel(self) -> Tensor:
        """``log q̄(y)`` in every row ``(S, S)``."""
        density: Tensor = self.proposal.log_density(self.space.enumerate())
        return density.expand(len(density), -1)
