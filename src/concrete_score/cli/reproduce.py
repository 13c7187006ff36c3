"""``csm reproduce``: the paper's figures and tables."""

import click

from concrete_score import registry
from concrete_score.cli.console import Console, checks_table, common_options, examples
from concrete_score.errors import InputError, nearest


@click.command(
    epilog=examples(
        "csm reproduce figure1", "csm reproduce all --quick --check", "csm reproduce figure1 --out elsewhere"
    )
)
@click.argument("name", metavar="NAME|all")
@click.option("--quick", is_flag=True, help="A smaller version that ends in seconds.")
@click.option("--check", is_flag=True, help="Exit with 1 if a check fails, naming it.")
@click.option("--jobs", metavar="N", type=click.IntRange(min=1), default=1, help="Processes, one thread each; 1.")
@click.option("--out", metavar="DIR", default="results", help="Where to write; results by default.")
@common_options
def reproduce(console: Console, name: str, quick: bool, check: bool, jobs: int, out: str) -> None:
    """Run an experiment of the paper and write DIR/NAME/NAME.json, NAME.md and figures.

    'csm list experiments' shows what there is. Long ones are cut into units, each kept when it is done: an interrupted
    experiment continues where it was.
    """
    from concrete_score.experiments import Settings
    from concrete_score.experiments import reproduce as run

    names = _wanted(name)
    settings = Settings(console.seed, quick, str(console.use_torch()), jobs, say=console.say)
    results = []
    for each in names:
        console.say(f"{each}: running")
        results.append(run(each, settings, out, force=console.force))
        console.say(f"{each}: {results[-1].seconds:.1f} s, written to {out}/{each}")
    value = results[0].to_json() if name != "all" else {"results": [result.to_json() for result in results]}
    console.give(value, lambda: "\n\n".join(checks_table(found.findings.checks, found.name) for found in results))
    failed = [f"{result.name}: {failure}" for result in results for failure in result.failed]
    if check and failed:
        raise click.ClickException(f"{len(failed)} failed: {'; '.join(failed)}")


def _wanted(name: str) -> list[str]:
    known = registry.names("experiments")
    if name != "all" and name not in known:
        raise InputError("'all' or the name of an experiment", repr(name), fix=nearest(name, known))
    return known if name == "all" else [name]
