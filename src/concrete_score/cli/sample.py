"""``csm sample``: rows drawn from a fitted model, also under conditions."""

from pathlib import Path

import click

from concrete_score.cli.open_run import open_run, run_argument
from concrete_score.cli.options import Console, common_options, examples
from concrete_score.cli.output import counting, out_option, pipes, put, refuse_output, warn
from concrete_score.errors import InputError


@click.command(
    epilog=examples(
        "csm sample runs/clinic -n 100",
        "csm sample runs/clinic -n 1000 --given smoke=yes --given 'age=[30, 41)' --out smokers.csv",
        "csm sample runs/clinic -n 5 --seed 1 --json",
        "csm sample runs/clinic -n 10000 | csm fit - --out runs/again",
    )
)
@run_argument
@click.option("-n", "count", metavar="N", type=click.IntRange(min=1, max=10**9), required=True, help="How many rows.")
@click.option("--given", metavar="COLUMN=VALUE", multiple=True, help="Only rows with this value; may be repeated.")
@click.option("--sampler", metavar="K", help="A name of 'csm list kernels'; by default what is exact, if anything is.")
@out_option
@common_options
def sample(
    console: Console, path: Path, count: int, given: tuple[str, ...], sampler: str | None, out: Path | None
) -> None:
    """Draw N rows from the model of RUN, as CSV on standard output or into a file.

    Same seed, same rows. How they were drawn, and whether to trust it, is told on standard error.
    """
    opened = open_run(path, console)
    codec = opened.codec
    refuse_output(out, codec.form, console)
    conditions = codec.given(given)
    check_sampler(sampler)
    with counting(console, "sampling") as progress:
        drawn = opened.fitted.sample(
            count, opened.generator("sample"), given=conditions, sampler=sampler, progress=progress
        )
    console.say(
        f"{count:,} rows: every column was given"
        if drawn.method == "none"
        else f"{count:,} rows drawn by {drawn.method}"
    )
    warn(drawn.warnings)
    frame = codec.decode(drawn.states)
    with pipes():
        put(frame, out, console)
        if console.json:
            console.give({"columns": list(frame.names), "rows": frame.rows()}, str)


def check_sampler(name: str | None) -> None:
    """Refuse a kernel nobody has registered, before any work."""
    from concrete_score import registry
    from concrete_score.errors import nearest

    known = registry.names("kernels")
    if name is not None and name not in known:
        raise InputError("the name of a kernel", repr(name), where="--sampler", fix=nearest(name, known))
