"""What is refused before it is a request at all: bytes that are no HTTP, headers without end, clients that never finish them?

Laws: what the parser refuses (conflicting lengths, broken chunks, bytes that HTTP does not allow), and what it lets through but a
server behind us could read otherwise (no host or two, a coding besides chunks, another version), is answered with 400, in the
provider's shape where the path is known, and the connection closed, so that nothing after it is taken for a request; headers
have a length and a time; whoever asked to be told is told of each, by its kind; an upgrade that is offered is not taken, and
its request is served.
"""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from demur.http.client import LINE
from demur.http.paths import shape_for_errors
from demur.http.problem import HttpProblem, problem_response
from demur.http.request_line import RequestLine
from demur.model.passport import RejectReason

if TYPE_CHECKING:
    import asyncio
    from asyncio.events import TimerHandle
    from collections.abc import Callable

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

__all__ = ["HttpRejection", "gateway_protocol"]


@dataclass(frozen=True, slots=True)
class HttpRejection:
    """A request that was refused before it was one; `path` is empty where it was not read that far.

    `answered` says whether the client heard of it; where it did not, another answer was on its way to it.
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
"""How long is listened to a client that was refused before it had sent all."""


class _UnsoundHeadError(ValueError):
    """The head of a request is refused by us; the parser turns it into its own error."""


class _GatewayProtocol(HttpToolsProtocol):
    """One connection of a client."""

    header_bytes = 64 * 1024
    header_s = 60.0
    rejected: Callable[[HttpRejection], None] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 — uvicorn's own arguments
        super().__init__(*args, **kwargs)
        self.url = b""
        self._in_head = self._offers_upgrade = self._lingers = False
        self._head_bytes = 0
        self._unsound: RejectReason | None = None
        self._timer: TimerHandle | None = None
        self._deadline = _NEVER
        self._unsent = 0
        self._lines: deque[RequestLine] = deque()
        self._refusal: RejectReason | None = None
        self._ended_here = self._counts = False
        self._data = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self._await_until(self.loop.time() + self.header_s)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        super().connection_lost(exc)
        for line in self._lines:
            line.end()

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return
        self._data, self._ended_here = data, False
        was_in_head = self._in_head
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            if not was_in_head and self.cycle is not None:
                self._await_until(self.loop.time() + self.header_s)
            # The parser gathers a header until it is whole, so that only the raw bytes tell how long it is by now; those of the
            # request before it are no part of it.
            self._head_bytes += len(data) if self._counts else 0
            self._counts = True
            if self._head_bytes > self.header_bytes:
                self._refuse(RejectReason.HEADERS_TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes, self._counts = True, 0, not self._ended_here

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._deadline, self._unsent = _NEVER, 0
        self._unsound = self._found_in_head()
        if self._unsound is not None:
            raise _UnsoundHeadError
        self._offers_upgrade = self.parser.should_upgrade()
        # What stands behind the last request of a connection is not served.
        if not self._offers_upgrade and not self.transport.is_closing():
            super().on_headers_complete()
            line = RequestLine(self.cycle, self._end)
            self._lines.append(line)
            self.scope["extensions"] = {LINE: line}  # type: ignore[dict-item]  # our own

    def on_response_complete(self) -> None:
        self._lines.popleft()
        if self._refusal is not None and not self._waits_for_others():
            self.pipeline.clear()
            self._say_refusal(self._refusal)
            return
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            if self.transport.is_closing() and not self._lingers:
                self._await_taking()
            return
        # As uvicorn's own, but for its timer, which is made and thrown away for each request.
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        if not self._in_head and not self._lingers:
            self._await_taking()

    def on_message_complete(self) -> None:
        self._ended_here = True
        if self._lingers:
            self.transport.close()
        elif not self._offers_upgrade:
            super().on_message_complete()
            # What comes next is another request, even if it never becomes one.
            self.url = b""

    def _found_in_head(self) -> RejectReason | None:
        """Return what is wrong with a head that the parser let through."""
        hosts, size = 0, len(self.url)
        for name, value in self.headers:
            size += len(name) + len(value)
            hosts += name == b"host"
            if name == b"transfer-encoding" and value.strip().lower() != b"chunked":
                # A second coding would go on to the provider without its name.
                return RejectReason.LENGTH
        if size > self.header_bytes:
            return RejectReason.HEADERS_TOO_LARGE
        version = self.parser.get_http_version()
        if version not in _VERSIONS or not self.url.startswith((b"/", b"http://", b"https://")):
            return RejectReason.REQUEST_LINE
        if version == _VERSIONS[0]:
            return None if hosts == 1 else RejectReason.HOST
        chunked = any(name == b"transfer-encoding" for name, _ in self.headers)
        # HTTP/1.0 knows no chunks: who is in between may take them for the next request (RFC 9112, 6.1).
        return RejectReason.LENGTH if chunked else RejectReason.HOST if hosts > 1 else None

    def _unsupported_upgrade_warning(self) -> None:
        """Serve a request that offers an upgrade as if it did not, which HTTP allows: the parser would drop its body."""
        taken = getattr(sys.exception(), "args", (len(self._data),))[0]
        if self.parser.get_method() == b"CONNECT":
            self._refuse(RejectReason.REQUEST_LINE)
            return
        kept = [(name, value) for name, value in self.headers if name not in (b"upgrade", b"connection")]
        head = b"%s %s HTTP/%s\r\n" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        lines = b"".join(b"%s: %s\r\n" % pair for pair in kept)
        self.parser = httptools.HttpRequestParser(self)
        super().data_received(head + lines + b"\r\n" + self._data[taken:])

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 — uvicorn's sentence is plain text
        self._refuse(self._unsound or _reason_of(sys.exception()))

    def _end(self) -> None:
        """Close the connection; where the client is still sending, it hears its answer out first.

        A socket that is closed with bytes unread is reset, and the answer that says why is lost on the client's side.
        """
        if self.cycle.more_body and self.transport.can_write_eof():
            self._lingers = True
            self.transport.write_eof()
            self.flow.resume_reading()
            self._await_until(self.loop.time() + _LINGER_S)
        else:
            self.transport.close()
            self._await_taking()

    def _refuse(self, reason: RejectReason) -> None:
        """Refuse what came, once the requests before it are answered."""
        self._deadline = _NEVER
        if self._lingers:
            self.transport.close()
        elif self._waits_for_others():
            self._refusal = reason
        else:
            self._say_refusal(reason)

    def _waits_for_others(self) -> bool:
        """Return whether requests before the one that is refused are not answered yet; its body, or its head, is at fault."""
        begun = self._lines and self.cycle.more_body
        return len(self._lines) > (1 if begun else 0)

    def _say_refusal(self, reason: RejectReason) -> None:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request, whatever uvicorn declares
        problem = _PROBLEMS.get(reason, _INVALID)
        busy = cycle is not None and cycle.response_started and not cycle.response_complete
        if busy:
            # Another answer is on its way: nothing can be said in its middle.
            self.transport.abort()
        else:
            answer = problem_response(problem, shape_for_errors(self._path()))
            head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            if not self.transport.is_closing():
                self.transport.write(STATUS_LINE[problem.status] + head % len(answer.body) + answer.body)
            self.transport.close()
            self._await_taking()
        if self.rejected is not None:
            self.rejected(self._rejection(reason, problem.status, answered=not busy))

    def _rejection(self, reason: RejectReason, status: int, *, answered: bool) -> HttpRejection:
        method = (self.parser.get_method() or b"").decode("latin-1") if self.url else ""
        return HttpRejection(reason, status, method, self._path(), tuple(self.headers or ()), answered)

    def _path(self) -> str:
        return self.url.partition(b"?")[0].decode("latin-1")

    def _await_until(self, deadline: float) -> None:
        """Expect something by then; the timer that runs already is left to run, and looks again when it has run out."""
        self._deadline = deadline
        if self._timer is not None and self._timer.when() > deadline:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self.loop.call_at(deadline, self._look_at_the_time)

    def _await_taking(self) -> None:
        """Expect the client to take what was sent, and then to ask again."""
        self._unsent = self.transport.get_write_buffer_size()
        patience_s = self.header_s if self._unsent else self.timeout_keep_alive
        self._await_until(self.loop.time() + patience_s)

    def _look_at_the_time(self) -> None:
        self._timer = None
        if self._deadline == _NEVER:
            return
        if self.loop.time() < self._deadline:
            self._await_until(self._deadline)
        elif self._unsent:
            # Whoever takes anything at all may take its time: the answer is in memory, and leaves it.
            if self.transport.get_write_buffer_size() < self._unsent:
                self._await_taking()
            else:
                self.transport.abort()
        elif not self.transport.is_closing():
            if self._in_head or self.cycle is None:
                self._refuse(RejectReason.HEADERS_LATE)
            else:
                self.transport.close()


def _reason_of(error: BaseException | None) -> RejectReason:
    """Return the kind of a parser's error, by its words: it has few classes, and the words name the place."""
    if isinstance(error, httptools.HttpParserInvalidMethodError | httptools.HttpParserInvalidURLError):
        return RejectReason.REQUEST_LINE
    said = str(error).lower()
    if "chunk" in said:
        return RejectReason.CHUNK
    if "content-length" in said or "transfer-encoding" in said:
        return RejectReason.LENGTH
    return RejectReason.HEADER if "header" in said else RejectReason.REQUEST_LINE


def gateway_protocol(
    *, header_bytes: int, header_s: float, rejected: Callable[[HttpRejection], None] | None = None
) -> type[HttpToolsProtocol]:
    """Return the protocol class for these limits; uvicorn makes one object a connection of it."""
    told = None if rejected is None else staticmethod(rejected)
    fields = {"header_bytes": header_bytes, "header_s": header_s, "rejected": told}
    return type("GatewayProtocol", (_GatewayProtocol,), fields)
