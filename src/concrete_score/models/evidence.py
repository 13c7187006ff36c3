"""What the noise itself says about each clean value, added to a network's logits (DESIGN M8).

By Bayes' rule ``P(x_d = v | x̃) ∝ q_d(x̃_d | v) P(x_d = v | the other sites of x̃)``. The first factor is known; a network
whose outputs are added to its logarithm need only learn the second, which at weak noise is all the signal there is.
"""

from typing import Any

import torch
from torch import Tensor, nn

from concrete_score.errors import InputError
from concrete_score.models.heads import DenoisingHead
from concrete_score.models.sites import Features
from concrete_score.neighborhoods import check_same_space
from concrete_score.shapes import States
from concrete_score.spaces import Space


class WithEvidence(nn.Module):
    """A trunk whose outputs for site d, value v are ``trunk(x̃)_{d,v} + log q_d(x̃_d | v)``.

    A trunk that says nothing then gives the posterior of uniform data, whose noisy distribution is uniform too: its
    log-ratios are 0.

    Args:
        trunk: of as many outputs as the head reads.
        head: a denoising head on a space whose sites are all alike.

    Raises:
        InputError: sites of different sizes, or another space.

    >>> from concrete_score.models.mlp import MLP
    >>> from concrete_score.neighborhoods import hamming
    >>> from concrete_score.noise import categorical
    >>> space = Space.bits(2)
    >>> head = DenoisingHead(categorical(space, [0.75]), hamming(space))
    >>> silent = MLP(space, head.out_features, num_levels=1, generator=torch.Generator())
    >>> _ = [torch.nn.init.zeros_(p) for p in silent.parameters()]
    >>> WithEvidence(silent, head)(torch.tensor([0, 1]), 0).exp().tolist()
    [0.75, 0.25, 0.25, 0.75]
    """

    evidence: Tensor

    def __init__(self, trunk: Any, head: DenoisingHead) -> None:
        super().__init__()
        check_same_space(trunk.space, head.noise.space, "trunk and noise")
        if len(set(trunk.space.sizes)) > 1:
            raise InputError("sites of one size", "several", where="space", fix="use the trunk as it is")
        self.trunk = trunk
        dtype = next(trunk.parameters()).dtype
        # Sites that are alike share one stored table, which an expanded view keeps: [level, site, noisy, clean].
        table = head.table if head.table.stride(1) else head.table[:, :1]
        self.register_buffer("evidence", table.transpose(-2, -1).to(dtype), persistent=False)

    @property
    def space(self) -> Space:
        """The trunk's."""
        space: Space = self.trunk.space
        return space

    @property
    def out_features(self) -> int:
        """The trunk's."""
        return int(self.trunk.out_features)

    @property
    def num_levels(self) -> int | None:
        """The trunk's."""
        levels: int | None = self.trunk.num_levels
        return levels

    def forward(self, x: States, level: int | Tensor | None = None) -> Features:
        """``(..., D) -> (..., Σ sizes)``."""
        outputs: Tensor = self.trunk(x, level)
        levels = torch.as_tensor(0 if level is None else level, device=x.device)[..., None]
        site = torch.arange(x.shape[-1], device=x.device) % self.evidence.shape[1]
        told = self.evidence[levels, site, x.long()]
        return outputs + told.reshape(*told.shape[:-2], -1)
