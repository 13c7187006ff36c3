"""Training on the exact objective of a known distribution: nothing is drawn, every step sees all states."""

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.objectives import BregmanObjective
from concrete_score.shapes import PerState, PerStateTable, States


class Enumerated:
    """The enumerating twin of an objective on edges, as an objective of its own.

    A batch is all S states of the space, ``batch_size = S``; its mean loss is the exact objective.

    Args:
        objective: whose ``exact`` value is minimized.
        pmf: the true distribution ``(S,)``.

    >>> from concrete_score import objectives
    >>> from concrete_score.models import Table
    >>> from concrete_score.spaces import Space
    >>> space = Space((4,))
    >>> pmf = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    >>> inner = objectives.build("csm", space)
    >>> outer, states = Enumerated(inner, pmf), space.enumerate()
    >>> mean = outer.loss(Table(space), outer.draw(states, torch.Generator())).mean()
    >>> bool(torch.isclose(mean, inner.exact(Table(space), pmf)))
    True
    """

    def __init__(self, objective: BregmanObjective, pmf: PerStateTable) -> None:
        self.objective, self.pmf = objective, pmf

    def check(self, model: Any) -> None:
        self.objective.check(model)

    def draw(self, x: States, generator: torch.Generator, model: Any = None) -> "WeighedEdges":
        """All edges of all states; the rows only say how many."""
        if len(x) != len(self.pmf):
            raise InputError(f"a batch of all {len(self.pmf)} states", str(len(x)), where="batch_size")
        return self._draws

    def loss(self, model: Any, draws: "WeighedEdges") -> PerState:
        """``S p(x)`` times the loss of each state, so that the mean is the exact objective ``(S,)``."""
        losses = self.objective.loss(model, draws.edges)
        return torch.where(draws.weight > 0, draws.weight * losses, 0.0)

    def exact(self, model: Any, pmf: PerStateTable) -> Tensor:
        return self.objective.exact(model, pmf)

    @cached_property
    def _draws(self) -> "WeighedEdges":
        edges = self.objective.edges.enumerated()
        # Wired once, not once a step, where it fits in one piece.
        edges = edges.chunk(0) if edges.num_chunks == 1 else edges
        return WeighedEdges(edges, self.pmf * len(self.pmf))


class WeighedEdges:
    """Edges of all states and the states' weights."""

    def __init__(self, edges: Any, weight: Tensor) -> None:
        self.edges, self.weight = edges, weight

    def rows(self, part: slice) -> "WeighedEdges":
        """A slice of the states."""
        return WeighedEdges(self.edges.rows(part), self.weight[part])
