"""Conditional draws and the distributions of blank cells, by the best method each row allows."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from concrete_score.baselines.conditionals import Conditionals
from concrete_score.errors import InputError
from concrete_score.models.densities import Table
from concrete_score.protocols import DensityModel
from concrete_score.samplers.clamped import default_kernel, named_kernel
from concrete_score.samplers.completions import COMPLETIONS, Cells, Known, RowName, in_rows, row_by_number
from concrete_score.samplers.guided import Autoregressive
from concrete_score.samplers.methods import (
    Chains,
    ClosedForm,
    ConditionalMethod,
    Enumeration,
    ImportanceResampling,
    Order,
)
from concrete_score.samplers.run import Progress
from concrete_score.spaces import ENUMERATION_LIMIT, Space, check_query
from concrete_score.targets.pmf import Pmf

LISTED = 256
"""Completions of a row that are enumerated where the model can draw them; more cost more passes than draws do."""
LISTED_FOR_CELLS = 64
"""The same where only the distributions of single blanks are asked for, which fewer draws tell."""
TIE = 1e-12
"""Probabilities closer than this count as equal: rounding must not choose between them."""


@dataclass(frozen=True, eq=False)
class Completed:
    """Completed rows, the methods used, and warnings about them."""

    states: Integer[Tensor, "draws rows sites"]
    """``(M, N, D)``."""
    method: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Imputed:
    """Rows without blanks, how they were filled, and what speaks against it."""

    states: Integer[Tensor, "*draws rows sites"]
    """``(N, D)``; ``(M, N, D)`` for M draws."""
    method: str
    """As in `Drawn`, several joined by commas; ``none`` where nothing was blank."""
    warnings: tuple[str, ...] = ()
    cells: Cells | None = None
    """The distributions of the blanks, where they were not drawn."""

    def distributions(self) -> Cells:
        """The distributions of the blanks, by row and site.

        Raises:
            InputError: completions were drawn instead.
        """
        if self.cells is None:
            raise InputError("blanks that were filled", "completions that were drawn", "draws", "leave draws out")
        return self.cells.ordered(self.states.shape[-1])


class Found(NamedTuple):
    """Distributions of the blanks of some rows, by one method; the last one given carries the warnings."""

    cells: Cells
    method: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Conditioner:
    """Answers ``q(blanks | observed)`` for rows of any pattern, each by the first method that serves it.

    Exact ones come first: a baseline's closed form, enumeration of at most ``limit`` completions, an autoregressive
    model's own order. Then importance resampling from ancestral draws with Gibbs moves, for autoregressive models, and
    chains of a kernel for all others.

    Args:
        model: a density or score model; kernels run on it.
        density: what is enumerated; the model itself by default, where it is one.
        limit: completions of a row to enumerate; None is `LISTED` for an autoregressive model, or
            `LISTED_FOR_CELLS`, `COMPLETIONS` for others, or all where they are only looked up.
        sampler: a registered kernel instead: ``exact`` enumerates, ``ancestral`` takes the model's own draws, any other
            runs chains.
        subject: what a row is called in warnings and errors.
        method: the one to use instead of any, such as `FromNoise`.

    Raises:
        InputError: the sampler cannot run on this model, or no method serves it.

    >>> from concrete_score.models import MADE
    >>> model = MADE(Space.bits(4), generator=torch.Generator().manual_seed(0))
    >>> x, known = torch.tensor([[0, 0, 0, 1]]), torch.tensor([[False, False, False, True]])
    >>> done = Conditioner(model).draw(x, known, 100, torch.Generator().manual_seed(0))
    >>> done.states.shape, done.method, bool((done.states[..., 3] == 1).all())
    (torch.Size([100, 1, 4]), 'enumeration', True)
    """

    model: Any
    density: DensityModel | None = None
    limit: int | None = None
    sampler: str | None = None
    subject: RowName = row_by_number
    method: ConditionalMethod | None = None

    def __post_init__(self) -> None:
        self._methods  # noqa: B018 - built, and thereby checked, at once

    @property
    def space(self) -> Space:
        space: Space = self.model.space if isinstance(self.model, DensityModel) else self.model.neighborhood.space
        return space

    def draw(
        self, x: Any, observed: Any, draws: int, generator: torch.Generator, progress: Progress | None = None
    ) -> Completed:
        """``draws`` completions of every row ``(M, N, D)``.

        Args:
            x: ``(N, D)``; what it holds in blank cells is ignored.
            observed: bool ``(N, D)``.
            draws: of each row, M.
            generator: all randomness.
            progress: called with the rows done and all rows; for a single row of chains, with steps.

        Raises:
            Impossible: a row whose observed cells have probability zero.
        """
        rows, known = check_query(x, observed, self.space)
        states = rows.expand(draws, -1, -1).clone()
        tally = _Tally(self.subject)
        # An order's draws cost one pass each, which is less than enumerating for one or a few.
        for method, part in self._shares(self._methods, known, ("closed_form", "order", "enumeration")):
            with in_rows(part, self.subject):
                for piece in method.draw(rows[part], known[part], draws, generator, progress):
                    states[:, part[piece.rows]] = piece.states
                    tally.note(method, part[piece.rows], piece.quality, piece.warnings)
                    if progress is not None and len(rows) > 1:
                        progress(tally.rows, len(rows))
        return Completed(states, tally.method, tally.warnings(draws))

    def cells(
        self, x: Any, observed: Any, generator: torch.Generator, progress: Progress | None = None, effort: int = 1
    ) -> Iterator[Found]:
        """The distribution of every blank cell, those of some rows at a time; the last one carries all warnings.

        Args:
            x: ``(N, D)``; what it holds in blank cells is ignored.
            observed: bool ``(N, D)``.
            generator: all randomness.
            progress: called with the rows done and all rows.
            effort: times as many completions are listed, or drawn, as fill a blank well enough; a power of two.

        Raises:
            Impossible: a row whose observed cells have probability zero.
        """
        rows, known = check_query(x, observed, self.space)
        tally = _Tally(self.subject)
        # In an order's own direction weights are all equal, and weighted draws take fewer passes than its averages.
        methods = self._choose(LISTED_FOR_CELLS * effort, effort)
        for method, part in self._shares(methods, known, ("closed_form", "enumeration", "importance")):
            with in_rows(part, self.subject):
                for spread in method.cells(rows[part], known[part], generator):
                    tally.note(method, part[spread.rows], spread.quality, spread.warnings)
                    cells = spread.cells
                    yield Found(Cells(part[cells.row], cells.site, cells.log_probs), tally.method)
                    if progress is not None:
                        progress(tally.rows, len(rows))
        empty = torch.empty(0, dtype=torch.int64, device=rows.device)
        nothing = Cells(empty, empty, torch.empty(0, max(self.space.sizes), dtype=torch.float64, device=rows.device))
        yield Found(nothing, tally.method, tally.warnings(0))

    def _shares(
        self, methods: tuple[ConditionalMethod, ...], observed: Known, preferred: tuple[str, ...]
    ) -> Iterator[tuple[ConditionalMethod, Tensor]]:
        """Methods with the rows each of them serves; rows without a blank need none."""
        left = ~observed.all(-1)
        rank = {name: place for place, name in enumerate(preferred)}
        shares = []
        for method in sorted(methods, key=lambda method: rank.get(method.name, len(rank))):
            part = (left & method.serves(observed)).nonzero().squeeze(-1)
            left[part] = False
            if len(part):
                shares.append((method, part))
        if left.any():
            raise self._unserved(int(left.nonzero()[0]))
        return iter(shares)

    def _unserved(self, row: int) -> InputError:
        reason = {
            "exact": f"at most {ENUMERATION_LIMIT} completions to enumerate",
            "ancestral": "observed sites that come first in the model's order",
        }
        return InputError(
            reason.get(self.sampler or "", "a model that can be sampled"),
            "others",
            where=f"sampler {self.sampler!r}, {self.subject(row)}",
            fix="leave the sampler out, or name a kernel that clamps any site, such as `gibbs`",
        )

    @cached_property
    def _methods(self) -> tuple[ConditionalMethod, ...]:
        return self._choose(LISTED)

    def _choose(self, listed: int, effort: int = 1) -> tuple[ConditionalMethod, ...]:
        """Methods in the order of their trial; an autoregressive model's rows of ``listed`` completions are listed."""
        if self.method is not None:
            return (self.method,)
        if self.sampler is None:
            return self._by_default(listed, effort)
        named = {"exact": self._exact, "ancestral": self._own}
        return named[self.sampler]() if self.sampler in named else (self._chains(self.sampler),)

    def _by_default(self, listed: int, effort: int) -> tuple[ConditionalMethod, ...]:
        if isinstance(self.model, Conditionals):
            return (ClosedForm(self.model),)
        density, propose = self._enumerated, getattr(self.model, "propose_given", None)
        counted: tuple[ConditionalMethod, ...] = (
            () if density is None else (Enumeration(density, self._limit(density, listed)),)
        )
        if propose is not None:
            return (*self._orders(), *counted, ImportanceResampling(self.model, propose, effort))
        return (*counted, self._chains(default_kernel(self.model)))

    def _exact(self) -> tuple[ConditionalMethod, ...]:
        if self._enumerated is None:
            raise _cannot_run("exact", "a density model to enumerate", self.model)
        return (Enumeration(self._enumerated, ENUMERATION_LIMIT),)

    def _own(self) -> tuple[ConditionalMethod, ...]:
        own = (ClosedForm(self.model),) if isinstance(self.model, Conditionals) else self._orders()
        if not own:
            raise _cannot_run("ancestral", "a model that draws its own conditionals", self.model)
        return own

    def _orders(self) -> tuple[ConditionalMethod, ...]:
        return (
            (Order(self.model),)
            if hasattr(self.model, "order") and getattr(self.model, "propose_given", None) is not None
            else ()
        )

    def _chains(self, name: str) -> ConditionalMethod:
        return Chains(self.model, named_kernel(name, self.model), name, getattr(self.model, "propose_given", None))

    @property
    def _enumerated(self) -> DensityModel | None:
        return self.model if self.density is None and isinstance(self.model, DensityModel) else self.density

    def _limit(self, density: DensityModel, listed: int) -> int:
        if self.limit is not None:
            return self.limit
        if isinstance(density, Table | Pmf):
            return ENUMERATION_LIMIT
        return listed if isinstance(self.model, Autoregressive) else COMPLETIONS


class _Tally:
    """Methods used and rows done, with the warnings about them."""

    def __init__(self, subject: RowName) -> None:
        self.subject, self.rows = subject, 0
        self.notes: dict[ConditionalMethod, list[tuple[Tensor, Tensor | None, tuple[str, ...]]]] = {}

    def note(self, method: ConditionalMethod, rows: Tensor, quality: Tensor | None, warnings: tuple[str, ...]) -> None:
        self.rows += len(rows)
        self.notes.setdefault(method, []).append((rows, quality, warnings))

    @property
    def method(self) -> str:
        """The names of all methods used; ``none`` where nothing was blank."""
        return ", ".join(method.name for method in self.notes) or "none"

    def warnings(self, draws: int) -> tuple[str, ...]:
        """One sentence for each method that is not to be trusted."""
        found: list[str] = []
        for method, notes in self.notes.items():
            found.extend(warning for _, _, warnings in notes for warning in warnings)
            judged = [(rows, quality) for rows, quality, _ in notes if quality is not None]
            if judged:
                rows, quality = (torch.cat(parts) for parts in zip(*judged, strict=True))
                found.extend(self._sentence(rows, *method.untrusted(quality, draws)))
        return tuple(found)

    def _sentence(self, rows: Tensor, untrusted: Tensor, reason: str) -> list[str]:
        if not untrusted.any():
            return []
        first = rows[untrusted].sort().values[:3].tolist()
        others = int(untrusted.sum()) - len(first)
        names = ", ".join(map(self.subject, first)) + (f" and {others} more" if others else "")
        return [f"{reason} at worst for {names}: do not trust what was drawn there"]


def _cannot_run(name: str, expected: str, model: Any) -> InputError:
    fix = "leave the sampler out, or name a kernel that needs no such thing, such as `gibbs`"
    return InputError(expected, type(model).__name__, where=f"sampler {name!r}", fix=fix)


def most_probable(log_probs: Float[Tensor, "cells values"]) -> Integer[Tensor, " cells"]:
    """The value of the largest probability ``(B, V) -> (B,)``, the smallest of equals.

    >>> most_probable(torch.tensor([[0.2, 0.4, 0.4], [1.0, 0.0, 0.0]]).log()).tolist()
    [1, 0]
    """
    probs = log_probs.exp()
    values = torch.arange(probs.shape[-1], device=probs.device)
    best = probs >= probs.amax(-1, keepdim=True) - TIE
    return torch.where(best, values, len(values)).amin(-1)
