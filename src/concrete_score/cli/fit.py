"""``csm fit``: learn a model from a table of integers, into a run directory."""

import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from concrete_score.cli.main import FAILED, INTERRUPTED
from concrete_score.cli.options import Console, common_options, examples, table
from concrete_score.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from concrete_score.runs import Run
    from concrete_score.training import Event, Finished


@click.command(
    epilog=examples(
        "csm fit nltcs --out runs/nltcs",
        "csm fit table.npy --out runs/table --objective logistic --edges self_proposal --steps 5000",
        "csm fit table.data.gz --out runs/wide --set model.hidden=300 --set average=0.999",
        "csm fit nltcs --out runs/nltcs --resume",
    )
)
@click.argument("data", metavar="DATA")
@click.option("--out", metavar="RUN", required=True, type=click.Path(path_type=Path), help="The run directory.")
@click.option("--valid", metavar="FILE", help="Held-out rows; a named set brings its own.")
@click.option("--valid-fraction", metavar="F", type=float, help="Share of rows held out without --valid; 0.1.")
@click.option("--model", metavar="M", help="A name of 'csm list models'; made.")
@click.option("--objective", metavar="O", help="A name of 'csm list objectives'; maximum_likelihood.")
@click.option("--edges", metavar="E", help="A name of 'csm list edges'.")
@click.option("--neighborhood", metavar="N", help="A name of 'csm list neighborhoods'.")
@click.option("--steps", metavar="S", type=int, help="Steps at most; 10000.")
@click.option("--minutes", metavar="M", type=float, help="Stop after this long.")
@click.option("--batch-size", metavar="B", type=int, help="Rows a step; 128.")
@click.option("--lr", metavar="R", type=float, help="Adam's rate; 0.001.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Any other setting; may be repeated.")
@click.option("--resume", is_flag=True, help="Go on where a run was left; begin it if it was not begun.")
@click.option("--tensorboard", is_flag=True, help="Also write TensorBoard scalars into RUN/tensorboard.")
@common_options
def fit(console: Console, /, data: str, out: Path, resume: bool, tensorboard: bool, **given: Any) -> None:
    """Learn a model of DATA: a file (.npy, .npz, .data, .data.gz) or the name of a data set.

    Ctrl-C saves and prints the command to go on. Several processes: torchrun --nproc-per-node N -m concrete_score fit …
    """
    device = console.use_torch()
    from concrete_score.training.processes import connect, rank, world_size

    console = console if rank() == 0 else Console(**{**vars(console), "quiet": True})
    with _one_voice():
        job = _job(console, data, out, resume, given)
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
    elif ended.why == "interrupted":
        sys.exit(INTERRUPTED)


@dataclass(eq=False)
class Job:
    """One call of ``csm fit``: its data, its configuration, and how to open its run."""

    rows: "Tensor"
    valid: "Tensor | None"
    go_on: str
    create: "Callable[[], Run]"
    run: "Run | None" = None

    def open(self) -> "Run":
        """The run, created or opened once."""
        self.run = self.run or self.create()
        return self.run


def _job(console: Console, data: str, out: Path, resume: bool, given: dict[str, Any]) -> Job:
    from concrete_score import runs

    if resume and not runs.exists(out):
        console.say(f"{out}: nothing to resume, a new run")
        resume = False
    stored = runs.open(out) if resume else None
    config, seed = _configuration(console, given, stored)
    rows, valid, facts = _read(data, given["valid"], config["valid_fraction"], seed)
    sizes = facts.pop("sizes")
    words = ["csm", "fit", data, "--out", str(out), *(["--valid", given["valid"]] if given["valid"] else [])]
    go_on = shlex.join([*words, "--resume"])
    if stored is not None:
        _refuse_other_data(stored, facts, data)
        return Job(rows, valid, go_on, lambda: stored)
    from concrete_score.spaces import Space
    from concrete_score.training.recipe import Recipe
    from concrete_score.training.settings import TrainingSettings

    # Whatever is wrong with the pieces is said before anything is written.
    Recipe.from_json(config["recipe"]).build(Space(sizes), TrainingSettings.of(config["training"]))
    codec = {"kind": "integers", "sizes": list(sizes)}

    def create() -> "Run":
        from concrete_score.training.processes import rank

        if rank() > 0:  # the first process has made it
            return runs.open(out)
        return runs.create(out, config=config, codec=codec, data=facts, seed=seed, force=console.force)

    if not console.force and not resume:
        runs.refuse_occupied(out)
    return Job(rows, valid, go_on, create)


def _configuration(console: Console, given: dict[str, Any], stored: "Run | None") -> tuple[dict[str, Any], int]:
    """What is to be done: what is given, over what the run was begun with or the defaults."""
    from concrete_score.training.recipe import Recipe, sort_settings
    from concrete_score.training.settings import TrainingSettings

    training, recipe = sort_settings(given["settings"])
    training |= {k: given[k] for k in ("steps", "minutes", "batch_size", "lr") if given[k] is not None}
    recipe |= {k: given[k] for k in ("model", "objective", "edges", "neighborhood") if given[k] is not None}
    if _was_given("seed") or stored is None:
        training.setdefault("seed", console.seed)
    before = stored.config if stored is not None else None
    base = before or {"recipe": Recipe().to_json(), "training": {}, "valid_fraction": 0.1}
    for name in ("model_options", "objective_options", "noise_options"):
        recipe[name] = {**base["recipe"][name], **recipe.get(name, {})}
    fraction = base["valid_fraction"] if given["valid_fraction"] is None else given["valid_fraction"]
    if not 0 < fraction < 1:
        raise InputError("a share between 0 and 1", str(fraction), where="--valid-fraction")
    settings = TrainingSettings.of({**base["training"], **training})
    config = {
        "recipe": Recipe.from_json({**base["recipe"], **recipe}).resolved().to_json(),
        "training": settings.to_json(),
        "valid_fraction": fraction,
    }
    if before is not None:
        _refuse_other_configuration(before, config)
    return config, settings.seed


def _was_given(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _refuse_other_configuration(before: dict[str, Any], now: dict[str, Any]) -> None:
    from concrete_score.files import canonical_json

    for part in before:
        old, new = before[part], now[part]
        pairs = [(name, old[name], new.get(name)) for name in old] if isinstance(old, dict) else [(part, old, new)]
        for name, was, is_now in pairs:
            if canonical_json(was) != canonical_json(is_now):
                raise InputError(
                    f"this run's own {name} ({was})", str(is_now), "--resume", "leave it out, or begin another run"
                )


def _refuse_other_data(stored: "Run", facts: dict[str, Any], data: str) -> None:
    known = dict(stored.info["data"])
    if known != facts:
        raise InputError(
            f"the data of this run, {known['rows']} rows with SHA-256 {known['sha256'][:8]}…",
            f"{facts['rows']} rows with {facts['sha256'][:8]}…, or other held-out rows",
            where=data,
            fix="give the same data, or begin another run",
        )


def _read(data: str, valid: str | None, fraction: float, seed: int) -> tuple["Tensor", "Tensor | None", dict[str, Any]]:
    """Training rows, held-out rows, and what identifies them."""
    import torch

    from concrete_score.data import arrays
    from concrete_score.randomness import generator

    rows = arrays.read(data, "train")
    facts: dict[str, Any] = {"rows": len(rows), "sha256": arrays.digest(rows), "valid": None}
    named = not arrays.is_file(data) and ":" not in data
    if valid is not None or named:
        held_out = arrays.read(valid or data, "valid")
        facts["valid"] = {"rows": len(held_out), "sha256": arrays.digest(held_out)}
        return rows, held_out, {**facts, "sizes": arrays.sizes(rows, held_out)}
    facts["sizes"] = arrays.sizes(rows)
    count = round(len(rows) * fraction) if len(rows) > 1 else 0
    order = torch.randperm(len(rows), generator=generator(seed, "split"))
    return rows[order[count:]], rows[order[:count]], facts


def _train(
    run: "Run", job: Job, console: Console, device: str, tensorboard: bool, interrupted: "Callable[[], bool]"
) -> "Finished":
    from concrete_score import runs
    from concrete_score.training import progress as reports

    with reports.progress(run.settings, quiet=console.quiet) as show:
        board = reports.tensorboard(run.path / "tensorboard") if tensorboard else None

        def tell(event: "Event") -> None:
            show(event)
            if board is not None:
                board(event)

        return runs.train(run, job.rows, job.valid, device=device, show=tell, interrupted=interrupted)


def _tell(run: "Run", ended: "Finished", console: Console, job: Job) -> None:
    """The result, or what went wrong and how to go on."""
    from concrete_score.training.validation import has_likelihood

    if ended.why == "interrupted":
        click.echo(f"interrupted at step {ended.step:,} and saved; go on with: {job.go_on}", err=True)
        sys.exit(INTERRUPTED)
    if not ended.usable:
        click.echo(f"error: {ended.message or 'no step improved on the untrained model'}", err=True)
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
    console.give(value, lambda: table(["", ""], [(k, "" if v is None else v) for k, v in value.items()]))


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
