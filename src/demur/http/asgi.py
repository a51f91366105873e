"""What every server here needs of ASGI: bounded request bodies, JSON responses, and errors in the client's own format.

Nothing of a body or a query string is logged. A body is rejected as soon as it is known to be too long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from demur.errors import SizeLimitError
from demur.model.exchange import Shape

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "App",
    "ClientGoneError",
    "HttpProblem",
    "HttpResponse",
    "LateBodyError",
    "Receive",
    "Scope",
    "Send",
    "body_too_long",
    "header",
    "is_json",
    "json_error",
    "json_response",
    "problem_response",
    "read_body",
    "send_response",
]

# The types of ASGI 3.0, which are mappings by its specification.
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


_JSON = (b"content-type", b"application/json")
# The provider's own words, so that its client library takes our error for one of its provider's.
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


class ClientGoneError(ConnectionError):
    """The client disconnected before its request was complete: there is nobody to answer."""


class LateBodyError(ClientGoneError):
    """The body did not arrive in time; the client is told so if it is still connected."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A complete response: status, body, and headers without the content length."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = (_JSON,)


@dataclass(frozen=True, slots=True)
class HttpProblem:
    """Why a server of ours responds with an error: status, code, message and details."""

    status: int
    code: str
    message: str
    details: tuple[tuple[str, object], ...] = ()
    headers: tuple[tuple[bytes, bytes], ...] = ()


def problem_response(problem: HttpProblem, shape: Shape) -> HttpResponse:
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
    return HttpResponse(problem.status, msgspec.json.encode(body), (_JSON, *problem.headers))


def json_response(status: int, value: object, *, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """Return a response with a value as JSON."""
    more = tuple((name.lower().encode(), text.encode()) for name, text in (headers or {}).items())
    return HttpResponse(status, msgspec.json.encode(value), (_JSON, *more))


def json_error(status: int, code: str, message: str, *, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """Return a response that says what is wrong with a request."""
    body = {"status": "error", "error": {"code": code, "message": message}}
    return json_response(status, body, headers=headers)


async def send_response(send: Send, response: HttpResponse, *, body: bool = True) -> None:
    """Send a complete response; without its body for a HEAD request."""
    length = (b"content-length", str(len(response.body)).encode())
    await send({"type": "http.response.start", "status": response.status, "headers": [*response.headers, length]})
    await send({"type": "http.response.body", "body": response.body if body else b""})


async def read_body(scope: Scope, receive: Receive, *, limit: int, limit_s: float | None = None) -> bytes:
    """Return a request's body; raise `SizeLimitError` if it is too long, `LateBodyError` or `ClientGoneError` if it never ends."""
    declared = header(scope, b"content-length")
    if declared.isdecimal() and int(declared) > limit:
        # Before the first byte is read: a client that waits for `100 Continue` then sends nothing at all.
        raise body_too_long(limit)
    body = bytearray()
    timer = asyncio.timeout(limit_s)
    try:
        async with timer:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGoneError
                body += message.get("body", b"")
                if len(body) > limit:
                    raise body_too_long(limit)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError as exc:
        # A `TimeoutError` of the socket's own is no sign of a slow client.
        if timer.expired():
            raise LateBodyError from exc
        raise


def header(scope: Scope, name: bytes) -> str:
    """Return a header of the request, empty if it has none; names are lower case in ASGI."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def is_json(scope: Scope) -> bool:
    """Return whether the request says that its body is JSON, or says nothing."""
    kind = header(scope, b"content-type").partition(";")[0].strip().lower()
    return kind in ("", "application/json") or (kind.startswith("application/") and kind.endswith("+json"))


def body_too_long(limit: int) -> SizeLimitError:
    """Return the error for a body beyond the limit."""
    return SizeLimitError(f"the body is longer than {limit} bytes", hint="send less at a time")
