"""What can be asked of a client's connection, and done with it, without waiting: its body, its end, a whole answer?

Laws: nothing here waits; what ASGI would say or do is said and done, in one step where that takes several and a task; where
it cannot be done at once the caller is told, and takes the way of ASGI. An answer is written by one call, head and body
together; a header that HTTP does not allow is an error of ours, as uvicorn has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import HEADER_RE, HEADER_VALUE_RE, STATUS_LINE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

__all__ = ["RequestLine"]


class RequestLine:
    """A client's connection, as long as one request of it is served; a `ClientLine`."""

    __slots__ = ("_cycle", "_end", "_told_of_end")

    def __init__(self, cycle: RequestResponseCycle, end: Callable[[], None]) -> None:
        """Serve one request; `end` is called when an answer is the last one of its connection."""
        self._cycle, self._end = cycle, end
        self._told_of_end: Callable[[], None] | None = None

    @property
    def is_gone(self) -> bool:
        """Whether the client went away."""
        return self._cycle.disconnected or self._cycle.transport.is_closing()

    def watch(self, told_of_end: Callable[[], None] | None) -> None:
        """Call this when the client goes away, and nobody where it is None."""
        self._told_of_end = told_of_end
        if told_of_end is not None and not self.is_gone:
            # A long body holds reading back, and with it the news that the client has gone.
            self._cycle.flow.resume_reading()

    def end(self) -> None:
        """Take note that the client went away."""
        self._cycle.disconnected = not self._cycle.response_complete
        if self._told_of_end is not None:
            self._told_of_end()

    def would_wait(self) -> bool:
        """Return whether a piece that is sent now would have to wait for the client."""
        return self._cycle.flow.write_paused

    def take_body(self) -> bytes | None:
        """Return the body, None where it is not here to its end; what was taken is not held any longer."""
        cycle = self._cycle
        if cycle.more_body or cycle.disconnected or cycle.waiting_for_100_continue:
            return None
        body, cycle.body = bytes(cycle.body), bytearray()
        cycle.message_event.clear()
        return body

    def answer(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
        """Send a whole answer, its length among its headers; return False where the client has to be waited for."""
        cycle = self._cycle
        if cycle.flow.write_paused or cycle.response_started:
            return False
        if self.is_gone:
            return True
        headers = [*cycle.default_headers, *headers]
        if HEADER_RE.search(b"".join([name for name, _ in headers])):
            raise RuntimeError("an answer has a header name that is none")
        if HEADER_VALUE_RE.search(b"".join([value for _, value in headers])):
            raise RuntimeError("an answer has a header value that is none")
        ends = any(name == b"connection" and b"close" in value.lower() for name, value in headers)
        if ends:
            cycle.keep_alive = False
        elif not cycle.keep_alive:
            headers.append((b"connection", b"close"))
        lines = b"".join([b"%b: %b\r\n" % pair for pair in headers])
        shown = b"" if cycle.scope["method"] == "HEAD" else body
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.transport.write(b"".join((STATUS_LINE[status], lines, b"\r\n", shown)))
        cycle.message_event.set()
        if not cycle.keep_alive:
            self._end()
        cycle.on_response()
        return True

    def cut(self) -> None:
        """Cut the connection off."""
        self._cycle.transport.abort()
