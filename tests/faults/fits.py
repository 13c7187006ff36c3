"""Small fits of every kind of data, and what they come to undisturbed: kills, full disks and races are held to it."""

import atexit
import random
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

from tests.faults import children
from tests.faults.plan import Fault

_WORDS = ("--quiet", "--no-report", "--threads", "1", "--steps", "30", "--batch-size", "8", "--model", "made")
_MORE = {"stream": ("--stream", "--keep-cache")}
"""What else the command line of a kind says."""
_SETTINGS = ("model.hidden=4", "valid_every=10", "check_every=5", "checkpoint_seconds=0.001")


@dataclass(frozen=True)
class Case:
    """Data of one kind, and the undisturbed run of it."""

    kind: str
    data: Path
    whole: dict[str, Any]
    seconds: float
    """Of computing time that it took."""

    def words(self, out: Path, *more: str) -> list[str]:
        """The command line of this fit."""
        settings = [word for setting in _SETTINGS for word in ("--set", setting)]
        return ["fit", str(self.data), "--out", str(out), *_WORDS, *settings, *_MORE.get(self.kind, ()), *more]


@cache
def cases() -> dict[str, Case]:
    """A case of every kind; the undisturbed runs are made in children, once, and removed at the end."""
    folder = Path(mkdtemp(prefix="faults-cases-"))
    atexit.register(rmtree, folder, ignore_errors=True)
    found = {}
    for kind, write in {**KINDS, **STREAMS}.items():
        case = Case(kind, write(folder, random.Random(f"data of {kind}")), {}, 0.0)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        ended = children.csm(*case.words(folder / f"whole-{kind}"))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if ended.code:
            raise Fault(f"{kind}: the undisturbed fit failed: {ended.err[-500:]}")
        took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        found[kind] = Case(kind, case.data, content(folder / f"whole-{kind}"), took)
    return found


def content(run: Path) -> dict[str, Any]:
    """The weights and measurements of a run, without what names it."""
    import json

    from safetensors import deserialize

    tensors = {name: bytes(each["data"]) for name, each in deserialize((run / "model.safetensors").read_bytes())}
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {"weights": tensors, "metrics": [{k: v for k, v in line.items() if k != "digest"} for line in lines]}


def verified(run: Path) -> None:
    """Every file of a run is whole, as a child sees it that only looks."""

    def look() -> None:
        from concrete_score import runs

        runs.verify(run)

    if (run / "run.json").exists():
        ended = children.call(look)
        if ended.code:
            raise Fault(f"unreadable run: {ended.err[-600:]}")


def finished_alike(case: Case, run: Path) -> None:
    """Continue a run to its end: it must come to what the undisturbed one came to."""
    ended = children.csm(*case.words(run, "--resume"))
    if fault := ended.fault((0,)):
        raise Fault(f"resume: {fault}")
    found = content(run)
    for part in ("weights", "metrics"):
        if found[part] != case.whole[part]:
            raise Fault(f"{case.kind}: other {part} than those of the undisturbed run")
    strays = [path.name for path in [*run.iterdir(), *(run / "checkpoint").iterdir()] if ".draft" in path.name]
    if strays:
        raise Fault(f"left behind: {strays}")


def struck(case: Case, run: Path, rng: random.Random) -> str:
    """A fit that a signal meets at a random moment of its computing time; what it was."""
    how = rng.choice(("KILL", "KILL", "INT", "TERM"))
    moment = max(0.001, rng.uniform(0.0, case.seconds))
    ended = children.call(_with_timer(children.command(*case.words(run, "--resume")), how, moment))
    allowed = {"KILL": (-signal.SIGPROF, 0), "INT": (130, 0, 1), "TERM": (130, 143, 0)}[how]
    if ended.code not in allowed or "Traceback" in ended.err or "internal error" in ended.err or ended.hung:
        raise Fault(f"{how} after {moment:.3f} s: exit {ended.code}, {ended.err[-600:]}")
    return how if ended.code else "too late"


def _with_timer(work: Callable[[], None], how: str, moment: float) -> Callable[[], None]:
    def timed() -> None:
        import os

        if how != "KILL":  # the default of SIGPROF ends a process at once, as SIGKILL does
            number = getattr(signal, f"SIG{how}")
            signal.signal(signal.SIGPROF, lambda *_: os.kill(os.getpid(), number))
        else:
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, moment)
        work()

    return timed


def _table(folder: Path, rng: random.Random, blank: tuple[str, ...] = ()) -> Path:
    path = folder / ("blanks.csv" if blank else "table.csv")
    cells = (("1", "2", "3", *blank), ("no", "yes", *blank))
    rows = (",".join((rng.choice("xy"), *map(rng.choice, cells))) for _ in range(60))
    path.write_text("\n".join(["a,b,c", *rows]) + "\n")
    return path


def _image(folder: Path, rng: random.Random) -> Path:
    import numpy as np

    path = folder / "images.npy"
    np.save(path, np.random.default_rng(0).integers(0, 2, (40, 4, 4), dtype=np.uint8))
    return path


def _sequence(folder: Path, rng: random.Random) -> Path:
    path = folder / "letters.fasta"
    path.write_text("".join(f">s{n}\n{''.join(rng.choices('ACGT', k=6))}\n" for n in range(40)))
    return path


def _text(folder: Path, rng: random.Random) -> Path:
    path = folder / "lines.txt"
    path.write_text("".join(f"{''.join(rng.choices('ab ', k=rng.randint(3, 6)))}c\n" for _ in range(40)))
    return path


def _stream(folder: Path, rng: random.Random) -> Path:
    path = folder / "parts"
    path.mkdir()
    for part in range(3):
        _table(path, rng).rename(path / f"part-{part}.csv")
    return path


KINDS: dict[str, Callable[[Path, random.Random], Path]] = {
    "table": _table,
    "blanks": partial(_table, blank=("",)),
    "image": _image,
    "sequence": _sequence,
    "text": _text,
}
"""What writes data of a kind into a folder: a further kind of data is a further line."""
STREAMS: dict[str, Callable[[Path, random.Random], Path]] = {"stream": _stream}
"""Tables in parts that are fitted from the disk; apart, so that the trials of the other kinds keep their seeds."""
