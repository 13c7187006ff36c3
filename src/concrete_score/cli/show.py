"""``csm show``: what a run is made of, with every file of it verified."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from concrete_score.cli.open_run import run_argument, strangers, table_codec
from concrete_score.cli.options import Console, common_options, examples, table
from concrete_score.cli.output import pipes
from concrete_score.errors import printable

if TYPE_CHECKING:
    from concrete_score.runs import Run

_SHOWN = 8
"""Values of a column that are named; the rest is counted."""


@click.command(epilog=examples("csm show runs/clinic", "csm show runs/clinic --json"))
@run_argument
@common_options
def show(console: Console, path: Path) -> None:
    """The columns, configuration, measurements and files of RUN, each file checked against its digest."""
    from concrete_score import runs

    run = runs.open(path)
    with strangers(run):
        value = describe(run)
    with pipes():
        console.give(value, lambda: render(value))


def describe(run: "Run") -> dict[str, Any]:
    """All of it as plain values.

    Raises:
        InputError: a file is damaged or of another run; it is named.
    """
    codec, info = table_codec(run), run.info
    files = [{"name": name, "bytes": (run.path / name).stat().st_size, "verified": True} for name in run.verify()]
    columns = [
        {"name": site.name, "kind": site.kind, "size": site.size, "values": list(site.labels)} for site in codec.sites
    ]
    return {
        "run": str(run.path),
        "id": run.id,
        "created": info["created"],
        "versions": dict(info["versions"]),
        "seed": info["seed"],
        "data": dict(info["data"]),
        "columns": columns,
        "config": run.config,
        "metrics": _metrics(run),
        "files": files,
    }


def render(value: dict[str, Any]) -> str:
    """The same for reading."""
    about = [(key, value[key]) for key in ("id", "created", "seed")]
    about += [*_flat(value["versions"], "versions."), *_flat(value["data"], "data.")]
    columns = [(each["name"], each["kind"], each["size"], _few(each["values"])) for each in value["columns"]]
    files = [(each["name"], f"{each['bytes']:,}", "yes") for each in value["files"]]
    return "\n\n".join(
        [
            table(["fact", "value"], about, f"{printable(value['run'])}:"),
            table(["column", "kind", "size", "values"], columns, "Columns:"),
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


def _few(labels: list[str]) -> str:
    more = f", … ({len(labels)} in all)" if len(labels) > _SHOWN else ""
    return ", ".join(label or "(blank)" for label in labels[:_SHOWN]) + more
