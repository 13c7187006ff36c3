"""A transformer over sites: bidirectional for scores and hidden sites, causal as the autoregressive twin."""

from math import sqrt
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from concrete_score import registry
from concrete_score.errors import InputError, check_count
from concrete_score.models.heads import Head
from concrete_score.models.layers import (
    DEEPEST,
    Features,
    Linear,
    SiteLogits,
    SiteTable,
    check_level,
    lowered,
    normal_parameter,
)
from concrete_score.models.lookahead import LookAhead, Looks, Tell, draw_unseen
from concrete_score.models.masked import MaskedNetwork
from concrete_score.models.score import NoiseConditionalNetwork, ScoreNetwork
from concrete_score.noise import Absorbing
from concrete_score.protocols import Neighborhood, Noise, SiteNeighborhood
from concrete_score.randomness import uniform
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space

SMALL = 0.02
"""Deviation of first embeddings."""


class Block(nn.Module):
    """``h + attention(norm(h))``, then ``h + mlp(norm(h))``; every site looks at every site, or at those before it."""

    def __init__(self, width: int, heads: int, causal: bool, generator: torch.Generator, dtype: torch.dtype) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norms = nn.ModuleList(nn.LayerNorm(width, dtype=dtype, device=generator.device) for _ in range(2))
        self.read = Linear(width, 3 * width, generator, dtype)
        self.mix = Linear(width, width, generator, dtype)
        self.up = Linear(width, 4 * width, generator, dtype)
        self.down = Linear(4 * width, width, generator, dtype)

    @property
    def matrices(self) -> tuple[tuple[nn.Parameter, int], ...]:
        """Weights between features, and how many matrices lie in each: queries, keys and values are three."""
        return ((self.read.weight, 3), *((layer.weight, 1) for layer in (self.mix, self.up, self.down)))

    def forward(self, h: Tensor) -> Tensor:
        """``(B, D, width) -> (B, D, width)``."""
        first, second = self.norms
        each = h.shape[-1] // self.heads
        query, key, value = self.read(first(h)).reshape(*h.shape[:2], 3, self.heads, each).permute(2, 0, 3, 1, 4)
        mixed = _attend(query, key, value, self.causal)
        h = h + self.mix(mixed.transpose(1, 2).reshape(h.shape))
        found: Tensor = h + self.down(functional.gelu(self.up(second(h))))
        return found


class Transformer(nn.Module):
    """A `Trunk`: values and positions embedded, blocks of attention, and outputs read off at every site.

    Where all sites are alike they share one embedding of values and one output layer; otherwise each has its own.

    Args:
        space: of the states it reads.
        outputs: how many numbers it writes at each site ``(D,)``.
        width: features of a site.
        depth: blocks.
        heads: of the attention; they divide the width.
        num_levels: how many noise levels there are; None for none.
        causal: whether a site sees only those before it.
        reach: how many sites to either side add their values, embedded by their distance, to what a site starts from;
            more than 0 where the order of sites means something, as in text. A causal network has twice as many
            before each site.
        mixed: learn in bfloat16 where the device has it; what is asked of the network is computed in full.
        generator: the source of the first weights.
        dtype: of the parameters.

    >>> trunk = Transformer(Space((3, 3)), (2, 2), width=8, depth=1, heads=2, generator=torch.Generator())
    >>> trunk(torch.tensor([[0, 2], [1, 1]])).shape
    torch.Size([2, 4])
    """

    first: Tensor
    site: Tensor

    def __init__(
        self,
        space: Space,
        outputs: tuple[int, ...],
        width: int = 128,
        depth: int = 4,
        heads: int = 4,
        num_levels: int | None = None,
        causal: bool = False,
        reach: int = 0,
        mixed: bool = False,
        *,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.mixed = mixed
        check_count(width, "width")
        check_count(depth, "depth", most=DEEPEST)
        check_count(heads, "heads")
        if width % heads:
            raise InputError("a width that the heads divide", f"{width} and {heads} heads", where="width")
        self.space, self.out_features, self.num_levels = space, sum(outputs), num_levels
        self.alike = len(set(space.sizes)) == 1 and len(set(outputs)) == 1
        size, device = space.sizes_tensor(generator.device), generator.device
        first = torch.zeros_like(size) if self.alike else size.cumsum(0) - size
        self.register_buffer("first", first, persistent=False)
        site = torch.arange(space.num_sites, device=device).repeat_interleave(torch.tensor(outputs, device=device))
        self.register_buffer("site", site, persistent=False)
        values = int(size[0]) if self.alike else int(size.sum())
        self.values, self.positions = (
            nn.Parameter(SMALL * normal_parameter((count, width), generator, dtype).detach())
            for count in (values, space.num_sites)
        )
        self.blocks = nn.ModuleList(Block(width, heads, causal, generator, dtype) for _ in range(depth))
        self.norm = nn.LayerNorm(width, dtype=dtype, device=device)
        self.write = Linear(width, outputs[0] if self.alike else sum(outputs), generator, dtype)
        self.bias = nn.Parameter(torch.zeros(sum(outputs), dtype=dtype, device=device))
        self.near = _offsets(reach, causal, space.num_sites)
        if self.near:
            self.around = nn.Parameter(
                SMALL * normal_parameter((len(self.near), values, width), generator, dtype).detach()
            )
        if num_levels is not None:
            self.levels = nn.Parameter(SMALL * normal_parameter((num_levels, width), generator, dtype).detach())

    def forward(self, x: States, level: int | Tensor | None = None) -> Features:
        """``(..., D) -> (..., out_features)``; ``level`` is one for all, or broadcasts against the leading axes."""
        check_level(level, self.num_levels)
        rows = x.reshape(-1, x.shape[-1]).long()
        shift = (
            None
            if level is None
            else self.levels[level].expand(*x.shape[:-1], -1).reshape(rows.shape[0], 1, self.levels.shape[-1])
        )
        return self.outputs(self.embed(rows), shift).reshape(*x.shape[:-1], self.out_features)

    def embed(self, rows: Tensor) -> Tensor:
        """``(B, D) -> (B, D, width)``, positions not added."""
        rows = rows + self.first
        found = self.values[rows]
        for offset, table in zip(self.near, self.around if self.near else (), strict=True):
            near = functional.embedding(rows[:, max(offset, 0) : rows.shape[1] + min(offset, 0)], table)
            found = found + functional.pad(near, (0, 0, max(-offset, 0), max(offset, 0)))  # beyond an end is nothing
        return found

    def outputs(self, embedded: Tensor, shift: Tensor | None = None) -> Tensor:
        """From the embedded values of sites, position by position ``(B, D, width) -> (B, out_features)``."""
        h = embedded + self.positions if shift is None else embedded + self.positions + shift
        with lowered(self.mixed and torch.is_grad_enabled(), h.device):
            for block in self.blocks:
                h = block(h)
            h = self.norm(h)
            if self.alike:
                found = self.write(h).flatten(1)
            else:
                found = (h[:, self.site] * self.write.weight).sum(-1) + self.write.bias
        return cast("Tensor", found + self.bias)


def _attend(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    """Scaled dot-product attention ``(B, heads, D, width)``."""
    if query.dtype != torch.bfloat16 or query.device.type != "cpu":
        return functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
    # In bfloat16 the fused kernel takes processors three to five times as long as two products and a softmax.
    with torch.autocast("cpu", enabled=False):
        score = (query / sqrt(query.shape[-1])) @ key.transpose(-1, -2)
        if causal:
            score = score.masked_fill(torch.ones_like(score[0, 0], dtype=torch.bool).triu(1), -torch.inf)
        return score.softmax(-1) @ value


def _offsets(reach: int, causal: bool, sites: int) -> tuple[int, ...]:
    """Of the sites within reach; a causal network has as many of them, all before."""
    if not isinstance(reach, int) or reach < 0:
        raise InputError("a number of at least 0", repr(reach), where="reach")
    offsets = range(-2 * reach, 0) if causal else range(-reach, reach + 1)
    return tuple(offset for offset in offsets if offset and abs(offset) < sites)


class CausalTransformer(nn.Module):
    """``log q(x) = Σ_d log q(x_d | x_0 … x_{d-1})``: the same network as `Transformer`, each site seeing those before.

    Args:
        space: any space.
        options: of `Transformer`: width, depth, heads, reach, mixed.
        generator: the source of the first weights.
        dtype: of the parameters.

    >>> model = CausalTransformer(Space((2, 3)), width=8, depth=1, heads=2, generator=torch.Generator())
    >>> round(model.log_density(model.space.enumerate()).exp().sum().item(), 5)
    1.0
    """

    def __init__(
        self, space: Space, *, generator: torch.Generator, dtype: torch.dtype = torch.float32, **options: Any
    ) -> None:
        super().__init__()
        self.space, self.normalized = space, True
        build: dict[str, Any] = {"generator": generator, "dtype": dtype}
        self.trunk = Transformer(space, space.sizes, causal=True, **options, **build)
        width = self.trunk.positions.shape[-1]
        self.begin = nn.Parameter(normal_parameter((width,), generator, dtype).detach() / sqrt(width))

    def forward(self, x: States) -> PerState:
        return self.log_density(x)

    def site_log_conditionals(self, x: States) -> SiteTable:
        """``log q(x_d = v | x_0 … x_{d-1})`` ``(..., D) -> (..., D, V)``; -inf beyond a site's size; one pass."""
        rows = x.reshape(-1, self.space.num_sites).long()
        embedded = self.trunk.embed(rows)
        shifted = torch.cat([self.begin.expand(rows.shape[0], 1, -1), embedded[:, :-1]], 1)
        found = SiteLogits(self.space).log_probs(self.trunk.outputs(shifted))
        return found.reshape(*x.shape, found.shape[-1])

    def log_density(self, x: States) -> PerState:
        """``log q(x)``, exact and normalized ``(..., D) -> (...)``."""
        return self.site_log_conditionals(x).gather(-1, x.long()[..., None]).sum((-2, -1))

    @torch.no_grad()
    def sample(self, n: int, generator: torch.Generator) -> States:
        """``n`` exact draws ``(n, D)``, a pass a site."""
        x = torch.zeros((n, self.space.num_sites), dtype=torch.int64, device=self.begin.device)
        return self.propose_given(x, torch.zeros_like(x, dtype=torch.bool), generator)[0]

    @torch.no_grad()
    def propose_given(
        self,
        x: States,
        observed: Tensor,
        generator: torch.Generator,
        *,
        units: Tensor | None = None,
        ahead: LookAhead | None = None,
        tell: Tell | None = None,
    ) -> tuple[States, PerState]:
        """``x`` with each unobserved site drawn given those before it, and the log-weight of the draws ``(n,)``.

        As draws given what is observed they weigh ``w = Π_{d observed} q(x_d | before)``; in float64. The options are
        those of `MADE.propose_given`.
        """
        values = torch.where(observed, x, 0).T.contiguous()
        log_weight = torch.zeros(len(x), 1, dtype=torch.float64, device=x.device)
        points = uniform((self.space.num_sites, len(x)), generator, x.device) if units is None else units.T
        for site, (unit, size) in enumerate(zip(points, self.space.sizes, strict=True)):
            table = self.site_log_conditionals(values.T)[:, site, :size].T
            values[site] = draw_unseen(table, unit, site, values, observed, log_weight, Looks(ahead, tell))
        return values.T.contiguous(), log_weight[:, 0]


def transformer(
    neighborhood: Neighborhood,
    head: str = "log_ratio",
    noise: Noise | None = None,
    causal: bool = False,
    *,
    generator: torch.Generator,
    **options: Any,
) -> ScoreNetwork | NoiseConditionalNetwork | MaskedNetwork | CausalTransformer:
    """A transformer with any head and noise; with absorbing noise a model of hidden sites; causal, a density.

    Args:
        neighborhood: whose ratios it gives, each edge changing one site.
        head: one of ``registry.names("heads")``.
        noise: makes one network of all its levels; absorbing noise needs no levels and no head.
        causal: the autoregressive twin, learned by maximum likelihood; it takes no noise.
        generator: the source of the first weights.
        options: of `Transformer`: width, depth, heads, reach, mixed, dtype.

    Raises:
        InputError: a causal network with noise, or edges that change several sites.

    >>> from concrete_score.neighborhoods import hamming
    >>> from concrete_score.noise import absorbing
    >>> space = Space((3, 3))
    >>> model = transformer(hamming(space), noise=absorbing(space), width=8, depth=1, generator=torch.Generator())
    >>> model.clean_log_probs(torch.tensor([[3, 0]])).shape
    torch.Size([1, 2, 3])
    """
    space = neighborhood.space
    if causal:
        if noise is not None:
            raise InputError("no noise for a causal network", "some", where="noise", fix="leave it out")
        return CausalTransformer(space, generator=generator, **options)
    if isinstance(noise, Absorbing):
        return MaskedNetwork(Transformer(noise.noisy_space, space.sizes, generator=generator, **options), noise)
    if not isinstance(neighborhood, SiteNeighborhood):
        came = type(neighborhood).__name__
        raise InputError("a neighborhood whose edges change one site", came, "neighborhood", "use `hamming` or `grid`")
    built: Head = registry.load("heads", head).build(neighborhood, noise)
    counts = space.sizes if head == "denoising" else _slots(neighborhood)
    levels = None if noise is None else noise.num_levels
    trunk = Transformer(space, counts, num_levels=levels, generator=generator, **options)
    return ScoreNetwork(trunk, built) if noise is None else NoiseConditionalNetwork(trunk, built, noise)


def _slots(neighborhood: SiteNeighborhood) -> tuple[int, ...]:
    """How many slots change each site ``(D,)``; slots are ordered by site."""
    slot = torch.arange(neighborhood.num_slots)
    origin = torch.zeros(neighborhood.space.num_sites, dtype=torch.int64).expand(len(slot), -1)
    site, _ = neighborhood.edit(origin, slot)
    return tuple(torch.bincount(site, minlength=neighborhood.space.num_sites).tolist())
