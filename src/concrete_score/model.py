"""A fitted model in the user's own terms: rows, images or whatever its codec reads go in, and the same kind comes out.

What `concrete_score.load` gives for a run directory of any kind of data; the command line asks the same object.
"""

import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from concrete_score import registry, runs
from concrete_score.answers import Conditionals, Counted, Explanation, Filled, Given, by_value, filled_together, without
from concrete_score.blocks import (
    Evaluation,
    FilledBlock,
    Filler,
    Reading,
    Sampled,
    Sampling,
    Scored,
    Scoring,
    Telling,
    blocks_of,
    joined_copies,
)
from concrete_score.codecs import Codec
from concrete_score.codecs.conditions import Condition
from concrete_score.data.evenly import RowSample
from concrete_score.data.formats import Say
from concrete_score.data.frame import DRAW, Form, Frame
from concrete_score.data.natives import keep_objects, known_columns, library_of, put_back
from concrete_score.data.streams import Stream
from concrete_score.defaults import FILLS, MISSING, TOP, UNKNOWN
from concrete_score.errors import Command, InputError, Option, check_count, nearest
from concrete_score.files import refuse_large
from concrete_score.fitted import Drawn, Fitted, Progress
from concrete_score.fitting import load_data
from concrete_score.jobs import check_jobs, in_order
from concrete_score.likelihood import Budget, LogLikelihood
from concrete_score.likelihood.exact import mean_and_stderr
from concrete_score.likelihood.ratios import Changes
from concrete_score.models.export import Exported, export
from concrete_score.randomness import generator
from concrete_score.runs import Run
from concrete_score.samplers.evidence import Probability
from concrete_score.samplers.from_noise import Watch
from concrete_score.samplers.weighted import TOLD
from concrete_score.training.patterns import BlankPatterns
from concrete_score.training.processes import usable

LeaveBlanks = Callable[[Frame, Tensor], Frame]
"""From a table and its states to the table with some cells blank."""


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted model with its codec.

    Args:
        codec: how data become states, and back.
        fitted: the trained model's answers about states.
        run: the run directory it was read from, if any.
        seed: names the randomness of answers that get no ``random_state``.
        patterns: which cells of the training rows were blank together, if any were.

    Data are given as a path, the name of a data set, or a Python object of the run's kind: a data frame or an array
    ``(N, D)`` for a table, an array ``(N, H, W)`` for images.
    """

    codec: Codec
    fitted: Fitted
    run: Run | None = field(default=None, repr=False)
    seed: int = 0
    patterns: BlankPatterns | None = field(default=None, repr=False)

    @classmethod
    def of(cls, model: Any, codec: Codec, run: Run | None = None, seed: int = 0, facts: Any = None) -> "Model":
        """A trained model with its codec; it is converted to double precision where the codec wants that.

        ``facts`` are those of its training data, as a run keeps them.
        """
        answers = model.double() if codec.precise else model
        fitted = Fitted(answers, codec.space, describe=codec.describe, from_noise=codec.from_noise)
        blanks = dict(facts or {}).get("blanks")
        patterns = None if blanks is None else BlankPatterns.from_json(blanks, codec.space, "data.blanks")
        return cls(codec, fitted, run, seed, patterns)

    @classmethod
    def open(cls, path: str | Path | Run, *, device: str | torch.device = "cpu", seed: int | None = None) -> "Model":
        """The model of a run directory, every name in it looked up in the registry.

        Raises:
            InputError: no run, a damaged one, one without a model yet, one that this version cannot build, or a device
                that PyTorch cannot use.
        """
        place = usable(device)
        run = path if isinstance(path, Run) else runs.open(path)
        with runs.untrusted(run):
            codec = run.codec
            model = run.model().to(place)
            return cls.of(model, codec, run, run.settings.seed if seed is None else seed, run.info["data"])

    @property
    def untrained(self) -> bool:
        """Whether no step of the training improved on the weights it began with."""
        started = bool(getattr(self.fitted.model, "starts_from_rows", False))
        return self.run is not None and self.run.model_file().step == 0 and not started

    def read(
        self,
        data: Any,
        *,
        missing: str | None = None,
        unknown: str = UNKNOWN[0],
        data_dir: str | None = None,
        reading: Mapping[str, Any] | None = None,
        say: Say = lambda message: None,
        filling: bool = False,
    ) -> Given:
        """Data as states, read once; what the other methods do first with data that is not `Given` yet.

        Args:
            data: a path, a name of a data set, or a Python object.
            missing: blank cells: ``unobserved`` (rows count by their other cells), ``drop`` their rows, or ``refuse``;
                for tables unobserved by default.
            unknown: values never seen in training: ``reserve``, ``refuse``, or ``skip`` their rows.
            data_dir: a folder of named data sets, looked into first.
            reading: how to read a file of text: ``encoding, header, separator``; what is not given is noticed.
            say: receives what was noticed, note by note.
            filling: whether blanks are there to be filled.

        Raises:
            InputError: not data of the run's kind, or cells that are blank or unknown; row and column are named.
        """
        if isinstance(data, Given):
            return data
        found = load_data(data, "test", data_dir, say, reading) if isinstance(data, str | Path) else data
        found = self.codec.accept(found)
        missing = missing or (MISSING[0] if filling else self.codec.missing)
        rows = self.codec.encode(found, missing=missing, unknown=unknown)
        notes = Counted.of(rows).notes(self.codec.noun, filling)
        return Given(found, rows, notes, tuple(self.codec.warnings(found, rows)), getattr(found, "first", 0))

    def sample(
        self,
        n: int = 1,
        given: Any = None,
        *,
        sampler: str | None = None,
        random_state: int | None = None,
        blanks: bool = False,
        jobs: int = 1,
    ) -> Any:
        """``n`` rows drawn from the model, in the kind of the training data.

        Args:
            n: how many.
            given: only rows that meet these conditions: ``{"smoke": "yes", "country": ["US", "CA"]}``, or texts with
                comparisons, ``["age>=65", "country in US,CA"]``; columns without names are called by number.
            sampler: a name of ``csm list kernels``; by default what is exact, if anything is.
            random_state: the model's own by default, so that two calls give the same rows.
            blanks: whether some cells are left blank, as those of the training rows were; none, if none of those was.
            jobs: how many processes share the work, one thread each; the rows are the same.

        Raises:
            InputError: no such column or value, or an impossible condition.
        """
        how: dict[str, Any] = {"sampler": sampler, "random_state": random_state, "blanks": blanks, "jobs": jobs}
        parts = list(self.samples(n, given, **how))
        _warn(parts[0].warnings)
        return type(parts[0].data).join(part.data for part in parts).native()

    def samples(
        self,
        n: int,
        given: Any = None,
        *,
        sampler: str | None = None,
        random_state: int | None = None,
        blanks: bool = False,
        passes: int | None = None,
        watch: Watch | None = None,
        progress: Progress | None = None,
        jobs: int = 1,
    ) -> Generator[Sampled, None, None]:
        """The rows of `sample` as data, some at a time, so that memory does not grow with ``n``.

        Args:
            n, given, sampler, random_state, blanks, jobs: as for `sample`.
            passes: of a model with noise levels, about how many network passes each draw may take.
            watch: of such a model, shown the first chains after every level.
            progress: receives how much is done.
        """
        work = self._sampling(n, given, sampler, random_state, passes, blanks, watch)
        alone = jobs == 1 or watch is not None
        if alone:
            work = replace(work, progress=progress)
        for done, found in enumerate(in_order(work, range(len(work)), 1 if alone else check_jobs(jobs)), start=1):
            if progress is not None:
                progress(min(done * work.size, n), n)
            yield found

    def _sampling(self, n: int, given: Any, sampler: str | None, *how: Any) -> Sampling:
        check_count(n, "n")
        check_sampler(sampler)
        return Sampling(self.alone(), n, given, sampler, *how)

    def alone(self) -> "Model":
        """The model without its run, as other processes get it."""
        return replace(self, run=None)

    def decoded(
        self,
        parts: Iterable[Tensor],
        given: Any = None,
        random_state: int | None = None,
        leave_blanks: LeaveBlanks | None = None,
    ) -> Iterator[Any]:
        """The states of `sample_parts` as data: what they leave open is drawn so that the conditions are met."""
        conditions, first = self.codec.conditions(given), 0
        for number, states in enumerate(parts):
            data = self.codec.decode(states, self.generator("decode", random_state, number), conditions, first)
            yield data if leave_blanks is None else leave_blanks(data, states)
            first += len(states)

    def blanker(self, random_state: int | None = None, block: int = 0) -> LeaveBlanks | None:
        """What leaves cells of sampled tables blank, in the training rows' patterns and in rows such as theirs.

        None where nothing was blank in training.
        """
        patterns, random = self.patterns, self.generator("blank patterns", random_state, block)
        if patterns is None:
            return None
        return partial(patterns.leave, space=self.codec.space, names=self.codec.names, generator=random)

    def probability(self, given: Any, *, random_state: int | None = None) -> Probability | None:
        """The probability that a row meets conditions, with its standard error; None where the model cannot tell.

        Args:
            given: as for `sample`.
            random_state: the model's own by default.
        """
        conditions = self.codec.conditions(given)
        random = self.generator("probability", random_state)
        return self.fitted.probability(self.codec.evidence(conditions), random, self.told(conditions))

    def sample_parts(
        self,
        n: int,
        given: Any = None,
        *,
        sampler: str | None = None,
        random_state: int | None = None,
        progress: Progress | None = None,
        passes: int | None = None,
        watch: Watch | None = None,
    ) -> Iterator[Drawn]:
        """The states of `sample` in parts, so that memory does not grow with ``n``; `decoded` makes data of them."""
        work = self._sampling(n, given, sampler, random_state, passes, False, watch, progress)
        return map(work.states, range(len(work)))

    def evaluate(
        self,
        data: Any,
        *,
        random_state: int | None = None,
        budget: Budget | None = None,
        progress: Progress | None = None,
        jobs: int = 1,
    ) -> LogLikelihood:
        """The mean log-likelihood with its standard error, exact or between bounds, and how it was found.

        Args:
            data: what `read` takes, or a table in parts (`data.streams.Stream`).
            random_state: the model's own by default.
            budget: of bounds, how much work they may take.
            progress: receives how much is done.
            jobs: how many processes share the rows, one thread each; the numbers are the same.
        """
        given = data if isinstance(data, Stream) else self.read(data)
        all_rows = Evaluation(getattr(given, "where", ""), self.codec.noun)
        deque(all_rows.over(self.scored(given, random_state=random_state, jobs=jobs, progress=progress)), 0)
        found = all_rows.found
        if found is None:
            found, _ = self.bounds(given, random_state=random_state, budget=budget, progress=progress)
        if not isinstance(data, Given):
            _warn(found.warnings)
        return found

    def scored(
        self,
        data: Given | Iterable[Frame],
        *,
        random_state: int | None = None,
        progress: Progress | None = None,
        jobs: int = 1,
        **how: Any,
    ) -> Generator[Scored, None, None]:
        """The log-likelihoods of rows, some at a time; none at all where they can only be bounded (`bounds`).

        Args:
            data: what `read` gave, or a table in parts, which are read by ``how``.
        """
        if not self.fitted.only_bounds:
            work = Scoring(self.alone(), random_state, how)
            yield from self._by_blocks(work, data, jobs, progress)

    def bounds(
        self,
        data: Given | Iterable[Frame],
        *,
        random_state: int | None = None,
        budget: Budget | None = None,
        progress: Progress | None = None,
        **how: Any,
    ) -> tuple[LogLikelihood, Counted]:
        """Bounds on the mean log-likelihood, of some rows, drawn evenly from all; and what was left out of all.

        Raises:
            NothingLeft: all rows were left out.
        """
        most = (budget or self.fitted.budget).bound_rows
        chosen, total = RowSample(most), Evaluation(noun=self.codec.noun)
        for block in blocks_of(data, Scoring.size):
            given, counted = Reading(self, how)(block.data)
            total.where, total.counted = given.data.where, total.counted.plus(counted)
            with given.named():
                states, observed = self.cells(given)
                if not observed.all():  # refused, by the name of the row
                    self.fitted.evaluate(states, self.generator("blanks"), row_name=given.row_name, observed=observed)
            chosen.add(given, len(given.rows.kept), self.generator("rows", random_state, block.number))
        total.check()
        given = chosen.found
        with given.named():
            random, states = self.generator("evaluate", random_state), self.cells(given)[0]
            found = self.fitted.evaluate(states, random, budget, progress, given.row_name)
        if found.method == "none":
            return replace(found, rows=chosen.rows), total.counted
        inside = given.rows.log_inside
        return found if inside is None else found.moved(float(inside.mean())), total.counted

    def _by_blocks(self, work: Any, data: Any, jobs: int, progress: Progress | None, whole: bool = False) -> Any:
        """What ``work`` gives for every block of the data, in order."""
        known = data.numbers if isinstance(data, Given) else None
        blocks = blocks_of(data, work.size, whole)
        for done, found in enumerate(in_order(work, blocks, check_jobs(jobs)), start=1):
            if progress is not None and known is not None:
                progress(min(done * work.size, known), known)
            yield found

    def score_samples(self, data: Any, *, jobs: int = 1) -> npt.NDArray[np.float64]:
        """``log q(x)`` of each row in nats ``(N,)``; of rows with blanks, that of the cells that are there.

        Args:
            data: what `read` takes.
            jobs: how many processes share the rows, one thread each; the numbers are the same.

        Raises:
            InputError: the model has no exact log-likelihood; `evaluate` bounds its mean.
        """
        parts = [self.row_values(each) for each in self.scored(self.read(data), jobs=jobs)]
        found: npt.NDArray[np.float64] = torch.cat(parts or [self.row_values(None)]).numpy()
        return found

    def row_values(self, scored: Scored | None) -> Tensor:
        """The log-likelihood of each row of a block ``(n,)``; None stands for a model that has none.

        Raises:
            InputError: there is no exact one.
        """
        if scored is not None and scored.values is not None:
            return scored.values
        came = f"{type(self.fitted.model).__name__}, which has none here"
        fix = ("use ", Command("evaluate"), ", which bounds the mean where it can")
        raise InputError("a model with an exact log-likelihood of every row", came, fix=fix)

    def score(self, data: Any) -> float:
        """The mean of `score_samples`, the number ``csm evaluate`` calls ``log_likelihood``."""
        return mean_and_stderr(torch.from_numpy(self.score_samples(data)))[0]

    def log_ratios(self, data: Any) -> npt.NDArray[np.float64]:
        """``log q(x with one cell changed) - log q(x)`` for every row and change ``(N, Σ sizes)``.

        One entry for every value of every site, as `changes` names them; 0 where the cell has that value already, NaN
        where it is blank.
        """
        states, observed = self.cells(self.read(data))
        ratios = self.fitted.log_ratios(states, observed=observed, generator=self.generator("ratios")).double()
        found: npt.NDArray[np.float64] = by_value(ratios, states, self.codec.space.sizes, observed).numpy(force=True)
        return found

    @property
    def changes(self) -> list[tuple[str, str]]:
        """Column and value of each entry of a row of `log_ratios`."""
        return [(name, label) for d, name in enumerate(self.codec.names) for label in self.codec.labels(d)]

    def explain(self, data: Any, top: int = TOP) -> Any:
        """The single changes that raise each row's probability most, descending, negative ones included.

        Returns:
            ``row, column, from, to, log_ratio`` with ``top`` lines a row, in the kind of ``data``.
        """
        given = self.read(data)
        return self.explanation(given, top).native(getattr(given.data, "form", Form("polars")))

    def explanation(self, given: Given, top: int = TOP, progress: Progress | None = None) -> Explanation:
        """What `explain` gives, line by line."""
        with given.named():
            states, observed = self.cells(given)
            random = self.generator("ratios")
            how: dict[str, Any] = {"generator": random, "log_sizes": self._log_sizes, "progress": progress}
            found: Changes = self.fitted.explain(states, top, given.row_name, observed=observed, **how)
        sites = found.site.tolist()
        natives = {d: self.codec.natives(d) for d in set(sites)}
        return Explanation(
            given.rows.kept[found.row.cpu()].tolist(),
            [self.codec.names[site] for site in sites],
            [natives[site][value] for site, value in zip(sites, found.value_from.tolist(), strict=True)],
            [natives[site][value] for site, value in zip(sites, found.value_to.tolist(), strict=True)],
            found.log_ratio.double().tolist(),
        )

    @cached_property
    def _log_sizes(self) -> dict[int, Tensor]:
        sizes = {d: self.codec.log_sizes(d) for d in range(len(self.codec.names))}
        return {d: torch.from_numpy(each) for d, each in sizes.items() if each is not None}

    def impute(
        self,
        data: Any,
        draws: int | None = None,
        *,
        fill: str = FILLS[0],
        random_state: int | None = None,
        jobs: int = 1,
    ) -> Any:
        """Data with their blanks filled: each by its most probable value given the cells that are there.

        Args:
            data: with blanks (NaN, None, null); columns the model does not know, and cells that were not blank, come
                back with the values and types they had.
            draws: that many completed copies instead, drawn: below one another, numbered by a first column ``draw``;
                of arrays on a new first axis.
            fill: what fills a number or date: the ``mean`` of its distribution, on the column's grid, its ``median``
                or its ``mode``.
            random_state: the model's own by default.
            jobs: how many processes share the rows, one thread each; what is filled in is the same.
        """
        given = self.read(self.known(data), filling=True)
        return self.filled_in_kind(data, given, draws, fill=fill, random_state=random_state, jobs=jobs)

    def known(self, data: Any) -> Any:
        """A data frame without the columns that the model does not know; other data as they are."""
        return known_columns(data, names) if (names := self._named_in(data)) else data

    def filled_in_kind(self, data: Any, given: Given, draws: int | None = None, **how: Any) -> Any:
        """As `impute`, for data whose `known` part was read with its blanks."""
        names = self._named_in(data)
        library = library_of(data)
        if draws is not None and library is not None and DRAW in library.names(data):
            fix = ("rename it, or leave out ", Option("draws"))
            raise InputError(f"a table without a column {DRAW!r}", "one that has it", given.data.where, fix)
        found = self.fill(given, draws, **how)
        _warn(found.warnings)
        if names:
            return put_back(data, names, given.data.table, found.data.table, draws)
        filled = found.data.native()
        if isinstance(data, np.ndarray) and data.dtype == object:
            return keep_objects(data, given.data.table, found.data.table.drop(DRAW, strict=False), filled)
        if draws is None and hasattr(filled, "iloc") and hasattr(data, "iloc"):
            filled.index = data.index
        return filled

    def _named_in(self, data: Any) -> frozenset[str]:
        """The names by which a data frame has all columns of the model; none if it has not."""
        if (library := library_of(data)) is None:
            return frozenset()
        names = {*self.codec.names, *(each.name for each in getattr(self.codec, "aside", ()))}
        present = library.names(data)
        whole = set(self.codec.names) <= set(present) and len(set(present)) == len(present)
        return frozenset(names) if whole else frozenset()

    def fill(
        self,
        given: Given,
        draws: int | None = None,
        *,
        fill: str = FILLS[0],
        sampler: str | None = None,
        random_state: int | None = None,
        progress: Progress | None = None,
        passes: int | None = None,
        jobs: int = 1,
    ) -> Filled:
        """As `impute`, for data that were read with their blanks."""
        refuse_large(16 * (draws or 1) * given.rows.states.numel(), Option("draws"), "so many copies")
        how: dict[str, Any] = {"fill": fill, "sampler": sampler, "random_state": random_state, "passes": passes}
        parts = [each.filled for each in self.filled(given, draws, progress=progress, jobs=jobs, **how)]
        data = [part.data for part in parts]
        whole = type(data[0]).join(joined_copies(data, draws)) if len(data) > 1 else data[0]
        return filled_together(parts)._replace(data=whole)

    def filled(
        self,
        data: Given | Iterable[Frame],
        draws: int | None = None,
        *,
        fill: str = FILLS[0],
        sampler: str | None = None,
        random_state: int | None = None,
        progress: Progress | None = None,
        passes: int | None = None,
        jobs: int = 1,
        **how: Any,
    ) -> Generator[FilledBlock, None, None]:
        """The rows of `fill`, some at a time: what `read` gave for filling, or a table in parts, read by ``how``."""
        check_sampler(sampler)
        draws = None if draws is None else check_count(draws, Option("draws"))
        reading = {**how, "filling": True}
        work = Filler(self.alone(), draws, fill, sampler, random_state, passes, reading)
        if isinstance(data, Given) and not (self.codec.by_rows and data.numbers > work.size):
            yield FilledBlock(work.filled(data, 0, progress), Counted.of(data.rows))
            return
        yield from self._by_blocks(work, data, jobs, progress, whole=True)

    def probabilities(self, given: Given, *, random_state: int | None = None, jobs: int = 1) -> Frame:
        """The distribution of every blank cell of data read for filling, given the other cells of its row.

        Returns:
            A table ``row, column, value, probability``, one line a value; of numbers and dates, one line a range.
        """
        return Frame.join(self.probability_parts(given, random_state=random_state, jobs=jobs))

    def probability_parts(
        self, data: Given | Iterable[Frame], *, random_state: int | None = None, jobs: int = 1, **how: Any
    ) -> Generator[Frame, None, None]:
        """The table of `probabilities`, some rows at a time: of what `read` gave, or of a table in parts."""
        work = Telling(self.alone(), random_state, {**how, "filling": True})
        yield from self._by_blocks(work, data, jobs, None)

    def conditionals(self, given: Given, *, random_state: int | None = None, block: int = 0) -> Conditionals | None:
        """The distributions of `probabilities` as numbers, and how they were found; None where nothing is blank.

        Of the rows of one ``block`` of a table, which names the randomness.
        """
        if not given.blank.any():
            return None
        states, observed = self.cells(given)
        with given.named():
            found = self.fitted.impute(states, observed, self.generator("impute", random_state, block), effort=TOLD)
        return Conditionals(found.distributions(), found.method, found.warnings)

    def column_probs(self, data: Any, target: Any, *, random_state: int | None = None) -> npt.NDArray[np.float64]:
        """``P(target = v | the other cells)`` of each row and value ``(N, V)``, values as in ``codec.labels``.

        What the target's cells hold is not looked at, and the column may be absent.

        Raises:
            InputError: no such column.
        """
        site = self.codec.site_of(target, Option("target"))
        given = self.read(without(self.codec, data, target), filling=True)
        states, observed = self.cells(given)
        with given.named():
            cells = self.fitted.conditional_probs(states, observed, self.generator("impute", random_state))
        found: npt.NDArray[np.float64] = cells.log_probs[cells.site == site].exp().numpy(force=True)
        return found[:, : self.codec.space.sizes[site]]

    def export(self, path: str | Path, *, force: bool = True) -> Exported:
        """Write what scores encoded rows as a program of ``torch.export``, which runs without this library.

        A density gives ``log q(states)`` ``(N,)``, a score model ``log q(N(x)_k) - log q(x)`` ``(N, K)``, of one more
        argument, the noise level ``(N,)``, where it has levels. Rows are encoded as the file's own description says.

        Args:
            path: a ``.pt2`` file.
            force: whether it may exist.

        Raises:
            InputError: a model that PyTorch cannot export.
        """
        labels = {name: list(map(str, self.codec.labels(d))) for d, name in enumerate(self.codec.names)}
        about = {"kind": self.codec.kind, "run": None if self.run is None else self.run.id, "values": labels}
        return export(self.fitted.model, path, about, force=force)

    def generator(self, stream: str, random_state: int | None = None, block: int = 0) -> torch.Generator:
        """The randomness of one stream of one block of rows."""
        seed = self.seed if random_state is None else check_count(random_state, Option("seed"), 0)
        return generator(seed, stream, block, device=self.fitted.views.device or "cpu")

    def told(self, conditions: Sequence[Condition]) -> str:
        """Conditions as a user would write them, with commas between."""
        return ", ".join(each.describe(self.codec.names) for each in conditions)

    def cells(self, given: Given) -> tuple[Tensor, Tensor]:
        """States ``(N', D)`` and which of their cells are observed, where the model is."""
        device = self.fitted.views.device
        return given.rows.states.long().to(device), given.rows.observed.to(device)


def load(path: str | Path | Run) -> Model:
    """The model of a run directory, made by ``csm fit`` or by `ConcreteScoreEstimator.save`, of any kind of data.

    Raises:
        InputError: no run there, or a damaged one.
    """
    return Model.open(path)


def check_sampler(name: str | None) -> None:
    """Refuse a sampler that is not registered, before any work."""
    known = list(dict.fromkeys(each for kind in ("kernels", "annealing", "unmasking") for each in registry.names(kind)))
    if name is not None and name not in known:
        raise InputError("the name of a kernel", repr(name), Option("sampler"), nearest(name, known))


def _warn(messages: tuple[str, ...]) -> None:
    for message in messages:
        warnings.warn(message, UserWarning, stacklevel=3)
