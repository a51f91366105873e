"""How a server treats a client that disconnects, sends too slowly, or reads its response too slowly.

A client that disconnects while its response is awaited is noticed, and the work for it is abandoned. One that neither sends nor
reads for too long is cut off, so that it holds no memory. Nothing here looks at what was said.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, Self

from demur.http.asgi import ClientGoneError, body_too_long, read_body

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from types import TracebackType

    from demur.http.asgi import HttpResponse, Receive, Scope, Send

__all__ = ["CONNECTION", "ClientConnection", "ClientWatch", "SlowClientError", "TimedSender", "body_within"]

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
