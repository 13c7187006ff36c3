"""Runs with flipped bytes and runs made up by a stranger, and the misuse of every option of every command."""

import io
import json
import random
import shutil
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

from tests.faults import fits
from tests.faults.plan import Family, Fault

SECONDS = 30
"""Of computing time, after which a command counts as hanging."""
_NUMBERS = (0, -1, 1, 2, 2**31, 2**53 + 1, 2**63, 10**12, 10**400, -(10**400), 0.5, 1e308, -0.0)
_TEXTS = (
    "",
    "x",
    "made",
    "../..",
    "/etc/passwd",
    "\x1b[31m",
    "<script>",
    "9" * 400,
    "os:system",
    "\ud800",
    "a" * 10_000,
)
_VALUES: tuple[Any, ...] = (*_NUMBERS, *_TEXTS, None, True, [], {}, [[]], [None], {"": 1}, [2] * 1000, [2**16] * 50)
_WORDS = (
    "",
    "-",
    "x",
    "-1",
    "0",
    "1e400",
    "nan",
    "9" * 400,
    "[" * 3000,
    "a=b",
    "=",
    "a=",
    "=b",
    ",",
    "../x",
    "\x1b[31m",
)
_WORDS += (
    "\x1b[31m",
    "None",
    "null",
    "{}",
    "é" * 300,
    "1,2",
    "cpu",
    "csv",
    "yes",
    "a>=1",
    "-9",
    "/dev/null",
    "/proc/x",
)


class TooLong(BaseException):
    """A command computes for longer than it may."""


class Hung(Fault):
    """It was ended."""


def called(words: list[str]) -> tuple[int, str]:
    """A command in this process: its exit code and what it said on standard error."""
    from concrete_score.cli.main import main

    code = 0
    with _streams() as err, _alarm(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            main(words)
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 0 if left.code is None else 1
        except TooLong:
            raise Hung(f"hung: csm {_shown(words)}") from None
        except BaseException as error:
            raise Fault(f"{type(error).__name__}: {str(error)[:300]}: csm {_shown(words)}") from None
        sys.stderr.flush()
        return code, err.getvalue().decode(errors="replace")


def judged(words: list[str], codes: tuple[int, ...] = (0, 2)) -> str:
    """A command that may succeed or refuse, in one line, and nothing else."""
    code, err = called(words)
    if "internal error" in err or "Traceback" in err or code not in codes:
        raise Fault(f"exit {code}: {err[-400:]}: csm {_shown(words)}")
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    if code == 2 and (len(errors) != 1 or len(errors[0]) > 4000):
        raise Fault(f"not one short line: {err[-400:]}: csm {_shown(words)}")
    if "\x1b" in err:
        raise Fault(f"a control code came through: csm {_shown(words)}")
    return "refused" if code else "done"


# --- flipped bytes


def copy_runs(folder: Path) -> dict[str, Any]:
    """Runs of every kind of data with their files' bytes, and data for them."""
    found: dict[str, Any] = {}
    for kind, case in fits.cases().items():
        run = folder / f"run-{kind}"
        shutil.copytree(case.data.parent / f"whole-{kind}", run)
        files = {path: path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file() and path.stat().st_size}
        info = json.loads((run / "run.json").read_text())
        found[kind] = {"run": run, "files": files, "info": info, "case": case}
    return found


def flip(rng: random.Random, folder: Path, made: Any) -> str:
    """One bit of one file of a run: the run is refused, and the file named."""
    from concrete_score import runs
    from concrete_score.errors import InputError

    each = made[rng.choice(sorted(made))]
    path = rng.choice([path for path in each["files"] if path.suffix in (".json", ".jsonl", ".safetensors")])
    whole = each["files"][path]
    at = rng.randrange(len(whole))
    try:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :])
        runs.verify(each["run"])
    except InputError as error:
        if path.name not in str(error):
            raise Fault(f"{path.name}, byte {at}: refused, but named {error}") from None
        return f"{path.suffix[1:]} refused"
    except Exception as error:
        raise Fault(f"{path.name}, byte {at}: {type(error).__name__}: {error}") from None
    finally:
        path.write_bytes(whole)
    if path.suffix == ".jsonl" and at >= whole.rstrip(b"\n").rfind(b"\n"):
        return "a last line cut short is no damage"
    raise Fault(f"{path.name}, byte {at}: accepted")


# --- runs made up by a stranger


def craft(rng: random.Random, folder: Path, made: Any) -> str:
    """One to three values of a run.json replaced, its digest made to match, and a command that opens it."""
    from concrete_score.files import canonical_json, digest

    each = made[rng.choice(sorted(made))]
    info = json.loads(json.dumps(each["info"]))
    info.pop("digest")
    for _ in range(rng.randint(1, 3)):
        _replace(rng, info)
    try:
        text = json.dumps({**info, "digest": digest(canonical_json(info))}, indent=1, ensure_ascii=False) + "\n"
        content = text.encode()
    except (UnicodeEncodeError, ValueError):
        return "not JSON"
    run, data = each["run"], str(each["case"].data)
    commands = {
        "sample": ["sample", str(run), "-n", "2"],
        "evaluate": ["evaluate", str(run), data],
        "impute": ["impute", str(run), data],
        "explain": ["explain", str(run), data],
        "show": ["show", str(run)],
        "report": ["show", str(run), "--report", data],
        "diagnose": ["diagnose", str(run)],
        "resume": ["fit", data, "--out", str(run), "--resume", "--no-report"],
    }
    name = rng.choice([name for name in commands if name not in ("report", "diagnose")] * 4 + list(commands))
    try:
        (run / "run.json").write_bytes(content)
        return f"{name} {judged([*commands[name], '--quiet'])}"
    except Fault as fault:
        newest = max((path.name for path in (run / "checkpoint").iterdir()), default="")
        if isinstance(fault, Hung) and name == "resume" and newest not in {path.name for path in each["files"]}:
            return "resume still training"  # which is what a run of many steps asks for
        changed = {key: value for key, value in info.items() if value != each["info"].get(key)}
        raise Fault(f"{fault}; changed: {str(changed)[:700]}") from None
    finally:
        for path in run.rglob("*"):
            if path.is_file() and path not in each["files"] and path.stat().st_size:
                path.unlink()
        for path, whole in each["files"].items():
            if not path.exists() or path.read_bytes() != whole:
                path.write_bytes(whole)


def _replace(rng: random.Random, info: dict[str, Any]) -> None:
    """A random value inside, however deep, replaced, removed or repeated."""
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            places.append((value, key))
            if isinstance(value[key], dict | list):
                walk(value[key])

    walk(info)
    holder, key = rng.choice(places)
    match rng.randrange(8):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.extend([holder[key]] * rng.choice((1, 3, 200)))
        case 2:
            deep: Any = 1
            for _ in range(rng.choice((3, 200))):
                deep = [deep]
            holder[key] = deep
        case _:
            holder[key] = deepcopy(rng.choice(_VALUES))  # what is put in may be changed itself


# --- misuse


def misuse(rng: random.Random, folder: Path, made: Any) -> str:
    """A command with one to three options that hold what nobody means."""
    import click

    from concrete_score.cli.main import COMMANDS, csm

    each = made[rng.choice(sorted(made))]
    rare = ("demo", "bench", "reproduce", "compare", "diagnose", "explore")  # the last one answers until Ctrl-C
    often = [name for name in COMMANDS if name not in rare]
    name = rng.choice(often * 3 + ["reproduce", "compare", "diagnose"])
    command = csm.get_command(click.Context(csm), name)
    assert command is not None
    words = {
        "fit": ["fit", str(each["case"].data), "--out", str(folder / "out"), "--no-report", "--steps", "2"],
        "sample": ["sample", str(each["run"]), "-n", "2"],
        "show": ["show", str(each["run"])],
        "diagnose": ["diagnose", str(each["run"])],
        "data": ["data", "list"],
        "list": ["list"],
        "reproduce": ["reproduce", "nothing"],
        "compare": ["compare", str(each["case"].data), str(each["case"].data)],
    }.get(name, [name, str(each["run"]), str(each["case"].data)])
    options = [option for option in command.params if isinstance(option, click.Option) and "--help" not in option.opts]
    for option in rng.sample(options, min(len(options), rng.randint(1, 3))):
        flag = option.opts[0]
        if flag in ("--device", "--url", "--tensorboard") or option.is_eager:
            continue
        words += [flag] if option.is_flag else [flag, rng.choice(_WORDS)]
    if rng.random() < 0.2 and len(words) > 1:
        words[rng.randrange(1, len(words))] = rng.choice(_WORDS)
    here = Path.cwd()
    import os

    os.chdir(folder)  # whatever is written by mistake is written here
    try:
        # 1 is what a training without any use ends with, two steps being few.
        return f"{name} {judged([*words, '--quiet'], (0, 1, 2))}"
    finally:
        os.chdir(here)


def _shown(words: list[str]) -> str:
    return " ".join(word if len(word) < 60 else f"{word[:40]}…" for word in words)


@contextmanager
def _streams() -> Any:
    before = sys.stdin, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO(b"a,b\nx,1\n"))
    sys.stdout, sys.stderr = io.TextIOWrapper(out, "utf-8"), io.TextIOWrapper(err, "utf-8", write_through=True)
    try:
        yield err
    finally:
        sys.stdin, sys.stdout, sys.stderr = before


@contextmanager
def _alarm() -> Any:
    def ring(*_: Any) -> None:
        raise TooLong

    before: Callable[..., Any] | Any = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


FAMILIES = (
    Family("flips", flip, 300, 5000, 500, before=fits.cases, prepare=copy_runs),
    Family("crafted-runs", craft, 40, 5000, 100, before=fits.cases, prepare=copy_runs),
    Family("misuse", misuse, 40, 2000, 100, before=fits.cases, prepare=copy_runs),
)
