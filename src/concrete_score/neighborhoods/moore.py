"""The Moore neighborhood ``{x + v : v in {-1,0,1}^D, v != 0}`` (paper, section 4.3)."""

from dataclasses import dataclass
from functools import cached_property
from math import prod

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.neighborhoods.base import NeighborhoodBase
from concrete_score.shapes import Mask, Slots, States
from concrete_score.spaces import Space


@dataclass(frozen=True)
class Moore(NeighborhoodBase):
    """Every site moves by -1, 0 or 1, not all by 0.

    A slot plus one, written in mixed radix, has one digit per site: 0 stays, 1 is ``+1``, 2 is ``-1``. Wrapped, a site
    of two values has the digits 0 and 1 only, so no state is listed twice.
    """

    space: Space
    wrap: bool = True

    def __post_init__(self) -> None:
        if self.num_slots >= 2**62:
            raise InputError(
                "at most 39 sites for the Moore neighborhood",
                f"{self.space.num_sites} sites",
                fix="use `grid` or `hamming`, whose slots grow linearly",
            )

    @cached_property
    def num_slots(self) -> int:
        """K = Π radix - 1, with ``min(size, 3)`` steps of a site; bounded, 3 wherever there is more than one value."""
        return prod(self._radices) - 1

    @property
    def symmetric(self) -> bool:
        """Always: every step can be undone."""
        return True

    def connected(self) -> bool:
        """Always: it contains the (bounded) grid."""
        return True

    def valid(self, x: States) -> Mask:
        """Which slots stay inside ``(..., K)``."""
        if self.wrap:
            return torch.ones((), dtype=torch.bool, device=x.device).expand(*x.shape[:-1], self.num_slots)
        slot = torch.arange(self.num_slots, device=x.device)
        return self._inside(x[..., None, :].long() + self._offset(slot)).all(-1)

    def neighbor(self, x: States, slot: Slots) -> States:
        """``x + v``, wrapped or held."""
        if not self.num_slots:
            return x.clone()
        to = x.long() + self._offset(slot)
        if self.wrap:
            return torch.remainder(to, self.space.sizes_tensor(x.device)).to(x.dtype)
        return torch.where(self._inside(to).all(-1, keepdim=True), to, x.long()).to(x.dtype)

    def back_slot(self, x: States, slot: Slots) -> Slots:
        """Each site's step undone: digits 1 and 2 change places where there are two directions."""
        if not self.num_slots:
            return torch.full_like(slot, -1)
        digit = self._digit(slot)
        two_way = torch.tensor([radix == 3 for radix in self._radices], device=slot.device)
        undone = torch.where(two_way & (digit > 0), 3 - digit, digit)
        back = (undone * self._place.to(slot.device)).sum(-1) - 1
        if self.wrap:
            return back
        # Bounded, a site of two values steps up or down by digits 1 and 2 alike; radix 3 undoes both.
        return torch.where(self._slot_is_valid(x, slot), back, -1)

    def reverse_degree(self, y: States) -> Slots:
        """The degree: the neighborhood is symmetric."""
        return self.degree(y)

    def reverse_neighbor(self, y: States, j: Slots) -> tuple[States, Slots]:
        """The ``j``-th valid slot of ``y``, walked backwards."""
        if self.wrap:
            slot = j
        else:
            slot = torch.searchsorted(self.valid(y).cumsum(-1), j[..., None] + 1).squeeze(-1)
        return self.neighbor(y, slot), self.back_slot(y, slot)

    @property
    def _radices(self) -> list[int]:
        # Bounded, the two directions of a two-valued site are different slots, one of them always invalid.
        return [min(size, 3) if self.wrap or size == 1 else 3 for size in self.space.sizes]

    @cached_property
    def _place(self) -> Tensor:
        radices = self._radices
        return torch.tensor([prod(radices[d + 1 :]) for d in range(len(radices))])

    def _digit(self, slot: Tensor) -> Tensor:
        radix = torch.tensor(self._radices, device=slot.device)
        return (slot + 1)[..., None] // self._place.to(slot.device) % radix

    def _offset(self, slot: Tensor) -> Tensor:
        digit = self._digit(slot)
        return torch.where(digit == 2, -1, digit)

    def _inside(self, to: Tensor) -> Tensor:
        return (to >= 0) & (to < self.space.sizes_tensor(to.device))


def moore(space: Space, wrap: bool = True) -> Moore:
    """The Moore neighborhood, wrapping by default as the grid does.

    >>> moore(Space((91, 91))).num_slots, moore(Space((2, 2))).num_slots
    (8, 3)
    """
    return Moore(space, wrap)
