"""Several processes beside one: the same batches, weights up to rounding, the time of a step, and what a death costs.

Every job is launched as a user would, by ``torchrun --no-python``, from a folder whose files would break it if they
were imported.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

import torch

from concrete_score import runs
from concrete_score.bench.checks import Check
from concrete_score.data import as_frame, write_file
from concrete_score.experiments.demo import as_table
from concrete_score.experiments.processes.launching import BIN, csm, free_port, launch
from concrete_score.experiments.result import Findings, Settings, table
from concrete_score.experiments.runner import Unit, complete
from concrete_score.files import digest
from concrete_score.randomness import generator, random_numbers
from concrete_score.targets import asia

CASES = ("made", "unet")
KILLS = 20
SECONDS = 30.0
"""How soon after a death a job must have ended."""
RATIO = 0.65
"""Of the time of a step in two processes to one's."""


def run(settings: Settings) -> Findings:
    """All units, and what they show together."""
    steps, kills = (20, 2) if settings.quick else (200, KILLS)
    turns = {"steps": 4, "turns": 1} if settings.quick else {"steps": 6, "turns": 2}
    fits = {"steps": 300 if settings.quick else 1000}
    first = [
        *(
            Unit(f"weights/{case}/{dtype}", compare, {"case": case, "dtype": dtype, "steps": steps})
            for case in CASES
            for dtype in ("float64", "float32")
        ),
        Unit("seconds", time_steps, turns),
        Unit("undisturbed", undisturbed, fits),
    ]
    found = complete(first, settings)
    known = {**fits, "expected": found["undisturbed"]["weights"]}
    lasts = found["undisturbed"]["seconds"]
    units = [Unit(f"kill/{i}", kill, {**known, "number": i, "lasts": lasts}) for i in range(kills)]
    found |= complete([*units, Unit("restart", restart, known), Unit("nodes", two_nodes, known)], settings)
    return Findings({}, found, checks(found), text=_text(found))


def checks(found: dict[str, dict[str, Any]]) -> tuple[Check, ...]:
    """What several processes promise."""
    weights = {name: unit for name, unit in found.items() if name.startswith("weights/")}
    exact = [unit["largest"] for name, unit in weights.items() if name.endswith("float64")]
    deaths = [unit for name, unit in found.items() if name.startswith("kill/")]
    return (
        Check.equal("every process computes with its part of the same batches", _all(weights, "same_batches"), True),
        Check.at_most("largest difference of a weight to one process's, float64", max(exact), 1e-9),
        Check.at_most("seconds of a U-Net's step, two processes / one", found["seconds"]["ratio"], RATIO),
        Check.at_most(
            "seconds from a worker's death to the job's end", max(unit["seconds"] for unit in deaths), SECONDS
        ),
        Check.equal("workers killed whose command wrote a traceback", sum(unit["traceback"] for unit in deaths), 0),
        Check.equal("deaths reported in more than one line", sum(len(unit["errors"]) > 1 for unit in deaths), 0),
        Check.equal("runs that a death left unable to go on", sum(not unit["resumed"] for unit in deaths), 0),
        Check.equal("runs resumed after a death whose weights differ", sum(not unit["same"] for unit in deaths), 0),
        Check.equal("a job started anew by the launcher ends with the same weights", found["restart"]["same"], True),
        Check.equal("two launchers, one process each, train the same weights", found["nodes"]["same"], True),
    )


def compare(settings: Settings, case: str, dtype: str, steps: int) -> dict[str, Any]:
    """One case in one process and in two: the largest difference of a weight, and whether batches are the same."""
    with TemporaryDirectory() as name:
        one, two = (_trained(Path(name), case, dtype, steps, count) for count in (1, 2))
        weights = [key for key in one[0] if key.startswith("weights/")]
        largest = max(float((one[0][key].double() - two[0][key].double()).abs().max()) for key in weights)
        parts = torch.cat([part["batches"] for part in two], 1)
        return {"largest": largest, "same_batches": bool(parts.equal(one[0]["batches"])), "batches": len(parts)}


def time_steps(settings: Settings, steps: int, turns: int) -> dict[str, Any]:
    """The shortest step of a U-Net in one process of one thread, and in two, taking turns.

    By the clock, and by the processor time of the slower process, which a busy machine disturbs less and which counts
    no waiting for the other.
    """
    shortest = {count: torch.full((2,), torch.inf, dtype=torch.float64) for count in (1, 2)}
    load = os.getloadavg()[0]
    with TemporaryDirectory() as name:
        for turn in range(turns):
            for count in shortest:
                found = _trained(Path(name) / str(turn), "digits", "float32", steps, count)
                # A step of several processes lasts as long as the slowest of them.
                each = torch.stack([part["seconds"] for part in found]).amax(0)
                shortest[count] = torch.minimum(shortest[count], each.amin(0))
    (one, one_busy), (two, two_busy) = shortest[1].tolist(), shortest[2].tolist()
    ratios = {"ratio": two / one, "processor_ratio": two_busy / one_busy}
    return {"one": one, "two": two, **ratios, "load_before": load, "cores": os.cpu_count()}


def undisturbed(settings: Settings, steps: int) -> dict[str, Any]:
    """The weights that two processes learn, by their digest, and how long they take."""
    with _table() as folder:
        start = monotonic()
        job = launch(_fit(folder, steps), folder / "undisturbed")
        if code := job.wait():
            raise RuntimeError(f"an undisturbed job ended with {code}: {job.messages[-1000:]}")
        return {"weights": _weights(folder), "seconds": monotonic() - start}


def kill(settings: Settings, steps: int, expected: str, number: int, lasts: float) -> dict[str, Any]:
    """A worker killed at a random moment; when the job ended, what it said, and what resuming it gives."""
    random = random_numbers(generator(settings.seed, "kill", number))
    rank, after = int(random.integers(2)), float(random.uniform(0, lasts))
    with _table() as folder:
        job = launch(_fit(folder, steps), folder / "killed")
        while not job.kill(rank, after):  # it was faster than before: once more, and sooner
            shutil.rmtree(folder / "run")
            after /= 2
            job = launch(_fit(folder, steps), folder / f"killed after {after}")
        died = monotonic()
        job.wait()
        seconds, step = monotonic() - died, _last_checkpoint(folder)
        again = launch([*_fit(folder, steps), "--resume"], folder / "resumed")
        resumed = again.wait() == 0
        return {
            **{"rank": rank, "after": after, "checkpoint": step, "seconds": seconds},
            **{
                "errors": [line.replace(str(folder), "…") for line in job.errors],
                "traceback": "Traceback" in job.messages,
                "resumed": resumed,
            },
            "same": resumed and _weights(folder) == expected,
            "why": "" if resumed else again.messages[-500:],
        }


def restart(settings: Settings, steps: int, expected: str) -> dict[str, Any]:
    """A worker killed once its run has a checkpoint, under ``torchrun --max-restarts``: the job ends by itself."""
    with _table() as folder:
        job = launch(_fit(folder, steps), folder / "restarted", 2, "--max-restarts", "2")
        while not _last_checkpoint(folder) and job.launcher.poll() is None:
            sleep(0.05)
        killed, ended = job.kill(1, 0.0), job.wait()
        went_on, same = "started anew" in job.messages, ended == 0 and _weights(folder) == expected
        return {"killed": killed, "exit": ended, "went_on": went_on, "same": same}


def two_nodes(settings: Settings, steps: int, expected: str) -> dict[str, Any]:
    """Two launchers that meet on this machine's own address, with one process each."""
    meeting = ("--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", str(free_port()))
    with _table() as folder:
        command = _fit(folder, steps)
        jobs = [launch(command, folder / f"node{i}", 1, *meeting, "--node-rank", str(i)) for i in (0, 1)]
        ended = [job.wait() for job in jobs]
        return {"exit": ended, "same": not any(ended) and _weights(folder) == expected}


def _trained(folder: Path, case: str, dtype: str, steps: int, count: int) -> list[dict[str, torch.Tensor]]:
    """What each of the processes of a job found."""
    from safetensors.torch import load_file

    place = folder / f"{count}"
    words = [str(BIN / "python"), "-P", "-m", "concrete_score.experiments.processes.worker", case, dtype, str(steps)]
    job = launch([*words, str(place)], place, count)
    if code := job.wait():
        raise RuntimeError(f"a job of {count} processes ended with {code}: {job.messages[-1000:]}")
    return [load_file(place / f"{rank}.safetensors") for rank in range(count)]


@contextmanager
def _table() -> Iterator[Path]:
    """A folder with a table to fit."""
    with TemporaryDirectory() as name:
        rows = asia().sample(2_000, generator(0, "rows"))
        write_file([as_frame(as_table(asia(), rows))], Path(name) / "rows.csv")
        yield Path(name)


def _fit(folder: Path, steps: int) -> list[str]:
    """The command of every fit here: a checkpoint a second, and no report."""
    options = ("--steps", steps, "--set", "checkpoint_seconds=1", "--set", "valid_every=100", "--no-report")
    return csm("fit", folder / "rows.csv", "--out", folder / "run", *options)


def _weights(folder: Path) -> str:
    """The digest of what was learned by the last step: weights, their average, the best ones, and Adam's memory."""
    from safetensors.torch import save

    snapshot = runs.open(folder / "run").checkpoint()
    return "" if snapshot is None else f"{snapshot.step}:{digest(save(dict(snapshot.tensors)))}"


def _last_checkpoint(folder: Path) -> int | None:
    """The step of the newest checkpoint of the run, if it has one."""
    found = sorted((folder / "run" / "checkpoint").glob("step-*.safetensors"))
    return int(found[-1].stem.removeprefix("step-")) if found else None


def _all(units: dict[str, dict[str, Any]], key: str) -> bool:
    return all(unit[key] for unit in units.values())


def _text(found: dict[str, dict[str, Any]]) -> str:
    """The numbers behind the checks, for reading."""
    weights = [
        [*name.split("/")[1:], str(unit["batches"]), f"{unit['largest']:.2g}"]
        for name, unit in found.items()
        if name.startswith("weights/")
    ]
    deaths = [
        [
            *map(
                str,
                (
                    unit["rank"],
                    round(unit["after"], 1),
                    unit["checkpoint"],
                    round(unit["seconds"], 1),
                    len(unit["errors"]),
                ),
            )
        ]
        for name, unit in found.items()
        if name.startswith("kill/")
    ]
    timed = found["seconds"]
    return "\n\n".join(
        [
            "## Weights of two processes beside one's",
            table(["case", "numbers", "steps", "largest difference"], weights),
            "## A step of the U-Net",
            f"{1e3 * timed['one']:.0f} ms in one process, {1e3 * timed['two']:.0f} ms in two; {timed['cores']} cores,"
            f" and a load of {timed['load_before']:.1f} before. By processor time the ratio is"
            f" {timed['processor_ratio']:.3f}.",
            "## Workers killed",
            table(["rank", "seconds after launch", "last checkpoint", "seconds to the end", "lines"], deaths),
        ]
    )
