"""``csm sample``: rows or images drawn from a fitted model, also under conditions."""

import sys
from collections.abc import Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from concrete_score.cli.console import (
    Console,
    common_options,
    examples,
    jobs_option,
    open_model,
    out_option,
    passes_option,
    pipes,
    run_argument,
)
from concrete_score.errors import InputError, Option
from concrete_score.files import atomic

if TYPE_CHECKING:
    from torch import Tensor

    from concrete_score.blocks import Sampled
    from concrete_score.model import Model
    from concrete_score.samplers.annealed import Stage

CHAINS, STAGES = 8, 12
"""Rows and columns of a trajectory at most."""
METHODS = {
    "ancestral": "the model draws one column after the other, exactly",
    "order": "the given columns come first in the model's order, so the draws are exact",
    "closed_form": "the model's own conditionals, exact",
    "enumeration": "every possible row was listed, so the draws are exact",
    "importance": "weighted draws, approximate",
}
"""What each way to draw is, where its name alone does not say it."""


@click.command(
    epilog=examples(
        "csm sample runs/clinic -n 100",
        "csm sample runs/clinic -n 1000 --given smoke=yes --given 'age>=41' --out smokers.csv",
        "csm sample runs/clinic -n 1000 --given 'country in US,CA' --given 'smoke!=no'",
        "csm sample runs/clinic -n 5 --seed 1 --json",
        "csm sample runs/clinic -n 10000 | csm fit - --out runs/again",
        "csm sample runs/clinic -n 10000000 --jobs 4 --out many.parquet",
        "csm sample runs/digits -n 64 --out grid.png --trajectory way.png",
        "csm sample runs/digits -n 1000 --sampler mh --passes 2000 --out images.npz",
    )
)
@run_argument
@click.option("-n", "count", metavar="N", type=click.IntRange(min=1, max=10**9), required=True, help="How many.")
@click.option(
    "--given",
    metavar="CONDITION",
    multiple=True,
    help="Only rows that meet it: a column, one of = != < <= > >= and a value, or 'COLUMN in A,B,C'; may be repeated.",
)
@click.option(
    "--sampler",
    metavar="K",
    help="A name of 'csm list kernels', or of 'csm list annealing' for a model with noise levels; by default the best.",
)
@passes_option
@click.option(
    "--blanks", is_flag=True, help="Leave cells blank as they were in the training rows, in the same patterns."
)
@click.option(
    "--trajectory",
    metavar="FILE.png",
    type=click.Path(path_type=Path),
    help="Of images: draw the first ones on their way from noise, a row each.",
)
@jobs_option
@out_option
@common_options
def sample(
    console: Console,
    path: Path,
    count: int,
    given: tuple[str, ...],
    sampler: str | None,
    passes: int | None,
    blanks: bool,
    trajectory: Path | None,
    jobs: int,
    out: Path | None,
) -> None:
    """Draw N rows or images from the model of RUN.

    Rows go to standard output as CSV, or to the file of --out. Of images, a .png file is a grid and .npy and .npz files
    are arrays (N, H, W); in CSV and other tables each image is a row of pixels. A condition on images names a pixel:
    row,column=value. The same seed gives the same draws, whatever --jobs. Memory does not grow with N where CSV or
    Parquet is written. How rows were drawn, how probable the conditions are, and warnings, go to standard error.
    """
    model = open_model(path, console)
    codec = model.codec
    console.refuse_output(out, codec.kind, codec.output_format)
    if blanks and model.blanker() is None:
        console.say(f"nothing was blank in training: all {codec.noun} are complete")
    way = None if trajectory is None else Trajectory.of(model, trajectory, console)
    with ExitStack() as stack:
        parts = model.samples(
            count,
            given,
            sampler=sampler,
            blanks=blanks,
            progress=stack.enter_context(console.progress("sampling")),
            passes=passes,
            watch=None if way is None else way.see,
            jobs=jobs,
        )
        stack.enter_context(closing(parts))
        first = next(parts)
        data: Iterable[Any] = (part.data for part in chain([first], parts))
        if console.json or (out is None and sys.stdout.isatty()):
            data = list(data)
            stack.close()  # a screen shows the bar or the rows, not both at once
        _say_how(console, model, first, count)
        console.warn(codec.extrapolated(given))
        if way is not None:
            way.write()
        with pipes():
            if not console.json:
                console.put(data, out, codec.noun)
                return
            drawn = list(data)
            whole = type(drawn[0]).join(drawn)
            console.put([whole], out, codec.noun)
            console.give(whole.to_json(), str)


def _say_how(console: Console, model: "Model", first: "Sampled", count: int) -> None:
    """How rows were drawn, how probable the condition is, and what speaks against them."""
    console.say(_how(count, model.codec.noun, first.method, model.fitted.draws_from_noise))
    if first.probability is not None:
        console.say(f"the condition has probability {first.probability}")
    console.warn(first.warnings)


def _how(count: int, noun: str, method: str, from_noise: bool) -> str:
    if method == "none":
        return f"{count:,} {noun}: every column was given"
    meaning = "" if from_noise or method not in METHODS else f": {METHODS[method]}"
    return f"{count:,} {noun} drawn by {method}{meaning}"


@dataclass(eq=False)
class Trajectory:
    """Collects the first chains after every noise level, and draws a row of each."""

    model: "Model"
    path: Path
    console: Console
    stages: "list[Tensor]" = field(default_factory=list)

    @classmethod
    def of(cls, model: "Model", path: Path, console: Console) -> "Trajectory":
        """Refused before any work where it makes no sense.

        Raises:
            InputError: data that cannot be shown in a grid, or a path that is no new .png file.
        """
        if not model.codec.has_grid:
            raise InputError("a run of images", f"one of {model.codec.noun}", Option("trajectory"), "leave it out")
        if path.suffix.lower() != ".png":
            raise InputError("a file ending in .png", repr(path.name), Option("trajectory"))
        console.refuse_output(path, model.codec.kind)
        return cls(model, path, console)

    def see(self, stage: "Stage") -> None:
        """Keep the first chains of a stage."""
        self.stages.append(stage.x[:CHAINS].cpu())

    def write(self) -> None:
        """A row for each chain: some of its stages, evenly spread, the first and the last among them."""
        import torch

        count = min(STAGES, len(self.stages))
        places = [round(k * (len(self.stages) - 1) / max(1, count - 1)) for k in range(count)]
        shown = torch.stack([self.stages[place] for place in places], 1)
        with atomic(self.path, force=self.console.force) as draft:
            draft.write_bytes(self.model.codec.grid(shown.flatten(0, 1), count) or b"")
        self.console.say(f"{len(shown)} images from noise, in {count} stages, written to {self.path}")
