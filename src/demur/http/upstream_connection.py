"""One HTTP/1.1 connection to an upstream server, which carries one exchange at a time.

A response owns what has arrived of it, so the connection is free as soon as the last byte is in. A response that is abandoned
closes the connection, since its rest would be read as the next response; so does anything that arrives unrequested.
"""

from __future__ import annotations

import asyncio
import select
from typing import TYPE_CHECKING, Protocol, cast

import httptools

from demur.errors import UpstreamCutError, UpstreamError, UpstreamProtocolError, UpstreamTimeoutError
from demur.http.upstream import ArrivingBody, UpstreamResponse, end_to_end, header_values

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from demur.http.upstream import UpstreamLimits, UpstreamTimeouts

__all__ = ["ConnectionOwner", "UpstreamConnection"]

_NEVER = float("inf")
_OK = 200
_SWITCHING = 101
_LAST = 599
_CHUNKED = ([b"chunked"], [b"Chunked"])
_LINE_OVERHEAD = 4  # colon, space, line end
_STATUS_LINE_BYTES = 4096
_JOINED_BYTES = 64 * 1024
_UPGRADED = "the provider switched protocols without being asked"
_CUT = "the provider closed the connection before its response was complete"


class ConnectionOwner(Protocol):
    """Is told what becomes of a connection."""

    def opened(self, connection: UpstreamConnection) -> None:
        """Register a new one."""

    def freed(self, connection: UpstreamConnection) -> None:
        """Take back one that can be used again."""

    def lost(self, connection: UpstreamConnection) -> None:
        """Forget one."""


class UpstreamConnection(asyncio.Protocol):
    """One connection: `exchange` sends a request and returns its response."""

    __slots__ = (
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
        "_response",
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
        self._response: ArrivingBody | None = None
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
    ) -> UpstreamResponse:
        """Return the response to a request once its headers are complete; `head_only` if no body can follow them."""
        self._begin(head_only=head_only)
        self._deadline = self._total_by = self._loop.time() + self._timeouts.total_s
        response = self._response = ArrivingBody(self)
        transport = self._transport
        if transport is None or transport.is_closing():
            self.unsent = True
            self._fail(UpstreamCutError(_CUT, received=False))
        elif isinstance(body, bytes):
            # One system call and one packet for a small request; a large body is not copied for it.
            small = len(body) <= _JOINED_BYTES
            transport.write(head + body if small else head)
            # If the first write fails nothing was sent, so any request is safe to send again.
            self.unsent = transport.is_closing()
            if not small:
                transport.write(body)
        else:
            transport.write(head)
            await self._stream(body, size_bytes=size_bytes)
        while response.head is None:
            await response.wait()
        return response.head

    async def _stream(self, body: AsyncIterable[bytes], *, size_bytes: int | None) -> None:
        """Send a body in pieces; stop if the response comes first, as it does when the body is too large."""
        self._sending = True
        sent, orderly = 0, False
        try:
            async for piece in body:
                if piece:
                    sent += len(piece)
                    await self._send(piece if size_bytes is not None else b"%x\r\n%b\r\n" % (len(piece), piece))
                if self._paused and self._open_for_sending():
                    # Until the upstream reads on, or responds; its silence counts as a read timeout meanwhile.
                    self._writable = self.start_read_timer()
                    try:
                        await self._writable
                    finally:
                        self._writable = None
                    self.stop_read_timer()
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
        """Send bytes."""
        # Only when all that arrived is read: a write that fails loses a response that lies unread.
        while self._has_news():  # noqa: ASYNC110 — the kernel has no event to wait for; it is asked
            await asyncio.sleep(0)
        # Not every event loop tolerates a write to a connection that ended meanwhile.
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _open_for_sending(self) -> bool:
        return self._response is not None and self._response.head is None

    def alive(self) -> bool:
        """Return whether an idle connection can be used: open, and with nothing to read, not even its end."""
        return self._is_open() and not self._has_news()

    def _is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def _has_news(self) -> bool:
        """Return whether the socket has something to read that the event loop has not seen yet."""
        return self._is_open() and self._poll is not None and bool(self._poll.poll(0))

    def start_read_timer(self) -> asyncio.Future[None]:
        """Return a future for the next arrival; from now on the upstream's silence counts."""
        self._read_by = self._loop.time() + self._timeouts.read_s
        self._deadline = min(self._read_by, self._total_by)
        return self._loop.create_future()

    def stop_read_timer(self) -> None:
        """Stop counting the silence: from now on it is our side that is slow."""
        self._read_by = _NEVER
        self._deadline = self._total_by

    def resume(self) -> None:
        """Read on: what had arrived was taken."""
        if self._reading_paused and self._transport is not None:
            self._reading_paused = False
            self._transport.resume_reading()

    def abandon(self) -> None:
        """Close the connection, whatever is still to come."""
        self._fail(UpstreamCutError("the response was abandoned", received=self.received))

    def close(self) -> None:
        """Close an idle connection."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timers."""
        # Other event loops have transports of their own, which are no subclasses of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        found = transport.get_extra_info("socket")
        if hasattr(select, "poll") and found is not None:
            self._poll = select.poll()
            self._poll.register(found.fileno(), select.POLLIN)
        self._deadline = self._loop.time() + self._timeouts.idle_s
        self._arm()
        self._owner.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the response: as cut off, unless its body lasts until the connection closes."""
        self._transport = None
        self._poll = None
        if self._armed is not None:
            self._armed.cancel()
        if self._response is not None:
            if self._until_close and exc is None:
                self._done()
            else:
                cut = UpstreamCutError(_CUT, received=self.received)
                cut.__cause__ = exc
                self._fail(cut)
        self._resume_sending()
        self._owner.lost(self)

    def eof_received(self) -> bool:
        """Let the connection close: a server that ended its side cannot be asked again."""
        return False

    def pause_writing(self) -> None:
        """Hold the request's body back."""
        self._paused = True

    def resume_writing(self) -> None:
        """Continue to send."""
        self._paused = False
        self._resume_sending()

    def _resume_sending(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived."""
        response = self._response
        if response is None:
            self._drop()
            return
        self.received = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(UpstreamProtocolError(_UPGRADED))
        except httptools.HttpParserCallbackError as exc:
            ours = exc.__context__
            self._reject(ours if isinstance(ours, UpstreamProtocolError) else UpstreamProtocolError(str(exc).lower()))
        except httptools.HttpParserError as exc:
            error = UpstreamProtocolError(f"the provider's response is not HTTP: {str(exc).lower()}")
            error.__cause__ = exc
            self._reject(error)
        if self._response is not response:
            return
        if response.head is None:
            # The parser reports a header only once it is complete, so an endless one is noticed by the raw bytes.
            self._unfinished_bytes += len(data)
            if self._unfinished_bytes > self._limits.header_bytes + _STATUS_LINE_BYTES:
                self._fail(_too_large(self._limits.header_bytes))
            return
        if response.held:
            response.wake()
        if response.held > self._limits.held_bytes and not self._reading_paused and self._transport is not None:
            # Back-pressure: a client that reads slowly must not fill our memory with what the upstream sends.
            self._reading_paused = True
            self._transport.pause_reading()

    def on_message_begin(self) -> None:
        """Reject a response without a request."""
        if self._response is None:
            raise UpstreamProtocolError("the provider sent a response without a request")
        self._interim = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; a trailer is counted and dropped (RFC 9110, section 6.5.1, allows that)."""
        self._header_bytes += len(name) + len(value) + _LINE_OVERHEAD
        if self._header_bytes > self._limits.header_bytes:
            raise _too_large(self._limits.header_bytes)
        if not self._status:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Hand out the response; interim ones (1xx) are skipped."""
        response, status = self._response, self._parser.get_status_code()
        if response is None:
            return
        if status < _OK:
            # Interim responses may come before the final one (RFC 9110, section 15.2).
            if status == _SWITCHING:
                raise UpstreamProtocolError(_UPGRADED)
            self._interim = True
            self._headers.clear()
            return
        if status > _LAST:
            raise UpstreamProtocolError(f"invalid status code {status}")
        self._status = status
        headers = tuple(self._headers)
        names = [name for name, _ in headers]
        if b"transfer-encoding" in names:
            # Any other coding would have to be undone before the body can be delimited (RFC 9112, section 6.3).
            if header_values(headers, b"transfer-encoding") not in _CHUNKED:
                raise UpstreamProtocolError("the provider's response has a transfer coding other than chunked")
        else:
            # Without a length or chunks the body ends with the connection (RFC 9112, section 6.3).
            self._until_close = b"content-length" not in names
        self._keep = self._parser.should_keep_alive()
        response.head = UpstreamResponse(status, end_to_end(headers), response)
        response.wake()
        self._resume_sending()
        if self._head_only:
            # The parser cannot be told that no body follows, so this connection cannot be used again.
            self._keep = False
            self._done()

    def on_body(self, body: bytes) -> None:
        """Keep a piece."""
        if self._response is not None:
            self._response.put(body)

    def on_message_complete(self) -> None:
        """End the response."""
        if not self._interim:
            self._done()

    def _done(self) -> None:
        response, self._response = self._response, None
        if response is None:
            return
        response.end()
        self._resume_sending()
        # After an early response the rest of the request was not sent, so the next one would be read as part of it.
        if not self._keep or self._sending or self._transport is None:
            self._drop()
            return
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()
        self._total_by = self._read_by = _NEVER
        self._deadline = self._loop.time() + self._timeouts.idle_s
        self._owner.freed(self)

    def _reject(self, error: UpstreamProtocolError) -> None:
        """Close; a response that was complete before the fault is kept."""
        if self._response is None:
            self._drop()
        else:
            self._fail(error)

    def _fail(self, error: UpstreamError) -> None:
        response, self._response = self._response, None
        self._drop()
        self._resume_sending()
        if response is not None:
            response.end(error)

    def _drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _arm(self) -> None:
        now = self._loop.time()
        if self._armed is not None:
            self._armed.cancel()
        # One timer serves all timeouts: it fires no later than the shortest of them, so a deadline is moved by writing a number,
        # without touching the event loop.
        self._armed = self._loop.call_at(min(self._deadline, now + self._shortest), self._on_timer)

    def _on_timer(self) -> None:
        if self._loop.time() < self._deadline:
            self._arm()
        elif self._response is None:
            self._drop()
        else:
            which = "total" if self._total_by <= self._read_by else "read"
            seconds = self._timeouts.total_s if which == "total" else self._timeouts.read_s
            what = f"the provider took longer than {seconds:g} s ({which} timeout)"
            self._fail(UpstreamTimeoutError(what, which=which, hint=f"see `timeouts.{which}_s`"))


def _too_large(limit: int) -> UpstreamProtocolError:
    return UpstreamProtocolError(
        f"the headers of the provider's response are larger than {limit} bytes", hint="see `limits.header_bytes`"
    )
