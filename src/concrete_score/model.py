"""A fitted model in the user's own terms: rows, images or whatever its codec reads go in, and the same kind comes out.

What `concrete_score.load` gives for a run directory of any kind of data; the command line asks the same object.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import exp, isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from torch import Tensor

from concrete_score import registry, runs
from concrete_score.codecs import Codec
from concrete_score.codecs.columns import as_text
from concrete_score.data.formats import Say
from concrete_score.data.frame import ARRAYS, Form, Frame
from concrete_score.defaults import TOP
from concrete_score.errors import Command, InputError, Option, check_count, nearest
from concrete_score.fitted import Changes, Drawn, Fitted, Progress
from concrete_score.fitting import load_data
from concrete_score.likelihood import Budget, LogLikelihood
from concrete_score.likelihood.exact import mean_and_stderr
from concrete_score.protocols import Encoded
from concrete_score.randomness import generator
from concrete_score.runs import Run
from concrete_score.samplers.from_noise import Watch


class Given(NamedTuple):
    """Data that a question is asked about, with their states."""

    data: Any
    rows: Encoded
    notes: tuple[str, ...] = ()
    """What was left out, in plain words."""
    warnings: tuple[str, ...] = ()

    @property
    def skipped(self) -> int:
        """Rows that were left out."""
        return self.rows.unknown + self.rows.blank

    def row_name(self, row: int) -> str:
        """What a row of the states is called: its place in the data."""
        return f"row {int(self.rows.kept[row])}"

    @contextmanager
    def named(self) -> Iterator[None]:
        """Within it, an error about a row names the data too."""
        try:
            yield
        except InputError as error:
            if isinstance(error.where, str) and error.where.startswith("row "):
                raise error.moved((self.data.where, error.where)) from None
            raise


@dataclass(frozen=True, eq=False)
class Explanation:
    """Single changes in the data's own terms, by row and then by falling log-ratio; one line each."""

    row: list[int]
    column: list[str]
    before: list[Any]
    after: list[Any]
    log_ratio: list[float]

    def to_json(self) -> list[dict[str, Any]]:
        """One object a change: ``row, column, from, to, log_ratio``."""
        names = ("row", "column", "from", "to", "log_ratio")
        lines = zip(self.row, self.column, self.before, self.after, self.log_ratio, strict=True)
        return [dict(zip(names, line, strict=True)) for line in lines]

    def frame(self) -> Frame:
        """The same as a table; values are text, for they are of many types."""
        before, after = ([as_text(value) for value in values] for values in (self.before, self.after))
        columns = {"row": self.row, "column": self.column, "from": before, "to": after, "log_ratio": self.log_ratio}
        return Frame(pl.DataFrame(columns, strict=False), Form("csv"), "explanation")

    def native(self, form: Form) -> Any:
        """A data frame of the library that ``form`` names, or a structured array."""
        table = self.frame().table
        if form.kind not in ARRAYS:
            return Frame(table, form, "explanation").native()
        kinds = [
            (name, "O" if table[name].dtype == pl.String else table[name].to_numpy().dtype) for name in table.columns
        ]
        found = np.empty(len(table), dtype=kinds)
        for name in table.columns:
            found[name] = table[name].to_numpy()
        return found


class Filled(NamedTuple):
    """Data without blanks, and how they were filled."""

    data: Any
    cells: int
    """Cells that were filled in each copy."""
    method: str | None
    """None where nothing was blank."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted model with its codec.

    Args:
        codec: how data become states, and back.
        fitted: the trained model's answers about states.
        run: the run directory it was read from, if any.
        seed: names the randomness of answers that get no ``random_state``.

    Data are given as a path, the name of a data set, or a Python object of the run's kind: a data frame or an array
    ``(N, D)`` for a table, an array ``(N, H, W)`` for images.
    """

    codec: Codec
    fitted: Fitted
    run: Run | None = field(default=None, repr=False)
    seed: int = 0

    @classmethod
    def of(cls, model: Any, codec: Codec, run: Run | None = None, seed: int = 0) -> "Model":
        """A trained model with its codec; it is converted to double precision where the codec wants that."""
        answers = model.double() if codec.precise else model
        fitted = Fitted(answers, codec.space, describe=codec.describe, from_noise=codec.from_noise)
        return cls(codec, fitted, run, seed)

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
            return cls.of(model, codec, run, run.settings.seed if seed is None else seed)

    @property
    def untrained(self) -> bool:
        """Whether no step of the training improved on the weights it began with."""
        started = bool(getattr(self.fitted.model, "starts_from_rows", False))
        return self.run is not None and self.run.model_file().step == 0 and not started

    def read(
        self,
        data: Any,
        *,
        missing: str = "refuse",
        unknown: str = "refuse",
        data_dir: str | None = None,
        reading: Mapping[str, Any] | None = None,
        say: Say = lambda message: None,
    ) -> Given:
        """Data as states, read once; what the other methods do first with data that is not `Given` yet.

        Args:
            data: a path, a name of a data set, or a Python object.
            missing: blank cells: ``refuse``, ``drop`` their rows, or ``keep`` them as unobserved.
            unknown: values never seen in training: ``refuse``, or ``skip`` their rows.
            data_dir: a folder of named data sets, looked into first.
            reading: how to read a file of text: ``encoding, header, separator``; what is not given is noticed.
            say: receives what was noticed, note by note.

        Raises:
            InputError: not data of the run's kind, or cells that are blank or unknown; row and column are named.
        """
        if isinstance(data, Given):
            return data
        found = load_data(data, "test", data_dir, say, reading) if isinstance(data, str | Path) else data
        found = self.codec.accept(found)
        rows = self.codec.encode(found, missing=missing, unknown=unknown)
        left = "left as they are" if missing == "keep" else "skipped"
        notes = []
        if rows.unknown:
            notes.append(f"{rows.unknown} {self.codec.noun} with values never seen in training {left}")
        if rows.blank:
            notes.append(f"{rows.blank} {self.codec.noun} with blanks dropped")
        return Given(found, rows, tuple(notes), tuple(self.codec.warnings(found, rows)))

    def sample(
        self, n: int = 1, given: Any = None, *, sampler: str | None = None, random_state: int | None = None
    ) -> Any:
        """``n`` rows drawn from the model, in the kind of the training data.

        Args:
            n: how many.
            given: only rows with these values, ``{"smoke": "yes"}``; columns without names are called by number.
            sampler: a name of ``csm list kernels``; by default what is exact, if anything is.
            random_state: the model's own by default, so that two calls give the same rows.

        Raises:
            InputError: no such column or value, or an impossible condition.
        """
        if given is not None and not isinstance(given, Mapping):
            raise InputError("a mapping such as {'smoke': 'yes'}", type(given).__name__, Option("given"))
        parts = list(self.sample_parts(n, given, sampler=sampler, random_state=random_state))
        _warn(parts[0].warnings)
        return self.codec.decode(torch.cat([part.states for part in parts])).native()

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
        """The states of `sample` in parts, so that memory does not grow with ``n``; the codec decodes them."""
        check_sampler(sampler)
        conditions = self.codec.given(given)
        options: dict[str, Any] = {"sampler": sampler, "progress": progress, "passes": passes, "watch": watch}
        return self.fitted.sample_parts(n, self.generator("sample", random_state), given=conditions, **options)

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
            found = self.fitted.evaluate(self._states(given), random, budget, progress, row_name=given.row_name)
        if not isinstance(data, Given):
            _warn(found.warnings)
        return found

    def score_samples(self, data: Any) -> npt.NDArray[np.float64]:
        """``log q(x)`` of each row in nats ``(N,)``.

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

        One entry for every value of every site, as `changes` names them; 0 where the cell has that value already.
        """
        states = self._states(self.read(data))
        found = by_value(self.fitted.log_ratios(states).double(), states, self.codec.space.sizes)
        ratios: npt.NDArray[np.float64] = found.numpy(force=True)
        return ratios

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
        """As `explain`, in plain lists."""
        with given.named():
            found: Changes = self.fitted.explain(self._states(given), top, row_name=given.row_name)
        sites = found.site.tolist()
        natives = {d: self.codec.natives(d) for d in set(sites)}
        return Explanation(
            given.rows.kept[found.row.cpu()].tolist(),
            [self.codec.names[site] for site in sites],
            [natives[site][value] for site, value in zip(sites, found.value_from.tolist(), strict=True)],
            [natives[site][value] for site, value in zip(sites, found.value_to.tolist(), strict=True)],
            found.log_ratio.double().tolist(),
        )

    def impute(self, data: Any, draws: int | None = None, *, random_state: int | None = None) -> Any:
        """Data with their blanks filled: each by its most probable value given the cells that are there.

        Args:
            data: with blanks (NaN, None, null); columns the model does not know pass unchanged.
            draws: that many completed copies instead, drawn: below one another, numbered by a first column ``draw``;
                of arrays on a new first axis.
            random_state: the model's own by default.
        """
        found = self.fill(self.read(data, missing="keep"), draws, random_state=random_state)
        _warn(found.warnings)
        filled = found.data.native()
        if draws is None and hasattr(filled, "iloc") and hasattr(data, "iloc"):
            filled.index = data.index
        return filled

    def fill(
        self,
        given: Given,
        draws: int | None = None,
        *,
        sampler: str | None = None,
        random_state: int | None = None,
        progress: Progress | None = None,
        passes: int | None = None,
    ) -> Filled:
        """As `impute`, for data read with ``missing="keep"``."""
        check_sampler(sampler)
        draws = None if draws is None else check_count(draws, Option("draws"))
        rows = given.rows
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
        count = int((~rows.observed).sum())
        return Filled(self.codec.fill(given.data, rows, filled, draws), count, found.method, found.warnings)

    def generator(self, stream: str, random_state: int | None = None) -> torch.Generator:
        """The randomness of one use of the model."""
        seed = self.seed if random_state is None else check_count(random_state, Option("seed"), 0)
        return generator(seed, stream, device=self.fitted.views.device or "cpu")

    def _states(self, given: Given) -> Tensor:
        return given.rows.states.long().to(self.fitted.views.device)

    def _log_likelihoods(self, data: Any) -> Tensor:
        given = self.read(data)
        with given.named():
            found = self.fitted.row_log_likelihoods(self._states(given), given.row_name)
        if found is None:
            came = f"{type(self.fitted.model).__name__}, which has none here"
            fix = ("use ", Command("evaluate"), ", which bounds the mean where it can")
            raise InputError("a model with an exact log-likelihood of every row", came, fix=fix)
        return found.double()


def load(path: str | Path | Run) -> Model:
    """The model of a run directory, made by ``csm fit`` or by `ConcreteScoreEstimator.save`, of any kind of data.

    Raises:
        InputError: no run there, or a damaged one.
    """
    return Model.open(path)


def check_sampler(name: str | None) -> None:
    """Refuse a sampler that is not registered, before any work."""
    known = list(dict.fromkeys([*registry.names("kernels"), *registry.names("annealing")]))
    if name is not None and name not in known:
        raise InputError("the name of a kernel", repr(name), Option("sampler"), nearest(name, known))


def by_value(ratios: Tensor, states: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Hamming's slots, the other values of each site, spread to all values: ``(N, K) -> (N, Σ sizes)``.

    >>> by_value(torch.tensor([[0.1, 0.2, 0.3]]), torch.tensor([[1, 0]]), (3, 2)).tolist()
    [[0.1..., 0.0, 0.2..., 0.0, 0.3...]]
    """
    parts, start = [], 0
    for d, size in enumerate(sizes):
        spread = ratios.new_zeros(len(ratios), size)
        other = torch.arange(size - 1, device=ratios.device).expand(len(ratios), -1)
        here = states[:, d : d + 1].to(ratios.device)
        spread.scatter_(1, other + (other >= here), ratios[:, start : start + size - 1])
        parts.append(spread)
        start += size - 1
    return torch.cat(parts, 1)


def times_as_probable(log_ratio: float) -> str:
    """A log-ratio in plain words.

    >>> times_as_probable(0.7), times_as_probable(-0.7), times_as_probable(float("-inf"))
    ('2.0 times as probable', '2.0 times less probable', 'impossible')
    >>> times_as_probable(900.0)
    'e^900 times as probable'
    """
    if not isfinite(log_ratio):
        return "impossible"
    size = abs(log_ratio)
    factor = f"{exp(size):,.1f}" if size < 14 else f"e^{size:.0f}"
    return f"{factor} times {'as' if log_ratio >= 0 else 'less'} probable"


def _warn(messages: tuple[str, ...]) -> None:
    for message in messages:
        warnings.warn(message, UserWarning, stacklevel=3)
