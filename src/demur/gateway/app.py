"""The auditing reverse proxy: which request is whose, and who may ask?

Laws: its own pages (`/healthz`, `/readyz`, `/metrics`, `/openapi.json`) are answered without a key and never reach the provider;
neither does anything under `/-/`, however it is spelt, where pages for people are, if any were given, behind a token of their
own; all else needs a key where keys are asked for; more than the limit at once is refused at once, not queued; a fault of ours
is one 500 in the provider's shape, and the next request is served.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from demur.gateway.exchange import ServedExchange
from demur.gateway.forward import client_of, headers_of
from demur.gateway.pages import OPENAPI
from demur.gateway.passing import pass_unread
from demur.gateway.routes import audited_route, is_for_people
from demur.gateway.settings import OtherPaths
from demur.http.asgi import ClientGoneError, HttpProblem, HttpResponse, json_response, problem_response
from demur.http.client import TimedSender
from demur.http.metrics import CONTENT_TYPE
from demur.http.paths import plain_path, shape_for_errors
from demur.io.log import LogEvent, log_event

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from demur.gateway.keys import ClientKey
    from demur.gateway.worker import GatewayParts
    from demur.http.asgi import App, Receive, Scope, Send
    from demur.http.upstream import Headers

__all__ = ["GatewayApp"]

_OVERRIDES = frozenset((b"x-http-method-override", b"x-http-method", b"x-method-override"))
_SAY = ((b"allow", b"GET, HEAD"),)
_BUSY = HttpProblem(503, "overloaded", "Too many requests at once.", headers=((b"retry-after", b"1"),))
_NO_KEY = HttpProblem(401, "invalid_api_key", "The API key is missing or not known to this gateway.")
_NO_DOOR = HttpProblem(404, "unknown_path", "This gateway does not pass this path on.")
_NO_PAGES = HttpProblem(404, "unknown_path", "No dashboard is served here.")
_FAULT = HttpProblem(500, "gateway_fault", "The gateway met a fault of its own.")
_WRONG_METHOD = HttpProblem(405, "method_not_allowed", "This page can only be read.", headers=_SAY)


class GatewayApp:
    """The ASGI application of one worker."""

    def __init__(self, parts: GatewayParts, pages: Callable[[GatewayParts], App] | None = None) -> None:
        """Serve with these parts; `pages` makes, when it is first asked for, what answers under `/-/`."""
        self._parts = parts
        self._running = 0
        self._make_pages = pages
        self._pages: App | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        out = TimedSender(send, scope, self._parts.settings.timeouts.slow_client_s)
        page = self._page(scope)
        if page is not None:
            await out.answer(page)
            return
        if is_for_people(scope["path"]):
            await self._answered(self._shown(scope, receive, send, out=out), scope, out)
            return
        if self._running >= self._parts.settings.limits.requests:
            self._parts.metrics.overloaded()
            log_event(LogEvent.OVERLOADED)
            await out.answer(problem_response(_BUSY, shape_for_errors(scope["path"])))
            return
        self._running += 1
        self._parts.metrics.in_flight(1)
        try:
            await self._answered(self._served(scope, receive, out), scope, out)
        finally:
            self._running -= 1
            self._parts.metrics.in_flight(-1)

    async def _answered(self, serving: Awaitable[None], scope: Scope, out: TimedSender) -> None:
        """Let a request be served; say so where that ends in a fault of ours."""
        try:
            await serving
        except ClientGoneError:
            log_event(LogEvent.CLIENT_GONE)
        except Exception as exc:  # noqa: BLE001 — the outermost layer: a fault of ours is a 500, and not the end
            log_event(LogEvent.FAULT, error=exc)
            if out.begun:
                out.cut()
            else:
                await out.answer(problem_response(_FAULT, shape_for_errors(scope["path"])))

    async def _shown(self, scope: Scope, receive: Receive, send: Send, *, out: TimedSender) -> None:
        """Answer with a page for people: outside the limit, since they look most where there is too much."""
        if self._make_pages is None:
            await out.answer(problem_response(_NO_PAGES, shape_for_errors("/")))
            return
        if self._pages is None:
            # Loading them takes a moment, in which others are served; where two come first, the later one's stay.
            self._pages = await asyncio.to_thread(self._make_pages, self._parts)
        try:
            async with asyncio.timeout(self._parts.settings.timeouts.slow_client_s):
                await self._pages(scope, receive, send)
        except TimeoutError:
            out.cut()

    async def _served(self, scope: Scope, receive: Receive, out: TimedSender) -> None:
        parts = self._parts
        headers = headers_of(scope)
        client = self._client(headers)
        if parts.keys is not None and client is None:
            parts.metrics.unauthorised()
            log_event(LogEvent.UNAUTHORISED)
            await out.answer(problem_response(_NO_KEY, shape_for_errors(scope["path"])))
            return
        path = plain_path(scope["path"])
        prefix = parts.provider_of(path).prefix
        doors = (audited_route(method, scope["path"], prefix=prefix) for method in _meant_methods(scope))
        route = next((door for door in doors if door is not None), None)
        if route is not None:
            served = ServedExchange(parts, scope, receive, out=out, route=route, headers=headers, client=client)
            await served.serve()
        elif parts.settings.other_paths is OtherPaths.PASS or _is_models(scope):
            name = client.name if client else None
            await pass_unread(parts, scope, receive, out=out, headers=headers, client=name)
        else:
            parts.metrics.answered("passed", _NO_DOOR.status, client=client.name if client else None)
            await out.answer(problem_response(_NO_DOOR, shape_for_errors(scope["path"])))

    def _client(self, headers: Headers) -> ClientKey | None:
        ring = self._parts.keys
        return None if ring is None else client_of(headers, ring)

    def _page(self, scope: Scope) -> HttpResponse | None:
        """Return the answer to a request for a page of the gateway's own."""
        path = scope["path"]
        if path not in ("/healthz", "/readyz", "/metrics", "/openapi.json"):
            return None
        if scope["method"] not in ("GET", "HEAD"):
            return problem_response(_WRONG_METHOD, shape_for_errors(path))
        match path:
            case "/healthz":
                return json_response(200, {"status": "ok"})
            case "/readyz":
                return self._ready()
            case "/openapi.json":
                return json_response(200, OPENAPI)
            case _:
                return self._figures()

    def _ready(self) -> HttpResponse:
        """Return whether requests should be sent here, and if not, what is in the way."""
        parts = self._parts
        troubles = {
            "draining": parts.draining,
            "store": parts.store_hangs or parts.writer.failure is not None,
            "policy": parts.policy.denies_all,
        }
        found = [name for name, there in troubles.items() if there]
        return json_response(503 if found else 200, {"status": "unready" if found else "ready", "troubles": found})

    def _figures(self) -> HttpResponse:
        if not self._parts.settings.metrics.on:
            return problem_response(HttpProblem(404, "unknown_path", "Figures are turned off."), shape_for_errors("/"))
        text = self._parts.metrics.board.text().encode()
        return HttpResponse(200, text, ((b"content-type", CONTENT_TYPE.encode()),))


def _is_models(scope: Scope) -> bool:
    """Return whether a client only asks which models there are: that is part of the API that is served."""
    path = plain_path(scope["path"])
    # Only as it is spelt plainly: what dots or escapes lead to elsewhere is another path to some servers.
    spelt = scope["path"].rstrip("/") == path and ";" not in path
    return spelt and scope["method"] in ("GET", "HEAD") and f"{path}/".startswith(("/v1/models/", "/openai/models/"))


def _meant_methods(scope: Scope) -> set[str]:
    """Return the methods that a provider may act on: some servers let a header replace the request's own."""
    named = [value for name, value in scope["headers"] if name in _OVERRIDES]
    return {scope["method"], *(word for value in named if (word := value.decode("latin-1").strip().upper()))}
