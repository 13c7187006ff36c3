"""Long work cut into units: each is stored when it is done, and what is stored is not done again."""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

from concrete_score import __version__
from concrete_score.errors import InputError
from concrete_score.experiments.result import Settings, refuse_other_version
from concrete_score.files import write_json


@dataclass(frozen=True)
class Unit:
    """One piece of an experiment.

    Args:
        name: also its file's; letters, digits, ``-``, ``_`` and ``.``.
        work: a function of a module, so that other processes find it; called with the settings and ``options``.
        options: plain values; a stored unit with other options is done again.
    """

    name: str
    work: Callable[..., dict[str, Any]]
    options: Mapping[str, Any] = field(default_factory=dict)


def complete(units: Sequence[Unit], settings: Settings) -> dict[str, dict[str, Any]]:
    """The result of every unit by name, in their order; with ``settings.jobs`` several processes of one thread each.

    What is done is written to ``settings.store`` at once, so that an interrupted experiment goes on from there.

    Raises:
        InputError: a stored unit is of another version.

    >>> complete([Unit("seven", lambda settings: {"value": 7})], Settings())
    {'seven': {'value': 7}}
    """
    found = {unit.name: _stored(unit, settings) for unit in units}
    missing = [unit for unit in units if found[unit.name] is None]
    if settings.jobs > 1 and len(missing) > 1:
        _in_processes(missing, settings, found)
    else:
        for unit in missing:
            found[unit.name] = _told(_do(unit, settings), unit, settings, found)
    return {name: value for name, value in found.items() if value is not None}


def stored(units: Sequence[Unit], settings: Settings) -> dict[str, dict[str, Any]]:
    """The results of those units that were done before."""
    found = {unit.name: _stored(unit, settings) for unit in units}
    return {name: value for name, value in found.items() if value is not None}


def spent(settings: Settings) -> float:
    """The seconds that all stored units of this size and seed took, whenever they were done."""
    folder = _folder(settings)
    files = [] if folder is None else folder.glob("*.json")
    return sum((json.loads(path.read_text(encoding="utf-8"))["seconds"] for path in files), start=0.0)


def _in_processes(missing: list[Unit], settings: Settings, found: dict[str, dict[str, Any] | None]) -> None:
    alone = replace(settings, say=None)
    pool = ProcessPoolExecutor(settings.jobs, mp_context=get_context("spawn"), initializer=_one_thread)
    try:
        futures: dict[Future[dict[str, Any]], Unit] = {pool.submit(_do, unit, alone): unit for unit in missing}
        for future in as_completed(futures):
            unit = futures[future]
            found[unit.name] = _told(future.result(), unit, settings, found)
    finally:
        pool.shutdown(cancel_futures=True)


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def _do(unit: Unit, settings: Settings) -> dict[str, Any]:
    start = perf_counter()
    result = unit.work(settings, **unit.options)
    path = _path(unit, settings)
    if path is not None:
        seconds = round(perf_counter() - start, 1)
        about = {"name": unit.name, "version": __version__, "options": dict(unit.options), "seconds": seconds}
        write_json(path, {**about, "result": result})
        # Read back, so that a number is the same whether it was just found or stored before.
        return dict(json.loads(path.read_text(encoding="utf-8"))["result"])
    return result


def _told(
    result: dict[str, Any], unit: Unit, settings: Settings, found: Mapping[str, dict[str, Any] | None]
) -> dict[str, Any]:
    if settings.say is not None:
        done = sum(value is not None for value in found.values()) + 1
        settings.say(f"{unit.name}: done ({done} of {len(found)})")
    return result


def _folder(settings: Settings) -> Path | None:
    if settings.store is None:
        return None
    return Path(settings.store) / ("units-quick" if settings.quick else "units") / f"seed-{settings.seed}"


def _path(unit: Unit, settings: Settings) -> Path | None:
    folder = _folder(settings)
    return None if folder is None else folder / f"{unit.name}.json"


def _stored(unit: Unit, settings: Settings) -> dict[str, Any] | None:
    path = _path(unit, settings)
    if path is None or not path.exists():
        return None
    refuse_other_version(path, __version__)
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        same = value["options"] == json.loads(json.dumps(dict(unit.options)))
        return dict(value["result"]) if same else None
    except (ValueError, KeyError, TypeError):
        raise InputError("a stored unit", "a damaged file", where=str(path), fix="remove it, and run again") from None
