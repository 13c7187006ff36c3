"""Running a registered experiment and keeping what it found."""

from dataclasses import replace
from pathlib import Path
from time import perf_counter

from concrete_score import __version__
from concrete_score.experiments.result import Result, Settings, refuse_other_version
from concrete_score.experiments.units import spent
from concrete_score.registry import load


def reproduce(name: str, settings: Settings, out: str | Path = "results", *, force: bool = False) -> Result:
    """Run one experiment and write its files to ``out/name``.

    Raises:
        InputError: the name is not registered, or ``out/name`` holds another version's results and not ``force``.
    """
    run = load("experiments", name)
    folder = Path(out) / name
    if not force:
        # Before the work, which may take hours.
        refuse_other_version(folder / f"{name}.json", __version__)
    start, stored = perf_counter(), replace(settings, store=folder)
    findings = run(stored)
    # What was done before an interruption was done all the same.
    seconds = max(perf_counter() - start, spent(stored))
    result = Result(name, _command(name, settings), __version__, settings, seconds, findings)
    result.write(folder)
    return result


def _command(name: str, settings: Settings) -> str:
    quick = " --quick" if settings.quick else ""
    device = "" if settings.device == "cpu" else f" --device {settings.device}"
    return f"csm reproduce {name} --seed {settings.seed}{quick}{device}"
