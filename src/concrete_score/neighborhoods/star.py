"""The star: every value points to one center (paper, example 1)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.neighborhoods.product import Product, SiteRule, Size, one_site
from concrete_score.spaces import Space


@dataclass(frozen=True)
class Star(SiteRule):
    """``v -> center`` for every other value; the center points nowhere unless ``two_way``.

    In the two-way star slot ``k`` is the edge between the center and its ``k``-th leaf, seen from either end.
    """

    center: int = 0
    two_way: bool = False

    def check(self, size: int) -> None:
        """The center must be one of the values."""
        if not 0 <= self.center < size:
            raise InputError(f"a center from 0 to {size - 1}", str(self.center), where="center")

    def num_slots(self, size: int) -> int:
        return size - 1 if self.two_way else min(size - 1, 1)

    def symmetric(self, size: int) -> bool:
        return self.two_way or size == 1

    def regular(self, size: int) -> bool:
        return size == 1

    def valid(self, value: Tensor, k: Tensor, size: Size) -> Tensor:
        if not self.two_way:
            return value != self.center
        return (value == self.center) | (k == self._leaf_rank(value))

    def step(self, value: Tensor, k: Tensor, size: Size) -> Tensor:
        if not self.two_way:
            return torch.full_like(value, self.center)
        leaf = k + (k >= self.center)
        other = torch.where(value == leaf, self.center, value)
        return torch.where(value == self.center, leaf, other)

    def back(self, value: Tensor, k: Tensor, size: Size) -> Tensor:
        return k if self.two_way else torch.full_like(k, -1)

    def reverse_degree(self, value: Tensor, size: Size) -> Tensor:
        others = torch.as_tensor(size, device=value.device) - 1
        return torch.where(value == self.center, others, 1 if self.two_way else 0).expand_as(value)

    def reverse_step(self, value: Tensor, j: Tensor, size: Size) -> tuple[Tensor, Tensor]:
        leaf = j + (j >= self.center)
        if not self.two_way:
            return leaf, torch.zeros_like(j)
        at_center = value == self.center
        return torch.where(at_center, leaf, self.center), torch.where(at_center, j, self._leaf_rank(value))

    def symmetrized(self) -> "Star":
        return Star(self.center, two_way=True)

    def _leaf_rank(self, value: Tensor) -> Tensor:
        return value - (value > self.center).long()


def star(space: Space, center: int = 0) -> Product:
    """The paper's star on one site: ``N(v) = {center}``, ``N(center) = {}``.

    >>> two = star(Space((4,)), center=2)
    >>> two.neighbors(torch.tensor([[0], [2]])).squeeze(-1).tolist(), two.valid(torch.tensor([2])).tolist()
    ([[2], [2]], [False])
    """
    return one_site(space, Star(center), "`hamming`")
