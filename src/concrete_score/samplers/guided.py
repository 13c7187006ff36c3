"""Autoregressive proposals under evidence that look ahead: each site is drawn with what comes after it in mind.

A site drawn in a model's order does not see the evidence on later sites, which then weigh most draws down to nothing.
Here the values of every site are multiplied by how likely the later evidence is after them: factors ``g_d(v)``, learned
from a pilot, backwards through the order (docs/mathematics.md, "Conditions"). Factors never change what the draws stand
for: their weights account for them exactly.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from concrete_score.models.layers import SiteTable, ValueTable
from concrete_score.randomness import uniform
from concrete_score.samplers.completions import Known, Rows
from concrete_score.samplers.evidence import Evidence
from concrete_score.shapes import PerState, Slots, States
from concrete_score.spaces import Space

PILOT = 1024
"""Draws from which factors are learned, in each round."""
TABLE = 2**23
"""Conditional probabilities of pilot draws (draws × sites × values) held at once, in each round."""
ROUNDS = 3
"""How often factors are learned anew, at most."""
GOOD = 0.5
"""Effective draws for each draw, beyond which no better factors are looked for."""
FACTORS, SWEEPS = 8, 3
"""Sites whose values foretell the evidence of one later site, at most; and how often each factor is fitted in turn."""
PLAIN = 0.1
"""Of the draws, the share that looks no step ahead."""
PRIOR = 4.0
"""Draws' worth of no effect in every factor."""


@runtime_checkable
class Autoregressive(Protocol):
    """A density that draws its sites in an order, each given those before it."""

    order: Any
    """The sites, first to last ``(D,)``."""

    @property
    def space(self) -> Space: ...

    def propose_among(
        self, component: Slots, generator: torch.Generator, tilts: Float[Tensor, "components sites values"]
    ) -> tuple[States, Float[Tensor, "rows components"]]:
        """Draws under one of several kinds of evidence, weighed by all; see `MADE.propose_among`."""
        ...

    def site_log_conditionals(self, x: States) -> SiteTable:
        """``log q(x_d = v | sites before d)`` ``(..., D, V)``."""
        ...


@dataclass(frozen=True, eq=False)
class Guided:
    """Proposals of ``q(x) Π_d e_d(x_d)`` by factors ``g_d(v)`` in place of the evidence.

    Draws follow ``Π_d q(x_d | before) g_d(x_d) / Z_d`` with ``Z_d = Σ_v q(v | before) g_d(v)``, and weigh

        w = Π_d Z_d e_d(x_d) / g_d(x_d),      whose mean is the probability of the evidence

    for any factors that are zero exactly where the evidence is. A share `PLAIN` of the draws has the evidence itself
    for its factors, and all are weighed as draws of the mixture: factors that miss something cannot hide it, for no
    weight is above ``1 / PLAIN`` times what it would be without factors.

    Args:
        model: draws in an order.
        evidence: what is known.
        log_factors: ``log g_d(v)`` ``(D, V)``; None looks no step ahead.
    """

    model: Autoregressive
    evidence: Evidence
    log_factors: ValueTable | None = field(default=None, repr=False)

    def draw(self, n: int, generator: torch.Generator) -> tuple[States, PerState]:
        """``n`` draws ``(n, D)`` and their log-weights ``(n,)``."""
        plain, device = self.evidence.log_weights, self.evidence.device
        component = torch.zeros(n, dtype=torch.int64, device=device)
        if self.log_factors is None:
            states, log_z = self.model.propose_among(component, generator, plain[None])
            return states, log_z[:, 0]
        component += uniform((n,), generator, device) >= PLAIN
        states, log_z = self.model.propose_among(component, generator, torch.stack([plain, self.log_factors]))
        site = torch.arange(states.shape[-1], device=device)
        ratio = torch.where(plain > -torch.inf, plain - self.log_factors, 0.0)
        under = torch.stack([log_z[:, 0], log_z[:, 1] + ratio[site, states].sum(-1)], -1)
        shares = torch.tensor([PLAIN, 1 - PLAIN], dtype=torch.float64, device=device).log()
        # 1 / Σ_k share_k / w_k: a draw's weight over the mixture of both ways to draw it.
        return states, -(shares - under).logsumexp(-1)

    def propose(self, x: Rows, observed: Known, generator: torch.Generator) -> tuple[States, PerState]:
        """`draw` as a `Propose`: as many as rows, of which nothing else is known."""
        return self.draw(len(x), generator)


@torch.no_grad()
def guided(model: Autoregressive, evidence: Evidence, generator: torch.Generator) -> Guided:
    """Proposals with factors learned from pilot draws, whichever of a few rounds counted for most.

    The pilot is thrown away, so that later draws are independent of what was learned.

    >>> from concrete_score.models import MADE
    >>> model = MADE(Space.bits(4), generator=torch.Generator().manual_seed(0))
    >>> proposals = guided(model, Evidence.of(model.space, {3: 1}), torch.Generator().manual_seed(0))
    >>> states, log_weight = proposals.draw(1000, torch.Generator().manual_seed(1))
    >>> bool((states[:, 3] == 1).all()), bool(effective_share(log_weight) > 0.4)
    (True, True)
    """
    count = max(64, min(PILOT, TABLE // evidence.log_weights.numel()))
    best = trial = Guided(model, evidence)
    most, pool = -1.0, []
    for _ in range(ROUNDS + 1):
        states, log_weight = trial.draw(count, generator)
        share = effective_share(log_weight)
        if share > most:
            best, most = trial, share
        if most >= GOOD:
            break
        pool.append((states, model.site_log_conditionals(states).double()))
        rows, table = (torch.cat(parts) for parts in zip(*pool, strict=True))
        trial = Guided(model, evidence, learn_factors(model.order.tolist(), evidence, rows, table))
    return best


def effective_share(log_weight: PerState) -> float:
    """``(Σw)² / (n Σw²)``: as how much of a draw of the target each proposal counts; 0 where none has any weight.

    >>> effective_share(torch.zeros(5)), round(effective_share(torch.tensor([0.0, -torch.inf])), 6)
    (1.0, 0.5)
    """
    if (log_weight == -torch.inf).all():
        return 0.0
    return float((2 * log_weight.logsumexp(0) - (2 * log_weight).logsumexp(0)).exp()) / len(log_weight)


def learn_factors(order: list[int], evidence: Evidence, rows: States, table: SiteTable) -> ValueTable:
    """``log g_d(v)`` from draws ``(R, D)`` and the model's conditionals there ``(R, D, V)``.

    From the last site of the order to the first: ``Z_d``, what the site's factors leave of its probability, is fitted
    by a product of factors of the sites before it, which become part of theirs. Where the fit is exact, draws all weigh
    the same.
    """
    factors = evidence.log_weights.clone()
    for place in range(len(order) - 1, 0, -1):
        site, before = order[place], order[:place]
        log_z = (table[:, site] + factors[site]).logsumexp(-1)
        factors[before] += fit_product(log_z, rows[:, before], factors.shape[-1])
    return factors


def fit_product(log_z: PerState, values: States, size: int) -> Float[Tensor, "sites values"]:
    """``Z ≈ c Π_p h_p(x_p)`` over the few sites p that tell most about Z: ``log h_p(v)`` ``(P, V)``, 0 for all others.

    Each factor in turn is scaled so that the product has the sums of Z over the rows of each value (iterative
    proportional fitting, which is Poisson regression), with `PRIOR` rows' worth of no effect.

    Args:
        log_z: ``(R,)``.
        values: of the candidates ``(R, P)``.
        size: V, the most values of a site.
    """
    found = torch.zeros(values.shape[1], size, dtype=torch.float64, device=values.device)
    top = log_z.max()
    if not top > -torch.inf:
        return found
    z = (log_z - top).exp()
    z = z / z.mean()
    spread = float((z - 1).square().mean())
    if spread < 1e-6:
        return found
    places = values.T.contiguous()
    wanted = torch.zeros_like(found).scatter_add_(1, places, z.expand(len(places), -1))
    rows = torch.zeros_like(found).scatter_add_(1, places, torch.ones_like(z).expand(len(places), -1))
    # How much of the spread of Z lies between the values of a site, less what chance alone would put there.
    between = torch.where(rows > 0, (wanted - rows).square() / rows.clamp_min(1), 0.0).sum(-1) / len(z)
    gain = between - spread * ((rows > 0).sum(-1) - 1) / len(z)
    log_fit = torch.zeros_like(z)
    chosen = [p for p in gain.argsort(descending=True)[:FACTORS].tolist() if gain[p] > 1e-3 * spread]
    for _ in range(SWEEPS):
        for p in chosen:
            fitted = torch.zeros_like(found[p]).scatter_add_(0, places[p], log_fit.exp())
            step = ((wanted[p] + PRIOR) / (fitted + PRIOR)).log()
            found[p] += step
            log_fit += step[places[p]]
    return found
