"""How does each provider say that a request cannot be served?

Laws: the body is the provider's own, so that its client raises its own exception; the status is that of HTTP, but for
Anthropic's 529 and Google's and Amazon's habit of calling every bad request a 400.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from demur.model.exchange import ProviderError, Response, Shape
from demur.wire.fields import encode
from demur.wire.shapes import CODECS

__all__ = ["BAD_REQUEST", "UNKNOWN_URL", "Headers", "Problem", "error_reply"]

Headers = tuple[tuple[bytes, bytes], ...]

BAD_REQUEST = 400
UNKNOWN_URL = "unknown_url"
"""OpenAI's code for a path without a door; the others have words of their own for it."""

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
_ANTHROPIC_OVERLOADED = 529
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
    extra: Headers = ((b"retry-after", b"1"),) if status == _RATE_LIMITED else ()
    if shape is Shape.AZURE and problem.code == UNKNOWN_URL:
        problem = replace(problem, message="Resource not found", code="404")
    if shape not in (Shape.ANTHROPIC, Shape.GEMINI, Shape.BEDROCK):
        return status, extra, _openai_body(problem)
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


def _openai_body(problem: Problem) -> bytes:
    kind = _OPENAI_KINDS.get(problem.status, "invalid_request_error")
    code = problem.code or _OPENAI_CODES.get(problem.status)
    error = {"message": problem.message, "type": kind, "param": problem.param, "code": code}
    return encode({"error": error})
