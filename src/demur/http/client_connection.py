"""How does one HTTP/1.1 connection to a provider carry one exchange at a time?

Laws: an answer owns what has arrived of it, so that the connection is free as soon as the last byte is in; nothing more
is read while more is held than may be; an answer that is given up closes the connection, for its rest would be read as
the next answer; so does anything that comes unasked. What is no HTTP by llhttp's strict rules (two lengths, a length
beside chunks, bare line feeds) is refused, and so is a transfer coding other than `chunked`.

One timer serves all timeouts: it is armed no further ahead than the shortest of them, so that a deadline can be moved
by writing a number, without touching the event loop.
"""

from __future__ import annotations

import asyncio
import select
from typing import TYPE_CHECKING, Protocol, cast

import httptools

from demur.errors import UpstreamCutError, UpstreamError, UpstreamProtocolError, UpstreamTimeoutError
from demur.http.response_parser import ArrivingBody
from demur.http.upstream import UpstreamAnswer, end_to_end, header_values

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from demur.http.upstream import UpstreamLimits, UpstreamTimeouts

__all__ = ["Connection", "ConnectionOwner"]

_NEVER = float("inf")
_OK = 200
_SWITCHING = 101
_LAST = 599
_CHUNKED = ([b"chunked"], [b"Chunked"])
_LINE_OVERHEAD = 4  # colon, space, line end
_STATUS_LINE_BYTES = 4096
_JOINED_BYTES = 64 * 1024
_CUT = "the provider closed the connection before its answer was whole"


class ConnectionOwner(Protocol):
    """Who is told what becomes of a connection."""

    def opened(self, connection: Connection) -> None:
        """Take note of a new one."""

    def freed(self, connection: Connection) -> None:
        """Take one back that can be used again."""

    def lost(self, connection: Connection) -> None:
        """Forget one."""


class Connection(asyncio.Protocol):
    """One connection: `exchange` sends a request and returns its answer."""

    __slots__ = (
        "_answer",
        "_armed",
        "_deadline",
        "_head_only",
        "_header_bytes",
        "_headers",
        "_interim",
        "_keep",
        "_limits",
        "_loop",
        "_owner",
        "_parser",
        "_paused",
        "_poll",
        "_read_by",
        "_reading_paused",
        "_sending",
        "_shortest",
        "_status",
        "_timeouts",
        "_total_by",
        "_transport",
        "_unfinished_bytes",
        "_until_close",
        "_writable",
        "received",
        "unsent",
    )

    def __init__(self, owner: ConnectionOwner, timeouts: UpstreamTimeouts, *, limits: UpstreamLimits) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeouts = timeouts
        self._limits = limits
        self._owner = owner
        self._shortest = min(timeouts.read_s, timeouts.total_s, timeouts.idle_s)
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._armed: asyncio.TimerHandle | None = None
        self._answer: ArrivingBody | None = None
        self._writable: asyncio.Future[None] | None = None
        self._poll: select.poll | None = None
        self._total_by = self._read_by = self._deadline = _NEVER
        self._paused = self._reading_paused = False
        self._begin(head_only=False)

    def _begin(self, *, head_only: bool) -> None:
        self._head_only = head_only
        self._headers: list[tuple[bytes, bytes]] = []
        self._header_bytes = self._unfinished_bytes = 0
        self._status = 0
        self._interim = self._until_close = self._keep = False
        self._sending = False
        self.received = False
        self.unsent = False

    async def exchange(
        self, head: bytes, body: bytes | AsyncIterable[bytes], *, head_only: bool, size_bytes: int | None = None
    ) -> UpstreamAnswer:
        """Return the answer to a request once its headers are whole; `head_only` where no body can follow them."""
        self._begin(head_only=head_only)
        self._deadline = self._total_by = self._loop.time() + self._timeouts.total_s
        answer = self._answer = ArrivingBody(self)
        transport = self._transport
        if transport is None or transport.is_closing():
            self.unsent = True
            self._fail(UpstreamCutError(_CUT, received=False))
        elif isinstance(body, bytes):
            small = len(body) <= _JOINED_BYTES
            transport.write(head + body if small else head)
            # A first write that fails has sent nothing, which is what makes any request safe to send again.
            self.unsent = transport.is_closing()
            if not small:
                transport.write(body)
        else:
            transport.write(head)
            await self._stream(body, size_bytes=size_bytes)
        while answer.head is None:
            await answer.news()
        return answer.head

    async def _stream(self, body: AsyncIterable[bytes], *, size_bytes: int | None) -> None:
        """Send a body in pieces; stop where an answer comes before its end, as it does when it is too large."""
        self._sending = True
        sent, orderly = 0, False
        try:
            async for piece in body:
                if piece:
                    sent += len(piece)
                    await self._send(piece if size_bytes is not None else b"%x\r\n%b\r\n" % (len(piece), piece))
                if self._paused and self._open_for_sending():
                    await self._drained()
                if not self._open_for_sending():
                    break
            else:
                if size_bytes is None:
                    await self._send(b"0\r\n\r\n")
                self._sending = False
            orderly = True
        finally:
            if not orderly:
                self.abandon()
        if not self._sending and size_bytes is not None and sent != size_bytes:
            self._fail(UpstreamProtocolError("the request's body is not as long as it says"))

    async def _send(self, data: bytes) -> None:
        """Send bytes when all that has come is read, since a write that fails loses an answer that lies unread.

        Nothing is written to a connection that ended meanwhile: not every event loop lets that pass.
        """
        while self._has_news():  # noqa: ASYNC110 — the kernel has no event to wait for; it is asked
            await asyncio.sleep(0)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _open_for_sending(self) -> bool:
        return self._answer is not None and self._answer.head is None

    async def _drained(self) -> None:
        self._writable = self._loop.create_future()
        self._read_by = self._loop.time() + self._timeouts.read_s
        self._deadline = min(self._read_by, self._total_by)
        try:
            await self._writable
        finally:
            self._writable = None
        self.heard()

    def alive(self) -> bool:
        """Whether an unused connection can be used: open, and with nothing to read, not even its end."""
        return self._is_open() and not self._has_news()

    def _is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def _has_news(self) -> bool:
        """Return whether there is something to read that the event loop has not seen yet."""
        return self._is_open() and self._poll is not None and bool(self._poll.poll(0))

    def waiting(self) -> asyncio.Future[None]:
        """Return what is done when something has come; from now on the provider's silence counts."""
        self._read_by = self._loop.time() + self._timeouts.read_s
        self._deadline = min(self._read_by, self._total_by)
        return self._loop.create_future()

    def heard(self) -> None:
        """Stop counting the provider's silence: from now on it is we who are slow."""
        self._read_by = _NEVER
        self._deadline = self._total_by

    def taken(self) -> None:
        """Read on: what had come was taken."""
        if self._reading_paused and self._transport is not None:
            self._reading_paused = False
            self._transport.resume_reading()

    def abandon(self) -> None:
        """Close the connection, whatever is still to come."""
        self._fail(UpstreamCutError("the answer was given up", received=self.received))

    def close(self) -> None:
        """Close an unused connection."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        # Other event loops have transports of their own make, which are no children of asyncio's class.
        self._transport = cast("asyncio.Transport", transport)
        found = transport.get_extra_info("socket")
        if hasattr(select, "poll") and found is not None:
            self._poll = select.poll()
            self._poll.register(found.fileno(), select.POLLIN)
        self._deadline = self._loop.time() + self._timeouts.idle_s
        self._arm()
        self._owner.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End: what was not whole is cut off, unless it was to last until the end."""
        self._transport = None
        self._poll = None
        if self._armed is not None:
            self._armed.cancel()
        if self._answer is not None:
            if self._until_close and exc is None:
                self._done()
            else:
                cut = UpstreamCutError(_CUT, received=self.received)
                cut.__cause__ = exc
                self._fail(cut)
        self._resume_sending()
        self._owner.lost(self)

    def eof_received(self) -> bool:
        """Let the connection close: a provider that has said all it will cannot be asked again."""
        return False

    def pause_writing(self) -> None:
        """Hold the request's body back."""
        self._paused = True

    def resume_writing(self) -> None:
        """Send on."""
        self._paused = False
        self._resume_sending()

    def _resume_sending(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Read what came."""
        answer = self._answer
        if answer is None:
            self._drop()
            return
        self.received = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(UpstreamProtocolError("the provider changed the protocol unasked"))
        except httptools.HttpParserCallbackError as exc:
            ours = exc.__context__
            self._refuse(ours if isinstance(ours, UpstreamProtocolError) else UpstreamProtocolError(str(exc).lower()))
        except httptools.HttpParserError as exc:
            error = UpstreamProtocolError(f"the provider's answer is no HTTP: {str(exc).lower()}")
            error.__cause__ = exc
            self._refuse(error)
        if self._answer is answer:
            self._after_reading(answer, len(data))

    def _after_reading(self, answer: ArrivingBody, size_bytes: int) -> None:
        if answer.head is None:
            self._unfinished_bytes += size_bytes
            if self._unfinished_bytes > self._limits.header_bytes + _STATUS_LINE_BYTES:
                self._fail(_too_large(self._limits.header_bytes))
            return
        if answer.held:
            answer.wake()
        if answer.held > self._limits.held_bytes and not self._reading_paused and self._transport is not None:
            self._reading_paused = True
            self._transport.pause_reading()

    def on_message_begin(self) -> None:
        """Refuse an answer that nobody asked for."""
        if self._answer is None:
            raise UpstreamProtocolError("the provider answered unasked")
        self._interim = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; a trailer is counted and dropped."""
        self._header_bytes += len(name) + len(value) + _LINE_OVERHEAD
        if self._header_bytes > self._limits.header_bytes:
            raise _too_large(self._limits.header_bytes)
        if not self._status:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Hand the answer out; interim ones (1xx) are passed over."""
        answer, status = self._answer, self._parser.get_status_code()
        if answer is None:
            return
        if status < _OK:
            if status == _SWITCHING:
                raise UpstreamProtocolError("the provider changed the protocol unasked")
            self._interim = True
            self._headers.clear()
            return
        if status > _LAST:
            raise UpstreamProtocolError("the provider's answer has a status that is none")
        self._status = status
        headers = tuple(self._headers)
        names = [name for name, _ in headers]
        if b"transfer-encoding" in names:
            if header_values(headers, b"transfer-encoding") not in _CHUNKED:
                raise UpstreamProtocolError("the provider's answer has a transfer coding other than chunked")
        else:
            self._until_close = b"content-length" not in names
        self._keep = self._parser.should_keep_alive()
        answer.head = UpstreamAnswer(status, end_to_end(headers), answer)
        answer.wake()
        self._resume_sending()
        if self._head_only:
            # The parser cannot be told that no body follows, so that this connection has served its turn.
            self._keep = False
            self._done()

    def on_body(self, body: bytes) -> None:
        """Keep a piece."""
        if self._answer is not None:
            self._answer.put(body)

    def on_message_complete(self) -> None:
        """End the answer."""
        if not self._interim:
            self._done()

    def _done(self) -> None:
        answer, self._answer = self._answer, None
        if answer is None:
            return
        answer.end()
        self._resume_sending()
        if not self._keep or self._sending or self._transport is None:
            self._drop()
            return
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()
        self._total_by = self._read_by = _NEVER
        self._deadline = self._loop.time() + self._timeouts.idle_s
        self._owner.freed(self)

    def _refuse(self, error: UpstreamProtocolError) -> None:
        """Close; where the answer was whole before the fault, it stands."""
        if self._answer is None:
            self._drop()
        else:
            self._fail(error)

    def _fail(self, error: UpstreamError) -> None:
        answer, self._answer = self._answer, None
        self._drop()
        self._resume_sending()
        if answer is not None:
            answer.end(error)

    def _drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _arm(self) -> None:
        now = self._loop.time()
        if self._armed is not None:
            self._armed.cancel()
        self._armed = self._loop.call_at(min(self._deadline, now + self._shortest), self._look_at_the_clock)

    def _look_at_the_clock(self) -> None:
        if self._loop.time() < self._deadline:
            self._arm()
        elif self._answer is None:
            self._drop()
        else:
            which = "total" if self._total_by <= self._read_by else "read"
            seconds = self._timeouts.total_s if which == "total" else self._timeouts.read_s
            what = f"the provider took longer than {seconds:g} s ({which} timeout)"
            self._fail(UpstreamTimeoutError(what, which=which, hint=f"see `timeouts.{which}_s`"))


def _too_large(limit: int) -> UpstreamProtocolError:
    return UpstreamProtocolError(
        f"the headers of the provider's answer are larger than {limit} bytes", hint="see `limits.header_bytes`"
    )
