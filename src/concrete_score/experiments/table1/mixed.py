"""``f = r²`` where it is bounded: rows mixed with draws of a known density, which is subtracted from what is learned.

On samples the paper's objective has no lower bound: a neighbor without data next to data pulls its ratio without end.
With a share ε of the rows drawn from a known u, positive everywhere, the rows follow ``p̃ = (1 - ε) p + ε u``, and the
model of them is ``q̃ = (1 - ε) q + ε u``: then ``q̃(y) >= ε u(y)`` holds for every neighbor y of every row, so no ratio
is without end. Subtracting u is exact and free, for q itself is what the network gives.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import Any

import torch
from torch import Tensor

from concrete_score import registry
from concrete_score.protocols import Objective
from concrete_score.randomness import uniform
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space


@dataclass(frozen=True, eq=False)
class MixedDensity:
    """``q̃ = (1 - ε) q + ε u`` of a model q.

    Args:
        model: q, normalized.
        noise: u, likewise.
        share: ε.
    """

    model: Any
    noise: Any
    share: float

    @property
    def space(self) -> Space:
        return self.model.space  # type: ignore[no-any-return]

    @property
    def normalized(self) -> bool:
        return True

    def log_density(self, x: States) -> PerState:
        """``log q̃(x)`` ``(..., D) -> (...)``."""
        learned = self.model.log_density(x)
        known = self.noise.log_density(x).to(learned.dtype)
        return torch.logaddexp(learned + log(1 - self.share), known + log(self.share))


@dataclass(frozen=True, eq=False)
class MixedObjective:
    """An objective on rows a share of which is replaced by fresh draws of a known density, for the mixture of both.

    Args:
        objective: of ratios.
        noise: the known density; it samples.
        share: of the rows that are replaced.
    """

    objective: Any
    noise: Any
    share: float

    @property
    def divergence(self) -> Any:
        """That of the objective."""
        return self.objective.divergence

    def check(self, model: Any) -> None:
        """What the objective asks of the mixture."""
        self.objective.check(self._mixed(model))

    def draw(self, x: States, generator: torch.Generator, model: Any = None) -> Any:
        """The edges of one step, from mixed rows."""
        replaced = uniform((len(x), 1), generator, x.device) < self.share
        noise = self.noise.sample(len(x), generator).to(x.device)
        return self.objective.draw(torch.where(replaced, noise, x), generator)

    def loss(self, model: Any, draws: Any) -> PerState:
        loss: PerState = self.objective.loss(self._mixed(model), draws)
        return loss

    def exact(self, model: Any, pmf: Tensor) -> Tensor:
        """Of the mixture of ``pmf`` ``(S,)`` and the known density."""
        known = self.noise.log_density(self.noise.space.enumerate()).exp().to(pmf)
        found: Tensor = self.objective.exact(self._mixed(model), (1 - self.share) * pmf + self.share * known)
        return found

    def _mixed(self, model: Any) -> MixedDensity:
        return MixedDensity(model, self.noise, self.share)


def mixed(objective: Objective, noise: Mapping[str, Any], rows: States, space: Space) -> Objective:
    """An objective on rows mixed with a baseline of their own.

    Args:
        objective: of ratios.
        noise: the ``baseline`` by name, and the ``share`` of it.
        rows: what the baseline is fitted to ``(N, D)``.
        space: theirs.
    """
    return MixedObjective(objective, registry.load("baselines", noise["baseline"]).fit(rows, space), noise["share"])
