"""`ConcreteScoreEstimator`: scikit-learn's interface to `fitting` and `model`."""

import json
import warnings
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from concrete_score import runs
from concrete_score.answers import without
from concrete_score.codecs import TableCodec, TableOptions
from concrete_score.data.frame import Frame, as_frame
from concrete_score.data.streams import Stream, is_batches, stream_batches
from concrete_score.defaults import FILLS, TOP, UNKNOWN, VALID_FRACTION
from concrete_score.errors import InputError, Option, check_count
from concrete_score.files import flat
from concrete_score.fitting import PIECES, SETTINGS, Plan, Request, prepare
from concrete_score.likelihood import LogLikelihood
from concrete_score.model import Model
from concrete_score.runs import Run
from concrete_score.samplers.evidence import Probability
from concrete_score.training.choice import Choice, choose
from concrete_score.training.events import tell_all, training_progress
from concrete_score.training.loggers import About, find_loggers, logged
from concrete_score.training.recipe import Recipe, TrainingSettings

Numbers = npt.NDArray[np.float64]
_READING = ("columns", "drop", "bins", "na", "max_categories", "missing", "weight", "column")
_NEVER_NONE = ("missing", "valid_fraction")
"""Parameters whose default is a value: None is no way to ask for it."""


def _has_target(estimator: Any) -> bool:
    return estimator.target is not None


class ConcreteScoreEstimator(DensityMixin, BaseEstimator):  # type: ignore[misc]
    """A generative model of a table, with scikit-learn's interface.

    The engine is that of ``csm fit``: the same choices where a parameter is None, the same training, and `save` writes
    a run directory that every ``csm`` command opens. Tables are NumPy arrays, or data frames of pandas, polars or
    another library narwhals knows; what comes out is of the kind that went in. Parameters are judged in `fit`.

    Args:
        model: a name of ``csm list models``; or a model (``nn.Module``) on the table's space, which is copied, or a
            function of the space that makes one.
        objective: a name of ``csm list objectives``; or any `Objective`, or a function of the space that makes one.
        edges: a name of ``csm list edges``, for objectives on edges.
        neighborhood: a name of ``csm list neighborhoods``.
        steps, minutes, batch_size, lr: of the training.
        options: any other setting, as ``csm fit --set`` takes them: ``{"model.hidden": 300, "average": 0.999}``.
        bins: columns of numbers to cut into quantile ranges, which are then their values, ``{"age": 10}``; or one count
            for all of them.
        missing: blank cells (NaN, None, null) in training: ``unobserved``, so that a row counts by the probability of
            its other cells; ``drop`` their rows; make them a ``category``; or ``refuse`` them.
        max_categories: the most values a column of categories may take.
        valid_fraction: the share of rows held out where `fit` gets no ``valid``.
        random_state: a whole number; names all randomness, also that of `sample` and `impute`.
        device: where to train.
        verbose: whether to show progress on standard error.
        columns: the columns to use; all by default.
        drop: columns to leave out.
        na: texts that mean a blank cell.
        unknown: values never seen in training: ``reserve`` a probability for them, ``refuse`` them, or ``skip`` their
            rows.
        column: what columns are, where it is not to be inferred: ``{"zip": "category"}``.
        target: the column that `predict` and `predict_proba` give, by name, or by number in an array.
        weight: a column that says as how many rows each row counts in training; it is not modelled.
        loggers: where to send the training's numbers: names of ``csm list loggers``, or any `training.loggers.Logger`.

    Attributes:
        n_features_in_, feature_names_in_: how many columns there were, and their names, if they had any.
        codec_: how the table becomes states, and back.
        model_: the trained model.
        fitted_: the trained model's answers about states.
        n_iter_, best_step_: steps taken, and the one whose weights are kept.
        history_: what was measured on the way, one value a validation.

    >>> import concrete_score as cs, polars as pl
    >>> rows = pl.DataFrame({"smoke": ["yes", "no", "no", "yes"] * 50, "cough": ["yes", "no", "no", "no"] * 50})
    >>> model = cs.ConcreteScoreEstimator(steps=300).fit(rows)
    >>> bool((model.sample(1000, given={"cough": "yes"})["smoke"] == "yes").mean() > 0.95)
    True
    >>> model.impute(pl.DataFrame({"smoke": ["no"], "cough": [None]})).rows()
    [('no', 'no')]
    """

    # Parameters are stored as they come and judged in `fit`: scikit-learn tries them with values of every kind.
    def __init__(
        self,
        model: Any = None,
        objective: Any = None,
        edges: Any = None,
        neighborhood: Any = None,
        steps: Any = None,
        minutes: Any = None,
        batch_size: Any = None,
        lr: Any = None,
        options: Any = None,
        bins: Any = None,
        missing: Any = TableOptions.missing,
        max_categories: Any = TableOptions.max_categories,
        valid_fraction: Any = VALID_FRACTION,
        random_state: Any = 0,
        device: Any = "cpu",
        verbose: Any = False,
        columns: Any = None,
        drop: Any = None,
        na: Any = None,
        unknown: Any = UNKNOWN[0],
        weight: Any = None,
        column: Any = None,
        target: Any = None,
        loggers: Any = None,
    ) -> None:
        self.model = model
        self.objective = objective
        self.edges = edges
        self.neighborhood = neighborhood
        self.steps = steps
        self.minutes = minutes
        self.batch_size = batch_size
        self.lr = lr
        self.options = options
        self.bins = bins
        self.missing = missing
        self.max_categories = max_categories
        self.valid_fraction = valid_fraction
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.columns = columns
        self.drop = drop
        self.na = na
        self.unknown = unknown
        self.weight = weight
        self.column = column
        self.target = target
        self.loggers = loggers

    def fit(self, X: Any, y: Any = None, valid: Any = None) -> "ConcreteScoreEstimator":
        """Learn a model of the rows of ``X``.

        Args:
            X: a table ``(N, D)`` of categories, numbers, dates, blanks; or an iterable of tables of the same columns,
                batches of one that need not fit into memory: its rows are encoded once into a temporary file.
            y: ignored.
            valid: held-out rows that choose the best step; a share of ``X`` where there are none.

        Raises:
            InputError: a table without anything to learn, or a parameter out of place; all that mends it is named.
        """
        seed = check_count(self.random_state, Option("seed"), 0)
        loggers = find_loggers(() if self.loggers is None else self.loggers)
        data = stream_batches(X, "X") if is_batches(X) else self._frame(X, rows=2, columns=2)
        frame = data.head() if isinstance(data, Stream) else data
        job = prepare(self._request(data, None if valid is None else self._frame(valid, where="valid"), seed))
        about = About(type(self).__name__, config=dict(flat(job.config)))
        with training_progress(job.plan.settings, quiet=not self.verbose) as show, logged(loggers, about) as log:
            fit = job.train(device=str(self.device), show=tell_all(show, log))
        if fit.ended.message or not fit.ended.usable:
            message = fit.ended.message or "no step improved on the untrained model"
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
        self.n_iter_, self.best_step_, self.history_ = fit.ended.step, fit.ended.best_step, fit.history
        self._note_columns(frame.names, frame.named)
        return self._ready(job.plan, job.codec, fit.model, job.facts, job.config)

    def sample(
        self,
        n: int = 1,
        given: Any = None,
        *,
        sampler: str | None = None,
        random_state: int | None = None,
        blanks: bool = False,
    ) -> Any:
        """``n`` rows drawn from the model, in the kind of the training table; see `Model.sample`."""
        return self._model.sample(n, given, sampler=sampler, random_state=random_state, blanks=blanks)

    def probability(self, given: Any, *, random_state: int | None = None) -> Probability | None:
        """The probability that a row meets conditions; see `Model.probability`."""
        return self._model.probability(given, random_state=random_state)

    def score_samples(self, X: Any) -> Numbers:
        """``log q(x)`` of each row in nats ``(N,)``; see `Model.score_samples`."""
        return self._model.score_samples(self._given(X))

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of `score_samples`, the number ``csm evaluate`` calls ``log_likelihood``."""
        return self._model.score(self._given(X))

    def evaluate(self, X: Any, *, random_state: int | None = None) -> LogLikelihood:
        """The mean log-likelihood with its standard error, exact or between bounds, and how it was found."""
        found = self._model.evaluate(self._given(X), random_state=random_state)
        for message in found.warnings:
            warnings.warn(message, UserWarning, stacklevel=2)
        return found

    def log_ratios(self, X: Any) -> Numbers:
        """``log q(x with one cell changed) - log q(x)`` for every row and change; see `Model.log_ratios`."""
        return self._model.log_ratios(self._given(X))

    @property
    def changes_(self) -> list[tuple[str, str]]:
        """Column and value of each entry of a row of `log_ratios`."""
        return self._model.changes

    def explain(self, X: Any, top: int = TOP) -> Any:
        """The single changes that raise each row's probability most; see `Model.explain`.

        Returns:
            A table ``row, column, from, to, log_ratio`` with ``top`` lines a row, in the kind of ``X``; a structured
            array where ``X`` is an array.
        """
        return self._model.explain(self._given(X), top)

    @available_if(_has_target)  # type: ignore[untyped-decorator]
    def predict(self, X: Any, *, fill: str = FILLS[0], random_state: int | None = None) -> Any:
        """The most probable value of the column ``target`` given the others ``(N,)``; of numbers the mean.

        Args:
            X: a table; its column ``target`` is not looked at, and may be absent where columns have names.
            fill: what stands for a number or date: ``mean``, ``median`` or ``mode``.
            random_state: the estimator's own by default.
        """
        given = self._given(self._without_target(X), filling=True)
        filled = self._model.fill(given, fill=fill, random_state=random_state).data.table
        site = self.codec_.site_of(self.target, Option("target"))
        name = self.codec_.names[site]
        return filled[name if name in filled.columns else filled.columns[site]].to_numpy()

    @available_if(_has_target)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Numbers:
        """``P(target = v | the other columns)`` ``(N, V)``; ``classes_`` names the values."""
        return self._model.column_probs(self._without_target(X), self.target)

    @property
    def classes_(self) -> list[Any]:
        """The values of the column ``target`` in the order of `predict_proba`; of numbers, their ranges."""
        if self.target is None:
            raise AttributeError("classes_")
        check_is_fitted(self)
        return list(self.codec_.natives(self.codec_.site_of(self.target, Option("target"))))

    def _without_target(self, X: Any) -> Frame:
        """``X`` with its column ``target`` blank; an array must have all columns."""
        check_is_fitted(self)
        frame = self._frame(X)
        if not frame.named:
            validate_data(self, X, reset=False, skip_check_array=True)
        return without(self.codec_, frame, self.target)

    def impute(self, X: Any, draws: int | None = None, *, fill: str = FILLS[0], random_state: int | None = None) -> Any:
        """``X`` with its blank cells filled; see `Model.impute`.

        Rows of a pandas frame keep its index; ``draws`` copies of an array come as ``(draws, N, D)``.
        """
        model = self._model
        given = self._given(model.known(X), filling=True)
        found = model.filled_in_kind(X, given, draws, fill=fill, random_state=random_state)
        if isinstance(found, np.ndarray) and draws is not None:
            return found.reshape(draws, -1, found.shape[-1])
        return found

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write a run directory, which `load` and every ``csm`` command open; nothing in it is pickled.

        Raises:
            InputError: the directory is occupied and not ``force``; or ``model`` or ``objective`` was an object: a run
                holds names alone. Register it, or pickle the estimator.
        """
        check_is_fitted(self)
        if self._plan.objects:
            raise InputError(
                "a model and an objective of registered names, which is all that a run directory holds",
                "an object in place of a name",
                where="save",
                fix="register it (entry points concrete_score.models and .objectives), or pickle the estimator",
            )
        codec, seed = self.codec_.to_json(), self._plan.settings.seed
        run = runs.create(path, config=self._config, codec=codec, data=self._facts, seed=seed, force=force)
        for line in self.history_:
            run.journal.append(**line)
        run.save_model(self.model_.state_dict(), self.best_step_)

    @classmethod
    def load(cls, path: str | Path | Run) -> "ConcreteScoreEstimator":
        """The estimator of a run directory of a table, made by `save` or by ``csm fit``.

        Raises:
            InputError: no run there, a damaged one, or one that is not of a table.
        """
        run = path if isinstance(path, Run) else runs.open(path)
        codec = run.codec
        if not isinstance(codec, TableCodec):
            fix = "open it with concrete_score.load"
            raise InputError("a run of a table", f"one of {codec.noun}", where=str(run.path), fix=fix)
        config = {"missing": TableOptions.missing, **run.config}
        reading = {"valid_fraction": config["valid_fraction"], "missing": config["missing"]}
        self = cls(**{**_parameters_of(run.recipe, run.settings), **codec.parameters(), **reading})
        self._note_columns(codec.names, codec.named)
        history, checkpoint = run.journal.read(), run.checkpoint()
        self.history_, self.best_step_ = history, run.model_file().step
        seen = [self.best_step_, *(line["step"] for line in history)]
        self.n_iter_ = checkpoint.step if checkpoint is not None else max(seen)
        plan = Plan(Choice(run.recipe, run.settings.to_json()))
        return self._ready(plan, codec, run.model(), dict(run.info["data"]), config)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = isinstance(self.missing, str) and self.missing != "refuse"
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_")

    def _request(self, data: Frame | Stream, valid: Frame | None, seed: int) -> Request:
        options = {} if self.options is None else self.options
        if not isinstance(options, dict):
            came = type(options).__name__
            raise InputError("a mapping such as {'model.hidden': 300}", came, where="options")
        for name in _NEVER_NONE:
            if getattr(self, name) is None:
                raise InputError("a value", "None", Option(name), "leave it out for the default")
        return Request(
            data,
            valid,
            valid_fraction=_plain(self.valid_fraction),
            unknown=self.unknown,
            reading={name: _plain(getattr(self, name)) for name in _READING},
            pieces={name: getattr(self, name) for name in PIECES},
            training={**{name: _plain(getattr(self, name)) for name in SETTINGS}, "seed": seed},
            settings={str(name): _setting(value) for name, value in options.items()},
        )

    def _ready(self, plan: Plan, codec: Any, model: Any, facts: Any, config: Any) -> "ConcreteScoreEstimator":
        self._plan, self.codec_, self.model_, self._facts, self._config = plan, codec, model, facts, config
        self._answers = Model.of(deepcopy(model), codec, seed=plan.settings.seed, facts=facts)
        self.fitted_ = self._answers.fitted
        return self

    @property
    def _model(self) -> Model:
        check_is_fitted(self)
        return self._answers

    def _given(self, X: Any, filling: bool = False) -> Any:
        """A table for the fitted model: columns are found by name, or by place where either side has no names."""
        check_is_fitted(self)
        frame = self._frame(X)
        if not (frame.named and self.codec_.named) and not isinstance(X, Frame):
            validate_data(self, X, reset=False, skip_check_array=True)
        missing = "refuse" if self.missing == "refuse" and not filling else None
        try:
            return self._model.read(frame, missing=missing, unknown=self.unknown, filling=filling)
        except InputError as error:
            # The parameter `missing` is that of the training: here it would not help.
            fixes = error.fix if isinstance(error.fix, list) else [error.fix]
            fixes = ["drop those rows" if fix == Option("missing", "drop") else fix for fix in fixes]
            raise InputError(error.expected, error.came, error.where, fixes) from None

    def _frame(self, X: Any, rows: int = 1, columns: int = 1, where: str = "X") -> Frame:
        """A table, checked in scikit-learn's words.

        Raises:
            ValueError: not two axes, too few rows or columns, complex numbers, or infinity.
            TypeError: a sparse matrix.
        """
        import narwhals as nw

        table = nw.from_native(X, pass_through=True)
        if not isinstance(X, Frame) and not isinstance(table, nw.DataFrame | nw.LazyFrame):
            sizes = {"ensure_min_samples": rows, "ensure_min_features": columns}
            X = check_array(X, dtype=None, ensure_all_finite=False, estimator=self, input_name=where, **sizes)
        frame = as_frame(X, where)
        for series in frame.table:
            if series.dtype.is_float() and series.is_infinite().any():
                row = int(series.is_infinite().arg_max() or 0)
                raise InputError("finite numbers", "infinity", where=f"{where}: row {row}, column {series.name!r}")
        return frame

    def _note_columns(self, names: tuple[str, ...], named: bool) -> None:
        self.n_features_in_ = len(names)
        if named:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_


def _parameters_of(recipe: Recipe, settings: TrainingSettings) -> dict[str, Any]:
    """The estimator's parameters that give this recipe and these settings.

    >>> from concrete_score.training.choice import TRAINING
    >>> _parameters_of(Recipe(model_options={"hidden": 8}), TrainingSettings.of({**TRAINING, "seed": 3}))["options"]
    {'model.hidden': 8}
    """
    values = settings.to_json()
    usual = {**TrainingSettings().to_json(), **choose({}, {}).training}
    options = {f"model.{name}": value for name, value in recipe.model_options.items()}
    options |= {f"objective.{name}": value for name, value in recipe.objective_options.items()}
    options |= {f"noise.{name}": value for name, value in recipe.noise_options.items()}
    options |= {} if recipe.noise is None else {"noise": recipe.noise}
    options |= {key: value for key, value in values.items() if key not in (*SETTINGS, "seed") and value != usual[key]}
    return {
        **{name: getattr(recipe, name) for name in PIECES},
        **{name: values[name] for name in SETTINGS},
        "options": options or None,
        "random_state": settings.seed,
    }


def _setting(value: Any) -> Any:
    """A setting as JSON can keep it."""
    try:
        json.dumps(_plain(value))
    except (TypeError, ValueError) as error:
        raise InputError("plain numbers, texts or lists", str(error), Option("set")) from None
    return _plain(value)


def _plain(value: Any) -> Any:
    """A number of NumPy's as Python's own."""
    return value.item() if isinstance(value, np.generic) else value
