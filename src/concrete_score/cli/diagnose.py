"""``csm diagnose``: what a table lets one learn through a neighborhood."""

from typing import TYPE_CHECKING

import click

from concrete_score.cli.options import Console, common_options, examples, table
from concrete_score.cli.table_options import TableWishes, data_dir_option, table_options

if TYPE_CHECKING:
    from concrete_score.data.diagnosis import TableDiagnosis


@click.command(
    epilog=examples(
        "csm diagnose clinic.csv",
        "csm diagnose nltcs:train --neighborhood hamming --json",
        "csm diagnose people.csv --bins age=10 --drop id --missing drop",
    )
)
@click.argument("data")
@click.option("--neighborhood", metavar="N", default="hamming", help="'csm list neighborhoods'; hamming by default.")
@data_dir_option
@table_options
@common_options
def diagnose(console: Console, data: str, neighborhood: str, data_dir: str | None, wishes: TableWishes) -> None:
    """Is the support of DATA one piece? Rows, sizes, components and a verdict in plain words.

    DATA is a file (CSV, TSV, Parquet, .data, .npy, .npz; each may be .gz), '-' for CSV on standard input, or
    NAME[:SPLIT] of 'csm data list'.
    """
    options = wishes.options()
    console.use_torch()
    from concrete_score.data import TableCodec, load_table
    from concrete_score.data.diagnosis import diagnose_table

    frame = load_table(data, data_dir=data_dir, say=console.say)
    codec = TableCodec.fit(frame, options)
    rows = codec.encode_rows(frame, missing="drop" if wishes.missing == "drop" else "refuse")
    if rows.blank:
        console.say(f"{rows.blank} rows with blanks dropped")
    console.say(f"looking at {len(rows.kept)} rows of {len(codec.sites)} columns …")
    found = diagnose_table(codec, rows.encoded.states, neighborhood)
    console.give({"data": data, "dropped": rows.blank, **found.to_json()}, lambda: render(data, found))


def render(data: str, found: "TableDiagnosis") -> str:
    """The diagnosis for reading."""
    from concrete_score.data.diagnosis import SHOWN
    from concrete_score.spaces import describe_count

    support, sites = found.support, found.codec.sites
    shares = ", ".join(f"{share:.4f}" for share in support.component_shares[:SHOWN])
    more = f", … ({support.num_components} in all)" if support.num_components > SHOWN else ""
    facts = [
        ("rows", f"{support.rows}"),
        ("distinct rows", f"{support.distinct}"),
        ("columns", f"{len(sites)}"),
        ("states", describe_count(found.codec.space.num_states)),
        ("neighborhood", found.neighborhood),
        ("components", f"{support.num_components}"),
        ("their shares", shares + more),
        ("edges observed", f"{support.observed_edges} of {support.edges} ({support.observed_edge_share:.2%})"),
    ]
    columns = [(site.name, site.kind, site.size, _few(site.labels)) for site in sites]
    return "\n\n".join(
        [
            table(["column", "kind", "values", "such as"], columns, f"{data}:"),
            table(["fact", "value"], facts),
            found.words,
        ]
    )


def _few(labels: tuple[str, ...]) -> str:
    return ", ".join(labels[:4]) + (", …" if len(labels) > 4 else "")
