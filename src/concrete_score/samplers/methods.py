"""Ways to draw the blanks of rows given what is observed of them, each for the rows it can serve."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from concrete_score.baselines.conditionals import Conditionals, point_masses
from concrete_score.errors import InputError
from concrete_score.protocols import DensityModel, Kernel
from concrete_score.samplers.clamped import long_chains, possible_starts, short_chains, sweep
from concrete_score.samplers.completions import (
    CELLS,
    Cells,
    Completions,
    Impossible,
    Known,
    Rows,
    count_completions,
    in_rows,
)
from concrete_score.samplers.gibbs import Gibbs, site_conditionals
from concrete_score.samplers.guided import Autoregressive
from concrete_score.samplers.resampling import ENOUGH, FIRST, MOST, Propose, resample
from concrete_score.samplers.run import Progress
from concrete_score.samplers.weighted import EFFECTIVE, weigh_blanks

REPLICAS = 32
"""Draws of a row over which the distribution of its blanks is averaged where they cannot be enumerated."""
SWEEPS = 5
"""Sweeps of Gibbs moves after resampling, for rows whose draws repeat each other."""
PASSES = 128
"""Passes that the conditionals of a row's blanks given all its other sites may take, each a pass for every value."""
FEWEST = 8
"""Draws of a row over which such conditionals are averaged at least; where that takes more passes, draws are weighed
without them."""
LEAST_EFFECTIVE = 20.0
"""Fewer effective proposals than this, or than a fiftieth of the draws, are not to be trusted."""
MOST_R_HAT = 1.2
"""Short chains are judged by few draws each, so that a stricter bound would mostly raise false alarms."""
PART = 1024
"""Rows served together at most."""
SIDE_BY_SIDE = 2**13
"""Short chains run together."""


class Piece(NamedTuple):
    """Draws of some rows."""

    rows: Tensor
    """``(R,)``."""
    states: Tensor
    """``(M, R, D)``."""
    quality: Tensor | None = None
    """What `ConditionalMethod.untrusted` judges each row by ``(R, 1)`` or ``(R, 2)``."""
    warnings: tuple[str, ...] = ()


class Spread(NamedTuple):
    """The distributions of the blanks of some rows."""

    rows: Tensor
    cells: Cells
    quality: Tensor | None = None
    warnings: tuple[str, ...] = ()


@runtime_checkable
class ConditionalMethod(Protocol):
    """One way to draw blanks given the observed cells of their row."""

    @property
    def name(self) -> str: ...

    def serves(self, observed: Known) -> Tensor:
        """Which rows it can serve ``(N,)`` bool."""
        ...

    def draw(
        self, x: Rows, observed: Known, draws: int, generator: torch.Generator, progress: Progress | None = None
    ) -> Iterator[Piece]:
        """``draws`` completions of every row, some rows at a time."""
        ...

    def cells(self, x: Rows, observed: Known, generator: torch.Generator) -> Iterator[Spread]:
        """The distribution of every blank, those of some rows at a time."""
        ...

    def untrusted(self, quality: Tensor, draws: int) -> tuple[Tensor, str]:
        """Which rows are not to be trusted ``(n,)`` bool, and why the worst of them is not."""
        ...


class _Sure:
    """What exact methods share: every row is to be trusted."""

    def untrusted(self, quality: Tensor, draws: int) -> tuple[Tensor, str]:
        return torch.zeros(len(quality), dtype=torch.bool, device=quality.device), ""


@dataclass(frozen=True, eq=False)
class ClosedForm(_Sure):
    """A baseline's own exact conditionals."""

    model: Conditionals
    name: ClassVar[str] = "closed_form"

    def serves(self, observed: Known) -> Tensor:
        return torch.ones(len(observed), dtype=torch.bool, device=observed.device)

    def draw(
        self, x: Rows, observed: Known, draws: int, generator: torch.Generator, progress: Progress | None = None
    ) -> Iterator[Piece]:
        for rows in _parts(len(x), draws * x.shape[-1]):
            self._check(x, observed, rows)
            shape = (draws, -1, -1)
            states = self.model.sample_given(x[rows].expand(shape), observed[rows].expand(shape), generator)
            yield Piece(rows, states)

    def cells(self, x: Rows, observed: Known, generator: torch.Generator) -> Iterator[Spread]:
        for rows in _parts(len(x), x.shape[-1] * max(self.model.space.sizes)):
            self._check(x, observed, rows)
            table = self.model.site_log_conditionals(x[rows], observed[rows])
            row, site = (~observed[rows]).nonzero(as_tuple=True)
            yield Spread(rows, Cells(rows[row], site, table[row, site].double()))

    def _check(self, x: Tensor, observed: Tensor, rows: Tensor) -> None:
        impossible = self.model.log_marginal(x[rows], observed[rows]).isneginf()
        if impossible.any():
            raise Impossible(int(rows[impossible.nonzero()[0, 0]]))


@dataclass(frozen=True, eq=False)
class Enumeration(_Sure):
    """All completions, for rows that have at most ``limit``."""

    density: DensityModel
    limit: int
    name: ClassVar[str] = "enumeration"

    def serves(self, observed: Known) -> Tensor:
        """Rows of few completions."""
        return count_completions(self.density.space, observed) <= self.limit

    def draw(
        self, x: Rows, observed: Known, draws: int, generator: torch.Generator, progress: Progress | None = None
    ) -> Iterator[Piece]:
        for rows, states in Completions(self.density, x, observed).draw(draws, generator):
            yield Piece(rows, states)

    def cells(self, x: Rows, observed: Known, generator: torch.Generator) -> Iterator[Spread]:
        for rows, cells in Completions(self.density, x, observed).cells():
            yield Spread(rows, cells)


class _Averaged:
    """Distributions of blanks as means over draws: of each draw's own conditional of the blank given all other sites
    (Rao and Blackwell), or of its value where the model gives no such conditional."""

    model: Any

    def cells(self, x: Rows, observed: Known, generator: torch.Generator) -> Iterator[Spread]:
        """From `REPLICAS` draws of each row."""
        for piece in self.draw(x, observed, REPLICAS, generator):  # type: ignore[attr-defined]
            yield self._spread(piece, observed)

    def _spread(self, piece: Piece, observed: Known) -> Spread:
        """From the draws of some rows ``(M, R, D)``."""
        draws, _, sites = piece.states.shape
        row, site = (~observed[piece.rows]).nonzero(as_tuple=True)
        parts = [self._mean(piece.states, row[p], site[p]) for p in _parts(len(row), draws * sites)]
        return Spread(piece.rows, Cells(piece.rows[row], site, torch.cat(parts)), piece.quality)

    @torch.no_grad()
    def _mean(self, states: Tensor, row: Tensor, site: Tensor) -> Tensor:
        """``log mean`` over draws ``(M, R, D)`` of each cell's conditional ``(B, V)``."""
        draws = states[:, row].flatten(0, 1)
        at = site.repeat(len(states))
        if self._conditionals is None:
            own = draws.gather(1, at[:, None])
            each = point_masses(own, max(self.model.neighborhood.space.sizes)).squeeze(1)
        else:
            each = self._conditionals.at(draws, at).double().log_softmax(-1)
        return each.reshape(len(states), len(row), -1).logsumexp(0) - log(len(states))

    @cached_property
    def _conditionals(self) -> Any:
        try:
            return site_conditionals(self.model)
        except InputError:
            return None


@dataclass(frozen=True, eq=False)
class Order(_Averaged, _Sure):
    """The model's own draws, for rows whose observed sites come first in its order."""

    model: Any
    name: ClassVar[str] = "order"

    def serves(self, observed: Known) -> Tensor:
        """Rows that the order allows."""
        known = observed[:, self.model.order]
        return ~(known[:, 1:] & ~known[:, :-1]).any(-1)

    def draw(
        self, x: Rows, observed: Known, draws: int, generator: torch.Generator, progress: Progress | None = None
    ) -> Iterator[Piece]:
        for rows in _parts(len(x), draws * x.shape[-1]):
            shape = (draws, -1, -1)
            flat, known = (table[rows].expand(shape).flatten(0, 1) for table in (x, observed))
            states = self.model.sample_given(flat, known, generator)
            yield Piece(rows, states.reshape(draws, len(rows), -1))


@dataclass(frozen=True, eq=False)
class ImportanceResampling(_Averaged):
    """Ancestral proposals with observed sites kept, resampled by weight; then Gibbs moves where they repeat."""

    model: Any
    propose: Propose
    effort: int = 1
    """Times as many draws that tell the distribution of a blank."""
    name: ClassVar[str] = "importance"

    def serves(self, observed: Known) -> Tensor:
        return torch.ones(len(observed), dtype=torch.bool, device=observed.device)

    def draw(
        self, x: Rows, observed: Known, draws: int, generator: torch.Generator, progress: Progress | None = None
    ) -> Iterator[Piece]:
        """Approximate; the quality is how many proposals count, and how many there were."""
        return self._draw(torch.arange(len(x), device=x.device), x, observed, draws, generator)

    def cells(self, x: Rows, observed: Known, generator: torch.Generator) -> Iterator[Spread]:
        """By what takes few passes: conditionals averaged over a few draws of rows whose blanks have few values, and
        weighted draws alone of the others."""
        passes = (~observed).sum(1) * max(self.model.space.sizes)
        replicas = torch.where(passes > 0, PASSES // passes.clamp_min(1), 0).clamp_max(REPLICAS)
        many = replicas < FEWEST if isinstance(self.model, Autoregressive) else torch.zeros_like(passes).bool()
        # In powers of two, so that there are few groups.
        replicas = self.effort * 2 ** replicas.clamp_min(FEWEST).double().log2().floor().long()
        for draws in sorted(set(replicas[~many].tolist())):
            for piece in self._draw(
                (~many & (replicas == draws)).nonzero().squeeze(-1), x, observed, draws, generator, 1
            ):
                yield self._spread(piece, observed)
        left = many.nonzero().squeeze(-1)
        for part in _parts(len(left), int(passes.max()), PART) if len(left) else ():
            rows = left[part]
            with in_rows(rows):
                found = weigh_blanks(self.model, x[rows], observed[rows], generator, self.effort)
            cells = Cells(rows[found.row], found.site, found.log_probs)
            yield Spread(rows, cells, torch.stack([found.effective, found.proposed], -1))

    def _draw(
        self, at: Tensor, x: Rows, observed: Known, draws: int, generator: torch.Generator, sweeps: int = SWEEPS
    ) -> Iterator[Piece]:
        """Of the rows ``at`` ``(r,)``; with few ``sweeps``, from few proposals too."""
        most = MOST if sweeps == SWEEPS else 4 * FIRST
        for part in _parts(len(at), draws * x.shape[-1], PART):
            rows = at[part]
            known = observed[rows]
            with in_rows(rows):
                found = resample(self.propose, x[rows], known, draws, generator, most=most)
            repeat = (found.effective < max(FIRST, ENOUGH * draws)).nonzero().squeeze(-1)
            if len(repeat):
                clamped = known[repeat].expand(draws, -1, -1).flatten(0, 1)
                moved = sweep(Gibbs(self.model), found.states[:, repeat].flatten(0, 1), clamped, sweeps, generator)
                found.states[:, repeat] = moved.reshape(draws, len(repeat), -1)
            yield Piece(rows, found.states, torch.stack([found.effective, found.proposed], -1))

    def untrusted(self, quality: Tensor, draws: int) -> tuple[Tensor, str]:
        """Too few effective proposals; distributions, without draws, are to be trusted where `weigh_blanks` ends."""
        worst = quality[quality[:, 0].argmin()]
        reason = f"effective {float(worst[0]):.1f} of {int(worst[1]):,} draws"
        return quality[:, 0] < (max(LEAST_EFFECTIVE, draws / 50) if draws else EFFECTIVE), reason


@dataclass(frozen=True, eq=False)
class Chains(_Averaged):
    """A kernel's chains with the observed sites clamped."""

    model: Any
    kernel: Kernel
    name: str
    propose: Propose | None = None
    """Where chains start: ancestral draws, resampled; else uniform blanks."""

    def serves(self, observed: Known) -> Tensor:
        return torch.ones(len(observed), dtype=torch.bool, device=observed.device)

    def draw(
        self, x: Rows, observed: Known, draws: int, generator: torch.Generator, progress: Progress | None = None
    ) -> Iterator[Piece]:
        """One row by long chains, several by short ones, all rows side by side."""
        if len(x) == 1:
            states, warnings = long_chains(
                self.kernel,
                lambda n: self._starts(x, observed, n, generator)[:, 0],
                observed,
                draws,
                generator,
                progress,
            )
            yield Piece(torch.zeros(1, dtype=torch.int64, device=x.device), states[:, None], None, warnings)
            return
        chains = max(4, draws)
        for rows in torch.split(torch.arange(len(x), device=x.device), max(1, SIDE_BY_SIDE // chains)):
            with in_rows(rows):
                starts = self._starts(x[rows], observed[rows], chains, generator)
            found = short_chains(self.kernel, starts, observed[rows], generator)
            yield Piece(rows, found.states[:draws], found.r_hat[:, None])

    def untrusted(self, quality: Tensor, draws: int) -> tuple[Tensor, str]:
        """Rows whose chains disagree, by their R-hat."""
        return quality[:, 0] > MOST_R_HAT, f"chains that have not mixed (R-hat {float(quality[:, 0].max()):.2f})"

    def _starts(self, x: Tensor, observed: Tensor, chains: int, generator: torch.Generator) -> Tensor:
        """Where the chains of each row start ``(chains, n, D)``."""
        if self.propose is not None:
            return resample(self.propose, x, observed, chains, generator).states
        shape = (chains, -1, -1)
        flat, known = (table.expand(shape).flatten(0, 1) for table in (x, observed))
        return possible_starts(self.model, flat, known, self.kernel.space, generator).reshape(chains, len(x), -1)


def _parts(count: int, width: int, most: int | None = None) -> tuple[Tensor, ...]:
    """``arange(count)`` in parts of at most ``CELLS / width`` and ``most``."""
    step = max(1, CELLS // max(1, width))
    return torch.split(torch.arange(count), step if most is None else min(step, most))
