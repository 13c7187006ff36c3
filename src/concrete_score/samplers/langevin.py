"""Unadjusted Langevin on the triangular-noise density: simple, and biased (paper, section 3.3 and A.3)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from concrete_score.noise.triangular import Points
from concrete_score.samplers.between import BetweenStates, Place


@dataclass(frozen=True, eq=False)
class Langevin(BetweenStates):
    """``x ← x + ε ∇log p̃(x) + √(2ε) ξ``, staying where the step would leave the support. **Biased.**

    The bias comes from the finite step, from the kinks of p̃ at whole numbers and from its edge; it falls with ε. Use
    `MALA` for draws from p̃ itself. `Triangular.denoise` brings points back to states.

    Args:
        model: the noisy density, a `Triangular`.
        step_size: ε.
        max_drift: the longest pull of the score in one step. The paper's form has none (``inf``); points at the edge
            of the support are then caught there one by one, and the bias grows with time.

    >>> from concrete_score.noise import Triangular
    >>> from concrete_score.targets import sixteen_categories
    >>> kernel = Langevin(Triangular.of(sixteen_categories()), step_size=0.05)
    >>> state = kernel.init(torch.full((4, 1), 3.0, dtype=torch.float64))
    >>> kernel.step(state, torch.Generator().manual_seed(0))[0].x.shape
    torch.Size([4, 1])
    """

    step_size: float = 0.05

    def _accept(self, x: Points, here: Place, y: Points, there: Place, generator: torch.Generator) -> Tensor:
        return there.log_density > -torch.inf
