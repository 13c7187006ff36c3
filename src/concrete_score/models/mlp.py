"""The paper's score network: a shallow tanh network from a state to one output a slot (appendix C.1)."""

import torch
from torch import Tensor, nn

from concrete_score.models.layers import DEEPEST, Dense, check_count, check_level, normal_parameter
from concrete_score.models.sites import Features
from concrete_score.shapes import States
from concrete_score.spaces import Space


class MLP(nn.Module):
    """``layers`` affine maps with ``hidden`` units between them; states are scaled to [0, 1] (appendix C.1).

    With ``num_levels`` the network is told the noise level: the level's own vector is added to the first layer.

    Args:
        space: any space; a site is scaled by its size - 1, a single value is 0.
        out_features: outputs, as the head asks for.
        hidden: units between two maps.
        layers: affine maps; the paper's 3.
        activation: a name of `layers.ACTIVATIONS`; the paper's tanh.
        num_levels: how many noise levels there are; None for none.
        generator: the source of the first weights.
        dtype: of the parameters.

    >>> trunk = MLP(Space((16,)), 2, generator=torch.Generator().manual_seed(0))
    >>> trunk(torch.tensor([[0], [15]])).shape
    torch.Size([2, 2])
    """

    scale: Tensor

    def __init__(
        self,
        space: Space,
        out_features: int,
        hidden: int = 100,
        layers: int = 3,
        activation: str = "tanh",
        num_levels: int | None = None,
        *,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        check_count(hidden, "hidden")
        check_count(layers, "layers", most=DEEPEST)
        check_count(out_features, "out_features", least=0)
        self.space, self.out_features, self.num_levels = space, out_features, num_levels
        scale = 1 / (space.sizes_tensor(generator.device) - 1).clamp_min(1).to(dtype)
        self.register_buffer("scale", scale, persistent=False)
        widths = [space.num_sites, *[hidden] * (layers - 1), out_features]
        self.network = Dense(widths, activation, generator, dtype)
        if num_levels is not None:
            check_count(num_levels, "num_levels")
            self.levels = normal_parameter((num_levels, widths[1]), generator, dtype)

    def forward(self, x: States, level: int | Tensor | None = None) -> Features:
        """``(..., D) -> (..., out_features)``; ``level`` is one for all, or broadcasts against the leading axes."""
        check_level(level, self.num_levels)
        shift = None if level is None else self.levels[level]
        outputs: Tensor = self.network(x * self.scale, shift)
        return outputs
