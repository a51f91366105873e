"""How a reply reaches the wire: complete, in pieces, late, as an error, or broken on purpose.

An error has the provider's own body, so that its client raises its own exception. Bytes depend on the reply alone, delays on the
settings alone.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from demur.model.exchange import ProviderError, Response, Shape
from demur.simulate.scenario import Fault
from demur.wire.fields import encode
from demur.wire.shapes import CODECS

if TYPE_CHECKING:
    from demur.http.asgi import Receive, Send
    from demur.simulate.settings import SimulatorSettings

__all__ = ["BAD_REQUEST", "JSON", "UNKNOWN_URL", "Outgoing", "Problem", "broken", "error_reply", "send_outgoing"]

Headers = tuple[tuple[bytes, bytes], ...]

JSON = b"application/json"
_PAGE = b"<!doctype html><title>Bad gateway</title><p>An intermediary answered in place of the model."
_SPOILT = b'data: {"id": "spoilt", "choices": [{"index": 0, "delta"\n\n'

BAD_REQUEST = 400
UNKNOWN_URL = "unknown_url"
"""OpenAI's code for an unknown path; the others have words of their own for it."""

_OPENAI_KINDS = {429: "requests", 500: "server_error", 503: "server_error"}
_OPENAI_CODES = {429: "rate_limit_exceeded", 503: "overloaded"}
_ANTHROPIC_KINDS = {
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
_GEMINI_KINDS = {
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
_BEDROCK_KINDS = {
    404: "ResourceNotFoundException",
    429: "ThrottlingException",
    500: "InternalServerException",
    503: "ServiceUnavailableException",
}
_OVERLOADED = 503
_ANTHROPIC_OVERLOADED = 529  # Anthropic's own status for what others call 503
_RATE_LIMITED = 429


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a request cannot be served; `param` and `code` are OpenAI's, and say where and what."""

    status: int
    message: str
    param: str | None = None
    code: str | None = None


def error_reply(problem: Problem, shape: Shape) -> tuple[int, Headers, bytes]:
    """Return the status, the headers and the body of an error."""
    status = problem.status
    # Clients wait for as long as a rate limit tells them; one second keeps tests quick.
    extra: Headers = ((b"retry-after", b"1"),) if status == _RATE_LIMITED else ()
    if shape is Shape.AZURE and problem.code == UNKNOWN_URL:
        problem = replace(problem, message="Resource not found", code="404")
    if shape not in (Shape.ANTHROPIC, Shape.GEMINI, Shape.BEDROCK):
        kind = _OPENAI_KINDS.get(status, "invalid_request_error")
        code = problem.code or _OPENAI_CODES.get(status)
        said = {"message": problem.message, "type": kind, "param": problem.param, "code": code}
        return status, extra, encode({"error": said})
    error = ProviderError(problem.message)
    match shape:
        case Shape.ANTHROPIC:
            status = _ANTHROPIC_OVERLOADED if status == _OVERLOADED else status
            error = ProviderError(problem.message, kind=_ANTHROPIC_KINDS.get(status, "invalid_request_error"))
        case Shape.GEMINI:
            kind = _GEMINI_KINDS.get(status, "INVALID_ARGUMENT")
            error = ProviderError(problem.message, code=str(status), kind=kind)
        case Shape.BEDROCK:
            known = _BEDROCK_KINDS.get(status, "ValidationException")
            kind = "UnknownOperationException" if problem.code == UNKNOWN_URL else known
            error = ProviderError(problem.message, kind=kind)
            extra += ((b"x-amzn-errortype", kind.encode()),)
    return status, extra, encode(CODECS[shape].write_response(Response("", error=error, status=status)))


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What is to be sent: `pieces` is one piece for a whole body, several for a stream; `fault` spoils the sending."""

    status: int
    headers: Headers
    pieces: tuple[bytes, ...]
    content_type: bytes = JSON
    stream: bool = False
    fault: Fault | None = None


def broken(outgoing: Outgoing, fault: Fault | None) -> Outgoing:
    """Return the reply with what a fault does to its bytes; faults of time are left to the sending."""
    if fault is Fault.CONTENT_TYPE:
        return replace(outgoing, content_type=b"text/html; charset=utf-8", pieces=(_PAGE,), stream=False)
    if fault is Fault.MALFORMED:
        return replace(outgoing, pieces=_corrupt(outgoing))
    return replace(outgoing, fault=fault)


async def send_outgoing(outgoing: Outgoing, settings: SimulatorSettings, *, receive: Receive, send: Send) -> None:
    """Send a reply, at the pace of the settings."""
    pieces = outgoing.pieces
    if outgoing.fault in (Fault.CUT, Fault.STALL) and not outgoing.stream:
        half = len(pieces[0]) // 2
        pieces = (pieces[0][:half], pieces[0][half:])
    wait_ms = settings.slow_ms if outgoing.fault is Fault.SLOW else settings.first_token_ms
    if wait_ms and await _client_left(receive, wait_ms):
        return
    headers = [(b"content-type", outgoing.content_type), *outgoing.headers]
    # A cut answer has its length announced and does not reach it, as in life.
    length = (b"content-length", b"%d" % sum(map(len, outgoing.pieces)))
    headers.append((b"cache-control", b"no-cache") if outgoing.stream else length)
    await send({"type": "http.response.start", "status": outgoing.status, "headers": headers})
    last, middle = len(pieces) - 1, (len(pieces) + 1) // 2
    for number, piece in enumerate(pieces):
        pause_ms = settings.piece_ms if number else 0
        if number == middle and outgoing.fault is Fault.CUT:
            # The server closes a connection whose response was not finished.
            return
        if number == middle and outgoing.fault is Fault.STALL:
            pause_ms = settings.stall_ms
        if pause_ms and await _client_left(receive, pause_ms):
            return
        await send({"type": "http.response.body", "body": piece, "more_body": number < last})


def _corrupt(outgoing: Outgoing) -> tuple[bytes, ...]:
    """Return the pieces with something in them that cannot be read."""
    if not outgoing.stream:
        return (outgoing.pieces[0][: len(outgoing.pieces[0]) // 2],)
    middle = (len(outgoing.pieces) + 1) // 2
    before, after = outgoing.pieces[:middle], outgoing.pieces[middle:]
    if outgoing.content_type.startswith(b"text/event-stream"):
        return (*before, _SPOILT, *after)
    # In a binary stream a single wrong byte breaks the checksum.
    hurt = before[-1]
    return (*before[:-1], hurt[:-1] + bytes([hurt[-1] ^ 0xFF]), *after)


async def _client_left(receive: Receive, wait_ms: int) -> bool:
    """Wait; return whether the client disconnected meanwhile."""
    try:
        async with asyncio.timeout(wait_ms / 1000):
            while (await receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        return False
    return True
