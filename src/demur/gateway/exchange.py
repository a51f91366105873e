"""How does one audited exchange go: asked, decided, carried, answered, decided again, recorded?

Laws: nothing reaches the provider before the request was decided, nothing the client that a rule withholds; the bytes that pass are
those that came; whatever goes wrong ends in an answer of the client's provider's shape and in a record; a failure of ours
is closed or open by the settings, and counted as what it was.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from demur.audit.builtin import response_verdict
from demur.audit.inputs import request_input, response_input
from demur.detect.check import classify
from demur.errors import SizeLimitError, UpstreamError, UpstreamTimeoutError
from demur.gateway.answers import OUR_HEADERS, answer_headers, cut_event, denied_answer, refusal_answer, refusal_stream
from demur.gateway.arrival import ANSWER_TOO_LARGE, collected, is_stream
from demur.gateway.forward import AnswerReading, credential_of, forwarded
from demur.gateway.guard.whole import read_answer
from demur.gateway.passporting import Asker, plain_name, weigh
from demur.gateway.reading import read_asked_body
from demur.gateway.record import Dossier, TextSeal, file_exchange, open_dossier, tell_everybody
from demur.gateway.settings import DenyStyle, OnFailure
from demur.gateway.stream import StreamPassage
from demur.http.asgi import ClientGoneError, HttpProblem, HttpResponse, problem_response
from demur.http.client import ClientWatch, body_within
from demur.http.paths import plain_path
from demur.io.log import LogEvent, log_event
from demur.model.claim import Phase
from demur.model.exchange import Shape
from demur.model.passport import Coverage, EnforcementGap, StreamMode

if TYPE_CHECKING:
    from demur.gateway.keys import ClientKey
    from demur.gateway.routes import AuditedRoute
    from demur.gateway.worker import GatewayParts
    from demur.http.asgi import Receive, Scope
    from demur.http.client import TimedSender
    from demur.http.upstream import Headers, UpstreamResponse
    from demur.model.claim import Decision
    from demur.model.exchange import Response

__all__ = ["ServedExchange"]

_OK = 200
_FAULT = 500
_WRITTEN_HERE = OUR_HEADERS | {b"content-length"}
_NO_RECORD = HttpProblem(503, "record_unavailable", "The exchange could not be put on record.")
_NO_POLICY = HttpProblem(503, "policy_unavailable", "The policy of this gateway cannot be read.")
_UNREADABLE = HttpProblem(
    502, "answer_unreadable", "The provider's answer is in a coding that this gateway cannot read."
)


class ServedExchange:
    """One exchange; made for it, and gone with it."""

    def __init__(
        self,
        parts: GatewayParts,
        scope: Scope,
        receive: Receive,
        *,
        out: TimedSender,
        route: AuditedRoute,
        headers: Headers,
        client: ClientKey | None,
    ) -> None:
        self._parts, self._scope, self._receive, self._out = parts, scope, receive, out
        self._route, self._headers, self._client = route, headers, client
        self._dossier: Dossier | None = None
        self._is_filed = self._is_store_counted = False

    @property
    def _case(self) -> Dossier:
        if self._dossier is None:
            self._open(b"")
        assert self._dossier is not None  # noqa: S101 — opened above
        return self._dossier

    async def serve(self) -> None:
        """Serve it to its end; raise `ClientGoneError` where the client left before it had asked."""
        limits, times = self._parts.settings.limits, self._parts.settings.timeouts
        try:
            body = await body_within(
                self._scope, self._receive, limit_bytes=limits.body_bytes, limit_s=times.slow_client_s
            )
        except SizeLimitError as exc:
            close = ((b"connection", b"close"),)
            await self._answer_problem(HttpProblem(413, "request_too_large", _as_sentence(exc.what), headers=close))
            return
        except TimeoutError:
            close = ((b"connection", b"close"),)
            await self._answer_problem(
                HttpProblem(408, "request_timeout", "The request did not come in time.", headers=close)
            )
            return
        self._open(body)
        try:
            problem = await self._asked()
            if problem is not None:
                await self._answer_problem(problem)
            elif not self._case.blocked:
                await self._carried()
        finally:
            if not self._is_filed:
                await self._faulted()

    async def _faulted(self) -> None:
        """Record an exchange that a fault of ours ended: it is withheld, or what was sent of it was not read to its end."""
        case = self._case
        case.status, case.fault = _FAULT, case.fault or "gateway"
        case.blocked = case.blocked or not self._out.begun
        if self._out.begun:
            case.gap(Phase.RESPONSE, "unscanned")
        await self._filed(durable=False)

    def _open(self, body: bytes) -> None:
        trace = next((value.decode("latin-1") for name, value in self._headers if name == b"traceparent"), None)
        self._dossier = open_dossier(self._parts, self._route, body, client=self._client, traceparent=trace)

    async def _asked(self) -> HttpProblem | None:
        """Read, name and decide the request; return why it cannot be, answer it where it is denied."""
        case, parts = self._case, self._parts
        began = time.perf_counter()
        read = read_asked_body(
            case.request_bytes, self._scope, self._route, limit_bytes=parts.settings.limits.decoded_bytes
        )
        if isinstance(read, HttpProblem):
            return read
        case.request, body = read
        owner = credential_of(self._headers)
        session = parts.sessions.name(case.request, body, headers=self._headers, owner=owner)
        labels = (*self._client.labels, f"client:{self._client.name}") if self._client else ()
        case.asker = Asker(session, plain_name(case.request.model or self._route.model), labels)
        if parts.policy.denies_all:
            return _NO_POLICY
        if parts.policy.stale:
            case.gap(Phase.REQUEST, "policy_stale")
        if case.request.stream and parts.writer.failure is not None and self._store_closed:
            # A stream cannot be taken back once it runs; filing this very refusal tells whether the store is back.
            parts.metrics.failed("store", opened=False)
            self._is_store_counted = True
            return _NO_RECORD
        given = request_input(case.request, metadata=self._metadata(), trace=case.passport)
        weighed = weigh(case.gate, await parts.audit(given), asker=case.asker)
        case.decided(weighed)
        parts.metrics.added(Phase.REQUEST, time.perf_counter() - began)
        if weighed.blocks:
            await self._denied(weighed.decision)
        return None

    async def _carried(self) -> None:
        """Ask the provider and pass its answer on."""
        case, parts = self._case, self._parts
        provider = parts.provider_of(plain_path(self._scope["path"]))
        stream = case.request is not None and case.request.stream
        asked = forwarded(
            self._scope,
            self._headers,
            provider=provider,
            has_ring=parts.keys is not None,
            body=case.request_bytes,
            reading=AnswerReading.EVENTS if stream else AnswerReading.WHOLE,
        )
        answer: UpstreamResponse | None = None
        passage: StreamPassage | None = None
        tail = b""
        whole: tuple[bytes, bytes | None] | HttpProblem = (b"", b"")
        try:
            async with ClientWatch(self._receive, self._scope):
                began = time.perf_counter()
                answer = await provider.pool.send(asked)
                parts.metrics.waited(time.perf_counter() - began)
                case.upstream_status = answer.status
                if is_stream(answer, asked_for=stream):
                    seal = TextSeal(next(parts.salts), keep=parts.disclosures is not None)
                    passage = StreamPassage(parts, case, answer, out=self._out, seal=seal)
                    tail = await passage.run()
                else:
                    whole = await collected(answer, limit_bytes=parts.settings.limits.decoded_bytes)
        except UpstreamError as exc:
            await self._failed(exc)
        except ClientGoneError:
            if answer is not None:
                await answer.body.aclose()
            await self._left(passage)
        else:
            if passage is None:
                await self._answered(answer, whole)
            elif passage.body is not None and answer is not None:
                # What was no stream was read to its end, and decoded on the way.
                kept = tuple(pair for pair in answer.headers if pair[0] != b"content-encoding")
                await self._answered(replace(answer, headers=kept), (passage.body, passage.body))
            else:
                await self._streamed(passage, tail)

    async def _answered(self, answer: UpstreamResponse | None, whole: tuple[bytes, bytes | None] | HttpProblem) -> None:
        """Decide a whole answer and send it as it came."""
        if isinstance(whole, HttpProblem) or answer is None:
            await self._answer_problem(whole if isinstance(whole, HttpProblem) else ANSWER_TOO_LARGE)
            return
        case, parts = self._case, self._parts
        began = time.perf_counter()
        raw, plain = whole
        case.answer_text(raw, next(parts.salts), keep=parts.disclosures is not None)
        if plain is None and case.holds:
            await self._answer_problem(_UNREADABLE)
            return
        case.response = read_answer(plain or b"", self._route.shape, status=answer.status)
        given = response_input(case.response, case.request, metadata=self._metadata(), trace=case.passport)
        case.verdict = response_verdict(given)
        weighed = weigh(case.gate, await parts.audit(given), asker=case.asker)
        size = len(raw if plain is None else plain)
        case.decided(weighed, Coverage(StreamMode.WHOLE, 0 if plain is None else size, size))
        if plain is None:
            case.gap(Phase.RESPONSE, "unscanned")
        self._remember(case.response)
        parts.metrics.added(Phase.RESPONSE, time.perf_counter() - began)
        if weighed.blocks:
            await self._denied(weighed.decision)
            return
        case.status = answer.status
        if not await self._filed(durable=False):
            await self._out.answer(problem_response(_NO_RECORD, self._route.shape))
            return
        ours = answer_headers(case.decisions, passport=case.passport, session=case.asker.session)
        kept = [pair for pair in answer.headers if pair[0] not in _WRITTEN_HERE]
        await self._out.answer(HttpResponse(answer.status, raw, (*kept, *ours)))

    async def _streamed(self, passage: StreamPassage, tail: bytes) -> None:
        """End a stream, once it is on record."""
        case = self._case
        passage.conclude()
        if case.response is not None:
            self._remember(case.response)
        case.status = case.upstream_status
        if not await self._filed(durable=case.blocked):
            tail = cut_event(self._route.shape, _NO_RECORD.message)
        if not self._out.begun:
            await self._out.start(case.upstream_status or _OK, passage.head())
        await self._out.piece(tail, more=False)

    async def _left(self, passage: StreamPassage | None) -> None:
        """Record an exchange whose client went away."""
        case = self._case
        log_event(LogEvent.CLIENT_GONE, shape=self._route.label)
        if passage is not None:
            await passage.gone()
            passage.conclude()
        else:
            case.gap(Phase.RESPONSE, "client_gone")
        await self._filed(durable=False)

    async def _failed(self, exc: UpstreamError) -> None:
        """Answer for a provider that did not."""
        case, parts = self._case, self._parts
        case.fault = exc.fault
        parts.metrics.upstream_failed(exc)
        log_event(LogEvent.UPSTREAM_FAILED, fault=exc.fault, timeout=getattr(exc, "which", None))
        case.verdict = classify(None)
        late = isinstance(exc, UpstreamTimeoutError)
        code = "upstream_timeout" if late else f"upstream_{exc.fault}"
        sentence = "The provider did not answer in time." if late else "The provider could not be asked."
        await self._answer_problem(HttpProblem(504 if late else 502, code, sentence), blocked=False)

    async def _denied(self, decision: Decision) -> None:
        """Answer in place of the provider, once the denial is on record."""
        case, shape = self._case, self._route.shape
        case.blocked = True
        named = {"passport": case.passport, "session": case.asker.session}
        if self._parts.settings.deny is DenyStyle.ERROR:
            answer = denied_answer(decision, shape, **named)
        elif case.request is not None and case.request.stream:
            answer = refusal_stream(decision, shape, **named)
        else:
            answer = refusal_answer(decision, shape, model=case.asker.model, **named)
        case.status = answer.status
        await self._filed(durable=True)
        await self._out.answer(answer)

    async def _answer_problem(self, problem: HttpProblem, *, blocked: bool = True) -> None:
        """Record and answer what cannot be served."""
        case = self._case
        case.blocked = blocked
        case.status = problem.status
        await self._filed(durable=False)
        await self._out.answer(problem_response(problem, self._route.shape))

    async def _filed(self, *, durable: bool) -> bool:
        """Put the exchange on record; return whether it may go on: it is, or a store that is down is open."""
        case, parts = self._case, self._parts
        self._is_filed = True
        filed = await file_exchange(parts, case, durable=durable)
        if not filed.kept and self._store_closed and not case.blocked and not self._out.begun:
            case.status = _NO_RECORD.status
        tell_everybody(parts, case, filed.facts)
        parts.metrics.answered(self._route.label, case.status or 499, client=case.client.name if case.client else None)
        if filed.kept or self._is_store_counted:
            return filed.kept
        parts.metrics.failed("store", opened=not self._store_closed)
        event = LogEvent.FAILED_CLOSED if self._store_closed else LogEvent.FAILED_OPEN
        log_event(event, part="store")
        if not self._store_closed:
            # There is no record to put this gap on: it stands in the figures alone.
            parts.metrics.gaps((EnforcementGap(Phase.RESPONSE, "unrecorded"),))
        return not self._store_closed

    def _remember(self, answer: Response) -> None:
        """Take note of an answer that later requests may refer back to, as only one API lets them."""
        if self._route.shape is Shape.OPENAI_RESPONSES:
            owner = credential_of(self._headers)
            self._parts.sessions.remember(answer.id, self._case.asker.session, owner=owner)

    @property
    def _store_closed(self) -> bool:
        return self._parts.settings.failure.store is OnFailure.CLOSED

    def _metadata(self) -> dict[str, str]:
        found = {"model_id": self._case.asker.model, "session_id": self._case.asker.session}
        return found | ({"user_id": self._client.name} if self._client else {})


def _as_sentence(what: str) -> str:
    return f"{what[:1].upper()}{what[1:]}."
