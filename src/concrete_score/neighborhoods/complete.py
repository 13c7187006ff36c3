"""The complete graph: every value points to every other (paper, section 3.1 and appendix B.2)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from concrete_score.neighborhoods.product import Product, SiteRule, Size, one_site
from concrete_score.spaces import Space


@dataclass(frozen=True)
class Complete(SiteRule):
    """``v -> w`` for every ``w != v``; slots are the other values, ascending."""

    def num_slots(self, size: int) -> int:
        return size - 1

    def symmetric(self, size: int) -> bool:
        return True

    def regular(self, size: int) -> bool:
        return True

    def valid(self, value: Tensor, k: Tensor, size: Size) -> Tensor:
        return torch.ones_like(value, dtype=torch.bool)

    def step(self, value: Tensor, k: Tensor, size: Size) -> Tensor:
        return k + (k >= value)

    def back(self, value: Tensor, k: Tensor, size: Size) -> Tensor:
        to = self.step(value, k, size)
        return value - (value > to).long()

    def reverse_degree(self, value: Tensor, size: Size) -> Tensor:
        return (torch.as_tensor(size, device=value.device) - 1).expand_as(value)

    def reverse_step(self, value: Tensor, j: Tensor, size: Size) -> tuple[Tensor, Tensor]:
        return self.step(value, j, size), self.back(value, j, size)

    def symmetrized(self) -> "Complete":
        return self


def complete(space: Space) -> Product:
    """The complete graph on one site: ``N(v)`` holds all other values.

    >>> complete(Space((4,))).neighbors(torch.tensor([1])).squeeze(-1).tolist()
    [0, 2, 3]
    """
    return one_site(space, Complete(), "`hamming`")
