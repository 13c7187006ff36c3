"""What is measured of a streamed fit; each measure makes its own files, and removes them."""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import polars.selectors as cs
import torch

from concrete_score import caches
from concrete_score.codecs import TableCodec
from concrete_score.data.census import take_census
from concrete_score.data.streams import stream_files
from concrete_score.errors import InputError
from concrete_score.experiments.result import Settings
from concrete_score.experiments.scale.tables import write_files
from concrete_score.fitting import Job, Request, hold_out, prepare
from concrete_score.training.examples import Examples

FOLDER = "CONCRETE_SCORE_SCALE"
"""The environment variable that names a folder with room for the tables; a temporary one by default."""
LOOK = 0.05
"""Seconds between two looks at another process's memory."""


def fit_cost(settings: Settings, rows: int, columns: int, files: int, steps: int) -> dict[str, Any]:
    """Seconds, and the most anonymous memory, of ``csm fit`` of generated files in a process of its own.

    Raises:
        InputError: the fit failed, or the system does not tell the memory of a process.
    """
    with _files(rows, columns, files, settings.seed) as folder:
        run = folder / "run"
        words = [str(folder / "table"), "--out", str(run), "--stream", "--keep-cache", "--no-report", "--json"]
        words += ["--steps", str(steps), "--seed", str(settings.seed), "--set", "patience=1000000"]
        began, before = time.perf_counter(), _children_seconds()
        with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
            child = subprocess.Popen(
                [sys.executable, "-m", "concrete_score", "fit", *words],
                stdout=out,
                stderr=err,
                cwd=folder,
                env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())},
            )
            peak = _watched(child)
        if child.returncode:
            told_last = (folder / "err").read_text().strip().splitlines()[-1:]
            raise InputError("a fit that ends well", "".join(told_last)[:200], "csm fit")
        told = json.loads((folder / "out").read_text())
        cache = sum(path.stat().st_size for path in (folder / "run.cache").rglob("*") if path.is_file())
        return {
            "rows": rows,
            "columns": columns,
            "steps": told["steps"],
            "seconds": round(time.perf_counter() - began, 3),
            "cpu_seconds": round(_children_seconds() - before, 3),
            "training_seconds": told["seconds"],
            "peak_anonymous": peak,
            "file_bytes": sum(path.stat().st_size for path in (folder / "table").iterdir()),
            "cache_bytes": cache,
            "valid_log_likelihood": told["valid_log_likelihood"],
        }


def write_speed(settings: Settings, rows: int, columns: int, files: int) -> dict[str, Any]:
    """Rows a second of writing the cache, over those of polars scanning the same files into a sum.

    Both by the seconds of all their threads, so that what else the machine does is left out.
    """
    with _files(rows, columns, files, settings.seed) as folder:
        stream = stream_files([folder / "table"])
        codec = TableCodec.infer(take_census(stream, most=2**14), {})
        recipe = caches.Recipe(
            codec,
            stream.parts,
            {"missing": "unobserved", "unknown": "reserve"},
            "speed",
            None,
            lambda states: {"rows": len(states)},
        )
        began = time.process_time()
        caches.open_or_make(folder / "cache", recipe)
        ours = time.process_time() - began
        paths = sorted((folder / "table").iterdir())
        began = time.process_time()
        sums = (cs.numeric().sum(), cs.string().str.len_bytes().sum(), cs.temporal().to_physical().sum())
        pl.scan_parquet(paths).select(*sums).collect(engine="streaming")
        polars = time.process_time() - began
        return {"seconds": round(ours, 3), "polars_seconds": round(polars, 3), "ratio": round(polars / ours, 4)}


def same_weights(settings: Settings, rows: int, columns: int, files: int, steps: int) -> dict[str, Any]:
    """Whether a fit from the disk and one in memory, with its codec, end in the same weights, bit for bit."""
    with _files(rows, columns, files, settings.seed) as folder:
        training = {"steps": steps, "seed": settings.seed}
        job = prepare(Request(folder / "table", stream=True, cache=folder / "cache", training=training))
        streamed = job.train().model.state_dict()
        frame = stream_files([folder / "table"]).whole()
        found = job.codec.encode(frame, missing="unobserved", unknown="reserve")
        states = Examples.of(found.states, found.observed, found.weights, found.log_inside)
        train, valid = hold_out(states, job.config["valid_fraction"], settings.seed)
        alone = Job(job.codec, train, valid, job.plan, job.config, job.facts).train().model.state_dict()
        equal = [bool(torch.equal(value, alone[name])) for name, value in streamed.items()]
        return {"rows": len(states), "steps": steps, "tensors": len(equal), "equal": all(equal)}


@contextmanager
def _files(rows: int, columns: int, files: int, seed: int) -> Iterator[Path]:
    """A folder in whose folder ``table`` the files are."""
    with TemporaryDirectory(dir=os.environ.get(FOLDER), prefix="scale-") as name:
        folder = Path(name)
        write_files(folder / "table", rows, columns, files, seed)
        yield folder


def _children_seconds() -> float:
    """Seconds of all threads of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _watched(child: "subprocess.Popen[bytes]") -> int:
    """The most anonymous memory of a process, in bytes, until it ends."""
    status, peak = Path(f"/proc/{child.pid}/status"), 0
    if not status.exists():
        child.kill()
        raise InputError("a system that tells the memory of a process in /proc", "another")
    while child.poll() is None:
        try:
            lines = status.read_text().splitlines()
        except OSError:
            break
        peak = max([peak, *(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))])
        time.sleep(LOOK)
    return peak
