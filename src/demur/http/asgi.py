"""What every server here needs of ASGI: a bounded body, a JSON answer, a listening socket, an orderly end.

Laws: a body is refused as soon as it is known to be too long, before the rest is read; nothing of a body or a query is
logged; port 0 is any free port, and whoever starts a server is told the real one; a client that does not send its request in
time is cut off; SIGTERM and SIGINT let running requests end, within a limit, and then end the server in good order: one that
has not been sent whole by then is not running.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from demur.errors import SizeLimitError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "App",
    "ClientGoneError",
    "HttpAnswer",
    "LateBodyError",
    "Receive",
    "Scope",
    "Send",
    "body_too_long",
    "error_answer",
    "header",
    "is_json",
    "json_answer",
    "read_body",
    "send_answer",
]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class ClientGoneError(ConnectionError):
    """The client went away before its request was whole: there is nobody to answer."""


class LateBodyError(ClientGoneError):
    """The body did not come in time: the client is told, should it still be there."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A whole answer: status, body, headers beside its length."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ((b"content-type", b"application/json"),)


def json_answer(status: int, value: object, *, headers: Mapping[str, str] | None = None) -> HttpAnswer:
    """Return the answer with a value as JSON."""
    more = tuple((name.lower().encode(), text.encode()) for name, text in (headers or {}).items())
    return HttpAnswer(status, msgspec.json.encode(value), ((b"content-type", b"application/json"), *more))


def error_answer(status: int, code: str, message: str, *, headers: Mapping[str, str] | None = None) -> HttpAnswer:
    """Return the answer that says what is wrong with a request."""
    body = {"status": "error", "error": {"code": code, "message": message}}
    return json_answer(status, body, headers=headers)


async def send_answer(send: Send, answer: HttpAnswer, *, body: bool = True) -> None:
    """Send a whole answer; without its body where only the head was asked for."""
    length = (b"content-length", str(len(answer.body)).encode())
    await send({"type": "http.response.start", "status": answer.status, "headers": [*answer.headers, length]})
    await send({"type": "http.response.body", "body": answer.body if body else b""})


async def read_body(scope: Scope, receive: Receive, *, limit: int, limit_s: float | None = None) -> bytes:
    """Return the body of a request; raise where it is too long (`SizeLimitError`), late or never ends (`ClientGoneError`)."""
    told = header(scope, b"content-length")
    if told.isdecimal() and int(told) > limit:
        raise body_too_long(limit)
    timer = asyncio.timeout(limit_s)
    try:
        async with timer:
            return await _whole_body(receive, limit)
    except TimeoutError as exc:
        if timer.expired():
            raise LateBodyError from exc
        raise


async def _whole_body(receive: Receive, limit: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        body += message.get("body", b"")
        if len(body) > limit:
            raise body_too_long(limit)
        if not message.get("more_body", False):
            return bytes(body)


def header(scope: Scope, name: bytes) -> str:
    """Return a header of the request, empty where it has none; names are lower case in ASGI."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def is_json(scope: Scope) -> bool:
    """Return whether the request says that its body is JSON, or says nothing."""
    kind = header(scope, b"content-type").partition(";")[0].strip().lower()
    return kind in ("", "application/json") or (kind.startswith("application/") and kind.endswith("+json"))


def body_too_long(limit: int) -> SizeLimitError:
    """Return what is wrong with a body beyond the limit."""
    return SizeLimitError(f"the body is longer than {limit} bytes", hint="send less at a time")
