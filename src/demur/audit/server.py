"""An auditor over HTTP, by the claims protocol 2.0: `POST /claims`, `GET /health`, `GET /vocabulary`.

What is wrong with the HTTP is a status of 400 and above; what is wrong with the audit is answered in band, with 200 and
`"status": "error"`, beside the claims that are sound. No text and no exception's message is logged or sent back.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from demur.audit.chain import LONG_CHARS, in_daemon_thread
from demur.audit.inputs import AuditorInput, prompt_of, request_input, response_input
from demur.audit.sdk import BoundAuditor
from demur.errors import InputError, ShapeError, SizeLimitError
from demur.http.asgi import ClientGoneError, LateBodyError, is_json, json_error, json_response, read_body, send_response
from demur.http.serve import run_app
from demur.model.claim import Phase, Problem, Stated
from demur.model.exchange import (
    Choice,
    Finish,
    Message,
    ProviderError,
    RefusalPart,
    Request,
    Response,
    Signal,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from demur.wire.fields import parse_json
from demur.wire.flat import read_flat
from demur.wire.shapes import read_asked, read_exchange, shape_of_response

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from demur.audit.sdk import ClaimsAuditor
    from demur.http.asgi import HttpResponse, Receive, Scope, Send
    from demur.http.serve import Started
    from demur.model.exchange import Part

__all__ = ["DEFAULT_BODY_S", "DEFAULT_LIMIT_BYTES", "AuditorApp", "read_input", "serve_auditor"]

DEFAULT_LIMIT_BYTES = 16 * 1024 * 1024
DEFAULT_BODY_S = 30.0
# Long bodies that are worked on at a time: each may hold the memory of its whole text several times over.
_MAX_LONG = 4
_LOG = logging.getLogger("demur.auditor")
_PATHS = {"/claims": ("POST",), "/health": ("GET", "HEAD"), "/vocabulary": ("GET", "HEAD")}
_T = TypeVar("_T")
_FAULT = json_error(500, "internal", "a fault of our own")
_LOST = Stated(problems=(Problem("auditor_error", "its thread ended without an answer"),))
_PHASES = {phase.value: phase for phase in Phase}
_FINISHES = {finish.value: finish for finish in Finish}


def serve_auditor(auditor: ClaimsAuditor, *, host: str, port: int, started: Started, limit: int | None = None) -> None:
    """Serve an auditor until the process is told to end."""
    app = AuditorApp(auditor, limit=limit or DEFAULT_LIMIT_BYTES)
    run_app(app, host=host, port=port, started=started)


class AuditorApp:
    """One auditor as an ASGI application."""

    def __init__(
        self,
        auditor: ClaimsAuditor,
        *,
        limit: int = DEFAULT_LIMIT_BYTES,
        body_s: float = DEFAULT_BODY_S,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._bound = BoundAuditor(auditor)
        self._limit = limit
        self._body_s = body_s
        self._now = now
        self._long = asyncio.Semaphore(_MAX_LONG)
        self._identity = {"auditor_id": self._bound.name, "version": self._bound.version}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        try:
            answer = await self._answer(scope, receive)
        except ClientGoneError:
            return
        except Exception as exc:  # noqa: BLE001 — the outermost layer: a fault of ours is an answer too
            # The message of an exception may quote the text that was being read.
            _LOG.error("a fault of our own: %s", type(exc).__name__)
            answer = _FAULT
        await send_response(send, answer, body=scope["method"] != "HEAD")

    async def _answer(self, scope: Scope, receive: Receive) -> HttpResponse:
        path = scope["path"]
        if path not in _PATHS:
            return json_error(404, "not_found", f"there are {', '.join(_PATHS)}")
        if scope["method"] not in _PATHS[path]:
            methods = ", ".join(_PATHS[path])
            return json_error(405, "method_not_allowed", f"use {methods}", headers={"allow": methods})
        if path == "/claims":
            return await self._claims(scope, receive)
        if path == "/health":
            phases = [phase.value for phase in self._bound.phases]
            return json_response(200, {"status": "healthy", **self._identity, "phases": phases})
        claims = [
            {
                "name": spec.name,
                "type": spec.type.value,
                "phase": spec.phase.value,
                "sensitive": spec.sensitive,
                "description": spec.description,
            }
            for spec in self._bound.vocabulary.specs
        ]
        return json_response(200, {**self._identity, "complete": self._bound.complete, "claims": claims})

    async def _claims(self, scope: Scope, receive: Receive) -> HttpResponse:
        if not is_json(scope):
            return json_error(415, "unsupported_media_type", "send application/json")
        try:
            raw = await read_body(scope, receive, limit=self._limit, limit_s=self._body_s)
        except LateBodyError:
            return json_error(408, "late_body", "the body did not come in time", headers={"connection": "close"})
        except SizeLimitError as exc:
            return json_error(413, "too_large", exc.what, headers={"connection": "close"})
        if len(raw) <= LONG_CHARS:
            return await self._judge(_read_body_input(raw), long=False)
        # A long body is parsed and judged in a thread, so that no other request waits for it.
        async with self._long:
            return await self._judge(await _in_thread(lambda: _read_body_input(raw), lost=_FAULT), long=True)

    async def _judge(self, given: AuditorInput | HttpResponse, *, long: bool) -> HttpResponse:
        if not isinstance(given, AuditorInput):
            return given
        if not self._bound.is_sync(given.phase):
            stated = await self._bound.ask_async(given)
        elif long or self._bound.blocking:
            stated = await _in_thread(lambda: self._bound.ask(given), lost=_LOST)
        else:
            stated = self._bound.ask(given)
        at = self._now().isoformat()
        claims: list[dict[str, object]] = [
            {
                "name": claim.name,
                "type": claim.type.value,
                "value": claim.value,
                "timestamp": at,
                "confidence": claim.confidence,
                "metadata": {"sensitive": claim.sensitive},
            }
            for claim in stated.claims
        ]
        # As in Lucid, so that whoever reads the answer finds every name; a policy reads null as absent.
        for name in stated.null:
            spec = self._bound.vocabulary.find(name)
            kind = None if spec is None else spec.type.value
            claims.append({"name": name, "type": kind, "value": None, "timestamp": at})
        status = "error" if stated.problems else "success"
        body: dict[str, object] = {"status": status, **self._identity, "claims": claims}
        if stated.problems:
            first = stated.problems[0]
            _LOG.warning("%s: %s", self._bound.name, first.what)
            said = "; ".join(p.what for p in stated.problems)
            # The names of unsound claims: the caller's policy must not take them for absent.
            body["error"] = {"code": first.code, "message": said, "claims": [name for name, _ in stated.unsound]}
        return json_response(200, body)


def _in_thread(call: Callable[[], _T], *, lost: _T) -> asyncio.Future[_T]:
    return in_daemon_thread(call, name="demur-auditor", lost=lost)


def _read_body_input(raw: bytes) -> AuditorInput | HttpResponse:
    """Return what a body puts to the auditor, or the answer that says what is wrong with it."""
    try:
        body = parse_json(raw)
    except InputError:
        return json_error(400, "bad_json", "the body is not JSON")
    if not isinstance(body, dict):
        return json_error(400, "bad_json", "the body is no JSON object")
    given = body.get("phase")
    phase = _PHASES.get(given) if isinstance(given, str) else None
    if phase is None:
        return json_error(200, "invalid_phase", f"`phase`: expected one of {', '.join(Phase)}")
    data = body.get("data")
    if not isinstance(data, dict):
        return json_error(200, "invalid_input", "`data`: expected an object")
    context = body.get("lucid_context")
    context = context if isinstance(context, dict) else {}
    trace, earlier = context.get("trace_id"), context.get("claims")
    rows = earlier.items() if isinstance(earlier, dict) else ()
    # Claims of earlier stages, as far as JSON has values for them: a mapping is no claim's value.
    claims = {name: tuple(map(str, v)) if isinstance(v, list) else v for name, v in rows if not isinstance(v, dict)}
    try:
        read = read_input(phase, data, trace=trace if isinstance(trace, str) else "")
    except InputError as exc:
        return json_error(200, "invalid_input", exc.what)
    return msgspec.structs.replace(read, claims=claims)


def read_input(phase: Phase, data: Mapping[str, Any], *, trace: str = "") -> AuditorInput:
    """Return what the `data` of an HTTP request asks about; raise `ShapeError` where it has nothing of its phase.

    `input` and `output` are read alike from a text, a mapping of ours, or a provider's whole body.
    """
    given = {} if data.get("metadata") is None else data["metadata"]
    if not isinstance(given, dict):
        raise ShapeError("`data.metadata`: expected an object")
    # Values that are no scalars cannot be metadata in a record; they are left out.
    metadata = {str(key): str(value) for key, value in given.items() if isinstance(value, str | int | float)}
    asked, answered = data.get("input"), data.get("output")
    if phase is Phase.REQUEST:
        return request_input(_read_request(asked, metadata), metadata=metadata, trace=trace)
    if phase is Phase.RESPONSE:
        request = None if asked is None else _read_request(asked, metadata)
        return response_input(_read_response(answered), request, metadata=metadata, trace=trace)
    if asked is None and answered is None:
        raise ShapeError("`data`: expected an `input` or an `output`")
    fields = [each if each is None or isinstance(each, dict) else {"content": each} for each in (asked, answered)]
    return AuditorInput(phase, metadata=metadata, trace=trace, given_input=fields[0], given_output=fields[1])


def _read_request(given: object, metadata: Mapping[str, str]) -> Request:
    """Return the request in `data.input`."""
    model = metadata.get("model_id", "")
    if isinstance(given, str):
        return Request(model, (Message("user", (TextPart(given),)),))
    if isinstance(given, list):
        given = {"messages": given}
    if not isinstance(given, dict):
        raise ShapeError("`data.input`: expected a text, a mapping with a `prompt`, or a provider's request")
    prompt, turns = given.get("prompt"), given.get("messages")
    if not isinstance(prompt, str):
        request = read_asked(given).request
        if request is None:
            raise ShapeError("`data.input`: expected a request")
        return request
    messages: tuple[Message, ...] = (Message("user", (TextPart(prompt),)),)
    if (
        isinstance(turns, list)
        and turns
        and all(isinstance(turn, dict) for turn in turns)
        and all(isinstance(turn.get("role"), str) and isinstance(turn.get("content"), str) for turn in turns)
    ):
        told = tuple(Message(turn["role"], (TextPart(turn["content"]),)) for turn in turns)
        # Turns that say something else than the prompt are not believed: the prompt is what is audited.
        messages = told if prompt_of(Request("", told)) == prompt else messages
    return Request(str(given.get("model") or model), messages)


def _read_response(given: object) -> Response:
    """Return the response in `data.output`."""
    if isinstance(given, str):
        return Response("", (Choice(0, (TextPart(given),)),))
    if not isinstance(given, dict):
        raise ShapeError("`data.output`: expected a text, a mapping with `content`, or a provider's response")
    # Only mappings of our own making have signals beside their content.
    if isinstance(given.get("signals"), list) and "content" in given:
        return _read_own_response(given)
    if "content" in given and isinstance(given["content"], str | None) and shape_of_response(given) is None:
        response = read_flat({**given, "response": given["content"] or ""}).response
    else:
        response = read_exchange(given).response
    if response is None:
        raise ShapeError("`data.output`: expected a response")
    return response


class _ChoiceRow(msgspec.Struct, frozen=True):
    content: str | None = None
    thinking: str | None = None
    refusal: str | None = None
    finish_reason: str | None = None
    finish_raw: str | None = None
    tool_calls: tuple[ToolCallPart, ...] = ()
    index: int | None = None


def _read_own_response(given: dict[str, Any]) -> Response:
    """Return the response that a mapping of our own making was written from.

    It has the same signals, so that an auditor behind HTTP judges what one in the process would.
    """
    choices = []
    try:
        signals = msgspec.convert(given["signals"], tuple[Signal, ...])
        error = msgspec.convert(given.get("error"), ProviderError | None)
        for at, said in enumerate(given.get("choices") or [given]):
            row = msgspec.convert(said, _ChoiceRow)
            parts: list[Part] = [ThinkingPart(row.thinking)] if row.thinking else []
            parts += [TextPart(row.content)] if row.content else []
            parts += [RefusalPart(row.refusal)] if row.refusal else []
            finish = _FINISHES.get(row.finish_reason or "")
            index = at if row.index is None else row.index
            choices.append(Choice(index, (*parts, *row.tool_calls), finish, row.finish_raw))
    except (msgspec.ValidationError, TypeError) as exc:
        raise ShapeError(f"`data.output`: {str(exc)[:1].lower()}{str(exc)[1:]}") from exc
    model, complete = str(given.get("model") or ""), given.get("complete") is not False
    return Response(model, tuple(choices), signals, error, complete=complete)
