"""Frozen copies of a model in training, which edges are drawn from or measured by; they are renewed every few steps."""

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.neighborhoods.sampled import SamplableDensity
from concrete_score.protocols import Objective, Proposal, is_density
from concrete_score.randomness import generator
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space


class FrozenCopy:
    """``q̄``: a model as it was at its last refresh.

    Args:
        model: the model in training, a density.

    Raises:
        InputError: the model gives no density.
    """

    def __init__(self, model: Any) -> None:
        if not is_density(model):
            raise InputError(
                "a density model for self_weighed edges",
                type(model).__name__,
                where="model",
                fix="use `made`, or edges such as `paired`",
            )
        copy: Any = deepcopy(model)
        self.frozen = copy.requires_grad_(False)
        self.refresh(model, 0)

    @property
    def space(self) -> Space:
        space: Space = self.frozen.space
        return space

    @property
    def normalized(self) -> bool:
        return bool(self.frozen.normalized)

    def of(self, model: Any) -> "FrozenCopy":
        """The same, of another model."""
        return type(self)(model)

    @torch.no_grad()
    def log_density(self, x: States) -> PerState:
        """``log q̄(x)`` ``(..., D) -> (...)``."""
        density: Tensor = self.frozen.log_density(x)
        return density

    @torch.no_grad()
    def refresh(self, model: Any, step: int) -> None:
        """Freeze the model's weights as they are now."""
        self.load(model.state_dict(), step)

    @torch.no_grad()
    def load(self, weights: dict[str, Tensor], step: int) -> None:
        """The copy of a refresh at ``step`` with these weights."""
        self.frozen.to(next(iter(weights.values())).device).load_state_dict(weights)
        self.refreshed_at = step


class PooledProposal(FrozenCopy):
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
        self.size, self.seed = size, seed
        super().__init__(model)

    def of(self, model: Any) -> "FrozenCopy":
        return type(self)(model, self.size, self.seed)

    @torch.no_grad()
    def load(self, weights: dict[str, Tensor], step: int) -> None:
        """The same, and a new pool of its draws."""
        super().load(weights, step)
        device = next(iter(weights.values())).device
        self.pool: Tensor = self.frozen.sample(self.size, generator(self.seed, "pool", step, device))
        self.pool_log_density = self.log_density(self.pool)

    @torch.no_grad()
    def draw(self, x: States, m: int, generator: torch.Generator) -> Proposal:
        """``m`` states of the pool for each row ``(B, m, D)``."""
        index = torch.randint(self.size, (len(x), m), generator=generator, device=generator.device).to(x.device)
        here = self.log_density(x)[:, None].expand(-1, m)
        return Proposal(self.pool[index], self.pool_log_density[index], here)

    def log_kernel(self) -> Tensor:
        """``log q̄(y)`` in every row ``(S, S)``."""
        density = self.log_density(self.space.enumerate())
        return density.expand(len(density), -1)


def copy_of(objective: Objective) -> tuple[str, FrozenCopy] | None:
    """The copy of the model that an objective's edges are drawn from or measured by, and what they call it."""
    edges = getattr(objective, "edges", None)
    named = ((name, getattr(edges, name, None)) for name in ("proposal", "copy"))
    return next(((name, found) for name, found in named if isinstance(found, FrozenCopy)), None)
