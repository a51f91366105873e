"""How is a client treated who goes away, dawdles, or takes its answer drop by drop?

Laws: a client that went away is noticed while its answer is awaited, and what was done for it is given up; one that neither
sends nor takes for too long is cut off, so that it holds nothing; nothing here reads what was said.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, Self

from demur.http.asgi import ClientGoneError, body_too_long, read_body

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from types import TracebackType

    from demur.http.asgi import HttpAnswer, Receive, Scope, Send

__all__ = ["LINE", "ClientLine", "ClientWatch", "PatientSender", "SlowClientError", "body_within"]

_WITHOUT_BODY = (204, 304)
LINE = "demur.line"
"""The extension of a request's scope by which its connection can be asked and used at once, where our own protocol class serves."""


class ClientLine(Protocol):
    """A client's connection, as our own protocol class knows it."""

    @property
    def is_gone(self) -> bool:
        """Whether the client went away."""

    def watch(self, told_of_end: Callable[[], None] | None) -> None:
        """Call this when the client goes away, and nobody where it is None."""

    def would_wait(self) -> bool:
        """Return whether a piece that is sent now would have to wait for the client."""

    def take_body(self) -> bytes | None:
        """Return the body, None where it is not here to its end."""

    def answer(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
        """Send a whole answer; return False where the client has to be waited for."""

    def cut(self) -> None:
        """Cut the connection off."""


def _line_of(scope: Scope) -> ClientLine | None:
    line: ClientLine | None = (scope.get("extensions") or {}).get(LINE)
    return line


class SlowClientError(ClientGoneError):
    """The client takes its answer too slowly: it is treated as gone."""


class ClientWatch:
    """Raises `ClientGoneError` in the block that it guards as soon as the client goes away."""

    __slots__ = ("_guarded", "_line", "_receive", "_watcher", "gone")

    def __init__(self, receive: Receive, scope: Scope) -> None:
        self._receive = receive
        self._line = _line_of(scope)
        self._guarded: asyncio.Task[object] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self.gone = False

    async def __aenter__(self) -> Self:
        """Begin to watch."""
        self._guarded = asyncio.current_task()
        if self._line is None:
            self._watcher = asyncio.get_running_loop().create_task(self._watch())
        elif self._line.is_gone:
            asyncio.get_running_loop().call_soon(self._left)
        else:
            self._line.watch(self._left)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, at: TracebackType | None
    ) -> None:
        """End watching; a cancellation of ours becomes the error that it stands for."""
        if self._watcher is not None:
            self._watcher.cancel()
        if self._line is not None:
            self._line.watch(None)
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
        self._left()

    def _left(self) -> None:
        self.gone = True
        if self._guarded is not None:
            self._guarded.cancel()


class PatientSender:
    """Sends to a client that has so long for each piece."""

    __slots__ = ("_limit_s", "_line", "_send", "begun")

    def __init__(self, send: Send, scope: Scope, limit_s: float) -> None:
        self._send = send
        self._limit_s = limit_s
        self._line = _line_of(scope)
        self.begun = False

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send the head of an answer."""
        self.begun = True
        await self._in_time(self._send({"type": "http.response.start", "status": status, "headers": headers}))

    async def piece(self, body: bytes, *, more: bool = True) -> None:
        """Send a piece; raise where the client does not take it."""
        await self._in_time(self._send({"type": "http.response.body", "body": body, "more_body": more}))

    async def _in_time(self, sending: Awaitable[None]) -> None:
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
        if self._line is not None:
            self._line.cut()

    async def answer(self, answer: HttpAnswer) -> None:
        """Send a whole answer."""
        # Nothing follows these, and a length beside the first of them is forbidden (RFC 9110, 8.6).
        has_body = answer.status not in _WITHOUT_BODY
        headers = [*answer.headers, *([(b"content-length", b"%d" % len(answer.body))] if has_body else [])]
        if self._line is not None and self._line.answer(answer.status, headers, answer.body):
            self.begun = True
            return
        await self.start(answer.status, headers)
        await self.piece(answer.body, more=False)


async def body_within(scope: Scope, receive: Receive, *, limit_bytes: int, limit_s: float) -> bytes:
    """Return the body of a request; raise `TimeoutError` where it does not come in time."""
    line = _line_of(scope)
    body = line.take_body() if line is not None else None
    if body is not None:
        if len(body) > limit_bytes:
            raise body_too_long(limit_bytes)
        return body
    async with asyncio.timeout(limit_s):
        return await read_body(scope, receive, limit=limit_bytes)
