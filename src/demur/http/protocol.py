"""The HTTP/1.1 server side of one connection: what is rejected before it becomes a request, and fast paths beside ASGI.

Whatever the parser rejects, and whatever it lets through but a server behind us could read differently, is answered with 400 in
the provider's format and the connection is closed, so that nothing after it can be taken for a request (request smuggling).
Headers have a size limit and a time limit.

This is the only file that uses uvicorn's private interfaces (`HttpToolsProtocol`, `RequestResponseCycle`, `STATUS_LINE`), so
`pyproject.toml` bounds uvicorn from above: raise the bound only after the tests of this file pass with the new release.
"""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httptools
from uvicorn.protocols.http.httptools_impl import HEADER_RE, HEADER_VALUE_RE, STATUS_LINE, HttpToolsProtocol

from demur.http.asgi import CONNECTION, HttpProblem, problem_response, shape_for_errors
from demur.model.passport import RejectReason

if TYPE_CHECKING:
    import asyncio
    from asyncio.events import TimerHandle
    from collections.abc import Callable, Sequence

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

__all__ = ["HttpRejection", "RequestConnection", "server_protocol"]


@dataclass(frozen=True, slots=True)
class HttpRejection:
    """Bytes that were rejected before they became a request; `path` is empty if parsing did not get that far.

    `answered` says whether the client was told; it was not if another response was being sent to it.
    """

    reason: RejectReason
    status: int
    method: str
    path: str
    headers: tuple[tuple[bytes, bytes], ...]
    answered: bool


_INVALID = HttpProblem(400, "invalid_http", "The request is not valid HTTP.")
_PROBLEMS = {
    RejectReason.HEADERS_LATE: HttpProblem(408, "headers_late", "The headers of the request did not come in time."),
    RejectReason.HEADERS_TOO_LARGE: HttpProblem(431, "headers_too_large", "The headers of the request are too large."),
}
_VERSIONS = ("1.1", "1.0")
_NEVER = float("inf")
_LINGER_S = 2.0
"""How long a rejected client is read from that had not finished sending."""


class _InvalidHeadError(ValueError):
    """We reject the head of a request; the parser wraps this in its own error."""


class RequestConnection:
    """A client's connection while one of its requests is served; a `ClientConnection`.

    ASGI needs several messages and a task for what is done here in one call. Nothing here waits: if something cannot be done at
    once the caller is told, and goes through ASGI.
    """

    __slots__ = ("_close", "_cycle", "_on_disconnect")

    def __init__(self, cycle: RequestResponseCycle, close: Callable[[], None]) -> None:
        """Serve one request; `close` is called when its response is the last on the connection."""
        self._cycle, self._close = cycle, close
        self._on_disconnect: Callable[[], None] | None = None

    @property
    def is_gone(self) -> bool:
        """Whether the client disconnected."""
        return self._cycle.disconnected or self._cycle.transport.is_closing()

    def watch(self, on_disconnect: Callable[[], None] | None) -> None:
        """Set the disconnect callback; None clears it."""
        self._on_disconnect = on_disconnect
        if on_disconnect is not None and not self.is_gone:
            # Reading is paused after a long body, and without reading the end of the connection goes unnoticed.
            self._cycle.flow.resume_reading()

    def disconnected(self) -> None:
        """Note that the client disconnected."""
        self._cycle.disconnected = not self._cycle.response_complete
        if self._on_disconnect is not None:
            self._on_disconnect()

    def would_wait(self) -> bool:
        """Return whether a piece that is sent now would have to wait for the client."""
        return self._cycle.flow.write_paused

    def take_body(self) -> bytes | None:
        """Return the request's body and release it, None if it has not arrived completely."""
        cycle = self._cycle
        if cycle.more_body or cycle.disconnected or cycle.waiting_for_100_continue:
            return None
        body, cycle.body = bytes(cycle.body), bytearray()
        cycle.message_event.clear()
        return body

    def answer(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
        """Send a complete response, its length among its headers; return False if the client has to be waited for."""
        cycle = self._cycle
        if cycle.flow.write_paused or cycle.response_started:
            return False
        if self.is_gone:
            return True
        headers = [*cycle.default_headers, *headers]
        # One search over all of them; uvicorn checks each by itself and raises the same type.
        if HEADER_RE.search(b"".join([name for name, _ in headers])):
            raise RuntimeError("invalid response header name")
        if HEADER_VALUE_RE.search(b"".join([value for _, value in headers])):
            raise RuntimeError("invalid response header value")
        ends = any(name == b"connection" and b"close" in value.lower() for name, value in headers)
        if ends:
            cycle.keep_alive = False
        elif not cycle.keep_alive:
            headers.append((b"connection", b"close"))
        lines = b"".join([b"%b: %b\r\n" % pair for pair in headers])
        shown = b"" if cycle.scope["method"] == "HEAD" else body
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        # Head and body in one write: one system call, and one packet for a small response.
        cycle.transport.write(b"".join((STATUS_LINE[status], lines, b"\r\n", shown)))
        cycle.message_event.set()
        if not cycle.keep_alive:
            self._close()
        cycle.on_response()
        return True

    def cut(self) -> None:
        """Close the connection at once."""
        self._cycle.transport.abort()


class _ServerProtocol(HttpToolsProtocol):
    """One connection of a client."""

    header_bytes = 64 * 1024
    header_s = 60.0
    close_unfinished = False
    on_rejection: Callable[[HttpRejection], None] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 — uvicorn's own arguments
        super().__init__(*args, **kwargs)
        self.url = b""
        self._in_head = self._offers_upgrade = self._lingers = False
        self._head_bytes = 0
        self._invalid_head: RejectReason | None = None
        self._timer: TimerHandle | None = None
        self._deadline = _NEVER
        self._unsent = 0
        self._served: deque[RequestConnection] = deque()
        self._pending_rejection: RejectReason | None = None
        self._ended_here = self._counts = False
        self._data = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self._expect_by(self.loop.time() + self.header_s)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        super().connection_lost(exc)
        for connection in self._served:
            connection.disconnected()

    def shutdown(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request, whatever uvicorn declares
        if self.close_unfinished and cycle is not None and cycle.more_body and not cycle.response_complete:
            # Uvicorn would wait until the end of its grace period for a body that may never come.
            self.transport.close()
        else:
            super().shutdown()

    def data_received(self, data: bytes) -> None:
        if self._pending_rejection is not None:
            return
        self._data, self._ended_here = data, False
        was_in_head = self._in_head
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            if not was_in_head and self.cycle is not None:
                self._expect_by(self.loop.time() + self.header_s)
            # The parser reports a header only once it is complete, so only the raw bytes tell how long it is so far; those of
            # the previous request in the same packet do not count.
            self._head_bytes += len(data) if self._counts else 0
            self._counts = True
            if self._head_bytes > self.header_bytes:
                self._reject(RejectReason.HEADERS_TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes, self._counts = True, 0, not self._ended_here

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._deadline, self._unsent = _NEVER, 0
        self._invalid_head = self._check_head()
        if self._invalid_head is not None:
            raise _InvalidHeadError
        self._offers_upgrade = self.parser.should_upgrade()
        # Anything after the last request of a connection is not served.
        if not self._offers_upgrade and not self.transport.is_closing():
            super().on_headers_complete()
            connection = RequestConnection(self.cycle, self._close_in_order)
            self._served.append(connection)
            self.scope["extensions"] = {CONNECTION: connection}  # type: ignore[dict-item]  # our own

    def on_response_complete(self) -> None:
        self._served.popleft()
        if self._pending_rejection is not None and not self._has_unanswered():
            self.pipeline.clear()
            self._answer_rejection(self._pending_rejection)
            return
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            if self.transport.is_closing() and not self._lingers:
                self._expect_progress()
            return
        # As uvicorn does it, but for its timer, which it creates and cancels for each request.
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        if not self._in_head and not self._lingers:
            self._expect_progress()

    def on_message_complete(self) -> None:
        self._ended_here = True
        if self._lingers:
            self.transport.close()
        elif not self._offers_upgrade:
            super().on_message_complete()
            # What follows is another request, even if it never becomes one.
            self.url = b""

    def _check_head(self) -> RejectReason | None:
        """Return what is wrong with a head that the parser let through."""
        hosts, size = 0, len(self.url)
        for name, value in self.headers:
            size += len(name) + len(value)
            hosts += name == b"host"
            if name == b"transfer-encoding" and value.strip().lower() != b"chunked":
                # A second coding would reach the provider without its name.
                return RejectReason.LENGTH
        if size > self.header_bytes:
            return RejectReason.HEADERS_TOO_LARGE
        version = self.parser.get_http_version()
        if version not in _VERSIONS or not self.url.startswith((b"/", b"http://", b"https://")):
            return RejectReason.REQUEST_LINE
        if version == _VERSIONS[0]:
            # Exactly one Host header: RFC 9112, section 3.2.
            return None if hosts == 1 else RejectReason.HOST
        chunked = any(name == b"transfer-encoding" for name, _ in self.headers)
        # HTTP/1.0 has no chunks: an intermediary may take them for the next request (RFC 9112, section 6.1).
        return RejectReason.LENGTH if chunked else RejectReason.HOST if hosts > 1 else None

    def _unsupported_upgrade_warning(self) -> None:
        """Serve a request that offers an upgrade as if it did not (RFC 9110, section 7.8): the parser would drop its body."""
        taken = getattr(sys.exception(), "args", (len(self._data),))[0]
        if self.parser.get_method() == b"CONNECT":
            self._reject(RejectReason.REQUEST_LINE)
            return
        kept = [(name, value) for name, value in self.headers if name not in (b"upgrade", b"connection")]
        head = b"%s %s HTTP/%s\r\n" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        lines = b"".join(b"%s: %s\r\n" % pair for pair in kept)
        self.parser = httptools.HttpRequestParser(self)
        super().data_received(head + lines + b"\r\n" + self._data[taken:])

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 — uvicorn's sentence is plain text
        reason = self._invalid_head
        if reason is None:
            error = sys.exception()
            # The parser has few error classes; its message names the place.
            said = str(error).lower()
            if isinstance(error, httptools.HttpParserInvalidMethodError | httptools.HttpParserInvalidURLError):
                reason = RejectReason.REQUEST_LINE
            elif "chunk" in said:
                reason = RejectReason.CHUNK
            elif "content-length" in said or "transfer-encoding" in said:
                reason = RejectReason.LENGTH
            else:
                reason = RejectReason.HEADER if "header" in said else RejectReason.REQUEST_LINE
        self._reject(reason)

    def _close_in_order(self) -> None:
        """Close the connection; a client that is still sending can read its response first."""
        if self.cycle.more_body and self.transport.can_write_eof():
            # A socket that is closed with bytes unread is reset, and the client loses the response that says why.
            self._lingers = True
            self.transport.write_eof()
            self.flow.resume_reading()
            self._expect_by(self.loop.time() + _LINGER_S)
        else:
            self.transport.close()
            self._expect_progress()

    def _reject(self, reason: RejectReason) -> None:
        """Reject what came, once the requests before it are answered: responses must be in order (RFC 9112, section 9.3.2)."""
        self._deadline = _NEVER
        if self._lingers:
            self.transport.close()
        elif self._has_unanswered():
            self._pending_rejection = reason
        else:
            self._answer_rejection(reason)

    def _has_unanswered(self) -> bool:
        """Return whether requests before the rejected one are not answered yet."""
        # The rejected one is among them if its body is at fault, not its head.
        begun = self._served and self.cycle.more_body
        return len(self._served) > (1 if begun else 0)

    def _answer_rejection(self, reason: RejectReason) -> None:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request, whatever uvicorn declares
        problem = _PROBLEMS.get(reason, _INVALID)
        path = self.url.partition(b"?")[0].decode("latin-1")
        busy = cycle is not None and cycle.response_started and not cycle.response_complete
        if busy:
            # Another response is being sent: nothing can be said in the middle of it.
            self.transport.abort()
        else:
            response = problem_response(problem, shape_for_errors(path))
            head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            if not self.transport.is_closing():
                self.transport.write(STATUS_LINE[problem.status] + head % len(response.body) + response.body)
            self.transport.close()
            self._expect_progress()
        if self.on_rejection is not None:
            method = (self.parser.get_method() or b"").decode("latin-1") if self.url else ""
            headers = tuple(self.headers or ())
            self.on_rejection(HttpRejection(reason, problem.status, method, path, headers, answered=not busy))

    def _expect_by(self, deadline: float) -> None:
        """Expect something by then."""
        self._deadline = deadline
        # A timer that fires earlier is left alone and checks the deadline again: moving it for each request would cost more.
        if self._timer is not None and self._timer.when() > deadline:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self.loop.call_at(deadline, self._on_timer)

    def _expect_progress(self) -> None:
        """Expect the client to read what was sent, and then to send another request."""
        self._unsent = self.transport.get_write_buffer_size()
        wait_s = self.header_s if self._unsent else self.timeout_keep_alive
        self._expect_by(self.loop.time() + wait_s)

    def _on_timer(self) -> None:
        self._timer = None
        if self._deadline == _NEVER:
            return
        if self.loop.time() < self._deadline:
            self._expect_by(self._deadline)
        elif self._unsent:
            # A client that reads at all may take its time: the response is in memory already, and shrinks.
            if self.transport.get_write_buffer_size() < self._unsent:
                self._expect_progress()
            else:
                self.transport.abort()
        elif not self.transport.is_closing():
            if self._in_head or self.cycle is None:
                self._reject(RejectReason.HEADERS_LATE)
            else:
                self.transport.close()


def server_protocol(
    *,
    header_bytes: int,
    header_s: float,
    rejected: Callable[[HttpRejection], None] | None = None,
    close_unfinished: bool = False,
) -> type[HttpToolsProtocol]:
    """Return the protocol class for these limits; uvicorn creates one object of it per connection.

    `close_unfinished` closes requests at shutdown that have not been received completely.
    """
    fields = {
        "header_bytes": header_bytes,
        "header_s": header_s,
        "on_rejection": None if rejected is None else staticmethod(rejected),
        "close_unfinished": close_unfinished,
    }
    return type("ServerProtocol", (_ServerProtocol,), fields)
