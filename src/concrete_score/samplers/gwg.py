"""Gibbs-with-Gradients: single-site proposals informed by one gradient (Grathwohl et al., 2021)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from concrete_score.models.layers import draw_categories
from concrete_score.protocols import Info, State
from concrete_score.samplers import matrices
from concrete_score.samplers.balancing import find_balancing
from concrete_score.samplers.base import accept, check_log_density, check_moves, check_start, choose, pick, uniform
from concrete_score.samplers.relaxed import relax
from concrete_score.samplers.surrogates import Gradient, Local, check_density, other_index, other_values
from concrete_score.spaces import Space


@dataclass(frozen=True, eq=False)
class GibbsWithGradients:
    """Propose a change ``(d, v)`` in proportion to ``g(exp(∂_{d,v} - ∂_{d,x_d}))``, accept by the exact density.

    The gradient of the relaxed log-density guesses all ratios in one pass. Exact and reversible.

    Args:
        model: a density that `relax` knows, or a `Relaxed` one.
        balancing: a name of `BALANCING`.

    Raises:
        InputError: the model has no log-density, or none that extends to site probabilities.

    >>> from concrete_score.targets import Ising
    >>> GibbsWithGradients(Ising((1, 2), 0.5)).transition_matrix().shape
    torch.Size([4, 4])
    """

    model: Any
    balancing: str = "sqrt"

    reversible: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_density(self.model, "gwg")
        check_moves(self.model.space)
        find_balancing(self.balancing)
        self._surrogate  # noqa: B018 - built, and thereby checked, at once

    @property
    def space(self) -> Space:
        """The model's."""
        return self._surrogate.space

    def init(self, x: Any, clamped: Tensor | None = None) -> State:
        """Chains at ``x`` ``(C, D)``; one gradient."""
        states, mask = check_start(self.space, x, clamped)
        local = self._surrogate.look(states)
        return State(states, mask, Local(check_log_density(local.log_density, states), local.others))

    @torch.no_grad()
    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """One change of every chain; one gradient, at the proposals."""
        x, here = state.x, state.memory
        weights = self._log_weights(here, state.clamped)
        movable = (weights > -torch.inf).any(-1)
        weights = weights.masked_fill(~movable[:, None], 0.0)  # such a chain stays whatever is drawn
        slot = draw_categories(weights, uniform((len(x), 1), generator, x.device)).squeeze(-1)
        width = here.others.shape[-1]
        site = slot // width
        value = other_values(self.space, x).flatten(1).gather(1, slot[:, None])
        y = torch.where(movable[:, None], x.scatter(1, site[:, None], value), x)
        there = self._surrogate.look(y)
        back_weights = self._log_weights(there, state.clamped)
        back = site * width + pick(other_index(y, x), site)
        log_forward = pick(weights, slot) - weights.logsumexp(-1)
        log_backward = pick(back_weights, back) - back_weights.logsumexp(-1)
        log_accept = there.log_density - here.log_density + log_backward - log_forward
        accepted = accept(torch.where(movable, log_accept, -torch.inf), generator)
        moved = State(choose(accepted, y, x), state.clamped, choose(accepted, there, here))
        return moved, Info(accepted, self._surrogate.passes)

    def transition_matrix(self, clamped: Tensor | None = None) -> Tensor:
        """``P`` ``(S, S)``, from the gradient at every state; ``clamped`` is ``(D,)``."""
        guess = matrices.single_site_table(self.space, self._surrogate.look(self.space.enumerate()).others)
        allowed = ~guess.isnan() & matrices.same_clamped(self.space, clamped)
        weights = find_balancing(self.balancing)(guess)
        return matrices.metropolis(matrices.proposal(weights, allowed), matrices.density_log_ratios(self.model))

    def _log_weights(self, local: Local, clamped: Tensor | None) -> Tensor:
        """Of every change ``(C, D (V-1))``; -inf beyond a site's size, and at clamped sites."""
        others = local.others.double()
        weights = find_balancing(self.balancing)(others).masked_fill(others == -torch.inf, -torch.inf)
        if clamped is not None:
            weights = weights.masked_fill(clamped[..., None], -torch.inf)
        return weights.flatten(1)

    @cached_property
    def _surrogate(self) -> Gradient:
        return Gradient(relax(self.model))
