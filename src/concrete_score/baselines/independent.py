"""Independent sites, each with its own table: the floor of every comparison."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from concrete_score.baselines.conditionals import (
    Observed,
    PerValue,
    by_rows,
    check_possible,
    check_query,
    draw_values,
    point_masses,
)
from concrete_score.baselines.counts import (
    PSEUDO_COUNT,
    check_pseudo_count,
    check_states,
    log_normalized,
    site_counts,
    smoothed,
    valid_values,
)
from concrete_score.errors import InputError
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space


@dataclass(frozen=True, eq=False)
class Independent:
    """``q(x) = Π_d q_d(x_d)``.

    Args:
        space: any finite product space.
        log_table: ``log q_d(v)`` ``(D, V)`` float64; -inf where a site lacks the value.

    >>> model = Independent.fit([[0, 2], [1, 2]], Space((2, 3)), pseudo_count=0)
    >>> model.log_density(torch.tensor([[0, 2], [0, 1]])).exp().tolist()
    [0.5, 0.0]
    """

    space: Space
    log_table: Float[Tensor, "sites values"]
    normalized: ClassVar[bool] = True

    def __post_init__(self) -> None:
        shape = (self.space.num_sites, max(self.space.sizes))
        if tuple(self.log_table.shape) != shape:
            raise InputError(f"shape {shape}", f"{tuple(self.log_table.shape)}", where="log_table")

    @classmethod
    def fit(cls, states: Any, space: Space, *, pseudo_count: int | float = PSEUDO_COUNT) -> "Independent":
        """``q_d(v) = (count_d(v) + a / sizes[d]) / (N + a)``.

        Args:
            states: ``(N, D)`` integers, however narrow.
            space: the space they live in.
            pseudo_count: ``a``, the rows of evenly spread pseudo-data to add (see `baselines.counts`).

        Raises:
            InputError: no rows, a value outside the space, or a negative ``pseudo_count``.
        """
        pseudo_count = check_pseudo_count(pseudo_count)
        counts = smoothed(site_counts(check_states(states, space), space), space, pseudo_count)
        return cls(space, log_normalized(counts, valid_values(space, counts.device)))

    def log_density(self, x: States) -> PerState:
        """``log q(x)`` ``(..., D) -> (...)``."""
        return self._cells(self.space.check(x)).sum(-1)

    def sample(self, n: int, generator: torch.Generator) -> States:
        """``n`` independent exact draws ``(n, D)``."""
        nothing = torch.zeros(n, self.space.num_sites, dtype=torch.int64, device=self.log_table.device)
        return self.sample_given(nothing, nothing.bool(), generator)

    def log_marginal(self, x: States, observed: Observed) -> PerState:
        """``log q(observed cells)`` ``(...)``."""
        x, observed = check_query(x, observed, self.space)
        return torch.where(observed, self._cells(x), 0.0).sum(-1)

    def site_log_conditionals(self, x: States, observed: Observed) -> PerValue:
        """``log q(x_d = v | observed cells)`` ``(..., D, V)``: the table itself wherever a cell is blank."""
        x, observed = check_query(x, observed, self.space)
        check_possible(self.log_marginal(x, observed))
        return torch.where(observed[..., None], point_masses(x, self.log_table.shape[-1]), self.log_table)

    def sample_given(self, x: States, observed: Observed, generator: torch.Generator) -> States:
        """``x`` with its unobserved cells drawn from the table ``(..., D)``."""
        x, observed = check_query(x, observed, self.space)
        check_possible(self.log_marginal(x, observed))

        def draw(rows: Tensor, seen: Tensor) -> Tensor:
            return torch.where(seen, rows, draw_values(self.log_table, generator, len(rows)))

        return by_rows(draw, x, observed, self.log_table.numel())

    def _cells(self, x: Tensor) -> Tensor:
        return self.log_table[torch.arange(self.space.num_sites, device=x.device), x]
