"""A process that has imported what commands need, and forks a child for whatever a test asks of it.

A test process has threads, which do not survive a fork, and a fresh interpreter for each question takes seconds.
Children have a working directory, environment variables and a bound on memory of their own. What they run is found by
name, so that a nursery may be started on the sources of another commit (``PYTHONPATH``): see `tests.faults.before`.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.faults import children
from tests.faults.children import Ended

ROOT = Path(__file__).parents[2]


class Nursery:
    """The asking side: a context that ends the process it started."""

    def __enter__(self) -> "Nursery":
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        words = [sys.executable, "-m", "tests.faults.nursery"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(words, cwd=ROOT, env=environment, text=True, bufsize=1, **pipes)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()

    def call(self, work: Callable[..., Any], *given: Any, **bounds: Any) -> Ended:
        """A function of a module in a child, with plain values; ``folder, environment, memory, seconds`` bound it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        asked = {"module": work.__module__, "name": work.__qualname__, "given": given, **bounds}
        self.process.stdin.write(json.dumps(asked, default=str) + "\n")
        return Ended(**json.loads(self.process.stdout.readline()))

    def csm(self, *words: Any, **bounds: Any) -> Ended:
        """One command in a child."""
        return self.call(run_command, *map(str, words), **bounds)


def run_command(*words: str) -> None:
    """``csm`` with these words; it leaves by `SystemExit`."""
    children.command(*words)()


def _answer(asked: dict[str, Any]) -> Ended:
    def work() -> None:
        os.environ.update(asked.get("environment", {}))
        os.chdir(asked.get("folder", "/"))
        getattr(import_module(asked["module"]), asked["name"])(*asked["given"])

    return children.call(
        work, seconds=asked.get("seconds", children.SECONDS), memory=asked.get("memory", children.MEMORY)
    )


if __name__ == "__main__":
    children.warm()
    for line in sys.stdin:
        ended = _answer(json.loads(line))
        sys.stdout.write(json.dumps(ended.__dict__) + "\n")
        sys.stdout.flush()
