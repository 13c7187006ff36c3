"""Running an experiment: its units, each stored when it is done and not done again, and its files."""

import fcntl
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

from concrete_score import __version__
from concrete_score.errors import InputError
from concrete_score.experiments.result import STORE, Result, Settings, refuse_others
from concrete_score.files import finite
from concrete_score.registry import load


@dataclass(frozen=True)
class Unit:
    """One piece of an experiment.

    Args:
        name: what it is stored under, for one seed and size.
        work: a function of a module, so that other processes find it; called with the settings and ``options``.
        options: plain values; a stored unit with other options is done again.
    """

    name: str
    work: Callable[..., dict[str, Any]]
    options: Mapping[str, Any] = field(default_factory=dict)


def reproduce(name: str, settings: Settings, out: str | Path = "results", *, force: bool = False) -> Result:
    """Run one experiment and write its files to ``out/name``.

    Raises:
        InputError: the name is not registered, or ``out/name`` holds results of another seed or size, or of another
            version without the units that they were made of, or files of somebody else, and not ``force``.
    """
    run = load("experiments", name)
    folder = Path(out) / name
    if not force:
        # Before the work, which may take hours.
        refuse_others(folder, name, __version__, settings)
    start, stored = perf_counter(), replace(settings, store=folder, force=force)
    older = sum(count for version, count in _versions(stored).items() if version != __version__)
    if older and not force and settings.say is not None:
        settings.say(f"{name}: {older} stored units are of another version and count; force does them again")
    findings = run(stored)
    # What was done before an interruption was done all the same.
    seconds = max(perf_counter() - start, spent(stored))
    result = Result(name, _command(name, settings), __version__, settings, seconds, findings, _versions(stored))
    result.write(folder)
    return result


def _command(name: str, settings: Settings) -> str:
    quick = " --quick" if settings.quick else ""
    device = "" if settings.device == "cpu" else f" --device {settings.device}"
    return f"csm reproduce {name} --seed {settings.seed}{quick}{device}"


def complete(units: Sequence[Unit], settings: Settings) -> dict[str, dict[str, Any]]:
    """The result of every unit by name, in their order; with ``settings.jobs`` several processes of one thread each.

    What is done is appended to the store at once, so that an interrupted experiment goes on from there.

    Raises:
        InputError: a line of the store is damaged.

    >>> complete([Unit("seven", lambda settings: {"value": 7})], Settings())
    {'seven': {'value': 7}}
    """
    before = stored(units, settings)
    found = {unit.name: before.get(unit.name) for unit in units}
    missing = [unit for unit in units if found[unit.name] is None]

    def keep(unit: Unit, result: dict[str, Any]) -> None:
        found[unit.name] = result
        if settings.say is not None:
            done = sum(value is not None for value in found.values())
            settings.say(f"{unit.name}: done ({done} of {len(found)})")

    if settings.jobs > 1 and len(missing) > 1:
        _in_processes(missing, settings, keep)
    else:
        for unit in missing:
            keep(unit, _do(unit, settings))
    return {name: value for name, value in found.items() if value is not None}


def stored(units: Sequence[Unit], settings: Settings) -> dict[str, dict[str, Any]]:
    """The results of those units that were done before, with the same seed, size and options.

    A version does not say whether a unit's code changed, and a unit may have taken hours: one of another version
    counts, and the results say of which version it is; with ``settings.force`` it does not, and is done again.
    """
    lines, found = _lines(settings), {}
    for unit in units:
        line = lines.get(unit.name)
        if line is None or (settings.force and line["version"] != __version__):
            continue
        if line["options"] == json.loads(json.dumps(dict(unit.options))):
            found[unit.name] = dict(line["result"])
    return found


def _versions(settings: Settings) -> dict[str, int]:
    """How many of the stored units of this seed and size each version did."""
    return dict(Counter(str(line["version"]) for line in _lines(settings).values()))


def spent(settings: Settings) -> float:
    """The seconds that all stored units of this size and seed took, whenever they were done."""
    return sum((line["seconds"] for line in _lines(settings).values()), start=0.0)


def _in_processes(missing: list[Unit], settings: Settings, keep: Callable[[Unit, dict[str, Any]], None]) -> None:
    alone = replace(settings, say=None)
    pool = ProcessPoolExecutor(settings.jobs, mp_context=get_context("spawn"), initializer=_one_thread)
    try:
        futures: dict[Future[dict[str, Any]], Unit] = {pool.submit(_do, unit, alone): unit for unit in missing}
        for future in as_completed(futures):
            keep(futures[future], future.result())
    finally:
        pool.shutdown(cancel_futures=True)


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def _do(unit: Unit, settings: Settings) -> dict[str, Any]:
    start = perf_counter()
    result = unit.work(settings, **unit.options)
    path = _path(settings)
    if path is None:
        return result
    line = {
        "name": unit.name,
        "version": __version__,
        "quick": settings.quick,
        "seed": settings.seed,
        "options": dict(unit.options),
        "seconds": round(perf_counter() - start, 1),
        "result": result,
    }
    text = json.dumps(finite(line), ensure_ascii=False)
    _append(path, text)
    # Read back, so that a number is the same whether it was just found or stored before.
    return dict(json.loads(text)["result"])


def _append(path: Path, line: str) -> None:
    """Add a line, one process at a time; a last line that a killed process left half-written is cut off first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _path(settings: Settings) -> Path | None:
    return None if settings.store is None else Path(settings.store) / STORE


def _lines(settings: Settings) -> dict[str, dict[str, Any]]:
    """The last line of every unit of this seed and size, by name; a half-written last line is no line."""
    path, found = _path(settings), {}
    if path is None or not path.exists():
        return {}
    whole = path.read_bytes().rpartition(b"\n")[0]
    for number, text in enumerate(whole.splitlines(), 1):
        try:
            line = json.loads(text)
            missing = {"name", "version", "quick", "seed", "options", "seconds", "result"} - set(line)
            if missing:
                raise KeyError(*missing)
        except (ValueError, KeyError, TypeError):
            where = f"{path}: line {number}"
            raise InputError("a stored unit", "a damaged line", where, "remove the line, and run again") from None
        if (line["quick"], line["seed"]) == (settings.quick, settings.seed):
            found[line["name"]] = line
    return found
