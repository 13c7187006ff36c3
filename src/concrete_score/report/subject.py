"""What a report is about: a run, its model, the rows it learned from and those it did not see.

All that depends on the kind of data is asked of a codec here, and in no other file of this room.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from concrete_score.baselines.counts import check_states
from concrete_score.codecs import Codec
from concrete_score.diagnostics import Effort, RunHealth, diagnose_run, draw_by_chains
from concrete_score.errors import InputError
from concrete_score.fitted import Drawn, Fitted
from concrete_score.likelihood import exact_sampler
from concrete_score.likelihood.views import RECOVERED
from concrete_score.neighborhoods import hamming
from concrete_score.protocols import DensityModel, NoiseConditional, Samplable
from concrete_score.randomness import generator
from concrete_score.runs import Run
from concrete_score.samplers.completions import COMPLETIONS
from concrete_score.spaces import Space
from concrete_score.training.examples import Examples

DRAWS = 10_000
"""Rows drawn of the model."""
CELLS = 2**24
"""Cells of the rows that are looked at: more rows than this allows are drawn from."""
ROWS = 2**18
"""Training rows that are looked at, evenly spread where there are more."""


class SiteNames(NamedTuple):
    """What a site and its values are called in the data."""

    name: str
    kind: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Missing:
    """What cannot be had, and why, in one sentence."""

    why: str


@dataclass(frozen=True, eq=False)
class Subject:
    """A run with its rows, and what several sections need of it, each found once.

    Args:
        run: with its best model.
        fitted: that model, in double precision.
        train: the rows it learned from ``(N, D)``, in integers however narrow.
        held_out: rows it did not learn from ``(M, D)``; None or none where all were learned from.
        observed: which cells of the rows it is judged by were seen, bool; None for all.
        blanks: how many cells of these rows were not: they hold draws of the model.
        inside: of the rows it is judged by, ``log P(row | its states)`` ``(M,)``; None where that is 0.
        rows: how many rows it learned from, where that is more than ``train`` holds.
    """

    run: Run
    fitted: Fitted
    train: Tensor
    held_out: Tensor | None = None
    observed: Tensor | None = None
    blanks: int = 0
    inside: Tensor | None = None
    rows: int = 0

    @classmethod
    def of(
        cls,
        run: Run,
        train: Tensor | Examples,
        held_out: Tensor | Examples | None = None,
        device: str | torch.device = "cpu",
        model: nn.Module | None = None,
    ) -> "Subject":
        """The subject of a run on disk; ``model`` is its best one where it is built already, and stays as it is.

        Raises:
            InputError: the run has no model yet, or rows of another space.
        """
        model = (run.model() if model is None else deepcopy(model).requires_grad_(False)).double().to(device)
        learned = Examples.of(train).spread(ROWS).to(device)
        held = None if held_out is None or not len(held_out) else Examples.of(held_out).to(device)
        parts = [learned] if held is None else [learned, held]
        rows: list[Tensor] = []
        for place, part in enumerate(parts):
            check_states(part.states, run.space)
            random = generator(run.settings.seed, "report blanks", place, learned.states.device)
            rows.append(part.completed(model, random).states)
        blanks = sum(part.blank_cells for part in parts)
        judged = parts[-1]
        held_rows = rows[1] if held else None
        seen, inside = judged.observed, judged.log_inside
        return cls(run, Fitted(model, run.space), rows[0], held_rows, seen, blanks, inside, len(train))

    @property
    def space(self) -> Space:
        """That of the rows and the model."""
        return self.fitted.space

    @property
    def model(self) -> Any:
        """The density, or the score model at its weakest noise."""
        model = self.fitted.model
        return model.at(0) if isinstance(model, NoiseConditional) and not isinstance(model, DensityModel) else model

    @property
    def is_density(self) -> bool:
        """Whether the model gives a density, normalized or not."""
        return isinstance(self.model, DensityModel)

    @property
    def small(self) -> bool:
        """Whether its states can be enumerated in a moment."""
        return self.space.num_states <= (COMPLETIONS if self.is_density else RECOVERED)

    @property
    def codec(self) -> Codec:
        """What the data are called and how they are shown."""
        return self.run.codec

    @cached_property
    def sites(self) -> tuple[SiteNames, ...]:
        """The names of columns or pixels, and of their values."""
        codec = self.codec
        return tuple(SiteNames(name, codec.site_kind(d), codec.labels(d)) for d, name in enumerate(codec.names))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Those of the columns alone."""
        return tuple(site.name for site in self.sites)

    def label(self, site: int, value: int) -> str:
        """A cell's value as the data spell it."""
        return self.sites[site].labels[value]

    @property
    def judged(self) -> Tensor:
        """The rows the model is judged by: held-out ones, or those it learned where there are none."""
        return self.train if self.held_out is None else self.held_out

    @property
    def judged_name(self) -> str:
        """What they are called."""
        rows = self.codec.noun
        return f"training {rows} (none were held out)" if self.held_out is None else f"held-out {rows}"

    @cached_property
    def effort(self) -> Effort:
        """How much may be asked of this model."""
        return Effort.of(self.model)

    def generator(self, stream: str) -> torch.Generator:
        """The randomness of one part of the report, the same whatever other parts there are."""
        return generator(self.run.settings.seed, f"report {stream}", device=self.train.device)

    def some(self, rows: Tensor, most: int, stream: str) -> Tensor:
        """At most so many rows as states, drawn at random where there are more."""
        return self.some_of(rows, most, stream).long()

    def some_of(self, each: Tensor, most: int, stream: str) -> Tensor:
        """What belongs to at most so many rows ``(N, …)``: with one name of a stream always to the same ones."""
        most = max(1, min(most, CELLS // self.space.num_sites))
        if len(each) <= most:
            return each
        gen = self.generator(f"some {stream}")
        return each[torch.randperm(len(each), generator=gen, device=gen.device)[:most].sort().values]

    @cached_property
    def sampler(self) -> Samplable | None:
        """What draws exact samples, as far as that is not `Fitted`'s to find."""
        return exact_sampler(self.fitted.model)

    @cached_property
    def draws(self) -> Drawn | Missing:
        """Rows drawn of the model: exact where that can be had at once, else by chains that are kept short."""
        gen = self.generator("sampled rows")
        try:
            if self.sampler is not None or self.small:
                sweep = self.space.num_sites if self.sampler is not None else 1
                return self.fitted.sample(self.effort.within(3.0, 200, DRAWS, each=max(1, sweep // 16)), gen)
            return draw_by_chains(self.model, self.space, self.effort, gen)
        except InputError as refusal:
            return Missing(f"The model could not be drawn from: {refusal}.")

    @cached_property
    def health(self) -> RunHealth | Missing:
        """Contradictions, leak and mixing, in a bounded time; the diagnose command takes longer and sees more."""
        slots = max(1, hamming(self.space).num_slots)
        states = max(200, min(2000, 5 * 10**6 // slots))
        held = None if self.held_out is None else self.some(self.held_out, 2 * states, "health")
        known = (
            self.some(self.train, len(self.train), "known")
            if held is not None
            else self.some(self.train, 4 * states, "known")
        )
        # Where there are exact draws, little depends on chains.
        exact = self.sampler is not None or self.small
        kept, thin = self.effort.chain_length(2.0 if exact else 4.0, self.space, 32)
        looks = self.effort.within(1.5, 8, 256, each=4 * self.space.num_sites)
        try:
            return diagnose_run(
                self.fitted.model,
                known,
                None,
                self.generator("health"),
                held_out=held,
                looks=looks,
                draws=states,
                kept=kept,
                thin=thin,
            )
        except InputError as refusal:
            return Missing(f"The model's health could not be looked at: {refusal}.")


def most_telling(worth: Sequence[float | int], most: int) -> list[int]:
    """The places of the largest numbers, in the order of places.

    >>> most_telling([0.1, 0.5, 0.2], 2)
    [1, 2]
    """
    return sorted(sorted(range(len(worth)), key=lambda place: (-worth[place], place))[:most])
