"""``csm compare``: a synthetic table beside the real one: how much alike, how useful, how private."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from concrete_score.cli.console import (
    SKIN,
    Console,
    common_options,
    data_dir_option,
    examples,
    open_model,
    out_option,
    pipes,
    table,
)
from concrete_score.errors import Command, InputError, Option, printable, spell

if TYPE_CHECKING:
    from concrete_score.comparison import Comparison

COMPARED_WHOLE, COMPARED = 2**29, 200_000
"""About how many bytes a table may take in memory to be compared as a whole, and how many rows stand for a larger."""
KINDS = "number, date or category"
VERDICTS = {True: "LOOK", False: "fine", None: ""}
"""Of a finding: flagged, not flagged, not judged."""


@click.command(
    epilog=examples(
        "csm compare real.csv synthetic.csv",
        "csm compare real.csv synthetic.csv --holdout unseen.csv --target income",
        "csm compare train.parquet drawn.csv --column zip=category --drop id --json",
        "csm compare nltcs:train drawn.csv --holdout nltcs:test --run runs/nltcs",
    )
)
@click.argument("real", metavar="REAL")
@click.argument("synthetic", metavar="SYNTHETIC")
@click.option("--holdout", metavar="DATA", help="Real rows that the synthetic table's maker has not seen.")
@click.option("--target", metavar="COLUMN", help="Predict this column of --holdout from real and from synthetic rows.")
@click.option(
    "--run",
    metavar="RUN",
    type=click.Path(path_type=Path),
    help="The run that made SYNTHETIC: does its likelihood tell REAL from --holdout?",
)
@click.option("--column", metavar="NAME=KIND", multiple=True, help=f"What a column is: {KINDS}; may be repeated.")
@click.option("--drop", metavar="COLUMN", multiple=True, help="Leave a column out; may be repeated.")
@click.option(
    "--na",
    metavar="TEXT",
    multiple=True,
    help="Take this text for a blank cell; may be repeated. In text files by default NA, NaN, null, ? and such.",
)
@data_dir_option
@out_option
@common_options
def compare(
    console: Console,
    real: str,
    synthetic: str,
    holdout: str | None,
    target: str | None,
    run: Path | None,
    column: tuple[str, ...],
    drop: tuple[str, ...],
    na: tuple[str, ...],
    data_dir: str | None,
    out: Path | None,
) -> None:
    """Compare the table SYNTHETIC with the table REAL that it was made from; both may come from anywhere.

    Says how much columns and pairs of columns differ (as SDMetrics measures it), whether a classifier tells the tables
    apart and by which columns, and whether rows were copied. With --holdout it also says whether synthetic rows are
    nearer to REAL than to rows never seen, and with --target how well they teach a prediction. Every number comes with
    its error. Of a file too large for memory, 200,000 rows that are drawn evenly stand for all; a note says so. --out
    writes the score of every column and pair. A name of 'csm data list' means its training rows as REAL and its test
    rows elsewhere.
    """
    kinds = dict(map(_kind, column))
    console.refuse_output(out)
    if holdout is None and (target is not None or run is not None):
        asked = "target" if target is not None else "run"
        raise InputError("held-out rows to judge by", "none", Option(asked), Option("holdout"))
    from concrete_score import runs
    from concrete_score.comparison import compare as compare_tables
    from concrete_score.data import load

    given = {"real": (real, "train"), "synthetic": (synthetic, "test"), "holdout": (holdout, "test")}
    data: dict[str, Any] = {}
    notes: list[str] = []
    for role, (name, split) in given.items():
        if name is None:
            data[role] = None
            continue
        if runs.exists(name):
            raise InputError("a table", "a run", name, ("draw rows with ", Command("sample"), " and give these"))
        some, note = _some_rows(name, role, console)
        data[role] = load(name, split, data_dir=data_dir, say=console.say) if some is None else some
        notes += [note] if note else []
    scores = None if run is None else _scores(run, data, console)
    options: dict[str, Any] = {"target": target, "columns": kinds, "drop": drop, "na": na or None, "seed": console.seed}
    with console.progress("comparing") as progress, _at_most(console.threads):
        found = compare_tables(**data, **options, scores=scores, update=progress)
    found = replace(found, tables=replace(found.tables, notes=(*notes, *found.tables.notes)))
    for note in found.tables.notes:
        console.say(note)
    with pipes():
        if out is not None:
            console.put([as_frame(found)], out, "scores")
        console.give(found.to_json(SKIN), lambda: render(found))


def _some_rows(name: str, role: str, console: Console) -> tuple[Any, str | None]:
    """Rows that stand for those of a large file, which is read in parts, and a note on that; None for other data."""
    from concrete_score.data.evenly import some_rows
    from concrete_score.data.streams import stream_if_large

    stream = stream_if_large([name], None, console.say, COMPARED_WHOLE)
    if stream is None:
        return None, None
    with console.progress(f"reading {name}") as progress:
        found = some_rows(stream.parts(progress), COMPARED, console.seed, role)
    count = len(found.frame)
    stands = f"{name}: {count:,} of {found.rows:,} rows, drawn evenly, stand for all, also where copies are looked for"
    return replace(found.frame, where=name, first=0), stands if count < found.rows else None


def render(found: "Comparison") -> str:
    """The columns, and what was found."""
    shape = found.values()["shape"]
    columns = [
        (
            each["name"],
            each["kind"],
            _percent(1 - each["score"]),
            *map(_percent, (each["blank_real"], each["blank_synthetic"])),
        )
        for each in shape["columns"]
    ]
    findings = [
        printable(f"{VERDICTS[each.flagged]:4}  {spell(each.text, SKIN, bare=True)}".rstrip())
        for each in found.findings
    ]
    names = ("real", "synthetic", "held-out")
    sizes = ", ".join(f"{rows:,} {name}" for rows, name in zip(found.tables.rows, names, strict=False))
    head = ["column", "kind", "shape error", "blank, real", "blank, synthetic"]
    return "\n".join([table(head, columns, f"Rows: {sizes}."), "", *findings])


def as_frame(found: "Comparison") -> Any:
    """The score of every column and pair, as a table."""
    import polars as pl

    from concrete_score.data import as_frame

    values = found.values()
    lines = [(each["name"], None, each["metric"], each["score"], None, None) for each in values["shape"]["columns"]]
    lines += [
        (*each["columns"], *(each[key] for key in ("metric", "score", "real", "synthetic")))
        for each in values["trend"]["of_pairs"]
    ]
    names = {"column": pl.String, "with": pl.String, "metric": pl.String}
    schema = names | dict.fromkeys(("score", "real", "synthetic"), pl.Float64)
    return as_frame(pl.DataFrame(lines, schema, orient="row").fill_nan(None))


def _scores(run: Path, data: dict[str, Any], console: Console) -> tuple[Any, Any]:
    """The log-likelihoods of real and of held-out rows under the model of a run; rows it cannot read are skipped."""
    model = open_model(run, console)
    given = [model.read(data[role], missing="drop", unknown="skip") for role in ("real", "holdout")]
    for each in given:
        for note in each.notes:
            console.say(f"{each.data.where}: {note}")
        console.warn(each.warnings)
    real, held = map(model.score_samples, given)
    return real, held


def _kind(text: str) -> tuple[str, str]:
    name, sign, kind = text.rpartition("=")
    if not sign or not name:
        example = ("for example ", Option("column", {"zip": "category"}))
        raise InputError("NAME=KIND", repr(text), Option("column"), example)
    return name, kind


def _percent(share: float) -> str:
    from concrete_score.comparison.findings import percent

    return percent(share)


def _at_most(threads: int | None) -> AbstractContextManager[Any]:
    """Within it, trees are grown by at most so many threads."""
    if threads is None:
        return nullcontext()
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    limits: AbstractContextManager[Any] = threadpool_limits(threads)
    return limits
