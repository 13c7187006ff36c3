"""Where a kernel's ratio of probabilities comes from: a density, or a score model's reading of an edge.

A density gives ``log q(y) - log q(x)``. A score model gives ``l(x→y)``, and once more as ``-l(y→x)``; where the two
disagree its scores belong to no distribution, and none is claimed to be kept (docs/mathematics.md, "Metropolis–Hastings
and score models").
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from concrete_score.errors import InputError, nearest
from concrete_score.neighborhoods import hamming
from concrete_score.protocols import DensityModel, Neighborhood, ScoreModel
from concrete_score.samplers.base import check_edges, check_log_density, check_log_ratios, choose, go_where, pick
from concrete_score.samplers.matrices import density_log_ratios
from concrete_score.shapes import PerSlot, PerState, Slots, States
from concrete_score.spaces import check_same_space

READINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "forward": lambda forward, backward: forward,
    "mean": lambda forward, backward: (forward + backward) / 2,
}
"""How ``l(x→y)`` and ``-l(y→x)`` become one log-ratio."""


@runtime_checkable
class Reading(Protocol):
    """The log-ratio along a symmetric neighborhood's edges, with what is worth remembering of a state."""

    @property
    def neighborhood(self) -> Neighborhood: ...

    def look(self, x: States) -> Any:
        """One pass at ``x``, checked: what `compare` wants to know of it."""
        ...

    def compare(self, x: States, slot: Slots, y: States, here: Any) -> tuple[PerState, Any]:
        """One pass at ``y = N(x)_slot``: the log-ratio ``(C,)``, and what a chain that moves there remembers."""
        ...

    def keep(self, accepted: Tensor, there: Any, here: Any) -> Any:
        """The memory of the chains after the move."""
        ...

    def matrix(self) -> Tensor:
        """The log-ratio of every edge of an enumerable space ``(S, S)``."""
        ...


@dataclass(frozen=True, eq=False)
class DensityReading:
    """``log q(y) - log q(x)``; the memory is ``log q(x)``."""

    model: DensityModel
    neighborhood: Neighborhood

    def look(self, x: States) -> PerState:
        """``log q(x)`` of starts."""
        return check_log_density(self.model.log_density(x), x)

    def compare(self, x: States, slot: Slots, y: States, here: Tensor) -> tuple[PerState, Tensor]:
        """One pass at ``y``."""
        there = self.model.log_density(y).double()
        return there - here, there

    def keep(self, accepted: Tensor, there: Tensor, here: Tensor) -> Tensor:
        """``log q`` of the state each chain is at."""
        kept: Tensor = choose(accepted, there, here)
        return kept

    def matrix(self) -> Tensor:
        """``log q(y) - log q(x)`` of all pairs ``(S, S)``."""
        return density_log_ratios(self.model)


class ScoreMemory(NamedTuple):
    """A score model's answer at a chain's state."""

    log_ratios: Tensor
    """``(C, K)``, of the model's own neighborhood."""
    disagreement: Tensor
    """``|l(x→y) + l(y→x)|`` of the edge proposed last ``(C,)``; 0 where it has one reading only."""


@dataclass(frozen=True, eq=False)
class ScoreReading:
    """A score model's log-ratio; an edge that the model knows one way only is read that way."""

    model: ScoreModel
    combine: Callable[[Tensor, Tensor], Tensor]

    @cached_property
    def neighborhood(self) -> Neighborhood:
        """The model's, made symmetric: an edge with no way back could never be taken."""
        return self.model.neighborhood.symmetrized()

    def look(self, x: States) -> ScoreMemory:
        """The log-ratios of starts."""
        ratios = self.model.log_ratios(x)
        check_log_ratios(ratios, self.model.neighborhood.valid(x), x)
        return ScoreMemory(ratios, ratios.new_zeros(len(x), dtype=torch.float64))

    def compare(self, x: States, slot: Slots, y: States, here: ScoreMemory) -> tuple[PerState, ScoreMemory]:
        """One pass at ``y``, none of it at states known to be impossible."""
        to, back = self._slots(x, slot, y)
        forward = _read(here.log_ratios, to)
        impossible = (to >= 0) & (forward == -torch.inf)
        there = self.model.log_ratios(go_where(~impossible, y, x))
        backward = -_read(there, back)
        both = (to >= 0) & (back >= 0) & ~impossible
        known = torch.where(to >= 0, forward, backward)
        ratio = torch.where(both, self.combine(forward, backward), known)
        return ratio, ScoreMemory(there, torch.where(both, (forward - backward).abs(), 0.0))

    def keep(self, accepted: Tensor, there: ScoreMemory, here: ScoreMemory) -> ScoreMemory:
        """The log-ratios chain by chain; the disagreement is of the last proposal, taken or not."""
        return ScoreMemory(choose(accepted, there.log_ratios, here.log_ratios), there.disagreement)

    @torch.no_grad()
    def matrix(self) -> Tensor:
        """``(S, S)``, from the model's log-ratios at every state."""
        own = self.model.neighborhood
        states = own.space.enumerate()
        row, slot = own.valid(states).nonzero(as_tuple=True)
        forward = torch.full((len(states),) * 2, torch.nan, dtype=torch.float64)
        target = own.space.index(own.neighbor(states[row], slot))
        forward[row, target] = self.model.log_ratios(states).double()[row, slot]
        backward = -forward.T
        both = self.combine(forward, backward)
        return torch.where(both.isnan(), torch.where(forward.isnan(), backward, forward), both)

    def _slots(self, x: Tensor, slot: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The model's slots from ``x`` to ``y`` and back ``(C,)``; -1 where it has none."""
        if self.model.neighborhood.symmetric:
            return slot, self.neighborhood.back_slot(x, slot)
        return _find(self.model.neighborhood, x, y), _find(self.model.neighborhood, y, x)


def find_reading(model: Any, neighborhood: Neighborhood | None, reading: str = "forward") -> Reading:
    """The reading a model allows.

    Args:
        model: a density model, on any neighborhood of its space (`hamming` by default), or a score model, on its own.
        neighborhood: None, or one of the same space.
        reading: a name of `READINGS`, for score models.

    Raises:
        InputError: neither a density nor a score model, another space, a neighborhood that is not the score model's,
            an unknown reading.
    """
    if reading not in READINGS:
        raise InputError("a reading", repr(reading), where="reading", fix=nearest(reading, list(READINGS)))
    if isinstance(model, DensityModel):
        chosen = neighborhood or hamming(model.space)
        check_same_space(model.space, chosen.space, "model and neighborhood")
        check_edges(chosen)
        return DensityReading(model, chosen.symmetrized())
    check_score_model(model, neighborhood)
    return ScoreReading(model, READINGS[reading])


def check_score_model(model: Any, neighborhood: Neighborhood | None) -> None:
    """A score model, sampled along its own neighborhood."""
    if not isinstance(model, ScoreModel):
        raise InputError(
            "a density model or a score model",
            type(model).__name__,
            where="model",
            fix="it must offer `space` and `log_density(x)`, or `neighborhood` and `log_ratios(x)`",
        )
    check_edges(model.neighborhood)
    if neighborhood is None:
        return
    check_same_space(model.neighborhood.space, neighborhood.space, "model and neighborhood")
    if neighborhood not in (model.neighborhood, model.neighborhood.symmetrized()):
        raise InputError(
            "the score model's own neighborhood",
            "another one",
            where="neighborhood",
            fix="leave it out: a score model knows no other ratios",
        )


def _read(ratios: PerSlot, slot: Slots) -> PerState:
    """The log-ratio at a slot ``(C,)``; meaningless where the slot is -1."""
    return pick(ratios, slot.clamp_min(0)).double()


def _find(neighborhood: Neighborhood, x: States, y: States) -> Slots:
    """The slot that leads from ``x`` to ``y`` ``(C,)``; -1 where none does."""
    leads = (neighborhood.neighbors(x) == y[:, None]).all(-1) & neighborhood.valid(x)
    found, slot = leads.max(-1)
    return slot.where(found, -1)
