"""``csm explain``: for each row, the single changes that raise its probability most."""

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
from concrete_score.defaults import TOP
from concrete_score.errors import printable

if TYPE_CHECKING:
    from concrete_score.answers import Explanation, Given
    from concrete_score.codecs import Codec
    from concrete_score.model import Model


@click.command(
    epilog=examples(
        "csm explain runs/clinic new.csv",
        "csm explain runs/clinic new.csv --top 1 --out changes.csv",
        "csm explain runs/nltcs nltcs --unknown skip --json",
        "csm explain runs/family wild.fasta --all --out effects.csv",
    )
)
@run_argument
@data_argument
@data_dir_option
@file_options
@missing_option
@unknown_option
@click.option("--top", metavar="K", type=click.IntRange(min=1), default=TOP, help=f"How many changes a row; {TOP}.")
@click.option("--all", "every", is_flag=True, help="Every change; with --out FILE.csv also a heat map, FILE.png.")
@out_option
@common_options
def explain(
    console: Console,
    path: Path,
    data: str,
    data_dir: str | None,
    missing: str | None,
    unknown: str,
    reading: dict[str, Any],
    top: int,
    every: bool,
    out: Path | None,
) -> None:
    """What single change of a cell would make each row of DATA more probable, and by how much?

    Changes are listed by falling log-ratio, log p(changed row) - log p(row); a negative one makes the row less
    probable. Rows are counted from 0. A large first one marks a cell that looks wrong. Of images the cells are pixels,
    named row,column; a model with noise levels answers for its weakest noise. Blank cells are not changed: the others'
    ratios are means over what may stand there.
    """
    model = open_model(path, console)
    console.refuse_output(out)
    drawn = out.with_suffix(".png") if every and out is not None and _same_letters(model.codec) else None
    console.refuse_output(drawn, "image")
    given = read_data(model, data, console, missing=missing, unknown=unknown, data_dir=data_dir, reading=reading)
    console.say(f"explaining {len(given.rows.kept)} {model.codec.noun} …")
    with console.progress("explaining") as progress:
        found = model.explanation(given, sum(model.codec.space.sizes) if every else top, progress)
    with pipes():
        if out is not None:
            console.put([found.frame()], out, "changes")
        if drawn is not None:
            _draw(model, given, drawn, console)
        value = {"rows": len(given.rows.kept), "skipped": given.skipped}
        if console.json or out is None:
            console.give({**value, "changes": found.to_json()}, lambda: render(data, found))


def _same_letters(codec: "Codec") -> bool:
    """Whether every site has the same values."""
    letters = codec.labels(0)
    return all(codec.labels(site) == letters for site in range(len(codec.names)))


def _draw(model: "Model", given: "Given", path: Path, console: Console) -> None:
    """The heat map of the first row."""
    from math import nan

    import numpy as np

    from concrete_score.files import atomic
    from concrete_score.report.maps import heat_map

    codec = model.codec
    letters = codec.labels(0)
    rows = given.rows
    first = given._replace(rows=rows._replace(states=rows.states[:1], observed=rows.observed[:1], kept=rows.kept[:1]))
    own = rows.states[0].tolist()
    effect = model.log_ratios(first).reshape(len(own), len(letters)).copy()
    effect[np.arange(len(own)), own] = nan
    with atomic(path, force=console.force) as draft:
        draft.write_bytes(heat_map(effect, codec.names, letters, own))
    console.say(f"heat map: {path}")


def render(data: str, found: "Explanation") -> str:
    """The changes as a table, with their ratios in plain words."""
    from concrete_score.answers import times_as_probable
    from concrete_score.codecs.columns import as_text

    lines = zip(found.row, found.column, found.before, found.after, found.log_ratio, strict=True)
    rows = [(r, c, as_text(a), as_text(b), f"{ratio:+.4f}", times_as_probable(ratio)) for r, c, a, b, ratio in lines]
    title = f"{printable(data)}: the single changes that leave each row most probable"
    return table(["row", "column", "from", "to", "log_ratio", "in words"], rows, title)
