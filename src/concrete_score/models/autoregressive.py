"""The structure of an autoregressive network: an order of sites, who sees whom, and tables of parents to start from."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from concrete_score.errors import InputError
from concrete_score.randomness import generator as named_generator
from concrete_score.shapes import States
from concrete_score.spaces import Space

PRIORS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
"""Rows' worth of a simpler conditional that may be mixed into every conditional of a table."""
COUNTED = 2**16
"""Rows that are counted at a time."""


class Group(NamedTuple):
    """All sites of one size: their place among the sites sorted by size, and their outputs.

    A site of more than two values has one output a value, a bit has one, a single value none; the values without an
    output (the first of a bit, the only one) have the logit 0.
    """

    size: int
    first_site: int
    num_sites: int
    first_column: int

    @property
    def width(self) -> int:
        """Outputs of one site."""
        return self.size if self.size > 2 else self.size - 1

    def logits(self, outputs: Tensor) -> Tensor:
        """``(N, O) -> (N, sites, width)``."""
        part = outputs[:, self.first_column : self.first_column + self.num_sites * self.width]
        return part.reshape(outputs.shape[0], self.num_sites, self.width)

    def log_softmax(self, outputs: Tensor) -> Tensor:
        """``(N, O) -> (N, sites, size)``."""
        return functional.pad(self.logits(outputs), (self.size - self.width, 0)).log_softmax(-1)

    def log_prob(self, outputs: Tensor, sorted_rows: Tensor) -> Tensor:
        """``Σ_d log q(x_d | …)`` over the group's sites ``(N,)``."""
        x = sorted_rows[:, self.first_site : self.first_site + self.num_sites]
        if self.size == 2:  # from the one logit, half the exponentials of the general case
            return functional.logsigmoid(self.logits(outputs).squeeze(-1) * (2 * x - 1)).sum(-1)
        return self.log_softmax(outputs).gather(-1, x[..., None]).sum((-2, -1))


class Step(NamedTuple):
    """What drawing one site takes: the units that become final before it, its outputs, the features it fills."""

    site: int
    size: int
    units: slice
    columns: slice
    features: slice


@dataclass(frozen=True)
class AutoregressiveLayout:
    """Sites in an order, and ``hidden`` units of rising degree: a unit of degree m sees the first m sites.

    Args:
        space: the sites.
        hidden: units in each layer.
        seed: None is the natural order; a number is that seed's random order.
        given: the order itself.

    >>> layout = AutoregressiveLayout(Space((2, 3, 2)), hidden=4)
    >>> layout.order.tolist(), layout.degree.tolist()
    ([0, 1, 2], [1, 1, 2, 2])
    """

    space: Space
    hidden: int
    seed: int | None = None
    given: tuple[int, ...] | None = None

    @cached_property
    def order(self) -> Tensor:
        """The sites, first to last ``(D,)``."""
        if self.given is not None:
            return torch.tensor(self.given)
        if self.seed is None:
            return torch.arange(self.space.num_sites)
        return torch.randperm(self.space.num_sites, generator=named_generator(self.seed, "MADE order"))

    @cached_property
    def position(self) -> Tensor:
        """Each site's place in the order, from 1 ``(D,)``."""
        return self.order.argsort() + 1

    @cached_property
    def degree(self) -> Tensor:
        """Of each unit: rising evenly up to D - 1 ``(hidden,)``; all 0 for one site, whose units see nothing."""
        last = self.space.num_sites - 1
        return ((torch.arange(self.hidden) + 1) * last + self.hidden - 1) // self.hidden

    @cached_property
    def by_size(self) -> Tensor:
        """The sites sorted by size ``(D,)``: the order of the outputs."""
        return self.space.sizes_tensor().argsort(stable=True)

    @cached_property
    def groups(self) -> list[Group]:
        """The distinct sizes, ascending."""
        found: list[Group] = []
        site = column = 0
        for size, count in sorted(Counter(self.space.sizes).items()):
            found.append(Group(size, site, count, column))
            site, column = site + count, column + count * found[-1].width
        return found

    def read_mask(self, feature_site: Tensor) -> Tensor:
        """Which unit sees which feature, given the features' sites ``(F,) -> (hidden, F)``."""
        return self.degree[:, None] >= self.position[feature_site]

    def unit_mask(self) -> Tensor:
        """Which unit sees which unit of the layer before ``(hidden, hidden)``."""
        return self.degree[:, None] >= self.degree

    def write_mask(self) -> Tensor:
        """Which output sees which unit ``(O, hidden)``."""
        return self.position[self.by_size].repeat_interleave(self._widths)[:, None] > self.degree

    def plan(self, feature_site: Tensor) -> list[Step]:
        """One step per site of the order. Units and features are sorted by position, so all parts are slices."""
        place = torch.arange(self.space.num_sites)
        units = [0, *torch.searchsorted(self.degree, place, right=True).tolist()]
        features = [0, *torch.searchsorted(self.position[feature_site], place + 1, right=True).tolist()]
        columns = self.columns()
        parts = zip(self.order.tolist(), pairwise(units), pairwise(features), strict=True)
        return [Step(d, self.space.sizes[d], slice(*u), columns[d], slice(*f)) for d, u, f in parts]

    def columns(self) -> list[slice]:
        """The outputs of each site."""
        end = self._widths.cumsum(0)
        return [slice(*ends) for ends in torch.stack([end - self._widths, end], -1)[self.by_size.argsort()].tolist()]

    @property
    def _widths(self) -> Tensor:
        """Outputs of each site, in the order of the outputs ``(D,)``."""
        return torch.tensor([group.width for group in self.groups for _ in range(group.num_sites)])


def parents_first(parents: Sequence[Sequence[int]], space: Space, last: Sequence[int] = ()) -> list[int]:
    """An order of the sites in which parents come before their children.

    Args:
        parents: of each site.
        space: the sites.
        last: sites that come as late as can be. From the end, each place goes to the last of them whose children all
            stand behind it, if there is one.

    Raises:
        InputError: not one list of other sites for each site, or a cycle; or a site that is named twice, or is none.

    >>> parents_first([[2], [0], []], Space.bits(3))
    [2, 0, 1]
    >>> parents_first([[], [], [0], [2]], Space.bits(4), last=[1, 0])
    [0, 2, 3, 1]
    """
    sites = range(space.num_sites)
    if len(parents) != space.num_sites or any(p not in sites or p == d for d in sites for p in parents[d]):
        raise InputError(f"for each of {space.num_sites} sites a list of other sites", repr(parents), where="parents")
    if len({*last} & {*sites}) < len(last):
        raise InputError(f"different sites from 0 to {len(sites) - 1}", repr(list(last)), where="last")
    try:
        order = list(TopologicalSorter({d: sorted(parents[d]) for d in sites}).static_order())
    except CycleError:
        raise InputError("parents without a cycle", repr(parents), where="parents") from None
    return _delayed(order, parents, last) if last else order


def _delayed(order: list[int], parents: Sequence[Sequence[int]], last: Sequence[int]) -> list[int]:
    """Such an order with some sites as late as can be: from the end, the most wanted of those whose children stand."""
    wanted = {d: (-1, -place) for place, d in enumerate(order)} | {d: (-2 - k, 0) for k, d in enumerate(last)}
    children = Counter(p for group in parents for p in set(group))
    free = [(*wanted[d], d) for d in order if not children[d]]
    heapify(free)
    backwards = []
    while free:
        *_, d = heappop(free)
        backwards.append(d)
        for p in set(parents[d]):
            children[p] -= 1
            if not children[p]:
                heappush(free, (*wanted[p], p))
    return backwards[::-1]


def shrunk(counts: Tensor) -> Tensor:
    """``p(v | parents)`` from counts, each conditional drawn towards that of one parent fewer.

    With n rows of a combination c of the parents' values and m(v | c) of the combination without one parent,

        p(v | c) = (n_cv + α m(v | c)) / (n_c + α),

    α from `PRIORS` by the likelihood of each row by all others. The parent that tells least is left out first, and so
    on down to the marginal, in which each value counts half a row more: one never seen is improbable, not impossible.

    Args:
        counts: of each combination of the parents' values, and value ``(*parents, V)``.

    >>> shrunk(torch.tensor([[500.0, 500.0], [1000.0, 0.0], [0.0, 0.0]])).round(decimals=2).tolist()
    [[0.5, 0.5], [1.0, 0.0], [0.75, 0.25]]
    """
    if counts.ndim == 1:
        return (counts + 0.5) / (counts.sum() + 0.5 * len(counts))
    fewer = [counts.sum(i) for i in range(counts.ndim - 1)]
    best = max(range(len(fewer)), key=lambda i: round(_log_likelihood(fewer[i]), 9))
    simpler = shrunk(fewer[best]).unsqueeze(best).expand_as(counts)
    given = counts.sum(-1, keepdim=True)

    def by_all_others(prior: float) -> float:
        chance = ((counts - 1).clamp(min=0.0) + prior * simpler) / ((given - 1).clamp(min=0.0) + prior)
        return float((counts * chance.log()).sum())

    prior = max(PRIORS, key=by_all_others)
    return (counts + prior * simpler) / (given + prior)


def _log_likelihood(counts: Tensor) -> float:
    """The largest log-likelihood of the last axis given the others."""
    given = counts.sum(-1)
    return float(torch.special.xlogy(counts, counts).sum() - torch.special.xlogy(given, given).sum())


class ParentTables(nn.Module):
    """``log p(x_d = v | parents of d)`` for all sites, in the layout of a MADE's outputs; uniform until counted.

    Args:
        space: the sites.
        parents: of each site.
        layout: of the outputs.
        dtype: of the entries.
        pseudo_count: rows of evenly spread pseudo-data that `count` adds, as the baselines do; None draws
            each conditional towards those of fewer parents instead (`shrunk`).
    """

    table: Tensor
    parent: Tensor
    stride: Tensor
    begin: Tensor

    def __init__(
        self,
        space: Space,
        parents: Sequence[Sequence[int]],
        layout: AutoregressiveLayout,
        dtype: torch.dtype,
        pseudo_count: float | None = None,
    ) -> None:
        super().__init__()
        self.space, self.parents, self.pseudo_count = space, tuple(tuple(p) for p in parents), pseudo_count
        most = max(1, *map(len, self.parents))
        parent, stride = (torch.zeros((most, space.num_sites), dtype=torch.int64) for _ in range(2))
        self.cells = []
        for d, group in enumerate(self.parents):
            size = 1
            for i, p in enumerate(group):
                parent[i, d], stride[i, d], size = p, size, size * space.sizes[p]
            self.cells.append(size)
        self._columns, self._groups = layout.columns(), layout.groups
        self._begins, total = [], 0
        for columns, size in zip(self._columns, self.cells, strict=True):
            self._begins.append(total)
            total += size * (columns.stop - columns.start)
        self._strides = stride.T.tolist()
        self.register_buffer("table", torch.zeros(total, dtype=dtype))
        # Sorted by size, as the outputs are.
        rebuilt = {"parent": parent, "stride": stride, "begin": torch.tensor(self._begins)}
        for name, value in rebuilt.items():
            self.register_buffer(name, value[..., layout.by_size], persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        """Logits ``(N, D) -> (N, O)``."""
        cell = torch.zeros_like(rows)
        for parent, stride in zip(self.parent, self.stride, strict=True):
            cell = torch.addcmul(cell, rows.index_select(1, parent), stride)
        return torch.cat([self._lines(group, cell) for group in self._groups], 1)

    def _lines(self, group: Group, cell: Tensor) -> Tensor:
        """Logits of the sites of one size ``(N, sites · width)``, from the cells of all sites ``(N, D)``.

        A cell's logits lie in a row, so they are copied as one: far faster than each by a place of its own.
        """
        if not group.width:
            return self.table.new_zeros(cell.shape[0], 0)
        sites = slice(group.first_site, group.first_site + group.num_sites)
        place = cell[:, sites] * group.width + self.begin[sites]
        return self.table.unfold(0, group.width, 1)[place].flatten(1)

    def part(self, values: Tensor, step: Step) -> Tensor:
        """Logits of one site from the sites before it ``(D, n) -> (width, n)``."""
        cell = torch.zeros_like(values[0])
        for i, p in enumerate(self.parents[step.site]):
            cell = cell + values[p] * self._strides[step.site][i]
        width = step.columns.stop - step.columns.start
        start = self._begins[step.site]
        place = start + cell * width + torch.arange(width, device=cell.device)[:, None]
        return self.table[place]

    @torch.no_grad()
    def count(self, rows: States, observed: Tensor | None = None, weights: Tensor | None = None) -> None:
        """Fill the tables with the rows' own conditionals, smoothed.

        Args:
            rows: ``(N, D)``.
            observed: bool ``(N, D)``; a row counts where a site and all its parents are known.
            weights: as how many rows each one counts ``(N,)``.
        """
        counts = self._counts(rows, observed, weights)
        for d, size in enumerate(self.space.sizes):
            chances = self._chances(counts[d], d)
            width = self._columns[d].stop - self._columns[d].start
            logits = chances.log() if width == size else (chances.log() - chances[:, :1].log())[:, size - width :]
            begin = self._begins[d]
            self.table[begin : begin + logits.numel()] = logits.flatten().to(self.table)

    def _counts(self, rows: States, observed: Tensor | None, weights: Tensor | None) -> list[Tensor]:
        """How often each value of each site occurs with each combination of its parents' values ``(cells, size)``.

        Part by part, so that a mapped file is gone through once, and no column of it is copied.
        """
        found = [
            torch.zeros(cells * size, dtype=torch.float64, device=rows.device)
            for cells, size in zip(self.cells, self.space.sizes, strict=True)
        ]
        for start in range(0, len(rows), COUNTED):
            part = slice(start, start + COUNTED)
            columns = rows[part].T.contiguous()
            seen = None if observed is None else observed[part].T.contiguous()
            for d, total in enumerate(found):
                place = self._cell(columns, d) * self.space.sizes[d] + columns[d]
                weigh = None if weights is None else weights[part]
                if seen is not None:
                    known = seen[[d, *self.parents[d]]].all(0)
                    place, weigh = place[known], None if weigh is None else weigh[known]
                total += torch.bincount(place, weigh, minlength=len(total))
        return [total.reshape(-1, size) for total, size in zip(found, self.space.sizes, strict=True)]

    def _chances(self, counts: Tensor, d: int) -> Tensor:
        """Conditionals of a site ``(cells, V)`` from counts."""
        cells, size = counts.shape
        if self.pseudo_count is not None:
            each = self.pseudo_count / cells
            return (counts + each / size) / (counts.sum(1, keepdim=True) + each)
        # The first parent's value varies fastest among the cells.
        by_parent = counts.reshape(*(self.space.sizes[p] for p in reversed(self.parents[d])), size)
        return shrunk(by_parent).reshape(cells, size)

    def _cell(self, columns: Tensor, d: int) -> Tensor:
        """The combination of a site's parents in each row ``(D, n) -> (n,)``."""
        cell = torch.zeros(columns.shape[1], dtype=torch.int64, device=columns.device)
        for i, p in enumerate(self.parents[d]):
            cell += columns[p].long() * self._strides[d][i]
        return cell
