"""What every server here needs of ASGI: paths, bounded bodies, clients that leave or stall, responses and errors.

Nothing of a body or a query string is logged. A body is rejected as soon as it is known to be too long. A client that disconnects is
noticed and the work for it abandoned; one that neither sends nor reads for too long is cut off, so that it holds no memory.
A path is checked in every reading that servers differ about, so that no spelling gets past a check.
"""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias
from urllib.parse import unquote

import msgspec

from demur.errors import SizeLimitError
from demur.model.exchange import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

__all__ = [
    "CONNECTION",
    "App",
    "ClientConnection",
    "ClientGoneError",
    "ClientWatch",
    "HttpProblem",
    "HttpResponse",
    "LateBodyError",
    "Receive",
    "Scope",
    "Send",
    "SlowClientError",
    "TimedSender",
    "body_too_long",
    "body_within",
    "header",
    "is_json",
    "json_error",
    "json_response",
    "path_readings",
    "plain_path",
    "problem_response",
    "read_body",
    "send_response",
    "shape_for_errors",
]

# The types of ASGI 3.0, which are mappings by its specification.
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


_JSON = (b"content-type", b"application/json")
# The provider's own words, so that its client library takes our error for one of its provider's.
_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    415: "invalid_request_error",
    431: "invalid_request_error",
    502: "api_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_OPENAI_KINDS = {401: "invalid_request_error", 403: "policy_error", 502: "server_error", 503: "server_error"}


class ClientGoneError(ConnectionError):
    """The client disconnected before its request was complete: there is nobody to answer."""


class LateBodyError(ClientGoneError):
    """The body did not arrive in time; the client is told so if it is still connected."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A complete response: status, body, and headers without the content length."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = (_JSON,)


@dataclass(frozen=True, slots=True)
class HttpProblem:
    """Why a server of ours responds with an error: status, code, message and details."""

    status: int
    code: str
    message: str
    details: tuple[tuple[str, object], ...] = ()
    headers: tuple[tuple[bytes, bytes], ...] = ()


def problem_response(problem: HttpProblem, shape: Shape) -> HttpResponse:
    """Return the error as the client's provider would write it."""
    kind = _KINDS.get(problem.status, "api_error")
    demur = {"demur": dict(problem.details)} if problem.details else {}
    body: dict[str, object]
    if shape is Shape.ANTHROPIC:
        error = {"type": kind, "message": problem.message, "code": problem.code, **demur}
        body = {"type": "error", "error": error, "request_id": None}
    else:
        kind = _OPENAI_KINDS.get(problem.status, kind)
        body = {"error": {"message": problem.message, "type": kind, "param": None, "code": problem.code, **demur}}
    return HttpResponse(problem.status, msgspec.json.encode(body), (_JSON, *problem.headers))


def json_response(status: int, value: object, *, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """Return a response with a value as JSON."""
    more = tuple((name.lower().encode(), text.encode()) for name, text in (headers or {}).items())
    return HttpResponse(status, msgspec.json.encode(value), (_JSON, *more))


def json_error(status: int, code: str, message: str, *, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """Return a response that says what is wrong with a request."""
    body = {"status": "error", "error": {"code": code, "message": message}}
    return json_response(status, body, headers=headers)


async def send_response(send: Send, response: HttpResponse, *, body: bool = True) -> None:
    """Send a complete response; without its body for a HEAD request."""
    length = (b"content-length", str(len(response.body)).encode())
    await send({"type": "http.response.start", "status": response.status, "headers": [*response.headers, length]})
    await send({"type": "http.response.body", "body": response.body if body else b""})


async def read_body(scope: Scope, receive: Receive, *, limit: int, limit_s: float | None = None) -> bytes:
    """Return a request's body; raise `SizeLimitError` if it is too long, `LateBodyError` or `ClientGoneError` if it never ends."""
    declared = header(scope, b"content-length")
    if declared.isdecimal() and int(declared) > limit:
        # Before the first byte is read: a client that waits for `100 Continue` then sends nothing at all.
        raise body_too_long(limit)
    body = bytearray()
    timer = asyncio.timeout(limit_s)
    try:
        async with timer:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGoneError
                body += message.get("body", b"")
                if len(body) > limit:
                    raise body_too_long(limit)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError as exc:
        # A `TimeoutError` of the socket's own is no sign of a slow client.
        if timer.expired():
            raise LateBodyError from exc
        raise


def header(scope: Scope, name: bytes) -> str:
    """Return a header of the request, empty if it has none; names are lower case in ASGI."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def is_json(scope: Scope) -> bool:
    """Return whether the request says that its body is JSON, or says nothing."""
    kind = header(scope, b"content-type").partition(";")[0].strip().lower()
    return kind in ("", "application/json") or (kind.startswith("application/") and kind.endswith("+json"))


def body_too_long(limit: int) -> SizeLimitError:
    """Return the error for a body beyond the limit."""
    return SizeLimitError(f"the body is longer than {limit} bytes", hint="send less at a time")


_ROUNDS = 3  # how often escapes are decoded: a provider behind another proxy may do it twice
# Where a decoded escape ends the path: a query, a fragment, the end of a C string, the end of a line.
_CUTS = re.compile(r"[?#\0\r\n].*", re.DOTALL)
_ODD = re.compile(r"[;%?#\0\r\n]")
# What every server reads in the same way.
_PLAIN = re.compile(r"(?:/[A-Za-z0-9_-]+)+")
_PARAMETERS = re.compile(r";[^/]*")


def plain_path(path: str) -> str:
    """Return a path as a lenient server would read it: no escapes, no empty or dotted steps, no slash at the end."""
    if _PLAIN.fullmatch(path):
        return path
    return _normalise(_unescape(path).partition(";")[0])


def path_readings(path: str) -> Iterator[str]:
    """Yield the paths that servers make of one."""
    yield plain_path(path)
    if path.isascii() and _ODD.search(path) is None:
        return
    once = _unescape(path)
    for spelt in dict.fromkeys((once, unicodedata.normalize("NFKC", once))):
        whole = _CUTS.sub("", spelt)
        # What follows a semicolon is part of the name, a parameter of its segment (RFC 3986, section 3.3), or cut off.
        yield from (_normalise(whole), _normalise(_PARAMETERS.sub("", whole)), _normalise(whole.partition(";")[0]))


def _unescape(path: str) -> str:
    for _ in range(_ROUNDS):
        again = unquote(path)
        if again == path:
            break
        path = again
    return path


def _normalise(path: str) -> str:
    steps: list[str] = []
    for step in path.replace("\\", "/").split("/"):
        if step == "..":
            del steps[-1:]
        elif step.strip(" \t\0") not in ("", "."):
            steps.append(step.strip(" \t\0"))
    return "/" + "/".join(steps)


def shape_for_errors(path: str) -> Shape:
    """Return whose error format to use for a request that was not read."""
    return Shape.ANTHROPIC if plain_path(path).startswith("/v1/messages") else Shape.OPENAI_CHAT


_WITHOUT_BODY = (204, 304)
CONNECTION = "demur.connection"
"""The ASGI extension that holds the `ClientConnection` of a request, where our own protocol class serves it."""


class ClientConnection(Protocol):
    """A client's connection while one of its requests is served; nothing here waits."""

    @property
    def is_gone(self) -> bool:
        """Whether the client disconnected."""

    def watch(self, on_disconnect: Callable[[], None] | None) -> None:
        """Set the disconnect callback; None clears it."""

    def would_wait(self) -> bool:
        """Return whether a piece that is sent now would have to wait for the client."""

    def take_body(self) -> bytes | None:
        """Return the request's body, None if it has not arrived completely."""

    def answer(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
        """Send a complete response; return False if the client has to be waited for."""

    def cut(self) -> None:
        """Close the connection at once."""


def _connection_of(scope: Scope) -> ClientConnection | None:
    connection: ClientConnection | None = (scope.get("extensions") or {}).get(CONNECTION)
    return connection


class SlowClientError(ClientGoneError):
    """The client reads its response too slowly: it is treated as gone."""


class ClientWatch:
    """Raises `ClientGoneError` in the block that it guards as soon as the client disconnects."""

    __slots__ = ("_connection", "_guarded", "_receive", "_watcher", "gone")

    def __init__(self, receive: Receive, scope: Scope) -> None:
        self._receive = receive
        self._connection = _connection_of(scope)
        self._guarded: asyncio.Task[object] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self.gone = False

    async def __aenter__(self) -> Self:
        """Start to watch."""
        self._guarded = asyncio.current_task()
        if self._connection is None:
            # ASGI tells of a disconnect only to whoever waits for it, which takes a task of its own.
            self._watcher = asyncio.get_running_loop().create_task(self._watch())
        elif self._connection.is_gone:
            asyncio.get_running_loop().call_soon(self._client_left)
        else:
            self._connection.watch(self._client_left)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, at: TracebackType | None
    ) -> None:
        """Stop watching; turn our own cancellation into a `ClientGoneError`."""
        if self._watcher is not None:
            self._watcher.cancel()
        if self._connection is not None:
            self._connection.watch(None)
        if not self.gone or self._guarded is None:
            return
        if kind is None:
            # The cancellation was requested at the moment the block ended: receive it here.
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        # Somebody else may have cancelled the task too; that cancellation must go on.
        pending = self._guarded.uncancel()
        if kind is asyncio.CancelledError and pending == 0:
            raise ClientGoneError from raised

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._client_left()

    def _client_left(self) -> None:
        self.gone = True
        if self._guarded is not None:
            self._guarded.cancel()


class TimedSender:
    """Sends to a client that has `limit_s` seconds to take each piece."""

    __slots__ = ("_connection", "_limit_s", "_send", "begun")

    def __init__(self, send: Send, scope: Scope, limit_s: float) -> None:
        self._send = send
        self._limit_s = limit_s
        self._connection = _connection_of(scope)
        self.begun = False

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send the status and headers of a response."""
        self.begun = True
        await self._in_time(self._send({"type": "http.response.start", "status": status, "headers": headers}))

    async def piece(self, body: bytes, *, more: bool = True) -> None:
        """Send a piece of the body; raise `SlowClientError` if the client does not take it."""
        await self._in_time(self._send({"type": "http.response.body", "body": body, "more_body": more}))

    async def _in_time(self, sending: Awaitable[None]) -> None:
        if self._connection is not None and not self._connection.would_wait():
            # A timer for each piece would cost more than the write itself.
            await sending
            return
        try:
            async with asyncio.timeout(self._limit_s):
                await sending
        except TimeoutError as exc:
            self.cut()
            raise SlowClientError from exc

    def cut(self) -> None:
        """Close the connection at once: a response that cannot be finished must not look complete."""
        if self._connection is not None:
            self._connection.cut()

    async def answer(self, response: HttpResponse) -> None:
        """Send a complete response."""
        # No body follows these, and a content length is forbidden with 204 (RFC 9110, section 8.6).
        has_body = response.status not in _WITHOUT_BODY
        headers = [*response.headers, *([(b"content-length", b"%d" % len(response.body))] if has_body else [])]
        if self._connection is not None and self._connection.answer(response.status, headers, response.body):
            self.begun = True
            return
        await self.start(response.status, headers)
        await self.piece(response.body, more=False)


async def body_within(scope: Scope, receive: Receive, *, limit_bytes: int, limit_s: float) -> bytes:
    """Return a request's body; raise `TimeoutError` if it does not arrive in time."""
    connection = _connection_of(scope)
    body = connection.take_body() if connection is not None else None
    if body is not None:
        if len(body) > limit_bytes:
            raise body_too_long(limit_bytes)
        return body
    async with asyncio.timeout(limit_s):
        return await read_body(scope, receive, limit=limit_bytes)
