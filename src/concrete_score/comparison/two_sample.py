"""The classifier two-sample test: can gradient-boosted trees tell synthetic rows from real ones, and by which columns?

Trees are trained on four fifths of the rows and asked about the other fifth, five times. Asked rows are fresh, so that
without a difference each fifth's area under the ROC curve is one half on average, however much the trees have adapted.
The fifths are not independent: what a row teaches about its neighbor in another fifth, the neighbor teaches about it.
Without a difference this at most doubles the variance of the mean; the error is that of independent fifths times √2.
"""

from statistics import NormalDist
from typing import Any

import numpy as np

from concrete_score.comparison.classifier import auc, features, trees
from concrete_score.comparison.findings import Finding, Part, Task, listed
from concrete_score.comparison.tables import REAL, SYNTHETIC
from concrete_score.data.frame import Array

ROWS = 20_000
"""The most rows of each table that are looked at."""
FOLDS = 5
LEAST = 10 * FOLDS
"""The fewest rows of each table that can be judged."""
SHUFFLED_ROWS, SHUFFLES = 4_000, 200
"""Rows of a fifth in which columns are shuffled, and about how often: of many columns in fewer fifths."""
CELLS = 2**21
"""Of rows with a shuffled column that the trees are asked about together: asking costs more than a row does."""
NAMED, TELLS = 3, 0.005
"""Columns that give it away which the sentence names, and the least that the area falls without them."""
_Z = NormalDist().inv_cdf(0.995)
"""How many errors from one half an area is flagged: honest tables once in a hundred times, at either end."""


def two_sample(task: Task) -> Part:
    """The area under the ROC curve, averaged over the fifths, with the columns whose shuffling lowers it most."""
    tables = task.tables
    if min(tables.rows[:2]) < LEAST:
        text = f"Whether a classifier tells the tables apart cannot be judged with fewer than {LEAST} rows in one."
        return Part({"two_sample": None}, (Finding("two_sample", text),))
    rows = [(table, task.draw(table, ROWS, f"two_sample {table}")) for table in (REAL, SYNTHETIC)]
    areas, drops = _cross_fit(task, features(tables.columns, rows), np.repeat([0, 1], [len(at) for _, at in rows]))
    value = float(np.mean([area for area, _ in areas]))
    stderr = float(np.sqrt(2 * sum(error**2 for _, error in areas))) / FOLDS
    columns = _telling(tables.names, drops)
    flagged = bool(abs(value - 0.5) > _Z * stderr)
    found = {"auc": value, "stderr": stderr, "rows": [len(at) for _, at in rows], "flagged": flagged}
    text = _sentence(value, stderr, flagged, columns)
    return Part({"two_sample": {**found, "columns": columns}}, (Finding("two_sample", text, flagged),))


def _cross_fit(task: Task, x: Array, made: Array) -> tuple[list[tuple[float, float]], Array]:
    """Of each fifth the area with its error; and of some fifths by how much shuffling each column lowers it."""
    random = task.random("two_sample")
    fold = np.empty(len(made), dtype=int)
    for label in (0, 1):
        fold[made == label] = random.permutation(int((made == label).sum())) % FOLDS
    shuffled = max(1, min(FOLDS, SHUFFLES // x.shape[1]))
    areas, drops = [], []
    for k in range(FOLDS):
        task.report(k, FOLDS, "telling the tables apart")
        model = trees(task.tables.columns, random, stop=True).fit(x[fold != k], made[fold != k])
        asked = np.flatnonzero(fold == k)
        areas.append(_area(model, x[asked], made[asked]))
        if k < shuffled:
            some = random.permutation(asked)[:SHUFFLED_ROWS]
            drops.append(_drops(model, x[some], made[some], random))
    return areas, np.array(drops)


def _area(model: Any, x: Array, made: Array) -> tuple[float, float]:
    scores = model.decision_function(x)
    return auc(scores[made == 1], scores[made == 0])


def _drops(model: Any, x: Array, made: Array, random: np.random.Generator) -> Array:
    """How much lower the area is with each column shuffled ``(D,)``."""
    whole, found = _area(model, x, made)[0], []
    together = max(1, CELLS // x.size)
    for first in range(0, x.shape[1], together):
        columns = range(first, min(first + together, x.shape[1]))
        torn = np.tile(x, (len(columns), 1, 1))
        for copy, d in zip(torn, columns, strict=True):
            copy[:, d] = random.permutation(copy[:, d])
        scores = model.decision_function(torn.reshape(-1, x.shape[1])).reshape(len(columns), -1)
        found += [whole - auc(each[made == 1], each[made == 0])[0] for each in scores]
    return np.array(found)


def _telling(names: tuple[str, ...], drops: Array) -> list[dict[str, Any]]:
    """The columns by falling mean drop ``(F, D)``, its error from the spread over fifths where there are several."""
    drop = drops.mean(0)
    stderr = drops.std(0, ddof=1) / np.sqrt(len(drops)) if len(drops) > 1 else np.full(len(drop), np.nan)
    order = np.argsort(-drop, kind="stable")
    return [{"name": names[d], "drop": float(drop[d]), "stderr": float(stderr[d])} for d in order]


def _sentence(value: float, stderr: float, flagged: bool, columns: list[dict[str, Any]]) -> str:
    lead = f"Gradient-boosted trees tell synthetic rows from real ones with AUC {value:.3f} ± {stderr:.3f}"
    if not flagged:
        return f"{lead}; 0.5 is chance."
    if value < 0.5:
        return f"{lead}, below the 0.5 of chance: rows that stand in both tables mislead them, a sign of copies."
    told = [column for column in columns if column["drop"] > TELLS][:NAMED]
    by = listed([f"{column['name']!r} (it falls by {column['drop']:.3f} without it)" for column in told])
    return f"{lead}; 0.5 is chance. {f'Most by {by}.' if told else 'No single column gives it away.'}"
