"""Each site's conditional given a few parents, counted from rows: where an autoregressive network may start."""

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

import torch
from torch import Tensor, nn

from concrete_score.errors import InputError
from concrete_score.models.layout import Layout, Step
from concrete_score.shapes import States
from concrete_score.spaces import Space

PRIOR = 1.0
"""Rows' worth of each site's marginal mixed into every conditional, so that nothing seen or unseen is impossible."""


def parents_first(parents: Sequence[Sequence[int]], space: Space) -> list[int]:
    """An order of the sites in which parents come before their children.

    Raises:
        InputError: not one list of other sites for each site, or a cycle.

    >>> parents_first([[2], [0], []], Space.bits(3))
    [2, 0, 1]
    """
    sites = range(space.num_sites)
    if len(parents) != space.num_sites or any(p not in sites or p == d for d in sites for p in parents[d]):
        raise InputError(f"for each of {space.num_sites} sites a list of other sites", repr(parents), where="parents")
    try:
        return list(TopologicalSorter({d: sorted(parents[d]) for d in sites}).static_order())
    except CycleError:
        raise InputError("parents without a cycle", repr(parents), where="parents") from None


class ParentTables(nn.Module):
    """``log p(x_d = v | parents of d)`` for all sites, in the layout of a MADE's outputs; uniform until counted.

    Args:
        space: the sites.
        parents: of each site.
        layout: of the outputs.
        dtype: of the entries.
    """

    table: Tensor
    stride: Tensor
    site: Tensor
    width: Tensor
    first: Tensor

    def __init__(self, space: Space, parents: Sequence[Sequence[int]], layout: Layout, dtype: torch.dtype) -> None:
        super().__init__()
        self.space, self.parents = space, tuple(tuple(p) for p in parents)
        stride = torch.zeros((space.num_sites, space.num_sites), dtype=torch.float64)
        cells = []
        for d, group in enumerate(self.parents):
            size = 1
            for p in group:
                stride[p, d], size = size, size * space.sizes[p]
            cells.append(size)
        columns = layout.columns()
        begins, total = [], 0
        for d, size in enumerate(cells):
            begins.append(total)
            total += size * (columns[d].stop - columns[d].start)
        self.cells = cells
        outputs = sum(part.stop - part.start for part in columns)
        site, width, first = (torch.zeros(outputs, dtype=torch.int64) for _ in range(3))
        for d, part in enumerate(columns):
            site[part], width[part] = d, part.stop - part.start
            first[part] = begins[d] + torch.arange(part.stop - part.start)
        self._begins, self._columns = begins, columns
        self.register_buffer("table", torch.zeros(total, dtype=dtype))
        for name, value in (("stride", stride), ("site", site), ("width", width), ("first", first)):
            self.register_buffer(name, value, persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        """Logits ``(N, D) -> (N, O)``."""
        # Products of small whole numbers are exact in float64, and its matrix product runs on every device.
        cell = (rows.to(self.stride.dtype) @ self.stride).long()
        return self.table[cell[:, self.site] * self.width + self.first]

    def part(self, values: Tensor, step: Step) -> Tensor:
        """Logits of one site from the sites before it ``(D, n) -> (width, n)``."""
        cell = torch.zeros_like(values[0])
        for p in self.parents[step.site]:
            cell = cell + values[p] * int(self.stride[p, step.site])
        width = step.columns.stop - step.columns.start
        start = self._begins[step.site]
        place = start + cell * width + torch.arange(width, device=cell.device)[:, None]
        return self.table[place]

    @torch.no_grad()
    def count(self, rows: States) -> None:
        """Fill the tables with the rows' own conditionals, each mixed with a little of its site's marginal."""
        cell = torch.stack([self._cell(rows, d) for d in range(self.space.num_sites)])
        for d, size in enumerate(self.space.sizes):
            counts = torch.bincount(cell[d] * size + rows[:, d].long(), minlength=self.cells[d] * size)
            counts = counts.reshape(self.cells[d], size).double()
            # Half a row more for each value: a value never seen is improbable, not impossible.
            marginal = (counts.sum(0) + 0.5) / (counts.sum() + 0.5 * size)
            chances = (counts + PRIOR * marginal) / (counts.sum(1, keepdim=True) + PRIOR)
            width = self._columns[d].stop - self._columns[d].start
            logits = chances.log() if width == size else (chances.log() - chances[:, :1].log())[:, size - width :]
            begin = self._begins[d]
            self.table[begin : begin + logits.numel()] = logits.flatten().to(self.table)

    def _cell(self, rows: States, d: int) -> Tensor:
        cell = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
        for p in self.parents[d]:
            cell += rows[:, p].long() * int(self.stride[p, d])
        return cell
