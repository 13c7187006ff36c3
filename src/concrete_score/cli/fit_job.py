"""One call of ``csm fit``: its data, its configuration, and the run they belong to."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from concrete_score.cli.options import Console
from concrete_score.cli.table_options import TableWishes
from concrete_score.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from concrete_score.cli.kinds import Kind
    from concrete_score.runs import Run
    from concrete_score.training.choice import Choice

PIECES = {"model": "models", "objective": "objectives", "edges": "edges", "neighborhood": "neighborhoods"}
"""Options of a recipe, and the kind of name each takes."""
SETTINGS = ("steps", "minutes", "batch_size", "lr")


@dataclass(eq=False)
class Job:
    """What to learn from, how to go on, and how to open the run."""

    rows: "Tensor"
    valid: "Tensor | None"
    go_on: str
    create: "Callable[[], Run]"
    run: "Run | None" = None

    def open(self) -> "Run":
        """The run, created or opened once."""
        self.run = self.run or self.create()
        return self.run


@dataclass(frozen=True)
class Source:
    """Where the rows come from, as the user said it."""

    data: str
    valid: str | None
    data_dir: str | None
    unknown: str
    wishes: TableWishes
    levels: int | None = None
    """Grey levels of pictures; None leaves the choice."""
    threshold: float | None = None
    """Of pictures of bits."""

    def words(self) -> list[str]:
        """What to repeat on the command line; how the table is read is kept in the run."""
        said = [("--valid", self.valid), ("--data-dir", self.data_dir)]
        return [self.data, *(word for name, value in said if value is not None for word in (name, value))]


class Material:
    """The rows of a source as states, with what identifies them."""

    def __init__(self, kind: "Kind", source: Source, stored: "Run | None", say: Callable[[str], None]) -> None:
        from concrete_score.data.held_out import digest

        data = kind.load(source.data, "train", source.data_dir, say)
        self.kind, self.codec = kind, _codec(kind, data, source, stored)
        missing = stored.config.get("missing", "refuse") if stored is not None else source.wishes.missing
        self.states = self._encode(data, missing, source.unknown, say)
        self.valid: Tensor | None = None
        self.facts: dict[str, Any] = {"rows": len(self.states), "sha256": digest(self.states), "valid": None}
        held_out = source.valid or (source.data if kind.brings_held_out(source.data) else None)
        if held_out is not None:
            with _called("--valid" if source.valid else "DATA"):
                data = kind.load(held_out, "valid", source.data_dir, say)
            self.valid = self._encode(data, missing, source.unknown, say)
            self.facts["valid"] = {"rows": len(self.valid), "sha256": digest(self.valid)}

    def parts(self, fraction: float, seed: int) -> "tuple[Tensor, Tensor | None]":
        """Training rows and held-out rows."""
        from concrete_score.data.held_out import hold_out

        return (self.states, self.valid) if self.valid is not None else hold_out(self.states, fraction, seed)

    def _encode(self, data: Any, missing: str, unknown: str, say: Callable[[str], None]) -> "Tensor":
        found = self.codec.encode_rows(data, missing="drop" if missing == "drop" else "refuse", unknown=unknown)
        for count, words in ((found.blank, "blank cells dropped"), (found.unknown, "unseen values skipped")):
            if count:
                say(f"{data.where}: {count:,} {self.kind.noun} with {words}")
        states: Tensor = found.encoded.states
        return states


def _codec(kind: "Kind", data: Any, source: Source, stored: "Run | None") -> Any:
    if stored is None:
        return kind.make_codec(data, source)
    kind.check_codec(stored.codec, data, source)
    return stored.codec


def make_job(console: Console, source: Source, out: Path, resume: bool, given: dict[str, Any]) -> Job:
    """All that can be wrong is said here, before anything is written."""
    from concrete_score import runs
    from concrete_score.cli.kinds import kind_of
    from concrete_score.cli.open_run import kind_and_codec

    if resume and not runs.exists(out):
        console.say(f"{out}: nothing to resume, a new run")
        resume = False
    stored = runs.open(out) if resume else None
    if stored is None and not console.force:
        runs.refuse_occupied(out)
    kind = kind_of(source.data) if stored is None else kind_and_codec(stored)[0]
    config, choice = _configuration(console, kind, given, stored, source.wishes.missing)
    seed = choice.settings.seed
    material = Material(kind, source, stored, console.say)
    rows, valid = material.parts(config["valid_fraction"], seed)
    go_on = shlex.join(["csm", "fit", *source.words(), "--out", str(out), "--resume"])
    if stored is not None:
        _refuse_other_data(stored, material.facts, source.data)
        return Job(rows, valid, go_on, lambda: stored)
    from concrete_score.training.choice import fit_to_rows

    console.say(f"seed {seed}")
    for line in kind.doubts(material.codec):
        console.say(f"note: {line}")
    console.say(f"{len(rows):,} {kind.noun} to learn from, {0 if valid is None else len(valid):,} held out")
    choice = kind.complete(choice, material.codec, rows)
    choice.recipe.build(material.codec.space, choice.settings)
    choice = fit_to_rows(choice, rows, material.codec.space)
    for line in choice.why:
        console.say(f"chosen: {line}")
    config = {**config, "recipe": choice.recipe.to_json(), "training": choice.settings.to_json()}

    def create() -> "Run":
        from concrete_score.training.processes import rank

        if rank() > 0:  # the first process has made it
            return runs.open(out)
        codec = material.codec.to_json()
        return runs.create(out, config=config, codec=codec, data=material.facts, seed=seed, force=console.force)

    return Job(rows, valid, go_on, create)


def rows_of_run(run: "Run", source: Source, say: Callable[[str], None]) -> "tuple[Tensor, Tensor | None]":
    """The rows that a run learned from, and those held out, read again.

    Raises:
        InputError: they are others.
    """
    from concrete_score.cli.open_run import kind_and_codec

    material = Material(kind_and_codec(run)[0], source, run, say)
    _refuse_other_data(run, material.facts, source.data)
    return material.parts(run.config["valid_fraction"], run.settings.seed)


def _configuration(
    console: Console, kind: "Kind", given: dict[str, Any], stored: "Run | None", missing: str
) -> "tuple[dict[str, Any], Choice]":
    """What is to be done: what is given, over what the run was begun with or what is chosen."""
    from concrete_score import registry
    from concrete_score.data.held_out import FRACTION
    from concrete_score.training.choice import Choice
    from concrete_score.training.recipe import Recipe, sort_settings

    training, recipe = sort_settings(given["settings"])
    training |= {name: given[name] for name in SETTINGS if given[name] is not None}
    for name, kind_of_name in PIECES.items():
        if given[name] is not None:
            registry.find(kind_of_name, given[name], where=f"--{name}")
            recipe[name] = given[name]
    if _was_given("seed") or stored is None:
        training.setdefault("seed", console.seed)
    fraction = given["valid_fraction"]
    if fraction is not None and not 0 < fraction < 1:
        raise InputError("a share between 0 and 1", str(fraction), where="--valid-fraction")
    if stored is None:
        choice = kind.choose(recipe, training)
        choice.settings  # noqa: B018 - read, and thereby checked, before the data are
        return {"valid_fraction": fraction or FRACTION, "missing": missing}, choice
    before = stored.config
    for name in ("model_options", "objective_options", "noise_options"):
        recipe[name] = {**before["recipe"][name], **recipe.get(name, {})}
    now = Recipe.from_json({**before["recipe"], **recipe}).resolved()
    choice = Choice(now, {**before["training"], **training})
    config = {
        **before,
        "recipe": now.to_json(),
        "training": choice.settings.to_json(),
        "valid_fraction": fraction or before["valid_fraction"],
    }
    _refuse_other_configuration(before, config)
    return {"missing": "refuse", **config}, choice


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


@contextmanager
def _called(option: str) -> Iterator[None]:
    """Within it, a complaint about DATA is one about the option that named the data."""
    try:
        yield
    except InputError as error:
        place = option if error.where == "DATA" else error.where
        raise InputError(error.expected, error.came, place, error.fix) from None
