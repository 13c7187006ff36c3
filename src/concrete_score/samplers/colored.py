"""Heat bath, one color class of sites after the other, each class at once: a sweep of all sites in a few products.

See docs/mathematics.md, "Local fields".
"""

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import functional

from concrete_score.models.layers import draw_categories
from concrete_score.objectives.conditionals import site_log_conditionals
from concrete_score.protocols import DensityModel, Info, LocalFields, State
from concrete_score.randomness import float_uniform, uniform, words
from concrete_score.samplers import matrices
from concrete_score.samplers.base import check_log_density, check_moves, check_start
from concrete_score.samplers.colorings import find_coloring
from concrete_score.samplers.couplings import Couplings, LinearFields, MarkedState, linear_fields, marks
from concrete_score.samplers.factorized import draw_marks
from concrete_score.samplers.gibbs import site_matrix
from concrete_score.samplers.surrogates import check_density
from concrete_score.samplers.tempered import TemperedCopies
from concrete_score.spaces import Space


@dataclass(frozen=True, eq=False)
class Colored:
    """Draw every site of one color from its conditional, then those of the next; a step is a sweep of all sites.

    Sites of one color do not interact, so that drawing them together is drawing them one after the other. Exact; the
    reversal of a step goes through the colors backwards. Of pairwise models the conditionals are products with the
    couplings; of others local fields or, without them, the density at every value of every site.

    Args:
        model: a density model.
        colors: one a site ``(D,)``; by default found from the interaction graph.
        interactions: the graph ``(E, 2)`` of a model that does not know its own. It is never guessed.
        backwards: whether to go through the colors from the last to the first.

    Raises:
        InputError: no density, no graph, a graph of another model, a coloring that is none.

    >>> from concrete_score.targets import Ising
    >>> kernel = Colored(Ising((30, 30), 0.4))
    >>> len(kernel.classes)
    2
    """

    model: Any
    colors: Any = None
    interactions: Any = None
    backwards: bool = False

    batched: ClassVar[bool] = True
    portable: ClassVar[bool] = True
    """What it remembers of a chain holds at any other temperature of the same model."""

    def __post_init__(self) -> None:
        check_density(self.model, "colored")
        check_moves(self.model.space)
        self.classes  # noqa: B018 - found, and thereby checked, at once

    @property
    def space(self) -> Space:
        space: Space = self.model.space
        return space

    @cached_property
    def classes(self) -> tuple[Tensor, ...]:
        """The sites of each color, in the order of a step."""
        found = self._plan.classes if self._plan is not None else _classes(self._coloring())
        return found[::-1] if self.backwards else found

    def reversed(self) -> "Colored":
        """The time reversal."""
        return replace(self, backwards=not self.backwards)

    @torch.no_grad()
    def init(self, x: Any, clamped: Tensor | None = None) -> State:
        """Chains at ``x`` ``(C, D)``; one pass, to check them."""
        states, mask = check_start(self.space, x, clamped)
        check_log_density(self.model.log_density(states), states)
        return State(states, mask, self._engine.memory(states, mask))

    @torch.no_grad()
    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """A sweep; ``accepted`` marks the chains with a free site."""
        moved = self._engine.sweep(state, generator, self.backwards)
        return moved, Info(_free(state), self._engine.passes)

    def reorder(self, state: State, order: Tensor) -> State:
        """Chain i at the state of chain ``order[i]``. Clamped sites must agree."""
        return self._engine.reorder(state, order)

    @torch.no_grad()
    def log_density(self, state: State) -> Tensor:
        """Of the chains, without their factors ``(C,)``."""
        return self._engine.log_density(state)

    def transition_matrix(self, clamped: Tensor | None = None) -> Tensor:
        """The product over colors of ``P_c[x, y] = Π_{d in c} q(y_d | the others of x)`` ``(S, S)``."""
        states = self.space.enumerate(matrices.LIMIT)
        everywhere = torch.arange(self.space.num_sites).expand(len(states), -1)
        with torch.no_grad():
            table = site_log_conditionals(self.model, states, everywhere)[0].double()
        held = torch.zeros(self.space.num_sites, dtype=torch.bool) if clamped is None else torch.as_tensor(clamped)
        parts = []
        for sites in self.classes:
            others = torch.ones_like(held)
            others[sites] = False
            parts.append(site_matrix(self.space, table, held | others))
        return reduce(torch.matmul, parts)

    def _coloring(self) -> Tensor:
        return find_coloring(self.model, self.colors, self.interactions)

    @cached_property
    def _plan(self) -> "ColorPlan | None":
        """Kept with the couplings where nothing was given: annealing asks for it at every temperature."""
        linear = linear_fields(self.model)
        if linear is None:
            return None
        if self.colors is not None or self.interactions is not None:
            return ColorPlan.of(linear, self._coloring())
        if linear.couplings not in _PLANS:
            _PLANS[linear.couplings] = ColorPlan.of(linear, self._coloring())
        return _PLANS[linear.couplings]

    @cached_property
    def _engine(self) -> "Engine":
        linear = linear_fields(self.model)
        if linear is None or self._plan is None:
            forward = self.classes[::-1] if self.backwards else self.classes
            if isinstance(self.model, TemperedCopies):
                return GeneralEngine(self.model.model, forward, torch.tensor(self.model.inverse_temperatures).double())
            return GeneralEngine(self.model, forward)
        return LinearEngine(linear, self._plan)


@runtime_checkable
class Engine(Protocol):
    """How classes are drawn."""

    @property
    def passes(self) -> int: ...
    def memory(self, x: Tensor, clamped: Tensor | None) -> Any: ...
    def sweep(self, state: State, generator: torch.Generator, backwards: bool) -> State: ...
    def reorder(self, state: State, order: Tensor) -> State: ...
    def log_density(self, state: State) -> Tensor: ...


class ColorPlan(NamedTuple):
    """The sites by color, and the couplings of each class with sites renumbered so that a class is a slice."""

    classes: tuple[Tensor, ...]
    order: Tensor
    """All sites, color by color ``(D,)``."""
    back: Tensor
    """Where each site stands in it ``(D,)``."""
    couplings: tuple[Couplings, ...]

    @classmethod
    def of(cls, linear: LinearFields, colors: Tensor) -> "ColorPlan":
        """The plan of a coloring ``(D,)``."""
        classes = tuple(sites.to(linear.bias.device) for sites in _classes(colors))
        order = torch.cat(classes)
        back = order.argsort()
        return cls(classes, order, back, tuple(linear.couplings.at(sites).renumbered(back) for sites in classes))


_PLANS: WeakKeyDictionary[Couplings, ColorPlan] = WeakKeyDictionary()


class ColoredMemory(NamedTuple):
    """Marks in the order of the plan."""

    ordered: Tensor
    """``(V-1, D, C)``."""
    held: Tensor | None
    """1 at clamped sites ``(D, C)``, in the same order."""
    back: Tensor

    @property
    def z(self) -> Tensor:
        """Marks in the order of the sites."""
        return self.ordered.index_select(1, self.back)


@dataclass(frozen=True, eq=False)
class LinearEngine:
    """Conditionals as products with the couplings of a pairwise model."""

    linear: LinearFields
    plan: ColorPlan

    passes: ClassVar[int] = 1

    def memory(self, x: Tensor, clamped: Tensor | None) -> ColoredMemory:
        order = self.plan.order
        held = None if clamped is None else clamped.T[order].to(torch.float32)
        return ColoredMemory(marks(self.linear.space, x).index_select(1, order), held, self.plan.back)

    def sweep(self, state: State, generator: torch.Generator, backwards: bool) -> State:
        """One class after the other, in place of a copy."""
        memory: ColoredMemory = state.memory
        z = memory.ordered.clone()
        factors = self.linear.factors(z.shape[-1])
        parts = list(zip(self._slices, self.plan.couplings, self._biases, strict=True))
        for part, couplings, bias in reversed(parts) if backwards else parts:
            fields = torch.add(bias, couplings(z), alpha=self.linear.strength * couplings.scale)
            if factors is not None:
                fields *= factors
            old = None if memory.held is None else z[:, part].clone()
            heat_bath(fields, generator, out=z[:, part])
            if memory.held is not None and old is not None:
                z[:, part].lerp_(old, memory.held[part])
        return MarkedState(None, state.clamped, memory._replace(ordered=z))

    def reorder(self, state: State, order: Tensor) -> State:
        memory: ColoredMemory = state.memory
        return MarkedState(None, state.clamped, memory._replace(ordered=memory.ordered.index_select(-1, order)))

    def log_density(self, state: State) -> Tensor:
        z = state.memory.z
        return self.linear.log_density(z, self.linear.fields(z))

    @cached_property
    def _slices(self) -> tuple[slice, ...]:
        ends = torch.tensor([len(sites) for sites in self.plan.classes]).cumsum(0).tolist()
        return tuple(slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True))

    @cached_property
    def _biases(self) -> tuple[Tensor, ...]:
        return tuple(self.linear.bias[:, sites].contiguous() for sites in self.plan.classes)


def heat_bath(fields: Tensor, generator: torch.Generator, out: Tensor) -> None:
    """Draw values by their fields against value 0 ``(V-1, n, C)`` into marks of the same shape."""
    if len(fields) == 1:
        bound = torch.rsub(fields[0].sigmoid_(), -(2.0**31), alpha=-(2.0**32))
        torch.lt(words(tuple(bound.shape), generator, bound.device), bound, out=out[0])
        return
    top = fields.amax(0).clamp_min_(0)
    weights = torch.cat([-top[None], fields - top]).exp_()
    out.copy_(draw_marks(weights, float_uniform(tuple(top.shape), generator, top.device)))


@dataclass(frozen=True, eq=False)
class GeneralEngine:
    """Conditionals by local fields, or by the density at every value of every site of a class."""

    model: DensityModel
    classes: tuple[Tensor, ...]
    betas: Tensor | None = None
    """Inverse temperatures that chains take in turn."""

    @property
    def passes(self) -> int:
        """Of the density: all values of each class."""
        return len(self.classes) * (1 if isinstance(self.model, LocalFields) else max(self.model.space.sizes))

    def memory(self, x: Tensor, clamped: Tensor | None) -> None:
        """Nothing."""

    def sweep(self, state: State, generator: torch.Generator, backwards: bool) -> State:
        """One class after the other."""
        x = state.x.clone()
        for sites in reversed(self.classes) if backwards else self.classes:
            at = sites.to(x.device)
            logits = self._logits(x, at)
            if self.betas is not None:
                logits = logits * self.betas.to(x.device).repeat(len(x) // len(self.betas))[:, None, None]
            unit = uniform((*logits.shape[:-1], 1), generator, x.device)
            drawn = draw_categories(logits, unit).squeeze(-1)
            x[:, at] = drawn if state.clamped is None else torch.where(state.clamped[:, at], x[:, at], drawn)
        return State(x, state.clamped)

    def reorder(self, state: State, order: Tensor) -> State:
        return State(state.x[order], state.clamped)

    def log_density(self, state: State) -> Tensor:
        return self.model.log_density(state.x).double()

    def _logits(self, x: Tensor, sites: Tensor) -> Tensor:
        """``(C, n, V)``."""
        if isinstance(self.model, LocalFields):
            return functional.pad(self.model.local_fields(x)[:, sites], (1, 0))
        return site_log_conditionals(self.model, x, sites.expand(len(x), -1))[0]


def _classes(colors: Tensor) -> tuple[Tensor, ...]:
    return tuple((colors == color).nonzero().squeeze(-1) for color in range(int(colors.max()) + 1))


def _free(state: State) -> Tensor:
    """Which chains have a free site ``(C,)``."""
    if state.clamped is not None:
        return ~state.clamped.all(-1)
    memory = state.memory
    chains = memory.ordered.shape[-1] if memory is not None else len(state.x)
    return torch.ones(chains, dtype=torch.bool)
