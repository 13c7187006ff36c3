"""Denoising Concrete score matching: learn the noisy distribution's scores from the noise's own (paper, section 4.3).

With target ratios ``r_k = q(N(x̃)_k | x) / q(x̃ | x)`` the loss is their Bregman divergence to the model's at ``x̃``,
``Σ_k f(r_k) + h(s_k) - r_k f'(s_k)``; for ``f = r²`` it is the paper's squared error. For every ``f`` its minimizer is
the posterior mean of the ratios, which are the noisy distribution's (property 1). The paper's appendix writes the
conditional the wrong way round once; the target is the ratio under the *noise*.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.neighborhoods import check_same_space
from concrete_score.objectives.divergences import Bregman
from concrete_score.objectives.expectation import expectation
from concrete_score.objectives.levels import chosen_levels
from concrete_score.protocols import DensityModel, Neighborhood, Noise, NoiseConditional, is_raw
from concrete_score.scores import log_ratios
from concrete_score.shapes import PerState, PerStateTable, States


class NoisyDraws(NamedTuple):
    """Corrupted rows, their levels, and the noise's log-ratios there."""

    noisy: Tensor
    """``(B, D)``."""
    level: Tensor
    """``(B,)``."""
    target: Tensor
    """``(B, K)``: ``log q(N(x̃)_k | x) - log q(x̃ | x)``."""

    def rows(self, part: slice) -> "NoisyDraws":
        """A slice of the batch."""
        return NoisyDraws(*(value[part] for value in self))


@dataclass(frozen=True)
class Denoising:
    """D-CSM for any noise with known ratios, any ``f`` and any head.

    Args:
        divergence: the convex ``f``.
        noise: corrupts rows and knows its ratios.
        neighborhood: where ratios are matched.
        levels: which noise levels are drawn, uniformly; all by default. A plain model learns one level.

    >>> from concrete_score.models import Table
    >>> from concrete_score.neighborhoods import hamming
    >>> from concrete_score.noise import categorical
    >>> from concrete_score.objectives import divergences
    >>> from concrete_score.spaces import Space
    >>> space = Space((3, 3))
    >>> objective = Denoising(divergences.csm, categorical(space, (0.7,)), hamming(space))
    >>> x = space.uniform(8, torch.Generator().manual_seed(0))
    >>> bool((objective.loss(Table(space), objective.draw(x, torch.Generator().manual_seed(1))) >= 0).all())
    True
    """

    divergence: Bregman
    noise: Noise
    neighborhood: Neighborhood
    levels: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_same_space(self.noise.space, self.neighborhood.space, "noise and neighborhood")
        chosen_levels(self.noise, self.levels)

    @property
    def chosen_levels(self) -> tuple[int, ...]:
        """The levels rows are corrupted at."""
        return chosen_levels(self.noise, self.levels)

    def check(self, model: Any) -> None:
        """Refuse a model of one level where several are drawn, or one whose slots mean other moves."""
        if isinstance(model, NoiseConditional):
            model = model.at(self.chosen_levels[0])
        elif len(self.chosen_levels) > 1:
            raise InputError(
                "a noise-conditional model for several levels",
                f"a model of one level and {len(self.chosen_levels)} levels",
                where="model",
                fix="give levels=(k,), or a model with `.at(level)`",
            )
        if isinstance(model, DensityModel):
            check_same_space(model.space, self.neighborhood.space, "model and neighborhood")
        elif model.neighborhood != self.neighborhood:
            raise InputError("a score model of the objective's own neighborhood", "another one", where="model")
        self.divergence.check_head(model)

    @torch.no_grad()
    def draw(self, x: States, generator: torch.Generator, model: Any = None) -> NoisyDraws:
        """A level and a corruption for each row, with the noise's ratios there."""
        choice = torch.randint(len(self.chosen_levels), (len(x),), generator=generator, device=generator.device)
        level = torch.tensor(self.chosen_levels, device=x.device)[choice.to(x.device)]
        noisy = self.noise.corrupt(x, level, generator)
        return NoisyDraws(noisy, level, self.noise.log_ratios(noisy, x, level, self.neighborhood))

    def loss(self, model: Any, draws: NoisyDraws) -> PerState:
        """``Σ_k f(r_k) + h(s_k) - r_k f'(s_k)`` over valid slots ``(B,)``; never negative."""
        self.check(model)
        at_level = model.at(draws.level) if isinstance(model, NoiseConditional) else model
        valid = self.neighborhood.valid(draws.noisy)
        ratio = draws.target.exp()
        if is_raw(at_level) and self.divergence.raw is not None:
            c, (a, b) = at_level.concrete_scores(draws.noisy), self.divergence.raw
            model_terms = a(c) - ratio * b(c)
        else:
            log_ratio = self._log_ratios(at_level, draws.noisy)
            model_terms = self.divergence.a(log_ratio) - ratio * self.divergence.b(log_ratio)
        return torch.where(valid, self.divergence.f(draws.target) + model_terms, 0).sum(-1)

    def exact(self, model: Any, pmf: PerStateTable) -> Tensor:
        """The expectation over clean states, levels and corruptions, by enumerating all pairs of states."""
        states = self.neighborhood.space.enumerate()
        clean = states.repeat_interleave(len(states), 0)
        noisy = states.repeat(len(states), 1)
        total = torch.zeros((), dtype=pmf.dtype)
        for level in self.chosen_levels:
            target = self.noise.log_ratios(noisy, clean, level, self.neighborhood)
            draws = NoisyDraws(noisy, torch.full((len(noisy),), level), target)
            weight = pmf.repeat_interleave(len(states)) * pair_probability(self.noise, noisy, clean, level)
            total = total + expectation(weight, self.loss(model, draws))
        return total / len(self.chosen_levels)

    def _log_ratios(self, model: Any, noisy: Tensor) -> Tensor:
        if isinstance(model, DensityModel):
            return log_ratios(model, self.neighborhood, noisy)
        return model.log_ratios(noisy)  # type: ignore[no-any-return]


def pair_probability(noise: Noise, noisy: Tensor, clean: Tensor, level: int) -> Tensor:
    """``q(x̃ | x)`` of pairs of states ``(N,)``, as the product over sites."""
    log_prob = torch.zeros(len(noisy), dtype=torch.float64)
    for site in range(noise.space.num_sites):
        log_prob = log_prob + noise.site_log_prob(level, site)[clean[:, site], noisy[:, site]]
    return log_prob.exp()
