"""``csm list``: what there is, by kind, with one line each and the paper's section."""

import click

from concrete_score import registry
from concrete_score.cli.console import Console, common_options, examples, table


@click.command("list", epilog=examples("csm list", "csm list neighborhoods", "csm list experiments --json"))
@click.argument("kind", required=False)
@common_options
def list_names(console: Console, kind: str | None) -> None:
    """List the names of a KIND, or the kinds there are."""
    if kind is None:
        counts = [{"kind": each, "count": len(registry.names(each))} for each in registry.kinds()]
        console.give({"kinds": counts}, lambda: table(["kind", "names"], [list(row.values()) for row in counts]))
        return
    names = [
        {"name": name, "help": entry.help, "section": entry.section} for name, entry in registry.entries(kind).items()
    ]
    console.give(
        {"kind": kind, "names": names},
        lambda: table(["name", "what it is", "paper"], [list(row.values()) for row in names]),
    )
