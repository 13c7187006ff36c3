"""The run directory: one fitted model, in files that each verify themselves.

    run.json              what was asked for, written once before training, with a digest of itself
    model.safetensors     the best weights
    checkpoint/           the last two states of the training, to go on from
    metrics.jsonl         what was measured on the way
    report.html           all of it for reading, written at the end; nothing depends on it
    samples/              of images: grids of draws on the way

A name in ``run.json`` is looked up in the registry, never imported from a path, and nothing is ever unpickled.
"""

import json
import platform
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from concrete_score import __version__
from concrete_score.errors import Command, InputError, Option
from concrete_score.files import (
    LOCK,
    canonical_json,
    digest,
    finite,
    is_draft,
    read_regular,
    refuse_unwritable,
    short,
    write_text,
)

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from concrete_score.codecs import Codec
    from concrete_score.spaces import Space
    from concrete_score.training.events import Event, Finished, History
    from concrete_score.training.examples import Examples
    from concrete_score.training.recipe import Built, Recipe, TrainingSettings
    from concrete_score.training.state import Snapshot
    from concrete_score.training.store import Journal, TensorFile

FORMAT = 1
RUN, MODEL, METRICS, CHECKPOINTS = "run.json", "model.safetensors", "metrics.jsonl", "checkpoint"
REPORT = "report.html"
SAMPLES = "samples"
"""Images drawn while the training went, one grid a file; for people, so none of them is verified."""
KEPT = 2
"""Checkpoints kept."""
_PIECES = ("edges", "neighborhood", "noise")
_PARTS: dict[tuple[str, ...], Any] = {
    **{("config", "recipe", name): str for name in ("model", "objective")},
    **{("config", "recipe", name): str | None for name in _PIECES},
    **{("config", "recipe", f"{name}_options"): Mapping for name in ("model", "objective", "noise")},
    ("config", "training"): Mapping,
    ("config", "valid_fraction"): int | float,
    ("data", "rows"): int,
    ("data", "sha256"): str,
}
"""What a training goes on from, by place in ``run.json``."""
_STEP = re.compile(r"\.step-[0-9]{8,}\.[0-9]+\.[0-9a-f]+\.draft\.safetensors$")


@dataclass(frozen=True, eq=False)
class Run:
    """An opened run; its ``run.json`` is verified, its other files when they are read."""

    path: Path
    info: Mapping[str, Any]

    @property
    def id(self) -> str:
        """What all files of this run carry."""
        return str(self.info["id"])

    @property
    def launch(self) -> str:
        """The launcher's name of the job that began it; empty where one process did."""
        return str(self.info.get("launch", ""))

    @property
    def config(self) -> dict[str, Any]:
        return dict(self.info["config"])

    @cached_property
    def space(self) -> "Space":
        return self.codec.space

    @cached_property
    def codec(self) -> "Codec":
        """How data become states, and back."""
        from concrete_score.codecs import codec_from_json

        return codec_from_json(self.info["codec"], f"{self.path / RUN}: codec")

    @cached_property
    def recipe(self) -> "Recipe":
        from concrete_score.training.recipe import Recipe

        return Recipe.from_json(self.config["recipe"])

    @cached_property
    def settings(self) -> "TrainingSettings":
        """How it was trained."""
        from concrete_score.training.recipe import TrainingSettings

        return TrainingSettings.of(self.config["training"])

    @cached_property
    def journal(self) -> "Journal":
        from concrete_score.training.store import Journal

        return Journal(self.path / METRICS, self.id)

    def model(self) -> "nn.Module":
        """The model with its best weights.

        Raises:
            InputError: the file is damaged, of another run, or not there yet.
        """
        file = self.model_file()
        self._refuse_sizes_beyond(sum(value.numel() for value in file.tensors.values()))
        model = self.recipe.build_model(self.space, self.settings)
        try:
            model.load_state_dict(dict(file.tensors))
        except RuntimeError:
            raise InputError(
                "the weights of the model in run.json", "others", where=str(self.path / MODEL), fix="fit again"
            ) from None
        return model.requires_grad_(False)

    def _refuse_sizes_beyond(self, weights: int) -> None:
        """No size of a model exceeds the number of its weights: an untrusted run must not build for hours."""
        for name, value in self.recipe.model_options.items():
            if any(abs(size) > max(weights, 1) for size in _numbers(value)):
                raise InputError(
                    f"a model of {weights} weights, as in {MODEL}",
                    f"{name} = {value!r}"[:60],
                    where=str(self.path / RUN),
                    fix="fit again",
                )

    def model_file(self) -> "TensorFile":
        """The best weights, verified."""
        from concrete_score.training.store import read

        path = self.path / MODEL
        if not path.exists():
            fix = ("continue it with ", Command("fit"), " ", Option("resume", True))
            raise InputError("a fitted model", "a run without one yet", str(path), fix)
        return read(path, "model", self.id)

    def checkpoints(self) -> list[Path]:
        """Checkpoint files, oldest first."""
        return sorted((self.path / CHECKPOINTS).glob("step-*.safetensors"))

    def checkpoint(self) -> "Snapshot | None":
        """The newest checkpoint that verifies, with a warning if it is not the last; None where there is none yet.

        Raises:
            InputError: there are checkpoints, and all of them are damaged.
        """
        from concrete_score.training.state import Snapshot

        damaged: list[tuple[Path, InputError]] = []
        for path in reversed(self.checkpoints()):
            try:
                file = self._read_checkpoint(path)
            except InputError as error:
                damaged.append((path, error))
                continue
            for broken, why in damaged:
                message = f"{broken} is damaged ({why.came}); the older {path.name} is used instead"
                warnings.warn(message, UserWarning, stacklevel=2)
            return Snapshot(file.step, file.state, file.tensors)
        if damaged:
            raise damaged[0][1]
        return None

    def save(self, snapshot: "Snapshot") -> None:
        """Write the best weights if they are new, then the checkpoint; drop all but the last two."""
        from concrete_score.training.store import TensorFile, write

        best = {name.removeprefix("best/"): v for name, v in snapshot.tensors.items() if name.startswith("best/")}
        self.save_model(best, snapshot.state["best_step"])
        state = {**snapshot.state, "metrics": {**self.journal.mark(), "loss": finite(self._history.loss)}}
        name = f"step-{snapshot.step:08d}.safetensors"
        write(self.path / CHECKPOINTS / name, TensorFile("checkpoint", self.id, snapshot.step, state, snapshot.tensors))
        for old in self.checkpoints()[:-KEPT]:
            old.unlink()

    def rewind(self, snapshot: "Snapshot | None") -> None:
        """Make the directory what it was at a checkpoint: measurements cut back, half-written files removed."""
        for leftover in self._drafts():
            leftover.unlink()
        mark: dict[str, Any] = {"lines": 0, "digest": ""} if snapshot is None else dict(snapshot.state["metrics"])
        self.journal.cut(mark)
        self._history.loss = mark.get("loss")
        for path in self.checkpoints():
            if snapshot is not None and path.name > f"step-{snapshot.step:08d}.safetensors":
                path.unlink()  # damaged: an older one is continued

    def _drafts(self) -> list[Path]:
        """What a killed writer of this run left half-written; nothing else, and nothing behind a link."""
        stems = [Path(name).stem for name in (RUN, MODEL, METRICS, REPORT)]
        folder = self.path / CHECKPOINTS
        found = [path for path in self.path.glob(".*.draft*") if is_draft(path, stems)]
        if not folder.is_symlink():
            found += [path for path in folder.glob(".step-*.draft*") if _STEP.match(path.name)]
        return [path for path in found if path.is_file() and not path.is_symlink()]

    def record(self, event: "Event") -> None:
        """Keep what a training reports: measurements in the journal, checkpoints in their files."""
        from concrete_score.training.events import Checkpoint

        if line := self._history.see(event):
            self.journal.append(**line)
        if isinstance(event, Checkpoint):
            self.save(event.snapshot)

    def check(self) -> None:
        """Check what a training needs to go on: the parts of ``run.json`` and their types.

        Raises:
            InputError: a part is absent or of another type; it is named.
        """
        for path, kind in _PARTS.items():
            value: Any = self.info
            for name in path:
                value = value.get(name, ...) if isinstance(value, Mapping) else ...
            if not isinstance(value, kind) or isinstance(value, bool):
                came = "none" if value is ... else short(repr(value))
                what, fix = f"{'.'.join(path)} as a run has it", "fit again, or install the version that made it"
                raise InputError(what, came, where=str(self.path / RUN), fix=fix)

    def verify(self) -> list[str]:
        """Check every file there is, and give their names.

        Raises:
            InputError: one is damaged or of another run; it is named.
        """
        checked, mark = [RUN], None
        for path in self.checkpoints():
            mark = self._read_checkpoint(path).state["metrics"]
            checked.append(f"{CHECKPOINTS}/{path.name}")
        if (self.path / MODEL).exists() or mark is not None:
            self.model_file()
            checked.append(MODEL)
        self.journal.read(mark)
        return [*checked, METRICS] if (self.path / METRICS).exists() else checked

    def save_model(self, weights: "Mapping[str, Tensor]", step: int) -> None:
        """Write the best weights, which are those of a step, unless they are there."""
        from concrete_score.training.store import TensorFile, write

        if self._saved.get("best_step") != step or not (self.path / MODEL).exists():
            write(self.path / MODEL, TensorFile("model", self.id, step, {}, weights))
            self._saved["best_step"] = step

    @cached_property
    def _saved(self) -> dict[str, Any]:
        """The step of the best weights on disk."""
        return {}

    @cached_property
    def _history(self) -> "History":
        from concrete_score.training.events import History

        return History()

    def _read_checkpoint(self, path: Path) -> "TensorFile":
        from concrete_score.training.store import read

        file = read(path, "checkpoint", self.id)
        if path.name != f"step-{file.step:08d}.safetensors":
            raise InputError(f"the checkpoint its name says, not of step {file.step}", path.name, where=str(path))
        return file


def create(
    path: str | Path,
    *,
    config: Mapping[str, Any],
    codec: Mapping[str, Any],
    data: Mapping[str, Any],
    seed: int = 0,
    force: bool = False,
    launch: str = "",
) -> Run:
    """Begin a run: its directory and ``run.json``.

    Args:
        path: a directory that is not there yet, or is empty.
        config: ``{recipe, training, …}``, all JSON.
        codec: how data become states; ``{kind, …}``.
        data: ``{rows, sha256, …}`` of what it is trained on.
        force: remove a run that is there.
        launch: the launcher's name of this job, by which it knows its run again when it is started anew.

    Raises:
        InputError: the directory holds something already and not ``force``, or something that is no run.
    """
    folder = Path(path)
    _make_room(folder, force)
    info = {
        "format": FORMAT,
        "id": uuid4().hex,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": _versions(),
        "seed": seed,
        "config": dict(config),
        "codec": dict(codec),
        "data": dict(data),
        **({"launch": launch} if launch else {}),
    }
    (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
    write_text(folder / RUN, _render({**info, "digest": digest(canonical_json(info))}))
    return open(folder)


def exists(path: str | Path) -> bool:
    """Whether a run was begun there."""
    return (Path(path) / RUN).is_file()


def open(path: str | Path) -> Run:
    """Open a run and verify its ``run.json``.

    Raises:
        InputError: there is none, it is damaged, or of a newer format; the file is named.
    """
    file = Path(path) / RUN
    if not file.is_file():
        fix = ("make one with ", Command("fit"))
        raise InputError("a run directory, with its run.json", "none", where=str(path), fix=fix)
    text = read_regular(file)
    try:
        info = json.loads(text)
        stated = info["format"]
        newer = isinstance(stated, int) and stated > FORMAT
        rest = {key: value for key, value in info.items() if key != "digest"}
        sound = info["digest"] == digest(canonical_json(rest)) and _render(info).encode() == text
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _damaged(file) from None
    if newer:
        raise InputError(
            f"a run of format {FORMAT}", f"format {stated}", where=str(file), fix="install a newer concrete-score"
        )
    if not sound or stated != FORMAT:
        raise _damaged(file)
    return Run(Path(path), info)


def train(
    run: Run,
    rows: "Tensor | Examples",
    valid: "Tensor | Examples | None" = None,
    *,
    built: "Built | None" = None,
    device: "str | torch.device" = "cpu",
    show: "Callable[[Event], None]" = lambda event: None,
    interrupted: Callable[[], bool] = lambda: False,
) -> "Finished":
    """Train a run from its newest checkpoint, or from the start, to its end; one process of many writes.

    Args:
        run: created or opened.
        rows, valid: training and held-out states, the same as before where it goes on.
        built: its model and objective, where they are built already.
        device: where to train.
        show: receives every event.
        interrupted: asked between steps; true ends with a checkpoint.
    """
    from concrete_score import training
    from concrete_score.training.processes import rank

    snapshot, writes = run.checkpoint(), rank() == 0
    with untrusted(run) if snapshot is not None else nullcontext():
        built = built or run.recipe.build(run.space, run.settings)
        if writes:
            run.rewind(snapshot)
        options: dict[str, Any] = {"start": snapshot, "device": device, "interrupted": interrupted}
        events = training.train(built.model, built.objective, rows, run.settings, valid, **options)
    try:
        first = next(events)  # a checkpoint is restored before it, and refused where it is not of this run
    except InputError as error:
        raise error if snapshot is None else _named(run, error) from None
    last: Any = None
    for last in chain([first], events):
        if writes:
            run.record(last)
        show(last)
    if snapshot is not None and last.usable and last.why != "interrupted":
        run.model_file()  # a run that had ended already did not write it again, and it may be damaged
    return last  # type: ignore[no-any-return]


def verify(path: str | Path) -> list[str]:
    """Open a run and check every file of it; their names."""
    return open(path).verify()


def refuse_occupied(path: str | Path) -> None:
    """Refuse a directory that holds something, before any work: a new run needs a new or empty one."""
    folder, another = Path(path), ("choose another ", Option("out"))
    if folder.exists() and not folder.is_dir():
        raise InputError("a directory", "a file", str(folder), another)
    refuse_unwritable(folder)
    if folder.is_dir() and _content(folder):
        if not exists(folder):
            raise InputError("a new run directory", f"a folder of other files, without a {RUN}", str(folder), another)
        fix = [
            "choose another",
            ("continue it with ", Option("resume", True)),
            ("replace it with ", Option("force", True)),
        ]
        raise InputError("a new run directory", "one that exists", str(folder), fix)


@contextmanager
def untrusted(run: Run) -> Iterator[None]:
    """Within it, whatever the values of an untrusted ``run.json`` provoke is one line that names the file.

    A digest proves that the file is whole, not that its maker meant well: any value may stand in it.

    Raises:
        InputError: it cannot be built here, and why.
    """
    file = str(run.path / RUN)
    try:
        yield
    except InputError as error:
        raise _named(run, error) from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError, MemoryError) as error:
        came = f"{type(error).__name__} ({short(error)})"
        fix = "fit again, or install the version that made it"
        raise InputError("a run that this version can build", came, where=file, fix=fix) from None


def _named(run: Run, error: InputError) -> InputError:
    """An error about a run that names its file."""
    parts = error.where if isinstance(error.where, tuple) else (error.where,)
    if any(str(run.path) in part for part in parts if isinstance(part, str)):
        return error
    return error.moved((str(run.path / RUN), *(part for part in parts if part)))


def _make_room(folder: Path, force: bool) -> None:
    if not force or not folder.is_dir():
        refuse_occupied(folder)
        return
    if not _content(folder):
        return
    _refuse_foreign(folder)
    # Only what a run is made of is removed, run.json last: until then it is still a run.
    parts = [*(folder / CHECKPOINTS).glob("step-*.safetensors"), *(folder / SAMPLES).glob("step-*.png")]
    for file in [*parts, *(folder / name for name in (REPORT, MODEL, METRICS, RUN))]:
        file.unlink(missing_ok=True)


def _refuse_foreign(folder: Path) -> None:
    """Refuse to replace what is not verifiably a run of ours, or what a link would lead out of it."""
    fix = ("remove it yourself, or choose another ", Option("out"))
    if not exists(folder):
        raise InputError("a run directory to replace", "one that is no run", str(folder), fix)
    try:
        open(folder)
    except InputError as error:
        came = f"one whose {RUN} does not verify ({error.came})"
        raise InputError("a run directory to replace", came, str(folder), fix) from None
    for name in (CHECKPOINTS, SAMPLES):
        if (folder / name).is_symlink():
            raise InputError("a run directory to replace", f"a link in the place of {name}/", str(folder), fix)


def _content(folder: Path) -> list[Path]:
    """What a folder holds besides what a run that was killed before its ``run.json`` stood there has left."""
    return [path for path in folder.iterdir() if not _began(path)]


def _began(path: Path) -> bool:
    """Whether a path is a lock, a half-written ``run.json`` or the place of checkpoints, still empty."""
    if path.name == CHECKPOINTS and path.is_dir() and not path.is_symlink():
        return not any(path.iterdir())
    return path.name == LOCK or is_draft(path, [Path(RUN).stem])


def _versions() -> dict[str, str]:
    import torch

    return {"concrete_score": __version__, "torch": torch.__version__, "python": platform.python_version()}


def _render(info: Mapping[str, Any]) -> str:
    return json.dumps(info, indent=1, ensure_ascii=False) + "\n"


def _numbers(value: Any) -> "Iterator[int | float]":
    """All numbers among the options of a model, and of the models in it; settings of a training are no sizes."""
    if isinstance(value, int | float):
        yield value
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    for name, part in parts:
        if name != "training":
            yield from _numbers(part)


def _damaged(file: Path) -> InputError:
    return InputError(
        "a run.json as it was written", "a damaged one", where=str(file), fix="restore it from a copy, or fit again"
    )
