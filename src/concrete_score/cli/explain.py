"""``csm explain``: for each row, the single changes that raise its probability most."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from concrete_score.cli.open_run import Opened, missing_option, open_run, rows_of_file, run_argument
from concrete_score.cli.options import Console, common_options, examples
from concrete_score.cli.output import long_table, out_option, pipes, put, refuse_output
from concrete_score.cli.table_options import data_dir_option, unknown_option
from concrete_score.cli.words import in_words
from concrete_score.errors import printable

if TYPE_CHECKING:
    from concrete_score.data import Frame


@click.command(
    epilog=examples(
        "csm explain runs/clinic new.csv",
        "csm explain runs/clinic new.csv --top 1 --out changes.csv",
        "csm explain runs/nltcs nltcs --unknown skip --json",
    )
)
@run_argument
@click.argument("data", metavar="DATA")
@data_dir_option
@missing_option
@unknown_option
@click.option("--top", metavar="K", type=click.IntRange(min=1), default=3, help="How many changes a row; 3.")
@out_option
@common_options
def explain(
    console: Console,
    path: Path,
    data: str,
    data_dir: str | None,
    missing: str,
    unknown: str,
    top: int,
    out: Path | None,
) -> None:
    """What single change of a cell would make each row of DATA more probable, and by how much?

    Changes are listed by falling log-ratio, log p(changed row) - log p(row); a negative one makes the row less
    probable. Rows are counted from 0. A large first one marks a cell that looks wrong. Of pictures the cells are
    pixels, named row,column; a model with noise levels answers for its weakest noise.
    """
    opened = open_run(path, console)
    kind = opened.kind
    refuse_output(out, kind.form(opened.codec), console)
    frame = kind.load(data, "test", data_dir, console.say)
    rows = kind.rows(opened.codec, frame, missing, unknown, console)
    console.say(f"explaining {len(rows.kept)} {kind.noun} …")
    with rows_of_file(frame.where, rows.kept):
        found = opened.fitted.explain(rows.encoded.states.to(opened.device), top)
    changes = _decoded(opened, rows.kept, found)
    with pipes():
        if out is not None:
            put(changes.frame(), out, console)
        value = {"rows": len(rows.kept), "skipped": rows.unknown + rows.blank}
        if console.json or out is None:
            console.give({**value, "changes": changes.to_json()}, lambda: changes.render(data))


class Decoded(NamedTuple):
    """Changes in the words of the table, one a line."""

    row: list[int]
    column: list[str]
    before: list[Any]
    after: list[Any]
    log_ratio: list[float]

    def to_json(self) -> list[dict[str, Any]]:
        """One object a change."""
        names = ("row", "column", "from", "to", "log_ratio")
        return [dict(zip(names, line, strict=True)) for line in zip(*self, strict=True)]

    def frame(self) -> "Frame":
        """The same as a table to write."""
        import polars as pl

        from concrete_score.data import as_frame

        text = {"from": [_text(each) for each in self.before], "to": [_text(each) for each in self.after]}
        return as_frame(
            pl.DataFrame({"row": self.row, "column": self.column, **text, "log_ratio": self.log_ratio}, strict=False)
        )

    def render(self, data: str) -> str:
        """For reading."""
        rows = [
            (row, column, _text(before), _text(after), f"{ratio:+.4f}", in_words(ratio))
            for row, column, before, after, ratio in zip(*self, strict=True)
        ]
        title = f"{printable(data)}: the changes that raise each row's probability most"
        return long_table(["row", "column", "from", "to", "log_ratio", "in words"], rows, title)


def _decoded(opened: Opened, kept: Any, found: Any) -> Decoded:
    codec, values, sites = opened.codec, opened.kind.values(opened.codec), found.site.tolist()
    return Decoded(
        kept[found.row.cpu()].tolist(),
        [codec.names[site] for site in sites],
        [values[site][value] for site, value in zip(sites, found.value_from.tolist(), strict=True)],
        [values[site][value] for site, value in zip(sites, found.value_to.tolist(), strict=True)],
        found.log_ratio.double().tolist(),
    )


def _text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
