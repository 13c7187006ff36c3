"""``csm demo``: the main job on embedded data, held against the known truth."""

from math import exp, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from concrete_score.cli.options import Console, common_options, examples, table
from concrete_score.files import atomic, refuse_existing, write_json

if TYPE_CHECKING:
    from concrete_score.experiments.demo import Demo


@click.command(epilog=examples("csm demo", "csm demo --seed 1 --out demo", "csm demo --json"))
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), help="Also write demo.json and demo.png there.")
@common_options
def demo(console: Console, out: Path | None) -> None:
    """Draw rows of the Asia network and look at them from every side.

    Its truth is known, so everything is held against it: Concrete scores, the support, fitted models.
    """
    if out is not None:
        for name in ("demo.json", "demo.png"):
            refuse_existing(out / name, console.force)
    console.say("drawing, scoring and fitting …")
    console.use_torch()
    from concrete_score.experiments.demo import run

    found = run(console.seed)
    if out is not None:
        _write(found, out)
        console.say(f"written to {out}")
    console.give(found.to_json(), lambda: render(found))


def _write(found: "Demo", out: Path) -> None:
    from concrete_score.experiments.demo_picture import picture

    with atomic(out / "demo.png") as draft:
        draft.write_bytes(picture(found))
    write_json(out / "demo.json", found.to_json())


def render(found: "Demo") -> str:
    """The demo for reading."""
    return "\n\n".join(
        [_preview(found), _changes(found.explanation), _support(found.support), _models(found), _recovery(found)]
    )


def _preview(found: "Demo") -> str:
    title = f"1. {found.rows:,} rows of the Asia network, drawn from the known truth (seed {found.seed}); the first:"
    return table(found.preview["columns"], found.preview["rows"], title)


def _changes(explanation: dict[str, Any]) -> str:
    title = "2. What would make the first row more probable? Every single change, by its exact Concrete score:"
    rows = [
        (c["column"], f"{c['from']} → {c['to']}", f"{c['concrete_score']:+.3f}", in_words(c["log_ratio"]))
        for c in explanation["changes"]
    ]
    return table(["column", "change", "score", "in words"], rows, title)


def in_words(log_ratio: float) -> str:
    """A log-ratio as one would say it.

    >>> in_words(0.7), in_words(-0.7), in_words(float("-inf"))
    ('2.0 times as probable', '2.0 times less probable', 'impossible')
    """
    if not isfinite(log_ratio):
        return "impossible"
    factor = f"{exp(abs(log_ratio)):.1f} times"
    return f"{factor} as probable" if log_ratio >= 0 else f"{factor} less probable"


def _support(found: dict[str, Any]) -> str:
    shares = ", ".join(f"{share:.4f}" for share in found["piece_shares"])
    masses = ", ".join(f"{mass:.4f}" for mass in found["possible_piece_masses"])
    return (
        "3. Is the support one piece under single flips?\n"
        f"   {found['distinct']} distinct rows fall into {found['pieces']} pieces (shares {shares}).\n"
        f"   {found['possible_states']} of {found['all_states']} states are possible; they form"
        f" {found['possible_pieces']} pieces (masses {masses}).\n"
        "   No chain of possible single flips leads from one piece to another, so scores on single flips cannot say\n"
        "   how much each piece weighs: use a connected neighborhood, or likelihood."
    )


def _models(found: "Demo") -> str:
    title = "4. Models fitted to the rows, held against the truth by enumeration (nats per row):"
    rows = [
        (m["model"], f"{m['log_likelihood']:.4f}", f"{m['kl']:.4f}", f"{m['impossible_mass']:.4f}")
        for m in found.models
    ]
    return table(["model", "log-likelihood", "KL(truth || model)", "mass on impossible states"], rows, title)


def _recovery(found: "Demo") -> str:
    return (
        "5. Sixteen categories, found again from their Concrete scores on a cycle alone:\n"
        f"   largest error of a probability {found.recovery['largest_error']:.1e}."
    )
