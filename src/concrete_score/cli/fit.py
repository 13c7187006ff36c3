"""``csm fit``: learn a model of a table or of pictures, into a run directory."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from concrete_score.cli.fit_job import Job, Source, make_job
from concrete_score.cli.main import FAILED, INTERRUPTED
from concrete_score.cli.options import Console, common_options, examples, table
from concrete_score.cli.report import leave_report, no_report_option
from concrete_score.cli.table_options import TableWishes, data_dir_option, table_options, unknown_option
from concrete_score.errors import InputError

if TYPE_CHECKING:
    from concrete_score.runs import Run
    from concrete_score.training import Event, Finished


@click.command(
    epilog=examples(
        "csm fit clinic.csv --out runs/clinic",
        "csm fit people.csv --out runs/people --bins age=10 --drop id --missing category",
        "csm fit nltcs --out runs/nltcs --objective logistic --steps 5000",
        "csm fit table.npy --out runs/wide --set model.hidden=300 --set average=0.999",
        "csm fit digits --out runs/digits --threads 2",
        "csm fit mnist --out runs/mnist --minutes 60 --set model.width=64",
        "csm fit mnist --out runs/paper --objective noisy --set model.head=raw --set noise=binarized_gaussian",
        "csm fit clinic.csv --out runs/clinic --resume",
    )
)
@click.argument("data", metavar="DATA")
@click.option("--out", metavar="RUN", required=True, type=click.Path(path_type=Path), help="The run directory.")
@click.option("--valid", metavar="FILE", help="Held-out rows; a named set brings its own.")
@click.option("--valid-fraction", metavar="F", type=float, help="Share of rows held out without --valid; 0.1.")
@click.option("--model", metavar="M", help="A name of 'csm list models'; made, or for pictures unet.")
@click.option(
    "--objective",
    metavar="O",
    help="A name of 'csm list objectives'; maximum_likelihood, or clean_value for unet.",
)
@click.option("--edges", metavar="E", help="A name of 'csm list edges'.")
@click.option("--neighborhood", metavar="N", help="A name of 'csm list neighborhoods'.")
@click.option("--steps", metavar="S", type=int, help="Steps at most; 40 rounds through the rows, 2000 to 10000.")
@click.option("--minutes", metavar="M", type=float, help="Stop after this long.")
@click.option("--batch-size", metavar="B", type=int, help="Rows a step; 128.")
@click.option("--lr", metavar="R", type=float, help="Adam's rate; 0.002, falling to 0.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Any other setting; may be repeated.")
@click.option("--resume", is_flag=True, help="Go on where a run was left; begin it if it was not begun.")
@click.option("--tensorboard", is_flag=True, help="Also write TensorBoard scalars into RUN/tensorboard.")
@click.option("--levels", metavar="L", type=click.IntRange(2, 256), help="Grey levels of pictures; 2, which are bits.")
@click.option("--threshold", metavar="T", type=float, help="Of bits, as a share of the largest grey value; 0.5.")
@no_report_option
@unknown_option
@data_dir_option
@table_options
@common_options
def fit(
    console: Console,
    /,
    data: str,
    valid: str | None,
    data_dir: str | None,
    unknown: str,
    wishes: TableWishes,
    levels: int | None,
    threshold: float | None,
    out: Path,
    resume: bool,
    tensorboard: bool,
    no_report: bool,
    **given: Any,
) -> None:
    """Learn a model of DATA: a file (CSV, TSV, Parquet, .data, .npy, .npz), '-' for CSV on standard input, or a name.

    Arrays of shape (N, H, W) in .npy or .npz, IDX files, and the names digits and mnist are pictures: bits, or --levels
    grey levels. What is not said is chosen, and said. Ctrl-C saves and prints the command to go on. Several processes:
    torchrun --nproc-per-node N -m concrete_score fit … RUN/report.html is the run for reading, in any browser.
    """
    device = console.use_torch()
    from concrete_score.training.processes import connect, rank, world_size

    console = console if rank() == 0 else Console(**{**vars(console), "quiet": True})
    source = Source(data, valid, data_dir, unknown, wishes, levels, threshold)
    with _one_voice():
        if data == "-" and world_size() > 1:
            raise InputError("a file that every process can read", "standard input", "DATA", "save it to a file first")
        job = make_job(console, source, out, resume, given)
        if world_size() > 1:
            fabric = connect(device)
            if rank() == 0:
                job.open()
            fabric.barrier()
        run = job.open()
    with _interruptible() as interrupted, _peers(job):
        ended = _train(run, job, console, str(device), tensorboard, interrupted)
    if rank() == 0:
        _tell(run, ended, console, job)
        if not no_report:
            leave_report(run, job.rows, job.valid, device, console)
    elif ended.why == "interrupted":
        sys.exit(INTERRUPTED)


def _train(
    run: "Run", job: Job, console: Console, device: str, tensorboard: bool, interrupted: "Callable[[], bool]"
) -> "Finished":
    from concrete_score import runs
    from concrete_score.report.grids import GridKeeper
    from concrete_score.training import progress as reports
    from concrete_score.training.processes import rank

    with reports.progress(run.settings, quiet=console.quiet) as show:
        told = [show]
        if tensorboard:
            told.append(reports.tensorboard(run.path / "tensorboard"))
        grids = GridKeeper(run) if rank() == 0 else None
        if grids is not None:
            told.append(grids.see)

        def tell(event: "Event") -> None:
            for listener in told:
                listener(event)

        ended = runs.train(run, job.rows, job.valid, device=device, show=tell, interrupted=interrupted)
    if grids is not None and ended.usable and ended.why != "interrupted":
        grids.finish(ended.best_step)
    return ended


def _tell(run: "Run", ended: "Finished", console: Console, job: Job) -> None:
    """The result, or what went wrong and how to go on."""
    from concrete_score.training.validation import has_likelihood

    if ended.why == "interrupted":
        click.echo(f"interrupted at step {ended.step:,} and saved; go on with: {job.go_on}", err=True)
        sys.exit(INTERRUPTED)
    if not ended.usable:
        late = " in the time given; begin again with more --minutes and --force" if ended.why == "minutes" else ""
        click.echo(f"error: {ended.message or f'no step improved on the untrained model{late}'}", err=True)
        sys.exit(FAILED)
    if ended.message:
        click.echo(f"warning: {ended.message}", err=True)
    value = {
        "run": str(run.path),
        "model": run.recipe.model,
        "objective": run.recipe.objective,
        "edges": run.recipe.edges,
        "neighborhood": run.recipe.neighborhood,
        "steps": ended.step,
        "best_step": ended.best_step,
        "seconds": round(ended.seconds, 3),
        "valid_log_likelihood": ended.best if has_likelihood(run.model()) else None,
        "diverged": ended.diverged,
        "seed": run.settings.seed,
    }
    console.give(value, lambda: table(["fact", "value"], [(k, _said(v)) for k, v in value.items() if v is not None]))


def _said(value: Any) -> str:
    """A value for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


@contextmanager
def _interruptible() -> "Iterator[Callable[[], bool]]":
    """The first Ctrl-C (or SIGTERM) asks the training to end well; a second one ends it at once."""
    asked: list[int] = []
    signals = (signal.SIGINT, signal.SIGTERM)

    def note(number: int, frame: Any) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    before = {each: signal.signal(each, note) for each in signals}
    try:
        yield lambda: bool(asked)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def _one_voice() -> "Iterator[None]":
    """Of many processes that find the same mistake, the first one tells."""
    from concrete_score.training.processes import rank

    try:
        yield
    except InputError:
        if rank() > 0:
            sys.exit(2)
        raise


@contextmanager
def _peers(job: Job) -> "Iterator[None]":
    """A peer that dies breaks the connection: say so in one line, with the command to go on."""
    from concrete_score.training.processes import rank, world_size

    try:
        yield
    except RuntimeError as error:
        if world_size() == 1 or isinstance(error, InputError):
            raise
        broken = any(word in str(error) for word in ("onnection", "gloo", "NCCL", "peer", "Broken pipe"))
        if not broken:
            raise
        click.echo(
            f"error: process {rank()} lost another process of this job; the run is whole up to its last checkpoint,"
            f" go on with torchrun … -m concrete_score {job.go_on.removeprefix('csm ')}",
            err=True,
        )
        # Waiting for the dead at exit would hang.
        sys.stderr.flush()
        os._exit(FAILED)
