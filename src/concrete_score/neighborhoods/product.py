"""Products of one-site graphs: a neighbor changes one site along that site's own graph (paper, section 3.1)."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.neighborhoods.base import SiteNeighborhoodBase
from concrete_score.shapes import Mask, Slots, States
from concrete_score.spaces import Space

Size = Tensor | int


class SiteRule(ABC):
    """A directed graph on the values ``0..size-1`` of one site, given by arithmetic instead of a table.

    All tensors are broadcast elementwise; ``size`` is an integer or a tensor. Rules are frozen values, so that a
    neighborhood is hashable and a new one is data.
    """

    @abstractmethod
    def num_slots(self, size: int) -> int:
        """How many slots a site of this size has."""

    @abstractmethod
    def symmetric(self, size: int) -> bool:
        """Whether every edge has its reverse."""

    @abstractmethod
    def regular(self, size: int) -> bool:
        """Whether every slot is valid at every value, and every value is reached by as many edges."""

    @abstractmethod
    def valid(self, value: Tensor, k: Tensor, size: Size) -> Tensor:
        """Whether slot ``k`` of ``value`` holds a neighbor."""

    @abstractmethod
    def step(self, value: Tensor, k: Tensor, size: Size) -> Tensor:
        """The value slot ``k`` leads to; ``value`` itself where invalid."""

    @abstractmethod
    def back(self, value: Tensor, k: Tensor, size: Size) -> Tensor:
        """The slot that leads back from a valid step; -1 where none does."""

    @abstractmethod
    def reverse_degree(self, value: Tensor, size: Size) -> Tensor:
        """How many edges lead to ``value``."""

    @abstractmethod
    def reverse_step(self, value: Tensor, j: Tensor, size: Size) -> tuple[Tensor, Tensor]:
        """The ``j``-th ``(source value, slot)`` whose edge leads to ``value``."""

    @abstractmethod
    def symmetrized(self) -> "SiteRule":
        """The smallest symmetric rule that contains this one."""

    def check(self, size: int) -> None:  # noqa: B027 - most rules fit every size
        """Refuse a size the rule does not fit."""


@dataclass(frozen=True)
class Product(SiteNeighborhoodBase):
    """The product of one graph per site: each edge changes one site along its graph. Slots are site-major.

    Args:
        space: the product space.
        rules: one rule per site; `Product.of` repeats one rule over all sites.

    No table is ever built: slots, masks and the reverse relation are arithmetic, so 784 or a million sites are fine.

    >>> from concrete_score.neighborhoods import Chain, Complete
    >>> mixed = Product(Space((3, 2)), (Chain(two_way=True), Complete()))
    >>> mixed.neighbors(torch.tensor([0, 0])).tolist(), mixed.valid(torch.tensor([0, 0])).tolist()
    ([[1, 0], [0, 0], [0, 1]], [True, False, True])
    """

    space: Space
    rules: tuple[SiteRule, ...]

    def __post_init__(self) -> None:
        if len(self.rules) != self.space.num_sites:
            raise InputError(f"one rule for each of {self.space.num_sites} sites", str(len(self.rules)), where="rules")
        for rule, size in self._kinds:
            rule.check(size)

    @classmethod
    def of(cls, space: Space, rule: SiteRule) -> "Product":
        """The same rule at every site."""
        return cls(space, (rule,) * space.num_sites)

    @cached_property
    def num_slots(self) -> int:
        """K, the sum of the sites' slots."""
        return int(self._slots_per_site.sum())

    @cached_property
    def symmetric(self) -> bool:
        """Whether every edge has its reverse."""
        return all(rule.symmetric(size) for rule, size in self._kinds)

    def connected(self) -> bool:
        """Always: every rule is connected on its site, and a product of connected graphs is connected."""
        return True

    def symmetrized(self) -> "Product":
        """The product of the symmetrized rules."""
        return self if self.symmetric else Product(self.space, tuple(rule.symmetrized() for rule in self.rules))

    def valid(self, x: States) -> Mask:
        """Which slots hold a neighbor ``(..., K)``."""
        if self._regular:
            return torch.ones((), dtype=torch.bool, device=x.device).expand(*x.shape[:-1], self.num_slots)
        site = self._slot_site.to(x.device)
        value = x.index_select(-1, site)
        return self._apply(lambda rule, v, k, n: rule.valid(v, k, n), site, value, self._slot_k.to(x.device))

    def degree(self, x: States) -> Slots:
        if self._regular:
            return torch.full(x.shape[:-1], self.num_slots, device=x.device)
        return self.valid(x).sum(-1)

    def draw(self, x: States, generator: torch.Generator) -> Slots:
        """A uniform valid slot; where no slot is ever masked, without looking at ``x``."""
        if not self._regular:
            return super().draw(x, generator)
        slot = torch.randint(max(1, self.num_slots), x.shape[:-1], generator=generator, device=generator.device)
        return slot.to(x.device)

    def edit(self, x: States, slot: Slots) -> tuple[Slots, Slots]:
        """The site that ``slot`` changes and its new value."""
        if not self.num_slots:
            return torch.zeros_like(slot), x[..., 0].long()
        site, k, value = self._locate(x, slot)
        return site, self._apply(lambda rule, v, k, n: rule.step(v, k, n), site, value, k)

    def back_slot(self, x: States, slot: Slots) -> Slots:
        """The slot that leads back, by arithmetic; -1 where none does."""
        if not self.num_slots:
            return torch.full_like(slot, -1)
        site, k, value = self._locate(x, slot)
        valid = self._apply(lambda rule, v, k, n: rule.valid(v, k, n), site, value, k)
        back = self._apply(lambda rule, v, k, n: rule.back(v, k, n), site, value, k)
        first = self._first_slot.to(x.device)[site]
        return torch.where(valid & (back >= 0), first + back, -1)

    def reverse_degree(self, y: States) -> Slots:
        """``|N⁻¹(y)|``, the sum of the sites' reverse degrees."""
        if self._regular:
            return self.degree(y)
        return self._site_reverse_degrees(y).sum(-1)

    def reverse_neighbor(self, y: States, j: Slots) -> tuple[States, Slots]:
        """The ``j``-th pair ``(x, slot)`` with ``N(x)_slot = y``: the paper's reparameterization, site by site."""
        if self._regular:  # as many edges enter a site's value as leave it
            site = self._slot_site.to(y.device)[j]
            local = j - self._first_slot.to(y.device)[site]
        else:
            upto = self._site_reverse_degrees(y).cumsum(-1)
            site = torch.searchsorted(upto, j[..., None], right=True)
            before = torch.cat([torch.zeros_like(upto[..., :1]), upto], -1).gather(-1, site).squeeze(-1)
            site, local = site.squeeze(-1), j - before
        value = y.gather(-1, site[..., None]).squeeze(-1).long()
        source = self._apply(lambda rule, v, k, n: rule.reverse_step(v, k, n)[0], site, value, local)
        k = self._apply(lambda rule, v, k, n: rule.reverse_step(v, k, n)[1], site, value, local)
        x = y.clone().scatter_(-1, site[..., None], source.to(y.dtype)[..., None])
        return x, self._first_slot.to(y.device)[site] + k

    def _locate(self, x: Tensor, slot: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Site, local slot and present value of each slot."""
        site = self._slot_site.to(x.device)[slot]
        k = self._slot_k.to(x.device)[slot]
        return site, k, x.gather(-1, site[..., None]).squeeze(-1).long()

    def _fill_neighbors(self, x: Tensor, out: Tensor) -> None:
        out.copy_(x[:, None].expand_as(out))
        if not self.num_slots:
            return
        site, k = self._slot_site.to(x.device), self._slot_k.to(x.device)
        value = x.index_select(-1, site).long()
        new = self._apply(lambda rule, v, k, n: rule.step(v, k, n), site, value, k)
        out.scatter_(-1, site[:, None].expand(len(x), -1, 1), new.to(out.dtype)[..., None])

    def _site_reverse_degrees(self, y: Tensor) -> Tensor:
        site = torch.arange(self.space.num_sites, device=y.device)
        return self._apply(lambda rule, v, _, n: rule.reverse_degree(v, n), site, y.long(), site)

    def _apply(
        self,
        formula: Callable[[SiteRule, Tensor, Tensor, Size], Tensor],
        site: Tensor,
        value: Tensor,
        k: Tensor,
    ) -> Tensor:
        """Evaluate a rule's formula at ``value``, whose sites and local slots broadcast against it."""
        if len(self._kinds) == 1:  # one rule, one size: plain scalars
            rule, size = self._kinds[0]
            return formula(rule, value, k, size).expand_as(value)
        if len(self._distinct_rules) == 1:
            return formula(self.rules[0], value, k, self.space.sizes_tensor(value.device)[site]).expand_as(value)
        site, k = site.expand_as(value), k.expand_as(value)
        sizes, which = self.space.sizes_tensor(value.device)[site], self._rule_at.to(value.device)[site]
        parts = [(which == r, rule) for r, rule in enumerate(self._distinct_rules)]
        results = [(chosen, formula(rule, value[chosen], k[chosen], sizes[chosen])) for chosen, rule in parts]
        out = torch.empty(value.shape, dtype=results[0][1].dtype, device=value.device)
        for chosen, result in results:
            out[chosen] = result
        return out

    @cached_property
    def _kinds(self) -> list[tuple[SiteRule, int]]:
        return list(dict.fromkeys(zip(self.rules, self.space.sizes, strict=True)))

    @cached_property
    def _distinct_rules(self) -> list[SiteRule]:
        return list(dict.fromkeys(self.rules))

    @cached_property
    def _regular(self) -> bool:
        return all(rule.regular(size) for rule, size in self._kinds)

    @cached_property
    def _rule_at(self) -> Tensor:
        position = {rule: r for r, rule in enumerate(self._distinct_rules)}
        return torch.tensor([position[rule] for rule in self.rules])

    @cached_property
    def _slots_per_site(self) -> Tensor:
        count = {kind: kind[0].num_slots(kind[1]) for kind in self._kinds}
        return torch.tensor([count[kind] for kind in zip(self.rules, self.space.sizes, strict=True)])

    @cached_property
    def _first_slot(self) -> Tensor:
        return self._slots_per_site.cumsum(0) - self._slots_per_site

    @cached_property
    def _slot_site(self) -> Tensor:
        return torch.repeat_interleave(torch.arange(self.space.num_sites), self._slots_per_site)

    @cached_property
    def _slot_k(self) -> Tensor:
        return torch.arange(self.num_slots) - self._first_slot[self._slot_site]
