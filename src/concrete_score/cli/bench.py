"""``csm bench``: performance as ratios taken in one run."""

from dataclasses import replace

import click

from concrete_score.bench import suite
from concrete_score.cli.console import Console, checks_table, common_options, examples


@click.command(epilog=examples("csm bench", "csm bench startup draw", "csm bench samplers", "csm bench --json"))
@click.argument("names", metavar="[NAME]...", nargs=-1)
@common_options
def bench(console: Console, names: tuple[str, ...]) -> None:
    """Time the named pieces of work, or all, each against a yardstick in the same run.

    A figure is the ratio of the shortest times of repeats that take turns, beside its bound. Bounds are for one
    thread, the default here, and are reported, not enforced: a busy machine is no error. 'samplers' is a group of its
    own: the best kernel of nine problems beside a textbook loop; 'csm reproduce samplers' has every kernel.
    """
    wanted = suite.chosen(names)
    # With several threads the work waits for cores that other programs hold, and the yardstick does not.
    replace(console, threads=console.threads or 1).use_torch()
    checks = []
    for name in wanted:
        console.say(f"{name}: timing")
        checks.append(suite.take(name))
    console.give({"checks": [check.to_json() for check in checks]}, lambda: checks_table(checks))
