"""``csm diagnose``: what a table lets one learn through a neighborhood, and the health of a fitted run."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from concrete_score.cli.options import Console, common_options, examples, table
from concrete_score.cli.table_options import TableWishes, data_dir_option, table_options, unknown_option
from concrete_score.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from concrete_score.cli.open_run import Opened
    from concrete_score.data.diagnosis import TableDiagnosis
    from concrete_score.report import RunHealth


@click.command(
    epilog=examples(
        "csm diagnose clinic.csv",
        "csm diagnose nltcs:train --neighborhood hamming --json",
        "csm diagnose people.csv --bins age=10 --drop id --missing drop",
        "csm diagnose runs/clinic --data clinic.csv",
    )
)
@click.argument("data", metavar="DATA|RUN")
@click.option(
    "--neighborhood",
    metavar="N",
    help="'csm list neighborhoods'; by default hamming, or what the score model of RUN was trained on.",
)
@click.option("--data", "rows", metavar="DATA", help="With RUN: rows to look at the model from, such as its own.")
@data_dir_option
@table_options
@unknown_option
@common_options
def diagnose(
    console: Console,
    data: str,
    neighborhood: str | None,
    rows: str | None,
    data_dir: str | None,
    unknown: str,
    wishes: TableWishes,
) -> None:
    """Is the support of DATA one piece? Is the model of RUN sound? Numbers, and a verdict in plain words.

    DATA is a file (CSV, TSV, Parquet, .data, .npy, .npz; each may be .gz), '-' for CSV on standard input, or
    NAME[:SPLIT] of 'csm data list'. Of a RUN it is told whether the model's ratios contradict each other, whether it
    hides mass where training never looked, and whether chains mix on it; the second needs --data.
    """
    from concrete_score import runs

    if runs.exists(data):
        _of_run(console, Path(data), neighborhood, rows, data_dir, unknown, wishes)
    elif rows is not None:
        raise InputError("a run directory with --data", repr(data), fix="give the data alone, or a run of csm fit")
    else:
        _of_table(console, data, neighborhood or "hamming", data_dir, wishes)


def _of_table(console: Console, data: str, neighborhood: str, data_dir: str | None, wishes: TableWishes) -> None:
    options = wishes.options()
    console.use_torch()
    from concrete_score.cli.kinds import KINDS, kind_of
    from concrete_score.data import TableCodec
    from concrete_score.data.diagnosis import diagnose_table

    if kind_of(data) is not KINDS["table"]:
        fix = "no two pictures differ in one pixel alone: learn from them (csm fit), then give the run"
        raise InputError("a table, or a run", "pictures", where=data, fix=fix)
    frame = KINDS["table"].load(data, "test", data_dir, console.say)
    codec = TableCodec.fit(frame, options)
    rows = codec.encode_rows(frame, missing="drop" if wishes.missing == "drop" else "refuse")
    if rows.blank:
        console.say(f"{rows.blank} rows with blanks dropped")
    console.say(f"looking at {len(rows.kept)} rows of {len(codec.sites)} columns …")
    found = diagnose_table(codec, rows.encoded.states, neighborhood)
    console.give({"data": data, "dropped": rows.blank, **found.to_json()}, lambda: render(data, found))


def _of_run(
    console: Console,
    path: Path,
    neighborhood: str | None,
    rows: str | None,
    data_dir: str | None,
    unknown: str,
    wishes: TableWishes,
) -> None:
    if wishes._replace(missing="refuse") != TableWishes.none() or wishes.missing == "category":
        fix = "leave --columns, --drop, --bins, --na and --max-categories out; --missing drop and --unknown skip serve"
        raise InputError("the run's own columns", "other table options", where=str(path), fix=fix)
    from concrete_score.cli.open_run import open_run
    from concrete_score.cli.output import counting
    from concrete_score.data.diagnosis import build
    from concrete_score.report import diagnose_run
    from concrete_score.report.mixing import KEPT

    opened = open_run(path, console)
    states = None if rows is None else _states(console, opened, rows, data_dir, unknown, wishes.missing)
    moves = None if neighborhood is None else build(neighborhood, opened.codec.space)
    from_noise = opened.fitted.draws_from_noise
    if from_noise:
        console.say("draws come down from noise through the levels, so no chains are run at the weakest one alone")
    kept, gen = 0 if from_noise else KEPT, opened.generator("diagnose")
    with counting(console, "running chains") as progress:
        found = diagnose_run(opened.fitted.model, states, moves, gen, progress=progress, kept=kept)
    value = {
        "run": str(path),
        "data": rows,
        "rows": None if states is None else len(states),
        **found.to_json(),
        "draws_from_noise": from_noise,
        "verdict": _verdict(found, from_noise),
    }
    console.give(value, lambda: render_run(str(path), found, from_noise))


def _states(
    console: Console, opened: "Opened", data: str, data_dir: str | None, unknown: str, missing: str
) -> "Tensor":
    found = opened.kind.load(data, "test", data_dir, console.say)
    rows = opened.kind.rows(opened.codec, found, missing, unknown, console)
    return rows.encoded.states.long().to(opened.device)


def render_run(path: str, found: "RunHealth", from_noise: bool = False) -> str:
    """The health of a run for reading."""
    facts: list[tuple[str, str]] = []
    agreement, leak, chains = found.consistency, found.leak, found.mixing
    if not agreement.by_construction:
        named = {"edges": agreement.mean, "paths": agreement.paths, "best fit": agreement.misfit}
        facts += [(f"contradiction, {k}", f"{v:.3g} nats") for k, v in named.items() if v is not None]
    if leak is not None:
        facts += [
            ("draws neither data nor next to it", f"{leak.model:.2%}"),
            ("held-out rows likewise", f"{leak.held_out:.2%}"),
        ]
    if chains is not None:
        facts += [
            ("kernel", chains.kernel),
            ("moves accepted", f"{chains.diagnosis.acceptance:.1%}"),
            ("R-hat", f"{chains.r_hat:.3f}"),
            ("effective draws", f"{chains.ess:.0f} of {chains.diagnosis.chains * chains.diagnosis.draws}"),
        ]
    return "\n\n".join([table(["fact", "value"], facts, f"{path}:"), *found.words, _verdict(found, from_noise)])


def _verdict(found: "RunHealth", from_noise: bool) -> str:
    if found.healthy:
        return "Nothing speaks against this model."
    if from_noise:
        return "Do not trust its ratios as they are; the reverse noise chain, by which it draws, does not need them."
    return "Do not trust this model as it is."


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
