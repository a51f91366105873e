"""How a reply reaches the wire (complete, in pieces, late, as an error, or broken on purpose), and the small endpoints.

An error has the provider's own body, so that its client raises its own exception. Bytes depend on the reply alone, delays on the
settings alone. A moderation is the verdict of the prompt detector under OpenAI's names.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from demur.model.exchange import ProviderError, Response, Shape
from demur.simulate.reply import count_tokens
from demur.simulate.scenario import Fault, builtin_scenarios
from demur.wire.fields import encode
from demur.wire.shapes import CODECS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.detect.check import PromptJudge
    from demur.http.asgi import Receive, Send
    from demur.simulate.settings import SimulatorSettings
    from demur.wire.fields import JsonObject

__all__ = [
    "BAD_REQUEST",
    "JSON",
    "UNKNOWN_URL",
    "Outgoing",
    "Problem",
    "broken",
    "error_reply",
    "model_body",
    "models_body",
    "moderation_body",
    "send_outgoing",
    "tokens_body",
]

_CREATED_S = 1_750_000_000
_CREATED = "2025-06-15T15:06:40Z"
_MODERATED = {
    "harassment": ("harassment", "privacy"),
    "harassment/threatening": (),
    "hate": ("hate",),
    "hate/threatening": (),
    "illicit": ("illegal", "fraud", "cyber", "drugs", "weapons"),
    "illicit/violent": ("weapons",),
    "self-harm": ("self_harm",),
    "self-harm/instructions": (),
    "self-harm/intent": (),
    "sexual": ("sexual",),
    "sexual/minors": ("sexual_minors",),
    "violence": ("violence",),
    "violence/graphic": (),
}


def models_body(known: tuple[str, ...], shape: Shape) -> JsonObject:
    """Return the list of models."""
    # Where any model is accepted the scenarios are listed, since their names are models too.
    listed = [model_body(name, shape) for name in known or ("demur-simulator", *builtin_scenarios())]
    if shape is Shape.GEMINI:
        return {"models": listed}
    if shape is Shape.ANTHROPIC:
        return {"data": listed, "has_more": False, "first_id": listed[0]["id"], "last_id": listed[-1]["id"]}
    return {"object": "list", "data": listed}


def model_body(name: str, shape: Shape) -> JsonObject:
    """Return what is said of one model."""
    if shape is Shape.GEMINI:
        methods = ["generateContent", "countTokens"]
        return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods}
    if shape is Shape.ANTHROPIC:
        return {"type": "model", "id": name, "display_name": name, "created_at": _CREATED}
    return {"id": name, "object": "model", "created": _CREATED_S, "owned_by": "demur"}


def moderation_body(given: object, model: object, *, judge: PromptJudge) -> JsonObject | None:
    """Return the verdicts on a text, a list of texts, or the parts of one message; None where it is none of these."""
    texts = list(_moderated_texts(given))
    if not texts or None in texts:
        return None
    results = [_result(text, judge) for text in texts if text is not None]
    key = blake2b("\0".join(text or "" for text in texts).encode("utf-8", "replace"), digest_size=12).hexdigest()
    name = model if isinstance(model, str) else "omni-moderation-latest"
    return {"id": f"modr-{key}", "model": name, "results": results}


def tokens_body(text: str, shape: Shape) -> JsonObject:
    """Return about how many tokens a request has."""
    return {"totalTokens" if shape is Shape.GEMINI else "input_tokens": count_tokens(text)}


def _moderated_texts(given: object) -> Iterator[str | None]:
    if isinstance(given, str):
        yield given
    elif isinstance(given, list) and given and all(isinstance(item, dict) for item in given):
        parts = [item.get("text") for item in given if item.get("type") == "text"]
        yield "\n".join(part for part in parts if isinstance(part, str))
    elif isinstance(given, list):
        yield from (item if isinstance(item, str) else None for item in given)


def _result(text: str, judge: PromptJudge) -> JsonObject:
    verdict = judge.judge(text)
    flags = {name: not set(verdict.harm).isdisjoint(kinds) for name, kinds in _MODERATED.items()}
    scores = {name: round(verdict.harm_score, 6) if flag else 0.0 for name, flag in flags.items()}
    applied = {name: ["text"] if flag else [] for name, flag in flags.items()}
    return {
        "flagged": bool(verdict.harm),
        "categories": flags,
        "category_scores": scores,
        "category_applied_input_types": applied,
    }


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
_GEMINI_KINDS = {404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}
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
