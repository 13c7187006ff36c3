"""Tables with numbers learned with nothing said: how far from the true likelihood of the original values?

Random networks whose columns are categories, or numbers drawn from mixtures of Gaussians, Poissons and atoms and
rounded to two decimals. What ``fit`` chooses by itself learns from their rows; new rows' log-likelihoods, of the
numbers as they are and not of ranges, are held against the exact ones. The numbers are leaves of the network; in tables
of a harder kind other columns also depend on which component a number came from, which no column shows.
"""

from time import perf_counter
from typing import Any

import polars as pl
import torch
from torch import Tensor

from concrete_score.bench.checks import Check
from concrete_score.experiments.result import Findings, Settings
from concrete_score.experiments.runner import Unit, complete
from concrete_score.experiments.tables import PARENTS, ROWS, TEST, behind
from concrete_score.fitting import Request, prepare
from concrete_score.model import Model
from concrete_score.randomness import generator
from concrete_score.targets.numbers import STEPS, MixedTable, random_mixed_table

COLUMNS = (6, 12)
TABLES = 3
"""Random tables of each number of columns."""
KINDS = ("leaves", "hidden-parents")
"""Whether other columns depend on the components of numbers."""
BOUND, QUICK = 0.05, 0.15
"""Nats a row below the truth, at the full and the quick size."""


def run(settings: Settings) -> Findings:
    """One unit a table."""
    tables = [(kind, columns, k) for kind in KINDS for columns in COLUMNS for k in range(TABLES)]
    tables = tables[:1] if settings.quick else tables
    units = [
        Unit(f"{columns}-columns-{k}-{kind}", learned, {"columns": columns, "table": k, "kind": kind})
        for kind, columns, k in tables
    ]
    found = complete(units, settings)
    bound = QUICK if settings.quick else BOUND
    checks = [
        Check.at_most(f"numbers as {kind}, {columns} columns, table {k}: nats below the truth", value["gap"], bound)
        for (kind, columns, k), value in zip(tables, found.values(), strict=True)
    ]
    return Findings({}, found, tuple(checks))


def learned(settings: Settings, columns: int, table: int, kind: str) -> dict[str, Any]:
    """Fit one table as the command line does, and score new rows of it."""
    source = generator(table, f"table of {columns} columns")
    truth = random_mixed_table(columns, PARENTS, source, leaves=kind == KINDS[0])
    rows, test = (truth.sample(n, generator(settings.seed, name)) for n, name in ((ROWS, "rows"), (TEST, "test rows")))
    training = {"seed": settings.seed, **({"steps": 600} if settings.quick else {})}
    start = perf_counter()
    job = prepare(Request(as_table(truth, rows), training=training))
    fit = job.train(device=settings.device)
    seconds = perf_counter() - start
    ours = Model.of(fit.model, job.codec).score_samples(as_table(truth, test))
    return {
        "numbers": sum(each is not None for each in truth.components),
        "values": list(job.codec.space.sizes),
        **behind(truth.log_density(test), torch.from_numpy(ours)),
        "steps": fit.ended.step,
        "seconds": round(seconds, 1),
    }


def as_table(truth: MixedTable, rows: Tensor) -> pl.DataFrame:
    """Rows as a user would have them: categories as words, numbers in decimals."""
    return pl.DataFrame(
        {
            f"c{d}": [f"v{each}" for each in column.tolist()] if laws is None else (column.double() / STEPS).numpy()
            for d, (laws, column) in enumerate(zip(truth.components, rows.T, strict=True))
        }
    )
