"""What of a client's request goes on to the provider, and how its response arrives.

Path, query, headers and body go on as they came, but for hop-by-hop headers, codings that we could not read, and
credentials: a key of the gateway's own never leaves it. A response is collected only up to its limit, compressed or not.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from demur.errors import InputError, SizeLimitError
from demur.gateway.keys import CREDENTIALS, OWN_KEY
from demur.gateway.settings import KeyHeader
from demur.http.asgi import HttpProblem, plain_path
from demur.http.content_coding import body_decoder
from demur.http.upstream import UpstreamRequest, readable_encoding

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from demur.gateway.settings import RoutePart, UpstreamPart
    from demur.http.asgi import Scope
    from demur.http.pool import HttpPool
    from demur.http.upstream import Headers, UpstreamResponse

__all__ = [
    "RESPONSE_TOO_LARGE",
    "Provider",
    "ResponseReading",
    "coding_of",
    "collect_body",
    "forward_request",
    "is_stream",
]

RESPONSE_TOO_LARGE = HttpProblem(502, "answer_too_large", "The provider's answer is larger than this gateway reads.")
_OK, _REDIRECTED = 200, 300
_CHARSET = re.compile(rb'charset\s*=\s*"?([^";,\s]*)', re.IGNORECASE)
# Charsets in which our bytes for plain letters are theirs; UTF-7 and EBCDIC are none, and hide any phrase.
_LIKE_ASCII = re.compile(rb"|utf-?8|(us-)?ascii|iso-?8859-\d+|latin-?\d|windows-125\d", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider: how it is reached, and the gateway's own key for it, None where the client's goes on."""

    part: UpstreamPart | RoutePart
    pool: HttpPool
    key: str | None = field(repr=False)
    prefix: str = ""
    """What its address puts before every path."""


class ResponseReading(StrEnum):
    """How the response will be read."""

    WHOLE = "whole"
    EVENTS = "events"
    NOT = "not"


def forward_request(
    scope: Scope,
    *,
    provider: Provider,
    has_keys: bool,
    body: bytes | AsyncIterable[bytes] = b"",
    size_bytes: int | None = None,
    reading: ResponseReading = ResponseReading.WHOLE,
) -> UpstreamRequest:
    """Return the request as it goes on; `has_keys` says whether clients have keys of the gateway's own."""
    headers: Headers = scope["headers"]
    # Without a header of its own, the gateway's key is where the provider's would be: it must not go on.
    shows_own = any(name == OWN_KEY for name, _ in headers)
    dropped = {OWN_KEY} | (CREDENTIALS if provider.key or (has_keys and not shows_own) else set())
    if reading is ResponseReading.EVENTS:
        dropped.add(b"accept-encoding")
    kept = tuple(pair for pair in headers if pair[0] not in dropped)
    if provider.key:
        name = provider.part.api_key_header.value.encode()
        if provider.part.api_key_header is KeyHeader.AUTO:
            plain = plain_path(scope["path"])
            named = b"x-api-key" if plain.startswith("/v1/messages") else b"authorization"
            name = b"api-key" if plain.startswith("/openai/") else named
        value = f"Bearer {provider.key}" if name == b"authorization" else provider.key
        kept = (*kept, (name, value.encode("latin-1")))
    if reading is ResponseReading.EVENTS:
        # Events can be held back one by one only where they stand on the wire one by one.
        kept = (*kept, (b"accept-encoding", b"identity"))
    elif reading is ResponseReading.WHOLE:
        kept = readable_encoding(kept)
    query = scope.get("query_string", b"")
    raw = bytes(scope.get("raw_path") or scope["path"].encode("utf-8"))
    # The raw path, not the decoded one: escapes go on as they came.
    target = (raw + b"?" + query if query else raw).decode("latin-1")
    return UpstreamRequest(scope["method"], target, kept, body, size_bytes)


def coding_of(response: UpstreamResponse) -> str:
    """Return the coding of a response, empty where it is plain."""
    found = [value for name, value in response.headers if name == b"content-encoding"]
    if not found:
        return ""
    coding = b",".join(found).decode("latin-1").strip().lower()
    return "" if coding == "identity" else coding


def is_stream(response: UpstreamResponse, *, asked_for: bool) -> bool:
    """Return whether a response is to be read as events: it says so, or it was asked for."""
    if body_decoder(coding_of(response), limit_bytes=1) is None or not _is_like_ascii(response):
        return False
    # A client that asked for a stream takes whatever comes for one, whatever the headers say.
    if asked_for and _OK <= response.status < _REDIRECTED:
        return True
    kinds = (value.strip().lower() for name, value in response.headers if name == b"content-type")
    return any(kind.startswith(b"text/event-stream") for kind in kinds)


async def collect_body(response: UpstreamResponse, *, limit_bytes: int) -> tuple[bytes, bytes | None] | HttpProblem:
    """Return a whole body, as it came and as it reads in UTF-8; None where its coding or charset cannot be read."""
    decoder = body_decoder(coding_of(response), limit_bytes=limit_bytes)
    raw: list[bytes] = []
    decoded: list[bytes] | None = None if decoder is None else []
    size = 0
    async for piece in response.body:
        raw.append(piece)
        size += len(piece)
        try:
            # Decoded as it arrives, so that a small body that unpacks to a huge one is stopped on the way.
            if decoder is not None and decoded is not None:
                decoded.append(decoder.decode(piece))
        except SizeLimitError:
            size = limit_bytes + 1
        except InputError:
            decoded = None
        if size > limit_bytes:
            await response.body.aclose()
            return RESPONSE_TOO_LARGE
    whole = b"".join(raw)
    if decoded is None or not _is_like_ascii(response):
        return whole, None
    plain = b"".join(decoded)
    # JSON in UTF-16 or UTF-32 is read by clients too (RFC 4627, section 3, told how), so it is read here.
    encoding = json.detect_encoding(plain)
    try:
        text = plain.decode(encoding)
    except UnicodeDecodeError:
        return whole, None
    return whole, plain if encoding == "utf-8" else text.encode("utf-8", errors="surrogatepass")


def _is_like_ascii(response: UpstreamResponse) -> bool:
    """Return whether a response names no charset that its text would have to be read by."""
    named = [word for name, value in response.headers if name == b"content-type" for word in _CHARSET.findall(value)]
    return all(_LIKE_ASCII.fullmatch(word) for word in named)
