"""The score model of a density: its ratios, derived (paper, definition 2)."""

from dataclasses import dataclass

from concrete_score.errors import InputError
from concrete_score.neighborhoods import check_same_space
from concrete_score.protocols import DensityModel, Neighborhood
from concrete_score.scores import CHUNK, log_ratios
from concrete_score.shapes import PerSlot, States


@dataclass(frozen=True, eq=False)
class DensityScore:
    """``log q(N(x)_k) - log q(x)`` of any density model, normalized or not: a `ScoreModel`.

    Args:
        density: gives ``log q``; its parameters stay its own, and gradients reach them.
        neighborhood: whose ratios are taken.
        chunk: how many sites (states × D) are evaluated at a time, which bounds the memory.

    Raises:
        InputError: two different spaces.

    >>> import torch
    >>> from concrete_score import Space
    >>> from concrete_score.models import Table
    >>> from concrete_score.neighborhoods import cycle
    >>> density = Table.from_pmf(Space((3,)), torch.tensor([1.0, 1.0, 3.0]))
    >>> DensityScore(density, cycle(Space((3,)))).log_ratios(torch.tensor([[0], [1]])).exp().tolist()
    [[1.0], [3.0]]
    """

    density: DensityModel
    neighborhood: Neighborhood
    chunk: int = CHUNK

    def __post_init__(self) -> None:
        check_same_space(self.density.space, self.neighborhood.space, "density and neighborhood")
        if self.chunk < 1:
            raise InputError("at least 1 site at a time", str(self.chunk), where="chunk")

    def log_ratios(self, x: States) -> PerSlot:
        """``(..., D) -> (..., K)``; 0.0 at invalid slots."""
        return log_ratios(self.density, self.neighborhood, x, chunk=self.chunk)
