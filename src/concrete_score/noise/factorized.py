"""Noise that corrupts each site on its own, given as a table of ``log q(noisy | clean)``, and its way back."""

from dataclasses import dataclass, field
from functools import cached_property

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.noise.absorbing import Absorbing
from concrete_score.noise.tables import check_noise, check_shape, in_chunks, inside, stored_once
from concrete_score.protocols import Neighborhood, SiteNeighborhood
from concrete_score.shapes import PerStateTable, States
from concrete_score.spaces import Space, as_tensor, check_same_space

Bridge = Float[Tensor, "sites values noisy noisy"]
"""``log q(z_low | z_high, clean)`` ``(D, V, V', V')``: ``[site, clean, high, low]``, V' noisy values."""
SiteLogProbs = Float[Tensor, "*batch sites values"]
"""A distribution over the values of each site ``(..., D, V)``."""

_STEP_TOLERANCE = 1e-9

# States and levels broadcast against each other over their leading axes, so a table of all (noisy, clean) is one call.
AnyStates = Integer[Tensor, "*#batch sites"]
AllStates = Integer[Tensor, "... sites"]
AllSlots = Float[Tensor, "... slots"]


@dataclass(frozen=True, eq=False)
class FactorizedNoise:
    """``q(x̃ | x) = Π_d q_d(x̃_d | x_d)`` at each of L levels, the weakest first (paper 4.3).

    Args:
        space: the space of clean and noisy states.
        table: ``log q_d(noisy | clean)`` ``(L, D, V, V)``: ``[level, site, clean, noisy]``, V the largest site,
            smaller ones padded with -inf. Sites that are all alike are stored once.

    Raises:
        InputError: a row does not sum to one, holds a zero (ratios would be undefined), or a later level is weaker.

    >>> flip = torch.tensor([[0.9, 0.1], [0.1, 0.9]], dtype=torch.float64).log()
    >>> noise = FactorizedNoise(Space.bits(3), flip.expand(1, 3, 2, 2))
    >>> bits = torch.tensor([0, 1, 1])
    >>> round(noise.log_prob(bits, bits, level=0).exp().item(), 3)
    0.729
    """

    space: Space
    table: Tensor = field(repr=False)

    def __post_init__(self) -> None:
        table = as_tensor(self.table, "table")
        check_shape(self.space, table)
        stored = stored_once(self.space, table)
        check_noise(self.space, stored)
        object.__setattr__(self, "table", stored.expand(-1, self.space.num_sites, -1, -1))

    @property
    def num_levels(self) -> int:
        return self.table.shape[0]

    def corrupt(self, x: AnyStates, level: int | Tensor, generator: torch.Generator) -> AllStates:
        """A draw of ``x̃ ~ q(· | x)`` for each state.

        Args:
            x: clean states ``(..., D)``.
            level: one for all, or a tensor that broadcasts against the leading axes of ``x``.
            generator: the source of randomness.

        Raises:
            InputError: states or levels out of range, or leading axes that do not broadcast.
        """
        x = self.space.check(x)
        level = self._levels(level, x)
        batch = _broadcast(x.shape[:-1], level.shape)
        clean = x.expand(*batch, -1).reshape(-1, self.space.num_sites)
        unit = torch.rand(clean.shape, generator=generator, device=generator.device, dtype=torch.float64)
        width = self.space.num_sites * self.table.shape[-1]
        noisy = in_chunks(self._invert, width, clean, level.expand(batch).reshape(-1), unit.to(x.device))
        return noisy.reshape(*batch, self.space.num_sites)

    def site_log_prob(self, level: int, site: int) -> Tensor:
        """``log q(noisy | clean)`` of one site ``(V_d, V_d)``: ``[clean, noisy]``."""
        size = self.space.sizes[site]
        return self.table[self._level(level), site, :size, :size]

    def log_prob(self, noisy: AnyStates, clean: AnyStates, level: int | Tensor) -> Float[Tensor, "..."]:
        """``log q(x̃ | x)``, summed over sites ``(...)``; states and levels broadcast."""
        levels = self._levels(level, noisy, clean)[..., None]
        site = torch.arange(self.space.num_sites, device=noisy.device)
        return self._look_up(levels, site, clean.long(), noisy.long()).sum(-1)

    def log_ratios(
        self, noisy: AnyStates, clean: AnyStates, level: int | Tensor, neighborhood: Neighborhood
    ) -> AllSlots:
        """``log q(N(x̃)_k | x) - log q(x̃ | x)``, the target of denoising CSM (paper 4.3).

        Where an edge changes one site, only that site's two probabilities are looked up.

        Args:
            noisy: corrupted states ``(..., D)``.
            clean: the states they came from ``(..., D)``.
            level: one for all, or a tensor that broadcasts against the leading axes.
            neighborhood: of the noisy states.

        Returns:
            ``(..., K)``, 0.0 at invalid slots.
        """
        levels = self._levels(level, noisy, clean)
        check_same_space(self.space, neighborhood.space, "noise and neighborhood")
        noisy, clean = noisy.long(), clean.long()
        # An invalid slot leads to x̃ itself, so its ratio is 0.0 without a mask.
        if isinstance(neighborhood, SiteNeighborhood):
            return self._site_ratios(noisy, clean, levels, neighborhood)
        return self._neighbor_ratios(noisy, clean, levels, neighborhood)

    def noisy_pmf(self, pmf: PerStateTable, level: int) -> PerStateTable:
        """``p̃(x̃) = Σ_x p(x) q(x̃ | x)`` over an enumerable space, exactly ``(S,) -> (S,)``.

        >>> flip = torch.tensor([[0.75, 0.25], [0.25, 0.75]]).double().log()
        >>> FactorizedNoise(Space((2,)), flip.expand(1, 1, 2, 2)).noisy_pmf(torch.tensor([1.0, 0.0]), 0).tolist()
        [0.75, 0.25]
        """
        self.space.check_enumerable()
        if pmf.shape != (self.space.num_states,):
            raise InputError(f"shape ({self.space.num_states},)", f"{tuple(pmf.shape)}", where="pmf")
        grid = pmf.double().reshape(self.space.sizes)
        for site in range(self.space.num_sites):
            # The site's axis leaves in front and returns at the end: after D turns all are back in place.
            kernel = self.site_log_prob(level, site).exp().to(pmf.device)
            grid = torch.tensordot(grid, kernel, dims=([0], [0]))
        return grid.reshape(-1)

    def step_log_prob(self, low: int, high: int) -> Tensor:
        """The noise that leads from one level to a stronger one: ``q_high = q_low · step``, site by site.

        Args:
            low, high: two levels, ``low < high``.

        Returns:
            ``log step(x_high | x_low)`` ``(D, V, V)``: ``[from, to]``, padded with -inf.

        Raises:
            InputError: no such noise exists between these levels.

        >>> from concrete_score.noise import categorical
        >>> categorical(Space((2,)), [0.9, 0.74]).step_log_prob(0, 1).exp()[0]
        tensor([[0.8000, 0.2000],
                [0.2000, 0.8000]], dtype=torch.float64)
        """
        low, high = self._level(low), self._level(high)
        if low >= high:
            raise InputError("a weaker level, then a stronger one", f"{low} and {high}", where="low, high")
        own = inside(self.space, *self._stored.shape[1:3])
        # The padding becomes an identity block, which leaves the solution of the site itself alone.
        block = (~own).double() * torch.eye(own.shape[-1], dtype=torch.float64)
        weak, strong = self._stored[low].exp() + block, self._stored[high].exp() + block
        step: Tensor = torch.linalg.solve_ex(weak, strong).result.clamp(min=0)
        step = step / step.sum(-1, keepdim=True)
        miss = (weak @ step - strong).abs().amax((-2, -1))
        if not (miss <= _STEP_TOLERANCE).all():
            raise InputError(
                "levels that compose, the stronger being the weaker one followed by more noise",
                f"none that does at site {int((~(miss <= _STEP_TOLERANCE)).nonzero()[0])}",
                where=f"levels {low} and {high}",
                fix="use levels of one family that keep the clean value the likeliest (weights above 1/size)",
            )
        return step.log().masked_fill(~own, -torch.inf).expand(self.space.num_sites, -1, -1)

    @property
    def _stored(self) -> Tensor:
        return self.table[:, :1] if self.table.stride(1) == 0 else self.table

    @cached_property
    def _cumulative(self) -> Tensor:
        # The last value of a site takes all that is left, so rounding never draws a value beyond it.
        own = inside(self.space, *self._stored.shape[1:3])
        return self._stored.exp().cumsum(-1)[..., :-1].masked_fill(~own[..., 1:], torch.inf)

    def _invert(self, clean: Tensor, level: Tensor, unit: Tensor) -> Tensor:
        cumulative = self._cumulative.to(clean.device)
        site = torch.arange(clean.shape[-1], device=clean.device) % cumulative.shape[1]
        return (unit[..., None] >= cumulative[level[:, None], site, clean]).sum(-1)

    def _look_up(self, level: Tensor, site: Tensor, clean: Tensor, noisy: Tensor) -> Tensor:
        stored = self._stored.to(noisy.device)
        return stored[level, site % stored.shape[1], clean, noisy]

    def _site_ratios(self, noisy: Tensor, clean: Tensor, level: Tensor, neighborhood: SiteNeighborhood) -> Tensor:
        slots = torch.arange(neighborhood.num_slots, device=noisy.device)
        shape = _broadcast(noisy.shape[:-1], clean.shape[:-1], level.shape)
        noisy, clean, batch = noisy.expand(*shape, -1), clean.expand(*shape, -1), (*shape, len(slots))
        site, value = neighborhood.edit(noisy[..., None, :].expand(*batch, -1), slots.expand(batch))
        before, came_from = (torch.take_along_dim(x, site, -1) for x in (noisy, clean))
        after = self._look_up(level[..., None], site, came_from, value)
        return after - self._look_up(level[..., None], site, came_from, before)

    def _neighbor_ratios(self, noisy: Tensor, clean: Tensor, level: Tensor, neighborhood: Neighborhood) -> Tensor:
        def ratios(noisy: Tensor, clean: Tensor, level: Tensor) -> Tensor:
            after = self.log_prob(neighborhood.neighbors(noisy), clean[:, None], level[:, None])
            return after - self.log_prob(noisy, clean, level)[:, None]

        batch = _broadcast(noisy.shape[:-1], clean.shape[:-1], level.shape)
        rows = (x.expand(*batch, -1).reshape(-1, self.space.num_sites) for x in (noisy, clean))
        slots = neighborhood.num_slots
        found = in_chunks(ratios, slots * self.space.num_sites, *rows, level.expand(batch).reshape(-1))
        return found.reshape(*batch, slots)

    def _level(self, level: int) -> int:
        return int(self._levels(level))

    def _levels(self, level: int | Tensor, *states: Tensor) -> Tensor:
        levels = as_tensor(level, "level")
        last = self.num_levels - 1
        if levels.is_floating_point() or levels.dtype == torch.bool or ((levels < 0) | (levels > last)).any():
            raise InputError(f"integer levels from 0 to {last}", str(level), where="level", fix="0 is the weakest")
        try:
            _broadcast(levels.shape, *(x.shape[:-1] for x in states))
        except RuntimeError:
            raise InputError(
                "leading axes that broadcast against each other",
                f"levels {tuple(levels.shape)}, states {', '.join(str(tuple(x.shape)) for x in states)}",
                where="level",
                fix="give one level, or one for each row",
            ) from None
        return levels.long().to(states[0].device) if states else levels.long()


def _broadcast(*shapes: torch.Size) -> torch.Size:
    return torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call, no-any-return]


def bridge(noise: FactorizedNoise | Absorbing, low: int | None, high: int) -> Bridge:
    """The posterior of the weaker level's value; ``low=None`` is no noise at all, the clean value itself.

    Where levels compose, ``x → z_0 → z_1 → …`` is a Markov chain, and by Bayes' rule, site by site,
    ``q(z_low | z_high, x) = q_low(z_low | x) step(z_high | z_low) / q_high(z_high | x)`` (docs/mathematics.md,
    "Denoising and noise levels").

    Args:
        noise: whose levels compose.
        low, high: two levels, ``low < high``, or None and any level.

    Returns:
        ``(D, V, V', V')``, -inf where something cannot be, and beyond a site's size. Sites that are alike share memory.

    Raises:
        InputError: the levels do not compose.

    >>> from concrete_score import Space
    >>> from concrete_score.noise import categorical
    >>> bridge(categorical(Space((2,)), [0.9, 0.74]), 0, 1)[0, 0].exp()  # clean 0: rows z_high, columns z_low
    tensor([[0.9730, 0.0270],
            [0.6923, 0.3077]], dtype=torch.float64)
    """
    weight = noise.table[high]  # [site, clean, high]
    if low is None:
        same = torch.eye(*weight.shape[-2:], dtype=torch.bool)[:, None, :]
        return torch.where(same & (weight > -torch.inf)[..., None], 0.0, -torch.inf)
    step = noise.step_log_prob(low, high)  # [site, low, high]
    joint = _once(noise.table[low])[:, :, None, :] + _once(step).transpose(-2, -1)[:, None]
    total = _once(weight)[..., None]
    found = torch.where(total > -torch.inf, joint - total, -torch.inf)
    return found.expand(noise.space.num_sites, -1, -1, -1)


def reverse_log_probs(clean: SiteLogProbs, noisy: States, way: Bridge) -> Float[Tensor, "*batch sites noisy"]:
    """``log Σ_v P(x_d = v) q(z_low | z_high = x̃_d, v)``: a model's step to the weaker level ``(..., D, V)``.

    Args:
        clean: ``log P(x_d = v | x̃)`` ``(..., D, V)``.
        noisy: ``x̃`` at the higher level ``(..., D)``.
        way: a `bridge` from there.

    >>> from concrete_score import Space
    >>> from concrete_score.noise import categorical
    >>> way = bridge(categorical(Space((2,)), [0.9, 0.74]), 0, 1)
    >>> reverse_log_probs(torch.tensor([[[0.5, 0.5]]]).log(), torch.tensor([[0]]), way).exp()
    tensor([[[0.6403, 0.3597]]], dtype=torch.float64)
    """
    site = torch.arange(noisy.shape[-1], device=noisy.device) % len(_once(way))
    # Indexing with a slice between puts the sites' axes first: (..., D, clean, low).
    step = _once(way).to(noisy.device)[site, :, noisy.long()]
    return (clean[..., None] + step).logsumexp(-2)


def _once(table: Tensor) -> Tensor:
    """The table of one site where all are alike and share memory."""
    return table[:1] if table.stride(0) == 0 else table
