"""A child process for every trial: forked, so that it costs milliseconds, and bounded in time and memory.

The parent has imported what a command needs and has never used it (`warm`): threads do not survive a fork, and none may
have been started before one.
"""

import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

MEMORY = 2 * 2**30
"""Bytes that a trial may ask for beyond what the parent has."""
SECONDS = 240.0
"""After which a trial counts as hanging; the machine may be busy with other things."""
UNCAUGHT = 70
"""The exit code of an exception that nobody caught: always a fault."""


@dataclass(frozen=True)
class Ended:
    """How a trial ended: its exit code, or minus the signal that ended it, and what it wrote."""

    code: int
    out: str
    err: str
    hung: bool = False

    def fault(self, codes: Sequence[int] = (0, 2)) -> str:
        """What is wrong with this ending, or nothing: only these codes, no traceback, errors of one short line."""
        if self.hung:
            return f"hung: {self.err[-300:]}"
        if self.code not in codes:
            return f"exit {self.code}: {self.err[-600:]}"
        if "Traceback" in self.err or "panicked" in self.err:
            return f"traceback: {self.err[-600:]}"
        if "internal error" in self.err:
            return f"unforeseen: {self.err[-600:]}"
        errors = [line for line in self.err.splitlines() if line.startswith("error: ")]
        if self.code == 2 and (len(errors) != 1 or len(errors[0]) > 4000):
            return f"not one short line: {self.err[-600:]}"
        return ""


def warm() -> None:
    """Import what commands need, and use none of it."""
    import polars  # noqa: F401
    import safetensors.torch  # noqa: F401
    import sklearn.base  # noqa: F401
    import torch

    from concrete_score.cli.main import COMMANDS

    torch.set_num_threads(1)
    for entry in COMMANDS.values():
        import_module(entry.target.partition(":")[0])
    for name in ("fitting", "model", "estimator", "runs", "report", "diagnostics", "training.store"):
        if find_spec(f"concrete_score.{name}"):  # older code lacks some
            import_module(f"concrete_score.{name}")


def start(work: Callable[[], Any], folder: Path, *, memory: int = MEMORY) -> int:
    """Begin ``work`` in a child whose streams are files of ``folder``; its process id."""
    sys.stdout.flush()
    sys.stderr.flush()
    if child := os.fork():
        return child
    code = UNCAUGHT
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, name, mode in ((0, os.devnull, os.O_RDONLY), (1, "out", os.O_WRONLY), (2, "err", os.O_WRONLY)):
            handle = os.open(folder / name if number else name, mode | (os.O_CREAT | os.O_TRUNC if number else 0))
            os.dup2(handle, number)
            os.close(handle)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False, buffering=1)  # noqa: SIM115
        limit = _virtual() + memory
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        work()
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1 if left.code else 0
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            try:
                stream.flush()
            except (OSError, ValueError):
                code = code or 1
        os._exit(code)


def wait(child: int, folder: Path, seconds: float = SECONDS) -> Ended:
    """How a child ended; one that takes too long is ended."""
    stop, hung = monotonic() + seconds, False
    pause = 0.002
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            break
        if monotonic() > stop and not hung:
            hung = True
            os.kill(child, signal.SIGKILL)
        sleep(pause)
        pause = min(0.05, pause * 1.5)
    texts = (_text(folder / name) for name in ("out", "err"))
    return Ended(os.waitstatus_to_exitcode(status), *texts, hung=hung)


def call(work: Callable[[], Any], *, seconds: float = SECONDS, memory: int = MEMORY) -> Ended:
    """Do ``work`` in a child, to its end."""
    with TemporaryDirectory() as folder:
        return wait(start(work, Path(folder), memory=memory), Path(folder), seconds)


def csm(*words: Any, seconds: float = SECONDS, memory: int = MEMORY) -> Ended:
    """One command of the command line in a child, to its end."""
    return call(command(*words), seconds=seconds, memory=memory)


def command(*words: Any) -> Callable[[], None]:
    """One command of the command line, as work for a child."""

    def work() -> None:
        from concrete_score.cli.main import main

        main([str(word) for word in words])

    return work


def _virtual() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
