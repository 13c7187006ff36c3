"""All randomness comes from explicit generators, each named by (seed, stream, step)."""

import hashlib

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


def random_numbers(generator: torch.Generator) -> np.random.Generator:
    """NumPy's randomness, named by the next number of a generator."""
    return np.random.default_rng(int(torch.randint(2**62, (), generator=generator, device=generator.device)))
