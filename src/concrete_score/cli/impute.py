"""``csm impute``: blank cells or pixels filled by a fitted model."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from concrete_score.cli.fill_pictures import fill_pictures
from concrete_score.cli.open_run import Opened, Wish, open_run, renumbered, rows_of_file, run_argument
from concrete_score.cli.options import Console, common_options, examples
from concrete_score.cli.output import counting, out_option, pipes, put, warn
from concrete_score.cli.sample import check_sampler, passes_option
from concrete_score.cli.table_options import data_dir_option, unknown_option

if TYPE_CHECKING:
    from concrete_score.cli.fill_blanks import Original
    from concrete_score.data import Frame, Rows


@click.command(
    epilog=examples(
        "csm impute runs/clinic holes.csv > whole.csv",
        "csm impute runs/clinic holes.parquet --out whole.parquet",
        "csm impute runs/clinic holes.csv --draws 20 --seed 1 --out draws.csv",
        "csm impute runs/digits halves.npz --draws 8 --out painted.png",
    )
)
@run_argument
@click.argument("data", metavar="DATA")
@data_dir_option
@unknown_option
@click.option(
    "--draws", metavar="M", type=click.IntRange(min=1), help="M completed copies, drawn; the first column counts them."
)
@click.option(
    "--sampler",
    metavar="K",
    help="A name of 'csm list kernels', where blanks cannot be enumerated; with noise levels, of 'csm list annealing'.",
)
@passes_option
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
    passes: int | None,
    out: Path | None,
) -> None:
    """Fill the blank cells of DATA: each with its most probable value given the cells that are there.

    With --draws, M copies below one another, whose blanks are drawn together. All other cells, also of columns the
    model does not know, come out as they went in. Rows with values never seen in training are refused, or with
    --unknown skip left as they are.

    In pictures (N, H, W) a blank pixel is NaN in an array of floats, -1 in one of whole numbers, or True in the array
    'mask' of an .npz file beside 'x'. Out come pictures, .png (with --draws a row of copies each), .npy or .npz. Known
    pixels are corrupted anew at every noise level: unadjusted, so approximate.
    """
    opened = open_run(path, console)
    opened.kind.refuse_output(out, opened.codec, console)
    check_sampler(sampler)
    _FILLERS[opened.codec.kind](opened, Wish(data, data_dir, unknown, draws, sampler, passes), out, console)


def _fill_table(opened: Opened, wish: Wish, out: Path | None, console: Console) -> None:
    from concrete_score.cli.fill_blanks import read_original, refuse_draw_column

    original = read_original(opened.kind, wish.data, wish.data_dir, console)
    refuse_draw_column(original.frame, wish.draws)
    rows = opened.codec.encode_rows(original.frame, missing="keep", unknown=wish.unknown)
    if rows.unknown:
        console.say(f"{rows.unknown} rows with values never seen in training left as they are")
    if valued := [site.name for site in opened.codec.sites if site.blank]:
        console.say(f"left as they are, for blank was a value in training: {', '.join(valued)}")
    count = int((~rows.encoded.observed).sum())
    frame, method = _filled(opened, original, rows, wish, console)
    console.say(f"{count} cells filled by {method}" if count else "no blank cells: nothing to fill")
    with pipes():
        put(frame, out, console)
        if console.json:
            value = {
                "columns": list(frame.names),
                "rows": _as_learned(frame, original, opened),
                "filled": count,
                "method": method,
            }
            console.give(value, str)


_FILLERS = {"table": _fill_table, "image": fill_pictures}


def _filled(
    opened: Opened, original: "Original", rows: "Rows", wish: Wish, console: Console
) -> "tuple[Frame, str | None]":
    """The table without its blanks, and how they were filled; None where there were none."""
    from concrete_score.cli.fill_blanks import Blanks, fill

    states, observed, kept, draws = rows.encoded.states, rows.encoded.observed, rows.kept, wish.draws
    holes = ~observed.all(1)
    if not holes.any():
        return fill(original, {}, draws), None
    given, known = (part[holes].to(opened.device) for part in (states, observed))
    with counting(console, "imputing") as progress, rows_of_file(original.frame.where, kept[holes]):
        found = opened.fitted.impute(
            given,
            known,
            opened.generator("impute"),
            draws=draws,
            sampler=wish.sampler,
            progress=progress,
            passes=wish.passes,
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


def _as_learned(frame: "Frame", original: "Original", opened: Opened) -> list[tuple[object, ...]]:
    """The table's rows; words that are a learned number or truth value as such, as ``csm sample`` gives them."""
    sites = dict(zip(_names(original, opened), opened.codec.sites, strict=True))
    columns = []
    for column in frame.columns:
        cells: list[Any] = column.cells().to_list()
        site = sites.get(column.name)
        learned = {} if site is None else site.learned({cell for cell in cells if isinstance(cell, str)})
        columns.append([learned.get(cell, cell) for cell in cells])
    return list(zip(*columns, strict=True))


def _names(original: "Original", opened: Opened) -> tuple[str, ...]:
    """The table's names of the model's columns; by place where it has none."""
    names = opened.codec.names
    return names if set(names) <= set(original.frame.names) else original.frame.names
