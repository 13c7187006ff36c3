"""The small parts of every network: layers with explicit first weights, and how sites are read and written."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from concrete_score.errors import InputError, nearest
from concrete_score.shapes import Slots, States
from concrete_score.spaces import Space

DEEPEST = 1000
"""Layers or blocks a network may have at most: a mistyped number would fill the memory before training starts."""
Features = Float[Tensor, "*batch features"]
"""One number a feature ``(..., F)``."""
SiteTable = Float[Tensor, "*batch sites values"]
"""One number for each value of each site ``(..., D, V)``, V the largest size."""
ValueTable = Float[Tensor, "sites values"]
"""The same for all states ``(D, V)``."""

Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: dict[str, Activation] = {
    "tanh": torch.tanh,
    "relu": functional.relu,
    "silu": functional.silu,
    "gelu": functional.gelu,
    "elu": functional.elu,
}
"""Elementwise non-linearities by name; tanh is the paper's (appendix C)."""


def find_activation(name: str) -> Activation:
    """The non-linearity called ``name``.

    >>> find_activation("relu")(torch.tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    if name not in ACTIVATIONS:
        raise InputError("a known activation", repr(name), "activation", nearest(name, list(ACTIVATIONS)))
    return ACTIVATIONS[name]


class Linear(nn.Module):
    """An affine map ``x Wᵀ + b``; with a mask, ``x (W ⊙ mask)ᵀ + b``.

    An output's weights and bias start uniform in ``±1/√n``, n the inputs it sees. Nothing is taken from torch's
    global random state.

    Args:
        in_features, out_features: widths; either may be 0.
        generator: the source of the first weights.
        dtype: of the parameters.
        mask: which weights exist, bool ``(out_features, in_features)``; all by default.

    >>> layer = Linear(3, 2, torch.Generator().manual_seed(0))
    >>> layer(torch.zeros(5, 3)).shape
    torch.Size([5, 2])
    """

    mask: Tensor | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
        mask: Tensor | None = None,
    ) -> None:
        super().__init__()
        seen = torch.full((out_features,), in_features) if mask is None else mask.sum(-1)
        bound = seen.clamp_min(1).to(generator.device, dtype).rsqrt()
        self.weight = uniform_parameter((out_features, in_features), bound[:, None], generator)
        self.bias = uniform_parameter((out_features,), bound, generator)
        # Rebuilt by whoever builds the layer, so never stored; a float of the weights' kind multiplies fastest.
        kept = None if mask is None else mask.to(device=self.weight.device, dtype=dtype)
        self.register_buffer("mask", kept, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """``(..., in_features) -> (..., out_features)``."""
        weight = self.weight if self.mask is None else self.weight * self.mask
        return functional.linear(x, weight, self.bias)


class Dense(nn.Module):
    """Affine maps with a non-linearity between them: ``widths[0] -> widths[1] -> … -> widths[-1]``.

    >>> net = Dense([3, 8, 1], "tanh", torch.Generator().manual_seed(0))
    >>> net(torch.zeros(5, 3)).shape
    torch.Size([5, 1])
    """

    def __init__(
        self,
        widths: Sequence[int],
        act: str,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.act = find_activation(act)
        self.layers = nn.ModuleList(Linear(i, o, generator, dtype) for i, o in pairwise(widths))

    def forward(self, x: Tensor, shift: Tensor | None = None) -> Tensor:
        """Map the last axis; ``shift``, if given, is added to the first layer's output."""
        first, *others = self.layers
        x = first(x) if shift is None else first(x) + shift
        for layer in others:
            x = layer(self.act(x))
        return x


def uniform_parameter(shape: tuple[int, ...], bound: Tensor, generator: torch.Generator) -> nn.Parameter:
    """A parameter drawn uniformly from ``[-bound, bound)``, of the bound's kind, on the generator's device."""
    unit = torch.rand(shape, generator=generator, dtype=bound.dtype, device=generator.device)
    return nn.Parameter((2 * unit - 1) * bound)


def normal_parameter(shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype) -> nn.Parameter:
    """A parameter of standard normal entries, on the generator's device."""
    return nn.Parameter(torch.randn(shape, generator=generator, dtype=dtype, device=generator.device))


def check_level(level: int | Tensor | None, num_levels: int | None) -> None:
    """A network with noise levels needs one at each call; any other network takes none."""
    if (level is None) != (num_levels is None):
        raise InputError(
            "a noise level" if level is None else "no noise level",
            repr(level) if level is None else "one",
            where="level",
            fix="build the network with num_levels exactly when it is called with levels",
        )


def draw_categories(logits: Tensor, unit: Tensor) -> Slots:
    """Inverse-distribution draws from ``softmax(logits)``, exact to float64 and never of probability zero.

    Args:
        logits: ``(..., V)``; -inf allowed.
        unit: float64 uniforms in [0, 1), ``(..., n)``.

    Returns:
        ``n`` categories for each row ``(..., n)``.

    >>> draw_categories(torch.tensor([float("-inf"), 0.0]), torch.zeros(3, dtype=torch.float64)).tolist()
    [1, 1, 1]
    """
    upto = logits.double().softmax(-1).cumsum(-1)
    # A uniform is at most 1 - 2**-53, and that times the total is below the total even when rounded: a draw always
    # falls before the end of the last category with mass, and never into an empty step.
    return torch.searchsorted(upto, unit * upto[..., -1:], right=True)


WIDE, LARGEST = 8, 1024
"""Features of a site from which on they are read from a table of all its values, and how many these may be."""


class SiteFeatures(nn.Module):
    """States as numbers: a two-valued site is one feature, -1 or +1; a larger one is one-hot; a single value is 0.

    One feature for a bit halves a network's inputs, and its sign keeps them centered for tanh. Categories have no
    order, so larger sites are spelled out. Of sites whose values are ordered, a feature says whether the value is at
    least v, for each v but the least: neighbors share most of their features, so what is learned of one holds for
    the next. A site of one value carries no information and keeps one constant feature, so that no layer is empty.

    Args:
        space: the states' space.
        order: the sites in the order their features appear; natural by default.
        dtype: of the features.
        ordered: the sites whose values are ordered.

    >>> SiteFeatures(Space((2, 3)))(torch.tensor([[0, 2], [1, 0]])).tolist()
    [[-1.0, 0.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]]
    >>> SiteFeatures(Space((4,)), ordered=[0])(torch.tensor([[0], [2]])).tolist()
    [[-0.25, -0.25, -0.25], [0.25, 0.25, -0.25]]
    """

    site: Tensor
    low: Tensor
    high: Tensor
    scale: Tensor
    shift: Tensor
    table: Tensor

    def __init__(
        self,
        space: Space,
        order: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
        ordered: Collection[int] = (),
    ) -> None:
        super().__init__()
        self._sizes = space.sizes
        sites = range(space.num_sites) if order is None else order.tolist()
        rows = [(d, *row) for d in sites for row in _site_rows(space.sizes[d], d in ordered)]
        site, low, high, scale, shift = zip(*rows, strict=True)
        self.register_buffer("site", torch.tensor(site), persistent=False)
        self.register_buffer("low", torch.tensor(low), persistent=False)
        self.register_buffer("high", torch.tensor(high), persistent=False)
        self._exact = low == high
        self.register_buffer("scale", torch.tensor(scale, dtype=dtype), persistent=False)
        self.register_buffer("shift", torch.tensor(shift, dtype=dtype), persistent=False)
        self._parts: list[tuple[slice, int | None]] = []
        begin = 0
        for d, rows_of_site in groupby(site):
            columns = slice(begin, begin + len(list(rows_of_site)))
            begin, wide = columns.stop, columns.stop - columns.start >= WIDE and space.sizes[d] <= LARGEST
            if wide or not self._parts or self._parts[-1][1] is not None:
                self._parts.append((columns, d if wide else None))
            else:
                self._parts[-1] = (slice(self._parts[-1][0].start, columns.stop), None)
        tables = [
            self.part(torch.arange(space.sizes[d]), columns).flatten() for columns, d in self._parts if d is not None
        ]
        self.register_buffer("table", torch.cat(tables) if tables else self.scale[:0], persistent=False)

    @property
    def num_features(self) -> int:
        return len(self.site)

    def forward(self, x: States) -> Features:
        """``(..., D) -> (..., F)``."""
        found, begin = [], 0
        for columns, site in self._parts:
            if site is None:
                found.append(self._compared(x.index_select(-1, self.site[columns]), columns))
                continue
            # All features of a value at once, from their table: a comparison for each takes many times as long.
            width, size = columns.stop - columns.start, self._sizes[site]
            table = self.table[begin : begin + size * width].reshape(size, width)
            found.append(functional.embedding(x[..., site].long(), table))
            begin += size * width
        return found[0] if len(found) == 1 else torch.cat(found, -1)

    def part(self, value: Tensor, columns: slice) -> Tensor:
        """The features ``columns``, all of one site, of that site's values ``(n,) -> (n, f)``."""
        return self._compared(value[:, None], columns)

    def _compared(self, value: Tensor, columns: slice) -> Tensor:
        """The features ``columns`` of values of their sites ``(..., f)``."""
        low = self.low[columns]
        hit = value == low if self._exact else (value >= low) & (value <= self.high[columns])
        return torch.addcmul(self.shift[columns], hit.to(self.scale.dtype), self.scale[columns])


def _site_rows(size: int, ordered: bool) -> list[tuple[int, int, float, float]]:
    """``(low, high, scale, shift)`` of a site's features, each ``scale · [low ≤ x ≤ high] + shift``."""
    if size == 1:
        return [(0, 0, 0.0, 0.0)]
    if size == 2:
        return [(1, 1, 2.0, -1.0)]
    # Half the scale: about half of a site's features are up at once, where one alone is for a category.
    return [(v, size, 0.5, -0.25) for v in range(1, size)] if ordered else [(v, v, 1.0, 0.0) for v in range(size)]


@dataclass(frozen=True)
class SiteLogits:
    """Reads ``Σ sizes`` outputs, site by site, as one distribution over each site's values.

    >>> logits = torch.zeros(5)
    >>> SiteLogits(Space((2, 3))).log_probs(logits).exp()
    tensor([[0.5000, 0.5000, 0.0000],
            [0.3333, 0.3333, 0.3333]])
    """

    space: Space

    @property
    def out_features(self) -> int:
        """One output for each value of each site."""
        return sum(self.space.sizes)

    def log_probs(self, outputs: Features) -> SiteTable:
        """Log-softmax over each site's values ``(..., Σ sizes) -> (..., D, V)``; -inf beyond a site's size."""
        return self._by_site(outputs).log_softmax(-1)

    def _by_site(self, outputs: Tensor) -> Tensor:
        if len(set(self.space.sizes)) == 1:  # nothing to pad
            return outputs.reshape(*outputs.shape[:-1], self.space.num_sites, self.space.sizes[0])
        column = self._columns.to(outputs.device)
        return outputs[..., column.clamp_min(0)].masked_fill(column < 0, -torch.inf)

    @cached_property
    def _columns(self) -> Tensor:
        """The output of each site's value ``(D, V)``; -1 beyond the site's size."""
        size = self.space.sizes_tensor()
        value = torch.arange(int(size.max()))
        return torch.where(value < size[:, None], (size.cumsum(0) - size)[:, None] + value, -1)


def low_precision(device: torch.device) -> torch.dtype | None:
    """bfloat16 where the device computes in it, None where it would only emulate it.

    >>> low_precision(torch.device("meta")) is None
    True
    """
    has = False
    if device.type == "cuda":
        has = torch.cuda.is_bf16_supported()
    elif device.type == "cpu":  # older versions of torch do not report it
        known: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
        has = any(known.get(name, False) for name in ("amx_bf16", "avx512_bf16"))
    return torch.bfloat16 if has else None


def lowered(mixed: bool, device: torch.device) -> torch.autocast:
    """What is computed within it is so in `low_precision`, if ``mixed`` asks for that and the device has it."""
    kind = low_precision(device) if mixed else None
    return torch.autocast(device.type, kind, enabled=kind is not None)
