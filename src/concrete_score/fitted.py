"""A trained model's answers about states: draws, likelihoods, single changes, blanks."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from concrete_score.defaults import TOP
from concrete_score.errors import InputError, Option, check_count
from concrete_score.likelihood import Budget, LogLikelihood, exact_sampler, sandwich
from concrete_score.likelihood.exact import check_rows, row_log_densities
from concrete_score.likelihood.observed import ObservedLogDensities, observed_log_densities
from concrete_score.likelihood.ratios import COMPLETED, Changes, observed_log_ratios, per_cell, top_changes
from concrete_score.likelihood.variational import variational
from concrete_score.likelihood.views import RATIOS, Views, refuse_impossible
from concrete_score.models.masked import Masked
from concrete_score.neighborhoods import hamming
from concrete_score.protocols import SiteNeighborhood
from concrete_score.randomness import generator as named_generator
from concrete_score.samplers.completions import Cells, Impossible, RowName, row_by_number
from concrete_score.samplers.conditional import Conditioner, Imputed, most_probable
from concrete_score.samplers.evidence import Evidence, Probability
from concrete_score.samplers.from_noise import Watch, from_noise
from concrete_score.samplers.guided import Autoregressive
from concrete_score.samplers.mixed import MixedConditioner, conditioner_of
from concrete_score.samplers.sources import Source, source
from concrete_score.samplers.weighted import TOLD
from concrete_score.spaces import Space, check_query, check_same_space

Progress = Callable[[int, int], None]
"""Receives how much is done, and of how much."""

Known = Mapping[int, int | Tensor]
"""What is known of some sites: their value, or the logarithms of weights of their values ``(size,)``."""

PATHS = {"steps": 100, "chains": 32, "raise_chains": 2, "bound_rows": 16, "pilot_steps": 10, "pilot_chains": 16}
"""Of bounds on a score model's path density, each of whose evaluations takes a pass for every site."""
PASSES = 2**14
"""Passes a variational bound may take: from 8 to 64 a row."""
DRAWN = 2**16
"""Rows drawn at a time, and between two updates of progress."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """Draws, how they were made, and what speaks against them."""

    states: Integer[Tensor, "draws sites"]
    """``(n, D)``."""
    method: str
    """``ancestral`` (the model's own), ``closed_form``, ``order`` and ``enumeration`` are exact; ``importance`` and the
    names of kernels are not."""
    warnings: tuple[str, ...] = ()
    """Empty if nothing was found."""
    probability: Probability | None = None
    """Of the condition; None where there is none, or where it is not known."""


Drawing = Callable[[int, torch.Generator, Progress | None], Iterator[Drawn]]
"""Draws so many rows by a generator, in parts, and says how many are done."""


def by_number(site: int, value: int) -> str:
    """What a cell is called where there is no codec that names it."""
    return f"site {site} = {value}"


@dataclass(frozen=True, eq=False)
class Fitted:
    """A trained model with what it needs to answer questions about states.

    It answers for any density model, normalized or not, and for any score model. A score model's density is the one its
    log-ratios fit best on small spaces, and the sum of its log-ratios along one fixed path a state beyond
    (docs/mathematics.md, "Recovery and connected support" and "Likelihood bounds"). A noise-conditional model gives its
    weakest level's ratios; it draws and is judged as the chain that runs the noise backwards, except on small spaces,
    where the weakest level is enumerated. The model must not change afterwards: what is enumerated once is kept.

    Args:
        model: the model.
        space: of its states.
        limit: completions of a row to enumerate; 65,536 by default, and more where they are only looked up.
        describe: how a site's value is called in messages.
        from_noise: of a noise-conditional model, whether it always answers as a chain from noise.

    Raises:
        InputError: neither a density nor a score model, or one of another space.

    >>> from concrete_score.targets import asia
    >>> fitted = Fitted(asia(), asia().space)
    >>> given = fitted.sample(1000, torch.Generator().manual_seed(0), given={5: 1})   # either tuberculosis or cancer
    >>> given.method, bool((given.states[:, 1] | given.states[:, 3]).all())
    ('enumeration', True)
    >>> blank = torch.tensor([[True, True, True, True, True, False, True, True]])
    >>> fitted.impute([[0, 1, 0, 0, 0, 0, 1, 1]], blank, torch.Generator()).states[0, 5].item()
    1
    """

    model: Any
    space: Space
    limit: int | None = None
    describe: Callable[[int, int], str] = by_number
    from_noise: bool = False
    views: Views = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "views", Views(self.model, self.space, self.from_noise))

    @property
    def draws_from_noise(self) -> bool:
        """Whether draws come down from noise through the levels of a noise-conditional model."""
        return self.views.levels is not None

    @torch.no_grad()
    def sample(
        self,
        n: int,
        generator: torch.Generator,
        given: Known | None = None,
        sampler: str | None = None,
        progress: Progress | None = None,
        *,
        passes: int | None = None,
        watch: Watch | None = None,
    ) -> Drawn:
        """``n`` rows, or ``n`` rows that meet a condition; exact where enumeration or the model allows.

        Args:
            n: at least 1.
            generator: all randomness.
            given: what is known of some sites: their value, or the logarithms of weights ``e(v)`` of their values
                ``(size,)``; rows follow ``q(x) Π e(x_d)``, normalized. Weights of 0 and 1 rule values out, or not.
            sampler: a registered kernel instead of the best method; ``exact`` and ``ancestral`` included. From noise, a
                name of ``csm list annealing``.
            progress: receives how much is done.
            passes: from noise, about how many network passes each draw may take.
            watch: from noise, shown the first chains after every level.

        Raises:
            InputError: before any work: a condition outside the space, a sampler that cannot run; or a condition of
                probability zero, which is named.
        """
        parts = list(self.sample_parts(n, generator, given, sampler, progress, passes=passes, watch=watch))
        states = torch.cat([part.states for part in parts]) if len(parts) > 1 else parts[0].states
        return replace(parts[0], states=states)

    def sample_parts(
        self,
        n: int,
        generator: torch.Generator,
        given: Known | None = None,
        sampler: str | None = None,
        progress: Progress | None = None,
        *,
        passes: int | None = None,
        watch: Watch | None = None,
        condition: str = "",
    ) -> Iterator[Drawn]:
        """The rows of `sample` in parts of at most `DRAWN` where the model draws them itself; else in one.

        Memory is then that of a part, whatever ``n``. What can be wrong is said before the first part, and the
        condition is called ``condition`` there.

        >>> from concrete_score.targets import asia
        >>> fitted = Fitted(asia(), asia().space)
        >>> [len(part.states) for part in fitted.sample_parts(100_000, torch.Generator())]
        [65536, 34464]
        """
        draw = self.drawing(n, given, sampler, passes=passes, watch=watch, condition=condition)
        return draw(n, generator, progress)

    def drawing(
        self,
        n: int,
        given: Known | None = None,
        sampler: str | None = None,
        *,
        passes: int | None = None,
        watch: Watch | None = None,
        condition: str = "",
    ) -> "Drawing":
        """What draws rows as `sample_parts` does, some of all ``n`` at each call.

        What it needs is looked up or listed once. Each call has a generator of its own, so that the draws of a call do
        not depend on the calls before it.
        """
        check_count(n, "n")
        self._refuse_without_levels(passes=passes, watch=watch)
        if given and self.views.levels is None:
            return self._drawing_by_source(given, n, sampler, condition)
        own = exact_sampler(self.model) if sampler in (None, "ancestral") and not given else None
        if own is not None:
            return partial(_own_draws, own)
        x, observed = self._fixed(given or {})
        subject = "this condition" if given else "the model"
        conditioner = self._conditioner(sampler, lambda row: subject, passes, watch, given=bool(given))

        @torch.no_grad()
        def draw(count: int, generator: torch.Generator, progress: Progress | None = None) -> Iterator[Drawn]:
            done = conditioner.draw(x, observed, count, generator, progress)
            yield Drawn(done.states[:, 0], done.method, done.warnings)

        return draw

    def _drawing_by_source(self, given: Known, n: int, sampler: str | None, condition: str) -> "Drawing":
        with self._condition(given, condition):
            found = self._source(given, n, sampler)

        @torch.no_grad()
        def draw(count: int, generator: torch.Generator, progress: Progress | None = None) -> Iterator[Drawn]:
            with self._condition(given, condition):
                for batch in found.batches(count, generator, progress):
                    yield Drawn(batch.states, found.name, batch.warnings, batch.probability)

        return draw

    @torch.no_grad()
    def probability(self, given: Known, generator: torch.Generator, condition: str = "") -> Probability | None:
        """The probability of what is known of some sites, ``Σ_x q(x) Π e(x_d)``; None where the model cannot tell.

        Args:
            given: as for `sample`.
            generator: of the draws it is estimated from, where it is not exact.
            condition: what it is called in messages.
        """
        if self.views.levels is not None:
            return None
        with self._condition(given, condition):
            return self._source(given, 1, None).probability(generator)

    @torch.no_grad()
    def evaluate(
        self,
        states: Any,
        generator: torch.Generator,
        budget: Budget | None = None,
        progress: Progress | None = None,
        row_name: RowName = row_by_number,
        *,
        observed: Any = None,
    ) -> LogLikelihood:
        """The mean log-likelihood of rows ``(N, D)``: exact, by enumeration, or between bounds.

        Rows with blanks count by the probability of what is ``observed`` ``(N, D)``; where that is neither exact nor
        summed over all completions, the mean is bounded from below by importance-weighted draws.

        See docs/mathematics.md, "Likelihood bounds" and "Blanks".
        """
        each = self.row_log_densities(states, row_name, observed=observed, generator=generator)
        if each is not None:
            return each.mean(self.space.num_sites, self.views.warnings)
        rows = check_rows(self.space, states)
        if self.views.levels is not None:
            draws = 2 * min(max(PASSES // (2 * len(rows)), 4), 32)
            seen = observed if _has_blanks(observed) else None
            return variational(self.views.levels, rows, generator, draws, progress, seen)
        if reason := self.views.why_no_density():
            return LogLikelihood(rows=len(rows), sites=self.space.num_sites, method="none", warnings=(reason,))
        return sandwich(
            self.views.density, rows, generator, budget or self.budget, progress=progress, row_name=row_name
        )

    @torch.no_grad()
    def row_log_likelihoods(
        self,
        states: Any,
        row_name: RowName = row_by_number,
        *,
        observed: Any = None,
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, " rows"] | None:
        """``log q(x)`` of each row ``(N,)`` in float64; None where it cannot be had exactly.

        Of rows with blanks, ``log q(observed cells)``: exact where completions are few, else a bound by weighted draws.
        """
        found = self.row_log_densities(states, row_name, observed=observed, generator=generator)
        return None if found is None else found.values

    @property
    def only_bounds(self) -> bool:
        """Whether the log-likelihood of complete rows can neither be computed nor be bounded row by row."""
        return self.views.levels is None and self.views.normalized is None

    @property
    def budget(self) -> Budget:
        """How much work bounds may take by default."""
        return Budget() if self.views.score is None else Budget(**PATHS)

    @torch.no_grad()
    def row_log_densities(
        self,
        states: Any,
        row_name: RowName = row_by_number,
        *,
        observed: Any = None,
        generator: torch.Generator | None = None,
    ) -> ObservedLogDensities | None:
        """`row_log_likelihoods` with their errors, and how they were found."""
        if _has_blanks(observed):
            if isinstance(self.model, Masked):
                return None
            return self._observed(states, observed, self._random(generator), row_name)
        rows = check_rows(self.space, states)
        known = None if self.views.levels is not None else self.views.normalized
        if known is None:
            return None
        values = row_log_densities(known, rows, row_name=row_name)
        method = "exact" if known is self.model else "enumeration"
        return ObservedLogDensities(values, torch.zeros_like(values), method)

    @torch.no_grad()
    def log_ratios(
        self,
        states: Any,
        neighborhood: SiteNeighborhood | None = None,
        *,
        observed: Any = None,
        generator: torch.Generator | None = None,
        row_name: RowName = row_by_number,
    ) -> Float[Tensor, "rows slots"]:
        """``log q(N(x)_k) - log q(x)`` of rows ``(N, K)``; `hamming`, all single changes, by default.

        Of rows with blanks, the ratios of what is ``observed`` ``(N, D)``; changes of a blank cell are NaN.

        Raises:
            InputError: a row of probability zero, or a score model that does not know these ratios.
        """
        wanted = neighborhood or hamming(self.space)
        check_same_space(wanted.space, self.space, "neighborhood and data")
        if not _has_blanks(observed):
            return self.views.log_ratios(check_rows(self.space, states), wanted)
        x, known = self._checked(states, observed)
        random, conditioner = self._random(generator), self._conditioner(None, row_name)

        def fill(draws: int) -> Tensor:
            return conditioner.draw(x, known, draws, random).states

        return observed_log_ratios(self.views, x, known, wanted, random, fill, row_name)

    @torch.no_grad()
    def explain(
        self,
        states: Any,
        top: int = TOP,
        row_name: RowName = row_by_number,
        *,
        observed: Any = None,
        generator: torch.Generator | None = None,
        log_sizes: Mapping[int, Tensor] | None = None,
        progress: Progress | None = None,
    ) -> Changes:
        """The ``top`` single changes of each row that raise its probability most, negative ones included.

        Rows that are equal are looked at once, and have one answer.

        Args:
            states: ``(N, D)``.
            top: at most so many of each row.
            row_name: what a row is called in messages.
            observed: which cells are known, bool ``(N, D)``; the others change in no answer (see `log_ratios`).
            generator: the source of draws, where there are blanks.
            log_sizes: of sites whose values stand for several cells, the logarithm of how many ``(V,)``: their
                log-ratios are then those of one cell, on average.
            progress: receives how many rows are done.
        """
        check_count(top, "top")
        changes, blanks = hamming(self.space), _has_blanks(observed)
        rows, known = self._checked(states, observed) if blanks else (check_rows(self.space, states), None)
        if self.views.score is None and known is None:  # by its place among all rows, before any work
            refuse_impossible(self.model, rows, row_name)
        random = self._random(generator)
        step = max(1, RATIOS // max(1, changes.num_slots) // (COMPLETED if blanks else 1))
        first, same = _different(rows if known is None else torch.cat([rows, known], 1))
        done, parts = 0, []
        for start in range(0, len(first), step):
            part = first[start : start + step]
            seen, named = None if known is None else known[part], partial(_among, row_name, part)
            ratio = self.log_ratios(rows[part], observed=seen, generator=random, row_name=named).double()
            if log_sizes:
                ratio = ratio + per_cell(self.space, rows[part], changes, log_sizes)
            row, *found = top_changes(changes, rows[part], ratio, top)
            parts.append([row + start, *found])
            done += int(((same >= start) & (same < start + step)).sum())
            if progress is not None:
                progress(done, len(rows))
        return _repeated([torch.cat(column) for column in zip(*parts, strict=True)], same)

    @torch.no_grad()
    def impute(
        self,
        states: Any,
        observed: Any,
        generator: torch.Generator,
        draws: int | None = None,
        sampler: str | None = None,
        progress: Progress | None = None,
        *,
        passes: int | None = None,
        row_name: RowName = row_by_number,
        effort: int = 1,
    ) -> Imputed:
        """Rows with their blanks filled: each by its most probable value given the observed cells, or by joint draws.

        Args:
            states: ``(N, D)``; what it holds in blank cells is ignored.
            observed: bool ``(N, D)``.
            generator: all randomness.
            draws: None fills each blank with its most probable value, the smallest of equals; M completes each row so
                many times ``(M, N, D)``.
            sampler: a registered kernel instead of the best method each row allows; from noise, a name of
                ``csm list annealing``.
            progress: receives how many rows are done.
            passes: from noise, about how many network passes each chain may take.
            row_name: what a row is called in messages.
            effort: times the draws by which the distributions of blanks are told; `TOLD` where they are reported.

        Raises:
            InputError: before any work: a sampler that cannot run; or a row whose observed cells have probability zero.
        """
        self._refuse_without_levels(passes=passes)
        conditioner = self._conditioner(sampler, row_name, passes)
        if draws is not None:
            check_count(draws, "draws")
            done = conditioner.draw(states, observed, draws, generator, progress)
            return Imputed(done.states, done.method, done.warnings)
        rows, _ = check_query(states, observed, self.space)
        filled, parts = rows.clone(), []
        for found in conditioner.cells(states, observed, generator, progress, effort):
            filled[found.cells.row, found.cells.site] = most_probable(found.cells.log_probs)
            parts.append(found.cells)
        cells = Cells(*(torch.cat(column) for column in zip(*parts, strict=True)))
        return Imputed(filled, found.method, found.warnings, cells)

    @torch.no_grad()
    def conditional_probs(
        self, states: Any, observed: Any, generator: torch.Generator, sampler: str | None = None
    ) -> Cells:
        """The distribution of every blank cell given the observed ones of its row, by row and site.

        Told by `TOLD` times the draws that `impute` fills a blank by.
        """
        return self.impute(states, observed, generator, sampler=sampler, effort=TOLD).distributions()

    def _observed(self, states: Any, observed: Any, random: torch.Generator, name: RowName) -> ObservedLogDensities:
        density = None if self.views.levels is not None else self.views.normalized
        return observed_log_densities(density, *self._checked(states, observed), random, name)

    def _checked(self, states: Any, observed: Any) -> tuple[Tensor, Tensor]:
        rows, known = check_query(states, observed, self.space)
        return check_rows(self.space, rows), known

    def _random(self, given: torch.Generator | None) -> torch.Generator:
        return named_generator(0, "blanks", device=self.views.device or "cpu") if given is None else given

    def _conditioner(
        self,
        sampler: str | None,
        subject: RowName = row_by_number,
        passes: int | None = None,
        watch: Watch | None = None,
        given: bool = True,
    ) -> Conditioner | MixedConditioner:
        if self.views.levels is not None:
            method = from_noise(self.views.levels, sampler, passes, watch, given=given)
            return Conditioner(self.views.levels, subject=subject, method=method)
        target = self.model if self.views.score is None else self.views.score
        return conditioner_of(target, self.views.density, self.limit, sampler, subject)

    def _refuse_without_levels(self, **options: Any) -> None:
        given = [name for name, value in options.items() if value is not None]
        if given and self.views.levels is None:
            raise InputError(
                "a model with noise levels, which draws from noise", "one without", Option(given[0]), "leave it out"
            )

    def _source(self, given: Known, n: int, sampler: str | None) -> Source:
        evidence = Evidence.of(self.space, given, self.views.device)
        # What an autoregressive model can draw need not be tabulated.
        density = None if isinstance(self.model, Autoregressive) else self.views.density
        target = self.model if self.views.score is None else self.views.score
        return source(target, evidence, n, density, self.limit, sampler)

    def _fixed(self, given: Known) -> tuple[Tensor, Tensor]:
        """One row ``(1, D)`` and which of its cells are known."""
        evidence = Evidence.of(self.space, given, self.views.device)
        observed = torch.zeros_like(evidence.fixed)
        observed[list(evidence.sites)] = True
        if (observed & ~evidence.fixed).any():
            expected = "conditions that leave one value each, for a model that draws from noise"
            raise InputError(expected, "others", Option("given"), "ask for single values with =")
        return evidence.values[None, :, 0], observed[None]

    @contextmanager
    def _condition(self, given: Known, condition: str) -> Iterator[None]:
        """Within it, what cannot happen is named."""
        try:
            yield
        except Impossible as impossible:
            words = [self.describe(d, known) if isinstance(known, int) else f"site {d}" for d, known in given.items()]
            raise InputError(
                "a condition that the model gives some probability",
                f"{impossible.came} for {condition or ', '.join(words)}",
                where=Option("given"),
                fix="ask for something that can happen",
            ) from None


@torch.no_grad()
def _own_draws(model: Any, n: int, generator: torch.Generator, progress: Progress | None = None) -> Iterator[Drawn]:
    """Draws that a model makes itself."""
    for start in range(0, n, DRAWN):
        states = model.sample(min(DRAWN, n - start), generator)
        if progress is not None:
            progress(start + len(states), n)
        yield Drawn(states, "ancestral")


def _has_blanks(observed: Any) -> bool:
    return observed is not None and not bool(torch.as_tensor(observed).all())


def _among(row_name: RowName, rows: Tensor, row: int) -> str:
    return row_name(int(rows[row]))


def _different(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The first of all equal rows ``(M,)``, ascending, and which of these each row is equal to ``(N,)``."""
    _, equal = torch.unique(rows, dim=0, return_inverse=True)
    at = torch.arange(len(rows), device=rows.device)
    first = at.new_full((int(equal.max()) + 1 if len(rows) else 0,), len(rows)).scatter_reduce(0, equal, at, "amin")
    order = first.argsort()
    return first[order], order.argsort()[equal]


def _repeated(changes: list[Tensor], same: Tensor) -> Changes:
    """The changes of different rows as those of all rows, each being the ``same`` as one of them ``(N,)``."""
    own, *others = changes
    count = own.bincount(minlength=int(same.max()) + 1 if len(same) else 0)
    times = count[same]
    row = torch.arange(len(same), device=same.device).repeat_interleave(times)
    begin = (count.cumsum(0) - count)[same] - (times.cumsum(0) - times)
    place = torch.arange(len(row), device=row.device) + begin[row]
    return Changes(row, *(column[place] for column in others))
