"""Blanks of real tables filled by one model of the whole table, beside a model a column and other imputers.

A fifth of the cells of a table, numbers and categories alike, is blanked completely at random. Every method learns from
that one table, blanks and all, and fills it; only the cells that were blanked are judged: the share of categories that
are right, and of numbers the root mean square error over the column's standard deviation, averaged over columns. A
method's seconds are those of the processor, for learning and filling together. Ours is given ``--minutes`` of training
that grow as the work of a model a column does, with the rows and the square of the columns.

Errors of differences between two methods are jackknifed over groups of rows, so that both are judged on the same rows.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import polars as pl

from concrete_score.bench.checks import Check
from concrete_score.data import load
from concrete_score.data.catalog import FOLDER
from concrete_score.data.frame import Array
from concrete_score.errors import InputError
from concrete_score.experiments.imputers import RIVALS, codes_of, installed
from concrete_score.experiments.result import Findings, Settings, number, table
from concrete_score.experiments.runner import Unit, complete
from concrete_score.fitting import Request, prepare
from concrete_score.model import Model

BLANK = 0.2
"""The share of cells that is blanked."""
GROUPS = 50
"""Of rows, for the jackknife."""
LEVEL = -2.0
"""A difference of so many standard errors to our disadvantage still counts as level."""
PASSES = 300.0
"""Filling takes at most so many times a scoring pass."""
PAIRS_A_MINUTE, LEAST_MINUTES = 20_000_000, 0.01
OURS = "ours"
JUDGED = ("boosting", "knn", "miceforest")
"""Rivals whose fills are to be matched."""
TIMED = ("iterative", "miceforest")
"""Rivals that are to take longer."""


@dataclass(frozen=True, eq=False)
class Puzzle:
    """A table and which of its cells are to be filled."""

    truth: pl.DataFrame
    """Categories are text, numbers are floats; what was blank before is null and not judged."""
    hidden: Array
    """``(N, D)`` bool."""

    @classmethod
    def of(cls, truth: pl.DataFrame, seed: int) -> "Puzzle":
        """A table with a fifth of its cells hidden at random."""
        known = ~np.stack([column.is_null().to_numpy() for column in truth], 1)
        return cls(truth, known & (np.random.default_rng(seed).random(truth.shape) < BLANK))

    @cached_property
    def categorical(self) -> Array:
        """Which columns are categories ``(D,)``."""
        return np.array([column.dtype == pl.String for column in self.truth])

    @cached_property
    def blanked(self) -> pl.DataFrame:
        """The table without the hidden cells."""
        columns = zip(self.truth, self.hidden.T, strict=True)
        return pl.DataFrame([column.set(pl.Series(hidden), None) for column, hidden in columns])

    def numbers(self, frame: pl.DataFrame) -> Array:
        """A table with categories as codes, blanks as NaN ``(N, D)``."""
        found = [
            codes_of(column, self._values[name]) if name in self._values else column.cast(pl.Float64).to_numpy()
            for name, column in zip(self.truth.columns, frame, strict=True)
        ]
        return np.stack(found, 1)

    def judged(self, filled: Array) -> dict[str, Any]:
        """Sums by groups of rows, from which `Judged` finds everything: cells, right ones, squared errors."""
        wrong = np.where(self.hidden, filled - self.numbers(self.truth), 0.0)
        group = np.arange(len(wrong)) % GROUPS
        right = self.hidden & (np.abs(wrong) < 0.5)
        scale = np.nanstd(self.numbers(self.truth), 0)[~self.categorical]

        def by_group(cells: Array) -> list[Any]:
            total = np.zeros((GROUPS, cells.shape[1]))
            np.add.at(total, group, cells.astype(float))
            return [[round(float(each), 6) for each in line] for line in total]

        return {
            "categories": [int(sum(line)) for line in by_group(self.hidden[:, self.categorical])],
            "right": [int(sum(line)) for line in by_group(right[:, self.categorical])],
            "numbers": by_group(self.hidden[:, ~self.categorical]),
            "squares": by_group((wrong[:, ~self.categorical] / np.where(scale > 0, scale, 1.0)) ** 2),
        }

    @cached_property
    def _values(self) -> dict[str, list[str]]:
        return {
            column.name: sorted(column.drop_nulls().unique().to_list())
            for column in self.truth
            if column.dtype == pl.String
        }


class Judged:
    """Accuracy and normalized error of one method's fills, whole and without each group of rows in turn."""

    def __init__(self, sums: Mapping[str, Any]) -> None:
        cells, right = (np.array(sums[name], dtype=float) for name in ("categories", "right"))
        numbers, squares = (np.array(sums[name], dtype=float).reshape(GROUPS, -1) for name in ("numbers", "squares"))
        self.accuracy = _with_each_left_out(
            lambda some: float(right[some].sum() / cells[some].sum()), bool(cells.any())
        )
        self.error = _with_each_left_out(
            lambda some: float(np.sqrt(squares[some].sum(0) / numbers[some].sum(0)).mean()), bool(numbers.any())
        )


def _with_each_left_out(value: Callable[[Array], float], any_cells: bool) -> Array | None:
    """A statistic of all groups, then of all but each; None where there is nothing to judge."""
    if not any_cells:
        return None
    whole = np.ones(GROUPS, dtype=bool)
    parts = [value(whole), *(value(np.arange(GROUPS) != left) for left in range(GROUPS))]
    return np.array(parts)


def lead(ours: Array, theirs: Array) -> tuple[float, float]:
    """By how much we are above, and its standard error by the jackknife.

    >>> ours, theirs = np.full(GROUPS + 1, 0.75), np.full(GROUPS + 1, 0.5)
    >>> lead(ours, theirs)
    (0.25, 0.0)
    """
    whole, *parts = ours - theirs
    spread = np.array(parts) - np.mean(parts)
    return float(whole), sqrt((GROUPS - 1) / GROUPS * float((spread**2).sum()))


def run(settings: Settings) -> Findings:
    """Every table by every method, each a unit of its own."""
    names = QUICK if settings.quick else tuple(TABLES)
    methods = [OURS, *(name for name in RIVALS if installed(name))]
    units = [
        Unit(f"{name}-{method}", fill_table, {"table": name, "method": method}) for name in names for method in methods
    ]
    found = complete(units, settings)
    ours, checks = {}, []
    for name in names:
        of_table = {method: found[f"{name}-{method}"] for method in methods}
        summary = {method: summarized(each, of_table[OURS]) for method, each in of_table.items()}
        checks += _checks(name, summary)
        ours[name] = summary
    return Findings({}, ours, tuple(checks), text=_page(ours, methods))


def fill_table(settings: Settings, table: str, method: str) -> dict[str, Any]:
    """One table filled by one method, timed and judged."""
    puzzle = Puzzle.of(TABLES[table](), settings.seed)
    work = _ours if method == OURS else _rival
    try:
        filled, facts = work(settings, puzzle, method)
    except InputError:
        raise
    except Exception as error:  # a rival that cannot fill this table is reported, not a reason to stop
        if method == OURS:
            raise
        return {"failed": f"{type(error).__name__}: {error}".split("\n")[0][:200]}
    return {**facts, "rows": len(puzzle.truth), "columns": puzzle.truth.width, "sums": puzzle.judged(filled)}


def _rival(settings: Settings, puzzle: Puzzle, method: str) -> tuple[Array, dict[str, Any]]:
    x, wall, start = puzzle.numbers(puzzle.blanked), perf_counter(), process_time()
    filled = RIVALS[method](x, puzzle.categorical, settings.seed)
    return filled, {"seconds": process_time() - start, "wall_seconds": perf_counter() - wall}


def _ours(settings: Settings, puzzle: Puzzle, method: str) -> tuple[Array, dict[str, Any]]:
    minutes = max(LEAST_MINUTES, round(puzzle.truth.height * puzzle.truth.width**2 / PAIRS_A_MINUTE, 2))
    # What is imported once is not timed, ours as little as theirs.
    prepare(Request(pl.DataFrame({"a": ["x", "y"] * 20, "b": ["x", "y"] * 20}), training={"steps": 1})).train()
    numbers = [name for name, each in zip(puzzle.truth.columns, puzzle.categorical, strict=True) if not each]
    request = Request(
        puzzle.blanked,
        training={"minutes": minutes, "seed": settings.seed},
        reading={"column": dict.fromkeys(numbers, "number")},
    )
    wall, start = perf_counter(), process_time()
    job = prepare(request)
    fit = job.train(device=settings.device)
    model = Model.of(fit.model, job.codec, seed=settings.seed, facts=job.facts)
    fitted = process_time()
    done = model.impute(puzzle.blanked)
    ended = process_time()
    facts = {
        "minutes": minutes,
        "steps": fit.ended.step,
        "seconds": ended - start,
        "wall_seconds": perf_counter() - wall,
        "fit_seconds": fitted - start,
        "fill_seconds": ended - fitted,
        "fill_passes": (ended - fitted) / scoring_seconds(model, done),
    }
    return puzzle.numbers(done), facts


def scoring_seconds(model: Model, filled: pl.DataFrame) -> float:
    """How long the log-likelihoods of all rows take, once they are states; the shortest of five turns."""
    states = model.read(filled).rows.states.long()
    took = []
    for _ in range(5):
        start = process_time()
        model.fitted.row_log_likelihoods(states)
        took.append(process_time() - start)
    return min(took)


def summarized(found: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """A unit's account with accuracy and error in place of its sums, and our lead in standard errors."""
    if "sums" not in found:
        return dict(found)
    facts = {name: round(value, 3) if isinstance(value, float) else value for name, value in found.items()}
    mine, theirs = Judged(ours["sums"]), Judged(found["sums"])
    del facts["sums"]
    for name, better in (("accuracy", 1), ("error", -1)):
        us, them = getattr(mine, name), getattr(theirs, name)
        if us is None or them is None:
            continue
        ahead, stderr = lead(better * us, better * them)
        facts |= {name: round(float(them[0]), 4), f"{name}_lead": round(ahead, 4), f"{name}_stderr": round(stderr, 4)}
    return facts


def _checks(name: str, methods: Mapping[str, Mapping[str, Any]]) -> list[Check]:
    checks = []
    for rival in JUDGED:
        found = methods.get(rival, {})
        for what in ("accuracy", "error"):
            if f"{what}_lead" in found:
                gap, stderr = found[f"{what}_lead"], found[f"{what}_stderr"]
                z = gap / stderr if stderr else 0.0 if not gap else np.copysign(np.inf, gap)
                told = f"{name}: {what} ahead of {rival}, in standard errors (level from {LEVEL:g})"
                checks.append(Check.at_least(told, float(np.clip(z, -99, 99)), LEVEL))
    for rival in TIMED:
        if "seconds" in methods.get(rival, {}):
            share = methods[OURS]["seconds"] / methods[rival]["seconds"]
            checks.append(Check.at_most(f"{name}: our seconds over those of {rival}", share, 1.0))
    checks.append(Check.at_most(f"{name}: filling over one scoring pass", methods[OURS]["fill_passes"], PASSES))
    return checks


def _page(found: Mapping[str, Mapping[str, Any]], methods: list[str]) -> str:
    lines = []
    for name, by_method in found.items():
        for method in methods:
            each = by_method[method]
            values = [_shown(each, "accuracy"), _shown(each, "error")]
            seconds = number(each.get("seconds")) if "seconds" in each else each["failed"]
            minutes = f" (--minutes {each['minutes']}, {each['steps']} steps)" if "minutes" in each else ""
            lines.append([name, method + minutes, *values, seconds])
    absent = "" if "miceforest" in methods else "\n\nmiceforest is not installed here, and was left out."
    about = (
        "A fifth of all cells blank at random; accuracy of categories, and error of numbers over their standard"
        " deviation. Behind ± is the standard error of the difference to ours. Seconds of one processor."
    )
    return f"## Tables\n\n{about}{absent}\n\n{table(['table', 'method', 'accuracy', 'error', 'seconds'], lines)}"


def _shown(each: Mapping[str, Any], name: str) -> str:
    return f"{each[name]:.4f} ± {each[f'{name}_stderr']:.4f}" if name in each else "–"


def _adult() -> pl.DataFrame:
    folder = os.environ.get(FOLDER)
    path = Path(folder or "") / "mixed" / "adult.train.csv.gz"
    if folder is None or not path.is_file():
        raise InputError("the file mixed/adult.train.csv.gz", "none", str(path), f"put it into the folder of ${FOLDER}")
    return _typed(pl.read_csv(path, null_values="?"))


def _bits(name: str) -> pl.DataFrame:
    return _typed(load(f"{name}:train").table.cast(pl.String))


def _small(name: str) -> pl.DataFrame:
    """A table that comes with scikit-learn, its target as a category."""
    from sklearn import datasets

    found = getattr(datasets, f"load_{name}")()
    table = pl.DataFrame(found.data, schema=[str(each) for each in found.feature_names])
    return table.with_columns(pl.Series("target", [str(found.target_names[each]) for each in found.target]))


def _typed(found: pl.DataFrame) -> pl.DataFrame:
    return found.with_columns(pl.col(pl.Int64, pl.Int32).cast(pl.Float64))


TABLES: Mapping[str, Callable[[], pl.DataFrame]] = {
    "wine": lambda: _small("wine"),
    "nltcs": lambda: _bits("nltcs"),
    "adult": _adult,
    "plants": lambda: _bits("plants"),
}
QUICK = ("wine",)
