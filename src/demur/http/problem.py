"""Errors of our own servers, written as the client's provider would write them.

A provider's own client library then raises its own exception.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from demur.http.asgi import HttpAnswer
from demur.model.exchange import Shape

__all__ = ["HttpProblem", "problem_response"]

_JSON = (b"content-type", b"application/json")
_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    415: "invalid_request_error",
    431: "invalid_request_error",
    502: "api_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_OPENAI_KINDS = {401: "invalid_request_error", 403: "policy_error", 502: "server_error", 503: "server_error"}


@dataclass(frozen=True, slots=True)
class HttpProblem:
    """Why a server of ours answers with an error: status, code, message and details."""

    status: int
    code: str
    message: str
    details: tuple[tuple[str, object], ...] = ()
    headers: tuple[tuple[bytes, bytes], ...] = ()


def problem_response(problem: HttpProblem, shape: Shape) -> HttpAnswer:
    """Return the error as the client's provider would write it."""
    kind = _KINDS.get(problem.status, "api_error")
    demur = {"demur": dict(problem.details)} if problem.details else {}
    body: dict[str, object]
    if shape is Shape.ANTHROPIC:
        error = {"type": kind, "message": problem.message, "code": problem.code, **demur}
        body = {"type": "error", "error": error, "request_id": None}
    else:
        kind = _OPENAI_KINDS.get(problem.status, kind)
        body = {"error": {"message": problem.message, "type": kind, "param": None, "code": problem.code, **demur}}
    return HttpAnswer(problem.status, msgspec.json.encode(body), (_JSON, *problem.headers))
