"""``csm impute``: blank cells or pixels filled by a fitted model."""

from collections.abc import Iterator
from contextlib import closing
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
    open_data,
    open_model,
    out_option,
    passes_option,
    pipes,
    refuse_own_input,
    rows_of,
    run_argument,
    unknown_option,
)
from concrete_score.defaults import FILLS
from concrete_score.errors import InputError, Option

if TYPE_CHECKING:
    from concrete_score.answers import Filled
    from concrete_score.blocks import FilledBlock
    from concrete_score.model import Model


@click.command(
    epilog=examples(
        "csm impute runs/clinic holes.csv > whole.csv",
        "csm impute runs/clinic holes.parquet --out whole.parquet",
        "csm impute runs/clinic holes.csv --draws 20 --seed 1 --out draws.csv",
        "csm impute runs/clinic months/ --jobs 4 --out whole.parquet",
        "csm impute runs/digits halves.npz --draws 8 --out painted.png",
    )
)
@run_argument
@data_arguments
@data_dir_option
@file_options
@unknown_option
@click.option(
    "--draws", metavar="M", type=click.IntRange(min=1), help="M completed copies, drawn; the first column counts them."
)
@click.option(
    "--probabilities",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Also write the distribution of every blank cell: row, column, value, probability.",
)
@click.option(
    "--fill",
    type=click.Choice(FILLS),
    default=FILLS[0],
    help="What fills a number or date: the mean (the default), median or mode of its distribution given the rest.",
)
@click.option(
    "--sampler",
    metavar="K",
    help="A name of 'csm list kernels', or of 'csm list annealing' for a model with noise levels; by default the best.",
)
@passes_option
@jobs_option
@out_option
@common_options
def impute(
    console: Console,
    path: Path,
    data: tuple[str, ...],
    data_dir: str | None,
    unknown: str,
    reading: dict[str, Any],
    draws: int | None,
    probabilities: Path | None,
    fill: str,
    sampler: str | None,
    passes: int | None,
    jobs: int,
    out: Path | None,
) -> None:
    """Fill the blank cells of DATA: each with its most probable value given the cells that are there.

    Numbers and dates get the mean of their distribution, on the column's own grid (--fill). With --draws, M copies
    below one another, whose blanks are drawn together. All other cells, also of columns the model does not know, come
    out as they went in. Values never seen in training count as unobserved, and stay. Several files of the same columns,
    or a folder of them, are one table; large ones are read, filled and written in parts.

    In images (N, H, W) a blank pixel is NaN in an array of floats, -1 in one of whole numbers, or True in the array
    'mask' of an .npz file beside 'x'. Out come images, .png (with --draws a row of copies each), .npy or .npz. Known
    pixels are corrupted anew at every noise level: unadjusted, so approximate.
    """
    model = open_model(path, console)
    codec = model.codec
    console.refuse_output(out, codec.kind, codec.output_format)
    console.refuse_output(probabilities)
    if out is not None and probabilities is not None and out.resolve() == probabilities.resolve():
        raise InputError("another file than the filled table", str(out), Option("probabilities"), "choose another")
    source = open_data(model, data, console, filling=True, unknown=unknown, data_dir=data_dir, reading=reading)
    refuse_own_input(source, out, probabilities)
    for note in codec.fill_notes():
        console.say(note)
    how: dict[str, Any] = {"fill": fill, "sampler": sampler, "passes": passes, "jobs": jobs}
    if hasattr(source, "parts"):
        _impute_parts(model, source, console, draws, {**how, "unknown": unknown}, out)
    else:
        with console.progress("imputing") as progress:
            found = model.fill(source, draws, progress=progress, **how)
        _say_how(console, found)
        with pipes():
            console.put([found.data], out, codec.noun)
            if console.json:
                value = codec.as_learned(found.data).to_json()
                console.give({**value, "filled": found.cells, "method": found.method}, str)
    if probabilities is not None:
        with console.progress("telling probabilities") as progress:
            parts = model.probability_parts(rows_of(source, progress), jobs=jobs, unknown=unknown)
            with closing(parts):
                console.put(parts, probabilities, "lines")


def _impute_parts(
    model: "Model", source: Any, console: Console, draws: int | None, how: dict[str, Any], out: Path | None
) -> None:
    """Fill a table that is read in parts, and write it in parts; only its summary is kept."""
    from concrete_score.answers import Counted, filled_together
    from concrete_score.blocks import joined_copies
    from concrete_score.data.spool import Spool

    if console.json:
        fix = ("leave it out, and give ", Option("out"))
        raise InputError("a table that is read at once", "a large one", Option("json"), fix)
    ways, counted = [], Counted()

    def tables(blocks: "Iterator[FilledBlock]") -> "Iterator[Any]":
        nonlocal counted
        for block in blocks:
            counted = counted.plus(block.counted)
            ways.append(block.filled._replace(data=None))
            ways[:] = [filled_together(ways)]
            yield block.filled.data

    with console.progress("imputing") as progress, pipes():
        blocks = model.filled(rows_of(source, progress), draws, **how)
        with closing(blocks):
            data: Any = tables(blocks)
            if draws is not None:
                spool = Spool(None if out is None else out.absolute().parent)
                for part in data:
                    spool.add(part)
                data = joined_copies(spool, draws)
            console.put(data, out, model.codec.noun)
    for note in counted.notes(model.codec.noun, filling=True):
        console.say(note)
    _say_how(console, ways[0])


def _say_how(console: Console, found: "Filled") -> None:
    console.warn(found.warnings)
    cells = f"{found.cells} blank cell{'s' if found.cells > 1 else ''}"
    console.say(f"{cells} filled by {found.method}" if found.cells else "nothing is blank")
