"""What does the gateway ask of whoever carries a request to the provider, and what comes back?

Laws: an answer is its status, its headers and a body that is still arriving; hop-by-hop headers (RFC 9110, section
7.6.1) end here, both ways; the client's own `Accept-Encoding` goes on, narrowed to what we can decode only where the
answer must be read; a header can never hold a line break; a redirect is an answer like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from demur.errors import UpstreamProtocolError, UsageError
from demur.http.content_coding import READABLE_CODINGS

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

__all__ = [
    "AnswerBody",
    "Headers",
    "Origin",
    "Upstream",
    "UpstreamAnswer",
    "UpstreamLimits",
    "UpstreamRequest",
    "UpstreamTimeouts",
    "end_to_end",
    "header_values",
    "origin_of",
    "readable_encoding",
    "request_head",
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
_OURS_TO_SET = frozenset((b"host", b"content-length", b"expect"))
_DROPPED_FROM_REQUESTS = _HOP_BY_HOP | _OURS_TO_SET
_WITH_A_BODY = frozenset(("POST", "PUT", "PATCH"))
_DEFAULT_PORTS = {"http": 80, "https": 443}
_SPACES = 3
"""Between method, target and version, and after `host:`."""


class AnswerBody(Protocol):
    """The pieces of an answer, as they arrive; whoever stops before the end closes it, and with it the connection."""

    @property
    def ended(self) -> bool:
        """Whether the whole of it has been handed out, so that nothing more will come."""

    def __aiter__(self) -> AnswerBody:
        """Return itself."""

    async def __anext__(self) -> bytes:
        """Return all that has arrived since the last piece; raise an `UpstreamError` where the rest will not come."""

    async def aclose(self) -> None:
        """Give up what is still to come."""


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """What is to be sent: the target is path and query as they came, the body whole or in pieces.

    `size_bytes` is the length of a body in pieces, None where it is not known.
    """

    method: str
    target: str
    headers: Headers = ()
    body: bytes | AsyncIterable[bytes] = b""
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class UpstreamAnswer:
    """What came back: hop-by-hop headers are gone, the body's bytes are those of the provider, compressed or not."""

    status: int
    headers: Headers
    body: AnswerBody


class Upstream(Protocol):
    """Carries requests to one provider."""

    async def send(self, request: UpstreamRequest) -> UpstreamAnswer:
        """Return the answer as soon as its headers are there; raise an `UpstreamError` where none comes."""

    async def close(self) -> None:
        """Close every connection."""


@dataclass(frozen=True, slots=True)
class UpstreamTimeouts:
    """How long is waited, in seconds, and for what."""

    connect_s: float = 10.0
    """Until a connection stands, its TLS handshake included."""
    read_s: float = 300.0
    """Until the headers are whole, and then between two pieces of the body that somebody waits for."""
    total_s: float = 1800.0
    """From the request until the last byte of the answer."""
    idle_s: float = 30.0
    """How long an unused connection is kept."""


@dataclass(frozen=True, slots=True)
class UpstreamLimits:
    """How much is held at most: bodies are streamed, so that they have no limit."""

    header_bytes: int = 64 * 1024
    """The headers of an answer together, and its trailers."""
    held_bytes: int = 256 * 1024
    """What has arrived and was not yet taken; above it nothing more is read from the provider."""
    idle_connections: int = 100


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a provider is: scheme, host and port, and the path that stands before every target."""

    secure: bool
    host: str
    port: int
    prefix: str = ""
    authority: str = field(init=False)
    """The `Host` header: the port stands where it is not the scheme's own."""

    def __post_init__(self) -> None:
        """Write the authority down once, for every request names it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = _DEFAULT_PORTS["https" if self.secure else "http"]
        object.__setattr__(self, "authority", host if self.port == default else f"{host}:{self.port}")


def origin_of(url: str) -> Origin:
    """Return the origin in a URL; credentials in it are refused, since URLs are logged and shown."""
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


def header_values(headers: Headers, name: bytes) -> list[bytes]:
    """Return the values of a header, by its name in lower case, in their order."""
    return [value for key, value in headers if key == name]


def end_to_end(headers: Headers, *, dropped: frozenset[bytes] = _HOP_BY_HOP) -> Headers:
    """Return the headers that go on: neither hop-by-hop ones nor those that `Connection` names."""
    for name, value in headers:
        if name == b"connection":
            dropped |= {token.strip().lower() for token in value.split(b",")}
    return tuple([pair for pair in headers if pair[0] not in dropped])


def readable_encoding(headers: Headers) -> Headers:
    """Return the headers of a request whose answer must be read: no coding is asked for that we cannot decode.

    A client that names only codings of that kind, or none, is answered without one.
    """
    asked = b",".join(header_values(headers, b"accept-encoding")).decode("latin-1")
    words = [word.strip() for word in asked.split(",")]
    kept = [word for word in words if word.partition(";")[0].strip().lower() in READABLE_CODINGS]
    others = tuple(pair for pair in headers if pair[0] != b"accept-encoding")
    return (*others, (b"accept-encoding", ", ".join(kept or ["identity"]).encode("latin-1")))


def request_head(request: UpstreamRequest, origin: Origin) -> bytes:
    """Return the request line and the headers as they are sent; raise where one of them would break a line."""
    lowered = tuple([(name.lower(), value) for name, value in request.headers])
    kept = end_to_end(lowered, dropped=_DROPPED_FROM_REQUESTS)
    first = f"{request.method} {origin.prefix}{request.target} HTTP/1.1\r\nhost: {origin.authority}"
    lines = [first.encode("latin-1", "replace"), *[name + b": " + value for name, value in kept]]
    length = len(request.body) if isinstance(request.body, bytes) else request.size_bytes
    if length is None:
        lines.append(b"transfer-encoding: chunked")
    elif length or request.method in _WITH_A_BODY:
        lines.append(b"content-length: %d" % length)
    head = b"\r\n".join(lines)
    breaks = len(lines)
    if head.count(b"\n") != breaks or head.count(b"\r") != breaks or lines[0].count(b" ") != _SPACES:
        raise UpstreamProtocolError("a header or the target holds a line break or a space", hint="refuse the request")
    return head + b"\r\n\r\n"
