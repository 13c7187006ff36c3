"""Absorbing noise: a site keeps its value or becomes *unknown*, one value more than the space has."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from concrete_score.errors import InputError, check_count
from concrete_score.neighborhoods.base import NeighborhoodBase
from concrete_score.protocols import Neighborhood
from concrete_score.randomness import uniform
from concrete_score.shapes import Mask, PerStateTable, Slots, States
from concrete_score.spaces import Space, check_same_space


@dataclass(frozen=True)
class Reveals(NeighborhoodBase):
    """Edges between a value and *unknown*, a star at every site: what absorbing noise can change at once.

    The slots of a site are its values in order and then *unknown*, which is its last value in ``space``.

    >>> Reveals(Space((3,))).neighbors(torch.tensor([[2], [1]])).squeeze(-1).tolist()  # of unknown, and of value 1
    [[0, 1, 2], [1, 1, 2]]
    """

    space: Space
    symmetric = True

    @property
    def num_slots(self) -> int:
        return sum(self.space.sizes)

    def valid(self, x: States) -> Mask:
        site, value = self.slots(x.device)
        now = x[..., site]
        unknown = self.space.sizes_tensor(x.device)[site] - 1
        return (now != value) & ((now == unknown) | (value == unknown))

    def neighbor(self, x: States, slot: Slots) -> States:
        site, value = self.edit(x, slot)
        moved = x.scatter(-1, site[..., None], value[..., None])
        return torch.where(self.valid(x).gather(-1, slot[..., None]), moved, x)

    def edit(self, x: States, slot: Slots) -> tuple[Slots, Slots]:
        """The site that a slot changes and its new value; its present value where the slot is invalid."""
        sites, values = self.slots(x.device)
        site = sites[slot]
        now = x.gather(-1, site[..., None]).squeeze(-1)
        valid = self.valid(x).gather(-1, slot[..., None]).squeeze(-1)
        return site, torch.where(valid, values[slot], now)

    def slots(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """The site and the value of every slot ``(K,), (K,)``."""
        size = self.space.sizes_tensor(device)
        site = torch.arange(len(size), device=device).repeat_interleave(size)
        return site, torch.arange(self.num_slots, device=device) - (size.cumsum(0) - size)[site]


@dataclass(frozen=True, eq=False)
class Absorbing:
    """``q(x̃_d = x_d) = α``, else *unknown*, independently at every site; α falls from level to level.

    *Unknown* is the value ``sizes[d]`` of site d, the last one of ``noisy_space``. With p̃ the noisy distribution,

        p̃(x̃ with d := v) / p̃(x̃) = α / (1 - α) · P(x_d = v | the visible sites)         at an unknown site d,
        p̃(x̃ with d := unknown) / p̃(x̃) = (1 - α) / α / P(x_d | the other visible sites)   at a visible one:

    the conditional given what is visible is all there is to learn, and it is the same at every level.

    Args:
        space: of the clean states.
        kept: α of each level, falling, the weakest noise first; the last may be 0, where nothing is visible.

    Raises:
        InputError: probabilities out of range, or that do not fall.

    >>> noise = Absorbing(Space((2, 3)), (0.5, 0.0))
    >>> noise.corrupt(torch.tensor([[1, 2]]), 1, torch.Generator()).tolist(), noise.noisy_space.sizes
    ([[2, 3]], (3, 4))
    """

    space: Space
    kept: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "kept", tuple(float(share) for share in self.kept))
        for level, share in enumerate(self.kept):
            last = level == len(self.kept) - 1
            if not (0 < share < 1 or (last and share == 0)) or (level and share >= self.kept[level - 1]):
                expected = "shares of kept values that fall, between 0 and 1; only the last may be 0"
                raise InputError(expected, str(share), where=f"kept[{level}]")
        if not self.kept:
            raise InputError("at least one level", "none", where="kept")

    @property
    def num_levels(self) -> int:
        return len(self.kept)

    @cached_property
    def noisy_space(self) -> Space:
        """The space with *unknown* as one more value of each site."""
        return Space(tuple(size + 1 for size in self.space.sizes))

    @property
    def neighborhood(self) -> Reveals:
        """Of the noisy states: a value and *unknown* are neighbors."""
        return Reveals(self.noisy_space)

    @cached_property
    def table(self) -> Tensor:
        """``log q(noisy | clean)`` ``(L, D, V, V + 1)``; -inf where it cannot be."""
        size, width = self.space.sizes_tensor(), max(self.space.sizes)
        value, noisy = torch.arange(width), torch.arange(width + 1)
        own = value < size[:, None]
        same = own[..., None] & (value[:, None] == noisy)
        gone = own[..., None] & (noisy == size[:, None, None])
        log_kept, log_lost = self.logs()
        empty = torch.full((), -torch.inf, dtype=torch.float64)
        return torch.where(same, log_kept[:, None, None, None], torch.where(gone, log_lost[:, None, None, None], empty))

    def hide(self, x: Tensor, hidden: Tensor) -> Tensor:
        """States with some sites unknown, in the noisy space ``(..., D)``; bool ``hidden`` broadcasts."""
        return torch.where(hidden, self.space.sizes_tensor(x.device), x.long())

    def hidden(self, noisy: States) -> Mask:
        """Which sites of noisy states are unknown ``(..., D)``."""
        return noisy == self.space.sizes_tensor(noisy.device)

    def corrupt(self, x: States, level: int | Tensor, generator: torch.Generator) -> States:
        """A draw of ``x̃`` for each row ``(..., D)``; levels broadcast against the leading axes."""
        lost = 1 - torch.tensor(self.kept, dtype=torch.float64, device=x.device)[torch.as_tensor(level)]
        return self.hide(x, uniform(tuple(x.shape), generator, x.device) < lost[..., None])

    def site_log_prob(self, level: int, site: int) -> Tensor:
        """``log q(noisy | clean)`` of one site ``(V_d, V_d + 1)``: ``[clean, noisy]``."""
        size = self.space.sizes[site]
        return self.table[level, site, :size, : size + 1]

    def log_prob(self, noisy: Tensor, clean: Tensor, level: int | Tensor) -> Tensor:
        """``log q(x̃ | x)`` ``(...)``; states and levels broadcast."""
        log_kept, log_lost = (logs.to(noisy.device)[torch.as_tensor(level)][..., None] for logs in self.logs())
        seen = torch.where(noisy == clean, log_kept, -torch.inf)
        return torch.where(self.hidden(noisy), log_lost, seen).sum(-1)

    def log_ratios(
        self, noisy: Tensor, clean: Tensor, level: int | Tensor, neighborhood: Neighborhood | None = None
    ) -> Tensor:
        """``log q(N(x̃)_k | x) - log q(x̃ | x)`` on `Reveals` ``(..., K)``; -inf towards a value that x has not."""
        edges = self.neighborhood
        check_same_space(edges.space, (neighborhood or edges).space, "noise and neighborhood")
        log_kept, log_lost = (logs.to(noisy.device)[torch.as_tensor(level)][..., None] for logs in self.logs())
        site, value = edges.slots(noisy.device)
        shown = torch.where(clean[..., site] == value, log_kept - log_lost, -torch.inf)
        gain = torch.where(self.hidden(noisy)[..., site], shown, log_lost - log_kept)
        return torch.where(edges.valid(noisy), gain, 0.0)

    def noisy_pmf(self, pmf: PerStateTable, level: int) -> Tensor:
        """``p̃(x̃) = Σ_x p(x) q(x̃ | x)`` over the states of the noisy space, exactly ``(S,) -> (S̃,)``."""
        self.noisy_space.check_enumerable()
        grid = pmf.double().reshape(self.space.sizes)
        for site in range(self.space.num_sites):
            # The site's axis leaves in front and returns at the end: after D turns all are back in place.
            grid = torch.tensordot(grid, self.site_log_prob(level, site).exp(), dims=([0], [0]))
        return grid.reshape(-1)

    def step_log_prob(self, low: int, high: int) -> Tensor:
        """``log q(z_high | z_low)`` ``(D, V + 1, V + 1)``: what is unknown stays so, the rest keeps its value with
        probability ``α_high / α_low``.

        >>> Absorbing(Space((1,)), (0.8, 0.4)).step_log_prob(0, 1).exp()[0]
        tensor([[0.5000, 0.5000],
                [0.0000, 1.0000]], dtype=torch.float64)
        """
        if not 0 <= low < high < self.num_levels:
            raise InputError("a weaker level, then a stronger one", f"{low} and {high}", where="low, high")
        keep = torch.tensor(self.kept[high] / self.kept[low], dtype=torch.float64)
        size, value = self.space.sizes_tensor(), torch.arange(max(self.space.sizes) + 1)
        source, target, unknown = value[:, None], value, size[:, None, None]
        moves = torch.where(target == unknown, 1 - keep, torch.where(source == target, keep, 0.0))
        at_rest = (target == unknown).double().expand_as(moves)
        found = torch.where(source == unknown, at_rest, moves)
        return torch.where((source <= unknown) & (target <= unknown), found, 0.0).log()

    def logs(self) -> tuple[Tensor, Tensor]:
        """``log α`` and ``log (1 - α)`` of each level ``(L,), (L,)``."""
        kept = torch.tensor(self.kept, dtype=torch.float64)
        return kept.log(), (-kept).log1p()


def absorbing(space: Space, num_levels: int = 32, kept: Sequence[float] | None = None) -> Absorbing:
    """`Absorbing` with evenly falling shares of visible sites, down to none.

    Args:
        space: of the clean states.
        num_levels: L; the last one hides everything.
        kept: the share at each level instead, the weakest noise first.

    >>> absorbing(Space.bits(2), 4).kept
    (0.75, 0.5, 0.25, 0.0)
    """
    if kept is not None:
        return Absorbing(space, (kept,) if isinstance(kept, int | float) else tuple(kept))
    check_count(num_levels, "num_levels")
    return Absorbing(space, tuple(1 - (level + 1) / num_levels for level in range(num_levels)))
