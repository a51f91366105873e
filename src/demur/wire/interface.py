"""What every provider shape can do: one file an implementation, each a module with these functions.

Laws: `read_response(write_response(r)) == r` for every response that the shape can express; `open_stream` fed with
`write_stream(r)` closes to the same `r`; readers take decoded JSON (see `plain` for SDK objects) and raise `ShapeError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.exchange import Delta, Request, Response
    from demur.wire.sse import ServerEvent

__all__ = ["Codec", "JsonObject", "StreamReader"]

JsonObject = dict[str, Any]


class StreamReader(Protocol):
    """Builds a response from stream events; knows nothing of sockets."""

    def feed(self, event: ServerEvent) -> tuple[Delta, ...]:
        """Take one event; return the pieces of answer in it."""

    def close(self) -> Response:
        """Return what has arrived; `complete` is False where the stream was cut off."""


class Codec(Protocol):
    """One provider's shape, read and written."""

    def reads_request(self, body: JsonObject) -> bool:
        """Whether the body looks like a request of this shape."""

    def read_request(self, body: JsonObject) -> Request:
        """Return the request."""

    def reads_response(self, body: JsonObject) -> bool:
        """Whether the body looks like a response (or an error body) of this shape."""

    def read_response(self, body: JsonObject, *, status: int = 200) -> Response:
        """Return the response; an HTTP error's body is read as well."""

    def write_response(self, response: Response) -> JsonObject:
        """Return the body that this provider would have answered."""

    def open_stream(self) -> StreamReader:
        """Return a reader for one streamed response."""

    def write_stream(self, response: Response, *, piece_chars: int = 0) -> Iterator[ServerEvent]:
        """Yield the response as stream events; texts are cut every `piece_chars` characters (0: not at all)."""
