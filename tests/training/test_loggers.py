"""Loggers: what each service is told, by its own local backend or a fake that records the calls; and that none of
them can end a training."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from concrete_score import ConcreteScoreEstimator, registry
from concrete_score.errors import InputError
from concrete_score.training import Finished, Progress, Validated
from concrete_score.training.loggers import About, Logger, MLflow, TensorBoard, WandB, find_loggers, logged

EVENTS = [
    Progress(20, 2.5, 1e-3, 0.1),
    Validated(20, -6.5, 20, -6.5),
    Progress(40, 2.25, 5e-4, 0.2),
    Finished(40, "steps", 20, -6.5, 0.3),
]
LOGGED = [(20, {"loss": 2.5, "rate": 1e-3}), (20, {"validation": -6.5}), (40, {"loss": 2.25, "rate": 5e-4})]
BEST = {"best_step": 20.0, "best_validation": -6.5}


class Recorder:
    def __init__(self, fails=()):
        self.begun, self.lines, self.ended, self.fails = None, [], None, fails

    def begin(self, about):
        self.begun = about

    def log(self, step, values):
        if step in self.fails:
            raise ConnectionError("the server\nwent away")
        self.lines.append((step, dict(values)))

    def end(self, why, values):
        self.ended = (why, dict(values))


def play(*loggers, about=None, events=EVENTS):
    with logged(loggers, about or About("clinic", "abc", config={"training.lr": "0.002"})) as show:
        for event in events:
            show(event)


def test_a_logger_gets_every_number_and_how_it_ended():
    logger = Recorder()
    play(logger)
    assert logger.begun.name == "clinic"
    assert (logger.lines, logger.ended) == (LOGGED, ("steps", BEST))


def test_a_training_that_raises_is_told_as_failed():
    logger = Recorder()

    def fail():
        with logged([logger], About("clinic")) as show:
            show(EVENTS[0])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert logger.ended == ("failed", {})


def test_a_logger_that_fails_is_left_alone_and_the_others_go_on():
    broken, whole = Recorder(fails=(20,)), Recorder()
    with pytest.warns(UserWarning, match=r"Recorder failed and gets no more numbers: .*the server"):
        play(broken, whole)
    assert (broken.lines, broken.ended) == ([], None)
    assert (whole.lines, whole.ended) == (LOGGED, ("steps", BEST))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_reads_back_what_was_logged(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    play(TensorBoard(), about=About("clinic", folder=tmp_path))
    read = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    read.Reload()
    assert [(each.step, each.value) for each in read.Scalars("loss")] == [(20, 2.5), (40, 2.25)]
    assert [(each.step, each.value) for each in read.Scalars("validation")] == [(20, -6.5)]


@pytest.fixture
def mlflow_store(tmp_path, monkeypatch):
    """A folder that MLflow keeps its runs in, and a client that reads it."""
    tracking = pytest.importorskip("mlflow.tracking", reason="pip install 'concrete-score[mlflow]'")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    return tracking.MlflowClient()


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_mlflow_stores_curves_settings_and_status(mlflow_store):
    play(MLflow())
    experiment = mlflow_store.get_experiment_by_name("concrete-score")
    (stored,) = mlflow_store.search_runs([experiment.experiment_id])
    history = mlflow_store.get_metric_history(stored.info.run_id, "loss")
    assert [(each.step, each.value) for each in history] == [(20, 2.5), (40, 2.25)]
    assert stored.data.params == {"training.lr": "0.002"}
    assert stored.data.metrics["best_validation"] == -6.5
    assert (stored.info.run_name, stored.info.status) == ("clinic", "FINISHED")


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_mlflow_continues_the_run_of_a_resumed_training(mlflow_store):
    stopped = Finished(20, "interrupted", 20, -6.5, 0.3)
    play(MLflow(), events=[EVENTS[0], stopped])
    experiment = mlflow_store.get_experiment_by_name("concrete-score")
    assert [each.info.status for each in mlflow_store.search_runs([experiment.experiment_id])] == ["KILLED"]
    play(MLflow(), events=[EVENTS[2], EVENTS[3]])
    play(MLflow(), about=About("other", "def"))
    runs = {each.info.run_name: each for each in mlflow_store.search_runs([experiment.experiment_id])}
    assert set(runs) == {"clinic", "other"}
    history = mlflow_store.get_metric_history(runs["clinic"].info.run_id, "loss")
    assert [each.step for each in history] == [20, 40]
    assert runs["clinic"].info.status == "FINISHED"


def test_mlflow_without_a_store_is_one_line(monkeypatch):
    def client(tracking_uri):
        raise OSError("no route\nto host")

    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace(__spec__=None))
    monkeypatch.setitem(sys.modules, "mlflow.tracking", SimpleNamespace(MlflowClient=client))
    with pytest.raises(InputError, match="MLFLOW_TRACKING_URI") as refused:
        play(MLflow())
    assert "\n" not in str(refused.value)


class FakeWandB:
    """The part of ``wandb`` that is used: ``init`` gives a run with ``log``, ``summary`` and ``finish``."""

    def __init__(self):
        self.options, self.lines, self.summary, self.code = {}, [], {}, None

    def init(self, **options):
        self.options = options
        return self

    def log(self, values, step):
        self.lines.append((step, values))

    def finish(self, exit_code):
        self.code = exit_code


@pytest.fixture
def wandb(monkeypatch):
    fake = FakeWandB()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    return fake


def test_wandb_gets_the_same_run_again(wandb):
    play(WandB(mode="offline"), about=About("clinic", "abc", Path("runs/clinic"), {"training.lr": "0.002"}))
    assert wandb.options == {
        "name": "clinic",
        "id": "abc",
        "resume": "allow",
        "project": "concrete-score",
        "dir": str(Path("runs/clinic")),
        "config": {"training.lr": "0.002"},
        "mode": "offline",
    }
    assert wandb.lines == LOGGED
    assert (wandb.summary, wandb.code) == ({**BEST, "ended": "steps"}, 0)


def test_wandb_is_told_of_a_failure(wandb):
    play(WandB(), about=About("clinic"), events=[EVENTS[0]])
    assert wandb.code == 1
    assert "id" not in wandb.options


def test_names_lead_to_loggers_and_strangers_are_refused(monkeypatch):
    assert {type(registry.load("loggers", name)()) for name in registry.names("loggers")} == {
        TensorBoard,
        MLflow,
        WandB,
    }
    mine = Recorder()
    assert find_loggers([mine]) == [mine]
    assert [type(each) for each in find_loggers("tensorboard")] == [TensorBoard]
    assert isinstance(mine, Logger)
    with pytest.raises(InputError, match="did you mean 'mlflow'"):
        find_loggers(["mlflo"])
    with pytest.raises(InputError, match="objects with begin, log and end"):
        find_loggers([print])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'concrete-score\[wandb\]'"):
        find_loggers(["wandb"])


def test_the_estimator_logs_too():
    table = np.random.default_rng(0).integers(0, 2, (60, 3))
    logger = Recorder()
    ConcreteScoreEstimator(steps=40, loggers=[logger]).fit(table)
    assert logger.begun.config["recipe.model"] == "made"
    assert logger.ended[0] == "steps"
    assert {name for _, values in logger.lines for name in values} == {"loss", "rate", "validation"}
