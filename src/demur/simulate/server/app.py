"""The model server: which bytes answer which request.

The same request, settings and seed give the same bytes. Every reply to a valid request carries its truth in `x-demur-truth`, and
whatever is sent here, an answer in the provider's own shape comes back.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from demur.errors import ShapeError, SizeLimitError, UsageError
from demur.http.asgi import ClientGoneError, LateBodyError, is_json, read_body
from demur.model.exchange import Shape
from demur.simulate.engine import Simulator
from demur.simulate.scenario import Fault
from demur.simulate.server.checks import first_problem
from demur.simulate.server.requests import Endpoint, RawRequest, call_of, route_of, shape_of_path
from demur.simulate.server.responses import (
    JSON,
    UNKNOWN_URL,
    Outgoing,
    Problem,
    broken,
    error_reply,
    model_body,
    models_body,
    moderation_body,
    send_outgoing,
    tokens_body,
)
from demur.wire import eventstream, sse
from demur.wire.fields import decode, encode
from demur.wire.shapes import CODECS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from demur.http.asgi import Receive, Scope, Send
    from demur.simulate.engine import Call, Simulated
    from demur.simulate.server.requests import Route
    from demur.wire.fields import JsonObject

__all__ = ["SimulatorApp"]

_FAULT_PROBLEMS = {
    Fault.RATE_LIMIT: Problem(429, "Rate limit reached for requests. Please try again later."),
    Fault.SERVER_ERROR: Problem(500, "The server had an error while processing your request."),
    Fault.OVERLOADED: Problem(503, "The server is overloaded or not ready yet."),
}
_NOT_JSON = Problem(400, "The body of the request cannot be parsed as JSON: a JSON object is expected.")
_LOG = logging.getLogger("demur.simulator")
_LONG_BYTES = 2**18
_LATE = 408
_REQUEST_IDS = {Shape.ANTHROPIC: b"request-id", Shape.BEDROCK: b"x-amzn-requestid"}


@dataclass(slots=True)
class SimulatorApp:
    """The ASGI application; `simulator` may be exchanged between requests, `note` is handed each reply.

    A client has `body_s` seconds for the body of its request.
    """

    simulator: Simulator = field(default_factory=Simulator)
    note: Callable[[Simulated], None] | None = None
    body_s: float = 60.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        path, method = scope["path"], scope["method"]
        route = route_of(path)
        if route is None:
            missing = Problem(404, f"Invalid URL ({method} {path})", code=UNKNOWN_URL)
            outgoing = _failed(missing, shape_of_path(path))
        elif method != route.method and (method, route.method) != ("HEAD", "GET"):
            wrong = Problem(405, f"Not allowed to {method} on {path}.", code="method_not_supported")
            outgoing = _failed(wrong, route.shape, allow=route.method)
        else:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            try:
                found = (
                    self._get(route, headers)
                    if route.method == "GET"
                    else await self._post(route, scope, receive, headers=headers)
                )
            except ClientGoneError:
                return
            except Exception:  # noqa: BLE001 — the outermost layer: a fault of ours is a 500 of the provider's
                found = Problem(500, "The simulator met a fault of its own.")
            outgoing = _failed(found, route.shape) if isinstance(found, Problem) else found
        await send_outgoing(outgoing, self.simulator.settings, receive=receive, send=send)

    async def _post(
        self, route: Route, scope: Scope, receive: Receive, *, headers: Mapping[str, str]
    ) -> Outgoing | Problem:
        """Return the reply to a POST, or what is wrong with it."""
        if not is_json(scope):
            kind = headers["content-type"][:100]
            message = f"Unsupported content type: '{kind}'. Use 'application/json'."
            return Problem(415, message, code="unsupported_content_type")
        try:
            body = await read_body(scope, receive, limit=self.simulator.settings.max_body_bytes, limit_s=self.body_s)
        except LateBodyError:
            return Problem(_LATE, "The request did not come in time.", code="request_timeout")
        except SizeLimitError:
            return Problem(413, "The request is too large.", code="request_too_large")
        raw = RawRequest(scope["path"], scope["query_string"].decode("latin-1"), headers, body)
        if len(body) > _LONG_BYTES:
            # Megabytes take seconds to read, during which other clients' streams must go on.
            return await asyncio.to_thread(self._answer, route, raw)
        return self._answer(route, raw)

    def _get(self, route: Route, headers: Mapping[str, str]) -> Outgoing | Problem:
        """Return what a GET asks for: models, or a sign of life."""
        if route.endpoint is Endpoint.HEALTH:
            return _json_outgoing({"status": "ok"})
        # All three list their models at the same path; only the headers tell them apart.
        shape = Shape.ANTHROPIC if "anthropic-version" in headers else route.shape
        shape = Shape.GEMINI if "x-goog-api-key" in headers else shape
        known = self.simulator.settings.models
        if route.endpoint is Endpoint.MODELS:
            return _json_outgoing(models_body(known, shape))
        found = None if known and route.model not in known else model_body(route.model, shape)
        return _failed(_no_model(route.model, shape), shape) if found is None else _json_outgoing(found)

    def _answer(self, route: Route, raw: RawRequest) -> Outgoing | Problem:
        """Return the reply to a body, or what is wrong with it."""
        try:
            body = decode(raw.body)
        except ShapeError:
            return _NOT_JSON
        if not isinstance(body, dict):
            return _NOT_JSON
        if route.endpoint is Endpoint.MODERATIONS:
            return self._moderate(body)
        if route.endpoint is Endpoint.TOKENS:
            return _json_outgoing(tokens_body(raw.body.decode("utf-8", "replace"), route.shape))
        try:
            problem = first_problem(body, route.shape, model_in_path=bool(route.model))
            return problem or self._simulate(call_of(route, raw, body), raw)
        except (ShapeError, UsageError) as exc:
            return Problem(400, str(exc))

    def _simulate(self, call: Call, raw: RawRequest) -> Outgoing | Problem:
        known = self.simulator.settings.models
        if known and call.request.model not in known:
            return _no_model(call.request.model, call.shape)
        simulated = self.simulator.answer(call)
        if simulated.jailbreak:
            # By its id alone: what the prompt says is nobody's but its sender's.
            _LOG.warning("jailbreak attempt detected in request %s", simulated.truth.id)
        if self.note is not None:
            self.note(simulated)
        outgoing = _write(simulated, raw)
        return broken(outgoing, simulated.truth.fault) if simulated.truth.fault else outgoing

    def _moderate(self, body: JsonObject) -> Outgoing | Problem:
        given = body.get("input")
        if given is None:
            return Problem(400, "Missing required parameter: 'input'.", "input", "missing_required_parameter")
        found = moderation_body(given, body.get("model"), judge=self.simulator.judge)
        return (
            Problem(400, "Invalid type for 'input'.", "input", "invalid_type")
            if found is None
            else _json_outgoing(found)
        )


# A scenario's name, which a client may give, becomes part of a header: it must not add another.
_ONE_LINE = bytes(c if c not in b"\r\n\0" else ord(" ") for c in range(256))


def _write(simulated: Simulated, raw: RawRequest) -> Outgoing:
    """Return the bytes of a reply, its truth among the headers."""
    shape, response, truth = simulated.shape, simulated.response, simulated.truth
    label = truth.header().encode("ascii", "replace").translate(_ONE_LINE)
    headers = ((b"x-demur-truth", label), (_REQUEST_IDS.get(shape, b"x-request-id"), truth.id.encode()))
    problem = _FAULT_PROBLEMS.get(truth.fault) if truth.fault else None
    if problem is not None:
        status, more, body = error_reply(problem, shape)
        return Outgoing(status, (*more, *headers), (body,))
    if response.error is not None or not truth.stream:
        return Outgoing(response.status, headers, (encode(CODECS[shape].write_response(response)),))
    kind, pieces = _write_stream(simulated, raw)
    return Outgoing(200, headers, pieces, kind, stream=True)


def _write_stream(simulated: Simulated, raw: RawRequest) -> tuple[bytes, tuple[bytes, ...]]:
    """Return the media type and the pieces of a stream."""
    events = CODECS[simulated.shape].write_stream(simulated.response, piece_chars=simulated.piece_chars)
    if simulated.shape is Shape.BEDROCK:
        return eventstream.MEDIA_TYPE.encode(), tuple(map(eventstream.frame, events))
    if simulated.shape is Shape.GEMINI and "alt=sse" not in raw.query:
        # Without `alt=sse` the API streams one JSON array.
        listed = [event.data.encode() for event in events]
        starts = (b"[", *[b",\r\n"] * (len(listed) - 1))
        return JSON, (*(a + b for a, b in zip(starts, listed, strict=True)), b"]")
    return b"text/event-stream; charset=utf-8", tuple(map(sse.encode, events))


def _no_model(name: str, shape: Shape) -> Problem:
    match shape:
        case Shape.AZURE:
            return Problem(404, f"There is no deployment '{name}' in this resource.", code="DeploymentNotFound")
        case Shape.ANTHROPIC:
            return Problem(404, f"model: {name}")
        case Shape.GEMINI:
            return Problem(404, f"models/{name} is not found.")
        case Shape.OPENAI_CHAT | Shape.OPENAI_RESPONSES | Shape.BEDROCK:
            return Problem(404, f"The model '{name}' does not exist.", "model", "model_not_found")


def _json_outgoing(body: JsonObject) -> Outgoing:
    return Outgoing(200, (), (encode(body),))


def _failed(problem: Problem, shape: Shape, *, allow: str | None = None) -> Outgoing:
    status, headers, body = error_reply(problem, shape)
    # The rest of a body that came too late must not be waited for.
    headers += ((b"connection", b"close"),) if status == _LATE else ()
    return Outgoing(status, (*headers, (b"allow", allow.encode())) if allow else headers, (body,))
