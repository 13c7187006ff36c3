"""``csm show``: what a run is made of, with every file of it verified."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from concrete_score.cli.fit_job import Source
from concrete_score.cli.kinds import KINDS
from concrete_score.cli.open_run import kind_and_codec, run_argument, strangers
from concrete_score.cli.options import Console, common_options, examples, table
from concrete_score.cli.output import pipes
from concrete_score.cli.report import rewrite_report
from concrete_score.cli.table_options import TableWishes, data_dir_option, unknown_option
from concrete_score.errors import printable

if TYPE_CHECKING:
    from concrete_score.runs import Run


@click.command(
    epilog=examples("csm show runs/clinic", "csm show runs/clinic --json", "csm show runs/clinic --report clinic.csv")
)
@run_argument
@click.option("--report", metavar="DATA", help="Write RUN/report.html again, from the data RUN learned from.")
@click.option("--valid", metavar="FILE", help="With --report: the held-out rows, if csm fit was given some.")
@unknown_option
@data_dir_option
@common_options
def show(
    console: Console, path: Path, report: str | None, valid: str | None, unknown: str, data_dir: str | None
) -> None:
    """The columns or pictures, configuration, measurements and files of RUN, each file checked against its digest."""
    from concrete_score import runs

    run = runs.open(path)
    if report is not None:
        rewrite_report(run, Source(report, valid, data_dir, unknown, TableWishes.none()), console)
    with strangers(run):
        value = describe(run)
    with pipes():
        console.give(value, lambda: render(value))


def describe(run: "Run") -> dict[str, Any]:
    """All of it as plain values.

    Raises:
        InputError: a file is damaged or of another run; it is named.
    """
    from concrete_score.runs import REPORT

    (kind, codec), info = kind_and_codec(run), run.info
    verified = dict.fromkeys(run.verify(), True)
    # Nothing depends on the report, so nothing vouches for it.
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
        **kind.schema(codec),
        "config": run.config,
        "metrics": _metrics(run),
        "files": files,
    }


def render(value: dict[str, Any]) -> str:
    """The same for reading."""
    about = [(key, value[key]) for key in ("id", "created", "seed")]
    about += [*_flat(value["versions"], "versions."), *_flat(value["data"], "data.")]
    told = {True: "yes", False: "not checked"}
    files = [(each["name"], f"{each['bytes']:,}", told[each["verified"]]) for each in value["files"]]
    return "\n\n".join(
        [
            table(["fact", "value"], about, f"{printable(value['run'])}:"),
            KINDS[value["kind"]].render_schema(value),
            table(["setting", "value"], _flat(value["config"]), "Configuration:"),
            table(["measure", "value"], _flat(value["metrics"]), "Metrics:"),
            table(["file", "bytes", "verified"], files, "Files:"),
        ]
    )


def _metrics(run: "Run") -> dict[str, Any]:
    """How far the training came, and how good its best model was; None where nothing was measured yet."""
    from concrete_score.training.validation import has_likelihood

    lines = run.journal.read()
    judged = [line for line in lines if "valid" in line]
    metrics: dict[str, Any] = {"steps": max((line["step"] for line in lines), default=0), "best_step": None}
    metrics |= {"valid": None, "valid_log_likelihood": None, "went_back": len(lines) - len(judged)}
    if (run.path / "model.safetensors").exists():
        best = metrics["best_step"] = run.model_file().step
        metrics["valid"] = next((line["valid"] for line in judged if line["step"] == best), None)
        if has_likelihood(run.model()):
            metrics["valid_log_likelihood"] = metrics["valid"]
    return metrics


def _flat(value: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as lines ``part.name``; what is empty or unset is left out."""
    lines = []
    for key, each in value.items():
        if isinstance(each, dict):
            lines += _flat(each, f"{prefix}{key}.")
        elif each is not None:
            lines.append((f"{prefix}{key}", f"{each:.6g}" if isinstance(each, float) else str(each)))
    return lines
