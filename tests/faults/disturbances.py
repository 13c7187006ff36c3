"""Kills and signals, full disks, and writers that race: a run is whole at every moment, and ends as if undisturbed."""

import errno
import os
import random
import resource
import shutil
import signal
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from tests.faults import children, fits
from tests.faults.plan import Family, Fault


def kill(rng: random.Random, folder: Path, cases: Any, kinds: Iterable[str] = tuple(fits.KINDS)) -> str:
    """One fit met by up to three signals, each time continued, and compared with the undisturbed one."""
    case, run = cases[rng.choice(list(kinds))], folder / "run"
    strikes = []
    for _ in range(rng.randint(1, 3)):
        strikes.append(fits.struck(case, run, rng))
        fits.verified(run)
        if strikes[-1] == "too late":
            break
    fits.finished_alike(case, run)
    return f"{case.kind}, {sum(strike != 'too late' for strike in strikes)} strikes"


def fill_disk(rng: random.Random, folder: Path, cases: Any) -> str:
    """A fit whose files may not grow beyond some size, as on a full disk; then continued with room enough."""
    case, run = cases[rng.choice(list(fits.KINDS))], folder / "run"
    work, limit = children.command(*case.words(run, "--resume")), int(10 ** rng.uniform(3.5, 5.5))
    ended = children.call(_limited(work, limit) if rng.random() < 0.5 else _without_room(work, rng.randint(0, 30)))
    if fault := ended.fault((0, 1)):
        raise Fault(f"full disk: {fault}")
    if ended.code and not ("bytes are free" in ended.err and str(run) in ended.err):
        raise Fault(f"says neither where nor how much: {ended.err[-500:]}")
    fits.verified(run)
    fits.finished_alike(case, run)
    return "full" if ended.code else "fitted in"


def race(rng: random.Random, folder: Path, cases: Any) -> str:
    """Two or three writers of one run at once: one wins, the others are told, and the run is whole."""
    case, run = cases["table"], folder / "run"
    if rng.random() < 0.5:
        fits.struck(case, run, rng)
    hows = [rng.choice(("--resume", "--force")) for _ in range(rng.randint(2, 3))]
    places = [folder / f"writer-{number}" for number in range(len(hows))]
    for place in places:
        place.mkdir()
    started = [
        children.start(children.command(*case.words(run, how)), place) for how, place in zip(hows, places, strict=True)
    ]
    endings = [children.wait(child, place) for child, place in zip(started, places, strict=True)]
    for how, ended in zip(hows, endings, strict=True):
        if fault := ended.fault((0, 2)):
            raise Fault(f"{how}: {fault}")
    fits.verified(run)
    if all(ended.code for ended in endings):
        return "all refused" if not (run / "model.safetensors").exists() or "--force" in hows else "refused"
    fits.finished_alike(case, run)
    return f"{sum(not ended.code for ended in endings)} of {len(hows)} wrote"


def keep_users_files(rng: random.Random, folder: Path, cases: Any) -> str:
    """``--force`` and ``--resume`` on folders that hold a user's files: not one of them is lost or changed."""
    case, run = cases["table"], folder / "run"
    how = rng.choice(("--force", "--resume"))
    names = ["notes.txt", ".notes.draft.txt", ".model.draft", "model.safetensors.bak", "checkpoint/mine.safetensors"]
    names += ["samples/mine.png", "deep/er/file", ".thesis.1.7f.draft.txt"]
    mine = {name: str(rng.random()) for name in rng.sample(names, rng.randint(1, len(names)))}
    whole = rng.random() < 0.5
    if whole:
        shutil.copytree(case.data.parent / "whole-table", run)
    elif rng.random() < 0.5:
        mine["run.json"] = rng.choice(('{"format": 1}', "{}", "", "[" * 5000, "\0"))
    for name, text in mine.items():
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(text)
    ended = children.csm(*case.words(run, how))
    if fault := ended.fault((0, 2)):
        raise Fault(f"{how}: {fault}")
    for name, text in mine.items():
        if not (run / name).exists() or (run / name).read_text() != text:
            raise Fault(f"{how} on {'a run' if whole else 'a folder'}: {name} is gone or changed")
    return "replaced or continued" if ended.code == 0 else "refused"


def _limited(work: Callable[[], None], limit: int) -> Callable[[], None]:
    """Work whose files may not grow beyond a size; messages are files here too, and always fit."""

    def bounded() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        work()

    return bounded


def _without_room(work: Callable[[], None], call: int) -> Callable[[], None]:
    """Work during which the disk is full from some call to have a file synced on."""

    def bounded() -> None:
        sync, calls = os.fsync, iter(range(10**9))

        def full(handle: int) -> None:
            if next(calls) >= call:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            sync(handle)

        os.fsync = full
        work()

    return bounded


def _family(name: str, trial: Callable[[random.Random, Path, Any], str], reduced: int, full: int, unit: int) -> Family:
    cases = {"before": fits.cases, "prepare": lambda folder: fits.cases()}
    return Family(name, trial, reduced, full, unit, **cases, forked=False)


FAMILIES = (
    _family("kills", kill, 5, 420, 6),
    _family("kills-streams", partial(kill, kinds=tuple(fits.STREAMS)), 2, 60, 6),
    _family("full-disk", fill_disk, 3, 100, 5),
    _family("writers", race, 3, 500, 10),
    _family("users-files", keep_users_files, 4, 100, 10),
)
