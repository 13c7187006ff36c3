"""Tables of site noise: ``log q(noisy | clean)`` for each level and site, padded to the largest site with -inf.

A table is ``(L, D, V, V)``: ``[level, site, clean, noisy]``. Where all sites are alike it is stored once and expanded
(stride 0 along sites), so 784 bits cost as much as one.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.spaces import Space

CHUNK = 2**22
"""How many numbers are worked on at a time: 32 MB of float64."""
_ROW_TOLERANCE = 1e-9
_MIX = "mix in a little uniform noise, as `categorical` does with a weight below 1"


def by_size(space: Space, log_kernel: Callable[[int], Tensor]) -> Tensor:
    """The table of a noise that depends on a site only through its size ``(L, D, V, V)``.

    Args:
        space: the space of the states.
        log_kernel: ``size -> log q(noisy | clean)`` of such a site at each level ``(L, size, size)``.

    >>> by_size(Space((1, 2)), lambda size: torch.full((1, size, size), 1 / size).log())[0, 0].tolist()
    [[0.0, -inf], [-inf, -inf]]
    """
    largest, distinct = max(space.sizes), sorted(set(space.sizes))
    kernels = [_pad(log_kernel(size), largest) for size in distinct]
    place = torch.tensor([distinct.index(size) for size in space.sizes])
    stacked = torch.stack(kernels, 1)
    return stacked.expand(-1, space.num_sites, -1, -1) if len(distinct) == 1 else stacked[:, place]


def stored_once(space: Space, table: Tensor) -> Tensor:
    """The table without repetition, float64: ``(L, 1, V, V)`` if all sites are alike, else ``(L, D, V, V)``."""
    first = table[:, :1]
    alike = len(set(space.sizes)) == 1 and (table.stride(1) == 0 or torch.equal(table, first.expand_as(table)))
    return (first if alike else table).detach().to(torch.float64, copy=True)


def inside(space: Space, num_stored: int, num_values: int) -> Tensor:
    """Which entries of a stored table belong to its site, the rest being padding ``(D or 1, V, V)``."""
    value = torch.arange(num_values) < space.sizes_tensor()[:num_stored, None]
    return value[:, :, None] & value[:, None, :]


def check_shape(space: Space, table: Tensor) -> None:
    """Refuse anything but floating-point numbers of shape ``(L, D, V, V)``."""
    largest = max(space.sizes)
    expected = (space.num_sites, largest, largest)
    if not table.is_floating_point() or table.ndim != 4 or table.shape[1:] != expected or not len(table):
        raise InputError(
            f"log-probabilities of shape (levels, {', '.join(map(str, expected))})",
            f"{table.dtype} of shape {tuple(table.shape)}",
            where="table",
            fix="index it [level, site, clean, noisy] and pad smaller sites with -inf",
        )


def check_noise(space: Space, stored: Tensor) -> None:
    """Refuse a stored table whose rows are no probabilities, hold a zero, or whose levels are out of order.

    Raises:
        InputError: naming level, site and value, and what to use instead.
    """
    wanted = inside(space, *stored.shape[1:3])
    bad = (stored.isfinite() != wanted) | stored.isnan() | (stored == torch.inf)
    if bad.any():
        place = _first(bad)
        zero = bool(wanted[place[1:]])
        raise InputError(
            "a positive probability, for ratios need one" if zero else "-inf as padding beyond a site's size",
            f"log-probability {stored[place].item():.6g}",
            where=f"table{list(place)}",
            fix=_MIX if zero else "fill it with -inf",
        )
    total = stored.logsumexp(-1).masked_fill(~wanted[..., 0], 0.0)
    if (total.abs() > _ROW_TOLERANCE).any():
        place = _first(total.abs() > _ROW_TOLERANCE)
        raise InputError(
            "a row that sums to one",
            f"{total[place].exp().item():.10g}",
            where=f"table{list(place)}",
            fix="normalize the rows, in float64",
        )
    stay = stored.diagonal(dim1=-2, dim2=-1)
    if (stay[1:] > stay[:-1]).any():
        level, site, value = _first(stay[1:] > stay[:-1])
        raise InputError(
            "levels from weakest to strongest, the probability of staying never rising",
            f"{stay[level, site, value].exp():.6g} at level {level} and more at level {level + 1}",
            where=f"table[:, {site}, {value}]",
            fix="sort the levels, weakest noise first",
        )


def in_chunks(function: Callable[..., Tensor], width: int, *rows: Tensor) -> Tensor:
    """``function`` on slices of the rows, ``width`` working numbers a row, so that memory stays bounded.

    >>> in_chunks(lambda a, b: a + b, 2**22, torch.arange(3), torch.ones(3)).tolist()
    [1.0, 2.0, 3.0]
    """
    length = max(1, CHUNK // max(1, width))
    slices = zip(*(torch.split(row, length) for row in rows), strict=True)
    return torch.cat([function(*part) for part in slices])


def _pad(log_kernel: Tensor, largest: int) -> Tensor:
    missing = largest - log_kernel.shape[-1]
    return torch.nn.functional.pad(log_kernel, (0, missing, 0, missing), value=-torch.inf)


def _first(bad: Tensor) -> tuple[int, ...]:
    return tuple(int(k) for k in bad.nonzero()[0])
