"""What of a client's request goes on to the provider, how its response arrives, and how unread requests pass.

Path, query, headers and body go on as they came, but for hop-by-hop headers, codings that we could not read, and
credentials: a key of the gateway's own never leaves it. A response is collected only up to its limit, compressed or not.
"""

from __future__ import annotations

import asyncio
import json
import re
from enum import StrEnum
from typing import TYPE_CHECKING

from demur.errors import InputError, SizeLimitError, UpstreamError, UpstreamTimeoutError
from demur.gateway.request import CREDENTIALS, OWN_KEY
from demur.gateway.settings import KeyHeader
from demur.http.asgi import ClientGoneError, HttpProblem, header, problem_response
from demur.http.client import ClientWatch
from demur.http.content_coding import body_decoder
from demur.http.paths import plain_path, shape_for_errors
from demur.http.upstream import UpstreamRequest, readable_encoding
from demur.io.log import LogEvent, log_event

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator

    from demur.gateway.worker import Provider, Worker
    from demur.http.asgi import Receive, Scope
    from demur.http.client import TimedSender
    from demur.http.upstream import Headers, UpstreamResponse

__all__ = [
    "RESPONSE_TOO_LARGE",
    "ResponseReading",
    "coding_of",
    "collect_body",
    "forward_request",
    "is_stream",
    "pass_unread",
]

RESPONSE_TOO_LARGE = HttpProblem(502, "answer_too_large", "The provider's answer is larger than this gateway reads.")
_OK, _REDIRECTED = 200, 300
_CHARSET = re.compile(rb'charset\s*=\s*"?([^";,\s]*)', re.IGNORECASE)
# Charsets in which our bytes for plain letters are theirs; UTF-7 and EBCDIC are none, and hide any phrase.
_LIKE_ASCII = re.compile(rb"|utf-?8|(us-)?ascii|iso-?8859-\d+|latin-?\d|windows-125\d", re.IGNORECASE)
_PASSED = "passed"
_CLOSE = ((b"connection", b"close"),)
_TOO_LARGE = HttpProblem(413, "request_too_large", "The body is too large.", headers=_CLOSE)
_TOO_SLOW = HttpProblem(408, "request_timeout", "The request did not come in time.", headers=_CLOSE)


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


class _TooLongError(UpstreamError):
    """The client's body is beyond the limit; raised where the upstream takes it."""

    fault = "protocol"


class _TooSlowError(UpstreamError):
    """The client does not go on with its body; raised where the upstream takes it."""

    fault = "protocol"


async def pass_unread(
    worker: Worker, scope: Scope, receive: Receive, *, out: TimedSender, provider: Provider, client: str | None
) -> None:
    """Carry a request to its provider and the response back; nothing is read, and nothing recorded but the count."""
    length = header(scope, b"content-length")
    limit = worker.settings.limits.body_bytes
    size = int(length) if length.isdecimal() else None
    has_body = size is None and header(scope, b"transfer-encoding") != ""
    problem = _TOO_LARGE
    if size is None or size <= limit:
        body = _pieces(receive, limit, limit_s=worker.settings.timeouts.slow_client_s) if size or has_body else b""
        asked = forward_request(
            scope,
            provider=provider,
            has_keys=worker.keys is not None,
            body=body,
            size_bytes=size,
            reading=ResponseReading.NOT,
        )
        try:
            response = await provider.pool.send(asked)
        except _TooLongError:
            problem = _TOO_LARGE
        except _TooSlowError:
            problem = _TOO_SLOW
        except UpstreamError as exc:
            worker.metrics.count_upstream_failure(exc)
            log_event(LogEvent.UPSTREAM_FAILED, shape=_PASSED, fault=exc.fault)
            late = isinstance(exc, UpstreamTimeoutError)
            problem = HttpProblem(504 if late else 502, f"upstream_{exc.fault}", "The provider could not be asked.")
        else:
            worker.metrics.count_response(_PASSED, response.status, client=client)
            await _pass_back(response, receive, scope, out=out)
            return
    worker.metrics.count_response(_PASSED, problem.status, client=client)
    await out.answer(problem_response(problem, shape_for_errors(scope["path"])))


async def _pass_back(response: UpstreamResponse, receive: Receive, scope: Scope, *, out: TimedSender) -> None:
    # No body follows these, and a length beside the first of them is forbidden (RFC 9110, section 8.6).
    bodiless = response.status in (204, 304)
    head = [pair for pair in response.headers if not (bodiless and pair[0] == b"content-length")]
    await out.start(response.status, head)
    if scope["method"] == "HEAD":
        await out.piece(b"", more=False)
        return
    try:
        async with ClientWatch(receive, scope):
            async for piece in response.body:
                await out.piece(piece)
    except ClientGoneError:
        await response.body.aclose()
        return
    await out.piece(b"", more=False)


async def _pieces(receive: Receive, limit: int, *, limit_s: float) -> AsyncIterator[bytes]:
    """Yield the body of a request as it comes; each piece has its time."""
    size = 0
    while True:
        try:
            async with asyncio.timeout(limit_s):
                message = await receive()
        except TimeoutError as exc:
            raise _TooSlowError("the body did not come in time") from exc
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        piece = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise _TooLongError("the body is too long")
        if piece:
            yield piece
        if not message.get("more_body", False):
            return
