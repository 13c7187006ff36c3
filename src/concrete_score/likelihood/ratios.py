"""Log-ratios of rows with blanks: those of what was observed, as means over the completions of a row."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log
from typing import Any

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from concrete_score.likelihood.views import RATIOS, Views
from concrete_score.models.completing import (
    FEW,
    Weighed,
    can_draw_blanks,
    complete,
    count_completions,
    log_sum_by_row,
)
from concrete_score.models.score import DensityScore
from concrete_score.protocols import SiteNeighborhood
from concrete_score.samplers.base import all_edits
from concrete_score.samplers.completions import Impossible, RowName, row_by_number
from concrete_score.samplers.guided import Autoregressive
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space

COMPLETED = 32
"""Completions over which ratios of a row are averaged, where not all are listed."""
CONDITIONALS = 2**22
"""Conditional probabilities that are held at once."""

Fill = Callable[[int], States]
"""From a number M to so many joint draws of the blanks of every row ``(M, N, D)``."""


@dataclass(frozen=True, eq=False)
class Changes:
    """Single changes of rows, by row and then by falling log-ratio; all ``(M,)``."""

    row: Integer[Tensor, " changes"]
    site: Integer[Tensor, " changes"]
    value_from: Integer[Tensor, " changes"]
    value_to: Integer[Tensor, " changes"]
    log_ratio: Float[Tensor, " changes"]
    """``log q(changed row) - log q(row)``; -inf if the change makes it impossible."""


@torch.no_grad()
def observed_log_ratios(
    views: Views,
    x: States,
    observed: Tensor,
    wanted: SiteNeighborhood,
    generator: torch.Generator,
    fill: Fill,
    row_name: RowName = row_by_number,
) -> Float[Tensor, "rows slots"]:
    """``log q(x'_O) - log q(x_O)`` for each change of an observed cell, NaN for changes of a blank one ``(N, K)``.

        q(x'_O) / q(x_O) = E [ q(x'_O, x_U) / q(x_O, x_U) ],      x_U ~ q(· | x_O)

    Exact where all completions of a row are listed, or its blanks come last in the order of an autoregressive model,
    whose conditionals of the cells before them need none; else a mean over weighed draws of the model, or over those
    of ``fill`` for a model that has none of its own.

    Args:
        views: of the model.
        x: checked states, whatever their blank cells hold ``(N, D)``.
        observed: which cells are known, bool ``(N, D)``.
        wanted: which changes.
        generator: the source of the draws.
        fill: draws blanks for models that have no draws of their own.
        row_name: what a row is called in errors.

    Raises:
        Impossible: a row whose observed cells have probability zero.
    """
    mean = torch.empty((len(x), wanted.num_slots), dtype=torch.float64, device=x.device)
    ending = _ending(views, observed)
    chunk = max(1, CONDITIONALS // max(views.space.sizes))
    for seen in torch.unique(observed[ending], dim=0):
        rows = (ending & (observed == seen).all(1)).nonzero().squeeze(-1)
        density = Beginning(views.model, seen)
        zero = rows[density.log_density(x[rows]) == -torch.inf]
        if len(zero):
            raise Impossible(int(zero[0]), row_name=row_name)
        mean[rows] = DensityScore(density, wanted, chunk).log_ratios(x[rows]).double()
    others = (~ending).nonzero().squeeze(-1)
    if len(others):
        mean[others] = _over_completions(views, x, observed, others, wanted, generator, fill, row_name)
    return torch.where(observed.gather(1, all_edits(wanted, x)[0]), mean, torch.nan)


def top_changes(changes: SiteNeighborhood, x: States, ratio: Tensor, top: int) -> list[Tensor]:
    """The ``top`` largest ratios of each row, descending; those that are NaN, of blank cells, are left out.

    Returns:
        Row, site, value before, value after and ratio of each ``(M,)``.
    """
    blank = ratio.isnan()
    # A change that makes a row impossible is an answer, so it comes before those of blank cells.
    key = torch.where(blank, -torch.inf, ratio.clamp_min(torch.finfo(ratio.dtype).min))
    slot = key.sort(dim=-1, descending=True, stable=True).indices[:, :top]
    site, value = changes.edit(x[:, None].expand(*slot.shape, -1), slot)
    row = torch.arange(len(x), device=x.device)[:, None].expand_as(slot)
    known = ~blank.gather(1, slot)
    return [part[known] for part in (row, site, x.gather(1, site), value, ratio.gather(1, slot))]


@dataclass(frozen=True, eq=False)
class Beginning:
    """What an autoregressive model says of its first sites alone, whatever the others hold: a density of all sites.

    Args:
        model: gives the conditionals of all sites.
        seen: the first sites of its order, bool ``(D,)``.
    """

    model: Any
    seen: Tensor
    normalized: bool = False

    @property
    def space(self) -> Space:
        """The model's."""
        space: Space = self.model.space
        return space

    def log_density(self, x: States) -> PerState:
        """``Σ log q(x_d | before)`` over these sites ``(..., D) -> (...)``."""
        found = self.model.site_log_conditionals(x).gather(-1, x.long()[..., None]).squeeze(-1)
        total: Tensor = torch.where(self.seen, found, 0.0).sum(-1)
        return total


def _ending(views: Views, observed: Tensor) -> Tensor:
    """Which rows have no blank before an observed cell in the order of an autoregressive model ``(N,)``."""
    if views.score is not None or not isinstance(views.model, Autoregressive):
        return torch.zeros_like(observed[:, 0])
    known = observed[:, views.model.order]
    return ~(known[:, 1:] & ~known[:, :-1]).any(1)


def _over_completions(
    views: Views,
    x: States,
    observed: Tensor,
    rows: Tensor,
    wanted: SiteNeighborhood,
    generator: torch.Generator,
    fill: Fill,
    row_name: RowName,
) -> Tensor:
    """The means over completions of some rows; of the blank cells' changes, whatever they are."""

    def filled(draws: int) -> States:
        return fill(draws)[:, rows]

    def named(row: int) -> str:
        return row_name(int(rows[row]))

    found = _completions(views, x[rows], observed[rows], generator, filled, named)
    step = max(1, RATIOS // max(1, wanted.num_slots))
    ratios = torch.cat([views.log_ratios(part, wanted).double() for part in torch.split(found.states, step)])
    return log_sum_by_row(ratios + found.log_weight[:, None], found.row, len(rows))


def _completions(
    views: Views, x: States, observed: Tensor, generator: torch.Generator, fill: Fill, row_name: RowName
) -> Weighed:
    """Completions of rows, weighed by their probabilities given what is observed."""
    model = views.model if views.score is None and can_draw_blanks(views.model) else views.density
    few = bool((count_completions(views.space, observed) <= FEW).all())
    if model is None or not (few or can_draw_blanks(model)):
        drawn = fill(COMPLETED).transpose(0, 1)
        row = torch.arange(len(x), device=x.device).repeat_interleave(COMPLETED)
        scale = torch.full((len(row),), -log(COMPLETED), dtype=torch.float64, device=x.device)
        return Weighed(drawn.flatten(0, 1), row, scale, len(x))
    found = complete(model, x, observed, COMPLETED, generator)
    total = found.log_density
    if bool((total == -torch.inf).any()):
        raise Impossible(int((total == -torch.inf).nonzero()[0]), row_name=row_name)
    possible = found.log_weight > -torch.inf  # from a completion of probability zero no ratio leads anywhere
    share = (found.log_weight - total[found.row])[possible]
    return Weighed(found.states[possible], found.row[possible], share, found.size)


def per_cell(space: Space, x: Tensor, changes: SiteNeighborhood, log_sizes: Mapping[int, Tensor]) -> Tensor:
    """What a change of each slot adds to a log-ratio for it to be that of one cell ``(N, K)``."""
    table = torch.zeros(space.num_sites, max(space.sizes), dtype=torch.float64, device=x.device)
    for d, sizes in log_sizes.items():
        table[d, : len(sizes)] = sizes.to(table)
    slot = torch.arange(changes.num_slots, device=x.device).expand(len(x), -1)
    site, value = changes.edit(x[:, None].expand(*slot.shape, -1), slot)
    return table[site, x.gather(1, site)] - table[site, value]
