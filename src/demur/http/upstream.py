"""What is sent to an upstream server (a provider, an auditor, a judge) and what comes back; no sockets here.

A response is its status, its headers and a body that is still arriving. Hop-by-hop headers (RFC 9110, section 7.6.1) end here in
both directions. A redirect is a response like any other.
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

from demur.errors import UpstreamCutError, UpstreamProtocolError, UsageError
from demur.http.content_coding import READABLE_CODINGS

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from demur.errors import UpstreamError

__all__ = [
    "ArrivingBody",
    "Headers",
    "Origin",
    "ResponseBody",
    "ResponseSource",
    "Upstream",
    "UpstreamLimits",
    "UpstreamRequest",
    "UpstreamResponse",
    "UpstreamTimeouts",
    "end_to_end",
    "header_values",
    "origin_of",
    "readable_encoding",
    "request_head",
    "split_credentials",
]

Headers = tuple[tuple[bytes, bytes], ...]
"""Names in lower case and values, as they came, in their order."""

_HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
    )
)
# The length of what we send and the host are ours to say, and we never wait for `100 Continue`.
_OURS_TO_SET = frozenset((b"host", b"content-length", b"expect"))
_DROPPED_FROM_REQUESTS = _HOP_BY_HOP | _OURS_TO_SET
_WITH_A_BODY = frozenset(("POST", "PUT", "PATCH"))
_DEFAULT_PORTS = {"http": 80, "https": 443}
_SPACES = 3  # between method, target and version, and after `host:`


class ResponseBody(Protocol):
    """The pieces of a response as they arrive; whoever stops before the end must close it, which closes the connection."""

    @property
    def ended(self) -> bool:
        """Whether all of it has been handed out, so that nothing more will come."""

    def __aiter__(self) -> ResponseBody:
        """Return itself."""

    async def __anext__(self) -> bytes:
        """Return all that has arrived since the last piece; raise an `UpstreamError` if the rest will not come."""

    async def aclose(self) -> None:
        """Abandon what is still to come."""


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """What is to be sent: the target is path and query as they came, the body complete or in pieces.

    `size_bytes` is the length of a body in pieces, None if it is not known.
    """

    method: str
    target: str
    headers: Headers = ()
    body: bytes | AsyncIterable[bytes] = b""
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class UpstreamResponse:
    """What came back: without hop-by-hop headers; the body is as the upstream sent it, compressed or not."""

    status: int
    headers: Headers
    body: ResponseBody


class ResponseSource(Protocol):
    """The connection that a response comes from."""

    def start_read_timer(self) -> asyncio.Future[None]:
        """Return a future for the next arrival; from now on the upstream's silence counts as a read timeout."""

    def stop_read_timer(self) -> None:
        """Stop counting the silence."""

    def resume(self) -> None:
        """Read on."""

    def abandon(self) -> None:
        """Close, whatever is still to come."""


class ArrivingBody:
    """The body of one response: what has arrived and was not yet taken, and who waits for more; a `ResponseBody`."""

    __slots__ = ("_error", "_pieces", "_source", "_waiter", "complete", "head", "held")

    def __init__(self, source: ResponseSource) -> None:
        self._source: ResponseSource | None = source
        self._pieces: list[bytes] = []
        self._waiter: asyncio.Future[None] | None = None
        self._error: UpstreamError | None = None
        self.held = 0
        self.complete = False
        self.head: UpstreamResponse | None = None

    @property
    def ended(self) -> bool:
        """Whether all of it has arrived and was taken."""
        return self.complete and not self._pieces

    def __aiter__(self) -> ArrivingBody:
        """Return itself."""
        return self

    async def __anext__(self) -> bytes:
        """Return what has arrived since the last piece, joined."""
        while not self._pieces:
            if self.complete:
                raise StopAsyncIteration
            await self.wait()
        piece = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self.held = 0
        if self._source is not None:
            self._source.resume()
        return piece

    async def aclose(self) -> None:
        """Abandon what is still to come, and the connection with it."""
        self._pieces.clear()
        self.held = 0
        if self._source is not None:
            self._source.abandon()

    async def wait(self) -> None:
        """Wait until something has arrived; raise if the rest will not come."""
        if self._error is not None:
            raise self._error
        if self._source is None:
            raise UpstreamCutError("the response was abandoned", received=True)
        self._waiter = self._source.start_read_timer()
        try:
            await self._waiter
        except asyncio.CancelledError:
            # The rest would be read as the next response, so the connection goes too.
            await self.aclose()
            raise
        finally:
            self._waiter = None
        if self._source is not None:
            self._source.stop_read_timer()

    def put(self, piece: bytes) -> None:
        """Add a piece."""
        self._pieces.append(piece)
        self.held += len(piece)

    def wake(self) -> None:
        """Wake whoever waits."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def end(self, error: UpstreamError | None = None) -> None:
        """Note that no more will come; what has arrived can still be taken before the error is raised."""
        self._source = None
        self._error = error
        self.complete = error is None
        self.wake()


class Upstream(Protocol):
    """Sends requests to one upstream server."""

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        """Return the response as soon as its headers are there; raise an `UpstreamError` if none comes."""

    async def close(self) -> None:
        """Close every connection."""


@dataclass(frozen=True, slots=True)
class UpstreamTimeouts:
    """How long to wait, in seconds, and for what."""

    connect_s: float = 10.0
    """Until a connection is open, with its TLS handshake."""
    read_s: float = 300.0
    """Until the headers are complete, and then between two pieces of the body that somebody waits for."""
    total_s: float = 1800.0
    """From the request until the last byte of the response."""
    idle_s: float = 30.0
    """How long an unused connection is kept."""


@dataclass(frozen=True, slots=True)
class UpstreamLimits:
    """How much is held in memory; bodies are streamed, so they have no limit of their own."""

    header_bytes: int = 64 * 1024
    """All headers of a response, with its trailers."""
    held_bytes: int = 256 * 1024
    """What has arrived and was not yet taken; above it nothing more is read from the socket."""
    idle_connections: int = 100


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an upstream is: scheme, host and port, and the path prefix of every target."""

    secure: bool
    host: str
    port: int
    prefix: str = ""
    authority: str = field(init=False)
    """The `Host` header: with the port unless it is the scheme's default."""

    def __post_init__(self) -> None:
        """Build the authority once, since every request names it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = _DEFAULT_PORTS["https" if self.secure else "http"]
        object.__setattr__(self, "authority", host if self.port == default else f"{host}:{self.port}")


def origin_of(url: str) -> Origin:
    """Return the origin of a URL; one with credentials is rejected, since URLs are logged and shown."""
    hint = "give a URL such as https://api.openai.com"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as exc:
        raise UsageError("the upstream URL cannot be read", hint=hint) from exc
    if parts.username is not None or parts.password is not None:
        raise UsageError("the upstream URL holds credentials", hint="name the variable that holds the key instead")
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise UsageError(f"`{url}` is no upstream URL", hint=hint)
    if parts.query or parts.fragment:
        raise UsageError(f"`{url}` has more than a path", hint=hint)
    prefix = parts.path.rstrip("/")
    return Origin(parts.scheme == "https", parts.hostname, port or _DEFAULT_PORTS[parts.scheme], prefix)


def split_credentials(url: str) -> tuple[str, bytes]:
    """Return a URL without the credentials in it, and those as the value of an `Authorization` header (empty if none)."""
    scheme, separator, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    given, at, host = authority.rpartition("@")
    if not at:
        return url, b""
    name, _, password = given.partition(":")
    # RFC 7617: the two are joined by a colon before they are encoded.
    token = base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode())
    return f"{scheme}{separator}{host}{slash}{path}", b"Basic " + token


def header_values(headers: Headers, name: bytes) -> list[bytes]:
    """Return the values of a header, by its name in lower case, in their order."""
    return [value for key, value in headers if key == name]


def end_to_end(headers: Headers, *, dropped: frozenset[bytes] = _HOP_BY_HOP) -> Headers:
    """Return the end-to-end headers: neither hop-by-hop ones nor those that `Connection` names."""
    for name, value in headers:
        if name == b"connection":
            dropped |= {token.strip().lower() for token in value.split(b",")}
    return tuple([pair for pair in headers if pair[0] not in dropped])


def readable_encoding(headers: Headers) -> Headers:
    """Return the headers of a request whose response must be read: `Accept-Encoding` names only codings that we can decode."""
    asked = b",".join(header_values(headers, b"accept-encoding")).decode("latin-1")
    words = [word.strip() for word in asked.split(",")]
    kept = [word for word in words if word.partition(";")[0].strip().lower() in READABLE_CODINGS]
    others = tuple(pair for pair in headers if pair[0] != b"accept-encoding")
    # Without the header any coding would be acceptable (RFC 9110, section 12.5.3), so one is always sent.
    return (*others, (b"accept-encoding", ", ".join(kept or ["identity"]).encode("latin-1")))


def request_head(request: UpstreamRequest, origin: Origin) -> bytes:
    """Return the request line and the headers as they are sent; raise if one of them would break a line."""
    lowered = tuple([(name.lower(), value) for name, value in request.headers])
    kept = end_to_end(lowered, dropped=_DROPPED_FROM_REQUESTS)
    first = f"{request.method} {origin.prefix}{request.target} HTTP/1.1\r\nhost: {origin.authority}"
    lines = [first.encode("latin-1", "replace"), *[name + b": " + value for name, value in kept]]
    length = len(request.body) if isinstance(request.body, bytes) else request.size_bytes
    # A request with a body has a length or chunks (RFC 9112, section 6.3), and an empty POST says so too.
    if length is None:
        lines.append(b"transfer-encoding: chunked")
    elif length or request.method in _WITH_A_BODY:
        lines.append(b"content-length: %d" % length)
    head = b"\r\n".join(lines)
    # Counting line breaks catches header injection in any of them without looking at each.
    breaks = len(lines)
    if head.count(b"\n") != breaks or head.count(b"\r") != breaks or lines[0].count(b" ") != _SPACES:
        raise UpstreamProtocolError("a header or the target holds a line break or a space", hint="refuse the request")
    return head + b"\r\n\r\n"
