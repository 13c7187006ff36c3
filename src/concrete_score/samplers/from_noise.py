"""Draws of a model with noise levels: chains that begin as noise and end clean, also with some sites observed.

How they come down is a name registered under ``annealing``: the paper's Metropolis-Hastings, informed single changes,
many sites at once, or the reverse noise chain. Observed sites are corrupted anew at each level (in-painting). Under
absorbing noise it is a name registered under ``unmasking``, and observed sites are visible throughout.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import log
from typing import Any

import torch
from torch import Tensor

from concrete_score import registry
from concrete_score.errors import InputError, nearest
from concrete_score.noise import Absorbing
from concrete_score.samplers.annealed import Annealed, Stage
from concrete_score.samplers.completions import Cells, Known, Rows
from concrete_score.samplers.methods import REPLICAS, Piece, Spread
from concrete_score.samplers.run import Progress
from concrete_score.samplers.unmasking import Unmasking

DEFAULT, GIVEN = "ancestral", "corrected"
"""The reverse noise chain; where sites are observed, with moves at each level, by which the free ones come to know of
them: on digits' lower halves a log-loss of 0.329 a pixel instead of 0.346."""
UNMASKING = "one_site"
"""Exact for a model of hidden sites, whatever is observed."""
TOGETHER = 2**18
"""Sites of chains that run side by side."""
Watch = Callable[[Stage], None]
"""Shown the chains after every level."""


@dataclass(frozen=True, eq=False)
class FromNoise:
    """A `ConditionalMethod`: every draw is a chain of its own, from uniform noise to no noise.

    Args:
        sampler: how chains come down.
        name: what it is called.
        watch: shown the stages of the first chains that run together.

    >>> from concrete_score.models.ideal import IdealDenoiser
    >>> from concrete_score.neighborhoods import hamming
    >>> from concrete_score.noise import binarized_gaussian
    >>> from concrete_score.spaces import Space
    >>> space = Space.bits(4)
    >>> ideal = IdealDenoiser(torch.tensor([[0, 0, 0, 0], [1, 1, 1, 1]]), binarized_gaussian(space), hamming(space))
    >>> x, known = torch.tensor([[0, 0, 0, 1]]), torch.tensor([[False, False, False, True]])
    >>> next(from_noise(ideal).draw(x, known, 3, torch.Generator().manual_seed(0))).states[:, 0, 3].tolist()
    [1, 1, 1]
    """

    sampler: Annealed | Unmasking
    name: str = DEFAULT
    watch: Watch | None = None

    def serves(self, observed: Known) -> Tensor:
        return torch.ones(len(observed), dtype=torch.bool, device=observed.device)

    def draw(
        self, x: Rows, observed: Known, draws: int, generator: torch.Generator, progress: Progress | None = None
    ) -> Iterator[Piece]:
        """``draws`` chains a row; ``progress`` counts levels where there is one row."""
        for rows, last, notes in self._chains(x, observed, draws, generator, progress if len(x) == 1 else None):
            yield Piece(rows, torch.cat([stage.x for stage in last]).reshape(draws, len(rows), -1), None, notes)

    def cells(self, x: Rows, observed: Known, generator: torch.Generator) -> Iterator[Spread]:
        """The final denoising's distribution of each blank, averaged over `REPLICAS` chains of its row."""
        for rows, last, notes in self._chains(x, observed, REPLICAS, generator, None):
            clean = torch.cat([self._clean(stage) for stage in last])
            mean = clean.reshape(REPLICAS, len(rows), *clean.shape[1:]).logsumexp(0) - log(REPLICAS)
            row, site = (~observed[rows]).nonzero(as_tuple=True)
            yield Spread(rows, Cells(rows[row], site, mean[row, site]), None, notes)

    def untrusted(self, quality: Tensor, draws: int) -> tuple[Tensor, str]:
        """None: nothing is measured by row, and the notes on what is not exact hold for all."""
        return torch.zeros(len(quality), dtype=torch.bool, device=quality.device), ""

    def _chains(
        self, x: Rows, observed: Known, draws: int, generator: torch.Generator, progress: Progress | None
    ) -> Iterator[tuple[Tensor, list[Stage], tuple[str, ...]]]:
        """Some rows, the last stages of their chains (``draws`` for each row, draw by draw), and notes on them."""
        together = max(1, TOGETHER // x.shape[-1])
        watch, notes = self.watch, self._notes(bool(observed.any()))
        for rows in torch.split(torch.arange(len(x), device=x.device), max(1, together // draws)):
            last: list[Stage] = []
            for start in range(0, draws, together):
                count = min(together, draws - start)
                report = None if progress is None else part_of(progress, start, count, draws)
                last.append(self._down(x[rows], observed[rows], count, generator, report, watch))
                watch = None
            yield rows, last, notes
            notes = ()

    def _down(
        self,
        x: Rows,
        observed: Known,
        draws: int,
        generator: torch.Generator,
        report: Progress | None,
        watch: Watch | None,
    ) -> Stage:
        start, clamped = (part.expand(draws, -1, -1).flatten(0, 1) for part in (x, observed))
        free = not bool(observed.any())
        stages = self.sampler.stream(len(start) if free else start, generator, None if free else clamped)
        total = len(self.sampler.schedule) + 1
        for done, stage in enumerate(stages, start=1):
            if watch is not None:
                watch(stage)
            if report is not None:
                report(done, total)
        return stage

    def _clean(self, stage: Stage) -> Tensor:
        """``log P(x_d = v)`` of each chain's last pass, in float64; its values where it made none."""
        if stage.clean_log_probs is not None:
            return stage.clean_log_probs.double()
        same = stage.x[..., None] == torch.arange(max(self.sampler.space.sizes), device=stage.x.device)
        return torch.where(same, 0.0, -torch.inf).double()

    def _notes(self, conditional: bool) -> tuple[str, ...]:
        """What is not exact, in one line."""
        found = [note.removeprefix("unadjusted: ") for note in self.sampler.notes]
        if conditional and isinstance(self.sampler, Annealed):
            found.append("a chain knows what is observed only through its noise")
        return (f"unadjusted: {'; '.join(found)}",) if found else ()


def from_noise(
    model: Any,
    name: str | None = None,
    passes: int | None = None,
    watch: Watch | None = None,
    *,
    given: bool = False,
) -> FromNoise:
    """The registered way down on a model.

    Args:
        model: noise-conditional.
        name: registered under ``annealing``, `DEFAULT` by default, or `GIVEN`; of a model of hidden sites under
            ``unmasking``, `UNMASKING` by default.
        passes: about how many network passes a chain may take; the way's own number by default.
        watch: shown the stages of the first chains that run together.
        given: whether some sites are observed.

    Raises:
        InputError: no such name, a model it cannot run on, or fewer than one pass.
    """
    hides = isinstance(model.noise, Absorbing)
    kind = "unmasking" if hides else "annealing"
    chosen = name or (UNMASKING if hides else GIVEN if given else DEFAULT)
    known = registry.names(kind)
    if chosen not in known:
        raise InputError(
            "a way from noise, for a model with noise levels",
            repr(chosen),
            where="sampler",
            fix=nearest(chosen, known),
        )
    sampler: Annealed | Unmasking = registry.load(kind, chosen)(model)
    return FromNoise(sampler if passes is None else sampler.within(passes), chosen, watch)


def part_of(progress: Progress, start: int, count: int, draws: int) -> Progress:
    """Progress of some draws as progress of all."""

    def report(done: int, total: int) -> None:
        progress(start * total + done * count, draws * total)

    return report
