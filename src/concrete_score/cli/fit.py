"""``csm fit``: learn a model of a table or of images, into a run directory."""

import os
import shlex
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from concrete_score.cli.console import (
    FILE_OPTIONS,
    Console,
    common_options,
    data_dir_option,
    examples,
    reading_options,
    table,
    unknown_option,
    was_given,
)
from concrete_score.cli.main import FAILED, INTERRUPTED, MISUSED
from concrete_score.defaults import (
    BATCH_SIZE,
    IMAGE_LR,
    IMAGE_MODEL,
    IMAGE_OBJECTIVE,
    LEAST_STEPS,
    LR,
    MODEL,
    MOST_HELD_OUT,
    MOST_STEPS,
    OBJECTIVE,
    ROUNDS,
    VALID_FRACTION,
)
from concrete_score.errors import Command, InputError, Option, printable
from concrete_score.files import flat, locked, short

_LISTED, _BRIEF = 60, 48
"""Columns that are listed one by one, and the characters shown of a cell of that list."""
_TO_LOOK_AT, _NAMED = ("constant", "identifier", "text"), 10
"""Kinds of columns that are not or not wholly modelled, and how many of each are named where columns are many."""

if TYPE_CHECKING:
    from concrete_score.fitting import Fit, Job, Request
    from concrete_score.runs import Run
    from concrete_score.training.loggers import Logger


@click.command(
    epilog=examples(
        "csm fit clinic.csv --out runs/clinic",
        "csm fit people.csv --out runs/people --bins age=10 --drop id --missing category",
        "csm fit nltcs --out runs/nltcs --objective logistic --steps 5000",
        "csm fit table.npy --out runs/wide --set model.hidden=300 --set average=0.999",
        "csm fit digits --out runs/digits --threads 2",
        "csm fit mnist --out runs/mnist --minutes 60 --set model.width=64",
        "csm fit mnist --out runs/paper --objective noisy --set model.head=raw --set noise=binarized_gaussian",
        "csm fit sales/ --out runs/sales",
        "csm fit clinic.csv --out runs/clinic --resume",
    )
)
@click.argument("data", metavar="DATA…", nargs=-1, required=True)
@click.option("--out", metavar="RUN", required=True, type=click.Path(path_type=Path), help="The run directory.")
@click.option("--valid", metavar="FILE", help="Held-out rows; a named set brings its own.")
@click.option(
    "--valid-fraction",
    metavar="F",
    type=float,
    help=f"Share of rows held out without --valid; {VALID_FRACTION}, at most {MOST_HELD_OUT:,} rows.",
)
@click.option(
    "--model",
    metavar="M",
    help=f"A name of 'csm list models'; {MODEL}, a mixture for wide tables of few values, {IMAGE_MODEL} for images.",
)
@click.option(
    "--objective",
    metavar="O",
    help=f"A name of 'csm list objectives'; {OBJECTIVE}, or {IMAGE_OBJECTIVE} for {IMAGE_MODEL}.",
)
@click.option("--edges", metavar="E", help="A name of 'csm list edges'.")
@click.option("--neighborhood", metavar="N", help="A name of 'csm list neighborhoods'.")
@click.option(
    "--steps",
    metavar="S",
    type=int,
    help=f"Steps at most; {ROUNDS} rounds through the rows, but from {LEAST_STEPS} to {MOST_STEPS}.",
)
@click.option("--minutes", metavar="M", type=float, help="Stop after so many minutes.")
@click.option("--batch-size", metavar="B", type=int, help=f"Rows a step; {BATCH_SIZE}.")
@click.option("--lr", metavar="R", type=float, help=f"Adam's rate; {LR}, or {IMAGE_LR} for images, falling to 0.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Any other setting; may be repeated.")
@click.option("--resume", is_flag=True, help="Continue a run; begin it if it was not begun.")
@click.option("--tensorboard", is_flag=True, help="Also write TensorBoard scalars into RUN/tensorboard.")
@click.option(
    "--logger",
    "loggers",
    metavar="L",
    multiple=True,
    help="Also send the measurements to a name of 'csm list loggers'; may be repeated.",
)
@click.option(
    "--stream/--no-stream",
    default=None,
    help="Whether a table stays on the disk, encoded in RUN.cache; by default where it is too large for memory.",
)
@click.option("--keep-cache", is_flag=True, help="Keep RUN.cache after the end; removed, it costs encoding again.")
@click.option("--no-report", is_flag=True, help="Do not write RUN/report.html at the end.")
@unknown_option
@data_dir_option
@reading_options
@common_options
def fit(
    console: Console,
    /,
    out: Path,
    resume: bool,
    tensorboard: bool,
    loggers: tuple[str, ...],
    no_report: bool,
    keep_cache: bool,
    **given: Any,
) -> None:
    """Learn a model of DATA: a file (CSV, TSV, Parquet, .data, .npy, .npz), '-' for CSV on standard input, or a name.

    Several files of the same columns, or a folder of them, are one table. A table too large for memory stays on the
    disk: its rows are encoded once into RUN.cache, which is removed at the end.

    Arrays of shape (N, H, W) in .npy or .npz, IDX files, and the names digits and mnist are images: bits, or --levels
    grey levels. What is not given is chosen, and reported. RUN/report.html is the run for reading, in any browser.

    Ctrl-C saves and prints the command to continue. To train in N processes, start it by torchrun:
    torchrun --nproc-per-node N --no-python csm fit DATA --out RUN
    """
    device = console.use_torch()
    from concrete_score.training.processes import rank

    console = console if rank() == 0 else replace(console, quiet=True)
    loggers = tuple(dict.fromkeys(("tensorboard", *loggers) if tensorboard else loggers))
    continue_command = _continue_command(out, loggers=loggers, **given)
    place = out.resolve()
    given["cache"] = place.parent / f"{place.name}.cache"
    with ExitStack() as stack:
        with _reported_once(), _no_leftovers(out, given["cache"], keep_cache):
            listening = _find_loggers(loggers)
            job = _prepare(console, out, resume, given, device)
            _say_columns(job, console, out)
            if rank() == 0:
                stack.enter_context(locked(out))
                _refuse_changed(job, out)
            run = _create(job, out, console.force, device)
        with _interruptible() as interrupted, _peers(continue_command):
            found = _train(job, run, console, str(device), listening, interrupted)
        if rank() == 0:
            _print_result(job, run, found, console, continue_command)
            if not no_report:
                _write_report(job, run, found, device, console)
            if not keep_cache:
                _remove_cache(given["cache"])
        elif found.ended.why == "interrupted":
            sys.exit(INTERRUPTED)


@contextmanager
def _no_leftovers(out: Path, cache: Path, keep: bool) -> Iterator[None]:
    """A fit that is refused after its rows were encoded leaves no cache, unless it is that of a run, or to be kept."""
    from concrete_score import runs

    try:
        yield
    except InputError:
        if not keep and not runs.exists(out):
            _remove_cache(cache)
        raise


def _remove_cache(cache: Path) -> None:
    """Remove the rows that were encoded for a fit, if there are any."""
    if cache.exists():
        from concrete_score import caches

        caches.remove(cache)


def _refuse_changed(job: "Job", out: Path) -> None:
    """Refuse to continue a run that another process replaced before this one became its only writer."""
    from concrete_score import runs

    if job.run is not None and runs.open(out).id != job.run.id:
        fix = "run the command again"
        raise InputError("the run that was opened", "another, written since by another process", str(out), fix)


def _create(job: "Job", out: Path, force: bool, device: Any) -> "Run":
    """Begin or open the run directory; of several processes the first one begins it, and the others open it.

    It is begun only when all processes have looked at the directory: a slower one would find it occupied.
    """
    from concrete_score import runs
    from concrete_score.training.processes import connect, world_size

    if world_size() == 1:
        return job.create(out, force=force)
    processes = connect(device)
    processes.barrier()
    if processes.rank == 0:
        job.create(out, force=force)
    processes.barrier()
    if processes.rank > 0:
        job.run = runs.open(out)
    return job.create(out)


def _prepare(console: Console, out: Path, resume: bool, given: dict[str, Any], device: Any) -> "Job":
    """The job of a command line: all that can be wrong is found here, before anything is written."""
    from concrete_score import fitting, runs
    from concrete_score.training import processes

    if "-" in given["data"] and processes.world_size() > 1:
        fix = "save it to a file first"
        raise InputError("a file that every process can read", "standard input", Option("data"), fix)
    if resume and not runs.exists(out):
        console.say(f"{out}: nothing to resume, a new run")
        resume = False
    own = processes.restarted() and runs.exists(out) and runs.open(out).launch == processes.job()
    if own and not resume:
        console.say(f"{out}: begun by this job before it was started anew; going on from its last checkpoint")
    stored = runs.open(out) if resume or own else None
    if stored is None and not console.force:
        runs.refuse_occupied(out)
    request = _request(given, console.seed if stored is None or was_given("seed") else None)
    if stored is None:
        return fitting.prepare(request, say=console.say, device=device)
    with runs.untrusted(stored):
        _ = stored.codec, stored.recipe, stored.settings
    return fitting.prepare(request, stored, console.say)


def _say_columns(job: "Job", console: Console, out: Path) -> None:
    """What was made of each column, as a table; of many columns, how many are of each kind, and which want a look."""
    if job.run is not None or job.codec.has_grid:
        return
    title, heads, lines = job.codec.schema_table()
    if len(lines) <= _LISTED:
        # A reason is whole: its end says what is not kept.
        shown = [
            [cell if head == "why" else _brief(cell) for head, cell in zip(heads, line, strict=True)] for line in lines
        ]
        console.show(table(heads, shown, title, screen=sys.stderr.isatty()))
        return
    kinds = Counter(line[1] for line in lines)
    console.say(f"{len(lines):,} columns: " + ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common()))
    for kind in (kind for kind in kinds if kind in _TO_LOOK_AT):
        names = [str(line[0]) for line in lines if line[1] == kind]
        more = f" … and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        console.say(f"{kind}: " + ", ".join(_brief(name) for name in names[:_NAMED]) + more)
    console.say(("what was made of each column, and why: ", Command("show"), f" {shlex.quote(str(out))}"))


def _brief(cell: Any) -> str:
    text = str(cell)
    return text if len(text) <= _BRIEF else f"{text[: _BRIEF - 1]}…"


def _request(given: dict[str, Any], seed: int | None) -> "Request":
    from concrete_score.fitting import PIECES, SETTINGS, Request

    settings = dict(_key_and_value(text) for text in given["settings"])
    training = {name: given[name] for name in SETTINGS}
    if "seed" not in settings or was_given("seed"):
        training["seed"] = seed
    named = ("data", "valid", "valid_fraction", "unknown", "data_dir", "reading", "stream", "cache")
    pieces = {name: given[name] for name in PIECES}
    (only, *more) = given["data"]
    given = {**given, "data": [only, *more] if more else only}
    return Request(**{name: given[name] for name in named}, pieces=pieces, training=training, settings=settings)


def _key_and_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        fix = ("for example ", Option("set", {"average": 0.999}))
        raise InputError("KEY=VALUE", repr(text), Option("set"), fix)
    return key, value


def _find_loggers(names: tuple[str, ...]) -> "list[Logger]":
    """Those asked for; of several processes only the first one logs."""
    if not names:
        return []
    from concrete_score.training.loggers import find_loggers
    from concrete_score.training.processes import rank

    found = find_loggers(names, Option("logger"))
    return found if rank() == 0 else []


def _train(
    job: "Job",
    run: "Run",
    console: Console,
    device: str,
    listening: "list[Logger]",
    interrupted: "Callable[[], bool]",
) -> "Fit":
    from concrete_score.training import events
    from concrete_score.training.processes import rank

    with ExitStack() as stack:
        listeners = []
        if listening:
            from concrete_score.training.loggers import About, logged

            about = About(run.path.name, run.id, run.path, dict(flat(run.config)))
            listeners.append(stack.enter_context(logged(listening, about)))
        listeners.append(stack.enter_context(events.training_progress(job.plan.settings, quiet=console.quiet)))
        grids = None
        if job.codec.has_grid and rank() == 0:
            from concrete_score.previews import GridKeeper

            grids = GridKeeper(run)
            listeners.append(grids.see)

        found = job.train(device=device, show=events.tell_all(*listeners), interrupted=interrupted)
    if grids is not None and found.ended.usable and found.ended.why != "interrupted":
        grids.finish(found.model, found.ended.best_step)
    return found


def _print_result(job: "Job", run: "Run", found: "Fit", console: Console, continue_command: str) -> None:
    """The result, or what went wrong and how to continue."""
    from concrete_score.training.loop import has_likelihood

    ended, recipe = found.ended, job.plan.recipe
    if ended.why == "interrupted":
        click.echo(f"interrupted at step {ended.step:,} and saved; continue with: {continue_command}", err=True)
        sys.exit(INTERRUPTED)
    if not ended.usable:
        late = " in the time given; begin again with more --minutes and --force" if ended.why == "minutes" else ""
        click.echo(f"error: {ended.message or f'no step improved on the untrained model{late}'}", err=True)
        sys.exit(FAILED)
    if ended.message:
        console.warn([ended.message])
    account: Any = getattr(found.model, "account", None)
    if account is not None:
        console.say(f"chosen: by validation, weights {account()}")
    value = {
        "run": str(run.path),
        "model": recipe.model,
        "objective": recipe.objective,
        "edges": recipe.edges,
        "neighborhood": recipe.neighborhood,
        "steps": ended.step,
        "best_step": ended.best_step,
        "seconds": round(ended.seconds, 3),
        "valid_log_likelihood": ended.best + job.valid_inside if has_likelihood(found.model) else None,
        "diverged": ended.diverged,
        "seed": job.plan.settings.seed,
    }
    facts = [(name, _shown(each)) for name, each in value.items() if each is not None]
    console.give(value, lambda: table(["fact", "value"], facts))


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _write_report(job: "Job", run: "Run", found: "Fit", device: Any, console: Console) -> None:
    """Write the report of a training that has ended; a failure here is a warning, for the run itself is whole."""
    from concrete_score.report import write_report

    console.say("writing the report …")
    try:
        with console.progress("writing the report") as update:
            path = write_report(run, job.rows, job.valid, model=found.model, device=device, update=update)
    except (InputError, OSError, RuntimeError, MemoryError) as error:
        console.warn([f"the run is whole, but its report was not written: {printable(short(error))}"])
    else:
        console.say(f"report: {path}")


def _continue_command(
    out: Path,
    data: tuple[str, ...],
    valid: str | None,
    data_dir: str | None,
    reading: dict[str, Any],
    loggers: tuple[str, ...],
    stream: bool | None,
    **others: Any,
) -> str:
    """What to type to continue; what the columns are is kept in the run, how a file is read is not."""
    repeated = [("--valid", valid), ("--data-dir", data_dir), *((f"--{name}", reading[name]) for name in FILE_OPTIONS)]
    repeated += [("--logger", name) for name in loggers]
    options = [word for name, value in repeated if value is not None for word in (name, value)]
    options += {True: ["--stream"], False: ["--no-stream"], None: []}[stream]
    return shlex.join(["csm", "fit", *data, *options, "--out", str(out), "--resume"])


@contextmanager
def _interruptible() -> "Iterator[Callable[[], bool]]":
    """The first Ctrl-C (or SIGTERM) asks the training to end with a checkpoint; a second one ends it at once."""
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
def _reported_once() -> "Iterator[None]":
    """Of several processes that find the same mistake, the first one reports it; the others give it time to."""
    from concrete_score.training.processes import rank

    try:
        yield
    except InputError:
        if rank() > 0:
            time.sleep(20)  # the launcher ends all processes as soon as one of them has failed
            sys.exit(MISUSED)
        raise


@contextmanager
def _peers(continue_command: str) -> "Iterator[None]":
    """A process that dies breaks the connection: the others report it in one line, with the command to continue."""
    from concrete_score.training.processes import first_to_tell, rank, world_size

    try:
        yield
    except RuntimeError as error:
        if world_size() == 1 or isinstance(error, InputError):
            raise
        broken = any(word in str(error) for word in ("onnection", "gloo", "NCCL", "peer", "Broken pipe"))
        if not broken:
            raise
        if first_to_tell():
            click.echo(
                f"error: process {rank()} lost another process of this job; the run is whole up to its last checkpoint,"
                f" continue with torchrun … --no-python {continue_command}",
                err=True,
            )
        # An orderly exit would wait for the process that died.
        sys.stderr.flush()
        os._exit(FAILED)
