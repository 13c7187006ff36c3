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
    from concrete_score.answers import Explanation


@click.command(
    epilog=examples(
        "csm explain runs/clinic new.csv",
        "csm explain runs/clinic new.csv --top 1 --out changes.csv",
        "csm explain runs/nltcs nltcs --unknown skip --json",
    )
)
@run_argument
@data_argument
@data_dir_option
@file_options
@missing_option
@unknown_option
@click.option("--top", metavar="K", type=click.IntRange(min=1), default=TOP, help=f"How many changes a row; {TOP}.")
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
    given = read_data(model, data, console, missing=missing, unknown=unknown, data_dir=data_dir, reading=reading)
    console.say(f"explaining {len(given.rows.kept)} {model.codec.noun} …")
    found = model.explanation(given, top)
    with pipes():
        if out is not None:
            console.put([found.frame()], out, "changes")
        value = {"rows": len(given.rows.kept), "skipped": given.skipped}
        if console.json or out is None:
            console.give({**value, "changes": found.to_json()}, lambda: render(data, found))


def render(data: str, found: "Explanation") -> str:
    """The changes as a table, with their ratios in plain words."""
    from concrete_score.answers import times_as_probable
    from concrete_score.codecs.columns import as_text

    lines = zip(found.row, found.column, found.before, found.after, found.log_ratio, strict=True)
    rows = [(r, c, as_text(a), as_text(b), f"{ratio:+.4f}", times_as_probable(ratio)) for r, c, a, b, ratio in lines]
    title = f"{printable(data)}: the changes that raise each row's probability most"
    return table(["row", "column", "from", "to", "log_ratio", "in words"], rows, title)
