"""Densities of single sites and pairs of sites, any sizes: Boltzmann machines, spin glasses, Potts models.

All single-site log-ratios are one product with the couplings (docs/mathematics.md, "Local fields").
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from concrete_score.errors import InputError
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space, as_tensor

DENSE = 0.1
"""The share of all pairs from which the couplings are multiplied as one matrix."""
FEW_SITES = 32
"""Below which they always are."""


class ZeroGauge(NamedTuple):
    """The same density written so that value 0 of every site has field and couplings 0."""

    constant: Tensor
    """``log q(0)``, not normalized ``()``."""
    bias: Tensor
    """``(D, V-1)``; -inf beyond a site's size."""
    blocks: Tensor
    """``(E, V-1, V-1)``."""


@dataclass(frozen=True, eq=False)
class Pairwise:
    """``log q(x) = Σ_d h_d(x_d) + Σ_{(d,e)} J_de(x_d, x_e)``, not normalized.

    Fields and couplings are tensors of one floating type; gradients flow through them, so that a trainable model holds
    them as parameters and asks this class for its density and its local fields.

    Args:
        space: any sizes, V the largest.
        fields: h ``(D, V)``; what lies beyond a site's size is ignored.
        couplings: J ``(E, V, V)``, likewise.
        edges: the pairs of sites they belong to ``(E, 2)``, each pair once, in either order.

    Raises:
        InputError: shapes that do not fit, an edge from a site to itself or given twice, numbers that are not finite.

    >>> edges, same = torch.tensor([[0, 1]]), torch.eye(3, dtype=torch.float64)[None]
    >>> model = Pairwise(Space((3, 3)), torch.zeros(3, 3).double()[:2], same, edges)
    >>> model.log_density(torch.tensor([[2, 2], [2, 1]])).tolist()
    [1.0, 0.0]
    >>> model.local_fields(torch.tensor([2, 1])).tolist()   # of values 1 and 2 against 0, given the other site
    [[1.0, 0.0], [0.0, 1.0]]
    """

    space: Space
    fields: Tensor = field(repr=False)
    couplings: Tensor = field(repr=False)
    edges: Tensor = field(repr=False)

    def __post_init__(self) -> None:
        sites, width = self.space.num_sites, max(self.space.sizes)
        edges = self.edges.long()
        object.__setattr__(self, "edges", edges)
        count = len(edges) if edges.ndim == 2 else 0
        shapes = {"fields": (sites, width), "couplings": (count, width, width), "edges": (count, 2)}
        for name, shape in shapes.items():
            if tuple(getattr(self, name).shape) != shape:
                raise InputError(f"shape {shape}", str(tuple(getattr(self, name).shape)), where=name)
        check_edges(edges, sites)
        # Beyond a site's size nothing is read, and nothing may leak into sums.
        valid = self._valid.to(self.fields.device)
        head, tail = edges.to(self.couplings.device).T
        both = valid[head][:, :, None] & valid[tail][:, None, :]
        object.__setattr__(self, "fields", torch.where(valid, self.fields, 0.0))
        object.__setattr__(self, "couplings", torch.where(both, self.couplings, 0.0))
        for name in ("fields", "couplings"):
            if not getattr(self, name).detach().isfinite().all():
                raise InputError("finite numbers", "NaN or infinity", where=name)

    @classmethod
    def of_spins(cls, fields: Any, couplings: Any, edges: Any = None) -> "Pairwise":
        """``log q(x) = Σ_d h_d s_d + Σ_(d,e) J_de s_d s_e`` over bits, with spins ``s = 2x - 1``.

        Args:
            fields: h ``(D,)``.
            couplings: J ``(E,)``; or without edges a symmetric matrix ``(D, D)``, each pair once, its diagonal unread.
            edges: ``(E, 2)``.

        >>> Pairwise.of_spins([0.0, 0.5], [[0.0, 1.0], [1.0, 0.0]]).log_density(torch.tensor([1, 1])).item()
        1.5
        """
        h, j = (as_tensor(value, name).double() for value, name in ((fields, "fields"), (couplings, "couplings")))
        if edges is None:
            if j.shape != (len(h),) * 2 or not torch.equal(j, j.T):
                raise InputError(f"a symmetric matrix {(len(h),) * 2}", f"shape {tuple(j.shape)}", where="couplings")
            edges = torch.triu_indices(*j.shape, offset=1).T
            j = j[edges[:, 0], edges[:, 1]]
        signs = torch.tensor([-1.0, 1.0], dtype=torch.float64, device=h.device)
        table = j[:, None, None] * (signs[:, None] * signs)
        return cls(Space.bits(len(h)), h[:, None] * signs, table, as_tensor(edges, "edges"))

    @property
    def normalized(self) -> bool:
        """Always false."""
        return False

    def interactions(self) -> Tensor:
        """The edges ``(E, 2)``, the smaller site first."""
        return self.edges.sort(-1).values

    def pairwise(self) -> "Pairwise":
        """Itself; other models that are pairwise give theirs."""
        return self

    def log_density(self, x: States) -> PerState:
        """``log q(x)``, not normalized ``(..., D) -> (...)``."""
        if not self.dense:
            return self._along_edges(x)
        gauge = self.gauge
        own, bias = _at(self.local_fields(x), x), _at(gauge.bias.to(x.device).expand(*x.shape, -1), x)
        # Every coupling stands in the local fields of both its ends.
        return gauge.constant.to(x.device) + (own + bias).sum(-1) / 2

    def local_fields(self, x: States) -> Tensor:
        """``log q(x_d = v | the others) - log q(x_d = 0 | the others)`` ``(..., D) -> (..., D, V-1)``."""
        bias = self.gauge.bias.to(x.device)
        flat = x.reshape(-1, x.shape[-1])
        found = self._from_matrix(flat) if self.dense else self._from_neighbors(flat)
        return (bias + found).reshape(*x.shape, bias.shape[-1])

    @property
    def dense(self) -> bool:
        """Whether the couplings are multiplied as one matrix, rather than neighbor by neighbor."""
        sites = self.space.num_sites
        return sites < FEW_SITES or max(self.space.sizes) == 1 or 2 * len(self.edges) >= DENSE * sites**2

    @cached_property
    def gauge(self) -> ZeroGauge:
        """Fields and couplings relative to value 0 of every site."""
        h, j = self.fields, self.couplings
        head, tail = self.edges.to(h.device).T
        corner = j[:, :1, :1]
        toward, onward = (j[:, :, :1] - corner).squeeze(-1), (j[:, :1, :] - corner).squeeze(-2)
        bias = (h - h[:, :1]).index_add(0, head, toward).index_add(0, tail, onward)
        blocks = j - j[:, :1, :] - j[:, :, :1] + corner
        valid = self._valid.to(h.device)
        inside = valid[head][:, 1:, None] & valid[tail][:, None, 1:]
        return ZeroGauge(
            h[:, 0].sum() + corner.sum(),
            torch.where(valid[:, 1:], bias[:, 1:], -torch.inf),
            torch.where(inside, blocks[:, 1:, 1:], 0.0),
        )

    @cached_property
    def matrix(self) -> Tensor:
        """Couplings relative to value 0 as one symmetric matrix ``(D, V-1, D, V-1)``."""
        blocks, sites, width = self.gauge.blocks, self.space.num_sites, self.gauge.bias.shape[-1]
        head, tail = self.edges.to(blocks.device).T
        whole = blocks.new_zeros(sites, sites, width, width)
        whole = whole.index_put((head, tail), blocks).index_put((tail, head), blocks.transpose(1, 2))
        return whole.permute(0, 2, 1, 3)

    @cached_property
    def neighbors(self) -> tuple[Tensor, Tensor]:
        """For each site its neighbors ``(D, K)``, K the largest degree, and couplings ``(D, K, V-1, V-1)``, 0 beyond.

        The first axis of a coupling is the site's own value.
        """
        blocks, device = self.gauge.blocks, self.gauge.blocks.device
        ends = torch.cat([self.edges, self.edges.flip(-1)]).to(device)
        table = torch.cat([blocks, blocks.transpose(1, 2)])
        order = ends[:, 0].argsort(stable=True)
        site, degree = ends[order, 0], torch.bincount(ends[:, 0], minlength=self.space.num_sites)
        place = torch.arange(len(order), device=device) - (degree.cumsum(0) - degree)[site]
        most = int(degree.max()) if len(order) else 0
        other = torch.zeros(self.space.num_sites, max(1, most), dtype=torch.int64, device=device)
        coupling = table.new_zeros(*other.shape, *table.shape[1:])
        other = other.index_put((site, place), ends[order, 1])
        return other, coupling.index_put((site, place), table[order])

    @property
    def _valid(self) -> Tensor:
        """Which values a site has ``(D, V)``."""
        return torch.arange(max(self.space.sizes)) < self.space.sizes_tensor()[:, None]

    def _along_edges(self, x: States) -> PerState:
        """``Σ_d h_d(x_d) + Σ_(d,e) J_de(x_d, x_e)``: one number a site and one an edge."""
        width = max(self.space.sizes)
        fields, couplings, (head, tail) = (part.to(x.device) for part in (self.fields, self.couplings, self.edges.T))
        sites, edges = (torch.arange(n, device=x.device) * w for n, w in ((len(fields), width), (len(head), width**2)))
        pairs = edges + x.index_select(-1, head) * width + x.index_select(-1, tail)
        return fields.flatten().take(sites + x).sum(-1) + couplings.flatten().take(pairs).sum(-1)

    def _from_matrix(self, x: Tensor) -> Tensor:
        matrix = self.matrix.to(x.device)
        width = matrix.shape[1]
        marks = functional.one_hot(x, width + 1)[..., 1:].flatten(1).to(matrix.dtype)
        return (marks @ matrix.flatten(2).flatten(0, 1)).reshape(*x.shape, width)

    def _from_neighbors(self, x: Tensor) -> Tensor:
        """One row of couplings for each neighbor's value, summed over the neighbors."""
        other, coupling = (part.to(x.device) for part in self.neighbors)
        width = coupling.shape[-1]
        rows = functional.pad(coupling.permute(0, 1, 3, 2), (0, 0, 1, 0)).reshape(-1, width)  # of value 0: nothing
        offset = torch.arange(other.numel(), device=x.device).reshape(other.shape) * (width + 1)
        index = offset + x[:, other]
        return functional.embedding_bag(index.reshape(-1, other.shape[1]), rows, mode="sum").reshape(*x.shape, width)


def check_edges(edges: Tensor, sites: int) -> None:
    """Pairs of different sites, each once.

    Raises:
        InputError: anything else, by its place.
    """
    if not len(edges):
        return
    ends = edges.sort(-1).values
    bad = (ends[:, 0] < 0) | (ends[:, 1] >= sites) | (ends[:, 0] == ends[:, 1])
    if bad.any():
        row = int(bad.nonzero()[0])
        came = str(tuple(edges[row].tolist()))
        raise InputError(f"two different sites from 0 to {sites - 1}", came, where=f"edges[{row}]")
    code = (ends[:, 0] * sites + ends[:, 1]).sort().values
    again = code[1:][code.diff() == 0]
    if len(again):
        raise InputError("each pair of sites once", f"{divmod(int(again[0]), sites)} twice", where="edges")


def _at(table: Tensor, x: Tensor) -> Tensor:
    """``table[..., d, x_d - 1]``, 0 where ``x_d = 0`` ``(..., D, V-1), (..., D) -> (..., D)``."""
    if not table.shape[-1]:
        return table.new_zeros(x.shape)
    return torch.where(x > 0, table.gather(-1, (x - 1).clamp_min(0)[..., None]).squeeze(-1), 0.0)
