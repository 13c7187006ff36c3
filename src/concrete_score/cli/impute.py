"""``csm impute``: blank cells or pixels filled by a fitted model."""

from pathlib import Path
from typing import Any

import click

from concrete_score.cli.console import (
    Console,
    common_options,
    data_argument,
    data_dir_option,
    examples,
    file_options,
    open_model,
    out_option,
    passes_option,
    pipes,
    read_data,
    run_argument,
    unknown_option,
)
from concrete_score.defaults import FILLS


@click.command(
    epilog=examples(
        "csm impute runs/clinic holes.csv > whole.csv",
        "csm impute runs/clinic holes.parquet --out whole.parquet",
        "csm impute runs/clinic holes.csv --draws 20 --seed 1 --out draws.csv",
        "csm impute runs/digits halves.npz --draws 8 --out painted.png",
    )
)
@run_argument
@data_argument
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
@out_option
@common_options
def impute(
    console: Console,
    path: Path,
    data: str,
    data_dir: str | None,
    unknown: str,
    reading: dict[str, Any],
    draws: int | None,
    probabilities: Path | None,
    fill: str,
    sampler: str | None,
    passes: int | None,
    out: Path | None,
) -> None:
    """Fill the blank cells of DATA: each with its most probable value given the cells that are there.

    Numbers and dates get the mean of their distribution, on the column's own grid (--fill). With --draws, M copies
    below one another, whose blanks are drawn together. All other cells, also of columns the model does not know, come
    out as they went in. Values never seen in training count as unobserved, and stay.

    In images (N, H, W) a blank pixel is NaN in an array of floats, -1 in one of whole numbers, or True in the array
    'mask' of an .npz file beside 'x'. Out come images, .png (with --draws a row of copies each), .npy or .npz. Known
    pixels are corrupted anew at every noise level: unadjusted, so approximate.
    """
    model = open_model(path, console)
    codec = model.codec
    console.refuse_output(out, codec.kind, codec.output_format)
    console.refuse_output(probabilities)
    given = read_data(model, data, console, filling=True, unknown=unknown, data_dir=data_dir, reading=reading)
    for note in codec.fill_notes():
        console.say(note)
    with console.progress("imputing") as progress:
        found = model.fill(given, draws, fill=fill, sampler=sampler, progress=progress, passes=passes)
    console.warn(found.warnings)
    cells = f"{found.cells} blank cell{'s' if found.cells > 1 else ''}"
    console.say(f"{cells} filled by {found.method}" if found.cells else "nothing is blank")
    if probabilities is not None:
        console.put([model.probabilities(given)], probabilities, "lines")
    with pipes():
        console.put([found.data], out, codec.noun)
        if console.json:
            value = codec.as_learned(found.data).to_json()
            console.give({**value, "filled": found.cells, "method": found.method}, str)
