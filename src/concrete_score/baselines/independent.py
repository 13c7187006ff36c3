"""Independent sites, each with its own table, and mixtures of them fitted by EM (Dempster, Laird and Rubin, 1977)."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from concrete_score.baselines.conditionals import Observed, PerValue, by_rows, check_possible, draw_values, point_masses
from concrete_score.baselines.counts import (
    PSEUDO_COUNT,
    check_pseudo_count,
    check_states,
    log_normalized,
    one_hot,
    padded,
    row_chunks,
    site_counts,
    smoothed,
    valid_values,
)
from concrete_score.errors import InputError, check_count
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space, check_query


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

    def tilted(self, log_weights: Float[Tensor, "sites values"]) -> tuple["Independent", Tensor]:
        """Each site's own table times its weights, and ``log Z = Σ_d log Σ_v q_d(v) e_d(v)``."""
        table = self.log_table + log_weights
        total = table.logsumexp(-1, keepdim=True)
        return Independent(self.space, table - total), total.sum()

    def _cells(self, x: Tensor) -> Tensor:
        return self.log_table[torch.arange(self.space.num_sites, device=x.device), x]


@dataclass(frozen=True, eq=False)
class Mixture:
    """``q(x) = Σ_k w_k Π_d q_kd(x_d)``.

    Args:
        space: any finite product space.
        log_weights: ``log w_k`` ``(C,)`` float64.
        log_tables: ``log q_kd(v)`` ``(C, D, V)`` float64; -inf where a site lacks the value.
        trace: the objective at each step of the fit, nats per row.

    >>> rows = [[0, 0], [0, 0], [1, 1], [1, 1]]
    >>> from concrete_score.randomness import generator
    >>> model = Mixture.fit(rows, Space.bits(2), components=2, pseudo_count=0, generator=generator(0))
    >>> model.log_density(torch.tensor([[0, 0], [0, 1]])).exp().round(decimals=3).tolist()
    [0.5, 0.0]
    """

    space: Space
    log_weights: Float[Tensor, " components"]
    log_tables: Float[Tensor, "components sites values"]
    trace: tuple[float, ...] = ()
    normalized: ClassVar[bool] = True

    def __post_init__(self) -> None:
        shape = (len(self.log_weights), self.space.num_sites, max(self.space.sizes))
        if tuple(self.log_tables.shape) != shape:
            raise InputError(f"shape {shape}", f"{tuple(self.log_tables.shape)}", where="log_tables")

    @classmethod
    def fit(
        cls,
        states: Any,
        space: Space,
        *,
        generator: torch.Generator,
        components: int = 8,
        pseudo_count: int | float = PSEUDO_COUNT,
        steps: int = 200,
        tolerance: int | float = 1e-4,
    ) -> "Mixture":
        """Climb, from seeded random tables, the log-posterior of the mixture (with ``a = 0``, its log-likelihood):

            Σ_rows log q(x)  +  a/C Σ_k [ log w_k + Σ_d mean_v log q_kd(v) ]

        that is, ``a`` evenly spread rows of pseudo-data are dealt out equally to the ``C`` components. No step goes
        down; the objective of every step, divided by the number of rows, is kept as `trace`.

        Args:
            states: ``(N, D)`` integers, however narrow.
            space: the space they live in.
            generator: draws the first tables.
            components: ``C``.
            pseudo_count: ``a`` (see `baselines.counts`).
            steps: at most so many.
            tolerance: stop when a step gains less than so many nats per row.

        Raises:
            InputError: no rows, a value outside the space, no components, or a negative ``pseudo_count``.
        """
        states, pseudo_count = check_states(states, space), check_pseudo_count(pseudo_count)
        for name, value in (("components", components), ("steps", steps)):
            check_count(value, name)
        model = best = _start(states, space, components, pseudo_count, generator)
        trace: list[float] = []
        for _ in range(steps + 1):
            objective, counts = _expect(model, states, pseudo_count)
            best = model if not trace or objective > max(trace) else best
            trace.append(objective)
            if len(trace) > 1 and trace[-1] - trace[-2] < tolerance:
                break
            model = _maximize(counts, space, pseudo_count)
        return replace(best, trace=tuple(trace))

    def log_density(self, x: States) -> PerState:
        """``log q(x)`` ``(..., D) -> (...)``."""
        return self.log_marginal(x, torch.ones_like(x, dtype=torch.bool))

    def sample(self, n: int, generator: torch.Generator) -> States:
        """``n`` independent exact draws ``(n, D)``: a component, then its sites."""
        nothing = torch.zeros(n, self.space.num_sites, dtype=torch.int64, device=self.log_tables.device)
        return self.sample_given(nothing, nothing.bool(), generator)

    def log_marginal(self, x: States, observed: Observed) -> PerState:
        """``log q(observed cells)`` ``(...)``."""
        return self._log_joint(*check_query(x, observed, self.space)).logsumexp(-1)

    def site_log_conditionals(self, x: States, observed: Observed) -> PerValue:
        """``log q(x_d = v | observed cells) = log Σ_k q(k | observed cells) q_kd(v)`` ``(..., D, V)``."""
        x, observed = check_query(x, observed, self.space)
        check_possible(self.log_marginal(x, observed))
        tables = self.log_tables.exp()

        def answer(rows: Tensor, seen: Tensor) -> Tensor:
            posterior = self._row_log_joint(rows, seen).softmax(-1)
            blank = torch.einsum("nc,cdv->ndv", posterior, tables).log()
            return torch.where(seen[..., None], point_masses(rows, blank.shape[-1]), blank)

        return by_rows(answer, x, observed, max(len(self.log_weights), self.log_tables[0].numel()))

    def sample_given(self, x: States, observed: Observed, generator: torch.Generator) -> States:
        """``x`` with its unobserved cells drawn jointly ``(..., D)``: a component given the rest, then its sites."""
        x, observed = check_query(x, observed, self.space)
        check_possible(self.log_marginal(x, observed))

        def draw(rows: Tensor, seen: Tensor) -> Tensor:
            component = draw_values(self._row_log_joint(rows, seen), generator)
            return torch.where(seen, rows, draw_values(self.log_tables[component], generator))

        return by_rows(draw, x, observed, self.log_tables[0].numel())

    def propose_given(self, x: States, observed: Observed, generator: torch.Generator) -> tuple[States, PerState]:
        """`sample_given`, and `log_marginal` of what was observed."""
        return self.sample_given(x, observed, generator), self.log_marginal(x, observed)

    def tilted(self, log_weights: Float[Tensor, "sites values"]) -> tuple["Mixture", Tensor]:
        """Each component tilted, and weighed by what is left of it: ``Z = Σ_k w_k Z_k``."""
        tables = self.log_tables + log_weights
        totals = tables.logsumexp(-1, keepdim=True)
        # A component of which nothing is left is never drawn, and keeps its tables.
        tables = torch.where(totals > -torch.inf, tables - totals, self.log_tables)
        joint = self.log_weights + totals.sum((1, 2))
        return Mixture(self.space, joint.log_softmax(0), tables), joint.logsumexp(0)

    def _log_joint(self, x: Tensor, observed: Tensor) -> Tensor:
        return by_rows(self._row_log_joint, x, observed, sum(self.space.sizes))

    def _row_log_joint(self, rows: Tensor, seen: Tensor) -> Tensor:
        """``log w_k + log q_k(observed cells)`` ``(n, C)``."""
        return self._from_one_hot(one_hot(rows, self.space, torch.float64, seen))

    def _from_one_hot(self, hot: Tensor) -> Tensor:
        finite, impossible = self._packed
        sums = self.log_weights + hot @ finite
        if impossible is None:
            return sums
        return torch.where(hot @ impossible > 0, -torch.inf, sums)

    @cached_property
    def _packed(self) -> tuple[Tensor, Tensor | None]:
        """The tables side by side ``(S, C)`` for products with one-hot rows, where 0 times -inf would spoil a sum:
        so zeros of probability are counted apart, if there are any."""
        packed = self.log_tables[:, valid_values(self.space, self.log_tables.device)].T
        impossible = packed.isneginf()
        return packed.masked_fill(impossible, 0.0), impossible.double() if impossible.any() else None


def _start(states: Tensor, space: Space, components: int, pseudo_count: float, generator: torch.Generator) -> Mixture:
    """Equal weights; every component's tables are those of the data, each entry times an exponential draw.

    All values that occur keep some probability, so no row starts impossible, and no two components start equal.
    """
    counts = smoothed(site_counts(states, space), space, pseudo_count)
    shape = (components, *counts.shape)
    noise = torch.empty(shape, dtype=torch.float64, device=generator.device).exponential_(generator=generator)
    tables = log_normalized(counts * noise.to(counts.device), valid_values(space, counts.device))
    weights = torch.zeros(components, dtype=torch.float64, device=counts.device).log_softmax(-1)
    return Mixture(space, weights, tables)


def _expect(model: Mixture, states: Tensor, pseudo_count: float) -> tuple[float, Tensor]:
    """The objective of ``model`` per row, and each component's expected counts ``(C, D, V)``."""
    space, components = model.space, len(model.log_weights)
    width = sum(space.sizes)
    packed = torch.zeros(width, components, dtype=torch.float64, device=states.device)
    total = 0.0
    for rows in row_chunks(states, width):
        hot = one_hot(rows, space, torch.float64)
        log_joint = model._from_one_hot(hot)
        total += float(log_joint.logsumexp(-1).sum())
        packed += hot.T @ log_joint.softmax(-1)
    return (total + _log_prior(model, pseudo_count)) / len(states), padded(packed.T, space)


def _maximize(counts: Tensor, space: Space, pseudo_count: float) -> Mixture:
    """The weights and tables that maximize the objective given expected counts ``(C, D, V)``."""
    counts = smoothed(counts, space, pseudo_count / len(counts))
    rows = counts[:, 0].sum(-1)
    weights = log_normalized(rows, torch.ones_like(rows, dtype=torch.bool))
    return Mixture(space, weights, log_normalized(counts, valid_values(space, counts.device)))


def _log_prior(model: Mixture, pseudo_count: float) -> float:
    """``a/C Σ_k [ log w_k + Σ_d mean_v log q_kd(v) ]``, and 0 for ``a = 0`` whatever is impossible."""
    shares = smoothed(torch.zeros_like(model.log_tables), model.space, pseudo_count / len(model.log_weights))
    tables = torch.xlogy(shares, model.log_tables.exp()).sum()
    return float(tables + torch.xlogy(shares[:, 0].sum(-1), model.log_weights.exp()).sum())
