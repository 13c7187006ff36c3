"""Tables with numbers, dates and blanks, learned with nothing said: how good are sampled rows?

``adult`` and ``beijing`` from the data folder (``mixed/``). As many synthetic rows as training rows, blanks drawn as
in rows such as theirs and compared as a value of their own. Shapes of columns and trends of pairs as SDMetrics defines
them, against the training rows and against held-out ones, beside what real held-out rows show; a classifier that tells
real rows from synthetic ones; what synthetic rows teach about a target. The synthesizers of SDV, where that package is
installed, are judged the same way.
"""

import os
import warnings
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from concrete_score.bench.checks import Check
from concrete_score.comparison import compare
from concrete_score.data import Frame, read_file
from concrete_score.data.catalog import FOLDER
from concrete_score.errors import InputError
from concrete_score.experiments.drawing import ACCENT, INK, QUIET, png
from concrete_score.experiments.result import Findings, Settings, number, table
from concrete_score.experiments.runner import Unit, complete, stored
from concrete_score.fitting import Request, prepare
from concrete_score.model import Model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PUBLISHED: Mapping[str, Any] = {
    "adult": {
        "TabDiff": [0.63, 1.49],
        "TabSyn": [0.81, 1.93],
        "TabDDPM": [1.75, 3.01],
        "TVAE": [14.2, 14.2],
        "CTGAN": [16.8, 20.2],
    },
    "beijing": {
        "TabDiff": [1.03, 2.59],
        "TabSyn": [1.26, 3.13],
        "TabDDPM": [1.30, 2.71],
        "TVAE": [19.2, 18.0],
        "CTGAN": [21.4, 23.0],
    },
}
"""Shape and trend errors in percent, from the literature."""
BOUNDS = {"adult": (0.81, 1.93), "beijing": (1.26, 3.13)}
TARGETS = {"adult": "income", "beijing": "pm2.5"}
RIVALS = ("GaussianCopulaSynthesizer", "TVAESynthesizer")
"""Of SDV, with its own settings."""
AUC, TAUGHT = 0.55, 0.005
BLANK, QUICK_ROWS = "?", 2_000


def run(settings: Settings) -> Findings:
    """Both tables, and the rivals on both."""
    ours = [Unit(name, our_draws, {"name": name}) for name in BOUNDS]
    units = [Unit(f"{name}, {who}", their_draws, {"name": name, "rival": who}) for who in RIVALS for name in BOUNDS]
    if settings.quick or find_spec("sdv") is None:
        known = stored(units, settings)  # from where it was installed
        units = [unit for unit in units if unit.name in known]
    found = complete([*ours, *units], settings)
    checks = []
    for name, bounds in BOUNDS.items():
        shape, trend = (20.0, 30.0) if settings.quick else bounds
        checks += [
            Check.at_most(f"{name}: shape error against the training rows, %", found[name]["train"]["shape"], shape),
            Check.at_most(f"{name}: trend error against the training rows, %", found[name]["train"]["trend"], trend),
        ]
    if not settings.quick:
        taught = found["adult"]["usefulness"]
        checks += [
            Check.at_most("adult: AUC of telling synthetic rows from real ones", found["adult"]["auc"], AUC),
            Check.at_most(
                "adult: AUC of predicting income lost by learning from synthetic rows",
                taught["real"] - taught["synthetic"],
                TAUGHT,
            ),
        ]
    return Findings(dict(PUBLISHED), found, tuple(checks), {"mixed": png(draw(found))}, text=told(found))


def our_draws(settings: Settings, name: str) -> dict[str, Any]:
    """A default fit and its draws."""
    train, test = tables(name, settings)
    started = perf_counter()
    job = prepare(Request(train, training={"seed": settings.seed, "steps": 300 if settings.quick else None}))
    fit = job.train(device=settings.device)
    trained = perf_counter()
    model = Model.of(fit.model, job.codec, seed=settings.seed, facts=job.facts)
    drawn = model.sample(len(train), blanks=model.patterns is not None)
    sampled = perf_counter()
    return {
        **judged(name, train.table, drawn, test.table, settings),
        "valid_log_likelihood": fit.ended.best + (0.0 if job.valid is None else job.valid.mean_log_inside),
        "test_log_likelihood": model.score(test),
        "rows": len(train),
        "steps": fit.ended.step,
        "fit_seconds": round(trained - started, 1),
        "sample_seconds": round(sampled - trained, 1),
    }


def their_draws(settings: Settings, name: str, rival: str) -> dict[str, Any]:
    """A synthesizer of SDV and its draws; blanks are a value of their own from the start."""
    import torch
    from sdv import single_table
    from sdv.metadata import Metadata

    train, test = tables(name, settings)
    torch.manual_seed(settings.seed)
    np.random.seed(settings.seed)  # noqa: NPY002, these synthesizers take no other
    rows = {"rows": _typed(blanks_as_value(train.table)).to_pandas()}
    started = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = getattr(single_table, rival)(Metadata.detect_from_dataframes(rows))
        made.fit(rows)
        trained = perf_counter()
        drawn = made.sample(len(train))
    drawn = drawn["rows"] if isinstance(drawn, Mapping) else drawn
    seconds = {"fit_seconds": round(trained - started, 1), "sample_seconds": round(perf_counter() - trained, 1)}
    return {**judged(name, train.table, pl.from_pandas(drawn), test.table, settings), **seconds, "rows": len(train)}


def judged(
    name: str, train: pl.DataFrame, drawn: pl.DataFrame, test: pl.DataFrame, settings: Settings
) -> dict[str, Any]:
    """Synthetic rows against training rows and test rows, and training rows against test rows."""
    train, drawn, test = (blanks_as_value(each) for each in (train, drawn, test))
    look = partial(compare, seed=settings.seed)
    parts = ("resemblance", "two_sample", "usefulness")
    whole = look(train, drawn, test, target=TARGETS[name], parts=parts).values()
    return {
        "train": _percent(whole),
        "test": _percent(look(test, drawn, parts=parts[:1]).values()),
        "train_against_test": _percent(look(test, train, parts=parts[:1]).values()),
        "auc": whole["two_sample"]["auc"],
        "auc_stderr": whole["two_sample"]["stderr"],
        "usefulness": whole["usefulness"],
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
        train, test = (each.take(np.arange(QUICK_ROWS)) for each in (train, test))
    return train, test


def _read(file: str) -> Frame:
    folder = os.environ.get(FOLDER)
    path = Path(folder or "") / "mixed" / file
    if folder is None or not path.is_file():
        raise InputError(f"the file mixed/{file}", "none", str(path), f"put it into the folder of ${FOLDER}")
    found: Frame = read_file(path)
    return found


def blanks_as_value(rows: pl.DataFrame) -> pl.DataFrame:
    """Texts whose blanks, however written, are one value."""
    return rows.with_columns(pl.col(pl.String).fill_null(BLANK).replace({"": BLANK, "NA": BLANK}))


def _typed(rows: pl.DataFrame) -> pl.DataFrame:
    """Columns of texts that are all numbers as numbers."""
    numbers = [each.cast(pl.Float64, strict=False) for each in rows]
    return pl.DataFrame([old if new.null_count() else new for old, new in zip(rows, numbers, strict=True)])


def _percent(values: Mapping[str, Any]) -> dict[str, float]:
    """Mean errors of shapes and trends in percent, with their standard errors and what one law shows."""
    found = {}
    for name in ("shape", "trend"):
        found[name] = 100 * values[name]["error"]
        found[f"{name}_stderr"] = 100 * values[name]["stderr"]
        found[f"{name}_same_law"] = 100 * values[name]["same_law"]
    return found


def told(found: Mapping[str, Any]) -> str:
    """The findings as a table for reading."""
    columns = ["table", "who", "shape, %", "trend, %", "on test", "AUC", "target", "fit, s", "draws, s"]
    lines = []
    for unit, value in found.items():
        name, _, rival = unit.partition(", ")
        test, taught = value["test"], value["usefulness"]
        lines.append(
            [
                name,
                rival or "**ours**",
                *(f"{value['train'][each]:.2f}" for each in ("shape", "trend")),
                f"{test['shape']:.2f} / {test['trend']:.2f}",
                f"{value['auc']:.3f}",
                f"{taught['synthetic']:.4f} ({taught['real']:.4f})",
                number(value["fit_seconds"], 4),
                number(value["sample_seconds"], 3),
            ]
        )
        if not rival:
            real = value["train_against_test"]
            lines.append([name, "real rows", "", "", f"{real['shape']:.2f} / {real['trend']:.2f}", "", "", "", ""])
            lines += [
                [name, f"{who}, published", f"{s:.2f}", f"{t:.2f}", *[""] * 5]
                for who, (s, t) in PUBLISHED[name].items()
            ]
    words = (
        "Errors against the training rows, as the published ones are; *on test*: against held-out rows. *AUC*: of a"
        " classifier that tells synthetic rows from training rows, .5 where it cannot. *Target*: a held-out column"
        " predicted from synthetic rows (in brackets: from real ones): AUC of income, R² of pm2.5. SDV's synthesizers"
        " run with their own settings where the package is installed."
    )
    return f"## Found\n\n{table(columns, lines)}\n\n{words}"


def draw(found: Mapping[str, Any]) -> "Figure":
    """Shape and trend errors of ours, SDV's and the published ones."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    for axes, name in zip(figure.subplots(1, 2), BOUNDS, strict=True):
        errors = {"ours": (found[name]["train"]["shape"], found[name]["train"]["trend"])} | PUBLISHED[name]
        errors |= {
            f"{unit.partition(', ')[2].removesuffix('Synthesizer')}, run here": (
                value["train"]["shape"],
                value["train"]["trend"],
            )
            for unit, value in found.items()
            if unit.startswith(f"{name}, ")
        }
        places = np.arange(len(errors))
        for shift, (at, color, label) in enumerate(((0, QUIET, "shape"), (1, INK, "trend"))):
            bars = axes.bar(
                places + 0.4 * shift - 0.2, [each[at] for each in errors.values()], 0.4, color=color, label=label
            )
            bars[0].set_edgecolor(ACCENT)
            bars[0].set_linewidth(1.5)
        axes.set(yscale="log", title=name, ylabel="error, %")
        axes.set_xticks(places, list(errors), rotation=40, ha="right", fontsize=8)
        axes.legend(frameon=False, fontsize=8)
    return figure
