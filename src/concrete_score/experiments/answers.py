"""How fast answers are, and where their time goes: a million rows drawn and evaluated, a hundred thousand filled.

A table of 50 columns (categories, numbers, a date) is generated, and a network learns it. Then rows go through the same
steps as from the command line: files are read in parts, rows encoded, passed through the network, decoded and written.
Times are seconds of the processor, each counted once: those of the *network* are its layers, its tables and the
probabilities of its outputs; choosing values by these probabilities, weighing draws, codec, reading and writing are
counted apart. Memory is measured of the command itself, at a tenth of the rows and at all of them.
"""

import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl

from concrete_score.bench.checks import Check
from concrete_score.codecs.table import TableCodec
from concrete_score.data.formats import write_file
from concrete_score.data.frame import as_frame
from concrete_score.data.streams import stream_files
from concrete_score.experiments.result import Findings, Settings, table
from concrete_score.experiments.runner import Unit, complete
from concrete_score.fitting import Request, prepare
from concrete_score.model import Model
from concrete_score.models.made import MADE

SHARE = 0.6
"""Of the time, at least, is the network's."""
GROWTH = 100.0
"""Megabytes that ten times the rows may add, at most."""
TRAINED, STEPS = 20_000, 500
"""Rows that the model learns from, and for how many steps."""
FULL: Mapping[str, int] = {"sample": 1_000_000, "evaluate": 1_000_000, "impute": 100_000}
QUICK: Mapping[str, int] = {"sample": 20_000, "evaluate": 20_000, "impute": 300}
BLANK = 0.2
PARTS = ("network", "choosing", "codec", "reading", "writing", "other")
SIZES = (2, 3, 5, 8, 12, 20)


def run(settings: Settings) -> Findings:
    """The profiles, several processes beside one, and memory."""
    rows = QUICK if settings.quick else FULL
    units = [Unit(name, profile, {"name": name, "rows": count}) for name, count in rows.items()]
    units += [
        Unit(f"{name}, two jobs", beside_two, {"name": name, "rows": rows[name] // 10})
        for name in ("sample", "evaluate")
    ]
    units += [Unit(f"{name}, memory", memory, {"name": name, "rows": rows[name]}) for name in ("sample", "evaluate")]
    found = complete(units, settings)
    checks = [Check.at_least(f"{name}: share of the network", found[name]["shares"]["network"], SHARE) for name in rows]
    for name in ("sample", "evaluate"):
        checks.append(Check.equal(f"{name}: two jobs give what one gives", found[f"{name}, two jobs"]["same"], True))
        growth = found[f"{name}, memory"]["growth"]
        checks.append(Check.at_most(f"{name}: MB that ten times the rows add", growth, GROWTH))
    return Findings({}, found, tuple(checks), text=told(found, rows))


def told(found: Mapping[str, Any], rows: Mapping[str, int]) -> str:
    """The numbers as tables."""
    lines = [
        [name, f"{count:,}", f"{found[name]['seconds']:.1f}", *(f"{found[name]['shares'][part]:.3f}" for part in PARTS)]
        for name, count in rows.items()
    ]
    jobs = [
        [name, f"{each['rows']:,}", f"{each['one']:.1f}", f"{each['two']:.1f}", f"{each['two'] / each['one']:.2f}"]
        for name in ("sample", "evaluate")
        if (each := found[f"{name}, two jobs"])
    ]
    peaks = [
        [name, *(f"{count:,}: {peak:.0f}" for count, peak in zip(each["rows"], each["peaks"], strict=True))]
        for name in ("sample", "evaluate")
        if (each := found[f"{name}, memory"])
    ]
    return "\n\n".join(
        [
            "## Where the time goes\n\nSeconds of the processor, and shares of them.",
            table(["", "rows", "seconds", *PARTS], lines),
            "## Two processes\n\nSeconds by the clock, of a process that starts the other ones; the rows are the same.",
            table(["", "rows", "one job", "two jobs", "ratio"], jobs),
            "## Memory\n\nThe largest anonymous memory (RssAnon) of the command, in MB, by rows.",
            table(["", "a tenth", "all"], peaks),
        ]
    )


def mixed_table(rows: int, seed: int, blank: float = 0.0) -> pl.DataFrame:
    """Thirty columns of categories, nineteen of numbers and a date, all tied to a hidden value ``(rows, 50)``."""
    random = np.random.default_rng(seed)
    hidden = random.integers(0, 4, rows)
    columns: dict[str, Any] = {}
    for k in range(30):
        size = SIZES[k % len(SIZES)]
        code = np.where(random.random(rows) < 0.5, hidden * (k + 1) % size, random.integers(0, size, rows))
        columns[f"category{k}"] = pl.Series([f"c{k}_{v}" for v in range(size)]).gather(code) if k % 3 else code
    for k in range(12):
        columns[f"real{k}"] = np.round(random.normal(hidden * (k % 3 + 1), 1.0 + k / 10), 1 + k % 3)
    for k in range(7):
        columns[f"count{k}"] = random.poisson(3 + 10 * k + 5 * hidden)
    days = 18_000 + 200 * hidden + random.integers(0, 900, rows)
    columns["day"] = pl.Series(days).cast(pl.Int32).cast(pl.Date)
    found = pl.DataFrame(columns)
    if blank:
        found = found.with_columns(
            pl.when(pl.Series(random.random(rows) >= blank)).then(pl.col(name)).alias(name) for name in found.columns
        )
    return found


def write_table(path: Path, rows: int, seed: int, blank: float = 0.0, part: int = 100_000) -> None:
    """The table as a file, made part by part."""
    starts = range(0, rows, part)
    write_file(
        (as_frame(mixed_table(min(part, rows - start), seed + 1 + start, blank)) for start in starts), path, force=True
    )


class Stopwatch:
    """Seconds of the processor by what they were for; within a part of the work that is counted apart, no other is.

    >>> watch = Stopwatch(iter([0.0, 1.0, 3.0, 6.0]).__next__)
    >>> with watch("other"), watch("network"):
    ...     pass
    >>> dict(watch.seconds)
    {'other': 4.0, 'network': 2.0}
    """

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        self.clock, self.seconds = clock, defaultdict[str, float](float)
        self._open: list[str] = []
        self._since = 0.0

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        """Within it, time is this part's."""
        self._note()
        self._open.append(part)
        try:
            yield
        finally:
            self._note()
            self._open.pop()

    def over(self, part: str, items: Iterable[Any]) -> Iterator[Any]:
        """The items, each of which takes this part's time to come."""
        rest = iter(items)
        while True:
            with self(part):
                item = next(rest, self)
            if item is self:
                return
            yield item

    def around(self, part: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, whose time is this part's."""

        @wraps(work)
        def timed(*args: Any, **more: Any) -> Any:
            with self(part):
                return work(*args, **more)

        return timed

    def _note(self) -> None:
        now = self.clock()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now


_MADE = sys.modules[MADE.__module__]  # whose name in its package is the class
WATCHED: Sequence[tuple[str, Any, str]] = (
    ("network", MADE, "log_density"),
    ("network", MADE, "_fill"),
    ("choosing", _MADE, "_draw"),
    ("choosing", _MADE, "draw_unseen"),
    ("choosing", _MADE, "_uniforms"),
    ("codec", TableCodec, "encode"),
    ("codec", TableCodec, "decode"),
    ("codec", TableCodec, "fill"),
)
"""Which functions take a part's time."""


def profile(settings: Settings, name: str, rows: int) -> dict[str, Any]:
    """Where the seconds of one answer go."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        model, file = _learned(settings), Path(folder) / "rows.csv"
        if name != "sample":
            write_table(file, rows, settings.seed, BLANK if name == "impute" else 0.0)
        watch = Stopwatch()
        for part, owner, function in WATCHED:
            stack.enter_context(patch.object(owner, function, watch.around(part, getattr(owner, function))))
        with watch("writing"):
            parts = watch.over("other", ANSWERS[name](model, rows, partial(_read, watch, file)))
            write_file(parts, Path(folder) / "out.csv")
    total = sum(watch.seconds.values())
    shares = {part: round(watch.seconds[part] / total, 4) for part in PARTS}
    return {"rows": rows, "seconds": round(total, 2), "shares": shares}


def _read(watch: Stopwatch, file: Path) -> Iterator[Any]:
    return watch.over("reading", stream_files([file]))


def _sampled(model: Model, rows: int, read: Callable[[], Iterator[Any]], jobs: int = 1) -> Iterator[Any]:
    return (part.data for part in model.samples(rows, jobs=jobs))


def _evaluated(model: Model, rows: int, read: Callable[[], Iterator[Any]], jobs: int = 1) -> Iterator[Any]:
    for part in model.scored(read(), jobs=jobs):
        values = model.row_values(part)
        yield as_frame(pl.DataFrame({"row": part.row.numpy(), "log_likelihood": values.numpy()}))


def _filled(model: Model, rows: int, read: Callable[[], Iterator[Any]], jobs: int = 1) -> Iterator[Any]:
    return (part.filled.data for part in model.filled(read(), jobs=jobs))


ANSWERS: Mapping[str, Callable[..., Iterator[Any]]] = {"sample": _sampled, "evaluate": _evaluated, "impute": _filled}


def beside_two(settings: Settings, name: str, rows: int) -> dict[str, Any]:
    """Seconds by the clock in one process and in two, and whether both write the same file."""
    with tempfile.TemporaryDirectory() as folder:
        model, file = _learned(settings), Path(folder) / "rows.csv"
        if name != "sample":
            write_table(file, rows, settings.seed)
        seconds, files = [], []
        for jobs in (1, 2):
            started, out = time.perf_counter(), Path(folder) / f"{jobs}.csv"
            write_file(ANSWERS[name](model, rows, lambda: iter(stream_files([file])), jobs), out)
            seconds.append(round(time.perf_counter() - started, 2))
            files.append(out.read_bytes())
    return {"rows": rows, "one": seconds[0], "two": seconds[1], "same": files[0] == files[1]}


def memory(settings: Settings, name: str, rows: int) -> dict[str, Any]:
    """The largest anonymous memory of the command at a tenth of the rows and at all of them, in MB."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        write_table(folder / "train.csv", 2_000 if settings.quick else TRAINED, settings.seed)
        steps = "20" if settings.quick else str(STEPS)
        peak_memory(["fit", str(folder / "train.csv"), "--out", str(folder / "run"), "--steps", steps, "--no-report"])
        counts, peaks = (rows // 10, rows), []
        for count in counts:
            out = ["--out", str(folder / f"{count}.csv"), "--quiet", "--threads", "1"]
            asked = ["-n", str(count)]
            if name == "evaluate":
                write_table(folder / "rows.csv", count, settings.seed)
                asked = [str(folder / "rows.csv")]
            peaks.append(round(peak_memory([name, str(folder / "run"), *asked, *out]), 1))
    return {"rows": counts, "peaks": peaks, "growth": round(peaks[1] - peaks[0], 1)}


def peak_memory(arguments: Sequence[str]) -> float:
    """The largest anonymous memory of a command while it runs, in MB."""
    command = [sys.executable, "-P", "-m", "concrete_score", *arguments]
    largest = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            found = re.search(r"RssAnon:\s+(\d+)", status.read_text())
            largest = max(largest, int(found[1]) if found else 0)
            time.sleep(0.05)
        if process.returncode:
            said = b"" if process.stderr is None else process.stderr.read()
            raise RuntimeError(said.decode()[-500:])
    return largest / 1e3


def _learned(settings: Settings) -> Model:
    """A network of the table, trained for a few steps."""
    rows, steps = (2_000, 20) if settings.quick else (TRAINED, STEPS)
    data, training = as_frame(mixed_table(rows, settings.seed)), {"seed": settings.seed, "steps": steps}
    job = prepare(Request(data, training=training))
    return Model.of(job.train(device=settings.device).model, job.codec, seed=settings.seed, facts=job.facts)
