"""The paper's objective and its family: a Bregman divergence between ratios, estimated on drawn edges.

``J_f(θ) = E_{x~p} Σ_k h(s_k(x)) - E_{x'~p} Σ_{(x,k) in N⁻¹(x')} f'(s_k(x))`` (paper, section 4.1 for ``f = r²``;
docs/mathematics.md, "One family").
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from concrete_score.objectives.divergences import Bregman
from concrete_score.objectives.edges import Edges, bregman_loss, log_ratios_of, scores_of
from concrete_score.objectives.estimators import EdgeEstimator
from concrete_score.protocols import is_raw, space_of
from concrete_score.shapes import PerState, PerStateTable, States
from concrete_score.spaces import check_same_space
from concrete_score.targets.pmf import expectation


@dataclass(frozen=True)
class BregmanObjective:
    """``J_f`` on edges drawn by an estimator; any divergence goes with any estimator.

    Args:
        divergence: the convex ``f``.
        edges: how edges are drawn.
        clip: limit ``|log ratio|`` in the loss (biased, for ``f`` whose terms explode); off by default.

    >>> from concrete_score.models import Table
    >>> from concrete_score.neighborhoods import grid
    >>> from concrete_score.objectives import PairedEdges, divergences
    >>> from concrete_score.spaces import Space
    >>> space = Space((4, 3))
    >>> objective = BregmanObjective(divergences.csm, PairedEdges(grid(space)))
    >>> x = space.uniform(8, torch.Generator().manual_seed(0))
    >>> draws = objective.draw(x, torch.Generator().manual_seed(1))
    >>> objective.loss(Table(space), draws).tolist()  # a uniform model: |N| (1 - 2)
    [-4.0, -4.0, -4.0, -4.0, -4.0, -4.0, -4.0, -4.0]
    """

    divergence: Bregman
    edges: EdgeEstimator
    clip: float | None = None

    def check(self, model: Any) -> None:
        """Refuse a model these edges or this ``f`` cannot train, with what to use instead."""
        check_same_space(space_of(model), self.edges.space, "model and edges")
        self.divergence.check_head(model)
        self.edges.check(model)

    @torch.no_grad()
    def draw(self, x: States, generator: torch.Generator, model: Any = None) -> Any:
        """The edges of one step."""
        return self.edges.draw(x, generator)

    def loss(self, model: Any, draws: Any) -> PerState:
        """``(B,)``, deterministic given the draws; in bounded memory where the draws come in chunks."""
        self.check(model)
        if draws.num_chunks == 1:
            return draws.gather([self._chunk_loss(model, draws, 0)])  # type: ignore[no-any-return]
        # A chunk is built, evaluated and forgotten, and all that again on the way back: memory holds one at a time.
        losses = [
            checkpoint(self._chunk_loss, model, draws, number, use_reentrant=False, preserve_rng_state=False)
            for number in range(draws.num_chunks)
        ]
        return draws.gather(losses)  # type: ignore[no-any-return]

    def exact(self, model: Any, pmf: PerStateTable) -> Tensor:
        """``J_f`` itself, summed over all states and edges."""
        return expectation(pmf, self.loss(model, self.edges.enumerated()))

    def _chunk_loss(self, model: Any, draws: Any, number: int) -> Tensor:
        edges: Edges = draws.chunk(number)
        if is_raw(model) and self.divergence.raw is not None:
            c, (a, b) = scores_of(model, edges), self.divergence.raw
            return (edges.source_weight * a(c) - edges.target_weight * b(c)).sum(-1)
        log_ratio = log_ratios_of(model, edges)
        log_ratio = log_ratio + edges.offset.to(log_ratio.dtype)
        if self.clip is not None:
            log_ratio = log_ratio.clamp(-self.clip, self.clip)
        return bregman_loss(self.divergence, log_ratio, edges)
