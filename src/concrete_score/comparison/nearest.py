"""The distance to the closest record: are synthetic rows nearer to the rows that were learned from than to others?

Every synthetic row has a nearest row among the real and the held-out ones together (rows that tie share it evenly). If
the synthetic table knows no more of the real rows than of the held-out ones, which is which might have been decided
at random afterwards: a real row is nearest with probability ``n_real / (n_real + n_holdout)``, and the variance over
such decisions is known exactly from how many synthetic rows each row is nearest to. The same holds for the closest
twentieth of the synthetic rows alone, where near copies would gather.

Distance: a column counts 1 where categories differ or one of both is blank, and the difference of the two ranks, as
shares of all ranks, where both are numbers or dates; columns are averaged.
"""

from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from concrete_score.comparison.copies import TESTS
from concrete_score.comparison.findings import LEVEL, Finding, Part, Task, percent, probability
from concrete_score.comparison.tables import HOLDOUT, REAL, SYNTHETIC, Column
from concrete_score.data.frame import Array
from concrete_score.errors import Option

POOL = 100_000
"""The most real and held-out rows together."""
WORK = 4e9
"""Comparisons of two cells: as many synthetic rows are drawn as this allows, but at least `LEAST`."""
LEAST, MOST = 500, 20_000
CLOSEST = 0.05
"""The share of synthetic rows that is looked at once more."""
_BLOCK = 2**22
_TIE = 1e-9


def nearest(task: Task) -> Part:
    """The share of synthetic rows whose nearest row is real, of all of them and of the closest ones."""
    tables = task.tables
    if not tables.has_holdout:
        text = "Whether synthetic rows are nearer to real rows than to others shows only beside held-out rows: give "
        return Part({"nearest": None}, (Finding("nearest", (text, Option("holdout"), ".")),))
    real, held = _pool(task)
    rows = _rows(task, len(real) + len(held))
    pool, asked = _coordinates(tables.columns, [(REAL, real), (HOLDOUT, held)], (SYNTHETIC, rows))
    everywhere = _closest(asked, pool, len(real), task)
    low = everywhere.distance.min(1)
    near = low <= np.quantile(low, CLOSEST) + _TIE
    closest = _closest((asked[0][near], asked[1][near]), pool, len(real), task)
    found: dict[str, Any] = {"chance": len(real) / (len(real) + len(held)), "rows": len(rows)}
    found |= {"all": everywhere.judged(len(real)), "closest": closest.judged(len(real))}
    found["distance"] = dict(zip(("real", "holdout"), np.median(everywhere.distance, 0).tolist(), strict=True))
    findings = tuple(Finding("nearest", _sentence(found, name), found[name]["flagged"]) for name in ("all", "closest"))
    return Part({"nearest": found}, findings)


def _pool(task: Task) -> tuple[Array, Array]:
    """The real and held-out rows that are looked at; of too many the same share of each."""
    n, m = task.tables.rows[REAL], task.tables.rows[HOLDOUT]
    kept = min(1.0, POOL / (n + m))
    one, other = (
        task.draw(table, max(1, int(kept * rows)), f"pool {table}") for table, rows in ((REAL, n), (HOLDOUT, m))
    )
    return one, other


def _rows(task: Task, pool: int) -> Array:
    allowed = int(WORK / pool / len(task.tables.columns))
    return task.draw(SYNTHETIC, min(MOST, max(LEAST, allowed)), "nearest")


def _coordinates(
    columns: tuple[Column, ...], pool: list[tuple[int, Array]], asked: tuple[int, Array]
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Of the pooled rows, and of those asked about: coordinates whose absolute differences add up, and codes."""
    ranks: list[list[Array]] = [[], []]
    codes: list[list[Array]] = [[], []]
    for column in columns:
        parts = np.concatenate([column.cells[table][at] for table, at in pool]), column.cells[asked[0]][asked[1]]
        for k, cells in enumerate(parts):
            if column.ordered:
                ranks[k] += _ranks(cells, parts[0], any(np.isnan(part).any() for part in parts))
            else:
                codes[k].append(cells.astype(float))
    sizes = sum(len(at) for _, at in pool), len(asked[1])
    one, other = ((_stacked(ranks[k], n), _stacked(codes[k], n)) for k, n in enumerate(sizes))
    return one, other


def _ranks(cells: Array, pool: Array, blanks: bool) -> list[Array]:
    """Mid-ranks of numbers within the pool, as shares; where there are blanks ``v`` is ``(v/2, (1 - v)/2)`` and a blank
    ``(3/4, 3/4)``: 1 away from every number, while two numbers stay ``|v - w|`` apart."""
    known = np.sort(pool[~np.isnan(pool)])
    left, right = (np.searchsorted(known, cells, end) for end in ("left", "right"))
    rank = (left + right) / (2 * max(1, len(known)))
    if not blanks:
        return [rank]
    return [np.where(np.isnan(cells), 0.75, half) for half in (rank / 2, (1 - rank) / 2)]


def _stacked(columns: list[Array], rows: int) -> Array:
    return np.stack(columns, 1) if columns else np.zeros((rows, 0))


class _Nearest(NamedTuple):
    """Of N synthetic rows: the distances to the nearest real and held-out row ``(N, 2)``, which share of the nearest
    rows is real ``(N,)``, and how often each pooled row is nearest ``(P,)``, ties divided among all rows that tie."""

    distance: Array
    real: Array
    counts: Array

    def judged(self, real: int) -> dict[str, Any]:
        """The share that is nearest to a real row, its error if rows had been dealt out at random, and whether it is
        more than chance."""
        chance, share = real / len(self.counts), float(self.real.mean())
        stderr = dealing_error(self.counts, real) / len(self.real)
        p_value = 1 - NormalDist().cdf((share - chance) / stderr) if stderr > 0 else 1.0
        return {"share": share, "stderr": stderr, "p_value": p_value, "flagged": bool(p_value < LEVEL / TESTS)}


def _closest(asked: tuple[Array, Array], pool: tuple[Array, Array], real: int, task: Task) -> _Nearest:
    """The nearest rows of the pool, whose first ``real`` rows are real, a block at a time."""
    from scipy.spatial.distance import cdist

    size, rows = len(pool[0]), len(asked[0])
    step = max(1, _BLOCK // size)
    distance, share, counts = np.empty((rows, 2)), np.empty(rows), np.zeros(size)
    for start in range(0, rows, step):
        task.report(start, rows, "looking for nearest rows")
        part = slice(start, start + step)
        apart = np.zeros((len(asked[0][part]), size))
        if asked[0].shape[1]:
            apart += cdist(asked[0][part], pool[0], "cityblock")
        if asked[1].shape[1]:
            apart += cdist(asked[1][part], pool[1], "hamming") * asked[1].shape[1]
        low = np.stack([apart[:, :real].min(1), apart[:, real:].min(1)], 1)
        tied = (apart <= low.min(1, keepdims=True) + _TIE).astype(np.float32)
        each = 1 / tied.sum(1)
        distance[part] = low / len(task.tables.columns)
        share[part] = tied[:, :real].sum(1) * each
        counts += each @ tied
    return _Nearest(distance, share, counts)


def dealing_error(counts: Array, real: int) -> float:
    """The standard deviation of ``Σ counts`` over ``real`` of the N places, drawn without replacement.

    >>> round(dealing_error(np.array([2.0, 0.0, 1.0]), 1), 6)  # 2, 0 or 1
    0.816497
    """
    total = len(counts)
    variance = ((counts - counts.mean()) ** 2).sum() * real * (total - real) / (total * max(1, total - 1))
    return float(np.sqrt(variance))


def _sentence(found: dict[str, Any], name: str) -> str:
    values = found[name]
    rows = "the synthetic rows" if name == "all" else f"the closest {percent(CLOSEST, 0)} of the synthetic rows"
    verdict = "more than chance" if values["flagged"] else "no more than chance"
    return (
        f"Of {rows}, {percent(values['share'], 1)} ± {percent(values['stderr'], 1)} are nearest to a real row, where"
        f" {percent(found['chance'], 1)} would be by chance: {verdict} ({probability(values['p_value'])})."
    )
