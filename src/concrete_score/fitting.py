"""From a request to a trained model: read the data, infer the codec, choose what was not asked for, create or resume a
run, and train. The command line and the estimator both go this way."""

import hashlib
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from concrete_score import caches, registry, runs, training
from concrete_score.codecs import Codec, TableCodec, codec_of
from concrete_score.codecs.base import is_data
from concrete_score.data import load
from concrete_score.data.catalog import brings_held_out, is_path
from concrete_score.data.census import take_census
from concrete_score.data.formats import READING, Say
from concrete_score.data.frame import Frame
from concrete_score.data.streams import Stream, find_stream, is_batches, stream_batches
from concrete_score.defaults import MOST_HELD_OUT, UNKNOWN, VALID_FRACTION
from concrete_score.errors import InputError, Option, Part
from concrete_score.files import canonical_json
from concrete_score.progress import Lines
from concrete_score.protocols import Objective
from concrete_score.runs import Run
from concrete_score.shapes import States
from concrete_score.spaces import Space
from concrete_score.training import processes
from concrete_score.training.choice import Choice, fit_to_rows
from concrete_score.training.events import Event, Finished, History
from concrete_score.training.examples import Examples
from concrete_score.training.holding import Rows, divide
from concrete_score.training.loop import try_compiled
from concrete_score.training.patterns import BlankPatterns
from concrete_score.training.recipe import Built, Recipe, TrainingSettings, refuse_too_large, sort_settings

PIECES = {"model": "models", "objective": "objectives", "edges": "edges", "neighborhood": "neighborhoods"}
"""The pieces of a recipe that are asked for by name, and the registry's kind of each."""
_SOON = 1.0
"""Seconds after which a fit that is not done with its first work says what it does."""
SETTINGS = ("steps", "minutes", "batch_size", "lr")
"""The settings of a training that have an option of their own."""
_OBJECTS: Mapping[str, Any] = {"model": nn.Module, "objective": Objective}
"""Pieces that Python may also give as objects."""


@dataclass(frozen=True)
class Request:
    """What a user asks for; what is None or left out is chosen.

    Args:
        data: a path, several, a folder, a name of a data set, or a Python object; an iterable of batches is one table.
        valid: held-out data, likewise.
        valid_fraction: the share held out where there is no ``valid``.
        unknown: what to do with values of ``valid`` never seen in training.
        data_dir: a folder of named data sets, looked into first.
        reading: how to read the data, by the codec's option names; of a file also ``encoding, header, separator``.
        pieces: ``model, objective, edges, neighborhood`` by name; model and objective also as objects.
        training: ``steps, minutes, batch_size, lr, seed``.
        settings: any other setting by name, such as ``model.hidden``.
        stream: whether a table stays on the disk, its rows encoded there; by default where it is too large for memory.
        cache: the folder of the encoded rows; a temporary one by default.
    """

    data: Any
    valid: Any = None
    valid_fraction: Any = None
    unknown: Any = UNKNOWN[0]
    data_dir: str | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)
    pieces: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    stream: bool | None = None
    cache: Path | None = None

    @property
    def codec_options(self) -> dict[str, Any]:
        """What of ``reading`` is the codec's, rather than the file's."""
        return {name: value for name, value in self.reading.items() if name not in READING}


@dataclass(frozen=True, eq=False)
class Plan:
    """What is trained and how; ``objects`` are pieces that came as objects instead of names."""

    choice: Choice
    objects: Mapping[str, Any] = field(default_factory=dict)

    @property
    def recipe(self) -> Recipe:
        """Names and options of the pieces."""
        return self.choice.recipe

    @property
    def settings(self) -> TrainingSettings:
        """The settings of the training."""
        return self.choice.settings

    def fit_to_rows(self, rows: States | Examples, space: Space, valid: Tensor | Examples | None, say: Say) -> "Plan":
        """The plan with what depends on the rows; a model that came as an object starts as it is."""
        start = "model" not in self.objects
        return replace(self, choice=fit_to_rows(self.choice, rows, space, valid, say, start=start))

    def build(self, space: Space) -> Built:
        """The model with its first weights, and the objective; given objects are copied, never changed.

        Raises:
            InputError: pieces that do not fit.
        """
        if not self.objects:
            return self.recipe.build(space, self.settings)
        if "model" not in self.objects:
            model = self.recipe.build_model(space, self.settings)
        else:
            model = _made("model", self.objects["model"], space)
            here = getattr(model, "space", None) or getattr(getattr(model, "neighborhood", None), "space", None)
            if here != space:
                expected = f"a model of this table's space, sizes {space.sizes}"
                raise InputError(expected, f"one of {here}", where="model")
        if "objective" in self.objects:
            return Built(model, _made("objective", self.objects["objective"], space))
        return Built(model, self.recipe.build_objective(space, self.settings, model))


class Fit(NamedTuple):
    """A trained model and the account of its training."""

    model: nn.Module
    ended: Finished
    history: list[dict[str, Any]]


@dataclass(eq=False)
class Job:
    """One fit, ready to train: the data as states, the codec, the plan, and what a run keeps of them.

    ``config`` is ``{recipe, training, valid_fraction, missing}`` and ``facts`` is ``{rows, sha256, valid}``, with
    ``blanks``, the patterns of blank cells, where there are any.
    """

    codec: Codec
    rows: Examples
    valid: Examples | None
    plan: Plan
    config: dict[str, Any]
    facts: dict[str, Any]
    run: Run | None = None

    @property
    def valid_inside(self) -> float:
        """What numbers inside their ranges add to the mean log-likelihood of the held-out rows."""
        return 0.0 if self.valid is None else self.valid.mean_log_inside

    @cached_property
    def built(self) -> Built:
        """Model and objective, built once."""
        return self.plan.build(self.codec.space)

    def check(self) -> None:
        """Refuse pieces that do not fit one another, or rows with blanks that the model cannot fill."""
        for rows in (self.rows, self.valid):
            if rows is not None:
                rows.check(self.built.model)

    def create(self, out: str | Path, *, force: bool = False) -> Run:
        """Begin the run directory of a new fit; an opened one is given back."""
        if self.run is None:
            codec, seed = self.codec.to_json(), self.plan.settings.seed
            config = {**self.config, **({"valid_log_inside": self.valid_inside} if self.valid_inside else {})}
            known: dict[str, Any] = {"config": config, "codec": codec, "data": self.facts, "seed": seed}
            self.run = runs.create(out, **known, force=force, launch=processes.job())
        return self.run

    def train(
        self,
        *,
        device: str | torch.device = "cpu",
        show: Callable[[Event], None] = lambda event: None,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> Fit:
        """Train to the end, into the run directory if one was created or opened."""
        history = History()

        def see(event: Event) -> None:
            history.see(event)
            show(event)

        settings = self.plan.settings
        if self.run is not None:
            options: dict[str, Any] = {"device": device, "show": see, "interrupted": interrupted}
            ended = runs.train(self.run, self.rows, self.valid, built=self.built, **options)
        else:
            last: Any = None
            for last in training.train(
                *self.built, self.rows, settings, self.valid, device=device, interrupted=interrupted
            ):
                see(last)
            ended = last
        return Fit(self.built.model.to("cpu").requires_grad_(False), ended, history.lines)


def prepare(
    request: Request,
    stored: Run | None = None,
    say: Say = lambda message: None,
    device: str | torch.device = "cpu",
) -> Job:
    """Read, encode and choose: all that can be wrong with a request is found here, before anything is written.

    Args:
        request: what to learn, and how.
        stored: a run to resume; the request may repeat its configuration, not change it.
        say: receives what was noticed and chosen, line by line.
        device: where it will be trained, for trials.

    Raises:
        InputError: data or options that cannot be used, or that differ from those of the run.
    """
    return _begun(request, say, device) if stored is None else _resumed(request, stored, say)


def load_data(
    data: Any,
    split: str,
    data_dir: str | None = None,
    say: Say = lambda message: None,
    reading: Mapping[str, Any] | None = None,
    stream: bool | None = False,
) -> Any:
    """A data object from a path, several, a name or a Python object.

    Args:
        data: what it is read from.
        split: which part of a named set.
        data_dir: a folder of named sets, looked into first.
        say: receives what was noticed.
        reading: how a file is to be read.
        stream: whether a table is to stay on the disk, as a `Stream`; None for those too large for memory.
    """
    options = {name: (reading or {}).get(name) for name in READING}
    several = isinstance(data, list | tuple) and bool(data) and all(isinstance(each, str | Path) for each in data)
    if several and len(data) == 1:
        (data,) = data
        several = False
    path = isinstance(data, str | Path) and is_path(data)
    if several or (path and (stream is not False or Path(data).is_dir())):
        found = find_stream(data if several else [data], options, say, stream)
        if found is not None:
            return found
    if isinstance(data, str | Path):
        return load(data, split, data_dir=data_dir, options=options, say=say)
    if is_data(data):
        return data
    if stream is not False and is_batches(data):
        return stream_batches(data)
    return codec_of("image" if getattr(data, "ndim", 2) > 2 else "table").accept(data)


def hold_out(states: Rows, fraction: float, seed: int) -> tuple[Rows, Rows]:
    """Training rows and held-out rows, divided at random (`holding.divide`); at least one row is left to learn from.

    >>> train, valid = hold_out(torch.arange(20).reshape(10, 2), 0.2, seed=0)
    >>> len(train), len(valid)
    (8, 2)
    """
    sites = states.states.shape[1] if isinstance(states, Examples) else states.shape[1]
    return divide(len(states), sites, _fraction(fraction, VALID_FRACTION), seed).apply(states)


def states_digest(states: Tensor | Examples) -> str:
    """SHA-256 of a table's type, shape and values, in hex; also of blanks and weights, if there are any."""
    examples = Examples.of(states)
    total = hashlib.sha256()
    for part in (examples.states, examples.observed, examples.weights):
        if part is not None:
            total.update(canonical_json([str(part.dtype), list(part.shape)]))
            total.update(part.contiguous().view(torch.uint8).numpy().data)
    return total.hexdigest()


class Splits(NamedTuple):
    """What is learned from, what decides when to stop, and what is judged by; each ``(N, D)``, stored narrowly."""

    codec: TableCodec
    train: States
    valid: States
    test: States

    @property
    def space(self) -> Space:
        return self.codec.space


def load_splits(name: str, data_dir: str | Path | None = None) -> Splits:
    """The three parts of a named data set as states; the codec is that of the training rows.

    Raises:
        InputError: no such set, or a file of it is not here; it says which to put where.
    """
    frames = [load(f"{name}:{split}", data_dir=data_dir) for split in ("train", "valid", "test")]
    codec = TableCodec.fit(frames[0])
    return Splits(codec, *(codec.encode(frame).states for frame in frames))


def _begun(request: Request, say: Say, device: str | torch.device) -> Job:
    """The job of a new run."""
    recipe, settings, objects = _asked_for(request)
    fraction = _fraction(request.valid_fraction, VALID_FRACTION)
    TrainingSettings.of(settings)  # an unusable value is refused before the data are read
    data = load_data(request.data, "train", request.data_dir, say, request.reading, request.stream)
    looked_at = _looked_at(data, say)
    codec = _inferred(looked_at, request, say)
    missing = str(request.reading.get("missing") or codec.missing)
    plan = Plan(codec.choose(recipe, settings), objects)
    refuse_too_large(plan.recipe, plan.settings, codec.space)
    if request.valid_fraction is None:
        census = getattr(looked_at, "census", None)
        fraction = min(fraction, MOST_HELD_OUT / (len(looked_at) if census is None else census.rows))
    rows, valid, facts = _encoded(request, codec, data, missing, fraction, plan.settings.seed, say)
    plan = plan.fit_to_rows(rows, codec.space, valid, say)
    if plan.settings.compile == "auto":
        plan = _tried(plan, rows, codec.space, device)
    plain = {"recipe": plan.recipe.to_json(), "training": plan.settings.to_json()}
    config = {"valid_fraction": fraction, "missing": missing, **plain}
    job = Job(codec, rows, valid, plan, config, facts)
    job.check()  # pieces that do not fit are refused before anything is written or reported
    _report(job, say)
    return job


def _tried(plan: Plan, rows: Examples, space: Space, device: str | torch.device) -> Plan:
    """The plan with or without ``torch.compile``, by a trial on the first steps; a run keeps which."""
    settings = plan.settings
    trial = try_compiled(*plan.build(space), rows, settings, device)
    why = "compile no: so few steps cannot pay for it, or nothing compiles here"
    pays = trial is not None and trial.pays(settings.steps)
    if trial is not None:
        why = trial.explain(settings.steps)
    training = {**plan.choice.training, "compile": "yes" if pays else "no"}
    return replace(plan, choice=plan.choice._replace(training=training, why=(*plan.choice.why, why)))


def _resumed(request: Request, stored: Run, say: Say) -> Job:
    """The job of a run that goes on: its own codec and configuration, and the data that it was begun with."""
    recipe, settings, _ = _asked_for(request)
    stored.check()
    config, plan = _continued(stored, recipe, settings, _fraction(request.valid_fraction))
    data = load_data(request.data, "train", request.data_dir, say, request.reading, request.stream)
    codec = _same_codec(stored, data, request, say)
    refuse_too_large(plan.recipe, plan.settings, codec.space)
    fraction, seed = config["valid_fraction"], plan.settings.seed
    rows, valid, facts = _encoded(request, codec, data, config["missing"], fraction, seed, say)
    _refuse_other_data(stored, facts, data.where if isinstance(data, Stream) else str(request.data))
    job = Job(codec, rows, valid, plan, config, facts, stored)
    with runs.untrusted(stored):
        job.check()
    return job


def _encoded(
    request: Request, codec: Codec, data: Any, missing: str, fraction: float, seed: int, say: Say
) -> tuple[Examples, Examples | None, dict[str, Any]]:
    """Rows to learn from, held-out rows, and what a run keeps to know both again."""
    # Where blank is a category, those of columns that had none in training are refused.
    reading = {"missing": "refuse" if missing == "category" else missing, "unknown": request.unknown}
    valid = _held_out(request, codec, reading, say)
    if isinstance(data, Stream):
        divided = None if valid is not None else (fraction, seed)
        rows, held, facts = _cached(request, codec, data, reading, divided, say)
    else:
        states = _encode(codec, data, reading, say)
        facts = _facts(codec, states)
        rows, held = (states, None) if valid is not None else hold_out(states, fraction, seed)
    if valid is not None:
        facts["valid"] = {"rows": len(valid), "sha256": states_digest(valid)}
    return rows, held if valid is None else valid, facts


def _facts(codec: Codec, states: Examples) -> dict[str, Any]:
    """What a run keeps to know its rows again."""
    facts: dict[str, Any] = {"rows": len(states), "sha256": states_digest(states), "valid": None}
    if states.observed is not None:
        facts["blanks"] = BlankPatterns.learn(states.states, states.observed, codec.space, states.weights).to_json()
    return facts


def _looked_at(data: Any, say: Say) -> Any:
    """What a codec is inferred from: the data, or of a stream what one pass over it tells."""
    if not isinstance(data, Stream):
        return data
    return take_census(data, _told("looking at the columns", data, say))


def _inferred(data: Any, request: Request, say: Say) -> Codec:
    """The codec of data to learn from; of many columns it is soon said that they are looked at, and how far."""
    work = f"looking at {len(data.names):,} columns" if isinstance(data, Frame) else "looking at the data"
    return codec_of(data.kind).infer_telling(data, request.codec_options, Lines(work, say, first=_SOON))


def _told(work: str, data: Stream, say: Say) -> Callable[[int, int, str], None]:
    """Says now and then how far a pass over a stream is, in rows and bytes."""
    lines = Lines(work, say)
    return lambda done, total, text: lines(done, total, f"{data.where}: {work}, {text}")


def _cached(
    request: Request,
    codec: Codec,
    data: Stream,
    reading: Mapping[str, str],
    divided: tuple[float, int] | None,
    say: Say,
) -> caches.Cached:
    """The rows of a stream, encoded on the disk, without those held out."""
    folder = request.cache or caches.temporary_folder()
    recipe = caches.Recipe(
        codec,
        lambda: data.parts(_told("encoding", data, say)),
        reading,
        [data.identity, divided],
        None if divided is None else lambda rows: divide(rows, codec.space.num_sites, *divided),
        lambda states: _facts(codec, states),
        say,
    )
    found = caches.open_or_make(folder, recipe)
    size = found.rows.states.nbytes
    say(f"{data.where}: {found.facts['rows']:,} {codec.noun} are encoded in {folder}, {size / 1e6:,.0f} MB")
    _say_blanks(found.rows, data.where, say)
    return found


def _refuse_other_data(run: Run, facts: Mapping[str, Any], data: str) -> None:
    """Refuse data that a run did not learn from."""
    known = dict(run.info["data"])
    if {**known, "blanks": None} != {**facts, "blanks": None}:  # the digest covers blanks
        raise InputError(
            f"the data of this run, {known['rows']} rows with SHA-256 {known['sha256'][:8]}…",
            f"{facts['rows']} rows with {facts['sha256'][:8]}…, or other held-out rows",
            where=data,
            fix="give the same data, or begin another run",
        )


def _asked_for(request: Request) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The recipe's fields and the settings that were given, and pieces that are objects."""
    settings, recipe = sort_settings(request.settings)
    TrainingSettings.of(settings)  # an unusable value is refused even where another option wins
    given = {name: value for name, value in request.training.items() if value is not None}
    if twice := [name for name in given if name in settings]:
        came = f"{given[twice[0]]} and {settings[twice[0]]}"
        raise InputError(f"one value for {twice[0]}", came, Option("set"), "give it once")
    settings |= given
    pieces = {name: value for name, value in request.pieces.items() if value is not None}
    objects = {name: pieces.pop(name) for name in _OBJECTS if not isinstance(pieces.get(name, ""), str)}
    for name, value in objects.items():
        if not isinstance(value, _OBJECTS[name]) and not callable(value):
            expected = f"a registered name, the {name} itself, or a function of the space that makes it"
            raise InputError(expected, type(value).__name__, Option(name))
    for name, value in pieces.items():
        if not isinstance(value, str):
            raise InputError("a registered name", repr(value), Option(name))
        registry.find(PIECES[name], value, where=Option(name))
    if "objective" in objects and "edges" in pieces:
        raise InputError("no edges beside an objective that has its own", repr(pieces["edges"]), Option("edges"))
    return {**recipe, **pieces}, settings, objects


def _continued(
    stored: Run, recipe: dict[str, Any], settings: Mapping[str, Any], fraction: float | None
) -> tuple[dict[str, Any], Plan]:
    """The configuration of a run that goes on; what is given again must be what it was begun with."""
    before = stored.config
    settings = {name: value for name, value in settings.items() if (name, value) != ("compile", "auto")}  # was settled
    for name in ("model_options", "objective_options", "noise_options"):
        recipe[name] = {**before["recipe"][name], **recipe.get(name, {})}
    now = Recipe.from_json({**before["recipe"], **recipe}).resolved()
    choice = Choice(now, {**before["training"], **settings})
    config = {
        **before,
        "recipe": now.to_json(),
        "training": choice.settings.to_json(),
        "valid_fraction": fraction or before["valid_fraction"],
    }
    for part, old in before.items():
        new = config[part]
        pairs = [(name, old[name], new.get(name)) for name in old] if isinstance(old, dict) else [(part, old, new)]
        for name, was, is_now in pairs:
            if canonical_json(was) != canonical_json(is_now):
                fix = "leave it out, or begin another run"
                raise InputError(f"this run's own {name} ({was})", str(is_now), Option("resume"), fix)
    return {"missing": "refuse", **config}, Plan(choice)


def _same_codec(stored: Run, data: Any, request: Request, say: Say) -> Codec:
    """The run's codec; reading options may be repeated, not changed."""
    codec = stored.codec
    codec.accept(data.head() if isinstance(data, Stream) else data)
    given = {name: value for name, value in request.codec_options.items() if value is not None}
    if given and not codec.same_reading(codec_of(data.kind).infer(_looked_at(data, say), given)):
        fix: tuple[Part, ...] = ("leave out ", *(Option(name) for name in given))
        raise InputError("the data read as when this run began", "other options", Option("resume"), fix)
    return codec


def _held_out(request: Request, codec: Codec, reading: Mapping[str, str], say: Say) -> Examples | None:
    """The held-out rows that were given, or that a named set brings."""
    spec = request.valid if request.valid is not None else request.data if brings_held_out(request.data) else None
    if spec is None:
        return None
    try:
        data = load_data(spec, "valid", request.data_dir, say, request.reading)
    except InputError as error:
        if error.where == Option("data") and request.valid is not None:
            raise error.moved(Option("valid")) from None
        raise
    return _encode(codec, data, reading, say)


def _encode(codec: Codec, data: Any, reading: Mapping[str, str], say: Say) -> Examples:
    found = codec.encode(data, missing=reading["missing"], unknown=reading["unknown"])
    for count, what in ((found.blank, "blank cells dropped"), (found.unknown, "unseen values skipped")):
        if count:
            say(f"{data.where}: {count:,} {codec.noun} with {what}")
    examples = Examples.of(found.states, found.observed, found.weights, found.log_inside)
    _say_blanks(examples, data.where, say)
    return examples


def _say_blanks(examples: Examples, where: str, say: Say) -> None:
    if blank := examples.blank_cells:
        share = blank / examples.states.numel()
        meaning = "they count as not observed, and are taken to be missing at random"
        say((f"{where}: {blank:,} cells ({share:.1%}) are blank: {meaning}; or use ", Option("missing", "category")))


def _fraction(value: Any, default: float | None = None) -> Any:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise InputError("a share between 0 and 1", repr(value), Option("valid-fraction"))
    return float(value)


def _made(name: str, value: Any, space: Space) -> Any:
    """A model or objective on a space: a copy of the one given, or what the function given makes."""
    if isinstance(value, _OBJECTS[name]) and not isinstance(value, type):
        return deepcopy(value)
    found = value(space)
    if not isinstance(found, _OBJECTS[name]):
        came = f"one that makes {type(found).__name__}"
        raise InputError(f"a function that makes the {name}", came, Option(name))
    return found


def _report(job: Job, say: Say) -> None:
    """What was read and chosen, line by line."""
    say(f"seed {job.plan.settings.seed}")
    for note in job.codec.notes():
        say(("note: ", *note))
    held_out = 0 if job.valid is None else len(job.valid)
    say(f"{len(job.rows):,} {job.codec.noun} to learn from, {held_out:,} held out")
    for line in job.plan.choice.why:
        say(f"chosen: {line}")
    if job.valid_inside:
        ranges = any(job.codec.log_sizes(site) is not None for site in range(job.codec.space.num_sites))
        counted = "the ranges of numbers; where they lie in them adds"
        counted = counted if ranges else "values that training rows have; the share kept for others adds"
        say(f"validation counts {counted} {job.valid_inside:.4f} nats a row")
