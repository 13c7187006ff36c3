"""``csm evaluate``: the log-likelihood of a table or of images under a fitted model, exact or bounded."""

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from concrete_score.cli.console import (
    Console,
    common_options,
    data_argument,
    data_dir_option,
    examples,
    file_options,
    missing_option,
    open_model,
    out_option,
    pipes,
    read_data,
    run_argument,
    table,
    unknown_option,
)
from concrete_score.defaults import BOUND_ROWS
from concrete_score.errors import InputError, Option, printable

if TYPE_CHECKING:
    from concrete_score.answers import Given
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
        "csm evaluate runs/energy new.csv --bound-rows 200",
        "csm evaluate runs/digits digits",
        "csm evaluate runs/family mutants.csv --relative-to wild.fasta --out effects.csv",
    )
)
@run_argument
@data_argument
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
@out_option
@common_options
def evaluate(
    console: Console,
    path: Path,
    data: str,
    data_dir: str | None,
    missing: str | None,
    unknown: str,
    reading: dict[str, Any],
    bound_rows: int,
    relative_to: str | None,
    out: Path | None,
) -> None:
    """The mean log-likelihood of the rows or images of DATA under the model of RUN, in nats per row.

    DATA is a file, '-' for CSV on standard input, or NAME[:SPLIT] of 'csm data list' (by default its test rows). --out
    writes one log-likelihood a row, where it is exact. A row with blanks counts by the probability of its other cells.
    Images are given to a run of images, (N, H, W) as in csm fit; a denoising head has a lower bound, other heads of
    noise levels have none.
    """
    model = open_model(path, console)
    console.refuse_output(out)
    if relative_to is not None:
        _relative(model, data, relative_to, out, console)
        return
    from concrete_score.likelihood import Budget

    given = read_data(model, data, console, missing=missing, unknown=unknown, data_dir=data_dir, reading=reading)
    each = None if out is None else _each_row(model, given)
    console.say(f"evaluating {len(given.rows.kept)} {model.codec.noun} …")
    with console.progress("bounding") as progress:
        found = model.evaluate(given, budget=Budget(bound_rows=bound_rows), progress=progress)
    console.warn((*found.warnings, *([IMPOSSIBLE] if found.log_likelihood == -inf else [])))
    with pipes():
        if each is not None:
            console.put([each], out)
        value = as_json(found, given.skipped)
        console.give(value, lambda: render(data, found, given.skipped, model.codec.noun))


def _relative(model: "Model", data: str, wild: str, out: Path | None, console: Console) -> None:
    """The log-ratio of every mutant to one sequence, and its rank correlation with each column of numbers."""
    import polars as pl

    from concrete_score.answers import mutants
    from concrete_score.data import as_frame
    from concrete_score.fitting import load_data
    from concrete_score.likelihood.relative import relative_log_densities

    given = model.read(wild, missing="refuse")
    if len(given.rows.states) != 1:
        raise InputError("one sequence", str(len(given.rows.states)), Option("relative-to"))
    frame = load_data(data, "test")
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


def _each_row(model: "Model", given: "Given") -> Any:
    """One log-likelihood a row, as a table; where there is none this is refused, before the long work."""
    import polars as pl

    from concrete_score.data import as_frame

    try:
        scores = model.score_samples(given)
    except InputError as error:
        if error.where:
            raise
        fix = ("leave it out, or fit a normalized model: ", Option("model", "made"))
        raise InputError(error.expected, error.came, Option("out"), fix) from None
    return as_frame(pl.DataFrame({"row": given.rows.kept.numpy(), "log_likelihood": scores}))
