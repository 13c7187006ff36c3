"""The clean-value objective under absorbing noise: masked diffusion, and any-order autoregression (Ou et al., 2025)."""

from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.noise import Absorbing
from concrete_score.randomness import uniform
from concrete_score.shapes import PerState, PerStateTable, States
from concrete_score.spaces import check_same_space
from concrete_score.targets.pmf import expectation


class HiddenDraws(NamedTuple):
    """Rows with some sites unknown, the rows themselves, and the weight of each site's log-loss."""

    noisy: Tensor
    """``(B, D)`` of the noisy space."""
    clean: Tensor
    """``(B, D)``."""
    weight: Tensor
    """``(B, D)``: (D/m)^power at the m sites hidden by the draw, else 0."""

    def rows(self, part: slice) -> "HiddenDraws":
        """A slice of the batch."""
        return HiddenDraws(*(value[part] for value in self))


@dataclass(frozen=True)
class HiddenValue:
    """``-(D/m) Σ_{d hidden} log P_θ(x_d | the visible sites)``, m uniform on 1..D, the m hidden sites at random.

    Its mean is minus the autoregressive log-likelihood averaged over all orders of the sites, so minus it is a lower
    bound on the log-likelihood of the model that draws its order first; for the exact conditionals it is the
    log-likelihood itself. Of a row with blanks, D counts what was observed: blanks are unknown and cost nothing.

    Args:
        noise: absorbing.
        power: of the weight D/m; 1 is the bound, by which any model is judged, whatever it learns by. Every power has
            the exact conditionals as its minimum, and a lower one makes steps less noisy (docs/mathematics.md).

    >>> from concrete_score import Space
    >>> from concrete_score.models.masked import IdealMasked
    >>> noise, p = Absorbing(Space.bits(2), (0.5, 0.0)), torch.tensor([0.1, 0.2, 0.3, 0.4]).double()
    >>> objective = HiddenValue(noise)
    >>> entropy = -(p * p.log()).sum()
    >>> bool(torch.isclose(objective.exact(IdealMasked.of(p, noise), p), entropy))
    True
    """

    noise: Absorbing
    power: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.power <= 1:
            raise InputError("a number from 0 to 1", repr(self.power), where="objective.power")

    @property
    def judged(self) -> "HiddenValue":
        """What a validation uses: minus the bound."""
        return replace(self, power=1.0)

    def check(self, model: Any) -> None:
        """Refuse a model that does not give the conditionals of hidden sites."""
        if not isinstance(getattr(model, "noise", None), Absorbing):
            raise InputError(
                "a model of hidden sites, such as transformer or mlp with this noise",
                type(model).__name__,
                where="model",
            )
        check_same_space(model.noise.space, self.noise.space, "model and noise")

    @torch.no_grad()
    def draw(self, x: States, generator: torch.Generator, model: Any = None) -> HiddenDraws:
        """How many sites of each row are hidden, and which."""
        return self.draw_observed(x, torch.ones_like(x, dtype=torch.bool), generator, model)

    @torch.no_grad()
    def draw_observed(
        self, x: States, observed: Tensor, generator: torch.Generator, model: Any, ahead: Any = None
    ) -> HiddenDraws:
        """The same of rows with blanks, bool ``(B, D)``; no blank is filled."""
        count = observed.sum(-1)
        # Each m is uniform; those of a batch are spread evenly, which makes the batch's loss less noisy.
        shift = uniform((1,), generator, x.device)
        place = (shift + torch.arange(len(x), device=x.device) / len(x)) % 1
        hidden = (place * count).long().clamp_max(count - 1) + 1
        key = torch.where(observed, uniform(tuple(x.shape), generator, x.device), 2.0)
        chosen = (key.argsort(-1).argsort(-1) < hidden[:, None]) & observed
        weight = chosen * (count / hidden.clamp_min(1))[:, None] ** self.power
        return HiddenDraws(self.noise.hide(x, chosen | ~observed), x.long(), weight)

    def loss(self, model: Any, draws: HiddenDraws) -> PerState:
        """``(B,)``, deterministic given the draws."""
        self.check(model)
        log_probs: Tensor = model.clean_log_probs(draws.noisy)
        own = log_probs.gather(-1, draws.clean[..., None]).squeeze(-1)
        return -torch.where(draws.weight > 0, draws.weight.to(own.dtype) * own, 0.0).sum(-1)

    def exact(self, model: Any, pmf: PerStateTable) -> Tensor:
        """The expectation over clean states and over all sets of hidden sites."""
        states = self.noise.space.enumerate()
        sites = states.shape[-1]
        total = torch.zeros((), dtype=pmf.dtype)
        for size in range(1, sites + 1):
            for chosen in combinations(range(sites), size):
                hidden = torch.zeros(sites, dtype=torch.bool)
                hidden[list(chosen)] = True
                weight = hidden.double().expand(states.shape) * (sites / size) ** self.power
                draws = HiddenDraws(self.noise.hide(states, hidden.expand(states.shape)), states, weight)
                total = total + expectation(pmf, self.loss(model, draws)) / (sites * comb(sites, size))
        return total
