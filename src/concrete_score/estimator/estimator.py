"""`ConcreteScoreEstimator`: fit a table of categories, then sample, score, explain and fill it."""

import warnings
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from concrete_score.data import TableCodec
from concrete_score.data.held_out import FRACTION
from concrete_score.data.options import MAX_CATEGORIES
from concrete_score.errors import InputError
from concrete_score.estimator import store, tables
from concrete_score.estimator.answers import as_kind, by_value, changes_table
from concrete_score.estimator.learning import Plan, learn, seed_of
from concrete_score.estimator.preparing import prepare
from concrete_score.estimator.words import in_python
from concrete_score.fitted import Fitted
from concrete_score.likelihood.weights import mean_and_stderr
from concrete_score.protocols import Encoded
from concrete_score.randomness import generator
from concrete_score.training.progress import progress

if TYPE_CHECKING:
    from concrete_score.likelihood import LogLikelihood
    from concrete_score.runs import Run

Numbers = npt.NDArray[np.float64]


class ConcreteScoreEstimator(DensityMixin, BaseEstimator):  # type: ignore[misc]
    """A generative model of a table of categories, in scikit-learn's manners.

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
        bins: columns of numbers to cut into quantile ranges, ``{"age": 10}``; or one count for every column that
            could not be categories otherwise. Without, such columns are refused.
        missing: blank cells (NaN, None, null) in training: ``refuse``, ``drop`` their rows, or make them a
            ``category``.
        max_categories: the most values a column may take.
        valid_fraction: the share of rows held out where `fit` gets no ``valid``.
        random_state: a whole number; names all randomness, also that of `sample` and `impute`.
        device: where to train.
        verbose: whether to show progress on standard error.

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
        missing: Any = "refuse",
        max_categories: Any = MAX_CATEGORIES,
        valid_fraction: Any = FRACTION,
        random_state: Any = 0,
        device: Any = "cpu",
        verbose: Any = False,
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

    def fit(self, X: Any, y: Any = None, valid: Any = None) -> "ConcreteScoreEstimator":
        """Learn a model of the rows of ``X``.

        Args:
            X: a table ``(N, D)`` of categories.
            y: ignored.
            valid: held-out rows that choose the best step; a share of ``X`` where there are none.

        Raises:
            InputError: a table that is not one of categories, or a parameter out of place; all that mends it is named.
        """
        with in_python():
            plan = Plan.of(self.get_params(deep=False))
            data = prepare(self, X, valid, plan.settings.seed)
            plan = plan.fit_to_rows(data.rows, data.codec.space)
            built = plan.build(data.codec.space)
        with progress(plan.settings, quiet=not self.verbose) as show:
            learned = learn(plan, built, data.rows, data.valid, str(self.device), show)
        if learned.ended.message or not learned.ended.usable:
            told = learned.ended.message or "no step improved on the untrained model"
            warnings.warn(told, ConvergenceWarning, stacklevel=2)
        self.n_iter_, self.best_step_, self.history_ = learned.ended.step, learned.ended.best_step, learned.history
        self._facts, self._reading = data.facts, data.reading
        tables.note_columns(self, data.names, data.codec.named)
        return self._ready(plan, data.codec, learned.model)

    def sample(
        self,
        n: int = 1,
        given: Any = None,
        *,
        sampler: str | None = None,
        random_state: int | None = None,
    ) -> Any:
        """``n`` rows drawn from the model, in the kind of the training table.

        Args:
            n: how many.
            given: only rows with these values, ``{"smoke": "yes"}``; columns without names are called by number.
            sampler: a name of ``csm list kernels``; by default what is exact, if anything is.
            random_state: the estimator's own by default, so that two calls give the same rows.

        Raises:
            InputError: no such column or value, or an impossible condition.
        """
        check_is_fitted(self)
        if not isinstance(n, int | np.integer) or n < 1:
            raise InputError("a whole number from 1", repr(n), where="n")
        with in_python():
            where = tables.conditions(self.codec_, given)
            drawn = self.fitted_.sample(int(n), self._generator("sample", random_state), given=where, sampler=sampler)
        _tell(drawn.warnings)
        return tables.given_back(self.codec_.decode(drawn.states), self.codec_.form)

    def score_samples(self, X: Any) -> Numbers:
        """``log q(x)`` of each row in nats ``(N,)``.

        Raises:
            InputError: the model has no exact log-likelihood; `evaluate` bounds its mean.
        """
        return self._log_likelihoods(X, "score_samples").numpy(force=True)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of `score_samples`, the number ``csm evaluate`` calls ``log_likelihood``.

        Raises:
            InputError: the model has no exact log-likelihood; `evaluate` bounds it.
        """
        return mean_and_stderr(self._log_likelihoods(X, "score"))[0]

    def evaluate(self, X: Any, *, random_state: int | None = None) -> "LogLikelihood":
        """The mean log-likelihood with its standard error, exact or between bounds, and how it was found."""
        check_is_fitted(self)
        found = self.fitted_.evaluate(self._states(X).long(), self._generator("evaluate", random_state))
        _tell(found.warnings)
        return found

    def log_ratios(self, X: Any) -> Numbers:
        """``log q(x with one cell changed) - log q(x)`` for every row and change ``(N, Σ sizes)``.

        One column for every value of every column of the table, as `changes_` names them; 0 where the cell has that
        value already.
        """
        check_is_fitted(self)
        states = self._states(X).long()
        found = self.fitted_.log_ratios(states).double()
        return by_value(found, states, self.codec_.space.sizes).numpy(force=True)

    @property
    def changes_(self) -> list[tuple[str, str]]:
        """Column and value of each entry of a row of `log_ratios`."""
        check_is_fitted(self)
        return [(site.name, label) for site in self.codec_.sites for label in site.labels]

    def explain(self, X: Any, top: int = 3) -> Any:
        """The single changes that raise each row's probability most, descending, negative ones included.

        Returns:
            A table ``row, column, from, to, log_ratio`` with ``top`` lines a row, in the kind of ``X``; a structured
            array where ``X`` is an array.
        """
        check_is_fitted(self)
        frame = tables.table(self, X, self.codec_)
        found = self.fitted_.explain(self._encoded(frame).states.long(), top)
        return as_kind(changes_table(found, self.codec_), frame.form)

    def impute(self, X: Any, draws: int | None = None, *, random_state: int | None = None) -> Any:
        """``X`` with its blank cells filled: each by its most probable value given the cells that are there.

        Args:
            X: a table with blanks (NaN, None, null); columns the model does not know pass unchanged.
            draws: that many completed copies instead, drawn: below one another, counted by a first column ``draw``;
                an array is given back as ``(draws, N, D)``.
            random_state: the estimator's own by default.
        """
        check_is_fitted(self)
        frame = tables.table(self, X, self.codec_)
        with in_python():
            rows = self.codec_.encode(frame, missing="keep")
        with in_python():
            found = self.fitted_.impute(
                rows.states.long(), rows.observed, self._generator("impute", random_state), draws=draws
            )
        _tell(found.warnings)
        times = draws or 1
        states, observed = found.states.cpu().reshape(-1, len(self.codec_.sites)), rows.observed.repeat(times, 1)
        filled = tables.completed(tables.copied(frame, times), self.codec_, states, observed)
        return tables.given_back(filled, frame.form, X) if draws is None else tables.counted(filled, times)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write a run directory, which `load` and every ``csm`` command open; nothing in it is pickled.

        Raises:
            InputError: the directory is occupied and not ``force``; or ``model`` or ``objective`` was an object: a run
                holds names alone. Register it, or pickle the estimator.
        """
        check_is_fitted(self)
        with in_python():
            store.save(
                path,
                self._plan,
                self.codec_,
                self.model_,
                best_step=self.best_step_,
                history=self.history_,
                facts=self._facts,
                reading=self._reading,
                force=force,
            )

    @classmethod
    def load(cls, path: "str | Path | Run") -> "ConcreteScoreEstimator":
        """The estimator of a run directory, made by `save` or by ``csm fit``.

        Raises:
            InputError: no run there, a damaged one, or one that is not of a table.
        """
        found = store.read(path)
        self = cls(**found.parameters)
        tables.note_columns(self, found.codec.names, found.codec.named)
        self._facts, self._reading, self.history_ = found.facts, found.reading, found.history
        self.n_iter_, self.best_step_ = found.steps, found.best_step
        return self._ready(found.plan, found.codec, found.model)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = isinstance(self.missing, str) and self.missing != "refuse"
        return tags

    def _ready(self, plan: Plan, codec: TableCodec, model: Any) -> "ConcreteScoreEstimator":
        self._plan, self.codec_, self.model_ = plan, codec, model
        # Answers are computed in double precision: what a row gets does not depend on the rows beside it.
        exact = deepcopy(model).double()
        self.fitted_ = Fitted(exact, codec.space, describe=partial(tables.describe, codec))
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_")

    def _states(self, X: Any) -> Tensor:
        return self._encoded(tables.table(self, X, self.codec_)).states

    def _encoded(self, frame: Any) -> Encoded:
        with in_python():
            return self.codec_.encode(frame)

    def _generator(self, stream: str, random_state: int | None) -> torch.Generator:
        seed = self._plan.settings.seed if random_state is None else seed_of(random_state)
        return generator(seed, stream)

    def _log_likelihoods(self, X: Any, method: str) -> Tensor:
        check_is_fitted(self)
        found = self.fitted_.row_log_likelihoods(self._states(X).long())
        if found is None:
            came = f"{type(self.model_).__name__}, which has none here"
            fix = "use evaluate(X), which bounds it where it can"
            raise InputError("a model with an exact log-likelihood", came, where=method, fix=fix)
        return found.double()


def load(path: "str | Path | Run") -> ConcreteScoreEstimator:
    """The estimator of a run directory, made by ``csm fit`` or by `ConcreteScoreEstimator.save`.

    Raises:
        InputError: no run there, a damaged one, or one that is not of a table.
    """
    return ConcreteScoreEstimator.load(path)


def _tell(messages: tuple[str, ...]) -> None:
    for message in messages:
        warnings.warn(message, UserWarning, stacklevel=3)
