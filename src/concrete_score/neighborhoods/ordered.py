"""A site rule on relabelled values: the cycles of the paper's figures 5 and 6 differ in nothing else."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.neighborhoods.product import SiteRule, Size


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
