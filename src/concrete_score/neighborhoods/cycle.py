"""The cycle: a chain whose last value points to the first (paper, sections 3.1 and C.5)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from concrete_score.neighborhoods.ordered import in_order
from concrete_score.neighborhoods.product import Product, SiteRule, Size, one_site
from concrete_score.spaces import Space


@dataclass(frozen=True)
class Cycle(SiteRule):
    """``v -> v + 1 mod size``, and with ``two_way`` also ``v -> v - 1 mod size`` (slot 1).

    On two values both directions are the same flip, which is listed once; one value has no neighbor.
    """

    two_way: bool = False

    def num_slots(self, size: int) -> int:
        return min(size - 1, 1 + self.two_way)

    def symmetric(self, size: int) -> bool:
        return self.two_way or size <= 2

    def regular(self, size: int) -> bool:
        return True

    def valid(self, value: Tensor, k: Tensor, size: Size) -> Tensor:
        return torch.ones_like(value, dtype=torch.bool)

    def step(self, value: Tensor, k: Tensor, size: Size) -> Tensor:
        to = value + (1 - 2 * k)
        to = torch.where(to == size, 0, to)  # cheaper than the remainder, and a step of one needs no more
        return torch.where(to < 0, torch.as_tensor(size, device=to.device) - 1, to) if self.two_way else to

    def back(self, value: Tensor, k: Tensor, size: Size) -> Tensor:
        flip = torch.as_tensor(size, device=k.device) == 2
        return torch.where(flip, k, 1 - k if self.two_way else -1)

    def reverse_degree(self, value: Tensor, size: Size) -> Tensor:
        return (torch.as_tensor(size, device=value.device) - 1).clamp_max(1 + self.two_way).expand_as(value)

    def reverse_step(self, value: Tensor, j: Tensor, size: Size) -> tuple[Tensor, Tensor]:
        return torch.remainder(value - (1 - 2 * j), size), j

    def symmetrized(self) -> "Cycle":
        return Cycle(two_way=True)


def cycle(space: Space, order: tuple[int, ...] | None = None) -> Product:
    """The paper's cycle on one site: ``N(v) = {v + 1 mod size}``.

    Args:
        space: one site.
        order: the values in the order they are walked; natural by default.

    >>> cycle(Space((4,)), order=(0, 2, 1, 3)).neighbors(torch.tensor([[0], [3]])).squeeze(-1).tolist()
    [[2], [0]]
    """
    return one_site(space, in_order(Cycle(), order), "`grid`")


def cycle_two_way(space: Space, order: tuple[int, ...] | None = None) -> Product:
    """The cycle walked both ways: ``N(v) = {v ± 1 mod size}``.

    >>> cycle_two_way(Space((4,))).neighbors(torch.tensor([0])).squeeze(-1).tolist()
    [1, 3]
    """
    return one_site(space, in_order(Cycle(two_way=True), order), "`grid`")
