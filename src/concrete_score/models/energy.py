"""An energy: a plain network that gives an unnormalized log-density."""

import torch
from torch import nn

from concrete_score.models.layers import Dense, check_count
from concrete_score.models.sites import SiteFeatures
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space


class Energy(nn.Module):
    """``log q(x) = network(x) + constant``: ratios are exact, the constant is never known.

    Bits are read as -1 or +1, larger sites one-hot.

    Args:
        space: any space; it is never enumerated.
        hidden: the width of each hidden layer.
        activation: a name of `layers.ACTIVATIONS`.
        generator: the source of the first weights.
        dtype: of the parameters.

    >>> model = Energy(Space.bits(4), generator=torch.Generator().manual_seed(0))
    >>> model.normalized, model.log_density(torch.zeros(7, 4, dtype=torch.int64)).shape
    (False, torch.Size([7]))
    """

    def __init__(
        self,
        space: Space,
        hidden: tuple[int, ...] = (100, 100),
        activation: str = "tanh",
        *,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        for i, width in enumerate(hidden):
            check_count(width, f"hidden[{i}]")
        self.space, self.normalized = space, False
        self.features = SiteFeatures(space, dtype=dtype).to(generator.device)
        self.network = Dense([self.features.num_features, *hidden, 1], activation, generator, dtype)

    def forward(self, x: States) -> PerState:
        """`log_density`."""
        return self.log_density(x)

    def log_density(self, x: States) -> PerState:
        """``log q(x)`` up to a constant ``(..., D) -> (...)``."""
        value: PerState = self.network(self.features(x)).squeeze(-1)
        return value


energy = Energy
"""The registered name."""
