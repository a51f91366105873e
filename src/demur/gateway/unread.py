"""Passes a request on unread: nothing of it is audited, and nothing recorded but the count."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from demur.errors import UpstreamError, UpstreamTimeoutError
from demur.gateway.upstream import ResponseReading, forward_request
from demur.http.asgi import ClientGoneError, ClientWatch, HttpProblem, header, problem_response, shape_for_errors
from demur.io.log import LogEvent, log_event

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from demur.gateway.upstream import Provider
    from demur.gateway.worker import Worker
    from demur.http.asgi import Receive, Scope, TimedSender
    from demur.http.upstream import UpstreamResponse

__all__ = ["pass_unread"]

_PASSED = "passed"
_CLOSE = ((b"connection", b"close"),)
_TOO_LARGE = HttpProblem(413, "request_too_large", "The body is too large.", headers=_CLOSE)
_TOO_SLOW = HttpProblem(408, "request_timeout", "The request did not come in time.", headers=_CLOSE)


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
