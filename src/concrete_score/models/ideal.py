"""The ideal denoiser: the exact noisy scores of weighted clean states, known without learning."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.models.layers import SiteTable
from concrete_score.noise import FactorizedNoise
from concrete_score.noise.tables import in_chunks
from concrete_score.protocols import Neighborhood
from concrete_score.shapes import PerSlot, PerState, PerStateTable, States
from concrete_score.spaces import Space, check_same_space


@dataclass(frozen=True, eq=False)
class IdealDenoiser:
    """What a noise-conditional network would be if training were perfect: a `NoiseConditional`.

    With clean states ``x_i`` of weight ``w_i``: ``p̃(x̃) = Σ_i w_i q(x̃ | x_i)``; its posterior gives every site's clean
    value and, as a mean of the noise's own ratios, the scores (paper, property 1). Over all states with a pmf as
    weights it is exact for that pmf; over a data set it is what a network of unlimited capacity would memorize.

    Args:
        states: clean states ``(N, D)``.
        noise: the levels.
        neighborhood: whose ratios are given.
        weights: positive, any sum ``(N,)``; equal by default.

    >>> from concrete_score.neighborhoods import hamming
    >>> from concrete_score.noise import categorical
    >>> space = Space.bits(1)
    >>> ideal = IdealDenoiser.of(torch.tensor([0.5, 0.5]), categorical(space, [0.9]), hamming(space))
    >>> ideal.clean_log_probs(torch.tensor([[0], [1]]), 0).exp()[:, 0]
    tensor([[0.9000, 0.1000],
            [0.1000, 0.9000]], dtype=torch.float64)
    """

    states: Tensor
    noise: FactorizedNoise
    neighborhood: Neighborhood
    weights: Tensor | None = None
    _log_weights: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_same_space(self.noise.space, self.neighborhood.space, "noise and neighborhood")
        states = self.noise.space.check(self.states, "states")
        weights = torch.ones(len(states)) if self.weights is None else self.weights
        if weights.shape != (len(states),) or not (weights >= 0).all() or not weights.sum() > 0:
            raise InputError(f"{len(states)} weights, not negative and not all 0", "others", where="weights")
        object.__setattr__(self, "states", states[weights > 0])
        object.__setattr__(self, "_log_weights", weights[weights > 0].double().log())

    @classmethod
    def of(cls, pmf: PerStateTable, noise: FactorizedNoise, neighborhood: Neighborhood) -> "IdealDenoiser":
        """Of a distribution over an enumerable space ``(S,)``."""
        return cls(noise.space.enumerate(), noise, neighborhood, pmf)

    @property
    def space(self) -> Space:
        return self.noise.space

    def at(self, level: int | Tensor) -> "IdealAtLevel":
        """The exact score model of one level, or of one level a row."""
        return IdealAtLevel(self, level)

    def clean_log_probs(self, x: States, level: int | Tensor) -> SiteTable:
        """``log P(x_d = v | x̃)`` ``(..., D, V)``."""
        return self.at(level).clean_log_probs(x)


@dataclass(frozen=True, eq=False)
class IdealAtLevel:
    """A `ScoreModel`: the exact noisy distribution at a level, in float64."""

    ideal: IdealDenoiser
    level: int | Tensor

    @property
    def neighborhood(self) -> Neighborhood:
        return self.ideal.neighborhood

    def log_density(self, x: States) -> PerState:
        """``log p̃(x̃)`` ``(...)``, up to the sum of the weights."""
        return self._rows(lambda rows, level: self._log_joint(rows, level).logsumexp(-1), x, 1).reshape(x.shape[:-1])

    def log_ratios(self, x: States) -> PerSlot:
        """``log p̃(N(x̃)_k) - log p̃(x̃)`` ``(..., K)``; 0.0 at invalid slots."""
        slots = self.neighborhood.num_slots

        def ratios(rows: Tensor, level: Tensor) -> Tensor:
            posterior = self._log_joint(rows, level).log_softmax(-1)
            own = self.ideal.noise.log_ratios(rows[:, None], self.ideal.states, level[:, None], self.neighborhood)
            return (posterior[..., None] + own).logsumexp(-2)

        return self._rows(ratios, x, slots).reshape(*x.shape[:-1], slots)

    def clean_log_probs(self, x: States) -> SiteTable:
        """``log P(x_d = v | x̃)`` ``(..., D, V)``; -inf where no clean state has it."""
        space = self.ideal.space
        width = max(space.sizes)
        # -inf times 0 has no value, so members are chosen, not multiplied: [state, site, value].
        member = self.ideal.states[..., None] == torch.arange(width)

        def marginals(rows: Tensor, level: Tensor) -> Tensor:
            posterior = self._log_joint(rows, level).log_softmax(-1)
            return torch.where(member, posterior[..., None, None], -torch.inf).logsumexp(1)

        found = self._rows(marginals, x, space.num_sites * width)
        return found.reshape(*x.shape, width)

    def _log_joint(self, rows: Tensor, level: Tensor) -> Tensor:
        """``log w_i q(x̃ | x_i)`` ``(B, N)``."""
        log_prob = self.ideal.noise.log_prob(rows[:, None], self.ideal.states, level[:, None])
        return log_prob + self.ideal._log_weights

    def _rows(self, function: Callable[[Tensor, Tensor], Tensor], x: Tensor, width: int) -> Tensor:
        rows = x.reshape(-1, self.ideal.space.num_sites)
        level = torch.as_tensor(self.level).expand(x.shape[:-1]).reshape(-1)
        each = len(self.ideal.states) * max(width, self.ideal.space.num_sites)
        if not len(rows):
            return function(rows, level)
        return in_chunks(function, each, rows, level)
