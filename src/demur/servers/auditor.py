"""An auditor over HTTP, by the claims protocol 2.0: `POST /claims`, `GET /health`, `GET /vocabulary`.

Laws: what is wrong with the HTTP (no JSON, too long, a wrong method, path or content type) is a status of 400 and above; what
is wrong with the audit (an unknown phase, a subject that cannot be read, a method that fails, a claim that is not sound) is
answered in band, with 200 and `"status": "error"`, beside the claims that are sound; no text and no exception's message is
logged or sent back.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from demur.errors import InputError, SizeLimitError
from demur.model.claim import Phase
from demur.pipeline.auditors import BoundAuditor
from demur.pipeline.subjects import read_subject
from demur.servers.asgi import (
    ClientGoneError,
    error_answer,
    is_json,
    json_answer,
    read_body,
    run_app,
    send_answer,
)
from demur.wire.document import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from demur.model.audit import Stated, Subject
    from demur.model.claim import Claim, ClaimValue
    from demur.pipeline.auditors import ClaimsAuditor
    from demur.servers.asgi import HttpAnswer, Receive, Scope, Send, Started

__all__ = ["DEFAULT_LIMIT_BYTES", "AuditorApp", "serve_auditor"]

DEFAULT_LIMIT_BYTES = 16 * 1024 * 1024
_LOG = logging.getLogger("demur.auditor")
_PATHS = {"/claims": ("POST",), "/health": ("GET", "HEAD"), "/vocabulary": ("GET", "HEAD")}
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
        self, auditor: ClaimsAuditor, *, limit: int = DEFAULT_LIMIT_BYTES, now: Callable[[], datetime] = _utc_now
    ) -> None:
        self._bound = BoundAuditor(auditor)
        self._limit = limit
        self._now = now

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
            answer = error_answer(500, "internal", "a fault of our own")
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
            body = parse_json(await read_body(scope, receive, limit=self._limit))
        except SizeLimitError as exc:
            return error_answer(413, "too_large", exc.what, headers={"connection": "close"})
        except InputError:
            return error_answer(400, "bad_json", "the body is not JSON")
        if not isinstance(body, dict):
            return error_answer(400, "bad_json", "the body is no JSON object")
        return await self._audited(body)

    async def _audited(self, body: dict[str, Any]) -> HttpAnswer:
        given = body.get("phase")
        phase = _PHASES.get(given) if isinstance(given, str) else None
        if phase is None:
            return error_answer(200, "invalid_phase", f"`phase`: expected one of {', '.join(Phase)}")
        data = body.get("data")
        if not isinstance(data, dict):
            return error_answer(200, "invalid_input", "`data`: expected an object")
        try:
            subject = replace(read_subject(phase, data, trace=_trace(body)), claims=_earlier(body))
        except InputError as exc:
            return error_answer(200, "invalid_input", exc.what)
        return self._written(await self._ask(subject))

    async def _ask(self, subject: Subject) -> Stated:
        if not self._bound.straight(subject.phase):
            return await self._bound.ask_later(subject)
        if self._bound.blocking:
            return await asyncio.to_thread(self._bound.ask_now, subject)
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
            body["error"] = {"code": first.code, "message": "; ".join(p.what for p in stated.problems)}
        return json_answer(200, body)

    def _identity(self) -> dict[str, str]:
        return {"auditor_id": self._bound.name, "version": self._bound.version}


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
