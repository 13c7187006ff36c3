"""Who may ask: only a page of this machine that knows the token, and what every answer forbids a browser to do.

A page of another site may make a browser send requests here, and a name of the internet may be made to point here (DNS
rebinding). So the host must be named as this machine, whatever the address; the address must hold the token, which only
the terminal shows; a question must be JSON that this very page sent. The answers allow the page its own files alone.
"""

import re
from hmac import compare_digest
from secrets import token_urlsafe
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 2**20
"""Of a question."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
"""Of every answer, refusals included."""
_HOST = re.compile(r"(127\.0\.0\.1|localhost)(:[0-9]{1,5})?")


def new_token() -> str:
    """256 random bits in letters that an address may hold."""
    return token_urlsafe(32)


class Guard:
    """An ASGI application around another, which sees only requests that may be answered, without the token.

    Args:
        app: what answers, mounted under ``/TOKEN``.
        token: the first part of every path.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.token = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refused = self._refusal(scope)
        if refused is not None:
            await refused(scope, receive, send_guarded)
            return
        inner = {**scope, "path": scope["path"][1 + len(self.token) :]}
        await self.app(inner, _Bounded(receive), send_guarded)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        """Why a request is not answered, in one line; None if it is."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
            return _refuse(421, "this page answers only to 127.0.0.1 and localhost")
        first, slash, _ = scope["path"].removeprefix("/").partition("/")
        if not compare_digest(first.encode(), self.token) or not slash:
            return _refuse(403, "the address must hold the token that csm explore printed")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _refuse(405, "this page is only read and asked")
        if scope["method"] != "POST":
            return None
        if headers.get("origin", f"http://{hosts[0]}") != f"http://{hosts[0]}":
            return _refuse(403, "a question must come from this page")
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return _refuse(415, "a question must be JSON, content-type application/json")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 18 or int(length) > MOST_BYTES:
            return _refuse(413, f"a question may have {MOST_BYTES:,} bytes")
        return None


class TooLarge(Exception):
    """More bytes came than a question may have."""


class _Bounded:
    """What receives a request, up to `MOST_BYTES` of it, whatever length it stated."""

    def __init__(self, receive: Receive) -> None:
        self.receive, self.seen = receive, 0

    async def __call__(self) -> Message:
        message = await self.receive()
        body: Any = message.get("body", b"")
        self.seen += len(body)
        if self.seen > MOST_BYTES:
            raise TooLarge
        return message


def _refuse(status: int, why: str) -> PlainTextResponse:
    return PlainTextResponse(f"refused: {why}\n", status)
