"""Starting jobs of several processes as a user does, by ``torchrun``, and killing one of their workers."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

BIN = Path(sys.executable).parent
LONG = 900.0
"""Seconds after which a job is taken to hang."""


@dataclass
class Job:
    """A launcher that runs, with the messages of its workers in files of their own."""

    launcher: subprocess.Popen[bytes]
    folder: Path

    def wait(self, seconds: float = LONG) -> int:
        """Its exit code; -9 where it did not end in time and was killed."""
        try:
            return self.launcher.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.launcher.pid, signal.SIGKILL)
            return -signal.SIGKILL

    @property
    def workers(self) -> dict[int, int]:
        """Rank -> process id of those that run now."""
        found = {}
        for child in _children(self.launcher.pid):
            text = _read(Path(f"/proc/{child}/environ"))
            rank = dict(part.split("=", 1) for part in text.split("\0") if "=" in part).get("RANK")
            if rank is not None:
                found[int(rank)] = child
        return found

    def kill(self, rank: int, after: float) -> bool:
        """Kill a worker so many seconds after the launch, or as soon as it is there; false if the job ended before."""
        start = monotonic()
        while self.launcher.poll() is None:
            worker = self.workers.get(rank)
            if worker is not None and monotonic() - start >= after:
                os.kill(worker, signal.SIGKILL)
                return True
            sleep(0.05)
        return False

    @property
    def messages(self) -> str:
        """What the workers wrote to standard error."""
        return "".join(_read(path) for path in sorted((self.folder / "messages").rglob("stderr.log")))

    @property
    def errors(self) -> list[str]:
        """The lines by which commands report that they failed."""
        return [line for line in self.messages.splitlines() if line.startswith("error: ")]


def launch(words: Sequence[str], folder: Path, count: int = 2, *options: str) -> Job:
    """``torchrun --nproc-per-node COUNT --no-python WORDS…`` in ``folder``, one thread a process.

    A file there would be taken for the library, were anything imported from the working directory.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "concrete_score.py").write_text("raise SystemExit('imported from the working directory')\n")
    place = () if "--node-rank" in options else ("--standalone",)
    command = [str(BIN / "torchrun"), *place, "--nproc-per-node", str(count), *options]
    command += ["--redirects", "2", "--log-dir", str(folder / "messages"), "--no-python", *words]
    with (folder / "launcher.log").open("ab") as log:
        launcher = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return Job(launcher, folder)


def csm(*words: object) -> list[str]:
    """A ``csm`` command of this installation."""
    return [str(BIN / "csm"), *map(str, words)]


def free_port() -> int:
    """A port of this machine that nobody uses now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _children(parent: int) -> list[int]:
    """Processes that a process started, by any of its threads."""
    found: list[int] = []
    for path in Path(f"/proc/{parent}/task").glob("*/children"):
        found += map(int, _read(path).split())
    return found


def _read(path: Path) -> str:
    """A file's text, empty where it is gone."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
