"""Families of faults: what a trial does, how many there are, and how they are counted.

Every trial has a seed, its name: ``family:unit:number``. A trial ends in an outcome, one word, or raises `Fault`.
"""

import json
import os
import random
import resource
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic
from typing import Any

from tests.faults import children

SIZE = "CONCRETE_SCORE_FAULTS"
"""The environment variable that multiplies the number of trials of the reduced size; 1 by default."""


class Fault(AssertionError):
    """A promise that a trial found broken."""


@dataclass(frozen=True)
class Family:
    """One kind of fault.

    Args:
        name: in seeds and in results.
        trial: from a source of randomness, an empty folder and what ``prepare`` made, to an outcome.
        reduced, full: how many trials.
        unit: how many of them are done, and stored, at a time.
        before: called once a unit by the parent: what it keeps, all children have.
        prepare: made once a unit, in its folder.
        forked: whether all trials of a unit run in one child; otherwise they start children of their own.
    """

    name: str
    trial: Callable[[random.Random, Path, Any], str]
    reduced: int
    full: int
    unit: int
    before: Callable[[], Any] = field(default=lambda: None)
    prepare: Callable[[Path], Any] = field(default=lambda folder: None)
    forked: bool = True


def run_unit(family: Family, unit: int, count: int, seconds: float = 3600.0) -> dict[str, Any]:
    """Trials of one unit: how many there were, how they ended, the faults, and the peak of memory."""
    began, folder = monotonic(), Path(mkdtemp(prefix=f"faults-{family.name}-"))
    family.before()
    notes = folder / "notes.jsonl"
    notes.touch()
    try:
        if family.forked:
            ended = children.call(lambda: _trials(family, unit, count, folder, notes), seconds=seconds)
            trouble = "" if ended.code == 0 else f"the child ended with {ended.code}: {ended.err[-800:]}"
        else:
            _trials(family, unit, count, folder, notes)
            trouble = ""
        lines = [json.loads(line) for line in notes.read_text().splitlines()]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    done = [line for line in lines if "outcome" in line]
    faults = [line for line in done if line["outcome"] == "fault"]
    if trouble:
        faults.append({"seed": lines[-1]["seed"] if lines else f"{family.name}:{unit}", "fault": trouble})
    return {
        "family": family.name,
        "unit": unit,
        "trials": len(done),
        "outcomes": dict(Counter(line["outcome"] for line in done)),
        "faults": [{"seed": each["seed"], "fault": each["fault"]} for each in faults],
        "peak_mib": max((line.get("peak", 0) for line in done), default=0),
        "seconds": round(monotonic() - began, 1),
    }


def _trials(family: Family, unit: int, count: int, folder: Path, notes: Path) -> None:
    made = family.prepare(folder)
    with notes.open("a") as file:
        for number in range(count):
            seed = f"{family.name}:{unit}:{number}"
            place = folder / "trial"
            place.mkdir()
            file.write(json.dumps({"seed": seed}) + "\n")
            file.flush()
            line: dict[str, Any] = {"seed": seed}
            try:
                line["outcome"] = family.trial(random.Random(seed), place, made)
            except Fault as fault:
                line |= {"outcome": "fault", "fault": str(fault)[:2000]}
            line["peak"] = peak()
            file.write(json.dumps(line) + "\n")
            shutil.rmtree(place, ignore_errors=True)


def peak() -> int:
    """The most memory that this process, or a child of it, had at once, in MiB."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(each).ru_maxrss for each in who) // 1024


def reduced_count(family: Family) -> int:
    """How many trials `make test-faults` makes."""
    return max(1, round(family.reduced * float(os.environ.get(SIZE, "1"))))


def say(text: str) -> None:
    """A line for who watches."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
