"""The step of `multi_site` on small dense pairwise models of bits, in NumPy.

Such a step is some twenty operations on a few thousand numbers, and calling them costs more than what they do. NumPy's
calls are the cheapest: a step takes about two thirds of the time of the same in PyTorch. Compiled by `torch.compile` it
took from four fifths to more than before, and on lattices as long; steps are therefore not compiled.
"""

from math import isfinite, log
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from concrete_score.randomness import fast_numbers
from concrete_score.samplers.couplings import LinearFields, MatrixCouplings

Floats = np.ndarray[Any, np.dtype[np.float32]]
Doubles = np.ndarray[Any, np.dtype[np.float64]]
MOST = 2**16
"""Sites times chains up to which calls cost more than what they compute."""


class DenseStep(NamedTuple):
    """Propose by ``log odds = log α + ½ factor · ratio``, look, accept: all sites of all chains."""

    bias: Tensor
    """``(D, 1)``."""
    matrix: Tensor
    """Couplings ``(D, D)``."""
    factor: Floats | None
    """An inverse temperature, or several that chains take in turn ``(R,)``; None for 1."""
    log_step: float

    @classmethod
    def of(cls, linear: LinearFields, step_size: float) -> "DenseStep | None":
        """None where the couplings are no matrix of bits in the processor's memory."""
        couplings = linear.couplings
        if not isinstance(couplings, MatrixCouplings) or couplings.width != 1 or linear.bias.device.type != "cpu":
            return None
        factor = None if linear.factor is None else linear.factor.float().numpy()
        return cls(linear.bias[0], linear.strength * couplings.matrix, factor, log(step_size))

    def __call__(
        self, z: Tensor, stay: Tensor, log_stay: Tensor, held: Tensor | None, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The next z, stay and log_stay, and which chains moved.

        Args:
            z: bits as floats ``(1, D, C)``.
            stay: the probability of staying ``(D, C)``.
            log_stay: ``Σ_d log stay`` ``(C,)`` in float64.
            held: very negative at clamped sites, else 0 ``(D, C)``.
        """
        rng, old = fast_numbers(generator), log_stay.numpy()
        change = rng.random(stay.shape, dtype=np.float32) >= stay.numpy()
        new = np.not_equal(z.numpy()[0], change).astype(np.float32)
        new_stay, new_log_stay = self._look(new, held)
        # What changed sites add to Q(x|y) / Q(y|x) is the density's own ratio: only the normalizers are left.
        accepted = np.log1p(-rng.random(len(old))) < new_log_stay - old
        weight = torch.from_numpy(accepted.astype(np.float32))
        return (
            torch.lerp(z, torch.from_numpy(new), weight),
            torch.lerp(stay, torch.from_numpy(new_stay), weight),
            torch.from_numpy(np.where(accepted, new_log_stay, old)),
            torch.from_numpy(accepted),
        )

    def _look(self, new: Floats, held: Tensor | None) -> tuple[Floats, Doubles]:
        """Stay and its logarithm at a state."""
        log_odds: Floats = np.subtract(0.5, new)
        log_odds *= torch.addmm(self.bias, self.matrix, torch.from_numpy(new)).numpy()
        if self.factor is not None:
            log_odds *= np.tile(self.factor, new.shape[1] // len(self.factor)) if len(self.factor) > 1 else self.factor
        log_odds += np.float32(self.log_step)
        if held is not None:
            log_odds += held.numpy()
        with np.errstate(over="ignore"):
            norm = np.exp(log_odds)
            norm += 1
            log_norm = _log_product(norm)
        if not isfinite(np.add.reduce(log_norm)):  # odds beyond what float32 holds
            log_norm = np.logaddexp(log_odds.astype(np.float64), 0).sum(0)
        return np.reciprocal(norm, out=norm), -log_norm


def _log_product(norm: Floats) -> Doubles:
    """``Σ_d log norm`` ``(D, C) -> (C,)``: logarithms are what costs, so four sites are multiplied first."""
    fours = len(norm) // 4
    product: Floats = np.multiply.reduce(norm[: 4 * fours].reshape(4, fours, norm.shape[1]))
    found: Doubles = np.add.reduce(np.log(product, out=product), dtype=np.float64)
    return found + np.log(norm[4 * fours :]).sum(0) if len(norm) % 4 else found
