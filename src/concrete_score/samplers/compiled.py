"""The step of `multi_site` on dense pairwise models of bits as one compiled function.

Such a step is some twenty small operations, and calling them costs more than what they do: compiled into one it is
1.2 to 1.5 times as fast, after some seconds for the compiler. On lattices, where most of a step is reading neighbors,
compiling gained nothing and is not done.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from concrete_score.samplers.couplings import LinearFields, MatrixCouplings


def dense_step(
    z: Tensor,
    stay: Tensor,
    log_stay: Tensor,
    held: Tensor | None,
    drawn: Tensor,
    unit: Tensor,
    bias: Tensor,
    matrix: Tensor,
    factors: Tensor,
    log_step: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Propose, look and accept: the next z, stay, log_stay, and which chains moved.

    Args:
        z: bits as floats ``(D, C)``.
        stay: the probability of staying ``(D, C)``.
        log_stay: ``Σ_d log stay`` ``(C,)`` in float64.
        held: very negative at clamped sites, else 0 ``(D, C)``.
        drawn: `words` ``(D, C)``.
        unit: uniforms ``(C,)`` in float64.
        bias: ``(D, 1)``, and the couplings ``matrix`` ``(D, D)``.
        factors: inverse temperatures ``(C,)`` or ``(1,)``.
        log_step: ``log α``.
    """
    new = (z != (drawn > stay * 2.0**32 - 2.0**31)).to(z.dtype)
    ratios = (bias + matrix @ new) * (1 - 2 * new)
    if held is not None:
        ratios = ratios + held
    log_odds = log_step + 0.5 * factors * ratios
    small = torch.exp(-log_odds.abs())  # never overflows, however large the odds
    new_stay = torch.where(log_odds > 0, small, 1.0) / (1 + small)
    new_log_stay = -(log_odds.clamp_min(0) + torch.log1p(small)).sum(0, dtype=torch.float64)
    # What changed sites add to Q(x|y) / Q(y|x) is the density's own ratio: only the normalizers are left.
    accepted = unit.log() < new_log_stay - log_stay
    kept = (torch.where(accepted, a, b) for a, b in ((new, z), (new_stay, stay), (new_log_stay, log_stay)))
    return *kept, accepted  # type: ignore[return-value]


class Compiled:
    """A function through `torch.compile`, for fixed shapes; as it is, with a warning, where there is no compiler.

    >>> Compiled(torch.add).function is torch.add
    True
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.fast: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        if self.fast is None:
            try:
                self.fast = torch.compile(self.function, dynamic=False)
                return self.fast(*arguments)
            except RuntimeError as reason:  # what a missing or broken compiler raises
                first = str(reason).strip().splitlines()[0] if str(reason).strip() else type(reason).__name__
                warnings.warn(f"steps are not compiled ({first}); they run as they are", UserWarning, stacklevel=2)
                self.fast = self.function
        return self.fast(*arguments)


DENSE = Compiled(dense_step)
"""One for all kernels: a shape that was compiled once is not compiled again."""


def dense_parts(linear: LinearFields, log_step: float) -> tuple[Tensor, Tensor, Tensor, Tensor] | None:
    """The last four arguments of `dense_step`; None where it does not apply."""
    couplings = linear.couplings
    if not isinstance(couplings, MatrixCouplings) or couplings.width != 1:
        return None
    factor = linear.bias.new_ones(1) if linear.factor is None else linear.factor
    return linear.bias[0], linear.strength * couplings.matrix, factor, torch.tensor(log_step, device=factor.device)
