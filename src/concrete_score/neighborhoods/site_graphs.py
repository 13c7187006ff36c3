"""Graphs on the values of one site, and the same graph at every site (paper, sections 3.1, 4.2 and C.5).

A chain, a cycle, a star and the complete graph are rules on one site; the grid is the product of cycles, the Hamming
neighborhood that of complete graphs.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.neighborhoods.product import Product, SiteRule, Size
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


@dataclass(frozen=True)
class Ordered(SiteRule):
    """``rule`` applied to ranks instead of values: ``order[r]`` is the value of rank ``r``."""

    rule: SiteRule
    order: tuple[int, ...]

    def check(self, size: int) -> None:
        """The order must name each value once."""
        if sorted(self.order) != list(range(size)):
            raise InputError(
                f"an order that names each of 0..{size - 1} once",
                f"{self.order[:8]}{'…' if len(self.order) > 8 else ''} of length {len(self.order)}",
                where="order",
            )

    def num_slots(self, size: int) -> int:
        return self.rule.num_slots(size)

    def symmetric(self, size: int) -> bool:
        return self.rule.symmetric(size)

    def regular(self, size: int) -> bool:
        return self.rule.regular(size)

    def valid(self, value: Tensor, k: Tensor, size: Size) -> Tensor:
        return self.rule.valid(self._rank(value), k, size)

    def step(self, value: Tensor, k: Tensor, size: Size) -> Tensor:
        return self._value(self.rule.step(self._rank(value), k, size))

    def back(self, value: Tensor, k: Tensor, size: Size) -> Tensor:
        return self.rule.back(self._rank(value), k, size)

    def reverse_degree(self, value: Tensor, size: Size) -> Tensor:
        return self.rule.reverse_degree(self._rank(value), size)

    def reverse_step(self, value: Tensor, j: Tensor, size: Size) -> tuple[Tensor, Tensor]:
        source, k = self.rule.reverse_step(self._rank(value), j, size)
        return self._value(source), k

    def symmetrized(self) -> "Ordered":
        return Ordered(self.rule.symmetrized(), self.order)

    def _rank(self, value: Tensor) -> Tensor:
        return self._values.argsort().to(value.device)[value]

    def _value(self, rank: Tensor) -> Tensor:
        return self._values.to(rank.device)[rank]

    @cached_property
    def _values(self) -> Tensor:
        return torch.tensor(self.order)


def in_order(rule: SiteRule, order: tuple[int, ...] | None) -> SiteRule:
    """The rule itself where no order is asked for."""
    return rule if order is None else Ordered(rule, tuple(order))


def one_site(space: Space, rule: SiteRule, instead: str) -> Product:
    """The named one-site graphs; on more sites their name would be ambiguous, so the product is asked for by name."""
    if space.num_sites != 1:
        raise InputError(
            "a space of one site",
            f"{space.num_sites} sites",
            fix=f"use {instead}, or Product.of(space, {type(rule).__name__}(...))",
        )
    return Product.of(space, rule)


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


def star(space: Space, center: int = 0) -> Product:
    """The paper's star on one site: ``N(v) = {center}``, ``N(center) = {}``.

    >>> two = star(Space((4,)), center=2)
    >>> two.neighbors(torch.tensor([[0], [2]])).squeeze(-1).tolist(), two.valid(torch.tensor([2])).tolist()
    ([[2], [2]], [False])
    """
    return one_site(space, Star(center), "`hamming`")


def complete(space: Space) -> Product:
    """The complete graph on one site: ``N(v)`` holds all other values.

    >>> complete(Space((4,))).neighbors(torch.tensor([1])).squeeze(-1).tolist()
    [0, 2, 3]
    """
    return one_site(space, Complete(), "`hamming`")


def grid(space: Space) -> Product:
    """The product of per-site two-way cycles: it wraps; a site of two values has one flip, of one value none.

    >>> import torch
    >>> grid(Space((3, 2))).neighbors(torch.tensor([0, 0])).tolist()
    [[1, 0], [2, 0], [0, 1]]
    """
    return Product.of(space, Cycle(two_way=True))


def grid_bounded(space: Space) -> Product:
    """The product of per-site two-way chains: the same moves without wrapping.

    >>> import torch
    >>> grid_bounded(Space((3, 2))).degree(torch.tensor([[0, 0], [1, 0]])).tolist()
    [2, 3]
    """
    return Product.of(space, Chain(two_way=True))


def hamming(space: Space) -> Product:
    """The product of per-site complete graphs; slots are site-major, the other values ascending.

    >>> import torch
    >>> hamming(Space((3, 2))).neighbors(torch.tensor([1, 0])).tolist()
    [[0, 0], [2, 0], [1, 1]]
    """
    return Product.of(space, Complete())
