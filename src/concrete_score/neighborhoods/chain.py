"""The chain: each value points to the next one (paper, sections 3.1 and C.5)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from concrete_score.neighborhoods.ordered import in_order
from concrete_score.neighborhoods.product import Product, SiteRule, Size, one_site
from concrete_score.spaces import Space


@dataclass(frozen=True)
class Chain(SiteRule):
    """``v -> v + 1``, and with ``two_way`` also ``v -> v - 1`` (slot 1); the ends have one neighbor fewer."""

    two_way: bool = False

    def num_slots(self, size: int) -> int:
        return 0 if size == 1 else 1 + self.two_way

    def symmetric(self, size: int) -> bool:
        return self.two_way or size == 1

    def regular(self, size: int) -> bool:
        return size == 1

    def valid(self, value: Tensor, k: Tensor, size: Size) -> Tensor:
        to = value + 1 - 2 * k
        return (to >= 0) & (to < size)

    def step(self, value: Tensor, k: Tensor, size: Size) -> Tensor:
        # Clamping keeps the ends where they are, which is what an invalid slot means.
        return torch.minimum((value + 1 - 2 * k).clamp_min(0), torch.as_tensor(size, device=value.device) - 1)

    def back(self, value: Tensor, k: Tensor, size: Size) -> Tensor:
        return 1 - k if self.two_way else torch.full_like(k, -1)

    def reverse_degree(self, value: Tensor, size: Size) -> Tensor:
        below = (value > 0).long()
        return below + (value < torch.as_tensor(size, device=value.device) - 1) if self.two_way else below

    def reverse_step(self, value: Tensor, j: Tensor, size: Size) -> tuple[Tensor, Tensor]:
        # From below by slot 0 first; the lowest value is reached from above only.
        k = torch.where(value > 0, j, 1) if self.two_way else torch.zeros_like(j)
        return value - 1 + 2 * k, k

    def symmetrized(self) -> "Chain":
        return Chain(two_way=True)


def chain(space: Space, order: tuple[int, ...] | None = None) -> Product:
    """The paper's chain on one site: ``N(v) = {v + 1}``, nothing after the last value.

    Args:
        space: one site.
        order: the values in the order they are chained; natural by default.

    >>> chain(Space((4,))).neighbors(torch.tensor([[0], [3]])).squeeze(-1).tolist()
    [[1], [3]]
    """
    return one_site(space, in_order(Chain(), order), "`grid_bounded`")


def chain_two_way(space: Space, order: tuple[int, ...] | None = None) -> Product:
    """The chain walked both ways: ``N(v) = {v + 1, v - 1}``.

    >>> chain_two_way(Space((4,))).valid(torch.tensor([0])).tolist()
    [True, False]
    """
    return one_site(space, in_order(Chain(two_way=True), order), "`grid_bounded`")
