"""Tables with numbers, dates and blanks, learned with nothing said: how good are sampled rows?

``adult`` and ``beijing`` from the data folder (``mixed/``). As many synthetic rows as training rows, blanks drawn from
the training rows' patterns and compared as a value of their own. Shapes of columns and trends of pairs as SDMetrics
defines them, against the training rows and against held-out ones, beside what real held-out rows show; a classifier
that tells real rows from synthetic ones; what synthetic rows teach about a target.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import polars as pl

from concrete_score.bench.checks import Check
from concrete_score.comparison import compare
from concrete_score.data import Frame, read_file
from concrete_score.data.catalog import FOLDER
from concrete_score.errors import InputError
from concrete_score.experiments.result import Findings, Settings
from concrete_score.experiments.runner import Unit, complete
from concrete_score.fitting import Request, prepare
from concrete_score.model import Model

PUBLISHED: Mapping[str, Any] = {
    "adult": {"TabDiff": [0.63, 1.49], "TabSyn": [0.81, 1.93], "TabDDPM": [1.75, 3.01], "TVAE": [14.2, 14.2]},
    "beijing": {"TabDiff": [1.03, 2.59], "TabSyn": [1.26, 3.13], "TabDDPM": [1.30, 2.71], "TVAE": [19.2, 18.0]},
}
"""Shape and trend errors in percent, from the literature."""
BOUNDS = {"adult": (0.81, 1.93), "beijing": (1.26, 3.13)}
TARGETS = {"adult": "income", "beijing": "pm2.5"}
AUC, TAUGHT = 0.55, 0.005
BLANK = "?"


def run(settings: Settings) -> Findings:
    """Both tables."""
    found = complete([Unit(name, one_table, {"table": name}) for name in BOUNDS], settings)
    checks = []
    for name, value in found.items():
        shape, trend = (20.0, 30.0) if settings.quick else BOUNDS[name]
        checks += [
            Check.at_most(f"{name}: shape error against the training rows, %", value["train"]["shape"], shape),
            Check.at_most(f"{name}: trend error against the training rows, %", value["train"]["trend"], trend),
        ]
    if not settings.quick:
        adult = found["adult"]
        checks += [
            Check.at_most("adult: AUC of telling synthetic rows from real ones", adult["auc"], AUC),
            Check.at_most("adult: what a target loses, taught by synthetic rows", adult["taught_loss"], TAUGHT),
        ]
    return Findings(dict(PUBLISHED), found, tuple(checks))


def one_table(settings: Settings, table: str) -> dict[str, Any]:
    """Fit, sample and compare one table."""
    train, test = tables(table, settings)
    started = perf_counter()
    request = Request(train, training={"seed": settings.seed, "steps": 300 if settings.quick else None})
    job = prepare(request)
    fit = job.train(device=settings.device)
    trained = perf_counter()
    model = Model.of(fit.model, job.codec, seed=settings.seed, facts=job.facts)
    drawn = model.sample(len(train), blanks=model.patterns is not None)
    sampled = perf_counter()
    rows = [_blanks_as_value(each) for each in (train.table, drawn, test.table)]
    parts = ("resemblance", "two_sample", "usefulness")
    whole = compare(rows[0], rows[1], rows[2], target=TARGETS[table], seed=settings.seed, parts=parts).values()
    against = {
        name: _percent(compare(first, second, seed=settings.seed, parts=("resemblance",)).values())
        for name, first, second in (("test", rows[2], rows[1]), ("train_against_test", rows[2], rows[0]))
    }
    return {
        "train": _percent(whole),
        **against,
        "auc": whole["two_sample"]["auc"],
        "auc_stderr": whole["two_sample"]["stderr"],
        "taught_loss": whole["usefulness"]["real"] - whole["usefulness"]["synthetic"],
        "usefulness": whole["usefulness"],
        "valid_log_likelihood": fit.ended.best + (0.0 if job.valid is None else job.valid.mean_log_inside),
        "rows": len(train),
        "steps": fit.ended.step,
        "fit_seconds": round(trained - started, 1),
        "sample_seconds": round(sampled - trained, 1),
    }


def tables(name: str, settings: Settings) -> tuple[Frame, Frame]:
    """Training and test rows; of ``beijing`` without the counter ``No`` and rows without ``pm2.5``, split 9 : 1.

    Raises:
        InputError: the files are not here; it says which to put where.
    """
    if name == "adult":
        train, test = _read("adult.train.csv.gz"), _read("adult.test.csv.gz")
    else:
        whole = _read("beijing.csv.gz")
        kept = whole.table.drop("No").filter(pl.col("pm2.5") != "NA")
        order = np.random.default_rng(settings.seed).permutation(len(kept))
        cut = len(kept) // 10
        train, test = (Frame(kept[rows], whole.form, whole.where) for rows in (order[cut:], order[:cut]))
    if settings.quick:
        train, test = (each.take(np.arange(2_000)) for each in (train, test))
    return train, test


def _read(file: str) -> Frame:
    folder = os.environ.get(FOLDER)
    path = Path(folder or "") / "mixed" / file
    if folder is None or not path.is_file():
        raise InputError(f"the file mixed/{file}", "none", str(path), f"put it into the folder of ${FOLDER}")
    found: Frame = read_file(path)
    return found


def _blanks_as_value(table: pl.DataFrame) -> pl.DataFrame:
    """Texts whose blanks, however written, are one value."""
    columns = [pl.col(pl.String).fill_null(BLANK).replace({"": BLANK, "NA": BLANK})]
    return table.with_columns(columns)


def _percent(values: Mapping[str, Any]) -> dict[str, float]:
    """Mean errors of shapes and trends in percent, with their standard errors and what one law shows."""
    found = {}
    for name in ("shape", "trend"):
        found[name] = 100 * values[name]["error"]
        found[f"{name}_stderr"] = 100 * values[name]["stderr"]
        found[f"{name}_same_law"] = 100 * values[name]["same_law"]
    return found
