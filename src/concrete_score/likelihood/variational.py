"""The variational bound of the reverse noise chain: a lower bound for models with a denoising head.

See docs/mathematics.md, "Denoising and noise levels" and "Likelihood bounds".

The levels of a noise compose, so ``x → z_0 → … → z_{L-1}`` is a Markov chain, and the model runs it backwards: uniform
``z_{L-1}``, then ``p(z_{k-1} | z_k) = Π_d Σ_v P_d(v | z_k) q(z_{k-1,d} | z_{k,d}, v)``, and last ``x`` itself, which is
the same formula with no noise at all. For the density p of what comes out,

    log p(x) >= -KL(q(z_{L-1} | x) ‖ uniform) - Σ_k E KL(q(z_{k-1} | z_k, x) ‖ p(z_{k-1} | z_k)),   z_{-1} = x.

Every KL is a sum over sites in closed form; only the draw of ``z_k`` is random.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.likelihood.any_order import AnyOrder
from concrete_score.likelihood.exact import LogLikelihood, check_rows, mean_and_stderr
from concrete_score.noise import Absorbing, FactorizedNoise
from concrete_score.noise.factorized import bridge, reverse_log_probs
from concrete_score.samplers.gibbs import site_matrix
from concrete_score.samplers.matrices import LIMIT
from concrete_score.samplers.run import Progress
from concrete_score.shapes import PerState, PerStateTable, States

CHUNK = 2**20
"""How many sites (rows × D) are evaluated at a time."""


@dataclass(frozen=True, eq=False)
class ReverseChain:
    """A noise-conditional model as the generative chain it defines, with its bound and, where small, its density.

    Args:
        model: with ``noise``, whose levels compose, and ``clean_log_probs(x̃, level)``.

    Raises:
        InputError: no denoising head, or levels that do not compose.
    """

    model: Any

    def __post_init__(self) -> None:
        if reason := obstacle(self.model):
            raise InputError("a model with a denoising head on levels that compose", reason, where="model")

    @property
    def noise(self) -> FactorizedNoise:
        noise: FactorizedNoise = self.model.noise
        return noise

    @torch.no_grad()
    def term(self, clean: States, noisy: States, level: int) -> PerState:
        """``KL(q(z_{k-1} | z_k, x) ‖ p(z_{k-1} | z_k))`` at one level k ``(B, D), (B, D) -> (B,)``; one pass.

        At level 0 it is ``-log p(x | z_0)``.
        """
        way = self._ways[level]
        model = reverse_log_probs(self.model.clean_log_probs(noisy, level).double(), noisy, way)
        truth = reverse_log_probs(_known(clean, model.shape[-1]), noisy, way)
        # What cannot happen costs nothing, however impossible the model thinks it.
        return torch.where(truth > -torch.inf, truth.exp() * (truth - model), 0.0).sum((-2, -1))

    def prior(self, clean: States) -> PerState:
        """``KL(q(z_{L-1} | x) ‖ uniform)`` ``(B, D) -> (B,)``."""
        sizes = self.noise.space.sizes_tensor(clean.device).double()
        site = torch.arange(clean.shape[-1], device=clean.device)
        log_q = self.noise.table[-1].to(clean.device)[site, clean.long()]
        entropy = torch.where(log_q > -torch.inf, log_q.exp() * log_q, 0.0).sum(-1)
        return (entropy + sizes.log()).sum(-1)

    @torch.no_grad()
    def exact_bound(self) -> PerStateTable:
        """The bound of every state of an enumerable space, by summing over all ``z_k`` ``(S,)``."""
        states = self.noise.space.enumerate(LIMIT)
        size = len(states)
        clean, noisy = states.repeat_interleave(size, 0), states.repeat(size, 1)
        total = self.prior(states)
        for level in range(self.noise.num_levels):
            chance = self.noise.log_prob(noisy, clean, level).exp()
            total = total + (chance * self.term(clean, noisy, level)).reshape(size, size).sum(-1)
        return -total

    @torch.no_grad()
    def log_density(self) -> PerStateTable:
        """``log p(x)`` of every state of an enumerable space, by running the chain's matrices ``(S,)``."""
        space = self.noise.space
        states = space.enumerate(LIMIT)
        p = torch.full((len(states),), 1 / len(states), dtype=torch.float64)
        for level in reversed(range(self.noise.num_levels)):
            clean = self.model.clean_log_probs(states, level).double()
            p = p @ site_matrix(space, reverse_log_probs(clean, states, self._ways[level]))
        return p.log()

    def estimate(
        self, rows: States, generator: torch.Generator, draws: int, report: Callable[[int], None] | None = None
    ) -> PerState:
        """Unbiased estimates of the rows' bounds, ``draws`` passes a row over strata of levels ``(N, D) -> (N,)``.

        ``report`` is called after each draw with how many were made.
        """
        levels = self.noise.num_levels
        unit = torch.rand((draws, len(rows)), generator=generator, dtype=torch.float64, device=generator.device)
        place = (torch.arange(draws, device=unit.device)[:, None] + unit) / draws
        level = (place * levels).long().clamp_max(levels - 1).to(rows.device)
        terms = []
        for each in level:
            terms.append(self._terms(rows, each, generator))
            if report is not None:
                report(len(terms))
        return -(self.prior(rows) + levels * torch.stack(terms).mean(0))

    def _terms(self, rows: Tensor, level: Tensor, generator: torch.Generator) -> Tensor:
        """One draw of ``z`` for each row at its own level ``(N,)``; rows of a level go together."""
        noisy = self.noise.corrupt(rows, level, generator)
        found = torch.empty(len(rows), dtype=torch.float64, device=rows.device)
        step = max(1, CHUNK // rows.shape[-1])
        for each in torch.unique(level).tolist():
            for part in (level == each).nonzero().squeeze(-1).split(step):
                found[part] = self.term(rows[part], noisy[part], each)
        return found

    @cached_property
    def _ways(self) -> list[Tensor]:
        """The bridge down from each level; from level 0 to the clean value."""
        return [bridge(self.noise, level - 1 if level else None, level) for level in range(self.noise.num_levels)]


def variational(
    model: Any,
    rows: Any,
    generator: torch.Generator,
    draws: int = 8,
    progress: Progress | None = None,
    observed: Tensor | None = None,
) -> LogLikelihood:
    """A stochastic lower bound on the mean log-likelihood of the reverse noise chain of a model.

    Args:
        model: noise-conditional, or of hidden sites (`AnyOrder`).
        rows: ``(N, D)``.
        generator: the source of the noise.
        draws: passes a row, even; each half is an unbiased estimate, and their difference gives the error.
        progress: called with the draws made, and how many there are.
        observed: of a model of hidden sites, which cells count, bool ``(N, D)``.

    Returns:
        ``method="variational"`` with `lower` alone; without a bound, ``method="none"`` and a warning with the reason.

    Raises:
        InputError: rows outside the space, or an odd number of draws.

    >>> from concrete_score.models.ideal import IdealDenoiser
    >>> from concrete_score.neighborhoods import hamming
    >>> from concrete_score.noise import categorical
    >>> from concrete_score.spaces import Space
    >>> space = Space.bits(2)
    >>> ideal = IdealDenoiser.of(torch.ones(4) / 4, categorical(space, [0.9, 0.5]), hamming(space))
    >>> result = variational(ideal, [[0, 1]], torch.Generator().manual_seed(0), draws=64)
    >>> result.method, result.upper, abs(result.lower + 2 * 0.6931) < 5 * result.bound_stderr + 1e-3
    ('variational', None, True)
    """
    if not isinstance(draws, int) or draws < 2 or draws % 2:
        raise InputError("an even number of draws, at least 2", repr(draws), where="draws")
    space = getattr(getattr(model, "noise", None), "space", None)
    if reason := obstacle(model):
        states = rows if space is None else check_rows(space, rows)
        return LogLikelihood(len(states), len(states[0]), "none", warnings=(f"no bound: {reason}",))
    chain = AnyOrder(model) if isinstance(model.noise, Absorbing) else ReverseChain(model)
    states = check_rows(chain.noise.space, rows)
    halves = _two_halves(chain, states, generator, draws, progress, observed)
    mean, stderr = mean_and_stderr(halves.mean(0))
    return LogLikelihood(
        rows=len(states),
        sites=chain.noise.space.num_sites,
        method="variational",
        lower=mean,
        stderr=stderr,
        bound_stderr=float((halves[0] - halves[1]).square().sum()) ** 0.5 / (2 * len(states)),
    )


def _two_halves(
    chain: ReverseChain | AnyOrder,
    states: Any,
    generator: torch.Generator,
    draws: int,
    progress: Progress | None,
    observed: Tensor | None,
) -> Tensor:
    """Two independent estimates of every row ``(2, N)``, each from half of the draws."""
    half, report = draws // 2, progress or (lambda done, total: None)
    known = {} if observed is None else {"observed": observed}
    first = chain.estimate(states, generator, half, lambda done: report(done, draws), **known)
    second = chain.estimate(states, generator, half, lambda done: report(half + done, draws), **known)
    return torch.stack([first, second])


def obstacle(model: Any) -> str:
    """Why a model has no variational bound; empty where it has one."""
    noise = getattr(model, "noise", None)
    if isinstance(noise, Absorbing):
        return ""
    if not isinstance(noise, FactorizedNoise):
        return "the model has no noise levels, so there is no reverse chain"
    if not hasattr(model, "clean_log_probs"):
        return "only a denoising head gives the clean values' probabilities that the reverse chain is made of"
    try:
        for level in range(1, noise.num_levels):
            noise.step_log_prob(level - 1, level)
    except InputError:
        return "the noise levels do not compose, so they are no Markov chain"
    return ""


def _known(clean: Tensor, width: int) -> Float[Tensor, "*batch sites values"]:
    """The log-probabilities of a value that is known ``(..., D) -> (..., D, V)``."""
    same = clean[..., None] == torch.arange(width, device=clean.device)
    return torch.where(same, 0.0, -torch.inf).double()
