"""An auditor over HTTP, by the claims protocol 2.0: `POST /claims`, `GET /health`, `GET /vocabulary`.

Laws: what is wrong with the HTTP (no JSON, too long, a wrong method, path or content type) is a status of 400 and above; what
is wrong with the audit (an unknown phase, a subject that cannot be read, a method that fails, a claim that is not sound) is
answered in band, with 200 and `"status": "error"`, beside the claims that are sound and the names of those that are not; no
text and no exception's message is logged or sent back; a long body is taken apart and looked at in a thread, so that no
request waits for another's.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from demur.audit.chain import LONG_CHARS, in_daemon_thread
from demur.audit.sdk import BoundAuditor
from demur.audit.subjects import read_subject
from demur.errors import InputError, SizeLimitError
from demur.http.asgi import ClientGoneError, LateBodyError, error_answer, is_json, json_answer, read_body, send_answer
from demur.http.serve import run_app
from demur.model.audit import Problem, Stated, Subject
from demur.model.claim import Phase
from demur.wire.document import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from demur.audit.sdk import ClaimsAuditor
    from demur.http.asgi import HttpAnswer, Receive, Scope, Send
    from demur.http.serve import Started
    from demur.model.claim import Claim, ClaimValue

__all__ = ["DEFAULT_BODY_S", "DEFAULT_LIMIT_BYTES", "AuditorApp", "serve_auditor"]

DEFAULT_LIMIT_BYTES = 16 * 1024 * 1024
DEFAULT_BODY_S = 30.0
_MOST_LONG = 4
"""Long bodies that are worked on at a time: each may hold the memory of its whole text several times over."""
_LOG = logging.getLogger("demur.auditor")
_PATHS = {"/claims": ("POST",), "/health": ("GET", "HEAD"), "/vocabulary": ("GET", "HEAD")}
_T = TypeVar("_T")
_FAULT = error_answer(500, "internal", "a fault of our own")
_LOST = Stated(problems=(Problem("auditor_error", "its thread ended without an answer"),))
_PHASES = {phase.value: phase for phase in Phase}


def _utc_now() -> datetime:
    return datetime.now(UTC)


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
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        self._bound = BoundAuditor(auditor)
        self._limit = limit
        self._body_s = body_s
        self._now = now
        self._long = asyncio.Semaphore(_MOST_LONG)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        try:
            answer = await self._answer(scope, receive)
        except ClientGoneError:
            return
        except Exception as exc:  # noqa: BLE001 — the outermost layer: a fault of ours is an answer too
            _LOG.error("a fault of our own: %s", type(exc).__name__)
            answer = _FAULT
        await send_answer(send, answer, body=scope["method"] != "HEAD")

    async def _answer(self, scope: Scope, receive: Receive) -> HttpAnswer:
        allowed = _PATHS.get(scope["path"])
        if allowed is None:
            return error_answer(404, "not_found", f"there are {', '.join(_PATHS)}")
        if scope["method"] not in allowed:
            methods = ", ".join(allowed)
            return error_answer(405, "method_not_allowed", f"use {methods}", headers={"allow": methods})
        if scope["path"] == "/health":
            return self._health()
        if scope["path"] == "/vocabulary":
            return self._vocabulary()
        return await self._claims(scope, receive)

    def _health(self) -> HttpAnswer:
        phases = [phase.value for phase in self._bound.phases]
        return json_answer(200, {"status": "healthy", **self._identity(), "phases": phases})

    def _vocabulary(self) -> HttpAnswer:
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
        return json_answer(200, {**self._identity(), "complete": self._bound.complete, "claims": claims})

    async def _claims(self, scope: Scope, receive: Receive) -> HttpAnswer:
        if not is_json(scope):
            return error_answer(415, "unsupported_media_type", "send application/json")
        try:
            raw = await read_body(scope, receive, limit=self._limit, limit_s=self._body_s)
        except LateBodyError:
            return error_answer(408, "late_body", "the body did not come in time", headers={"connection": "close"})
        except SizeLimitError as exc:
            return error_answer(413, "too_large", exc.what, headers={"connection": "close"})
        if len(raw) <= LONG_CHARS:
            return await self._answered(_subject_in(raw), long=False)
        async with self._long:
            return await self._answered(await _elsewhere(lambda: _subject_in(raw), lost=_FAULT), long=True)

    async def _answered(self, subject: Subject | HttpAnswer, *, long: bool) -> HttpAnswer:
        return self._written(await self._ask(subject, long=long)) if isinstance(subject, Subject) else subject

    async def _ask(self, subject: Subject, *, long: bool) -> Stated:
        if not self._bound.straight(subject.phase):
            return await self._bound.ask_later(subject)
        if long or self._bound.blocking:
            return await _elsewhere(lambda: self._bound.ask_now(subject), lost=_LOST)
        return self._bound.ask_now(subject)

    def _written(self, stated: Stated) -> HttpAnswer:
        at = self._now().isoformat()
        body: dict[str, object] = {
            "status": "error" if stated.problems else "success",
            **self._identity(),
            "claims": [_claim_row(claim, at) for claim in stated.claims],
        }
        if stated.problems:
            first = stated.problems[0]
            _LOG.warning("%s: %s", self._bound.name, first.what)
            said = "; ".join(p.what for p in stated.problems)
            body["error"] = {"code": first.code, "message": said, "claims": [name for name, _ in stated.unsound]}
        return json_answer(200, body)

    def _identity(self) -> dict[str, str]:
        return {"auditor_id": self._bound.name, "version": self._bound.version}


def _elsewhere(call: Callable[[], _T], *, lost: _T) -> asyncio.Future[_T]:
    return in_daemon_thread(call, name="demur-auditor", lost=lost)


def _subject_in(raw: bytes) -> Subject | HttpAnswer:
    """Return what a body puts to the auditor, or the answer that says what is wrong with it."""
    try:
        body = parse_json(raw)
    except InputError:
        return error_answer(400, "bad_json", "the body is not JSON")
    if not isinstance(body, dict):
        return error_answer(400, "bad_json", "the body is no JSON object")
    given = body.get("phase")
    phase = _PHASES.get(given) if isinstance(given, str) else None
    if phase is None:
        return error_answer(200, "invalid_phase", f"`phase`: expected one of {', '.join(Phase)}")
    data = body.get("data")
    if not isinstance(data, dict):
        return error_answer(200, "invalid_input", "`data`: expected an object")
    try:
        return replace(read_subject(phase, data, trace=_trace(body)), claims=_earlier(body))
    except InputError as exc:
        return error_answer(200, "invalid_input", exc.what)


def _claim_row(claim: Claim, at: str) -> dict[str, object]:
    return {
        "name": claim.name,
        "type": claim.type.value,
        "value": claim.value,
        "timestamp": at,
        "confidence": claim.confidence,
        "metadata": {"sensitive": claim.sensitive},
    }


def _context(body: dict[str, Any], name: str) -> object:
    context = body.get("lucid_context")
    return context.get(name) if isinstance(context, dict) else None


def _trace(body: dict[str, Any]) -> str:
    trace = _context(body, "trace_id")
    return trace if isinstance(trace, str) else ""


def _earlier(body: dict[str, Any]) -> dict[str, ClaimValue]:
    """Return what auditors of earlier stages stated, as far as it can be a claim's value."""
    given = _context(body, "claims")
    rows = given.items() if isinstance(given, dict) else ()
    return {name: tuple(map(str, v)) if isinstance(v, list) else v for name, v in rows if not isinstance(v, dict)}
