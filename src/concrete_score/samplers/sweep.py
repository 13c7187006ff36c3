"""Sequential heat bath with the local fields kept up to date: what a site's change does to the others is one row.

See docs/mathematics.md, "Local fields".
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.protocols import Info, State
from concrete_score.randomness import float_uniform, words
from concrete_score.samplers.base import check_log_density, check_moves, check_start
from concrete_score.samplers.couplings import (
    LinearFields,
    MarkedState,
    MatrixCouplings,
    Triangles,
    linear_fields,
    marks,
)
from concrete_score.samplers.factorized import draw_marks
from concrete_score.samplers.gibbs import systematic
from concrete_score.samplers.surrogates import check_density
from concrete_score.spaces import Space

SURE = 1 - 2.0**-24
"""The largest float32 below 1: a logit drawn is then at most 17, and what cannot be is never drawn."""
FAR = 1e35
"""Beyond any field: keeps clamped sites."""


class SweepMemory(NamedTuple):
    """Marks ``(V-1, D, C)``, and 1 at clamped sites ``(D, C)``."""

    z: Tensor
    held: Tensor | None


@dataclass(frozen=True, eq=False)
class Sweep:
    """Every site once, in order, from its conditional; a step is a sweep. Exact; its reversal is the other order.

    A change of one site of a pairwise model moves the fields of the others by a column of the couplings: D conditionals
    for the price of one product, spread over the sweep. Where the interaction graph has few colors `Colored` is faster.

    Args:
        model: a pairwise density: `Pairwise`, `Ising`, or a tempered view of one.
        order: of the sites; natural by default.

    Raises:
        InputError: no density, or one that is not pairwise; an order that is none.

    >>> from concrete_score.targets import spin_glass
    >>> kernel = Sweep(spin_glass(5, 1.0, torch.Generator().manual_seed(0)))
    >>> kernel.reversed().order
    (4, 3, 2, 1, 0)
    """

    model: Any
    order: Sequence[int] | None = None

    batched: ClassVar[bool] = True
    portable: ClassVar[bool] = True
    """What it remembers of a chain holds at any other temperature of the same model."""

    def __post_init__(self) -> None:
        check_density(self.model, "sweep")
        check_moves(self.model.space)
        if linear_fields(self.model) is None:
            raise InputError(
                "a pairwise model, whose fields can be kept up to date",
                type(self.model).__name__,
                where="model",
                fix="use `gibbs` or `systematic`, or `auxiliary` for one with hidden units",
            )
        sites = self.model.space.num_sites
        order = tuple(range(sites)) if self.order is None else tuple(self.order)
        if sorted(order) != list(range(sites)):
            raise InputError(f"every site from 0 to {sites - 1} once", str(order)[:60], where="order")
        object.__setattr__(self, "order", order)

    @property
    def space(self) -> Space:
        space: Space = self.model.space
        return space

    def reversed(self) -> "Sweep":
        """The time reversal."""
        return replace(self, order=tuple(self.order or ())[::-1])

    @torch.no_grad()
    def init(self, x: Any, clamped: Tensor | None = None) -> State:
        """Chains at ``x`` ``(C, D)``; one pass, to check them."""
        states, mask = check_start(self.space, x, clamped)
        check_log_density(self.model.log_density(states), states)
        held = None if mask is None else mask.T.to(torch.float32).contiguous()
        return State(states, mask, SweepMemory(marks(self.space, states), held))

    @torch.no_grad()
    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """One sweep of all chains; ``accepted`` marks those with a free site."""
        memory: SweepMemory = state.memory
        z = self._bits(memory, generator) if len(memory.z) == 1 else self._values(memory, generator)
        free = torch.ones(z.shape[-1], dtype=torch.bool, device=z.device)
        accepted = free if state.clamped is None else ~state.clamped.all(-1)
        return MarkedState(None, state.clamped, memory._replace(z=z)), Info(accepted, 1)

    def transition_matrix(self, clamped: Tensor | None = None) -> Tensor:
        """The product of the sites' heat-bath matrices ``(S, S)``."""
        return systematic(self.model, self.order).transition_matrix(clamped)

    def reorder(self, state: State, order: Tensor) -> State:
        """Chain i at the state of chain ``order[i]``. Clamped sites must agree."""
        z = state.memory.z.index_select(-1, order)
        return MarkedState(None, state.clamped, state.memory._replace(z=z))

    @torch.no_grad()
    def log_density(self, state: State) -> Tensor:
        """Of the chains, without their factors ``(C,)``."""
        z = state.memory.z
        return self._linear.log_density(z, self._linear.fields(z))

    def _bits(self, memory: SweepMemory, generator: torch.Generator) -> Tensor:
        """A bit becomes 1 where its field is above a logistic draw: all draws are made beforehand."""
        old = memory.z[0]
        bounds = self._bounds(old, memory.held, generator)
        couplings = self._linear.couplings
        if isinstance(couplings, MatrixCouplings):
            return self._blocks(couplings.triangles(self.order or ()), old, bounds)[None]
        fields, new, change = self._linear.fields(memory.z)[0], torch.empty_like(old), torch.empty_like(old[0])
        rows, news, olds, limits = (table.unbind(0) for table in (fields, new, old, bounds))
        for d in self.order or ():
            torch.gt(rows[d], limits[d], out=news[d])
            torch.sub(news[d], olds[d], out=change)
            where, column = couplings.pulls[d]
            fields.index_add_(0, where, column * change, alpha=self._linear.strength)  # type: ignore[arg-type]
        return new[None]

    def _blocks(self, triangles: Triangles, old: Tensor, bounds: Tensor) -> Tensor:
        """Fields of the sites to come from the old values, of those before from the new: two products a block, and
        within it two operations a site."""
        before, order = old[triangles.order], triangles.order
        strength, new = self._linear.strength, torch.empty_like(old)
        fields = torch.addmm(self._linear.bias[0, order], triangles.upper, before, alpha=strength)
        news, limits = new.unbind(0), bounds[order].unbind(0)
        for start, end, past, inside in triangles.blocks:
            block = fields[start:end]
            if start:
                block.addmm_(past, new[:start], alpha=strength)
            for d, row, column in zip(range(start, end), block.unbind(0), inside, strict=True):
                torch.gt(row, limits[d], out=news[d])
                block.addcmul_(column, news[d], value=strength)
        return new[triangles.back]

    def _bounds(self, old: Tensor, held: Tensor | None, generator: torch.Generator) -> Tensor:
        """Draws of the logistic distribution ``(D, C)``, divided by the chains' factors."""
        unit = words(tuple(old.shape), generator, old.device).mul_(2.0**-32).add_(0.5).clamp_(2.0**-25, SURE)
        bounds = unit.logit_()
        factors = self._linear.factors(old.shape[-1])
        if factors is not None:
            bounds /= factors
        return bounds if held is None else torch.lerp(bounds, FAR * (1 - 2 * old), held)

    def _values(self, memory: SweepMemory, generator: torch.Generator) -> Tensor:
        """Larger sites: a draw by running sums, and one small product for what it changes."""
        z = memory.z.clone()
        fields = self._linear.fields(z)
        flat, factors = fields.flatten(0, 1), self._linear.factors(z.shape[-1])
        unit, strength = float_uniform(tuple(z.shape[1:]), generator, z.device), self._linear.strength
        for d in self.order or ():
            own = fields[:, d] if factors is None else fields[:, d] * factors
            top = own.amax(0).clamp_min_(0)
            new = draw_marks(torch.cat([-top[None], own - top]).exp_(), unit[d])
            if memory.held is not None:
                new = torch.lerp(new, z[:, d], memory.held[d])
            change = new - z[:, d]
            z[:, d] = new
            where, column = self._linear.couplings.pulls[d]
            if where is None:
                flat.addmm_(column, change, alpha=strength)
            else:
                fields[:, where] += torch.einsum("anb,bc->anc", column, strength * change)
        return z

    @cached_property
    def _linear(self) -> LinearFields:
        found = linear_fields(self.model)
        if found is None:  # pragma: no cover - checked when built
            raise RuntimeError("not a pairwise model")
        return found
