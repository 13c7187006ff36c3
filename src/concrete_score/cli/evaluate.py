"""``csm evaluate``: the log-likelihood of a table or of images under a fitted model, exact or bounded."""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from concrete_score.cli.console import (
    Console,
    common_options,
    data_arguments,
    data_dir_option,
    examples,
    file_options,
    jobs_option,
    missing_option,
    open_data,
    open_model,
    out_option,
    pipes,
    refuse_own_input,
    rows_of,
    run_argument,
    table,
    unknown_option,
)
from concrete_score.defaults import BOUND_ROWS
from concrete_score.errors import InputError, Option, printable

if TYPE_CHECKING:
    from concrete_score.blocks import Scored
    from concrete_score.likelihood import LogLikelihood
    from concrete_score.model import Model

MEANINGS = {
    "exact": "Exact: the model is normalized, so this is the mean log-likelihood itself.",
    "enumeration": "Exact: by summing over all states of the model, or over all ways to fill the blanks of a row.",
    "importance": "One bound: a row with blanks counts by its other cells, and some rows can be filled in too many ways"
    " to sum over; the log-likelihood lies above lower, a mean over weighted draws, up to bound_stderr and on average.",
    "sandwich": "Bounds: the mean log-likelihood lies between lower (reverse annealing from exact draws of the model)"
    " and upper (annealed importance sampling), up to bound_stderr and on average.",
    "ais": "One bound: annealed importance sampling gives upper, on average; there is no exact draw of the model, so"
    " no lower bound.",
    "variational": "One bound: the log-likelihood lies above lower, up to bound_stderr and on average; lower is the"
    " variational bound of the chain that runs the noise backwards.",
    "none": "None: this model defines no log-likelihood that can be computed or bounded here.",
}
"""What each method's numbers are."""
RAISE = (
    "raise is no bound: it is below the log-likelihood of the annealing approximation of the model, and below the"
    " model's own only on average over the model's own rows."
)
IMPOSSIBLE = "the model gives some row probability zero, so the mean is minus infinity (null in JSON); see --out"


@click.command(
    epilog=examples(
        "csm evaluate runs/nltcs nltcs",
        "csm evaluate runs/clinic new.csv --unknown skip --missing drop --json",
        "csm evaluate runs/clinic new.csv --out rows.csv",
        "csm evaluate runs/clinic months/ --jobs 4 --out rows.parquet",
        "csm evaluate runs/energy new.csv --bound-rows 200",
        "csm evaluate runs/digits digits",
        "csm evaluate runs/family mutants.csv --relative-to wild.fasta --out effects.csv",
    )
)
@run_argument
@data_arguments
@data_dir_option
@file_options
@missing_option
@unknown_option
@click.option(
    "--bound-rows",
    metavar="N",
    type=click.IntRange(min=2),
    default=BOUND_ROWS,
    help=f"Where only bounds can be had: of how many rows, drawn with the seed; {BOUND_ROWS}.",
)
@click.option(
    "--relative-to",
    metavar="WILD",
    help="DATA is a table with a column mutant, such as A42G:V84I: their log-ratios to this one sequence.",
)
@jobs_option
@out_option
@common_options
def evaluate(
    console: Console,
    path: Path,
    data: tuple[str, ...],
    data_dir: str | None,
    missing: str | None,
    unknown: str,
    reading: dict[str, Any],
    bound_rows: int,
    relative_to: str | None,
    jobs: int,
    out: Path | None,
) -> None:
    """The mean log-likelihood of the rows or images of DATA under the model of RUN, in nats per row.

    DATA is a file, '-' for CSV on standard input, or NAME[:SPLIT] of 'csm data list' (by default its test rows).
    Several files of the same columns, or a folder of them, are one table; large ones are read in parts. --out writes
    one log-likelihood a row, where it is exact. A row with blanks counts by the probability of its other cells.
    Images are given to a run of images, (N, H, W) as in csm fit; a denoising head has a lower bound, other heads of
    noise levels have none.
    """
    model = open_model(path, console)
    console.refuse_output(out)
    if relative_to is not None:
        if len(data) > 1:
            raise InputError("one table of mutants", f"{len(data)} files", Option("data"))
        _relative(model, data[0], relative_to, out, console, data_dir, reading)
        return
    from concrete_score.blocks import Evaluation
    from concrete_score.likelihood import Budget

    how: dict[str, Any] = {"missing": missing, "unknown": unknown}
    source = open_data(model, data, console, **how, data_dir=data_dir, reading=reading)
    refuse_own_input(source, out)
    read = getattr(source, "rows", None)
    if out is not None:
        _refuse_rows(model)
    console.say(f"evaluating {'' if read is None else f'{len(read.kept)} '}{model.codec.noun} …")
    whole = Evaluation(_named(data), model.codec.noun)
    with console.progress("evaluating") as progress:
        scored = model.scored(rows_of(source, progress), progress=progress, jobs=jobs, **how)
        with closing(scored):
            write_rows(whole.over(scored), model, console, out)
    found = whole.found
    if found is None:
        with console.progress("bounding") as progress:
            budget = Budget(bound_rows=bound_rows)
            found, whole.counted = model.bounds(rows_of(source, progress), budget=budget, progress=progress, **how)
    if read is None:
        for note in whole.counted.notes(model.codec.noun):
            console.say(note)
    console.warn((*found.warnings, *([IMPOSSIBLE] if found.log_likelihood == -inf else [])))
    skipped = whole.counted.skipped if read is None else read.unknown + read.blank
    with pipes():
        console.give(as_json(found, skipped), lambda: render(_named(data), found, skipped, model.codec.noun))


def write_rows(scored: "Iterator[Scored]", model: "Model", console: Console, out: Path | None) -> None:
    """One log-likelihood a row, as they come."""
    if out is None:
        deque(scored, 0)
        return
    import polars as pl

    from concrete_score.data import as_frame

    def tables() -> "Iterator[Any]":
        for part in scored:
            values = model.row_values(part)
            if len(part.row):
                yield as_frame(pl.DataFrame({"row": part.row.numpy(), "log_likelihood": values.numpy()}))

    console.put(tables(), out)


def _refuse_rows(model: "Model") -> None:
    """Refuse to write a log-likelihood a row where there is none, before any work."""
    if not (model.fitted.only_bounds or model.fitted.draws_from_noise):
        return
    try:
        model.row_values(None)
    except InputError as error:
        fix = ("leave it out, or fit a normalized model: ", Option("model", "made"))
        raise InputError(error.expected, error.came, Option("out"), fix) from None


def _named(data: Sequence[str]) -> str:
    more = f" and {len(data) - 1} more" if len(data) > 1 else ""
    return f"{data[0]}{more}"


def _relative(
    model: "Model",
    data: str,
    wild: str,
    out: Path | None,
    console: Console,
    data_dir: str | None,
    reading: dict[str, Any],
) -> None:
    """The log-ratio of every mutant to one sequence, and its rank correlation with each column of numbers."""
    import polars as pl

    from concrete_score.answers import mutants
    from concrete_score.data import as_frame
    from concrete_score.fitting import load_data
    from concrete_score.likelihood.relative import relative_log_densities

    given = model.read(wild, missing="refuse", data_dir=data_dir, say=console.say)
    if len(given.rows.states) != 1:
        raise InputError("one sequence", str(len(given.rows.states)), Option("relative-to"))
    frame = load_data(data, "test", data_dir, console.say, reading)
    table_ = getattr(frame, "table", None)
    if table_ is None or "mutant" not in table_.columns:
        raise InputError("a table with a column mutant", "another", where=data)
    reference = given.rows.states[0].long()
    found = mutants(model.codec, reference, table_["mutant"].to_list(), data)
    device = model.fitted.views.device
    ratio = relative_log_densities(model.fitted.views, found.states.to(device), reference.to(device)).cpu()
    scored = table_[found.row.numpy()].with_columns(log_ratio=pl.Series(ratio.numpy()))
    skipped = len(table_) - len(scored)
    ranks = {name: rank for name in table_.columns if (rank := _rank_correlation(scored, name)) is not None}
    value = {"rows": len(scored), "skipped": skipped, "mean_log_ratio": float(ratio.mean()), "spearman": ranks}
    with pipes():
        if out is not None:
            console.put([as_frame(scored)], out, "mutants")
        facts = [(key, _number(each)) for key, each in value.items() if key != "spearman"]
        facts += [(f"spearman with {name}", f"{rank:.4f}") for name, rank in ranks.items()]
        console.give(
            value, lambda: table(["fact", "value"], facts, f"{printable(data)}, relative to {printable(wild)}:")
        )


def _rank_correlation(scored: Any, name: str) -> float | None:
    """Spearman's coefficient of a column of numbers and the log-ratios; None for other columns."""
    import polars as pl

    pair = scored.select(pl.col(name).cast(pl.Float64, strict=False), "log_ratio").drop_nulls()
    if len(pair) < max(3, len(scored) // 2) or pair[name].n_unique() < 2:
        return None
    found = pair.select(pl.corr(name, "log_ratio", method="spearman")).item()
    return None if found is None or found != found else float(found)


def as_json(found: "LogLikelihood", skipped: int) -> dict[str, Any]:
    """The keys of ``csm evaluate --json``."""
    value = found.to_json()
    return {"rows": value.pop("rows"), "skipped": skipped, **value}


def render(data: str, found: "LogLikelihood", skipped: int, noun: str = "rows") -> str:
    """The numbers that are there, and one sentence on what they mean."""
    facts = [(key, _number(value)) for key, value in as_json(found, skipped).items() if value is not None]
    meaning = [MEANINGS.get(found.method, "")] + ([RAISE] if found.raise_ is not None else [])
    title = f"{printable(data)}, nats per {noun.removesuffix('s')}:"
    return "\n\n".join([table(["fact", "value"], facts, title), " ".join(meaning)])


def _number(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
