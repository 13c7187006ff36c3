"""``csm diagnose``: what a table lets one learn through a neighborhood, and the health of a fitted run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from concrete_score.cli.console import (
    FILE_OPTIONS,
    Console,
    common_options,
    data_dir_option,
    examples,
    open_model,
    read_data,
    reading_options,
    table,
    unknown_option,
)
from concrete_score.errors import Command, InputError, Option, Part

if TYPE_CHECKING:
    from concrete_score.diagnostics import RowsDiagnosis, RunHealth


@click.command(
    epilog=examples(
        "csm diagnose clinic.csv",
        "csm diagnose nltcs:train --neighborhood hamming --json",
        "csm diagnose people.csv --bins age=10 --drop id",
        "csm diagnose runs/clinic --data clinic.csv",
    )
)
@click.argument("data", metavar="DATA|RUN")
@click.option(
    "--neighborhood",
    metavar="N",
    help="A name of 'csm list neighborhoods'; by default hamming, or what the score model of RUN was trained on.",
)
@click.option(
    "--data", "rows", metavar="DATA", help="With RUN: rows to hold the model against, such as those it learned from."
)
@data_dir_option
@reading_options
@unknown_option
@common_options
def diagnose(
    console: Console,
    data: str,
    neighborhood: str | None,
    rows: str | None,
    data_dir: str | None,
    unknown: str,
    reading: dict[str, Any],
) -> None:
    """Is the support of DATA one piece? Is the model of RUN sound? Numbers and a verdict.

    DATA is a file (CSV, TSV, Parquet, .data, .npy, .npz; each may be .gz), '-' for CSV on standard input, or
    NAME[:SPLIT] of 'csm data list'. For a RUN: whether the model's ratios contradict each other, whether it hides mass
    where training never looked, and whether chains mix on it; the second needs --data.
    """
    from concrete_score import runs

    if runs.exists(data):
        _of_run(console, Path(data), neighborhood, rows, data_dir, unknown, reading)
    elif rows is not None:
        fix = ("give the data alone, or a run of ", Command("fit"))
        raise InputError("a run directory with --data", repr(data), fix=fix)
    else:
        _of_data(console, data, neighborhood or "hamming", data_dir, reading)


def _of_data(console: Console, data: str, neighborhood: str, data_dir: str | None, reading: dict[str, Any]) -> None:
    console.use_torch()
    from concrete_score.codecs import codec_of
    from concrete_score.data import load
    from concrete_score.diagnostics import diagnose_rows

    options = {name: reading.pop(name) for name in FILE_OPTIONS}
    found = load(data, "test", data_dir=data_dir, options=options, say=console.say)
    kind = codec_of(found.kind)
    if kind.has_grid:
        fix = ("no two images differ in one pixel alone: learn from them with ", Command("fit"), ", then give the run")
        raise InputError("a table, or a run", kind.noun, where=data, fix=fix)
    codec = kind.infer(found, reading)
    # No model is at hand to fill blanks: what is connected is asked of the rows without any.
    refused = reading["missing"] in ("refuse", "category")
    rows = codec.encode(found, missing="refuse" if refused else "drop")
    if rows.blank:
        console.say(f"{rows.blank} {codec.noun} with blanks dropped")
    console.say(f"looking at {len(rows.kept)} {codec.noun} of {len(codec.names)} {codec.site_noun} …")
    labels = [codec.labels(d) for d in range(len(codec.names))]
    columns = [{"name": name, "kind": codec.site_kind(d), "size": len(labels[d])} for d, name in enumerate(codec.names)]
    diagnosis = diagnose_rows(rows.states, codec.space, neighborhood, columns)
    value = {"data": data, "dropped": rows.blank, **diagnosis.to_json()}
    _, heads, lines = codec.schema_table()
    kinds = {line[0]: line[heads.index("kind")] for line in lines} if "kind" in heads else {}
    console.give(value, lambda: render_rows(data, diagnosis, labels, kinds))


def _of_run(
    console: Console,
    path: Path,
    neighborhood: str | None,
    rows: str | None,
    data_dir: str | None,
    unknown: str,
    reading: dict[str, Any],
) -> None:
    missing, options = reading.pop("missing"), {name: reading.pop(name) for name in FILE_OPTIONS}
    if others := [Option(name) for name, value in reading.items() if value is not None]:
        allowed = (Option("missing", "drop"), " and ", Option("unknown", "skip"), " may be given")
        fix: tuple[Part, ...] = ("leave out ", *others, "; ", *allowed)
        raise InputError("the run's own columns", "other options", str(path), fix)
    from concrete_score.diagnostics import build_neighborhood, diagnose_run
    from concrete_score.diagnostics.mixing import KEPT

    model = open_model(path, console)
    states = None
    if rows is not None:
        how = {"missing": missing, "unknown": unknown, "data_dir": data_dir, "reading": options}
        given = read_data(model, rows, console, **how)
        states = given.rows.states.long().to(console.device)
        if not given.rows.observed.all():
            console.say("blanks are filled by draws of the model")
            observed = given.rows.observed.to(console.device)
            random, name = model.generator("fill"), given.row_name
            with given.named():
                states = model.fitted.impute(states, observed, random, draws=1, row_name=name).states[0]
    moves = None if neighborhood is None else build_neighborhood(neighborhood, model.codec.space)
    from_noise = model.fitted.draws_from_noise
    if from_noise:
        console.say("draws come down from noise through the levels, so no chains are run at the weakest one alone")
    kept, random = 0 if from_noise else KEPT, model.generator("diagnose")
    with console.progress("running chains") as progress:
        found = diagnose_run(model.fitted.model, states, moves, random, progress=progress, kept=kept)
    value = {
        "run": str(path),
        "data": rows,
        "rows": None if states is None else len(states),
        **found.to_json(),
        "draws_from_noise": from_noise,
        "verdict": found.verdict(from_noise),
    }
    console.give(value, lambda: render_run(str(path), found, from_noise))


def render_run(path: str, found: "RunHealth", from_noise: bool = False) -> str:
    """The health of a run as text."""
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
    return "\n\n".join([table(["fact", "value"], facts, f"{path}:"), *found.messages, found.verdict(from_noise)])


def render_rows(data: str, found: "RowsDiagnosis", labels: Sequence[tuple[str, ...]], kinds: Mapping[str, Any]) -> str:
    """The diagnosis of a table as text; ``labels`` are the values of each column, ``kinds`` what a fit calls them."""
    from concrete_score.diagnostics.support import SHOWN
    from concrete_score.spaces import describe_count

    support = found.support
    shares = ", ".join(f"{share:.4f}" for share in support.component_shares[:SHOWN])
    more = f", … ({support.num_components} in all)" if support.num_components > SHOWN else ""
    facts = [
        ("rows", f"{support.rows}"),
        ("distinct rows", f"{support.distinct}"),
        ("columns", f"{len(found.columns)}"),
        ("states", describe_count(found.space.num_states)),
        ("neighborhood", found.neighborhood),
        ("components", f"{support.num_components}"),
        ("their shares", shares + more),
        ("edges observed", f"{support.observed_edges} of {support.edges} ({support.observed_edge_share:.2%})"),
    ]
    columns = [
        (each["name"], kinds.get(each["name"], each["kind"]), each["size"], _few(values))
        for each, values in zip(found.columns, labels, strict=True)
    ]
    tables = [table(["column", "kind", "values", "such as"], columns, f"{data}:"), table(["fact", "value"], facts)]
    return "\n\n".join([*tables, found.message])


def _few(labels: tuple[str, ...]) -> str:
    return ", ".join(labels[:4]) + (", …" if len(labels) > 4 else "")
