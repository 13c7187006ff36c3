"""How much the columns and pairs of two tables differ on average, with the error of that, and what equal laws show."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from concrete_score.comparison.findings import Finding, Part, Task, listed, percent
from concrete_score.comparison.similarity import RELATED_CATEGORIES, RELATED_NUMBERS, Scores, Similarity, mean
from concrete_score.comparison.tables import REAL, SYNTHETIC, Tables
from concrete_score.data.frame import Array

RESAMPLES, EXCHANGES = 20, 10
"""How often rows are drawn again for errors, and how often they change tables for what equal laws would show."""
PAIRS, SAMPLED_PAIRS = 20_000, 200
"""The most pairs that are scored, and those whose mean the errors are found of."""
WORST = 5
"""Columns and pairs named."""


def resemblance(task: Task) -> Part:
    """Shape and trend, as `similarity` defines them, of every column and pair."""
    tables = task.tables
    found = Similarity(tables, _some(list(combinations(range(len(tables.columns)), 2)), PAIRS, task))
    scores = found.scores(*found.equal)
    related = _related(found)
    stderr, same = _errors(Similarity(tables, _some(found.pairs, SAMPLED_PAIRS, task)), task)
    shape_error, trend_error = scores.errors().tolist()
    columns = [
        {
            "name": column.name,
            "kind": column.kind,
            "metric": found.metric(d),
            "score": float(scores.shape[d]),
            "blank_real": float(column.blank(REAL).mean()),
            "blank_synthetic": float(column.blank(SYNTHETIC).mean()),
        }
        for d, column in enumerate(tables.columns)
    ]
    pairs = _pairs(found, scores, related)
    strong = np.array([pair["related"] for pair in pairs], dtype=bool)
    shape = {"score": 1 - shape_error, "error": shape_error, "stderr": stderr[0], "same_law": same[0]}
    trend = {"score": 1 - trend_error, "error": trend_error, "stderr": stderr[1], "same_law": same[1]}
    trend |= {"pairs": len(pairs), "related_pairs": int(strong.sum()), "related_score": mean(scores.trend[strong])}
    values = {"shape": {**shape, "columns": columns}, "trend": {**trend, "of_pairs": pairs}}
    return Part(values, _sentences(values, tables.names))


def _some(pairs: list[tuple[int, int]], most: int, task: Task) -> list[tuple[int, int]]:
    if len(pairs) <= most:
        return pairs
    kept = task.random("pairs").choice(len(pairs), most, replace=False)
    return [pairs[at] for at in np.sort(kept)]


def _errors(found: Similarity, task: Task) -> tuple[list[float], list[float]]:
    """Of both mean errors: the standard error, and the mean where rows of either table are dealt out anew."""
    random, rows = task.random("resemblance"), found.rows
    again, dealt = [], []
    for turn in range(RESAMPLES + EXCHANGES):
        task.report(turn, RESAMPLES + EXCHANGES, "comparing columns")
        if turn < RESAMPLES:
            real, synthetic = (np.bincount(random.integers(n, size=n), minlength=n) for n in rows)
            weights = np.append(real, np.zeros(rows[1])), np.append(np.zeros(rows[0]), synthetic)
            again.append(found.scores(*weights).errors())
        else:
            # Ranges are cut anew: that each table cuts its own is part of the difference.
            anew = Similarity(_dealt(task.tables, random.permutation(sum(rows))), found.pairs)
            dealt.append(anew.scores(*anew.equal).errors())
    return np.std(again, axis=0, ddof=1).tolist(), np.mean(dealt, axis=0).tolist()


def _dealt(tables: Tables, order: Array) -> Tables:
    """Real and synthetic rows in another order, as two tables of the same sizes."""
    columns = []
    for column in tables.columns:
        cells = np.concatenate([column.cells[REAL], column.cells[SYNTHETIC]])[order]
        columns.append(replace(column, cells=tuple(np.split(cells, [tables.rows[REAL]]))))
    return replace(tables, columns=tuple(columns), rows=tables.rows[:2])


def _related(found: Similarity) -> list[tuple[float, float, bool]]:
    """Of every pair the real table's correlation or Cramér's V, the synthetic one's correlation, and whether the real
    one passes the threshold of SDMetrics' report."""
    real, synthetic = (found.correlations(weights) for weights in found.equal)
    lines = []
    for i, j in found.pairs:
        at = found.places(i, j)
        one, other = (real[at], synthetic[at]) if at else (found.association(i, j), np.nan)
        limit = RELATED_NUMBERS if at else RELATED_CATEGORIES
        lines.append((float(one), float(other), bool(abs(one) > limit)))
    return lines


def _pairs(found: Similarity, scores: Scores, related: Sequence[tuple[float, float, bool]]) -> list[dict[str, Any]]:
    names = [column.name for column in found.columns]
    return [
        {
            "columns": [names[i], names[j]],
            "metric": found.metric(i, j),
            "score": float(score),
            "real": one,
            "synthetic": other,
            "related": strong,
        }
        for (i, j), score, (one, other, strong) in zip(found.pairs, scores.trend, related, strict=True)
    ]


def _sentences(values: dict[str, Any], names: Sequence[str]) -> tuple[Finding, ...]:
    shape, trend = values["shape"], values["trend"]
    columns = _worst([(f"{c['name']!r}", 1 - c["score"]) for c in shape["columns"]])
    first = (
        f"Columns differ in shape by {_error(shape)} on average; two tables of one law and these sizes differ by"
        f" {percent(shape['same_law'])}. Most: {columns}."
    )
    found = [Finding("shape", first)]
    if trend["pairs"]:
        pairs = _worst([(f"{p['columns'][0]!r} with {p['columns'][1]!r}", 1 - p["score"]) for p in trend["of_pairs"]])
        second = (
            f"Pairs of columns differ in trend by {_error(trend)} on average{_drawn(trend, len(names))};"
            f" two tables of one law by {percent(trend['same_law'])}. Most: {pairs}."
        )
        found.append(Finding("trend", second))
    return tuple(found)


def _drawn(trend: dict[str, Any], columns: int) -> str:
    every = columns * (columns - 1) // 2
    return f" ({trend['pairs']:,} of {every:,} pairs, drawn)" if trend["pairs"] < every else ""


def _error(values: dict[str, Any]) -> str:
    return f"{percent(values['error'])} ± {percent(values['stderr'])}"


def _worst(errors: list[tuple[str, float]]) -> str:
    known = sorted(((error, name) for name, error in errors if error == error), reverse=True)[:WORST]
    return listed([f"{name} {percent(error)}" for error, name in known]) or "none can be compared"
