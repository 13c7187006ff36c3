"""What is learned from: rows of states, which of their cells were seen, and how much each row counts."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.models.completing import DRAWS, LISTED, check_completes, complete
from concrete_score.models.lookahead import LookAhead
from concrete_score.protocols import Objective, ObservedObjective
from concrete_score.randomness import generator
from concrete_score.training.recipe import TrainingSettings

CELLS = 2**22
"""Cells (completions × sites) of rows that are filled at once."""


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows ``(N, D)`` in integers however narrow; None stands for all cells seen, and for equal weights.

    Args:
        states: the rows; a blank cell holds any value of its site.
        observed: which cells were seen, bool ``(N, D)``.
        weights: of the rows, none negative ``(N,)``.
        log_inside: of data that states are ranges of, ``log P(row | its states)`` in float64 ``(N,)``; 0 where None.

    Raises:
        InputError: shapes that do not fit, or weights that are negative, not finite, or all zero.

    >>> rows = Examples.of(torch.tensor([[0, 1], [1, 0]]), torch.tensor([[True, True], [True, False]]))
    >>> len(rows), rows.whole, rows[torch.tensor([0])].whole
    (2, False, False)
    >>> Examples.of(rows.states, torch.ones(2, 2, dtype=torch.bool)).whole
    True
    """

    states: Tensor
    observed: Tensor | None = None
    weights: Tensor | None = None
    log_inside: Tensor | None = None

    def __post_init__(self) -> None:
        if self.observed is not None and self.observed.shape != self.states.shape:
            expected = f"booleans of the shape of the rows, {tuple(self.states.shape)}"
            raise InputError(expected, f"shape {tuple(self.observed.shape)}", where="observed")
        if self.weights is None:
            return
        if self.weights.shape != self.states.shape[:1]:
            raise InputError(f"{len(self.states)} weights", f"shape {tuple(self.weights.shape)}", where="weights")

    @classmethod
    def of(
        cls,
        rows: "Tensor | Examples",
        observed: Tensor | None = None,
        weights: Tensor | None = None,
        log_inside: Tensor | None = None,
    ) -> "Examples":
        """Examples in their plainest form: what is all seen, or weighs all the same, is None."""
        if isinstance(rows, Examples):
            return rows
        if weights is not None:
            if not bool((weights.isfinite() & (weights >= 0)).all()) or not bool((weights > 0).any()):
                raise InputError("finite weights, none negative and some above 0", "others", where="weights")
            weights = None if bool((weights == weights[0]).all()) else weights.double()
        whole = observed is None or bool(observed.all())
        return cls(rows, None if whole else observed, weights, log_inside)

    def __len__(self) -> int:
        return len(self.states)

    def __getitem__(self, index: Tensor | slice) -> "Examples":
        """Some of the rows."""
        return Examples(*(None if part is None else part[index] for part in self._parts))  # type: ignore[arg-type]

    @property
    def whole(self) -> bool:
        """Whether every cell was seen."""
        return self.observed is None

    @property
    def blank_cells(self) -> int:
        """How many cells were not seen."""
        return 0 if self.observed is None else int((~self.observed).sum())

    @property
    def mean_log_inside(self) -> float:
        """The mean of ``log P(row | its states)``, weighted as the rows are."""
        if self.log_inside is None:
            return 0.0
        weights = torch.ones_like(self.log_inside) if self.weights is None else self.weights.to(self.log_inside)
        return float((self.log_inside * weights).sum() / weights.sum())

    def to(self, device: Any) -> "Examples":
        """The same on a device."""
        return Examples(*(None if part is None else part.to(device) for part in self._parts))  # type: ignore[arg-type]

    def balanced(self) -> "Examples":
        """With weights whose mean is 1."""
        return self if self.weights is None else replace(self, weights=self.weights / self.weights.mean())

    def look_ahead(self, model: Any) -> LookAhead | None:
        """What a model with an order needs to draw a blank with an eye on the observed cells after it."""
        if self.observed is None or not hasattr(model, "order"):
            return None
        order = torch.as_tensor(model.order, device=self.states.device)
        return LookAhead.of(self.states, model.space, order, self.observed)

    def completed(self, model: Any, generator: torch.Generator, ahead: LookAhead | None = None) -> "Examples":
        """With the blanks of each row filled by a draw of the model given what was seen of it.

        Exactly so where all completions of a row are listed, and nearly where some are drawn and one chosen by weight.
        """
        if self.observed is None:
            return self
        step = max(1, CELLS // (LISTED * DRAWS * self.states.shape[-1]))
        parts = zip(torch.split(self.states, step), torch.split(self.observed, step), strict=True)
        weighed = (complete(model, x.long(), observed, DRAWS, generator, ahead) for x, observed in parts)
        return Examples(torch.cat([each.chosen(model, generator).states for each in weighed]), None, self.weights)

    def check(self, model: Any) -> None:
        """Refuse rows with blanks of a model that cannot fill them.

        Raises:
            InputError: it says what to do with them instead.
        """
        if self.observed is not None:
            check_completes(model, self.observed)

    @property
    def _parts(self) -> tuple[Tensor | None, ...]:
        return self.states, self.observed, self.weights, self.log_inside


AHEAD, CELLS = 20, 2**24
"""Steps for whose batches blanks are filled together, as long as they hold about so many cells at most.

A few large passes cost less than many small ones, and so few steps change the weights of fills by little.
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
        self._ahead: LookAhead | None = None
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
        if self._ahead is None:
            self._ahead = self.examples.look_ahead(model)
        if isinstance(self.objective, ObservedObjective) and batch.observed is not None:
            draws = self.objective.draw_observed(batch.states.long(), batch.observed, random, model, self._ahead)
            return Packed(draws, batch.weights)
        return batch.completed(model, random, self._ahead)

    def _drawn(self, batch: Examples, step: int, model: Any) -> Packed:
        draws = self.objective.draw(batch.states.long(), self._generator("draws", step), model)
        return Packed(draws, batch.weights)

    def _index(self, step: int) -> Tensor:
        """Which rows a step learns from ``(batch_size,)``."""
        random, device = self._generator("batch", step), self.examples.states.device
        return torch.randint(len(self.examples), (self.settings.batch_size,), generator=random, device=device)

    def _generator(self, stream: str, step: int) -> torch.Generator:
        return generator(self.settings.seed, stream, step, self.examples.states.device)
