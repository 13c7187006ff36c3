"""The convex functions ``f`` that turn ratios into objectives (paper, section 4.1, and the family around it).

For strictly convex, differentiable ``f`` on ``(0, ∞)`` and ``h(s) = s f'(s) - f(s)``, the Bregman divergence between
a true ratio ``r`` and a model's ``s`` is ``f(r) + h(s) - r f'(s)``; only the last two terms depend on the model.
``f`` is data: the two functions of ``l = log s`` that objectives need, and ``f`` itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from concrete_score.errors import InputError
from concrete_score.protocols import is_raw

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Bregman:
    """One convex ``f``, in log space."""

    name: str
    f: Function
    """``f(r)`` as a function of ``log r``."""
    a: Function
    """``s f'(s) - f(s)`` as a function of ``l = log s``."""
    b: Function
    """``f'(s)`` as a function of ``l = log s``."""
    curvature: float
    """``f''(1)``: self-proposal's gradient at the proposal is ``2 f''(1)`` times maximum likelihood's."""
    bounded: bool
    """Whether ``f'`` is bounded above, so that the objective stays bounded below on samples."""
    raw: tuple[Function, Function] | None = None
    """``a`` and ``b`` as functions of ``c = s - 1`` where they make sense for negative ratios too."""

    def check_head(self, model: Any) -> None:
        """Refuse a raw head, whose ratios may be negative, where ``f`` needs positive ones."""
        if is_raw(model) and self.raw is None:
            raise InputError(
                "ratios that stay positive",
                f"a raw head, which may fall below -1, with f = {self.name}",
                where="model",
                fix="use f = csm, or a log_ratio or denoising head",
            )


def _ratio_matching_a(l: Tensor) -> Tensor:
    # σ² - 1 = -τ(1 + σ) with τ = 1 - σ: no cancellation where σ is close to one.
    return -torch.sigmoid(-l) * (1 + torch.sigmoid(l))


csm = Bregman(
    "csm",
    f=lambda l: (2 * l).exp(),
    a=lambda l: (2 * l).exp(),
    b=lambda l: 2 * l.exp(),
    curvature=2.0,
    bounded=False,
    raw=(lambda c: (1 + c).square(), lambda c: 2 * (1 + c)),
)
"""``f = r²``: Concrete score matching. ``a - r b`` is the paper's squared error up to ``r²`` (theorem 3)."""

score_entropy = Bregman(
    "score_entropy",
    f=lambda l: l.exp() * l,
    a=lambda l: l.exp(),
    b=lambda l: l + 1,
    curvature=1.0,
    bounded=False,
)
"""``f = r log r``: score entropy."""

# softplus(l) is written -logsigmoid(-l): torch rounds softplus to the identity above 20.
logistic = Bregman(
    "logistic",
    f=lambda l: l.exp() * logsigmoid(l) + logsigmoid(-l),
    a=lambda l: -logsigmoid(-l),
    b=lambda l: logsigmoid(l),
    curvature=0.5,
    bounded=True,
)
"""``f = r log r - (1 + r) log(1 + r)``: on bits with flips, twice the negative log pseudo-likelihood."""

ratio_matching = Bregman(
    "ratio_matching",
    f=lambda l: torch.sigmoid(-l),
    a=_ratio_matching_a,
    b=lambda l: -torch.sigmoid(-l).square(),
    curvature=0.25,
    bounded=True,
)
"""``f = 1 / (1 + r)``: on bits with flips, ratio matching."""
