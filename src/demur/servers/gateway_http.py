"""What is refused before it is a request at all: bytes that are no HTTP, headers without end, clients that never finish them?

Laws: what the parser refuses (conflicting lengths, broken chunks, bytes that HTTP does not allow) is answered with 400 as JSON
and the connection closed, so that nothing after it is taken for a request; headers have a length and a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from demur.servers.gateway_client import ABORT

if TYPE_CHECKING:
    import asyncio
    from asyncio.events import TimerHandle

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

__all__ = ["gateway_protocol"]

_BAD, _LATE, _LARGE = 400, 408, 431
_SENTENCES = {
    _BAD: ("invalid_http", "The request is not valid HTTP."),
    _LATE: ("headers_late", "The headers of the request did not come in time."),
    _LARGE: ("headers_too_large", "The headers of the request are too large."),
}


class _HeadersTooLargeError(ValueError):
    """The headers are beyond the limit; the parser turns it into its own error."""


class _GatewayProtocol(HttpToolsProtocol):
    """One connection of a client."""

    header_bytes = 64 * 1024
    header_s = 60.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 — uvicorn's own arguments
        super().__init__(*args, **kwargs)
        self._in_head = False
        self._head_bytes = 0
        self._too_large = False
        self._head_timer: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            # The parser gathers a header until it is whole, so that only the raw bytes tell how long it is by now.
            self._head_bytes += len(data)
            if self._head_bytes > self.header_bytes:
                self._refuse(_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: self.transport.abort}  # type: ignore[dict-item]  # one of our own
        self._in_head, self._head_bytes = True, 0
        if self._head_timer is None:
            self._start_timer()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_timer()
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > self.header_bytes:
            self._too_large = True
            raise _HeadersTooLargeError
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 — uvicorn's sentence is plain text
        self._refuse(_LARGE if self._too_large else _BAD)

    def _refuse(self, status: int) -> None:
        self._stop_timer()
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request, whatever uvicorn declares
        if cycle is not None and cycle.response_started and not cycle.response_complete:
            # Another answer is on its way: nothing can be said in its middle.
            self.transport.abort()
            return
        code, sentence = _SENTENCES[status]
        error = {"message": sentence, "type": "invalid_request_error", "param": None, "code": code}
        body = msgspec.json.encode({"error": error})
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()

    def _start_timer(self) -> None:
        self._head_timer = self.loop.call_later(self.header_s, self._too_late)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_late(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self._refuse(_LATE)


def gateway_protocol(*, header_bytes: int, header_s: float) -> type[HttpToolsProtocol]:
    """Return the protocol class for these limits; uvicorn makes one object a connection of it."""
    return type("GatewayProtocol", (_GatewayProtocol,), {"header_bytes": header_bytes, "header_s": header_s})
