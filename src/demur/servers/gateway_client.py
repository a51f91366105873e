"""How is a client treated who goes away, dawdles, or takes its answer drop by drop?

Laws: a client that went away is noticed while its answer is awaited, and what was done for it is given up; one that neither
sends nor takes for too long is cut off, so that it holds nothing; nothing here reads what was said.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, Self

from demur.servers.asgi import ClientGoneError, read_body

if TYPE_CHECKING:
    from types import TracebackType

    from demur.servers.asgi import HttpAnswer, Receive, Scope, Send

__all__ = ["ABORT", "LINE", "ClientLine", "ClientWatch", "PatientSender", "SlowClientError", "body_within"]

ABORT = "demur.abort"
"""The extension of a request's scope by which its connection is cut off; there where our own protocol class serves."""


LINE = "demur.line"
"""The extension by which what is known of the connection can be asked for, in place of waiting for it by timers."""


class ClientLine(Protocol):
    """A client's connection, as our own protocol class knows it."""

    def would_wait(self) -> bool:
        """Return whether a piece that is sent now would have to wait for the client."""

    def is_whole(self) -> bool:
        """Return whether the request that is being served has come to its end."""


def _line_of(scope: Scope) -> ClientLine | None:
    line: ClientLine | None = (scope.get("extensions") or {}).get(LINE)
    return line


class SlowClientError(ClientGoneError):
    """The client takes its answer too slowly: it is treated as gone."""


class ClientWatch:
    """Raises `ClientGoneError` in the block that it guards as soon as the client goes away."""

    __slots__ = ("_guarded", "_receive", "_watcher", "gone")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._guarded: asyncio.Task[object] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self.gone = False

    async def __aenter__(self) -> Self:
        """Begin to watch."""
        self._guarded = asyncio.current_task()
        self._watcher = asyncio.get_running_loop().create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, at: TracebackType | None
    ) -> None:
        """End watching; a cancellation of ours becomes the error that it stands for."""
        if self._watcher is not None:
            self._watcher.cancel()
        if not self.gone or self._guarded is None:
            return
        if kind is None:
            # The cancellation was asked for in the very moment in which the block ended: take it here.
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        left = self._guarded.uncancel()
        if kind is asyncio.CancelledError and left == 0:
            raise ClientGoneError from raised

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        if self._guarded is not None:
            self._guarded.cancel()


class PatientSender:
    """Sends to a client that has so long for each piece."""

    __slots__ = ("_abort", "_limit_s", "_line", "_send", "begun")

    def __init__(self, send: Send, scope: Scope, limit_s: float) -> None:
        self._send = send
        self._limit_s = limit_s
        self._abort = (scope.get("extensions") or {}).get(ABORT)
        self._line = _line_of(scope)
        self.begun = False

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send the head of an answer."""
        self.begun = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def piece(self, body: bytes, *, more: bool = True) -> None:
        """Send a piece; raise where the client does not take it."""
        sending = self._send({"type": "http.response.body", "body": body, "more_body": more})
        if self._line is not None and not self._line.would_wait():
            await sending
            return
        try:
            async with asyncio.timeout(self._limit_s):
                await sending
        except TimeoutError as exc:
            self.cut()
            raise SlowClientError from exc

    def cut(self) -> None:
        """Cut the connection off: an answer that cannot be ended must not look as if it had."""
        if self._abort is not None:
            self._abort()

    async def answer(self, answer: HttpAnswer) -> None:
        """Send a whole answer."""
        length = (b"content-length", b"%d" % len(answer.body))
        await self.start(answer.status, [*answer.headers, length])
        await self.piece(answer.body, more=False)


async def body_within(scope: Scope, receive: Receive, *, limit_bytes: int, limit_s: float) -> bytes:
    """Return the body of a request; raise `TimeoutError` where it does not come in time."""
    line = _line_of(scope)
    if line is not None and line.is_whole():
        return await read_body(scope, receive, limit=limit_bytes)
    async with asyncio.timeout(limit_s):
        return await read_body(scope, receive, limit=limit_bytes)
