"""``csm demo``: the main job on embedded data, held against the known truth."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from concrete_score.cli.console import Console, common_options, examples, table
from concrete_score.files import atomic, refuse_existing, write_json

if TYPE_CHECKING:
    from concrete_score.experiments.demo import Demo

FILES = ("demo.json", "demo.png")


@click.command(epilog=examples("csm demo", "csm demo --seed 1 --out demo", "csm demo --json"))
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Keep the table, the run with its report.html, demo.json and a figure.",
)
@common_options
def demo(console: Console, out: Path | None) -> None:
    """Learn a clinic's table, draw from it, fill its blanks, explain its strangest row.

    The rows come from the Asia network, whose truth is known: every answer is held against the exact one.
    """
    if out is not None:
        for name in (*FILES, "clinic.csv", "run"):
            refuse_existing(out / name, console.force)
    console.use_torch()
    from concrete_score.experiments.demo import run

    found = run(console.seed, out=out, say=console.say)
    if out is not None:
        _write(found, out)
        console.say(f"written to {out}")
    console.give(found.to_json(), lambda: render(found, out))


def _write(found: "Demo", out: Path) -> None:
    from concrete_score.experiments.demo import plot

    with atomic(out / "demo.png") as draft:
        draft.write_bytes(plot(found))
    write_json(out / "demo.json", found.to_json())


def render(found: "Demo", out: Path | None = None) -> str:
    """The demo for reading."""
    parts = [_preview(found), _support(found.support), _models(found), _samples(found.samples)]
    return "\n\n".join([*parts, _imputation(found.imputation), _explanation(found.explanation), _next(out)])


def _preview(found: "Demo") -> str:
    title = f"1. A clinic's table: {found.rows:,} rows drawn from the Asia network (seed {found.seed}); the first:"
    return table(found.preview["columns"], found.preview["rows"], title)


def _support(found: dict[str, Any]) -> str:
    masses = ", ".join(f"{mass:.4f}" for mass in found["possible_piece_masses"])
    return (
        "2. Is the support one piece under single changes? (csm diagnose)\n"
        f"   {found['possible_states']} of {found['all_states']} states are possible; they form"
        f" {found['possible_pieces']} pieces (masses {masses}).\n"
        "   No chain of possible single changes leads from one to the other, so ratios of single changes cannot say\n"
        "   how much each weighs. csm fit therefore learns by likelihood, or by ratios to the model's own draws."
    )


def _models(found: "Demo") -> str:
    title = "3. What was learned, held against the truth by enumeration (nats per row):"
    rows = [
        (m["model"], f"{m['log_likelihood']:.4f}", f"{m['kl']:.4f}", f"{m['impossible_mass']:.4f}")
        for m in found.models
    ]
    return table(["model", "log-likelihood", "KL(truth || model)", "mass on impossible states"], rows, title)


def _samples(found: dict[str, Any]) -> str:
    given = ", ".join(f"{name}={value}" for name, value in found["given"].items())
    title = (
        f"4. {found['draws']:,} rows drawn given {given} (csm sample --given {given}); how often each column is yes:"
    )
    rows = [(each["column"], f"{each['drawn']:.3f}", f"{each['truth']:.3f}") for each in found["shares"]]
    return table(["column", "drawn", "truth"], rows, title)


def _imputation(found: dict[str, Any]) -> str:
    return (
        f"5. {found['cells']:,} blanked cells of new rows, filled (csm impute):\n"
        f"   {found['right']:.1%} rightly; the truth itself would fill {found['best_possible']:.1%} rightly.\n"
        f"   Log-loss {found['log_loss']:.4f} nats a cell; the truth's own {found['least_log_loss']:.4f}."
    )


def _explanation(found: dict[str, Any]) -> str:
    cells = ", ".join(f"{name} {value}" for name, value in found["cells"].items())
    from concrete_score.answers import times_as_probable

    title = f"6. The strangest new row, and what would make it likelier (csm explain):\n   {cells}"
    rows = [
        (
            c["column"],
            f"{c['from']} → {c['to']}",
            times_as_probable(c["log_ratio"]),
            times_as_probable(c["exact_log_ratio"]),
        )
        for c in found["changes"]
    ]
    return table(["column", "change", "by the model", "in truth"], rows, title)


def _next(out: Path | None) -> str:
    data = out / "clinic.csv" if out is not None else "your.csv"
    lines = [f"csm fit {data} --out runs/mine", "csm sample runs/mine -n 10", f"csm explain runs/mine {data} --top 3"]
    if out is not None:
        lines.insert(0, f"open {out / 'run' / 'report.html'} in a browser")
    return "\n".join(["Next, on a file of your own:" if out is None else "Next:", *(f"   {line}" for line in lines)])
