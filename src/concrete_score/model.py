"""A fitted model in the user's own terms: rows, images or whatever its codec reads go in, and the same kind comes out.

What `concrete_score.load` gives for a run directory of any kind of data; the command line asks the same object.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from concrete_score import registry, runs
from concrete_score.answers import (
    Conditionals,
    Explanation,
    Filled,
    Given,
    by_site,
    by_value,
    probability_table,
    without,
)
from concrete_score.codecs import Codec
from concrete_score.codecs.conditions import Condition
from concrete_score.data.formats import Say
from concrete_score.data.frame import DRAW, Form, Frame
from concrete_score.data.natives import keep_objects, known_columns, library_of, put_back
from concrete_score.defaults import FILLS, MISSING, TOP, UNKNOWN
from concrete_score.errors import Command, InputError, Option, check_count, nearest
from concrete_score.files import refuse_large
from concrete_score.fitted import Drawn, Fitted, Progress
from concrete_score.fitting import load_data
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
            InputError: no run, a damaged one, one without a model yet, or one that this version cannot build.
        """
        run = path if isinstance(path, Run) else runs.open(path)
        with runs.untrusted(run):
            codec = run.codec
            model = run.model().to(device)
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
        notes = []
        if rows.unknown:
            left = "left as they are" if filling else "skipped"
            notes.append(f"{rows.unknown} {self.codec.noun} with values never seen in training {left}")
        if not filling and not rows.observed.all():
            count = int((~rows.observed.all(1)).sum())
            notes.append(f"{count} {self.codec.noun} with blanks, which count as not observed")
        if rows.blank:
            notes.append(f"{rows.blank} {self.codec.noun} with blanks dropped")
        if rows.unseen is not None and rows.unseen.any():
            notes.append(
                f"{int(rows.unseen.sum())} cells hold values never seen in training; each has the probability"
                " reserved for such values"
            )
        return Given(found, rows, tuple(notes), tuple(self.codec.warnings(found, rows)))

    def sample(
        self,
        n: int = 1,
        given: Any = None,
        *,
        sampler: str | None = None,
        random_state: int | None = None,
        blanks: bool = False,
    ) -> Any:
        """``n`` rows drawn from the model, in the kind of the training data.

        Args:
            n: how many.
            given: only rows that meet these conditions: ``{"smoke": "yes", "country": ["US", "CA"]}``, or texts with
                comparisons, ``["age>=65", "country in US,CA"]``; columns without names are called by number.
            sampler: a name of ``csm list kernels``; by default what is exact, if anything is.
            random_state: the model's own by default, so that two calls give the same rows.
            blanks: whether some cells are left blank, as those of the training rows were; none, if none of those was.

        Raises:
            InputError: no such column or value, or an impossible condition.
        """
        leave_blanks = self.blanker(random_state) if blanks else None
        parts = list(self.sample_parts(n, given, sampler=sampler, random_state=random_state))
        _warn(parts[0].warnings)
        states = torch.cat([part.states for part in parts])
        return next(self.decoded([states], given, random_state, leave_blanks)).native()

    def decoded(
        self,
        parts: Iterable[Tensor],
        given: Any = None,
        random_state: int | None = None,
        leave_blanks: LeaveBlanks | None = None,
    ) -> Iterator[Any]:
        """The states of `sample_parts` as data: what they leave open is drawn so that the conditions are met."""
        conditions, random, first = self.codec.conditions(given), self.generator("decode", random_state), 0
        for states in parts:
            data = self.codec.decode(states, random, conditions, first)
            yield data if leave_blanks is None else leave_blanks(data, states)
            first += len(states)

    def blanker(self, random_state: int | None = None) -> LeaveBlanks | None:
        """What leaves cells of sampled tables blank, in the training rows' patterns and in rows such as theirs.

        None where nothing was blank in training.
        """
        patterns, random = self.patterns, self.generator("blank patterns", random_state)
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
        return self.fitted.probability(self.codec.evidence(conditions), random, self._told(conditions))

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
        check_sampler(sampler)
        conditions = self.codec.conditions(given)
        return self.fitted.sample_parts(
            n,
            self.generator("sample", random_state),
            self.codec.evidence(conditions),
            sampler,
            progress,
            passes=passes,
            watch=watch,
            condition=self._told(conditions),
        )

    def evaluate(
        self,
        data: Any,
        *,
        random_state: int | None = None,
        budget: Budget | None = None,
        progress: Progress | None = None,
    ) -> LogLikelihood:
        """The mean log-likelihood with its standard error, exact or between bounds, and how it was found."""
        given = self.read(data)
        random = self.generator("evaluate", random_state)
        with given.named():
            states, observed = self._cells(given)
            found = self.fitted.evaluate(states, random, budget, progress, given.row_name, observed=observed)
            found = self._with_inside(found, given)
        if not isinstance(data, Given):
            _warn(found.warnings)
        return found

    def score_samples(self, data: Any) -> npt.NDArray[np.float64]:
        """``log q(x)`` of each row in nats ``(N,)``; of rows with blanks, that of the cells that are there.

        Raises:
            InputError: the model has no exact log-likelihood; `evaluate` bounds its mean.
        """
        found: npt.NDArray[np.float64] = self._log_likelihoods(data).numpy(force=True)
        return found

    def score(self, data: Any) -> float:
        """The mean of `score_samples`, the number ``csm evaluate`` calls ``log_likelihood``."""
        return mean_and_stderr(self._log_likelihoods(data))[0]

    def log_ratios(self, data: Any) -> npt.NDArray[np.float64]:
        """``log q(x with one cell changed) - log q(x)`` for every row and change ``(N, Σ sizes)``.

        One entry for every value of every site, as `changes` names them; 0 where the cell has that value already, NaN
        where it is blank.
        """
        states, observed = self._cells(self.read(data))
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

    def explanation(self, given: Given, top: int = TOP) -> Explanation:
        with given.named():
            states, observed = self._cells(given)
            random = self.generator("ratios")
            found: Changes = self.fitted.explain(
                states, top, given.row_name, observed=observed, generator=random, log_sizes=self._log_sizes
            )
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
        self, data: Any, draws: int | None = None, *, fill: str = FILLS[0], random_state: int | None = None
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
        """
        given = self.read(self.known(data), filling=True)
        return self.filled_in_kind(data, given, draws, fill=fill, random_state=random_state)

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
    ) -> Filled:
        """As `impute`, for data that were read with their blanks."""
        check_sampler(sampler)
        draws = None if draws is None else check_count(draws, Option("draws"))
        rows = given.rows
        refuse_large(16 * (draws or 1) * rows.states.numel(), Option("draws"), "so many copies")
        filled = rows.states.long().expand(draws or 1, -1, -1).clone()
        holes = ~rows.observed.all(1)
        if not holes.any():
            return Filled(self.codec.fill(given.data, rows, filled, draws), 0, None)
        at = holes.nonzero()[:, 0]
        device = self.fitted.views.device
        with given.named():
            found = self.fitted.impute(
                rows.states[holes].long().to(device),
                rows.observed[holes].to(device),
                self.generator("impute", random_state),
                draws=draws,
                sampler=sampler,
                progress=progress,
                passes=passes,
                row_name=lambda row: given.row_name(int(at[row])),
            )
        filled[:, holes] = found.states.reshape(len(filled), -1, filled.shape[-1]).cpu()
        blank, random = given.blank, self.generator("decode", random_state)
        probs = None if found.cells is None else by_site(found.cells, at, blank)
        data = self.codec.fill(given.data, rows, filled, draws, generator=random, probs=probs, how=fill)
        return Filled(data, int(blank.sum()), found.method, found.warnings)

    def probabilities(self, given: Given, *, random_state: int | None = None) -> Frame:
        """The distribution of every blank cell of data read for filling, given the other cells of its row.

        Returns:
            A table ``row, column, value, probability``, one line a value; of numbers and dates, one line a range.
        """
        found = self.conditionals(given, random_state=random_state)
        return probability_table(given, None if found is None else found.cells, self.codec)

    def conditionals(self, given: Given, *, random_state: int | None = None) -> Conditionals | None:
        """The distributions of `probabilities` as numbers, and how they were found; None where nothing is blank."""
        if not given.blank.any():
            return None
        states, observed = self._cells(given)
        with given.named():
            found = self.fitted.impute(states, observed, self.generator("impute", random_state), effort=TOLD)
        return Conditionals(found.distributions(), found.method, found.warnings)

    def column_probs(self, data: Any, target: Any, *, random_state: int | None = None) -> npt.NDArray[np.float64]:
        """``P(target = v | the other cells)`` of each row and value ``(N, V)``, values as in ``codec.labels``.

        What the target's cells hold is not looked at, and the column may be absent.

        Raises:
            InputError: no such column.
        """
        site = self.codec.site_of(target, Option("target"))
        given = self.read(without(self.codec, data, target), filling=True)
        states, observed = self._cells(given)
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

    def generator(self, stream: str, random_state: int | None = None) -> torch.Generator:
        seed = self.seed if random_state is None else check_count(random_state, Option("seed"), 0)
        return generator(seed, stream, device=self.fitted.views.device or "cpu")

    def _told(self, conditions: Sequence[Condition]) -> str:
        return ", ".join(each.describe(self.codec.names) for each in conditions)

    def _cells(self, given: Given) -> tuple[Tensor, Tensor]:
        device = self.fitted.views.device
        return given.rows.states.long().to(device), given.rows.observed.to(device)

    def _log_likelihoods(self, data: Any) -> Tensor:
        given = self.read(data)
        with given.named():
            states, observed = self._cells(given)
            random = self.generator("evaluate")
            found = self.fitted.row_log_likelihoods(states, given.row_name, observed=observed, generator=random)
        if found is None:
            came = f"{type(self.fitted.model).__name__}, which has none here"
            fix = ("use ", Command("evaluate"), ", which bounds the mean where it can")
            raise InputError("a model with an exact log-likelihood of every row", came, fix=fix)
        inside = given.rows.log_inside
        return found.double() if inside is None else found.double() + inside.to(found.device)

    def _with_inside(self, found: LogLikelihood, given: Given) -> LogLikelihood:
        """A log-likelihood of states as one of the data: numbers also have a probability inside their range."""
        inside = given.rows.log_inside
        if inside is None:
            return found
        moved = found.moved(float(inside.mean()))
        if found.log_likelihood is None:
            return moved
        return replace(moved, stderr=mean_and_stderr(self._log_likelihoods(given))[1])


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
