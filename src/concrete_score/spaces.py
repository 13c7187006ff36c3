"""Finite product spaces: ``sizes[d]`` values at each of ``num_sites`` sites."""

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.shapes import Slots, States

ENUMERATION_LIMIT = 2**22
_INDEX_LIMIT = 2**62


@dataclass(frozen=True)
class Space:
    """The product space ``{0..sizes[0]-1} × … × {0..sizes[D-1]-1}``; site 0 varies slowest.

    Args:
        sizes: how many values each site takes.

    >>> space = Space((2, 3))
    >>> space.enumerate().tolist()
    [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    >>> space.index(torch.tensor([1, 0])).item()
    3
    """

    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        sizes = tuple(self.sizes)
        if not sizes:
            raise InputError("at least one site", "none", where="sizes", fix="give one size per site")
        for d, size in enumerate(sizes):
            # bool is an int in Python, but a size of True is a mistake.
            if isinstance(size, bool) or not hasattr(size, "__index__") or size.__index__() < 1:
                raise InputError(
                    "a whole number of at least 1",
                    repr(size),
                    where=f"sizes[{d}]",
                    fix="drop the site or mend it",
                )
        object.__setattr__(self, "sizes", tuple(size.__index__() for size in sizes))

    @classmethod
    def bits(cls, num_sites: int) -> "Space":
        """``num_sites`` binary sites.

        >>> Space.bits(784).num_states == 2**784
        True
        """
        return cls((2,) * num_sites)

    @property
    def num_sites(self) -> int:
        return len(self.sizes)

    @cached_property
    def num_states(self) -> int:
        """S, as an exact Python integer however large."""
        return prod(self.sizes)

    def sizes_tensor(self, device: torch.device | None = None) -> Tensor:
        """The sizes as an int64 tensor ``(D,)``."""
        return self._sizes_tensor.to(device) if device is not None else self._sizes_tensor

    def enumerate(self, limit: int = ENUMERATION_LIMIT) -> States:
        """All states in `itertools.product` order ``(S, D)``.

        Raises:
            InputError: there are more than ``limit`` states.
        """
        self.check_enumerable(limit)
        return self.state(torch.arange(self.num_states))

    def check_enumerable(self, limit: int = ENUMERATION_LIMIT) -> None:
        """Refuse, naming limit and size, to enumerate a space that is too large."""
        if self.num_states > limit:
            raise InputError(
                f"a space of at most {limit} states to enumerate",
                f"{describe_count(self.num_states)} states",
                fix="use a sampling counterpart, or raise `limit` if memory allows",
            )

    def index(self, x: States) -> Slots:
        """The position of each state in the enumeration ``(..., D) -> (...)``."""
        return (x.long() * self._strides.to(x.device)).sum(-1)

    def state(self, i: Slots) -> States:
        """The states at positions ``i`` of the enumeration ``(...) -> (..., D)``."""
        i = torch.as_tensor(i)
        return i[..., None] // self._strides.to(i.device) % self._sizes_tensor.to(i.device)

    def uniform(self, n: int, generator: torch.Generator) -> States:
        """``n`` states drawn uniformly ``(n, D)``."""
        shape, device = (n, self.num_sites), generator.device
        if len(set(self.sizes)) == 1:
            return torch.randint(self.sizes[0], shape, generator=generator, device=device)
        # float64 keeps the bias of scaling below 2**-53 per value.
        unit = torch.rand(shape, generator=generator, device=device, dtype=torch.float64)
        return (unit * self._sizes_tensor.to(device)).long()

    def check(self, x: Any, name: str = "x") -> States:
        """``x`` as an int64 tensor ``(..., D)`` of states of this space.

        Raises:
            InputError: not integers, another number of sites, or a value out of range (its place is named).

        >>> Space((2, 3)).check([[0, 3]])
        Traceback (most recent call last):
        concrete_score.errors.InputError: x[0, 1]: expected a value from 0 to 2 at site 1, got 3; ...
        """
        given = as_tensor(x, name)
        if given.dtype.is_floating_point or given.dtype.is_complex:
            raise InputError("integer states", f"{given.dtype}", where=name, fix="convert categories to integers first")
        if given.ndim == 0 or given.shape[-1] != self.num_sites:
            raise InputError(
                f"states of {self.num_sites} sites, shape (..., {self.num_sites})",
                f"shape {tuple(given.shape)}",
                where=name,
                fix="put the sites on the last axis",
            )
        states = given.long()
        bad = (states < 0) | (states >= self._sizes_tensor.to(states.device))
        if bad.any():
            place = tuple(int(k) for k in bad.nonzero()[0])
            raise InputError(
                f"a value from 0 to {self.sizes[place[-1]] - 1} at site {place[-1]}",
                str(int(states[place])),
                where=f"{name}[{', '.join(map(str, place))}]",
                fix="check the encoding of that site",
            )
        return states

    @cached_property
    def _sizes_tensor(self) -> Tensor:
        return torch.tensor(self.sizes, dtype=torch.int64)

    @cached_property
    def _strides(self) -> Tensor:
        if self.num_states > _INDEX_LIMIT:
            raise InputError(
                "a space whose states fit a 64-bit index",
                f"{describe_count(self.num_states)} states",
                fix="work on states, not on their indices",
            )
        return torch.tensor([prod(self.sizes[d + 1 :]) for d in range(self.num_sites)], dtype=torch.int64)


def as_tensor(x: Any, name: str = "x") -> Tensor:
    """Tensors, arrays and nested lists as one tensor; ragged or textual input is refused by name."""
    if isinstance(x, Tensor):
        return x
    try:
        return torch.as_tensor(x)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError("an array of numbers", f"{type(x).__name__} ({error})", where=name) from None


def describe_count(count: int) -> str:
    """A count for people: exact while short, a power of two beyond.

    >>> describe_count(6), describe_count(2**784)
    ('6', 'about 2**784')
    """
    return str(count) if count < 10**9 else f"about 2**{count.bit_length() - 1}"


def check_query(x: Any, observed: Any, space: Space) -> tuple[Tensor, Tensor]:
    """``x`` with unobserved cells set to 0, and ``observed``, both checked.

    >>> check_query([[-1, 2]], [[False, True]], Space((2, 3)))[0].tolist()
    [[0, 2]]
    """
    x, observed = as_tensor(x, "x"), as_tensor(observed, "observed")
    if observed.dtype != torch.bool or observed.shape != x.shape:
        raise InputError(
            f"booleans of the shape of x, {tuple(x.shape)}",
            f"{observed.dtype} of shape {tuple(observed.shape)}",
            where="observed",
            fix="give True for each known cell and False for each blank",
        )
    return space.check(torch.where(observed, x, torch.zeros_like(x))), observed


def check_same_space(one: Space, other: Space, what: str) -> None:
    """Refuse pieces that were built for different spaces."""
    if one != other:
        raise InputError(
            f"{what} on the same space",
            f"sizes {_short(one)} and {_short(other)}",
            fix="build both from one Space",
        )


def _short(space: Space) -> str:
    shown = ", ".join(map(str, space.sizes[:6]))
    return f"({shown}{', …' if space.num_sites > 6 else ''}) of {space.num_sites} sites"
