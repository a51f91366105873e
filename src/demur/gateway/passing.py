"""How do requests pass that nobody reads: lists of models, embeddings, files?

Laws: bytes pass both ways as they come, within the limits; nothing of them is read, and nothing recorded but the count.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from demur.errors import UpstreamError, UpstreamTimeoutError
from demur.gateway.forward import AnswerReading, forwarded
from demur.http.asgi import ClientGoneError, HttpProblem, header, problem_response
from demur.http.client import ClientWatch
from demur.http.paths import plain_path, shape_for_errors
from demur.io.log import LogEvent, log_event

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from demur.gateway.worker import GatewayParts
    from demur.http.asgi import Receive, Scope
    from demur.http.client import TimedSender
    from demur.http.upstream import Headers, UpstreamResponse

__all__ = ["pass_unread"]

_LABEL = "passed"


class _TooLongError(UpstreamError):
    """The client's body is beyond the limit; raised where the upstream takes it."""

    fault = "protocol"


class _TooSlowError(UpstreamError):
    """The client does not go on with its body; raised where the upstream takes it."""

    fault = "protocol"


_CLOSE = ((b"connection", b"close"),)
_TOO_LARGE = HttpProblem(413, "request_too_large", "The body is too large.", headers=_CLOSE)
_TOO_SLOW = HttpProblem(408, "request_timeout", "The request did not come in time.", headers=_CLOSE)


async def pass_unread(
    parts: GatewayParts, scope: Scope, receive: Receive, *, out: TimedSender, headers: Headers, client: str | None
) -> None:
    """Carry a request to its provider and the answer back."""
    shape = shape_for_errors(scope["path"])
    told = header(scope, b"content-length")
    limit = parts.settings.limits.body_bytes
    size = int(told) if told.isdecimal() else None
    has_body = size is None and header(scope, b"transfer-encoding") != ""
    if size is not None and size > limit:
        await _refused_here(parts, out, _TOO_LARGE, scope, client=client)
        return
    patience_s = parts.settings.timeouts.slow_client_s
    body = _pieces(receive, limit, limit_s=patience_s) if size or has_body else b""
    provider = parts.provider_of(plain_path(scope["path"]))
    asked = forwarded(
        scope,
        headers,
        provider=provider,
        has_ring=parts.keys is not None,
        body=body,
        size_bytes=size,
        reading=AnswerReading.NOT,
    )
    try:
        answer = await provider.pool.send(asked)
    except _TooLongError:
        problem = _TOO_LARGE
    except _TooSlowError:
        problem = _TOO_SLOW
    except UpstreamError as exc:
        parts.metrics.upstream_failed(exc)
        log_event(LogEvent.UPSTREAM_FAILED, shape=_LABEL, fault=exc.fault)
        late = isinstance(exc, UpstreamTimeoutError)
        problem = HttpProblem(504 if late else 502, f"upstream_{exc.fault}", "The provider could not be asked.")
    else:
        parts.metrics.answered(_LABEL, answer.status, client=client)
        await _passed_back(answer, receive, scope, out=out)
        return
    parts.metrics.answered(_LABEL, problem.status, client=client)
    await out.answer(problem_response(problem, shape))


async def _passed_back(answer: UpstreamResponse, receive: Receive, scope: Scope, *, out: TimedSender) -> None:
    bodiless = answer.status in (204, 304)
    await out.start(answer.status, [pair for pair in answer.headers if not (bodiless and pair[0] == b"content-length")])
    if scope["method"] == "HEAD":
        await out.piece(b"", more=False)
        return
    try:
        async with ClientWatch(receive, scope):
            async for piece in answer.body:
                await out.piece(piece)
    except ClientGoneError:
        await answer.body.aclose()
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


async def _refused_here(
    parts: GatewayParts, out: TimedSender, problem: HttpProblem, scope: Scope, *, client: str | None
) -> None:
    parts.metrics.answered(_LABEL, problem.status, client=client)
    await out.answer(problem_response(problem, shape_for_errors(scope["path"])))
