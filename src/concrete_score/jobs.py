"""The same work on many items, in this process or in several: the results come in the order of the items.

Each of several processes gets the work once, pickled, and then an item at a time; it uses one thread. They are started
without the working directory on their path, and end with the loop that asked for them, however that ends.
"""

import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from errno import ECHILD
from typing import IO, Any, TypeVar

from concrete_score.errors import InputError, Option, check_count

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST = 1024
"""Processes at most."""
AHEAD = 2
"""Items a process that are taken before the first result is asked for: enough to keep all busy."""
_SERVE = "import sys; sys.path[:] = {path!r}; from concrete_score.jobs import serve; serve()"
_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS")
_APART: dict[str, Any] = {"process_group": 0} if os.name == "posix" else {}
"""A group of their own: Ctrl-C is for the process that ends the others."""
_LENGTH = struct.Struct("!Q")


def in_order(work: Callable[[Item], Result], items: Iterable[Item], jobs: int = 1) -> Iterator[Result]:
    """``work(item)`` of every item, in their order; items are taken as they are needed, a few ahead.

    Args:
        work: what can be pickled, where there are several jobs; it must not depend on the items before.
        items: likewise.
        jobs: how many processes; 1 is this one.

    Raises:
        InputError: of the work; or a work that other processes cannot load.
        ChildProcessError: a process ended before its work did.

    >>> list(in_order(abs, [-1, 2, -3])), list(in_order(abs, [-1, 2, -3], jobs=2))
    ([1, 2, 3], [1, 2, 3])
    """
    if jobs == 1:
        yield from map(work, items)
        return
    workers = _Workers(_pickled(work))
    pool = ThreadPoolExecutor(jobs)
    try:
        waiting: deque[Future[Any]] = deque()
        for item in items:
            waiting.append(pool.submit(workers.ask, item))
            if len(waiting) >= AHEAD * jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        workers.end()
        pool.shutdown(cancel_futures=True)


def check_jobs(jobs: Any) -> int:
    """A number of processes.

    Raises:
        InputError: fewer than one, or no whole number.
    """
    return check_count(jobs, Option("jobs"), most=MOST)


class _Workers:
    """A process for each thread that asks for one."""

    def __init__(self, work: bytes) -> None:
        self.work = work
        self._mine = threading.local()
        self._lock, self._all, self._ended = threading.Lock(), [], False  # type: ignore[var-annotated]

    def ask(self, item: Any) -> Any:
        """The result of one item, by the process of this thread."""
        mine = getattr(self._mine, "process", None)
        process = mine or self._start()
        try:
            if mine is None:
                _send(process.stdin, self.work)
            _send(process.stdin, pickle.dumps(item, pickle.HIGHEST_PROTOCOL))
            done, answer = pickle.loads(_receive(process.stdout))
        except (EOFError, BrokenPipeError):
            raise self._fallen(process) from None
        if done:
            return answer
        raise answer

    def end(self) -> None:
        """End all processes, at work or not."""
        with self._lock:
            self._ended = True
            for process in self._all:
                process.kill()
        for process in self._all:
            process.wait()
            process.stdout.close()
            with suppress(BrokenPipeError):  # what was not sent yet is lost with the process
                process.stdin.close()

    def _start(self) -> "subprocess.Popen[bytes]":
        path = [each for each in sys.path if each]
        command = [sys.executable, "-P", "-c", _SERVE.format(path=path)]
        one = dict.fromkeys(_ONE_THREAD, "1")
        with self._lock:
            if self._ended:
                raise EOFError
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **one}, **_APART
            )
            self._all.append(process)
        self._mine.process = process
        return process

    def _fallen(self, process: "subprocess.Popen[bytes]") -> ChildProcessError:
        code = process.wait()
        how = f"was ended by signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"ended with code {code}"
        fix = "nothing was written; ask for fewer jobs if memory ran out"
        return ChildProcessError(ECHILD, f"one of the processes at work {how}; {fix}")


def serve() -> None:
    """What a process does: receive the work, then answer items until there are no more."""
    answers, questions = os.fdopen(os.dup(1), "wb"), os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)  # what the work prints is no answer
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    import torch

    torch.set_num_threads(1)
    work: Any = None
    try:
        message = _receive(questions)
        try:
            work = pickle.loads(message)
        except Exception as error:
            work = _Refused(f"{type(error).__name__}: {error}")
        while True:
            item = pickle.loads(_receive(questions))
            _send(answers, _answer(work, item))
    except (EOFError, BrokenPipeError):
        return


class _Refused:
    """Stands for work that could not be loaded."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __call__(self, item: Any) -> Any:
        raise _cannot_load(self.reason)


def _answer(work: Callable[[Any], Any], item: Any) -> bytes:
    try:
        return pickle.dumps((True, work(item)), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        try:
            found = pickle.dumps((False, error))
            pickle.loads(found)  # some errors can be pickled and not be loaded
        except Exception:
            found = pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
        return found


def _pickled(work: Any) -> bytes:
    try:
        return pickle.dumps(work, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise _cannot_load(f"{type(error).__name__}: {error}") from None


def _cannot_load(reason: str) -> InputError:
    fix = "define its classes in a module of their own, or leave jobs out"
    return InputError("a model that other processes can load", reason, Option("jobs"), fix)


def _send(stream: IO[bytes] | None, message: bytes) -> None:
    if stream is None:
        raise EOFError
    stream.write(_LENGTH.pack(len(message)))
    stream.write(message)
    stream.flush()


def _receive(stream: IO[bytes] | None) -> bytes:
    if stream is None or len(head := stream.read(_LENGTH.size)) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    message = stream.read(length)
    if len(message) < length:
        raise EOFError
    return message
