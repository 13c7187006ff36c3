"""All randomness comes from explicit generators, each named by (seed, stream, step)."""

import hashlib
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.random.bit_generator import ISeedSequence


def generator(seed: int, stream: str = "", step: int = 0, device: str | torch.device = "cpu") -> torch.Generator:
    """The generator of ``(seed, stream, step)``: the same everywhere, unrelated for any other triple.

    A resumed run asks for the next step's generator and needs no stored state.

    >>> a, b = generator(0, "batch", 7), generator(0, "batch", 7)
    >>> bool(torch.rand(3, generator=a).equal(torch.rand(3, generator=b)))
    True
    """
    return reseed(torch.Generator(device=device), seed, stream, step)


def reseed(random: torch.Generator, seed: int, stream: str = "", step: int = 0) -> torch.Generator:
    """A generator there is, turned into that of ``(seed, stream, step)``: for loops, a third of the cost of a new one.

    >>> a, b = generator(0, "batch", 7), reseed(torch.Generator(), 0, "batch", 7)
    >>> bool(torch.rand(3, generator=a).equal(torch.rand(3, generator=b)))
    True
    """
    key = hashlib.sha256(f"{seed}\x00{stream}\x00{step}".encode()).digest()
    return random.manual_seed(int.from_bytes(key[:8], "big") >> 1)


def uniform(
    shape: tuple[int, ...],
    generator: torch.Generator,
    device: torch.device,
    dtype: torch.dtype = torch.float64,
) -> torch.Tensor:
    """Uniforms in [0, 1); drawn in the type asked for, since rounding one down to it could give 1."""
    return torch.rand(shape, generator=generator, dtype=dtype, device=generator.device).to(device)


def draw_different(total: int, count: int, generator: torch.Generator) -> torch.Tensor:
    """``count`` different whole numbers below ``total``, in random order, with no memory for the others.

    >>> draw_different(10**12, 1000, torch.Generator().manual_seed(0)).unique().shape
    torch.Size([1000])
    """
    if total <= max(2**20, 4 * count):
        return torch.randperm(total, generator=generator)[:count]
    found = torch.empty(0, dtype=torch.int64)
    while len(found) < count:
        found = torch.cat([found, torch.randint(total, (count,), generator=generator)])
        # The first of equal ones stays where it is.
        order = found.argsort(stable=True)
        again = found[order][1:] == found[order][:-1]
        found = found[torch.ones(len(found), dtype=torch.bool).index_fill_(0, order[1:][again], False)]
    return found[:count]


def random_numbers(generator: torch.Generator) -> np.random.Generator:
    """NumPy's randomness, named by the next number of a generator."""
    return np.random.default_rng(int(torch.randint(2**62, (), generator=generator, device=generator.device)))


MANY = 2048
"""From so many numbers on, words of a faster generator, seeded anew by the given one, cost less than its own."""


def words(shape: tuple[int, ...], generator: torch.Generator, device: torch.device) -> torch.Tensor:
    """Uniform integers from -2**31 to 2**31 as float32, for kernels that need one a site and step.

    PyTorch's generator of the processor takes 5 ns a number, most of the time of a lean step. Many numbers come from
    NumPy's SFC64 instead, seeded by one draw of ``generator``: as random, repeatable, and four times as fast. float32
    keeps 24 of the 32 bits, so that ``words > p 2**32 - 2**31`` has probability ``1 - p`` up to 2**-24, 0 if p = 1.

    >>> found = words((300, 300), torch.Generator().manual_seed(0), torch.device("cpu"))
    >>> bool(found.abs().max() <= 2**31), abs(found.mean().item()) < 0.01 * 2**31
    (True, True)
    """
    count = prod(shape)
    if generator.device.type != "cpu" or count < MANY:
        whole = torch.randint(-(2**31), 2**31, shape, generator=generator, device=generator.device, dtype=torch.int32)
        return whole.to(device, torch.float32)
    raw = _fast_bits(generator).random_raw((count + 1) // 2).view(np.int32)
    return torch.from_numpy(raw[:count]).to(device, torch.float32).view(shape)


def fast_numbers(generator: torch.Generator) -> np.random.Generator:
    """NumPy's fastest randomness, seeded by one draw of a generator of the processor.

    >>> fast_numbers(torch.Generator().manual_seed(0)).random(3).shape
    (3,)
    """
    return np.random.Generator(_fast_bits(generator))


def _fast_bits(generator: torch.Generator) -> np.random.SFC64:
    seed = torch.randint(-(2**63), 2**63 - 1, (3,), generator=generator).numpy().view(np.uint64)
    return np.random.SFC64(_Seed(seed))  # type: ignore[arg-type]  # any seed sequence will do


class _Seed(ISeedSequence):
    """A state that is random already and need not be hashed, which would take longer than small draws."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        return self.state


def float_uniform(shape: tuple[int, ...], generator: torch.Generator, device: torch.device) -> torch.Tensor:
    """float32 uniforms in [0, 1], from `words`.

    >>> unit = float_uniform((300, 300), torch.Generator().manual_seed(0), torch.device("cpu"))
    >>> bool(unit.min() >= 0), bool(unit.max() <= 1), abs(unit.mean().item() - 0.5) < 0.01
    (True, True, True)
    """
    return words(shape, generator, device).mul_(2.0**-32).add_(0.5)
