"""The self-proposal: a frozen copy of the model in training, and a pool of its draws, both refreshed now and then."""

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.neighborhoods.sampled import SamplableDensity
from concrete_score.protocols import Objective, Proposal
from concrete_score.randomness import generator
from concrete_score.shapes import States
from concrete_score.spaces import Space


class PooledProposal:
    """``K(y | x) = q̄(y)``, with ``q̄`` a frozen copy of a model; targets are picked from a pool of its draws.

    A pool is drawn once a refresh, from the generator ``(seed, "pool", step)``, so that the frozen weights and the step
    of the refresh are all a resumed run needs.

    Args:
        model: the model in training; it must sample and give its log-density.
        size: states in the pool.
        seed: names the pool's randomness.

    Raises:
        InputError: the model cannot sample exactly.

    >>> from concrete_score.models import Table
    >>> proposal = PooledProposal(Table(Space((2, 3))), size=16)
    >>> proposal.draw(torch.tensor([[0, 0]]), 4, torch.Generator().manual_seed(0)).target.shape
    torch.Size([1, 4, 2])
    """

    def __init__(self, model: Any, size: int = 4096, seed: int = 0) -> None:
        if not isinstance(model, SamplableDensity):
            raise InputError(
                "a density model that draws its own samples, for self_proposal edges",
                type(model).__name__,
                where="model",
                fix="use `made` or `table`, or edges of a finite neighborhood such as `paired`",
            )
        copy: Any = deepcopy(model)
        self.frozen = copy.requires_grad_(False)
        self.size, self.seed = size, seed
        self.refresh(model, 0)

    @property
    def space(self) -> Space:
        space: Space = self.frozen.space
        return space

    @torch.no_grad()
    def refresh(self, model: Any, step: int) -> None:
        """Freeze the model's weights as they are now and draw a new pool."""
        self.load(model.state_dict(), step)

    @torch.no_grad()
    def load(self, weights: dict[str, Tensor], step: int) -> None:
        """The proposal of a refresh at ``step`` with these weights."""
        device = next(iter(weights.values())).device
        self.frozen.to(device).load_state_dict(weights)
        self.refreshed_at = step
        self.pool: Tensor = self.frozen.sample(self.size, generator(self.seed, "pool", step, device))
        self.log_density: Tensor = self.frozen.log_density(self.pool)

    @torch.no_grad()
    def draw(self, x: States, m: int, generator: torch.Generator) -> Proposal:
        """``m`` states of the pool for each row ``(B, m, D)``."""
        index = torch.randint(self.size, (len(x), m), generator=generator, device=generator.device).to(x.device)
        here = self.frozen.log_density(x)[:, None].expand(-1, m)
        return Proposal(self.pool[index], self.log_density[index], here)

    @torch.no_grad()
    def log_kernel(self) -> Tensor:
        """``log q̄(y)`` in every row ``(S, S)``."""
        density: Tensor = self.frozen.log_density(self.space.enumerate())
        return density.expand(len(density), -1)


def proposal_of(objective: Objective) -> PooledProposal | None:
    """The self-proposal an objective draws its edges from, if it has one."""
    found = getattr(getattr(objective, "edges", None), "proposal", None)
    return found if isinstance(found, PooledProposal) else None
