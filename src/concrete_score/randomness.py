"""All randomness comes from explicit generators, each named by (seed, stream, step)."""

import hashlib
from math import prod

import numpy as np
import torch


def generator(seed: int, stream: str = "", step: int = 0, device: str | torch.device = "cpu") -> torch.Generator:
    """The generator of ``(seed, stream, step)``: the same everywhere, unrelated for any other triple.

    A resumed run asks for the next step's generator and needs no stored state.

    >>> a, b = generator(0, "batch", 7), generator(0, "batch", 7)
    >>> bool(torch.rand(3, generator=a).equal(torch.rand(3, generator=b)))
    True
    """
    key = hashlib.sha256(f"{seed}\x00{stream}\x00{step}".encode()).digest()
    return torch.Generator(device=device).manual_seed(int.from_bytes(key[:8], "big") >> 1)


def uniform(
    shape: tuple[int, ...],
    generator: torch.Generator,
    device: torch.device,
    dtype: torch.dtype = torch.float64,
) -> torch.Tensor:
    """Uniforms in [0, 1); drawn in the type asked for, since rounding one down to it could give 1."""
    return torch.rand(shape, generator=generator, dtype=dtype, device=generator.device).to(device)


MANY = 4096
"""From so many numbers on, words of a faster generator, seeded anew by the given one, cost less than its own."""


def float_uniform(shape: tuple[int, ...], generator: torch.Generator, device: torch.device) -> torch.Tensor:
    """float32 uniforms in [0, 1), multiples of 2**-24, for kernels that need one a site and step.

    PyTorch's generator of the processor takes 5 ns a number, most of the time of a lean step. Many numbers come from
    NumPy's SFC64 instead, seeded by one draw of ``generator``: as random, repeatable, and four times as fast.

    >>> g = torch.Generator().manual_seed(0)
    >>> unit = float_uniform((300, 300), g, torch.device("cpu"))
    >>> bool(unit.min() >= 0), bool(unit.max() < 1), abs(unit.mean().item() - 0.5) < 0.01
    (True, True, True)
    """
    count = prod(shape)
    if generator.device.type != "cpu" or count < MANY:
        return torch.rand(shape, generator=generator, device=generator.device).to(device)
    seed = int(torch.randint(2**63 - 1, (), generator=generator))
    words = torch.from_numpy(np.random.SFC64(seed).random_raw((count + 1) // 2).view(np.int32))[:count]
    return words.bitwise_right_shift_(8).to(torch.float32).mul_(2.0**-24).add_(0.5).reshape(shape).to(device)
