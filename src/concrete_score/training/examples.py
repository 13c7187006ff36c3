"""What is learned from: rows of states, which of their cells were seen, and how much each row counts."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.models.completing import DRAWS, LISTED, check_completes, fill
from concrete_score.models.lookahead import LookAhead, Pairs
from concrete_score.protocols import Objective, ObservedObjective
from concrete_score.randomness import generator, reseed
from concrete_score.spaces import Space
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

    def take(self, index: Tensor) -> "Examples":
        """Rows without blanks by their numbers, for every step: half the time of indexing."""
        weights = None if self.weights is None else self.weights.index_select(0, index)
        return Examples(self.states.index_select(0, index), None, weights)

    def spread(self, most: int) -> "Examples":
        """At most so many rows, evenly spread: tables often lie sorted.

        >>> Examples.of(torch.arange(10)[:, None]).spread(3).states.flatten().tolist()
        [0, 3, 6]
        """
        return self if len(self) <= most else self[slice(0, len(self) // most * most, len(self) // most)]

    @property
    def whole(self) -> bool:
        """Whether every cell was seen."""
        return self.observed is None

    @property
    def blank_cells(self) -> int:
        """How many cells were not seen."""
        return 0 if self.observed is None else self.observed.numel() - int(self.observed.sum())

    @property
    def often_blank(self) -> list[int]:
        """The columns that are blank more than twice as often as the median column, the most often blank last.

        >>> seen = torch.tensor([[False, True, True, True], [False, False, True, True]])
        >>> Examples.of(torch.zeros(2, 4), seen).often_blank
        [1, 0]
        """
        if self.observed is None:
            return []
        blank = (~self.observed).sum(0)
        often = (blank > 2 * blank.median()).nonzero().squeeze(-1)
        return [int(d) for d in often[blank[often].argsort(stable=True)]]

    @property
    def mean_log_inside(self) -> float:
        """The mean of ``log P(row | its states)``, weighted as the rows are; 0 where no row counts."""
        if self.log_inside is None:
            return 0.0
        weights = torch.ones_like(self.log_inside) if self.weights is None else self.weights.to(self.log_inside)
        return float((self.log_inside * weights).sum() / total) if (total := weights.sum()) else 0.0

    def to(self, device: Any) -> "Examples":
        """The same on a device."""
        if self.states.device == torch.device(device):
            return self
        return Examples(*(None if part is None else part.to(device) for part in self._parts))  # type: ignore[arg-type]

    def balanced(self) -> "Examples":
        """With weights whose mean is 1."""
        return self if self.weights is None else replace(self, weights=self.weights / self.weights.mean())

    def look_ahead(self, model: Any) -> LookAhead | None:
        """What a model with an order needs to draw a blank with an eye on the observed cells after it."""
        if self.observed is None or not hasattr(model, "order"):
            return None
        if model.space not in self._pairs:
            self._pairs[model.space] = Pairs.of(self.states, model.space, self.observed)
        pairs = self._pairs[model.space]
        return None if pairs is None else pairs.ahead(torch.as_tensor(model.order, device=self.states.device))

    @cached_property
    def _pairs(self) -> dict[Space, Pairs | None]:
        """Counted once, for models of any order."""
        return {}

    def completed(self, model: Any, generator: torch.Generator, ahead: LookAhead | None = None) -> "Examples":
        """With the blanks of each row filled by a draw of the model given what was seen of it.

        Exactly so where all completions of a row are listed, and nearly where some are drawn and one chosen by weight.
        """
        if self.observed is None:
            return self
        step = max(1, CELLS // (LISTED * DRAWS * self.states.shape[-1]))
        parts = zip(torch.split(self.states, step), torch.split(self.observed, step), strict=True)
        filled = [fill(model, x.long(), observed, DRAWS, generator, ahead).states for x, observed in parts]
        return Examples(torch.cat(filled), None, self.weights)

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
        self._random = torch.Generator(device=examples.states.device)
        self._block = -1
        self._ahead: LookAhead | None = None
        self._filled: Any = None

    def at(self, step: int, model: Any) -> Packed:
        """The batch of a step, with all that is random about it."""
        if self.examples.whole:
            return self._drawn(self.examples.take(self._index(step)), step, model)
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
        random = generator(self.settings.seed, "blanks", steps.start, batch.states.device)
        if self._ahead is None:
            self._ahead = self.examples.look_ahead(model)
        if isinstance(self.objective, ObservedObjective) and batch.observed is not None:
            draws = self.objective.draw_observed(batch.states.long(), batch.observed, random, model, self._ahead)
            return Packed(draws, batch.weights)
        return batch.completed(model, random, self._ahead)

    def _drawn(self, batch: Examples, step: int, model: Any) -> Packed:
        random = reseed(self._random, self.settings.seed, "draws", step)
        return Packed(self.objective.draw(batch.states.long(), random, model), batch.weights)

    def _index(self, step: int) -> Tensor:
        """Which rows a step learns from ``(batch_size,)``."""
        random = reseed(self._random, self.settings.seed, "batch", step)
        return torch.randint(len(self.examples), (self.settings.batch_size,), generator=random, device=random.device)
