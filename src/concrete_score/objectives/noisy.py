"""Ratios matched on corrupted rows, level by level: how the paper trains on images (sections 4.1 and 5.5, C.4).

A corrupted row is a draw from the noisy distribution ``p̃_l``, so J1 and J2 on corrupted rows are the plain objective
for its ratios; no ratio of the noise is used. The denoising objective learns the same ratios with less variance.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from concrete_score import registry
from concrete_score.errors import InputError
from concrete_score.neighborhoods import check_same_space, hamming
from concrete_score.noise import FactorizedNoise
from concrete_score.objectives.bregman import BregmanObjective
from concrete_score.objectives.edges import Edges
from concrete_score.objectives.levels import chosen_levels
from concrete_score.protocols import Neighborhood, NoiseConditional
from concrete_score.shapes import PerState, PerStateTable, States
from concrete_score.spaces import Space


class LeveledEdges(NamedTuple):
    """Edges around corrupted rows, and the level of each row ``(B,)``."""

    level: Tensor
    edges: Edges

    def rows(self, part: slice) -> "LeveledEdges":
        """A slice of the batch."""
        return LeveledEdges(self.level[part], self.edges.rows(part))


@dataclass(frozen=True)
class Noisy:
    """An objective on edges, for a noise-conditional model, at uniformly drawn levels.

    Args:
        objective: any ``f`` on any finite edges but `all`.
        noise: corrupts rows.
        levels: which noise levels are drawn; all by default.

    Raises:
        InputError: a level the noise does not have, or another space.

    >>> from concrete_score.models import mlp
    >>> from concrete_score.noise import categorical
    >>> space = Space.bits(4)
    >>> objective = noisy(space, noise=categorical(space, (0.8, 0.6)))
    >>> model = mlp(hamming(space), noise=objective.noise, generator=torch.Generator().manual_seed(0))
    >>> x = space.uniform(8, torch.Generator().manual_seed(0))
    >>> objective.loss(model, objective.draw(x, torch.Generator().manual_seed(1))).shape
    torch.Size([8])
    """

    objective: BregmanObjective
    noise: FactorizedNoise
    levels: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_same_space(self.noise.space, self.objective.edges.space, "noise and edges")
        chosen_levels(self.noise, self.levels)

    @property
    def chosen_levels(self) -> tuple[int, ...]:
        """The levels rows are corrupted at."""
        return chosen_levels(self.noise, self.levels)

    def check(self, model: Any) -> None:
        """Refuse a model without levels, and what the objective refuses at each."""
        if not isinstance(model, NoiseConditional):
            raise InputError(
                "a noise-conditional model", type(model).__name__, where="model", fix="build it with a noise"
            )
        self.objective.check(model.at(self.chosen_levels[0]))

    @torch.no_grad()
    def draw(self, x: States, generator: torch.Generator, model: Any = None) -> LeveledEdges:
        """A level and a corruption for each row, then edges around it."""
        choice = torch.randint(len(self.chosen_levels), (len(x),), generator=generator, device=generator.device)
        level = torch.tensor(self.chosen_levels, device=x.device)[choice.to(x.device)]
        edges = self.objective.draw(self.noise.corrupt(x, level, generator), generator)
        if not isinstance(edges, Edges):
            raise InputError("edges that are drawn", "all of them at once", where="edges", fix="use `independent`")
        return LeveledEdges(level, edges)

    def loss(self, model: Any, draws: LeveledEdges) -> PerState:
        """``(B,)``, deterministic given the draws."""
        self.check(model)
        # The states of a row's edges share its level.
        return self.objective.loss(model.at(draws.level[:, None]), draws.edges)

    def exact(self, model: Any, pmf: PerStateTable) -> Tensor:
        """The mean over levels of the full objective on the exact noisy distribution."""
        self.check(model)
        parts = [
            self.objective.exact(model.at(level), self.noise.noisy_pmf(pmf, level)) for level in self.chosen_levels
        ]
        return torch.stack(parts).mean()


def noisy(
    space: Space,
    *,
    noise: FactorizedNoise | None = None,
    neighborhood: Neighborhood | None = None,
    f: str = "csm",
    edges: str = "independent",
    levels: tuple[int, ...] | None = None,
    **options: Any,
) -> Noisy:
    """The registered builder; a score model's J1 is its whole sum, for one pass holds it."""
    if noise is None:
        raise InputError("a noise for the noisy objective", "none", where="noise", fix="try `binarized_gaussian`")
    if edges == "independent":
        options = {"full_source": True, **options}
    estimator = registry.load("edges", edges)(neighborhood or hamming(space), **options)
    return Noisy(BregmanObjective(registry.load("divergences", f), estimator), noise, levels)
