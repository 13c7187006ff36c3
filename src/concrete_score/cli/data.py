"""``csm data``: named data sets, listed and fetched."""

import click

from concrete_score.cli.options import Console, common_options, examples, table
from concrete_score.cli.table_options import data_dir_option


@click.group(epilog=examples("csm data list", "csm data fetch nltcs", "csm data fetch nltcs:test gifts --json"))
def data() -> None:
    """Named data sets: the paper's tables and images, from their public places, checked by digest."""


@data.command("list", epilog=examples("csm data list", "csm data list --json"))
@data_dir_option
@common_options
def list_sets(console: Console, data_dir: str | None) -> None:
    """List the data sets, their splits, and which files are here already."""
    from concrete_score.data.named import data_sets, present

    sets, rows = [], []
    for name, splits in data_sets().items():
        here = {split: present(entry, data_dir) is not None for split, entry in splits.items()}
        facts = {
            split: {"rows": entry.rows, "file": entry.file, "here": here[split]} for split, entry in splits.items()
        }
        variables = next(iter(splits.values())).variables
        sets.append({"name": name, "variables": variables, "splits": facts})
        counts = ", ".join(f"{split} {entry.rows}" for split, entry in splits.items())
        rows.append((name, variables, counts, f"{sum(here.values())} of {len(here)}"))
    console.give({"data_sets": sets}, lambda: table(["name", "variables", "rows by split", "files here"], rows))


@data.command("fetch", epilog=examples("csm data fetch nltcs", "csm data fetch mnist:train"))
@click.argument("names", metavar="NAME[:SPLIT]...", nargs=-1, required=True)
@data_dir_option
@click.option("--url", metavar="BASE", help="Download from here instead; laid out as REPOSITORY/COMMIT/PATH.")
@common_options
def fetch_sets(console: Console, names: tuple[str, ...], data_dir: str | None, url: str | None) -> None:
    """Have the files of data sets on this machine, whole and checked; all splits of a bare NAME.

    A file that is here already is checked, not downloaded; a download that broke off is continued.
    """
    from concrete_score.data.named import data_sets, entry_of, locate

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
