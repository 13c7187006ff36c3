"""The parts of networks that read images: convolutions, residual blocks that take the noise level, attention.

Images are ``(N, C, H, W)`` in channels-last memory, where a position's channels lie together: there a norm over
channels and a 1×1 convolution touch memory once, and 3×3 convolutions are about a third faster on a CPU.
"""

from math import pi

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from concrete_score.errors import check_count
from concrete_score.models.layers import Linear, uniform_parameter

Images = Float[Tensor, "n _ _ _"]
"""``(N, C, H, W)``; only N is the same all the way."""
Condition = Float[Tensor, "m features"]
"""The condition of each image ``(N, E)``, or of all of them ``(1, E)``."""

RESIDUAL_GAIN = 0.2
"""First weights of a residual branch, as a share of a plain layer's: blocks begin near the identity, yet all learn."""


class Conv(nn.Module):
    """A convolution that keeps height and width (odd kernels), or one step a kernel (``stride = kernel``).

    Weights start uniform in ``±gain/√n``, n the numbers an output sees, from an explicit generator.

    >>> Conv(3, 8, 3, torch.Generator().manual_seed(0))(torch.zeros(2, 3, 5, 7)).shape
    torch.Size([2, 8, 5, 7])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: int,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
        *,
        stride: int = 1,
        gain: float = 1.0,
    ) -> None:
        super().__init__()
        self.stride, self.padding = stride, kernel // 2 if stride == 1 else 0
        bound = torch.tensor(gain * (in_channels * kernel**2) ** -0.5, dtype=dtype, device=generator.device)
        self.weight = uniform_parameter((out_channels, in_channels, kernel, kernel), bound, generator)
        self.bias = uniform_parameter((out_channels,), bound, generator)

    def forward(self, x: Images) -> Images:
        """``(N, C, H, W) -> (N, C', H', W')``."""
        return functional.conv2d(x, self.weight, self.bias, self.stride, self.padding)


class ChannelNorm(nn.Module):
    """Each position's channels brought to mean 0 and variance 1, then scaled and shifted by learned numbers.

    >>> x = ChannelNorm(4)(torch.arange(8.0).reshape(1, 4, 1, 2))
    >>> bool(x.mean(1).abs().max() < 1e-6)
    True
    """

    def __init__(self, channels: int, dtype: torch.dtype = torch.float32, device: torch.device | None = None) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels, dtype=dtype, device=device))
        self.shift = nn.Parameter(torch.zeros(channels, dtype=dtype, device=device))

    def forward(self, x: Images) -> Images:
        """The same shape in the same layout; in channels-last memory nothing is copied."""
        last = x.permute(0, 2, 3, 1)
        found = functional.layer_norm(last, self.scale.shape, self.scale, self.shift).permute(0, 3, 1, 2)
        return found if x.is_contiguous(memory_format=torch.channels_last) else found.contiguous()


class Block(nn.Module):
    """``x + conv(silu(film(norm(conv(silu(norm(x)))))))``: a residual block on a condition.

    The condition scales and shifts every channel (FiLM); without one the norm's own scale and shift are all there is.

    Args:
        channels: of input and output.
        features: of the condition; 0 for none.
        generator: the source of the first weights.
    """

    def __init__(
        self, channels: int, features: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__()
        device = generator.device
        self.norms = nn.ModuleList(ChannelNorm(channels, dtype, device) for _ in range(2))
        self.first = Conv(channels, channels, 3, generator, dtype)
        self.second = Conv(channels, channels, 3, generator, dtype, gain=RESIDUAL_GAIN)
        self.film = Linear(features, 2 * channels, generator, dtype) if features else None

    def forward(self, x: Images, condition: Condition | None = None) -> Images:
        """``(N, C, H, W) -> (N, C, H, W)``."""
        inner = self.norms[1](self.first(functional.silu(self.norms[0](x))))
        if self.film is not None:
            scale, shift = self.film(condition)[:, :, None, None].chunk(2, 1)
            inner = torch.addcmul(shift, inner, 1 + scale)
        moved: Tensor = self.second(functional.silu(inner))
        return x + moved


class Attention(nn.Module):
    """Every position reads every other one, so that far parts of a image agree (softmax attention, ``heads`` heads).

    Args:
        channels: a multiple of ``heads``.
    """

    def __init__(
        self, channels: int, generator: torch.Generator, dtype: torch.dtype = torch.float32, heads: int = 4
    ) -> None:
        super().__init__()
        self.heads = heads
        self.norm = ChannelNorm(channels, dtype, generator.device)
        self.read = Conv(channels, 3 * channels, 1, generator, dtype)
        self.write = Conv(channels, channels, 1, generator, dtype, gain=RESIDUAL_GAIN)

    def forward(self, x: Images) -> Images:
        """``(N, C, H, W) -> (N, C, H, W)``."""
        n, channels, height, width = x.shape
        tokens = self.read(self.norm(x)).permute(0, 2, 3, 1)
        tokens = tokens.reshape(n, height * width, 3, self.heads, channels // self.heads)
        query, key, value = tokens.permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(query, key, value)
        image = found.transpose(1, 2).reshape(n, height, width, channels).permute(0, 3, 1, 2)
        moved: Tensor = self.write(image)
        return x + moved


class LevelFeatures(nn.Module):
    """A noise level as numbers: waves of its place among the levels, then two layers; near levels look alike.

    With ``t = (level + 1/2) / L`` the waves are ``cos(π k t)``, ``k = 1 … waves``, which tell all L levels apart.

    >>> LevelFeatures(7, 16, torch.Generator().manual_seed(0))(torch.tensor([0, 6])).shape
    torch.Size([2, 16])
    """

    waves: Tensor

    def __init__(
        self, num_levels: int, features: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__()
        check_count(num_levels, "num_levels")
        place = (torch.arange(num_levels, dtype=torch.float64) + 0.5) / num_levels
        waves = torch.cos(pi * place[:, None] * torch.arange(1, features + 1))
        self.register_buffer("waves", waves.to(generator.device, dtype), persistent=False)
        self.first = Linear(features, features, generator, dtype)
        self.second = Linear(features, features, generator, dtype)

    def forward(self, level: Tensor) -> Condition:
        """``(M,) -> (M, features)``."""
        inner = functional.silu(self.first(self.waves[level]))
        return functional.silu(self.second(inner))
