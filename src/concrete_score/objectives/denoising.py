"""Objectives on corrupted rows: what a model of noisy data learns from, and by which loss (paper, section 4.3).

All three corrupt a row at a drawn level. They differ in what they compare (docs/mathematics.md, "Denoising and noise
levels"): `Denoising` the model's ratios with the noise's own, `CleanValue` its posterior of each site with the clean
value, `Noisy` ratios of corrupted rows alone, as the paper trains on images.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from concrete_score import registry
from concrete_score.errors import InputError
from concrete_score.neighborhoods import hamming
from concrete_score.noise import Absorbing, FactorizedNoise
from concrete_score.objectives.bregman import BregmanObjective
from concrete_score.objectives.divergences import Bregman
from concrete_score.objectives.edges import Edges
from concrete_score.objectives.masked import HiddenValue
from concrete_score.protocols import DensityModel, Neighborhood, Noise, NoiseConditional, is_raw
from concrete_score.scores import log_ratios
from concrete_score.shapes import PerState, PerStateTable, States
from concrete_score.spaces import Space, check_same_space
from concrete_score.targets.pmf import expectation


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

    With target ratios ``r_k = q(N(x̃)_k | x) / q(x̃ | x)``, those of the *noise*, the loss is their Bregman divergence to
    the model's at ``x̃``, ``Σ_k f(r_k) + h(s_k) - r_k f'(s_k)``; for ``f = r²`` it is the paper's squared error. Its
    minimizer is, for every ``f``, the posterior mean of the ratios: the noisy distribution's own (property 1).

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
        level = _draw_levels(self.chosen_levels, x, generator)
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
            weight = pmf.repeat_interleave(len(states)) * _pair_probability(self.noise, noisy, clean, level)
            total = total + expectation(weight, self.loss(model, draws))
        return total / len(self.chosen_levels)

    def _log_ratios(self, model: Any, noisy: Tensor) -> Tensor:
        if isinstance(model, DensityModel):
            return log_ratios(model, self.neighborhood, noisy)
        return model.log_ratios(noisy)  # type: ignore[no-any-return]


class CleanDraws(NamedTuple):
    """Corrupted rows, their levels, and the rows they came from."""

    noisy: Tensor
    """``(B, D)``."""
    level: Tensor
    """``(B,)``."""
    clean: Tensor
    """``(B, D)``."""

    def rows(self, part: slice) -> "CleanDraws":
        """A slice of the batch."""
        return CleanDraws(*(value[part] for value in self))


@dataclass(frozen=True)
class CleanValue:
    """``-Σ_d log P_θ(x_d | x̃)`` at a drawn level, for a model with a denoising head.

    It is least, at every ``x̃``, where ``P_θ`` is the true posterior of each site; a denoising head then gives the noisy
    distribution's exact ratios (paper, property 1). Unlike squared errors of ratios it stays well scaled at weak noise,
    where a ratio is a small probability that must be right in proportion.

    Args:
        noise: corrupts rows.
        levels: which noise levels are drawn, uniformly; all by default.

    Raises:
        InputError: a level the noise does not have.

    >>> from concrete_score.models import mlp
    >>> from concrete_score.neighborhoods import hamming
    >>> from concrete_score.noise import categorical
    >>> space = Space((3, 3))
    >>> noise = categorical(space, (0.7, 0.5))
    >>> objective, x = CleanValue(noise), space.uniform(8, torch.Generator().manual_seed(0))
    >>> model = mlp(hamming(space), "denoising", noise, generator=torch.Generator().manual_seed(0))
    >>> objective.loss(model, objective.draw(x, torch.Generator().manual_seed(1))).shape
    torch.Size([8])
    """

    noise: Noise
    levels: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        chosen_levels(self.noise, self.levels)

    @property
    def chosen_levels(self) -> tuple[int, ...]:
        """The levels rows are corrupted at."""
        return chosen_levels(self.noise, self.levels)

    def check(self, model: Any) -> None:
        """Refuse a model without a distribution of clean values."""
        if not isinstance(model, NoiseConditional) or not hasattr(model, "clean_log_probs"):
            raise InputError(
                "a noise-conditional model with a denoising head",
                type(model).__name__,
                where="model",
                fix="build it with head='denoising' and a noise, or use the `denoising` objective",
            )
        check_same_space(model.noise.space, self.noise.space, "model and noise")

    @torch.no_grad()
    def draw(self, x: States, generator: torch.Generator, model: Any = None) -> CleanDraws:
        """A level and a corruption for each row."""
        level = _draw_levels(self.chosen_levels, x, generator)
        return CleanDraws(self.noise.corrupt(x, level, generator), level, x.long())

    def loss(self, model: Any, draws: CleanDraws) -> PerState:
        self.check(model)
        log_probs: Tensor = model.clean_log_probs(draws.noisy, draws.level)
        return -log_probs.gather(-1, draws.clean[..., None]).sum((-2, -1))

    def exact(self, model: Any, pmf: PerStateTable) -> Tensor:
        """The expectation over clean states, levels and corruptions, by enumerating all pairs of states."""
        states = self.noise.space.enumerate()
        clean, noisy = states.repeat_interleave(len(states), 0), states.repeat(len(states), 1)
        total = torch.zeros((), dtype=pmf.dtype)
        for level in self.chosen_levels:
            draws = CleanDraws(noisy, torch.full((len(noisy),), level), clean)
            weight = pmf.repeat_interleave(len(states)) * _pair_probability(self.noise, noisy, clean, level)
            total = total + expectation(weight, self.loss(model, draws))
        return total / len(self.chosen_levels)


def clean_value(
    space: Space, *, noise: Noise | None = None, levels: tuple[int, ...] | None = None, power: float = 1.0
) -> CleanValue | HiddenValue:
    """The objective under its registered name, on a space and a noise; with absorbing noise it is `HiddenValue`,
    which alone has a ``power``."""
    if noise is None:
        raise InputError("a noise for the clean_value objective", "none", where="noise", fix="try `log_snr`")
    check_same_space(space, noise.space, "space and noise")
    if isinstance(noise, Absorbing):
        return HiddenValue(noise, power)
    if power != 1.0:
        raise InputError("absorbing noise for a power", type(noise).__name__, where="objective.power")
    return CleanValue(noise, levels)


class LeveledEdges(NamedTuple):
    """Edges around corrupted rows, and the level of each row ``(B,)``."""

    level: Tensor
    edges: Edges

    def rows(self, part: slice) -> "LeveledEdges":
        """A slice of the batch."""
        return LeveledEdges(self.level[part], self.edges.rows(part))


@dataclass(frozen=True)
class Noisy:
    """An objective on edges, for a noise-conditional model, at uniformly drawn levels (paper, 4.1, 5.5 and C.4).

    A corrupted row is a draw from the noisy distribution ``p̃_l``, so J1 and J2 on corrupted rows are the plain
    objective for its ratios; no ratio of the noise is used. `Denoising` learns the same ratios with less variance.

    Args:
        objective: any ``f`` on any finite edges but `all`.
        noise: corrupts rows.
        levels: which noise levels are drawn; all by default.

    Raises:
        InputError: a level the noise does not have, or another space.

    >>> from concrete_score.models import mlp
    >>> from concrete_score.noise import categorical
    >>> space = Space.bits(4)
    >>> objective = noisy(space, noise=categorical(space, (0.8, 0.6)))
    >>> model = mlp(hamming(space), noise=objective.noise, generator=torch.Generator().manual_seed(0))
    >>> x = space.uniform(8, torch.Generator().manual_seed(0))
    >>> objective.loss(model, objective.draw(x, torch.Generator().manual_seed(1))).shape
    torch.Size([8])
    """

    objective: BregmanObjective
    noise: FactorizedNoise
    levels: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_same_space(self.noise.space, self.objective.edges.space, "noise and edges")
        chosen_levels(self.noise, self.levels)

    @property
    def chosen_levels(self) -> tuple[int, ...]:
        """The levels rows are corrupted at."""
        return chosen_levels(self.noise, self.levels)

    def check(self, model: Any) -> None:
        """Refuse a model without levels, and what the objective refuses at each."""
        if not isinstance(model, NoiseConditional):
            raise InputError(
                "a noise-conditional model", type(model).__name__, where="model", fix="build it with a noise"
            )
        self.objective.check(model.at(self.chosen_levels[0]))

    @torch.no_grad()
    def draw(self, x: States, generator: torch.Generator, model: Any = None) -> LeveledEdges:
        """A level and a corruption for each row, then edges around it."""
        level = _draw_levels(self.chosen_levels, x, generator)
        edges = self.objective.draw(self.noise.corrupt(x, level, generator), generator)
        if not isinstance(edges, Edges):
            raise InputError("edges that are drawn", "all of them at once", where="edges", fix="use `independent`")
        return LeveledEdges(level, edges)

    def loss(self, model: Any, draws: LeveledEdges) -> PerState:
        """``(B,)``, deterministic given the draws."""
        self.check(model)
        # The states of a row's edges share its level.
        return self.objective.loss(model.at(draws.level[:, None]), draws.edges)

    def exact(self, model: Any, pmf: PerStateTable) -> Tensor:
        """The mean over levels of the full objective on the exact noisy distribution."""
        self.check(model)
        parts = [
            self.objective.exact(model.at(level), self.noise.noisy_pmf(pmf, level)) for level in self.chosen_levels
        ]
        return torch.stack(parts).mean()


def noisy(
    space: Space,
    *,
    noise: FactorizedNoise | None = None,
    neighborhood: Neighborhood | None = None,
    f: str = "csm",
    edges: str = "independent",
    levels: tuple[int, ...] | None = None,
    **options: Any,
) -> Noisy:
    """`Noisy` from registered names; with independent edges J1 is the whole sum, which one pass gives."""
    if noise is None:
        raise InputError("a noise for the noisy objective", "none", where="noise", fix="try `binarized_gaussian`")
    if edges == "independent":
        options = {"full_source": True, **options}
    estimator = registry.load("edges", edges)(neighborhood or hamming(space), **options)
    return Noisy(BregmanObjective(registry.load("divergences", f), estimator), noise, levels)


def chosen_levels(noise: Noise, levels: tuple[int, ...] | None) -> tuple[int, ...]:
    """The levels named, or all of the noise's.

    Raises:
        InputError: none, or one the noise does not have.

    >>> from concrete_score.noise import categorical
    >>> from concrete_score.spaces import Space
    >>> chosen_levels(categorical(Space((2,)), (0.9, 0.5)), None)
    (0, 1)
    """
    found = tuple(range(noise.num_levels)) if levels is None else levels
    bad = [level for level in found if not 0 <= level < noise.num_levels]
    if bad or not found:
        raise InputError(f"levels from 0 to {noise.num_levels - 1}", str(bad), where="levels")
    return found


def _draw_levels(levels: tuple[int, ...], x: Tensor, generator: torch.Generator) -> Tensor:
    """One of the levels for each row, uniformly ``(B,)``."""
    choice = torch.randint(len(levels), (len(x),), generator=generator, device=generator.device)
    return torch.tensor(levels, device=x.device)[choice.to(x.device)]


def _pair_probability(noise: Noise, noisy: Tensor, clean: Tensor, level: int) -> Tensor:
    """``q(x̃ | x)`` of pairs of states ``(N,)``, as the product over sites."""
    log_prob = torch.zeros(len(noisy), dtype=torch.float64)
    for site in range(noise.space.num_sites):
        log_prob = log_prob + noise.site_log_prob(level, site)[clean[:, site], noisy[:, site]]
    return log_prob.exp()
