"""The questions every baseline answers exactly about rows of which only some cells are known.

Throughout, ``x`` ``(..., D)`` holds the rows and ``observed`` ``(..., D)`` marks which cells are known; whatever ``x``
holds elsewhere is ignored.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from concrete_score.baselines.counts import chunk_rows
from concrete_score.errors import InputError
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space

Observed = Bool[Tensor, "*batch sites"]
"""Which cells of a row are known ``(..., D)``."""

PerValue = Float[Tensor, "*batch sites values"]
"""One number for each value of each site ``(..., D, V)``; -inf where the site lacks the value."""


@runtime_checkable
class Conditionals(Protocol):
    """A density model whose conditionals are exact: what imputing and sampling given some columns need."""

    @property
    def space(self) -> Space: ...

    def log_marginal(self, x: States, observed: Observed) -> PerState:
        """``log q(observed cells)`` ``(...)``; 0 where nothing is observed."""
        ...

    def site_log_conditionals(self, x: States, observed: Observed) -> PerValue:
        """``log q(x_d = v | observed cells)`` ``(..., D, V)``; an observed site has all its mass on its own value.

        Raises:
            InputError: a row whose observed cells have probability 0.
        """
        ...

    def sample_given(self, x: States, observed: Observed, generator: torch.Generator) -> States:
        """``x`` with its unobserved cells drawn jointly from ``q(· | observed cells)`` ``(..., D)``.

        Raises:
            InputError: a row whose observed cells have probability 0.
        """
        ...


@runtime_checkable
class Tiltable(Protocol):
    """A family of densities that stays itself under weights of single sites' values, and draws from each member."""

    @property
    def space(self) -> Space: ...

    def sample(self, n: int, generator: torch.Generator) -> States: ...

    def tilted(self, log_weights: Float[Tensor, "sites values"]) -> tuple[Any, Tensor]:
        """``q(x) Π_d e_d(x_d) / Z`` as a member of the family, and ``log Z``, from ``log e_d(v)`` ``(D, V)``.

        Where ``log Z`` is -inf there is no such distribution, and the member means nothing.
        """
        ...


def check_possible(log_marginal: PerState) -> None:
    """Refuse to condition on what cannot happen: ``log_marginal`` ``(...)`` must be finite."""
    impossible = log_marginal.isneginf()
    if impossible.any():
        place = ", ".join(str(int(k)) for k in impossible.nonzero()[0])
        raise InputError(
            "observed cells that the model gives some probability",
            "probability 0",
            where=f"x[{place}]" if place else "x",
            fix="fit with pseudo_count above 0, or leave a cell of that row unobserved",
        )


def by_rows(answer: Callable[[Tensor, Tensor], Tensor], x: Tensor, observed: Tensor, row_floats: int) -> Tensor:
    """``answer(rows, observed)`` on a bounded number of rows at a time, its leading axes those of ``x``.

    Args:
        answer: takes ``(n, D)`` twice and gives ``(n, ...)``.
        row_floats: how many floats one row expands to inside ``answer``.
    """
    size, sites = chunk_rows(row_floats), x.shape[-1]
    rows, seen = torch.split(x.reshape(-1, sites), size), torch.split(observed.reshape(-1, sites), size)
    whole = torch.cat([answer(*part) for part in zip(rows, seen, strict=True)])
    return whole.reshape(x.shape[:-1] + whole.shape[1:])


def point_masses(x: Tensor, num_values: int) -> Tensor:
    """0 at each cell's own value and -inf at all others ``(..., D, V)``.

    >>> point_masses(torch.tensor([[1, 0]]), 2).tolist()
    [[[-inf, 0.0], [0.0, -inf]]]
    """
    values = torch.arange(num_values, device=x.device)
    zero = torch.zeros((), dtype=torch.float64, device=x.device)
    return torch.where(values == x[..., None], zero, -torch.inf)


def draw_values(log_weights: Tensor, generator: torch.Generator, rows: int | None = None) -> Tensor:
    """One value for each last axis ``(..., V) -> (...)``, drawn in proportion to ``exp(log_weights)``.

    The first value whose cumulative weight exceeds a uniform share of the total: one of weight 0 is never drawn.

    Args:
        log_weights: ``(..., V)``, in each last axis one above -inf at least.
        generator: the source of the draws.
        rows: draw so many times from all of it ``(rows, ...)`` without a copy for each row.
    """
    shape = log_weights.shape[:-1] if rows is None else (rows, *log_weights.shape[:-1])
    cumulative = (log_weights - log_weights.amax(-1, keepdim=True)).exp().cumsum(-1)
    unit = torch.rand(shape, generator=generator, dtype=torch.float64, device=generator.device)
    return (unit.to(cumulative.device)[..., None] * cumulative[..., -1:] >= cumulative).sum(-1)
