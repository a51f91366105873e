"""The auditing reverse proxy as an ASGI application: which request goes where, and who may ask.

Its own pages (`/healthz`, `/readyz`, `/metrics`, `/openapi.json`) need no key and never reach the provider; neither does
anything under `/-/`, however it is spelt. A fault of ours is one 500 in the provider's format; the next request is served.
"""

from __future__ import annotations

import asyncio
from importlib import resources
from typing import TYPE_CHECKING

import msgspec

from demur._version import __version__
from demur.gateway.exchange import ServedExchange
from demur.gateway.keys import client_of
from demur.gateway.request import audited_route, is_dashboard_path
from demur.gateway.settings import OtherPaths
from demur.gateway.unread import pass_unread
from demur.http.asgi import (
    ClientGoneError,
    HttpProblem,
    HttpResponse,
    TimedSender,
    json_response,
    plain_path,
    problem_response,
    shape_for_errors,
)
from demur.http.metrics import CONTENT_TYPE
from demur.io.log import LogEvent, log_event

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from demur.gateway.keys import ClientKey
    from demur.gateway.request import AuditedRoute
    from demur.gateway.worker import Worker
    from demur.http.asgi import App, Receive, Scope, Send
    from demur.http.protocol import HttpRejection

__all__ = ["GatewayApp", "RejectionLog"]

_OVERRIDES = frozenset((b"x-http-method-override", b"x-http-method", b"x-method-override"))
_ALLOW_GET = ((b"allow", b"GET, HEAD"),)
_BUSY = HttpProblem(503, "overloaded", "Too many requests at once.", headers=((b"retry-after", b"1"),))
_NO_KEY = HttpProblem(401, "invalid_api_key", "The API key is missing or not known to this gateway.")
_UNKNOWN_PATH = HttpProblem(404, "unknown_path", "This gateway does not pass this path on.")
_NO_DASHBOARD = HttpProblem(404, "unknown_path", "No dashboard is served here.")
_NO_METRICS = HttpProblem(404, "unknown_path", "Figures are turned off.")
_FAULT = HttpProblem(500, "gateway_fault", "The gateway met a fault of its own.")
_WRONG_METHOD = HttpProblem(405, "method_not_allowed", "This page can only be read.", headers=_ALLOW_GET)


class GatewayApp:
    """The ASGI application of one worker."""

    def __init__(self, worker: Worker, dashboard: Callable[[Worker], App] | None = None) -> None:
        """Serve with this worker; `dashboard` makes, when it is first asked for, what answers under `/-/`."""
        self._worker = worker
        self._running = 0
        self._make_dashboard = dashboard
        self._dashboard: App | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        worker = self._worker
        out = TimedSender(send, scope, worker.settings.timeouts.slow_client_s)
        page = self._page(scope)
        if page is not None:
            await out.answer(page)
            return
        if is_dashboard_path(scope["path"]):
            # Outside the limit, since people look most where there is too much.
            await self._serve(self._serve_dashboard(scope, receive, send, out=out), scope, out)
            return
        if self._running >= worker.settings.limits.requests:
            # More than the limit is rejected at once, not queued: a queue would only make every client time out.
            worker.metrics.count_overload()
            log_event(LogEvent.OVERLOADED)
            await out.answer(problem_response(_BUSY, shape_for_errors(scope["path"])))
            return
        self._running += 1
        worker.metrics.change_in_flight(1)
        try:
            await self._serve(self._serve_client(scope, receive, out), scope, out)
        finally:
            self._running -= 1
            worker.metrics.change_in_flight(-1)

    async def _serve(self, serving: Awaitable[None], scope: Scope, out: TimedSender) -> None:
        """Let a request be served; answer with an error where that ends in a fault of ours."""
        try:
            await serving
        except ClientGoneError:
            log_event(LogEvent.CLIENT_GONE)
        except Exception as exc:  # noqa: BLE001 — the outermost layer: a fault of ours is a 500, and not the end
            log_event(LogEvent.FAULT, error=exc)
            if out.begun:
                # A response that cannot be ended must not look as if it had.
                out.cut()
            else:
                await out.answer(problem_response(_FAULT, shape_for_errors(scope["path"])))

    async def _serve_dashboard(self, scope: Scope, receive: Receive, send: Send, *, out: TimedSender) -> None:
        if self._make_dashboard is None:
            await out.answer(problem_response(_NO_DASHBOARD, shape_for_errors("/")))
            return
        if self._dashboard is None:
            # Loading takes a moment, in which others are served; where two come first, the later one's stays.
            self._dashboard = await asyncio.to_thread(self._make_dashboard, self._worker)
        try:
            async with asyncio.timeout(self._worker.settings.timeouts.slow_client_s):
                await self._dashboard(scope, receive, send)
        except TimeoutError:
            out.cut()

    async def _serve_client(self, scope: Scope, receive: Receive, out: TimedSender) -> None:
        worker, path = self._worker, scope["path"]
        client = None if worker.keys is None else client_of(scope["headers"], worker.keys)
        if worker.keys is not None and client is None:
            worker.metrics.count_unauthorised()
            log_event(LogEvent.UNAUTHORISED)
            await out.answer(problem_response(_NO_KEY, shape_for_errors(path)))
            return
        plain, name = plain_path(path), client.name if client else None
        provider = worker.provider_of(plain)
        # Some servers let a header replace the method, so every method that a provider may act on counts.
        named = (value.decode("latin-1").strip().upper() for header, value in scope["headers"] if header in _OVERRIDES)
        methods = {scope["method"], *filter(None, named)}
        routes = (audited_route(method, path, prefix=provider.prefix) for method in methods)
        route = next((found for found in routes if found is not None), None)
        if route is not None:
            served = ServedExchange(worker, scope, receive, out=out, route=route, provider=provider, client=client)
            await served.serve()
        elif worker.settings.other_paths is OtherPaths.PASS or _lists_models(scope, plain):
            await pass_unread(worker, scope, receive, out=out, provider=provider, client=name)
        else:
            worker.metrics.count_response("passed", _UNKNOWN_PATH.status, client=name)
            await out.answer(problem_response(_UNKNOWN_PATH, shape_for_errors(path)))

    def _page(self, scope: Scope) -> HttpResponse | None:
        """Return the response to a request for a page of the gateway's own."""
        path = scope["path"]
        if path not in ("/healthz", "/readyz", "/metrics", "/openapi.json"):
            return None
        if scope["method"] not in ("GET", "HEAD"):
            return problem_response(_WRONG_METHOD, shape_for_errors(path))
        match path:
            case "/healthz":
                return json_response(200, {"status": "ok"})
            case "/readyz":
                return self._readiness()
            case "/openapi.json":
                found = msgspec.json.decode(resources.files("demur.gateway").joinpath("openapi.json").read_bytes())
                found["info"]["version"] = __version__
                return json_response(200, found)
            case _:
                return self._metrics()

    def _metrics(self) -> HttpResponse:
        if not self._worker.settings.metrics.on:
            return problem_response(_NO_METRICS, shape_for_errors("/"))
        text = self._worker.metrics.board.text().encode()
        return HttpResponse(200, text, ((b"content-type", CONTENT_TYPE.encode()),))

    def _readiness(self) -> HttpResponse:
        """Return whether requests should be sent here, and if not, what is in the way."""
        worker = self._worker
        troubles = {
            "draining": worker.draining,
            "store": worker.store_hangs or worker.writer.failure is not None,
            "policy": worker.policy.denies_all,
        }
        found = [name for name, there in troubles.items() if there]
        return json_response(503 if found else 200, {"status": "unready" if found else "ready", "troubles": found})


def _lists_models(scope: Scope, plain: str) -> bool:
    """Return whether a client only asks which models there are: that is part of the API that is served."""
    # Only as it is spelt plainly: what dots or escapes lead to elsewhere is another path to some servers.
    spelt = scope["path"].rstrip("/") == plain and ";" not in plain
    return spelt and scope["method"] in ("GET", "HEAD") and f"{plain}/".startswith(("/v1/models/", "/openai/models/"))


class RejectionLog:
    """Counts and records what the HTTP protocol rejected before it was a request."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._recording: set[asyncio.Task[None]] = set()

    def record(self, rejection: HttpRejection) -> None:
        """Count a rejection, and begin to record it where it was for a model."""
        worker = self._worker
        worker.metrics.count_rejection(rejection.reason)
        prefix = worker.provider_of(plain_path(rejection.path)).prefix
        route = audited_route(rejection.method, rejection.path, prefix=prefix)
        label = route.label if route else "passed"
        log_event(LogEvent.HTTP_REJECTED, reason=rejection.reason, status=rejection.status, shape=label)
        # A response that was on its way is the record of its own exchange.
        if route is None or not rejection.answered:
            return
        client = None if worker.keys is None else client_of(rejection.headers, worker.keys)
        # Where keys are asked for, a client without one writes nothing into the log.
        if worker.keys is None or client is not None:
            # In a task of its own: recording holds up no connection.
            task = asyncio.get_running_loop().create_task(self._record(rejection, route, client))
            self._recording.add(task)
            task.add_done_callback(self._recording.discard)

    async def _record(self, rejection: HttpRejection, route: AuditedRoute, client: ClientKey | None) -> None:
        # Withheld by the gateway, with no text, for none was read.
        state = self._worker.open_exchange(route, b"", client=client)
        state.blocked, state.status = True, rejection.status
        self._worker.metrics.count_response(route.label, rejection.status, client=client.name if client else None)
        await self._worker.record(state, durable=False)

    async def settle(self) -> None:
        """Wait until everything is on record."""
        if self._recording:
            await asyncio.gather(*self._recording)
