"""Heads: how a network's outputs become the ratios of a neighborhood (paper, sections 4.1 and 4.3)."""

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from concrete_score.errors import InputError
from concrete_score.models.layers import Features, SiteLogits, SiteTable
from concrete_score.noise import FactorizedNoise
from concrete_score.protocols import Neighborhood, Noise, SiteNeighborhood
from concrete_score.shapes import PerSlot, States
from concrete_score.spaces import Space, check_same_space

Level = int | Tensor | None


@runtime_checkable
class Head(Protocol):
    """Turns ``out_features`` numbers a state into the log-ratios of its neighbors."""

    @property
    def neighborhood(self) -> Neighborhood: ...
    @property
    def out_features(self) -> int: ...

    def log_ratios(self, outputs: Features, x: States, level: Level = None) -> PerSlot:
        """``(..., out_features), (..., D) -> (..., K)``; 0.0 at invalid slots."""
        ...


@dataclass(frozen=True)
class LogRatioHead:
    """The outputs are the log-ratios themselves: ratios are positive by construction.

    >>> from concrete_score import Space
    >>> from concrete_score.neighborhoods import chain
    >>> LogRatioHead(chain(Space((3,)))).log_ratios(torch.tensor([[0.5], [0.5]]), torch.tensor([[0], [2]])).tolist()
    [[0.5], [0.0]]
    """

    neighborhood: Neighborhood

    @classmethod
    def build(cls, neighborhood: Neighborhood, noise: Noise | None = None) -> "LogRatioHead":
        """The head of a neighborhood; any noise, or none, suits it."""
        return cls(neighborhood)

    @property
    def out_features(self) -> int:
        """One output for each slot."""
        return self.neighborhood.num_slots

    def log_ratios(self, outputs: Features, x: States, level: Level = None) -> PerSlot:
        """The outputs, 0.0 at invalid slots."""
        return torch.where(self.neighborhood.valid(x), outputs, 0.0)


@dataclass(frozen=True)
class RawHead:
    """The outputs are the paper's scores ``c``, which nothing keeps above -1 (section 4.1).

    Where ``c <= -1`` the ratio ``1 + c`` is not positive: its logarithm is -inf, and `share_below` counts how often.

    >>> from concrete_score import Space
    >>> from concrete_score.neighborhoods import cycle_two_way
    >>> head, x = RawHead(cycle_two_way(Space((3,)))), torch.tensor([0])
    >>> head.log_ratios(torch.tensor([0.0, -1.5]), x).tolist(), head.share_below(torch.tensor([0.0, -1.5]), x).item()
    ([0.0, -inf], 0.5)
    """

    neighborhood: Neighborhood

    @classmethod
    def build(cls, neighborhood: Neighborhood, noise: Noise | None = None) -> "RawHead":
        """The head of a neighborhood; any noise, or none, suits it."""
        return cls(neighborhood)

    @property
    def out_features(self) -> int:
        """One output for each slot."""
        return self.neighborhood.num_slots

    def concrete_scores(self, outputs: Features, x: States, level: Level = None) -> PerSlot:
        """``c(x)``, 0.0 at invalid slots ``(..., K)``."""
        return torch.where(self.neighborhood.valid(x), outputs, 0.0)

    def log_ratios(self, outputs: Features, x: States, level: Level = None) -> PerSlot:
        """``log(1 + c)`` where ``c > -1``, else -inf ``(..., K)``."""
        scores = self.concrete_scores(outputs, x)
        above = scores > -1
        # The inner choice keeps NaN out of the gradient of what the outer one throws away.
        return torch.where(above, torch.log1p(torch.where(above, scores, 0.0)), -torch.inf)

    def share_below(self, outputs: Features, x: States, level: Level = None) -> Float[Tensor, ""]:
        """The share of valid slots whose score is -1 or less, over all rows ``()``; 0 where there is no slot."""
        below = (self.concrete_scores(outputs, x) <= -1).sum()
        return below / self.neighborhood.valid(x).sum().clamp_min(1)


@dataclass(frozen=True)
class DenoisingHead:
    """The outputs are logits of each site's clean value given the noisy state: ratios are posterior means.

    For a slot that changes site d from a to b, ``log Σ_v P_d(v | x̃) q_d(b | v) / q_d(a | v)``. With the exact
    posterior these are the log-ratios of the noisy distribution (paper, property 1); with any other they are still
    positive, and bounded by the noise's own ratios.

    Args:
        noise: any noise of independent sites.
        neighborhood: one whose edges change one site.

    Raises:
        InputError: edges that change several sites, another space than the noise's, or noise with zeros.

    >>> from concrete_score import Space
    >>> from concrete_score.neighborhoods import hamming
    >>> from concrete_score.noise import categorical
    >>> head = DenoisingHead(categorical(Space((2,)), 0.75), hamming(Space((2,))))
    >>> head.log_ratios(torch.tensor([30.0, -30.0]), torch.tensor([0]), level=0).exp()
    tensor([0.3333])
    """

    noise: Noise
    neighborhood: Neighborhood
    sites: SiteLogits = field(init=False, repr=False)
    table: Tensor = field(init=False, repr=False, compare=False)
    """``log q(noisy | clean)`` ``(L, D, V, V)`` with 0 as padding, so that differences there are no NaN."""

    def __post_init__(self) -> None:
        check_same_space(self.noise.space, self.neighborhood.space, "noise and neighborhood")
        if not isinstance(self.neighborhood, SiteNeighborhood):
            raise InputError(
                "a neighborhood whose edges change one site",
                type(self.neighborhood).__name__,
                where="neighborhood",
                fix="use `hamming` or `grid`, or the log_ratio head",
            )
        object.__setattr__(self, "sites", SiteLogits(self.noise.space))
        table = _factorized(self.noise).table
        even = len(set(self.noise.space.sizes)) == 1  # then nothing is padded, and sites may share one stored table
        object.__setattr__(self, "table", table if even else table.masked_fill(table == -torch.inf, 0.0))

    @classmethod
    def build(cls, neighborhood: Neighborhood, noise: Noise | None = None) -> "DenoisingHead":
        """The head of a neighborhood and a noise, which it needs."""
        if noise is None:
            raise InputError("a noise", "none", where="noise", fix="give one, or use the log_ratio head")
        return cls(noise, neighborhood)

    @property
    def out_features(self) -> int:
        """One output for each value of each site."""
        return self.sites.out_features

    def clean_log_probs(self, outputs: Features, x: States, level: Level = None) -> SiteTable:
        """``log P(x_d = v | x̃)`` ``(..., D, V)``; -inf beyond a site's size."""
        return self.sites.log_probs(outputs)

    def log_ratios(self, outputs: Features, x: States, level: Level = 0) -> PerSlot:
        """``log Σ_v P_d(v | x̃) q_d(b | v) / q_d(a | v)`` for every slot ``(..., K)``."""
        neighborhood: SiteNeighborhood = self.neighborhood  # type: ignore[assignment]  # checked when built
        slot = torch.arange(neighborhood.num_slots, device=x.device).expand(*x.shape[:-1], -1)
        site, new = neighborhood.edit(x[..., None, :].expand(*slot.shape, -1), slot)
        old = x.long().gather(-1, site)
        levels, table = torch.as_tensor(level, device=x.device)[..., None], self.table.to(x.device)
        gain = (table[levels, site, :, new] - table[levels, site, :, old]).to(outputs.dtype)
        clean = self.clean_log_probs(outputs, x).gather(-2, site[..., None].expand_as(gain))
        return torch.where(neighborhood.valid(x), (clean + gain).logsumexp(-1), 0.0)


def _factorized(noise: Noise) -> FactorizedNoise:
    """Any noise of independent sites as its table."""
    if isinstance(noise, FactorizedNoise):
        return noise
    space, largest = noise.space, max(noise.space.sizes)
    table = torch.full((noise.num_levels, space.num_sites, largest, largest), -torch.inf, dtype=torch.float64)
    for level in range(noise.num_levels):
        for site, size in enumerate(space.sizes):
            table[level, site, :size, :size] = noise.site_log_prob(level, site)
    return FactorizedNoise(space, table)


class WithEvidence(nn.Module):
    """A trunk whose outputs for site d, value v are ``trunk(x̃)_{d,v} + log q_d(x̃_d | v)``.

    By Bayes' rule ``P(x_d = v | x̃) ∝ q_d(x̃_d | v) P(x_d = v | the other sites of x̃)``. The first factor is known; the
    network need only learn the second, which at weak noise is all the signal there is (docs/mathematics.md, "Denoising
    and noise levels").

    A trunk whose outputs are 0 gives the posterior of uniform data, whose noisy distribution is uniform too: its
    log-ratios are 0.

    Args:
        trunk: of as many outputs as the head reads.
        head: a denoising head on a space whose sites are all alike.

    Raises:
        InputError: sites of different sizes, or another space.

    >>> from concrete_score.models.score import MLP
    >>> from concrete_score.neighborhoods import hamming
    >>> from concrete_score.noise import categorical
    >>> space = Space.bits(2)
    >>> head = DenoisingHead(categorical(space, [0.75]), hamming(space))
    >>> zero = MLP(space, head.out_features, num_levels=1, generator=torch.Generator())
    >>> _ = [torch.nn.init.zeros_(p) for p in zero.parameters()]
    >>> WithEvidence(zero, head)(torch.tensor([0, 1]), 0).exp().tolist()
    [0.75, 0.25, 0.25, 0.75]
    """

    evidence: Tensor

    def __init__(self, trunk: Any, head: DenoisingHead) -> None:
        super().__init__()
        check_same_space(trunk.space, head.noise.space, "trunk and noise")
        if len(set(trunk.space.sizes)) > 1:
            raise InputError("sites of one size", "several", where="space", fix="use the trunk as it is")
        self.trunk = trunk
        dtype = next(trunk.parameters()).dtype
        # Sites that are alike share one stored table, which an expanded view keeps: [level, site, noisy, clean].
        table = head.table if head.table.stride(1) else head.table[:, :1]
        self.register_buffer("evidence", table.transpose(-2, -1).to(dtype), persistent=False)

    @property
    def space(self) -> Space:
        space: Space = self.trunk.space
        return space

    @property
    def out_features(self) -> int:
        return int(self.trunk.out_features)

    @property
    def num_levels(self) -> int | None:
        levels: int | None = self.trunk.num_levels
        return levels

    def forward(self, x: States, level: int | Tensor | None = None) -> Features:
        """``(..., D) -> (..., Σ sizes)``."""
        outputs: Tensor = self.trunk(x, level)
        levels = torch.as_tensor(0 if level is None else level, device=x.device)[..., None]
        site = torch.arange(x.shape[-1], device=x.device) % self.evidence.shape[1]
        evidence = self.evidence[levels, site, x.long()]
        return outputs + evidence.reshape(*evidence.shape[:-2], -1)
