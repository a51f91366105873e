"""What of a client's request goes on to the provider, and what of the provider's answer comes back?

Laws: path, query, headers and body go on as they came, but for the hop between (see `adapters.upstream`), the codings that we
could not read, and credentials: a key of the gateway's own never leaves it, and the provider's key replaces the client's
where the settings name one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from demur.gateway.keys import presented_key
from demur.gateway.settings import KeyHeader
from demur.http.paths import plain_path
from demur.http.upstream import UpstreamRequest, readable_encoding

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from demur.gateway.keys import ClientKey, ClientKeys
    from demur.gateway.worker import Provider
    from demur.http.asgi import Scope
    from demur.http.upstream import Headers

__all__ = ["OWN_KEY", "AnswerReading", "client_of", "credential_of", "forwarded", "headers_of"]

OWN_KEY = b"x-demur-key"
"""Where a client shows the gateway's key if `Authorization` holds the provider's."""
_CREDENTIALS = frozenset((b"authorization", b"x-api-key", b"api-key"))


class AnswerReading(StrEnum):
    """How the answer will be read."""

    WHOLE = "whole"
    EVENTS = "events"
    NOT = "not"


def headers_of(scope: Scope) -> Headers:
    """Return the headers of a request."""
    return tuple((bytes(name), bytes(value)) for name, value in scope["headers"])


def credential_of(headers: Headers) -> bytes:
    """Return what a client is known by: the key that it shows, whosever it is."""
    return next((value for name, value in headers if name == OWN_KEY or name in _CREDENTIALS), b"")


def client_of(headers: Headers, ring: ClientKeys) -> ClientKey | None:
    """Return the client who shows a key of the gateway's, None where nobody who may ask does."""
    own = next((value.decode("latin-1").strip() for name, value in headers if name == OWN_KEY), None)
    return ring.find(own) if own is not None else ring.find(presented_key(headers))


def forwarded(
    scope: Scope,
    headers: Headers,
    *,
    provider: Provider,
    has_ring: bool,
    body: bytes | AsyncIterable[bytes] = b"",
    size_bytes: int | None = None,
    reading: AnswerReading = AnswerReading.WHOLE,
) -> UpstreamRequest:
    """Return the request as it goes on."""
    kept = _with_credentials(headers, provider, path=scope["path"], has_ring=has_ring)
    if reading is AnswerReading.EVENTS:
        # Events can be held back one by one only where they stand on the wire one by one.
        kept = (*(pair for pair in kept if pair[0] != b"accept-encoding"), (b"accept-encoding", b"identity"))
    elif reading is AnswerReading.WHOLE:
        kept = readable_encoding(kept)
    query = scope.get("query_string", b"")
    raw = bytes(scope.get("raw_path") or scope["path"].encode("utf-8"))
    target = (raw + b"?" + query if query else raw).decode("latin-1")
    return UpstreamRequest(scope["method"], target, kept, body, size_bytes)


def _with_credentials(headers: Headers, provider: Provider, *, path: str, has_ring: bool) -> Headers:
    shows_own = any(name == OWN_KEY for name, _ in headers)
    # Without a header of its own, the gateway's key stands where the provider's would: it must not go on.
    dropped = {OWN_KEY} | (_CREDENTIALS if provider.key or (has_ring and not shows_own) else set())
    kept = tuple(pair for pair in headers if pair[0] not in dropped)
    if not provider.key:
        return kept
    name = _key_header(provider, path)
    value = f"Bearer {provider.key}" if name == b"authorization" else provider.key
    return (*kept, (name, value.encode("latin-1")))


def _key_header(provider: Provider, path: str) -> bytes:
    if provider.part.api_key_header is not KeyHeader.AUTO:
        return provider.part.api_key_header.value.encode()
    plain = plain_path(path)
    if plain.startswith("/openai/"):
        return b"api-key"
    return b"x-api-key" if plain.startswith("/v1/messages") else b"authorization"
