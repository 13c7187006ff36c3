"""The server of the page: its files, a description of the run, and answers, one computation at a time."""

import asyncio
import errno
import json
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from threading import Event
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from concrete_score.answers import Given
from concrete_score.errors import InputError, Option, bounded, printable
from concrete_score.explorer.asking import SKIN
from concrete_score.explorer.describing import describe
from concrete_score.explorer.guard import MOST_BYTES, Guard, TooLarge
from concrete_score.explorer.questions import QUESTIONS
from concrete_score.files import finite
from concrete_score.model import Model

HOST = "127.0.0.1"
FILES = {
    "": "page.html",
    "page.css": "page.css",
    "page.js": "page.js",
    "parts.js": "parts.js",
    "table.js": "table.js",
    "image.js": "image.js",
    "sequence.js": "sequence.js",
    "icon.svg": "icon.svg",
}
"""What the page is made of, by address; nothing else is read from the disk."""
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_LINES = "application/x-ndjson"
_WAIT = 0.2
"""Seconds between two looks whether the asker is still there."""


class Stopped(Exception):
    """Nobody waits for an answer any more."""


class Explorer:
    """The answers about one model.

    Args:
        model: read once, never written.
        start: data whose first example the page begins with.
    """

    def __init__(self, model: Model, start: Given | None = None) -> None:
        self.model = model
        self.described = _json(describe(model, start))
        # One thread: a model is asked one thing at a time, in the order of the questions.
        self.worker = ThreadPoolExecutor(1, "explorer")
        self.closing = Event()

    def app(self, token: str) -> ASGIApp:
        """The whole application behind its guard."""
        routes = [
            Route("/run.json", self._describe, methods=["GET"]),
            Route("/ask/{question}", self._ask, methods=["POST"]),
            *(Route(f"/{name}", _file(name), methods=["GET"]) for name in FILES),
        ]
        return Guard(Starlette(routes=routes, exception_handlers={404: _not_found, 405: _not_found}), token)

    def close(self) -> None:
        """End what is being computed as soon as it looks up."""
        self.closing.set()
        self.worker.shutdown(wait=False, cancel_futures=True)

    async def _describe(self, request: Request) -> Response:
        return Response(self.described, media_type="application/json")

    async def _ask(self, request: Request) -> Response:
        question = QUESTIONS.get(request.path_params["question"])
        if question is None:
            return _error(404, f"no such question; known are {', '.join(QUESTIONS)}")
        try:
            value = _parse(await request.body())
        except TooLarge:
            return _error(413, f"a question may have {MOST_BYTES:,} bytes")
        except InputError as error:
            return _error(400, error.render(SKIN))
        answer = _Answer(self.closing)
        asyncio.get_running_loop().run_in_executor(self.worker, answer.make, question, self.model, value)
        first = await answer.next(request)
        if first is None:
            return _error(499, "nobody waits for this answer")
        status, line, last = first
        if last:
            return Response(line, status, media_type="application/json")
        return StreamingResponse(answer.rest(line), media_type=_LINES)


class _Answer:
    """One answer in the making: its parts come from the worker's thread as lines of JSON."""

    def __init__(self, closing: Event) -> None:
        self.loop, self.closing, self.unwanted = asyncio.get_running_loop(), closing, Event()
        self.lines: asyncio.Queue[tuple[int, bytes, bool]] = asyncio.Queue()

    def make(self, question: Callable[..., dict[str, Any]], model: Model, value: Mapping[str, Any]) -> None:
        """In the worker's thread: ask, and hand over what comes."""
        try:
            self._check()
            self._put(200, question(model, value, self._tell), last=True)
        except Stopped:
            return
        except InputError as error:
            # Nothing is wrong with the page: with another status, browsers would list an error of it.
            self._put(200, {"error": error.render(SKIN)}, last=True)
        except Exception as error:  # the page goes on, whatever one question did
            self._put(500, {"error": f"internal error ({type(error).__name__}: {printable(str(error))})"}, last=True)

    async def next(self, request: Request) -> tuple[int, bytes, bool] | None:
        """The next part, or None where nobody waits for it any more."""
        while True:
            try:
                return await asyncio.wait_for(self.lines.get(), _WAIT)
            except TimeoutError:
                if self.closing.is_set() or await request.is_disconnected():
                    self.unwanted.set()
                    return None

    async def rest(self, line: bytes) -> AsyncIterator[bytes]:
        """All parts, a line each; whoever stops reading stops the computation."""
        last = False
        try:
            while not last:
                yield line + b"\n"
                _, line, last = await self.lines.get()
            yield line + b"\n"
        finally:
            self.unwanted.set()

    def _tell(self, part: Mapping[str, Any]) -> None:
        self._check()
        self._put(200, part, last=False)

    def _check(self) -> None:
        if self.unwanted.is_set() or self.closing.is_set():
            raise Stopped

    def _put(self, status: int, value: Mapping[str, Any], last: bool) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.lines.put_nowait, (status, _json(value), last))


def listen(port: int) -> socket.socket:
    """A socket of this machine alone; port 0 is any that is free.

    Raises:
        InputError: the port is taken, or may not be used.
    """
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((HOST, port))
        found.listen(64)
    except OSError as error:
        found.close()
        came = "one in use" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
        fix = ("choose another ", Option("port"), ", or leave it out")
        raise InputError("a free port", f"{port}, {came}", Option("port"), fix) from None
    return found


def serve(explorer: Explorer, token: str, at: socket.socket, started: Callable[[], None] | None = None) -> None:
    """Answer until Ctrl-C.

    Args:
        explorer: what answers.
        token: that addresses must hold.
        at: where; see `listen`.
        started: called once requests are answered.
    """
    try:
        server_of(explorer, token, started).run(sockets=[at])
    except KeyboardInterrupt:  # raised again by the server once it has closed
        pass
    finally:
        explorer.close()
        at.close()


def server_of(explorer: Explorer, token: str, started: Callable[[], None] | None = None) -> uvicorn.Server:
    """The server that `serve` runs: quiet, without a log, for addresses hold the token."""
    config = uvicorn.Config(
        explorer.app(token),
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        limit_concurrency=64,
    )
    return _Server(config, started)


class _Server(uvicorn.Server):
    """A server that says when it has started."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None] | None) -> None:
        super().__init__(config)
        self.tell_started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.tell_started is not None:
            self.tell_started()


def _file(name: str) -> Callable[[Request], Response]:
    file = FILES[name]
    body = files("concrete_score.explorer").joinpath("page", file).read_bytes()

    def answer(request: Request) -> Response:
        return Response(body, media_type=_TYPES[file.rpartition(".")[2]])

    return answer


def _parse(body: bytes) -> Mapping[str, Any]:
    """The JSON object of a question.

    Raises:
        InputError: anything else.
    """
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise InputError("a question as JSON", bounded(repr(body[:60]), 80)) from None
    if not isinstance(value, dict):
        raise InputError("a JSON object", type(value).__name__)
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(name)


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(finite(value), allow_nan=False, separators=(",", ":")).encode("utf-8")


def _error(status: int, why: str) -> Response:
    return Response(_json({"error": why}), status, media_type="application/json")


async def _not_found(request: Request, error: Exception) -> Response:
    return PlainTextResponse("refused: nothing is there\n", getattr(error, "status_code", 404))
