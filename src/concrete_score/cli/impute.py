"""``csm impute``: blank cells filled by a fitted model."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from concrete_score.cli.open_run import Opened, open_run, renumbered, rows_of_file, run_argument
from concrete_score.cli.options import Console, common_options, examples
from concrete_score.cli.output import counting, out_option, pipes, put, refuse_output, warn
from concrete_score.cli.sample import check_sampler
from concrete_score.cli.table_options import data_dir_option, unknown_option

if TYPE_CHECKING:
    from concrete_score.cli.fill_blanks import Original
    from concrete_score.data import Frame, Rows


@click.command(
    epilog=examples(
        "csm impute runs/clinic holes.csv > whole.csv",
        "csm impute runs/clinic holes.parquet --out whole.parquet",
        "csm impute runs/clinic holes.csv --draws 20 --seed 1 --out draws.csv",
    )
)
@run_argument
@click.argument("data", metavar="DATA")
@data_dir_option
@unknown_option
@click.option(
    "--draws", metavar="M", type=click.IntRange(min=1), help="M completed copies, drawn; the first column counts them."
)
@click.option("--sampler", metavar="K", help="A name of 'csm list kernels', where the blanks cannot be enumerated.")
@out_option
@common_options
def impute(
    console: Console,
    path: Path,
    data: str,
    data_dir: str | None,
    unknown: str,
    draws: int | None,
    sampler: str | None,
    out: Path | None,
) -> None:
    """Fill the blank cells of DATA: each with its most probable value given the cells that are there.

    With --draws, M copies below one another, whose blanks are drawn together. All other cells, also of columns the
    model does not know, come out as they went in. Rows with values never seen in training are refused, or with
    --unknown skip left as they are.
    """
    opened = open_run(path, console)
    refuse_output(out, opened.codec.form, console)
    check_sampler(sampler)
    from concrete_score.cli.fill_blanks import read_original, refuse_draw_column

    original = read_original(data, data_dir, console)
    refuse_draw_column(original.frame, draws)
    rows = opened.codec.encode_rows(original.frame, missing="keep", unknown=unknown)
    if rows.unknown:
        console.say(f"{rows.unknown} rows with values never seen in training left as they are")
    if valued := [site.name for site in opened.codec.sites if site.blank]:
        console.say(f"left as they are, for blank was a value in training: {', '.join(valued)}")
    count = int((~rows.encoded.observed).sum())
    frame, method = _filled(opened, original, rows, draws, sampler, console)
    console.say(f"{count} cells filled by {method}" if count else "no blank cells: nothing to fill")
    with pipes():
        put(frame, out, console)
        if console.json:
            value = {"columns": list(frame.names), "rows": frame.rows(), "filled": count, "method": method}
            console.give(value, str)


def _filled(
    opened: Opened, original: "Original", rows: "Rows", draws: int | None, sampler: str | None, console: Console
) -> "tuple[Frame, str | None]":
    """The table without its blanks, and how they were filled; None where there were none."""
    from concrete_score.cli.fill_blanks import Blanks, fill

    states, observed, kept = rows.encoded.states, rows.encoded.observed, rows.kept
    holes = ~observed.all(1)
    if not holes.any():
        return fill(original, {}, draws), None
    given, known = (part[holes].to(opened.device) for part in (states, observed))
    with counting(console, "imputing") as progress, rows_of_file(original.frame.where, kept[holes]):
        found = opened.fitted.impute(
            given, known, opened.generator("impute"), draws=draws, sampler=sampler, progress=progress
        )
    warn([renumbered(warning, kept[holes]) for warning in found.warnings])
    copies = found.states.reshape(draws or 1, -1, states.shape[1]).cpu()
    blanks = {}
    for d, (name, site) in enumerate(zip(_names(original, opened), opened.codec.sites, strict=True)):
        known = observed[:, d]
        values = copies[:, ~known[holes], d]
        there = (kept[~known], values, kept[known], states[known, d].long())
        blanks[name] = Blanks(site, *(each.numpy() for each in there))
    return fill(original, {name: each for name, each in blanks.items() if len(each.rows)}, draws), found.method


def _names(original: "Original", opened: Opened) -> tuple[str, ...]:
    """The table's names of the model's columns; by place where it has none."""
    names = opened.codec.names
    return names if set(names) <= set(original.frame.names) else original.frame.names
