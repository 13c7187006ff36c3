"""Objectives written in a model's site conditionals ``q(ξ_i | x_\\i)``.

Pseudo-likelihood is their log-loss, on bits half of ``logistic`` on flips. Ratio matching and discrete marginalization
come as first published, where the minimizer ignores the data, and as corrected (paper, appendix D). On bits with
flips the corrected ones are known already (docs/mathematics.md, "Bits: which objectives coincide"): ratio matching is
the divergence ``f = 1 / (1 + r)``, discrete marginalization is Concrete score matching, ``s² - 2/s - 3`` a flip.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from concrete_score.errors import InputError, check_count
from concrete_score.models.completing import DRAWS, fill, leaves_blanks
from concrete_score.models.lookahead import LookAhead
from concrete_score.protocols import DensityModel, LocalFields
from concrete_score.shapes import PerState, PerStateTable, States
from concrete_score.spaces import Space, check_same_space
from concrete_score.targets.pmf import expectation

CHUNK = 2**20

SiteLoss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From log-conditionals ``(..., V)``, the site's value ``(...)`` and which values exist ``(..., V)`` to ``(...)``."""


class SiteDraws(NamedTuple):
    """Rows and the sites whose conditionals are looked at."""

    x: Tensor
    """``(B, D)``."""
    site: Tensor
    """``(B, m)``."""
    weight: Tensor
    """``(B, m)``."""
    observed: Tensor | None = None
    """Of rows with blanks that are left out of every conditional, bool ``(B, D)``."""

    def rows(self, part: slice) -> "SiteDraws":
        """A slice of the batch."""
        return SiteDraws(*(None if value is None else value[part] for value in self))  # type: ignore[arg-type]


@dataclass(frozen=True)
class SiteConditionalObjective:
    """``E_p Σ_i loss(q(· | x_\\i), x_i)``, over all sites or over ``sites`` of them drawn without replacement.

    Args:
        name: what it is called.
        site_loss: the loss of one site.
        space: the states' space.
        sites: how many sites an example looks at; all by default.
    """

    name: str
    site_loss: SiteLoss
    space: Space
    sites: int | None = None

    def __post_init__(self) -> None:
        if self.sites is not None:
            check_count(self.sites, "sites", most=self.space.num_sites)

    def check(self, model: Any) -> None:
        """Conditionals over all values of a site need a density."""
        if not isinstance(model, DensityModel):
            raise InputError(
                f"a density model for {self.name}",
                "a score model",
                where="model",
                fix="use `csm`, `logistic` or another divergence on edges",
            )
        check_same_space(model.space, self.space, "model and objective")

    @torch.no_grad()
    def draw(self, x: States, generator: torch.Generator, model: Any = None) -> SiteDraws:
        """Which sites to look at."""
        d = self.space.num_sites
        if self.sites is None or self.sites == d:
            site = torch.arange(d, device=x.device).expand(len(x), -1)
            return SiteDraws(x, site, torch.ones(site.shape, dtype=torch.float64, device=x.device))
        order = torch.rand((len(x), d), generator=generator, device=generator.device).argsort(-1).to(x.device)
        site = order[:, : self.sites]
        return SiteDraws(x, site, torch.full(site.shape, d / self.sites, dtype=torch.float64, device=x.device))

    def loss(self, model: Any, draws: SiteDraws) -> PerState:
        self.check(model)
        log_conditional, exists = site_log_conditionals(model, draws.x, draws.site, observed=draws.observed)
        own = draws.x.gather(1, draws.site).long()
        return (draws.weight * self.site_loss(log_conditional, own, exists)).sum(-1)

    def exact(self, model: Any, pmf: PerStateTable) -> Tensor:
        """The expectation over all states, all sites."""
        x = self.space.enumerate()
        site = torch.arange(self.space.num_sites).expand(len(x), -1)
        draws = SiteDraws(x, site, torch.ones(site.shape, dtype=torch.float64))
        return expectation(pmf, self.loss(model, draws))


@dataclass(frozen=True)
class PseudoLikelihood(SiteConditionalObjective):
    """``-Σ_i log q(x_i | x_\\i)``; of rows with blanks the observed sites given the other observed ones.

    Exactly that where the blanks were drawn by the model; where it leaves them out (`leaves_blanks`), as it does.
    """

    @torch.no_grad()
    def draw_observed(
        self, x: States, observed: Tensor, generator: torch.Generator, model: Any, ahead: LookAhead | None = None
    ) -> SiteDraws:
        """Which sites to look at; blanks are left out, or else filled by a draw of the model."""
        left_out = leaves_blanks(model)
        rows = x if left_out else fill(model, x, observed, DRAWS, generator, ahead).states
        found = self.draw(rows, generator, model)
        if not left_out:
            return found
        return found._replace(weight=found.weight * observed.gather(1, found.site), observed=observed)


def pseudo_likelihood(space: Space, sites: int | None = None) -> SiteConditionalObjective:
    """``-Σ_i log q(x_i | x_\\i)`` (Besag, 1975), by which Potts models of protein families are fitted."""
    return PseudoLikelihood("pseudo_likelihood", log_loss, space, sites)


def ratio_matching_multiclass(space: Space, sites: int | None = None) -> SiteConditionalObjective:
    """The corrected multi-class objective, the paper's *Ratio-fixed*."""
    return SiteConditionalObjective("ratio_matching_multiclass", ratio_loss, space, sites)


def ratio_matching_uncorrected(space: Space, sites: int | None = None) -> SiteConditionalObjective:
    """The objective as first published, the paper's *Ratio*: its minimizer ignores the data."""
    return SiteConditionalObjective("ratio_matching_uncorrected", ratio_loss_uncorrected, space, sites)


def discrete_marginalization(space: Space, sites: int | None = None) -> SiteConditionalObjective:
    """The corrected objective, the paper's *Marginal-fixed*."""
    return SiteConditionalObjective("discrete_marginalization", marginal_loss, space, sites)


def discrete_marginalization_uncorrected(space: Space, sites: int | None = None) -> SiteConditionalObjective:
    """The objective as first published, the paper's *Marginal*: its minimizer ignores the data."""
    return SiteConditionalObjective("discrete_marginalization_uncorrected", marginal_loss_uncorrected, space, sites)


def site_log_conditionals(
    model: DensityModel, x: Tensor, site: Tensor, chunk: int = CHUNK, observed: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """``log q(v | x_\\i)`` of every value at the given sites ``(B, m, V)``, and which values exist; -inf beyond.

    By formula where the model knows its local fields, which may leave blanks out (``observed``). Otherwise all values
    of a site are evaluated together; rows go in chunks, so that memory stays bounded.
    """
    if isinstance(model, LocalFields):
        fields = model.local_fields(x) if observed is None else model.local_fields(x, observed)  # type: ignore[call-arg]
        table = functional.pad(fields, (1, 0)).log_softmax(-1)
        return _at_sites(table, site), _at_sites(torch.isfinite(table.detach()), site)
    sizes = model.space.sizes_tensor(x.device)
    value = torch.arange(max(model.space.sizes), device=x.device)
    exists = value < sizes[site][..., None]
    step = max(1, chunk // (x.shape[-1] * site.shape[1] * len(value)))
    parts = []
    for start in range(0, max(1, len(x)), step):  # of no rows, one part of none
        rows, at = x[start : start + step], site[start : start + step]
        shape = (*at.shape, len(value))
        candidate = torch.minimum(value.expand(shape), sizes[at][..., None] - 1)  # beyond a site's size: masked below
        edited = rows[:, None, None].expand(*shape, -1).to(torch.int64, copy=True)
        edited.scatter_(-1, at[..., None, None].expand(*shape, 1), candidate[..., None])
        density: Tensor = model.log_density(edited)
        parts.append(density.masked_fill(~exists[start : start + step], -torch.inf).log_softmax(-1))
    return torch.cat(parts), exists


def _at_sites(table: Tensor, site: Tensor) -> Tensor:
    """The rows of a table ``(B, D, V)`` at some sites ``(B, m)``; the table itself where they are all, in order."""
    if site.shape[1] == table.shape[1] and site.stride(0) == 0:
        return table
    return table.gather(1, site[..., None].expand(*site.shape, table.shape[-1]))


def log_loss(log_q: Tensor, own: Tensor, exists: Tensor) -> Tensor:
    """``-log q(x_i | x_\\i)``."""
    return -log_q.gather(-1, own[..., None]).squeeze(-1)


def ratio_loss(log_q: Tensor, own: Tensor, exists: Tensor) -> Tensor:
    """``(1 - q(x_i | x_\\i))² + Σ_{ξ ≠ x_i} q(ξ | x_\\i)²``."""
    q = log_q.exp()
    mine = q.gather(-1, own[..., None]).squeeze(-1)
    return (1 - mine).square() + q.square().sum(-1) - mine.square()


def ratio_loss_uncorrected(log_q: Tensor, own: Tensor, exists: Tensor) -> Tensor:
    """``Σ_ξ (1 - q(ξ | x_\\i))²``: nothing in it depends on the value observed at the site."""
    return torch.where(exists, (1 - log_q.exp()).square(), 0).sum(-1)


def marginal_loss(log_q: Tensor, own: Tensor, exists: Tensor) -> Tensor:
    """``1 / q(x_i | x_\\i)² - Σ_ξ 2 / q(ξ | x_\\i)``."""
    mine = log_q.gather(-1, own[..., None]).squeeze(-1)
    return (-2 * mine).exp() - 2 * _inverse(log_q, exists).sum(-1)


def marginal_loss_uncorrected(log_q: Tensor, own: Tensor, exists: Tensor) -> Tensor:
    """``Σ_ξ (1 - 2 q) / q²``: nothing in it depends on the value observed at the site."""
    inverse = _inverse(log_q, exists)
    return (inverse.square() - 2 * inverse).sum(-1)


def _inverse(log_q: Tensor, exists: Tensor) -> Tensor:
    """``1 / q``, 0 at values that do not exist; masked before the exponential, so that gradients stay finite."""
    return torch.where(exists, (-torch.where(exists, log_q, 0)).exp(), 0)
