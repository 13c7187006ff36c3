"""``csm data``: named data sets, listed and fetched."""

import click

from concrete_score.cli.console import Console, common_options, data_dir_option, examples, table
from concrete_score.errors import Command, InputError


@click.command(
    epilog=examples(
        "csm data list", "csm data list gifts --json", "csm data fetch nltcs", "csm data fetch nltcs:test mnist:train"
    )
)
@click.argument("action", metavar="list|fetch", type=click.Choice(["list", "fetch"]))
@click.argument("names", metavar="[NAME[:SPLIT]]...", nargs=-1)
@data_dir_option
@click.option("--url", metavar="BASE", help="Fetch from here instead; laid out as REPOSITORY/COMMIT/PATH.")
@common_options
def data(console: Console, action: str, names: tuple[str, ...], data_dir: str | None, url: str | None) -> None:
    """Named data sets, from their public places, checked by digest.

    'list' shows what there is and which files are here already. 'fetch' downloads what is not here, all splits of a
    bare NAME, continuing a download that broke off, and checks every file.
    """
    if action == "list":
        _list(console, names, data_dir)
    elif names:
        _fetch(console, names, data_dir, url)
    else:
        raise InputError("the name of a data set", "none", "csm data fetch", (Command("data list"), " shows them"))


def _list(console: Console, names: tuple[str, ...], data_dir: str | None) -> None:
    from concrete_score.data.catalog import data_sets, entry_of, present

    wanted = [entry_of(name, "train").name for name in names] or list(data_sets())
    sets, rows = [], []
    for name in wanted:
        splits = data_sets()[name]
        here = {split: present(entry, data_dir) is not None for split, entry in splits.items()}
        facts = {
            split: {"rows": entry.rows, "file": entry.file, "here": here[split]} for split, entry in splits.items()
        }
        variables = next(iter(splits.values())).variables
        sets.append({"name": name, "variables": variables, "splits": facts})
        counts = ", ".join(f"{split} {entry.rows}" for split, entry in splits.items())
        rows.append((name, variables, counts, f"{sum(here.values())} of {len(here)}"))
    console.give({"data_sets": sets}, lambda: table(["name", "variables", "rows by split", "files here"], rows))


def _fetch(console: Console, names: tuple[str, ...], data_dir: str | None, url: str | None) -> None:
    from concrete_score.data.catalog import data_sets, entry_of, locate

    wanted = []
    for name in names:
        entry = entry_of(name, "train")
        wanted += [entry] if ":" in name else list(data_sets()[entry.name].values())
    files = []
    for entry in wanted:
        path = locate(entry, data_dir, base_url=url, say=console.say)
        console.say(f"{entry.name}:{entry.split}: {path}")
        files.append({"name": entry.name, "split": entry.split, "rows": entry.rows, "path": str(path)})
    console.give(
        {"files": files},
        lambda: table(["name", "split", "rows", "path"], [list(file.values()) for file in files]),
    )
