"""``csm show``: what a run is made of, with every file of it verified."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from concrete_score.cli.console import (
    Console,
    common_options,
    data_dir_option,
    examples,
    file_options,
    pipes,
    run_argument,
    table,
    unknown_option,
)
from concrete_score.errors import printable

COUPLINGS = 20
"""How many of the strongest are listed."""

if TYPE_CHECKING:
    from concrete_score.runs import Run


@click.command(
    epilog=examples("csm show runs/clinic", "csm show runs/clinic --json", "csm show runs/clinic --report clinic.csv")
)
@run_argument
@click.option(
    "--contacts",
    metavar="FILE.png",
    type=click.Path(path_type=Path),
    help="Of a model of pairs: draw how strongly all pairs of sites are coupled.",
)
@click.option("--report", metavar="DATA", help="Write RUN/report.html again, from the data RUN learned from.")
@click.option("--valid", metavar="FILE", help="With --report: the held-out rows, if csm fit was given some.")
@unknown_option
@data_dir_option
@file_options
@common_options
def show(console: Console, /, path: Path, report: str | None, contacts: Path | None, **given: Any) -> None:
    """The columns or images, configuration, measurements and files of RUN, each file checked against its digest.

    Of a Potts model also the strongest couplings between two sites, average-product-corrected.
    """
    from concrete_score import runs

    run = runs.open(path)
    if report is not None:
        _write_report(run, report, given, console)
    with runs.untrusted(run):
        value = describe(run)
        schema = run.codec.schema_table()
        if contacts is not None:
            _draw_contacts(run, contacts, console)
    with pipes():
        console.give(value, lambda: render(value, schema))


def describe(run: "Run") -> dict[str, Any]:
    """All of it as plain values.

    Raises:
        InputError: a file is damaged or of another run; it is named.
    """
    from concrete_score.runs import REPORT

    codec, info = run.codec, run.info
    verified = dict.fromkeys(run.verify(), True)
    # Nothing depends on the report, so nothing verifies it.
    verified |= {REPORT: False} if (run.path / REPORT).exists() else {}
    files = [
        {"name": name, "bytes": (run.path / name).stat().st_size, "verified": checked}
        for name, checked in verified.items()
    ]
    return {
        "run": str(run.path),
        "id": run.id,
        "created": info["created"],
        "versions": dict(info["versions"]),
        "seed": info["seed"],
        "data": dict(info["data"]),
        "kind": codec.kind,
        **codec.schema(),
        "config": run.config,
        "metrics": _metrics(run),
        **_couplings(run),
        "files": files,
    }


def _couplings(run: "Run") -> dict[str, Any]:
    """The strongest couplings of a model of pairs, falling; nothing for other models."""
    import torch

    strengths = _strengths(run)
    if strengths is None:
        return {}
    names = run.codec.names
    first, second = torch.triu_indices(len(strengths), len(strengths), offset=1)
    found = strengths[first, second].topk(min(COUPLINGS, len(first)))
    pairs = zip(first[found.indices].tolist(), second[found.indices].tolist(), found.values.tolist(), strict=True)
    return {"couplings": [{"first": names[d], "second": names[e], "strength": value} for d, e, value in pairs]}


def _strengths(run: "Run") -> Any:
    from concrete_score.models.potts import Potts, coupling_strengths
    from concrete_score.runs import MODEL

    model = run.model() if (run.path / MODEL).exists() else None
    return coupling_strengths(model) if isinstance(model, Potts) else None


def _draw_contacts(run: "Run", path: Path, console: Console) -> None:
    from concrete_score.errors import InputError, Option
    from concrete_score.files import atomic
    from concrete_score.report.maps import contact_map

    strengths = _strengths(run)
    if strengths is None:
        raise InputError("a fitted model of pairs, such as potts", "another", Option("contacts"), "leave it out")
    with atomic(path, force=console.force) as draft:
        draft.write_bytes(contact_map(strengths, run.codec.names))
    console.say(f"contacts: {path}")


def render(value: dict[str, Any], schema: tuple[str, Any, Any]) -> str:
    """The same for reading."""
    from concrete_score.files import flat

    about = [(key, value[key]) for key in ("id", "created", "seed")]
    # Which cells are blank together is lists of column numbers.
    about += [*flat(value["versions"], "versions."), *flat({**value["data"], "blanks": None}, "data.")]
    settings = [(_as_set(name), text) for name, text in flat(value["config"])]
    checked = {True: "yes", False: "not checked"}
    files = [(each["name"], f"{each['bytes']:,}", checked[each["verified"]]) for each in value["files"]]
    title, heads, rows = schema
    pairs = [(each["first"], each["second"], f"{each['strength']:.4f}") for each in value.get("couplings", [])]
    coupled = [table(["site", "site", "strength"], pairs, "Strongest couplings:")] if pairs else []
    return "\n\n".join(
        [
            table(["fact", "value"], about, f"{printable(value['run'])}:"),
            table(heads, rows, title),
            table(["setting", "value"], settings, "Configuration:"),
            table(["measure", "value"], flat(value["metrics"]), "Metrics:"),
            *coupled,
            table(["file", "bytes", "verified"], files, "Files:"),
        ]
    )


def _as_set(name: str) -> str:
    """A setting by the name that ``csm fit --set`` takes.

    >>> _as_set("training.lr"), _as_set("recipe.model_options.hidden"), _as_set("recipe.model")
    ('lr', 'model.hidden', 'model')
    """
    piece, options, option = name.removeprefix("recipe.").removeprefix("training.").partition("_options.")
    return f"{piece}.{option}" if options else piece


def _write_report(run: "Run", data: str, given: dict[str, Any], console: Console) -> None:
    """Write the report of a run again, from the data it learned from.

    Raises:
        InputError: other data, or a run without a model.
    """
    device = console.use_torch()
    from concrete_score import runs
    from concrete_score.fitting import Request, prepare
    from concrete_score.report import write_report

    with runs.untrusted(run):
        _ = run.codec, run.recipe, run.settings
    job = prepare(Request(data, **given), run, console.say)
    console.say("writing the report …")
    with runs.untrusted(run), console.progress("writing the report") as update:
        path = write_report(run, job.rows, job.valid, device=device, update=update)
    console.say(f"report: {path}")


def _metrics(run: "Run") -> dict[str, Any]:
    """How far the training came, and how good its best model was; None where nothing was measured yet."""
    from concrete_score.runs import MODEL
    from concrete_score.training.loop import has_likelihood

    lines = run.journal.read()
    judged = [line for line in lines if "valid" in line]
    metrics: dict[str, Any] = {"steps": max((line["step"] for line in lines), default=0), "best_step": None}
    metrics |= {"valid": None, "valid_log_likelihood": None, "went_back": len(lines) - len(judged)}
    if (run.path / MODEL).exists():
        best = metrics["best_step"] = run.model_file().step
        metrics["valid"] = next((line["valid"] for line in judged if line["step"] == best), None)
        if has_likelihood(run.model()):
            inside = run.config.get("valid_log_inside", 0.0)
            metrics["valid_log_likelihood"] = None if metrics["valid"] is None else metrics["valid"] + inside
    return metrics
