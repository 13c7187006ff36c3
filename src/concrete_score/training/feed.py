"""What each step learns from: its rows, drawn by its own generator, and all that the objective draws around them."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from concrete_score.models.completing import DRAWS, LISTED
from concrete_score.protocols import Objective, ObservedObjective
from concrete_score.randomness import generator
from concrete_score.training.examples import Examples
from concrete_score.training.recipe import TrainingSettings

AHEAD, CELLS = 20, 2**24
"""Steps for whose batches blanks are filled together, as long as they hold about so many cells at most.

A few large passes cost less than many small ones. Fills do not spoil: each is weighed by the model of its own step
against the model that drew it.
"""


@dataclass(eq=False)
class Packed:
    """Draws on their way through wrappers that would otherwise look into, convert or copy them."""

    draws: Any
    weights: Tensor | None = None
    """Of the rows ``(B,)``."""

    def rows(self, part: slice) -> "Packed":
        """A slice of the batch: what one of several processes takes."""
        return Packed(self.draws.rows(part), None if self.weights is None else self.weights[part])


class Feed:
    """Batches by step. Step t's rows come from ``(seed, "batch", t)`` and its draws from ``(seed, "draws", t)``.

    With blanks, the model fills those of `ahead` batches at once, at steps that are multiples of it: only there may a
    training stop to be resumed.

    Args:
        examples: all rows, on the device of the training.
        objective: draws what is random about a step.
        settings: the batch size and the seed.
    """

    def __init__(self, examples: Examples, objective: Objective, settings: TrainingSettings) -> None:
        self.examples, self.objective, self.settings = examples.balanced(), objective, settings
        cells = settings.batch_size * examples.states.shape[-1] * LISTED * DRAWS
        self.ahead = 1 if examples.whole else max(1, min(AHEAD, CELLS // cells))
        self._block = -1
        self._filled: Any = None

    def at(self, step: int, model: Any) -> Packed:
        """The batch of a step, with all that is random about it."""
        if self.examples.whole:
            batch = self.examples[self._index(step)]
            return self._drawn(batch, step, model)
        block, place = divmod(step, self.ahead)
        if block != self._block:
            self._block, self._filled = block, self._fill(block, model)
        size = self.settings.batch_size
        part = slice(place * size, (place + 1) * size)
        if isinstance(self._filled, Packed):
            return self._filled.rows(part)
        return self._drawn(self._filled[part], step, model)

    def _fill(self, block: int, model: Any) -> Packed | Examples:
        """The batches of a block: what the objective makes of their blanks, or else rows without any."""
        steps = range(block * self.ahead, (block + 1) * self.ahead)
        batch = self.examples[torch.cat([self._index(step) for step in steps])]
        random = self._generator("blanks", steps.start)
        if isinstance(self.objective, ObservedObjective) and batch.observed is not None:
            draws = self.objective.draw_observed(batch.states.long(), batch.observed, random, model)
            return Packed(draws, batch.weights)
        return batch.completed(model, random)

    def _drawn(self, batch: Examples, step: int, model: Any) -> Packed:
        draws = self.objective.draw(batch.states.long(), self._generator("draws", step), model)
        return Packed(draws, batch.weights)

    def _index(self, step: int) -> Tensor:
        """Which rows a step learns from ``(batch_size,)``."""
        random, device = self._generator("batch", step), self.examples.states.device
        return torch.randint(len(self.examples), (self.settings.batch_size,), generator=random, device=device)

    def _generator(self, stream: str, step: int) -> torch.Generator:
        return generator(self.settings.seed, stream, step, self.examples.states.device)
