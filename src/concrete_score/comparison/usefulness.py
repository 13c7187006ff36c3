"""Train on synthetic, test on real: do rows of the synthetic table teach a prediction as well as real ones?"""

from typing import Any, NamedTuple

import numpy as np

from concrete_score.comparison.classifier import auc, features, trees
from concrete_score.comparison.findings import Finding, Part, Task
from concrete_score.comparison.tables import HOLDOUT, REAL, SYNTHETIC, Column
from concrete_score.data.frame import Array
from concrete_score.errors import InputError, Option

ROWS = 50_000
"""The most rows of each table that are learned from or asked about."""
RESAMPLES = 200
CLASSES = 50
"""The most values of a target that is not a number."""


class _Measure(NamedTuple):
    """How good predictions are: a name, and a function of truths and predictions; higher is better."""

    name: str
    value: Any


def _auc(truth: Array, score: Array) -> float:
    return auc(score[truth == 1], score[truth == 0])[0] if 0 < truth.sum() < len(truth) else float("nan")


def _accuracy(truth: Array, score: Array) -> float:
    return float((truth == score).mean())


def _r2(truth: Array, score: Array) -> float:
    spread = ((truth - truth.mean()) ** 2).sum()
    return float(1 - ((truth - score) ** 2).sum() / spread) if spread > 0 else float("nan")


AUC, ACCURACY, R2 = _Measure("auc", _auc), _Measure("accuracy", _accuracy), _Measure("r2", _r2)


def usefulness(task: Task) -> Part:
    """Held-out rows predicted from real and from synthetic rows, and the difference with its error over held-out rows.

    Raises:
        InputError: no such column, one that cannot be a target, or no held-out rows to ask about.
    """
    if task.target is None:
        return Part({"usefulness": None}, ())
    tables = task.tables
    target = tables[task.target]
    others = tuple(column for column in tables.columns if column is not target)
    if not tables.has_holdout:
        raise InputError("held-out rows to predict", "none", Option("target"), Option("holdout"))
    if not others:
        raise InputError("another column to predict the target from", "none", Option("target"))
    measure = _measure(target)
    known = {table: np.flatnonzero(~target.blank(table)) for table in (REAL, SYNTHETIC, HOLDOUT)}
    chosen = {table: _draw(rows, task, f"target {table}") for table, rows in known.items()}
    if any(not len(rows) for rows in chosen.values()):
        raise InputError("a target with values in every table", "blank cells alone", Option("target", target.name))
    truth = target.cells[HOLDOUT][chosen[HOLDOUT]]
    asked = features(others, [(HOLDOUT, chosen[HOLDOUT])])
    guesses = []
    for table in (REAL, SYNTHETIC):
        task.report(table, 2, f"predicting {target.name}")
        x = features(others, [(table, chosen[table])])
        guesses.append(_predict(x, target.cells[table][chosen[table]], asked, others, measure, task))
    values = [measure.value(truth, guess) for guess in guesses]
    stderr = _stderr(truth, guesses, measure, task)
    found: dict[str, Any] = {"target": target.name, "metric": measure.name, "real": values[0], "synthetic": values[1]}
    found |= {"difference": values[1] - values[0], "stderr": stderr}
    found["rows"] = [len(chosen[table]) for table in (REAL, SYNTHETIC, HOLDOUT)]
    return Part({"usefulness": found}, (Finding("usefulness", _sentence(found)),))


def _measure(target: Column) -> _Measure:
    if target.ordered:
        return R2
    if not 2 <= len(target.labels) <= CLASSES:
        expected = f"a target of numbers, or of 2 to {CLASSES} categories"
        raise InputError(expected, f"{len(target.labels)}", Option("target", target.name), "choose another column")
    return AUC if len(target.labels) == 2 else ACCURACY


def _draw(rows: Array, task: Task, stream: str) -> Array:
    return rows if len(rows) <= ROWS else np.sort(task.random(stream).choice(rows, ROWS, replace=False))


def _predict(x: Array, y: Array, asked: Array, columns: tuple[Column, ...], measure: _Measure, task: Task) -> Array:
    """What trees trained on ``x, y`` say of the asked rows: a score, a class or a number ``(M,)``."""
    if (y == y[0]).all():
        # One value alone teaches nothing but itself.
        return np.full(len(asked), float(y[0]))
    model = trees(columns, task.random("usefulness"), regression=measure is R2).fit(x, y)
    guess: Array = model.decision_function(asked) if measure is AUC else model.predict(asked)
    return guess


def _stderr(truth: Array, guesses: list[Array], measure: _Measure, task: Task) -> float:
    """The standard error of the difference over held-out rows drawn again, the same for both."""
    random = task.random("usefulness errors")
    again = []
    for _ in range(RESAMPLES):
        at = random.integers(len(truth), size=len(truth))
        again.append(measure.value(truth[at], guesses[1][at]) - measure.value(truth[at], guesses[0][at]))
    return float(np.nanstd(again, ddof=1))


def _sentence(found: dict[str, Any]) -> str:
    name = {"auc": "AUC", "accuracy": "accuracy", "r2": "R²"}[found["metric"]]
    real, synthetic, held = found["rows"]
    return (
        f"{found['target']!r} of {held:,} held-out rows is predicted with {name} {found['synthetic']:.4f} from"
        f" {synthetic:,} synthetic rows and with {found['real']:.4f} from {real:,} real ones: a difference of"
        f" {found['difference']:+.4f} ± {found['stderr']:.4f}."
    )
