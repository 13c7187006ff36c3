"""Answers by blocks of rows: what is done with a block depends on the block alone, on its number and its rows.

Every block has randomness of its own, named by its number. So an answer is the same, bit for bit, whether the rows come
as one table or in parts, and whether one process does all blocks or several share them (`jobs.in_order`).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from concrete_score.answers import Counted, Filled, Given, by_site, probability_table
from concrete_score.codecs.base import NothingLeft
from concrete_score.data.evenly import regrouped
from concrete_score.data.frame import Frame
from concrete_score.defaults import FILLS
from concrete_score.fitted import Drawing, Drawn, Progress
from concrete_score.likelihood import LogLikelihood
from concrete_score.protocols import Encoded
from concrete_score.samplers.evidence import Probability
from concrete_score.samplers.from_noise import Watch, part_of

if TYPE_CHECKING:
    from concrete_score.model import Model

SAMPLED, FROM_NOISE = 2**13, 2**8
"""Rows of a block that are drawn, and those drawn as chains from noise."""
SCORED = 2**13
"""Rows of a block whose log-likelihood is asked for."""
FILLED = 2**11
"""Rows of a block whose blanks are filled, which takes many passes a row."""


class Block(NamedTuple):
    """Some rows of a table."""

    number: int
    """It names the randomness."""
    data: Any
    """A part of the table, or its states already (`Given`)."""


def blocks_of(data: Any, size: int, whole: bool = False) -> Iterator[Block]:
    """The rows of a table that was read (`Given`), or of one that comes in parts, by ``size``.

    Of a table that was read, only the states, or the ``whole``.

    >>> import polars as pl
    >>> from concrete_score.data.frame import as_frame
    >>> parts = [as_frame(pl.DataFrame({"a": range(start, start + 3)})) for start in (0, 3)]
    >>> [[row for row, in block.data.rows()] for block in blocks_of(parts, 4)]
    [[0, 1, 2, 3], [4, 5]]
    """
    if isinstance(data, Given):
        for number in range(ceil(data.numbers / size)):
            yield Block(number, data.block(number * size, size, whole))
    else:
        for number, frame in enumerate(regrouped(data, size)):
            yield Block(number, frame)


class Sampled(NamedTuple):
    """Rows that were drawn, as data, and how."""

    data: Any
    method: str
    warnings: tuple[str, ...] = ()
    probability: Probability | None = None


@dataclass(frozen=True, eq=False)
class Sampling:
    """Draws rows, block by block; see `Model.sample`."""

    model: "Model"
    n: int
    given: Any = None
    sampler: str | None = None
    random_state: int | None = None
    passes: int | None = None
    blanks: bool = False
    watch: Watch | None = None
    """Shown the stages of the first block."""
    progress: Progress | None = None
    """Receives how many rows are done, and of how many."""

    size: int = 0
    """Rows of a block; by default as many as suit the model."""

    def __post_init__(self) -> None:
        if not self.size:
            object.__setattr__(self, "size", FROM_NOISE if self.model.fitted.draws_from_noise else SAMPLED)

    def __len__(self) -> int:
        return ceil(self.n / self.size)

    def states(self, number: int) -> Drawn:
        """The draws of one block as states."""
        start = number * self.size
        count = min(self.size, self.n - start)
        drawing = self._drawing if number or self.watch is None else self._drawn_by(self.watch)
        report = None if self.progress is None else part_of(self.progress, start, count, self.n)
        parts = list(drawing(count, self.model.generator("sample", self.random_state, number), report))
        states = torch.cat([part.states for part in parts]) if len(parts) > 1 else parts[0].states
        return replace(parts[0], states=states)

    def __call__(self, number: int) -> Sampled:
        """The draws of one block as data."""
        drawn = self.states(number)
        return Sampled(self.decoded(number, drawn.states), drawn.method, drawn.warnings, drawn.probability)

    def decoded(self, number: int, states: Tensor) -> Any:
        """States of a block as data; what they leave open is drawn so that the conditions are met."""
        model = self.model
        random = model.generator("decode", self.random_state, number)
        data = model.codec.decode(states, random, model.codec.conditions(self.given), number * self.size)
        leave = model.blanker(self.random_state, number) if self.blanks else None
        return data if leave is None else leave(data, states)

    @cached_property
    def _drawing(self) -> Drawing:
        return self._drawn_by(None)

    def _drawn_by(self, watch: Watch | None) -> Drawing:
        model = self.model
        conditions = model.codec.conditions(self.given)
        evidence = model.codec.evidence(conditions)
        how: dict[str, Any] = {"passes": self.passes, "watch": watch, "condition": model.told(conditions)}
        return model.fitted.drawing(self.n, evidence, self.sampler, **how)


@dataclass(frozen=True, eq=False)
class Reading:
    """Reads the rows of a block that are not states yet, by options of `Model.read`."""

    model: "Model"
    how: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, data: Any) -> tuple[Given, Counted]:
        """The states, of which there may be none, and what was out of the ordinary."""
        try:
            given = self.model.read(data, **self.how)
        except NothingLeft as nothing:
            sites = len(self.model.codec.names)
            rows = Encoded(torch.empty(0, sites), torch.empty(0, sites, dtype=torch.bool), torch.empty(0).long())
            return Given(data, rows, first=data.first), Counted(0, nothing.unknown, nothing.blank)
        return given, Counted.of(given.rows)


class Scored(NamedTuple):
    """The log-likelihood of a block's rows, and of each of them where there is such a thing."""

    found: LogLikelihood | None
    """None where no row was left."""
    counted: Counted
    row: Tensor
    """Their numbers ``(n,)``."""
    values: Tensor | None = None
    """``(n,)`` in float64."""


@dataclass(frozen=True, eq=False)
class Scoring:
    """The log-likelihoods of rows, block by block; see `Model.evaluate`."""

    model: "Model"
    random_state: int | None = None
    how: Mapping[str, Any] = field(default_factory=dict)
    size: ClassVar[int] = SCORED

    def __call__(self, block: Block) -> Scored:
        """The log-likelihoods of one block."""
        model = self.model
        given, counted = Reading(model, self.how)(block.data)
        row, inside = given.first + given.rows.kept, given.rows.log_inside
        if not len(row):
            return Scored(None, counted, row, row.double())
        random = model.generator("evaluate", self.random_state, block.number)
        with given.named():
            states, observed = model.cells(given)
            each = model.fitted.row_log_densities(states, given.row_name, observed=observed, generator=random)
            if each is None:
                found = model.fitted.evaluate(states, random, row_name=given.row_name, observed=observed)
                return Scored(found if inside is None else found.moved(float(inside.mean())), counted, row)
        values = each.values if inside is None else each.values + inside.to(each.values.device)
        found = each._replace(values=values).mean(len(model.codec.names), model.fitted.views.warnings)
        return Scored(found, counted, row, values.cpu())


@dataclass(eq=False)
class Evaluation:
    """What the blocks of a table give together.

    Args:
        where: what to call the table in messages.
        noun: what its rows are called.
    """

    where: str = "data"
    noun: str = "rows"
    found: LogLikelihood | None = None
    counted: Counted = field(default_factory=Counted)

    def over(self, parts: Iterable[Scored]) -> Iterator[Scored]:
        """The parts as they come, each of which is counted.

        Raises:
            NothingLeft: no row of any part was left.
        """
        for part in parts:
            self.counted = self.counted.plus(part.counted)
            if part.found is not None:
                self.found = part.found if self.found is None else self.found.joined(part.found)
            yield part
        self.check()

    def check(self) -> None:
        """Refuse a table all of whose rows were left out."""
        if self.counted.skipped and not self.counted.rows:
            raise NothingLeft(self.counted.unknown, self.counted.dropped, self.where, self.noun)


class FilledBlock(NamedTuple):
    """A block without blanks."""

    filled: Filled
    counted: Counted


@dataclass(frozen=True, eq=False)
class Filler:
    """Fills the blanks of rows, block by block; see `Model.impute`."""

    model: "Model"
    draws: int | None = None
    fill: str = FILLS[0]
    sampler: str | None = None
    random_state: int | None = None
    passes: int | None = None
    how: Mapping[str, Any] = field(default_factory=dict)
    size: ClassVar[int] = FILLED

    def __call__(self, block: Block) -> FilledBlock:
        """One block with its blanks filled, M copies of it one below the other."""
        given, counted = Reading(self.model, self.how)(block.data)
        return FilledBlock(self.filled(given, block.number), counted)

    def filled(self, given: Given, number: int = 0, progress: Progress | None = None) -> Filled:
        """The rows of one block with their blanks filled."""
        model, rows = self.model, given.rows
        filled = rows.states.long().expand(self.draws or 1, -1, -1).clone()
        holes = ~rows.observed.all(1)
        if not holes.any():
            return Filled(model.codec.fill(given.data, rows, filled, self.draws), 0, None)
        at = holes.nonzero()[:, 0]
        device = model.fitted.views.device
        with given.named():
            found = model.fitted.impute(
                rows.states[holes].long().to(device),
                rows.observed[holes].to(device),
                model.generator("impute", self.random_state, number),
                draws=self.draws,
                sampler=self.sampler,
                progress=progress,
                passes=self.passes,
                row_name=lambda row: given.row_name(int(at[row])),
            )
        filled[:, holes] = found.states.reshape(len(filled), -1, filled.shape[-1]).cpu()
        blank, random = given.blank, model.generator("decode", self.random_state, number)
        probs = None if found.cells is None else by_site(found.cells, at, blank)
        data = model.codec.fill(given.data, rows, filled, self.draws, generator=random, probs=probs, how=self.fill)
        return Filled(data, int(blank.sum()), found.method, found.warnings)


def joined_copies(blocks: Iterable[Any], draws: int | None) -> Iterator[Any]:
    """The blocks' data in the order of a whole table: its first copy, then its second, and so on.

    Args:
        blocks: data of which each holds its copies one below the other; gone through once for every copy.
        draws: how many copies; None is one.
    """
    if draws is None:
        yield from blocks
        return
    for copy in range(draws):
        for data in blocks:
            rows = len(data) // draws
            yield data.take(np.arange(copy * rows, (copy + 1) * rows))


@dataclass(frozen=True, eq=False)
class Telling:
    """The distributions of blank cells, block by block; see `Model.probabilities`."""

    model: "Model"
    random_state: int | None = None
    how: Mapping[str, Any] = field(default_factory=dict)
    size: ClassVar[int] = FILLED

    def __call__(self, block: Block) -> Frame:
        """The table of one block."""
        given, _ = Reading(self.model, self.how)(block.data)
        found = self.model.conditionals(given, random_state=self.random_state, block=block.number)
        return probability_table(given, None if found is None else found.cells, self.model.codec)
