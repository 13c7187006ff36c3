"""How networks read and write sites: features of a state, and a distribution over each site's values."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor, nn

from concrete_score.shapes import States
from concrete_score.spaces import Space

Features = Float[Tensor, "*batch features"]
"""One number a feature ``(..., F)``."""

SiteTable = Float[Tensor, "*batch sites values"]
"""One number for each value of each site ``(..., D, V)``, V the largest size."""


class SiteFeatures(nn.Module):
    """States as numbers: a two-valued site is one feature, -1 or +1; a larger one is one-hot; a single value is 0.

    One feature for a bit halves a network's inputs, and its sign keeps them centered for tanh. Categories have no
    order, so larger sites are spelled out. A site of one value says nothing and keeps one silent feature, so that no
    layer is ever empty.

    Args:
        space: the states' space.
        order: the sites in the order their features appear; natural by default.
        dtype: of the features.

    >>> SiteFeatures(Space((2, 3)))(torch.tensor([[0, 2], [1, 0]])).tolist()
    [[-1.0, 0.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]]
    """

    site: Tensor
    value: Tensor
    scale: Tensor
    shift: Tensor

    def __init__(self, space: Space, order: Tensor | None = None, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        sites = range(space.num_sites) if order is None else order.tolist()
        rows = [(d, *row) for d in sites for row in _site_rows(space.sizes[d])]
        site, value, scale, shift = zip(*rows, strict=True)
        self.register_buffer("site", torch.tensor(site), persistent=False)
        self.register_buffer("value", torch.tensor(value), persistent=False)
        self.register_buffer("scale", torch.tensor(scale, dtype=dtype), persistent=False)
        self.register_buffer("shift", torch.tensor(shift, dtype=dtype), persistent=False)

    @property
    def num_features(self) -> int:
        """F."""
        return len(self.site)

    def forward(self, x: States) -> Features:
        """``(..., D) -> (..., F)``."""
        hit = x.index_select(-1, self.site) == self.value
        return torch.addcmul(self.shift, hit.to(self.scale.dtype), self.scale)

    def part(self, value: Tensor, columns: slice) -> Tensor:
        """The features ``columns``, all of one site, of that site's values ``(n,) -> (n, f)``."""
        hit = value[:, None] == self.value[columns]
        return torch.addcmul(self.shift[columns], hit.to(self.scale.dtype), self.scale[columns])


def _site_rows(size: int) -> list[tuple[int, float, float]]:
    """``(value, scale, shift)`` of a site's features, each ``scale · [x = value] + shift``."""
    if size == 1:
        return [(0, 0.0, 0.0)]
    return [(1, 2.0, -1.0)] if size == 2 else [(v, 1.0, 0.0) for v in range(size)]


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
        """Σ sizes."""
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
