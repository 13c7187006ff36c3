"""``csm evaluate``: the log-likelihood of a table or of pictures under a fitted model, exact or bounded."""

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from concrete_score.cli.open_run import Opened, missing_option, open_run, rows_of_file, run_argument
from concrete_score.cli.options import Console, common_options, examples, table
from concrete_score.cli.output import counting, out_option, pipes, put, refuse_output, warn
from concrete_score.cli.table_options import data_dir_option, unknown_option
from concrete_score.errors import InputError, printable

if TYPE_CHECKING:
    from concrete_score.likelihood import LogLikelihood

MEANINGS = {
    "exact": "Exact: the model is normalized, so this is the mean log-likelihood itself.",
    "enumeration": "Exact: the model was normalized by summing over all its states.",
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
    )
)
@run_argument
@click.argument("data", metavar="DATA")
@data_dir_option
@missing_option
@unknown_option
@click.option(
    "--bound-rows",
    metavar="N",
    type=click.IntRange(min=2),
    default=500,
    help="Where only bounds can be had: of how many rows, drawn with the seed; 500.",
)
@out_option
@common_options
def evaluate(
    console: Console,
    path: Path,
    data: str,
    data_dir: str | None,
    missing: str,
    unknown: str,
    bound_rows: int,
    out: Path | None,
) -> None:
    """The mean log-likelihood of the rows or pictures of DATA under the model of RUN, in nats per row.

    DATA is a file, '-' for CSV on standard input, or NAME[:SPLIT] of 'csm data list' (by default its test rows). --out
    writes one log-likelihood a row, where it is exact. Pictures are given to a run of pictures, (N, H, W) as in csm
    fit; a denoising head has a lower bound, other heads of noise levels have none.
    """
    opened = open_run(path, console)
    kind = opened.kind
    refuse_output(out, kind.form(opened.codec), console)
    from concrete_score.likelihood import Budget

    frame = kind.load(data, "test", data_dir, console.say)
    rows = kind.rows(opened.codec, frame, missing, unknown, console)
    states = rows.encoded.states.to(opened.device)
    each = None if out is None else _each(opened, states)
    console.say(f"evaluating {len(rows.kept)} {kind.noun} …")
    with counting(console, "bounding") as progress, rows_of_file(frame.where, rows.kept):
        found = opened.fitted.evaluate(
            states, opened.generator("evaluate"), Budget(bound_rows=bound_rows), progress=progress
        )
    warn((*found.warnings, *([IMPOSSIBLE] if found.log_likelihood == -inf else [])))
    skipped = rows.unknown + rows.blank
    with pipes():
        if each is not None:
            put(_per_row(rows.kept, each), out, console)
        console.give(as_json(found, skipped), lambda: render(data, found, skipped, kind.noun))


def as_json(found: "LogLikelihood", skipped: int) -> dict[str, Any]:
    """The keys of ``csm evaluate --json``."""
    value = found.to_json()
    return {"rows": value.pop("rows"), "skipped": skipped, **value}


def render(data: str, found: "LogLikelihood", skipped: int, noun: str = "rows") -> str:
    """The numbers that are there, and one sentence on what they mean."""
    facts = [(key, _number(value)) for key, value in as_json(found, skipped).items() if value is not None]
    words = [MEANINGS.get(found.method, "")] + ([RAISE] if found.raise_ is not None else [])
    return "\n\n".join(
        [table(["fact", "value"], facts, f"{printable(data)}, nats per {noun.removesuffix('s')}:"), " ".join(words)]
    )


def _number(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _each(opened: Opened, states: Any) -> Any:
    """One log-likelihood a row; where there is none this says so, before the long work."""
    each = opened.fitted.row_log_likelihoods(states)
    if each is None:
        raise InputError(
            "a model with an exact log-likelihood of every row",
            "one that can only be bounded on average",
            where="--out",
            fix="leave --out, or fit a normalized model (made)",
        )
    return each


def _per_row(kept: Any, each: Any) -> Any:
    import polars as pl

    from concrete_score.data import as_frame

    return as_frame(pl.DataFrame({"row": kept.numpy(), "log_likelihood": each.double().numpy(force=True)}))
