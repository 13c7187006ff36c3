"""``csm sample``: rows or pictures drawn from a fitted model, rows also under conditions."""

import sys
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from concrete_score.cli.open_run import open_run, run_argument
from concrete_score.cli.options import Console, common_options, examples
from concrete_score.cli.output import counting, out_option, pipes, warn
from concrete_score.cli.trajectory import trajectory_of
from concrete_score.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

passes_option = click.option(
    "--passes",
    metavar="P",
    type=click.IntRange(min=1),
    help="Of a model with noise levels: about how many network passes each draw may take.",
)


@click.command(
    epilog=examples(
        "csm sample runs/clinic -n 100",
        "csm sample runs/clinic -n 1000 --given smoke=yes --given 'age=[30, 41)' --out smokers.csv",
        "csm sample runs/clinic -n 5 --seed 1 --json",
        "csm sample runs/clinic -n 10000 | csm fit - --out runs/again",
        "csm sample runs/digits -n 64 --out grid.png --trajectory way.png",
        "csm sample runs/digits -n 1000 --sampler mh --passes 2000 --out pictures.npz",
    )
)
@run_argument
@click.option("-n", "count", metavar="N", type=click.IntRange(min=1, max=10**9), required=True, help="How many.")
@click.option("--given", metavar="COLUMN=VALUE", multiple=True, help="Only rows with this value; may be repeated.")
@click.option(
    "--sampler",
    metavar="K",
    help="A name of 'csm list kernels', for noise levels of 'csm list annealing'; by default what is best.",
)
@passes_option
@click.option(
    "--trajectory",
    metavar="FILE.png",
    type=click.Path(path_type=Path),
    help="Of pictures: draw the way of the first ones from noise, a row each.",
)
@out_option
@common_options
def sample(
    console: Console,
    path: Path,
    count: int,
    given: tuple[str, ...],
    sampler: str | None,
    passes: int | None,
    trajectory: Path | None,
    out: Path | None,
) -> None:
    """Draw N rows or pictures from the model of RUN.

    Rows are CSV on standard output, or a file. Pictures are a file: .png is a grid, .npy and .npz are arrays (N, H, W);
    without one, or in a table's file, each is a row of pixels. Same seed, same draws. How they were drawn, and whether
    to trust it, is told on standard error.
    """
    opened = open_run(path, console)
    kind, codec = opened.kind, opened.codec
    kind.refuse_output(out, codec, console)
    conditions = kind.given(codec, given)
    check_sampler(sampler)
    way = None if trajectory is None else trajectory_of(opened, trajectory, console)
    with ExitStack() as stack:
        progress = stack.enter_context(counting(console, "sampling"))
        parts = opened.fitted.sample_parts(
            count,
            opened.generator("sample"),
            given=conditions,
            sampler=sampler,
            progress=progress,
            passes=passes,
            watch=None if way is None else way.see,
        )
        first = next(parts)
        states: Iterable[Tensor] = (part.states for part in chain([first], parts))
        if console.json or (out is None and sys.stdout.isatty()):
            states = list(states)
            stack.close()  # a screen shows the bar or the rows, not both at once
        if first.method == "none":
            console.say(f"{count:,} rows: every column was given")
        elif len(first.states) < count and not isinstance(states, list):
            console.say(f"drawing {count:,} {kind.noun} by {first.method}")
        else:
            console.say(f"{count:,} {kind.noun} drawn by {first.method}")
        warn(first.warnings)
        if way is not None:
            way.write()
        with pipes():
            value = kind.put(codec, states, out, console)
            if console.json:
                console.give(value, str)


def check_sampler(name: str | None) -> None:
    """Refuse a kernel nobody has registered, before any work."""
    from concrete_score import registry
    from concrete_score.errors import nearest

    known = list(dict.fromkeys([*registry.names("kernels"), *registry.names("annealing")]))
    if name is not None and name not in known:
        raise InputError("the name of a kernel", repr(name), where="--sampler", fix=nearest(name, known))
