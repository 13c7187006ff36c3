"""A path of single-site changes, all drawn by the ratios where it begins, accepted or rejected as a whole.

The fast path-auxiliary sampler of Sun et al. (2022), for any sizes. See docs/mathematics.md, "Informed proposals".
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations, product
from math import isfinite
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.models.layers import draw_categories
from concrete_score.protocols import Info, State
from concrete_score.randomness import uniform, words
from concrete_score.samplers import matrices
from concrete_score.samplers.base import accept, check_log_density, check_moves, check_start, choose
from concrete_score.samplers.couplings import NEVER
from concrete_score.samplers.informed import find_balancing
from concrete_score.samplers.ratio_sources import RatioSource, find_source
from concrete_score.samplers.surrogates import check_density
from concrete_score.spaces import Space


class PathMemory(NamedTuple):
    """What is known at a chain's state, chains first."""

    log_density: Tensor
    """``(C,)``, without the chain's factor."""
    weights: Tensor
    """``log g`` of every change ``(C, D, V)``; `NEVER` at the current value, at clamped sites and beyond a size."""
    sites: Tensor
    """Their sums over values, as logarithms ``(C, D)``."""


class Walked(NamedTuple):
    """A path of each chain."""

    site: Tensor
    """``(C, M)``."""
    value: Tensor
    """``(C, M)``."""
    taken: Tensor
    """Which of the M steps belong to the path ``(C, M)`` bool."""


@dataclass(frozen=True, eq=False)
class PathAuxiliary:
    """Change ``L`` different sites one after the other, each ``(d, v)`` in proportion to ``g(ratio)`` at the start.

    L is uniform from 1 to ``2 step_size - 1``. The way back is the same path backwards, drawn by the ratios at its end;
    with both, the acceptance is exact. One look a step, however long the path. Reversible.

    Args:
        model: a density model.
        step_size: the mean length of a path, at least 1.
        balancing: a name of `BALANCING`.

    Raises:
        InputError: the model has no log-density, or paths are shorter than 1.

    >>> from concrete_score.targets import Ising
    >>> PathAuxiliary(Ising((1, 2), 0.5), step_size=1.5).transition_matrix().shape
    torch.Size([4, 4])
    """

    model: Any
    step_size: float = 3.0
    balancing: str = "sqrt"

    reversible: ClassVar[bool] = True
    batched: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_density(self.model, "path_auxiliary")
        check_moves(self.model.space)
        find_balancing(self.balancing)
        if not (self.step_size > 0 and isfinite(self.step_size)):
            raise InputError("a positive mean length", str(self.step_size), where="step_size")

    @property
    def space(self) -> Space:
        return self._source.space

    @property
    def largest(self) -> float:
        """As many steps as there are sites, on average half."""
        return max(1.0, self.space.num_sites / 2)

    @property
    def longest(self) -> int:
        """The most steps of a path."""
        movable = sum(size > 1 for size in self.space.sizes)
        return max(1, min(round(2 * self.step_size - 1), movable))

    @torch.no_grad()
    def init(self, x: Any, clamped: Tensor | None = None) -> State:
        """Chains at ``x`` ``(C, D)``; one look."""
        states, mask = check_start(self.space, x, clamped)
        memory = self._look(states, mask)
        check_log_density(memory.log_density, states)
        return State(states, mask, memory)

    @torch.no_grad()
    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """One path of every chain; a chain without a free site stays."""
        x, here = state.x, state.memory
        path = self._draw(here, state.clamped, generator)
        own = x.gather(1, path.site)
        y = x.scatter(1, path.site, torch.where(path.taken, path.value, own))
        there = self._look(y, state.clamped)
        step = self._scaled(there.log_density - here.log_density)
        back = _log_path(there, path._replace(value=own), backwards=True)
        log_accept = step + back - _log_path(here, path)
        movable = path.taken.any(-1) & (there.log_density > -torch.inf)
        accepted = accept(torch.where(movable, log_accept, -torch.inf), generator)
        moved = State(choose(accepted, y, x), state.clamped, choose(accepted, there, here))
        return moved, Info(accepted, self._source.passes)

    def log_density(self, state: State) -> Tensor:
        """Of the chains, without their factors ``(C,)``."""
        known: Tensor = state.memory.log_density
        return known

    def with_step_size(self, step_size: float, state: State) -> tuple["PathAuxiliary", State]:
        """The kernel of another length; chains remember nothing of it."""
        return replace(self, step_size=step_size), state

    def transition_matrix(self, clamped: Tensor | None = None) -> Tensor:
        """``P`` ``(S, S)``, by going along every path from every state; ``clamped`` is ``(D,)``."""
        states = self.space.enumerate(matrices.LIMIT)
        mask = None if clamped is None else torch.as_tensor(clamped).expand(len(states), -1)
        memory = PathMemory(*(part.double() for part in self._look(states, mask)))
        with torch.no_grad():  # steps see it in float32, through local fields; the matrix is exact
            value, total = self.model.log_density(states).double(), memory.weights.logsumexp(-1)
            memory = memory._replace(log_density=value, sites=total)
        free = [d for d in matrices.free_sites(self.space, clamped) if self.space.sizes[d] > 1]
        move, most = torch.zeros(len(states), len(states), dtype=torch.float64), min(self.longest, len(free))
        for length in range(1, most + 1):
            for sites in permutations(free, length):
                for target in product(*(range(self.space.sizes[d]) for d in sites)):
                    self._add(move, states, memory, torch.tensor(sites), torch.tensor(target), most)
        return matrices.rest_stays(move)

    def _add(
        self, move: Tensor, states: Tensor, memory: PathMemory, sites: Tensor, target: Tensor, lengths: int
    ) -> None:
        """One path from all states that do not have its values already."""
        rows = (states[:, sites] != target).all(-1).nonzero().squeeze(-1)
        x = states[rows]
        y = x.clone()
        y[:, sites] = target
        ends = self.space.index(y)
        shape = (len(rows), len(sites))
        path = Walked(sites.expand(shape), target.expand(shape), torch.ones(shape, dtype=torch.bool))
        here, there = (PathMemory(*(part[index] for part in memory)) for index in (rows, ends))
        forward = _log_path(here, path)
        back = _log_path(there, path._replace(value=x[:, sites]), backwards=True)
        gain = there.log_density - here.log_density + back - forward
        chance = (forward + gain.clamp_max(0)).exp() / lengths
        chance = torch.where((here.log_density > -torch.inf) & (there.log_density > -torch.inf), chance, 0.0)
        move.index_put_((rows, ends), chance, accumulate=True)

    def _draw(self, here: PathMemory, clamped: Tensor | None, generator: torch.Generator) -> Walked:
        """Sites without replacement by exponential races, values within them, and how far each chain goes."""
        sites, most = here.sites, self.longest
        # Small words keep all their digits, and small is what wins a race.
        unit = words(tuple(sites.shape), generator, sites.device).abs_().mul_(2.0**-31)
        race = -torch.log1p(-unit).to(sites.dtype) * torch.exp(-sites.clamp_min(-80))
        site = torch.where(sites > NEVER / 100, race, torch.inf).topk(most, largest=False).indices
        values = here.weights.gather(1, site[..., None].expand(-1, -1, here.weights.shape[-1]))
        value = draw_categories(values, uniform((*site.shape, 1), generator, sites.device)).squeeze(-1)
        possible = (sites > NEVER / 100).sum(-1).clamp_max(most)
        length = (uniform((len(sites),), generator, sites.device) * possible).long() + 1
        taken = torch.arange(most, device=sites.device) < torch.minimum(length, possible)[:, None]
        return Walked(site, value, taken)

    def _look(self, x: Tensor, clamped: Tensor | None) -> PathMemory:
        look = self._source.look(self._source.marks(x))
        if look.ratios is None or look.log_density is None:  # pragma: no cover - a full look has both
            raise RuntimeError("a look without ratios")
        ratios = self._scaled(look.ratios).permute(2, 1, 0)
        if ratios.shape[-1] == 1:  # the one change of a bit, to the other value
            ratios = torch.cat([ratios, ratios], -1)
        weights = find_balancing(self.balancing)(ratios)
        weights = weights.masked_fill(ratios <= NEVER / 100, NEVER).scatter(-1, x[..., None], NEVER)
        if clamped is not None:
            weights = weights.masked_fill(clamped[..., None], NEVER)
        sites = weights.logsumexp(-1)
        return PathMemory(look.log_density, weights, sites)

    def _scaled(self, value: Tensor) -> Tensor:
        factors = self._source.factors(value.shape[-1])
        return value if factors is None else value * factors.to(value)

    @cached_property
    def _source(self) -> RatioSource:
        return find_source(self.model)


def _log_path(memory: PathMemory, path: Walked, backwards: bool = False) -> Tensor:
    """``Σ_i [log g(change i) - log (weights of all sites not yet changed)]`` ``(C,)`` in float64.

    Backwards, the last site of the path changes first.
    """
    sites = memory.sites.double()
    each = torch.where(path.taken, sites.gather(1, path.site), -torch.inf)
    rest = sites.scatter(1, path.site, torch.where(path.taken, -torch.inf, sites.gather(1, path.site)))
    left = (each if backwards else each.flip(-1)).logcumsumexp(-1)
    left = left if backwards else left.flip(-1)
    log_norm = torch.logaddexp(left, rest.logsumexp(-1, keepdim=True))
    change = memory.weights.gather(1, path.site[..., None].expand(-1, -1, memory.weights.shape[-1]))
    change = change.gather(-1, path.value[..., None]).squeeze(-1).double()
    return torch.where(path.taken, change - log_norm, 0.0).sum(-1)
