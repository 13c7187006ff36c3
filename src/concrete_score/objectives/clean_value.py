"""The cross-entropy of the clean value: learn each site's posterior under the noise (DESIGN M8).

``-Σ_d log P_θ(x_d | x̃)`` is least, at every ``x̃``, where ``P_θ`` is the true posterior of each site; a denoising head
then gives the noisy distribution's exact ratios (paper, property 1). Unlike squared errors of ratios it stays well
scaled at weak noise, where a ratio is a small probability that must be right in proportion.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.neighborhoods import check_same_space
from concrete_score.objectives.denoising import pair_probability
from concrete_score.objectives.expectation import expectation
from concrete_score.objectives.levels import chosen_levels
from concrete_score.protocols import Noise, NoiseConditional
from concrete_score.shapes import PerState, PerStateTable, States
from concrete_score.spaces import Space


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
        """Refuse a model that says nothing of clean values."""
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
        choice = torch.randint(len(self.chosen_levels), (len(x),), generator=generator, device=generator.device)
        level = torch.tensor(self.chosen_levels, device=x.device)[choice.to(x.device)]
        return CleanDraws(self.noise.corrupt(x, level, generator), level, x.long())

    def loss(self, model: Any, draws: CleanDraws) -> PerState:
        """``(B,)``; never negative."""
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
            weight = pmf.repeat_interleave(len(states)) * pair_probability(self.noise, noisy, clean, level)
            total = total + expectation(weight, self.loss(model, draws))
        return total / len(self.chosen_levels)


def clean_value(space: Space, *, noise: Noise | None = None, levels: tuple[int, ...] | None = None) -> CleanValue:
    """The registered builder."""
    if noise is None:
        raise InputError("a noise for the clean_value objective", "none", where="noise", fix="try `log_snr`")
    check_same_space(space, noise.space, "space and noise")
    return CleanValue(noise, levels)
