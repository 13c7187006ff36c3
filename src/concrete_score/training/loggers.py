"""Loggers: a training's numbers for TensorBoard, MLflow, Weights & Biases, or any object with the same three methods.

A logger is called with plain numbers and texts, and knows nothing of models or events. One that fails ends its own
logging with a warning, never the training. None of the services is imported before its logger begins.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from concrete_score import registry
from concrete_score.errors import InputError, Option, Text
from concrete_score.files import short
from concrete_score.training.events import Event, Finished, Progress, Show, Validated

PROJECT = "concrete-score"
"""The experiment or project that runs are filed under, where the service's own settings name none."""
TAG = "concrete_score.run"
"""Carries a run's id at MLflow, so that a resumed training continues its curves."""


@dataclass(frozen=True)
class About:
    """What a logger is told of a training before the first step."""

    name: str
    """What the training is called: the run directory's name."""
    id: str = ""
    """The run's own id, the same when it is resumed; empty without a run directory."""
    folder: Path | None = None
    """The run directory, where there is one."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Every setting as ``part.name`` and its value."""


@runtime_checkable
class Logger(Protocol):
    """Receives a training's numbers as it goes."""

    def begin(self, about: About) -> None:
        """Called once, before the first step.

        Raises:
            InputError: what it needs is not installed or cannot be reached.
        """
        ...

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Called with ``loss`` and ``rate``, or with ``validation``, whenever there are new ones."""
        ...

    def end(self, why: str, values: Mapping[str, float]) -> None:
        """Called once, with why the training ended (`events.Finished.why`), ``best_step`` and ``best_validation``.

        ``why`` is ``failed`` where it did not end by itself.
        """
        ...


class TensorBoard:
    """Scalars in files that ``tensorboard --logdir`` reads.

    Args:
        folder: where; by default ``RUN/tensorboard``, or without a run directory what TensorBoard itself chooses.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = folder
        self._writer: Any = None

    def begin(self, about: About) -> None:
        build: Any = _needed("torch.utils.tensorboard", "TensorBoard", "tensorboard").SummaryWriter
        own = None if about.folder is None else about.folder / "tensorboard"
        folder = self.folder or own
        self._writer = build(None if folder is None else str(folder))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        if "validation" in values:
            self._writer.flush()

    def end(self, why: str, values: Mapping[str, float]) -> None:
        self._writer.close()


class MLflow:
    """Metrics and parameters of an MLflow run; where to is MLflow's own choice (``MLFLOW_TRACKING_URI``).

    A resumed training continues the MLflow run that carries its id.

    Args:
        experiment: filed under this name; by default ``MLFLOW_EXPERIMENT_NAME``, else ``concrete-score``.
        uri: of the tracking server or store; by default MLflow's own.
    """

    def __init__(self, experiment: str | None = None, uri: str | None = None) -> None:
        self.experiment, self.uri = experiment, uri
        self._client: Any = None
        self._run = ""

    def begin(self, about: About) -> None:
        from os import environ

        tracking = _needed("mlflow.tracking", "MLflow", "mlflow")
        name = self.experiment or environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT
        try:
            self._client = tracking.MlflowClient(tracking_uri=self.uri)
            found = self._client.get_experiment_by_name(name)
            experiment = self._client.create_experiment(name) if found is None else found.experiment_id
            self._run = self._begun_before(experiment, about) or self._begin(experiment, about)
        except Exception as error:  # whatever its store, server or network raises
            fix = "set MLFLOW_TRACKING_URI to a server, or see docs/loggers.md for local stores"
            raise InputError("an MLflow store that can be written", short(error), "MLflow", fix) from error

    def _begun_before(self, experiment: str, about: About) -> str:
        if not about.id:
            return ""
        runs = self._client.search_runs([experiment], filter_string=f"tags.`{TAG}` = '{about.id}'", max_results=1)
        if not runs:
            return ""
        found = str(runs[0].info.run_id)
        self._client.update_run(found, status="RUNNING")
        return found

    def _begin(self, experiment: str, about: About) -> str:
        tags = {TAG: about.id} if about.id else {}
        found = str(self._client.create_run(experiment, run_name=about.name, tags=tags).info.run_id)
        for name, value in about.config.items():
            self._client.log_param(found, name, value[:_LONGEST])
        return found

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._client.log_metric(self._run, name, value, step=step)

    def end(self, why: str, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._client.log_metric(self._run, name, value)
        self._client.set_tag(self._run, "concrete_score.ended", why)
        self._client.set_terminated(self._run, status=_STATUS.get(why, "FINISHED"))


class WandB:
    """A run at Weights & Biases, by its own settings (``WANDB_MODE=offline`` keeps it on this machine).

    A resumed training continues the run of its id.

    Args:
        project: filed under this name; by default ``WANDB_PROJECT``, else ``concrete-score``.
        options: of ``wandb.init``.
    """

    def __init__(self, project: str | None = None, **options: Any) -> None:
        self.project, self.options = project, options
        self._run: Any = None

    def begin(self, about: About) -> None:
        from os import environ

        wandb = _needed("wandb", "Weights & Biases", "wandb")
        told: dict[str, Any] = {"id": about.id, "resume": "allow"} if about.id else {}
        told["project"] = self.project or environ.get("WANDB_PROJECT") or PROJECT
        if about.folder is not None:
            told["dir"] = str(about.folder)
        try:
            self._run = wandb.init(name=about.name, config=dict(about.config), **{**told, **self.options})
        except Exception as error:  # whatever its service or network raises
            fix = "log in with 'wandb login', or set WANDB_MODE=offline"
            raise InputError("a run at Weights & Biases", short(error), "wandb", fix) from error

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def end(self, why: str, values: Mapping[str, float]) -> None:
        self._run.summary.update({**values, "ended": why})
        self._run.finish(exit_code=int(why in _STATUS))


_STATUS = {"interrupted": "KILLED", "diverged": "FAILED", "failed": "FAILED"}
"""MLflow's words for endings that are no success."""
_LONGEST = 500
"""Characters of a parameter that MLflow stores at least."""


def find_loggers(wanted: Sequence[Any] | str, where: Text = "loggers") -> list[Logger]:
    """Loggers by their registered names, or as they are; what they need must be installed.

    Raises:
        InputError: no such name, an object that is no logger, or a package that is not there.

    >>> [type(each).__name__ for each in find_loggers(["tensorboard"])]
    ['TensorBoard']
    """
    found: list[Logger] = []
    for each in [wanted] if isinstance(wanted, str) else wanted:
        if isinstance(each, str):
            registry.find("loggers", each, where)
            each = registry.load("loggers", each)()
        if not isinstance(each, Logger):
            expected = "names of `csm list loggers`, or objects with begin, log and end"
            raise InputError(expected, repr(type(each).__name__), where)
        _check_installed(each)
        found.append(each)
    return found


@contextmanager
def logged(loggers: Sequence[Logger], about: About) -> Iterator[Show]:
    """Within it, events go to all loggers; at the end, however it comes, each is told why.

    >>> class Lines:
    ...     def begin(self, about): print("begin", about.name)
    ...     def log(self, step, values): print(step, values)
    ...     def end(self, why, values): print("end:", why)
    >>> with logged([Lines()], About("clinic")) as show:
    ...     show(Progress(20, 1.5, 1e-3, 0.1))
    begin clinic
    20 {'loss': 1.5, 'rate': 0.001}
    end: failed
    """
    for logger in loggers:
        logger.begin(about)
    working = [_Guarded(logger) for logger in loggers]
    why, last = "failed", dict[str, float]()

    def show(event: Event) -> None:
        nonlocal why, last
        if isinstance(event, Finished):
            why, last = event.why, {"best_step": float(event.best_step), "best_validation": event.best}
        elif values := values_of(event):
            for each in working:
                each.call(lambda logger: logger.log(event.step, values))

    try:
        yield show
    finally:
        for each in working:
            each.call(lambda logger: logger.end(why, last))


def values_of(event: Event) -> dict[str, float]:
    """The numbers of an event, by name; most events have none."""
    match event:
        case Progress():
            return {"loss": event.loss, "rate": event.rate}
        case Validated():
            return {"validation": event.value}
    return {}


class _Guarded:
    """A logger that is left alone once it has failed."""

    def __init__(self, logger: Logger) -> None:
        self.logger: Logger | None = logger

    def call(self, what: Callable[[Logger], None]) -> None:
        if self.logger is None:
            return
        try:
            what(self.logger)
        except Exception as error:  # a service's mistake must not cost hours of training
            name = type(self.logger).__name__
            warnings.warn(f"{name} failed and gets no more numbers: {short(error)}", UserWarning, stacklevel=4)
            self.logger = None


_PACKAGES = {
    TensorBoard: ("tensorboard", "TensorBoard", "tensorboard"),
    MLflow: ("mlflow", "MLflow", "mlflow"),
    WandB: ("wandb", "Weights & Biases", "wandb"),
}
"""The module each needs, what it is called, and the extra that installs it."""


def _check_installed(logger: Logger) -> None:
    needed = _PACKAGES.get(type(logger))
    if needed is not None:
        from importlib.util import find_spec

        if find_spec(needed[0]) is None:
            raise _missing(*needed[1:])


def _needed(module: str, called: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise _missing(called, extra) from None


def _missing(called: str, extra: str) -> InputError:
    fix = f"pip install 'concrete-score[{extra}]'"
    return InputError(called, "an installation without it", Option("logger", extra), fix)
