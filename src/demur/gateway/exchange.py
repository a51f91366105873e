"""One audited exchange: the request is decided, forwarded, its response decided, recorded and sent.

Nothing reaches the provider before the request was decided, nothing the client that a rule withholds. The bytes that pass
are those that came. Whatever goes wrong ends in a response of the client's provider's format and in a record.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from demur.audit.builtin import response_verdict
from demur.audit.inputs import request_input, response_input
from demur.detect.check import classify
from demur.errors import SizeLimitError, UpstreamError, UpstreamTimeoutError
from demur.gateway.guard.whole import read_whole_response
from demur.gateway.keys import credential_of
from demur.gateway.request import request_in
from demur.gateway.responses import (
    OUR_HEADERS,
    cut_event,
    denial_response,
    refusal_response,
    refusal_stream,
    response_headers,
)
from demur.gateway.settings import DenyStyle, OnFailure
from demur.gateway.state import ExchangeState, Principal, TextSeal, plain_name
from demur.gateway.stream import StreamPassage
from demur.gateway.upstream import ResponseReading, collect_body, forward_request, is_stream
from demur.http.asgi import ClientGoneError, ClientWatch, HttpProblem, HttpResponse, body_within, problem_response
from demur.io.log import LogEvent, log_event
from demur.model.claim import Phase
from demur.model.exchange import Shape
from demur.model.passport import Coverage, StreamMode

if TYPE_CHECKING:
    from demur.gateway.keys import ClientKey
    from demur.gateway.request import AuditedRoute
    from demur.gateway.upstream import Provider
    from demur.gateway.worker import Worker
    from demur.http.asgi import Receive, Scope, TimedSender
    from demur.http.upstream import Headers, UpstreamResponse
    from demur.model.claim import Decision

__all__ = ["ServedExchange"]

_OK = 200
_FAULT = 500
_CLIENT_LEFT = 499
_WRITTEN_HERE = OUR_HEADERS | {b"content-length"}
_CLOSE = ((b"connection", b"close"),)
_TOO_SLOW = HttpProblem(408, "request_timeout", "The request did not come in time.", headers=_CLOSE)
_NO_RECORD = HttpProblem(503, "record_unavailable", "The exchange could not be put on record.")
_NO_POLICY = HttpProblem(503, "policy_unavailable", "The policy of this gateway cannot be read.")
_UNREADABLE = HttpProblem(
    502, "answer_unreadable", "The provider's answer is in a coding that this gateway cannot read."
)


class ServedExchange:
    """One exchange; made for it, and gone with it."""

    def __init__(
        self,
        worker: Worker,
        scope: Scope,
        receive: Receive,
        *,
        out: TimedSender,
        route: AuditedRoute,
        provider: Provider,
        client: ClientKey | None,
    ) -> None:
        self._worker, self._scope, self._receive, self._out = worker, scope, receive, out
        self._route, self._provider, self._client = route, provider, client
        self._headers: Headers = scope["headers"]
        self._opened: ExchangeState | None = None
        # A store that is known to be down is counted once, though recording the rejection fails too.
        self._is_recorded = self._is_store_counted = False
        self._store_closed = worker.settings.failure.store is OnFailure.CLOSED

    @property
    def _state(self) -> ExchangeState:
        return self._opened or self._open(b"")

    def _open(self, body: bytes) -> ExchangeState:
        trace = next((value.decode("latin-1") for name, value in self._headers if name == b"traceparent"), None)
        self._opened = self._worker.open_exchange(self._route, body, client=self._client, traceparent=trace)
        return self._opened

    async def serve(self) -> None:
        """Serve it to its end; raise `ClientGoneError` where the client left before it had asked."""
        limits, times = self._worker.settings.limits, self._worker.settings.timeouts
        try:
            body = await body_within(
                self._scope, self._receive, limit_bytes=limits.body_bytes, limit_s=times.slow_client_s
            )
        except SizeLimitError as exc:
            sentence = f"{exc.what[:1].upper()}{exc.what[1:]}."
            await self.answer_error(HttpProblem(413, "request_too_large", sentence, headers=_CLOSE))
            return
        except TimeoutError:
            await self.answer_error(_TOO_SLOW)
            return
        state = self._open(body)
        try:
            problem = await self.decide_request()
            if problem is not None:
                await self.answer_error(problem)
            elif not state.blocked:
                await self.forward()
        finally:
            if not self._is_recorded:
                # A fault of ours: the exchange is withheld, or what was sent of it was not read to its end.
                state.status, state.fault = _FAULT, state.fault or "gateway"
                state.blocked = state.blocked or not self._out.begun
                if self._out.begun:
                    state.add_gap(Phase.RESPONSE, "unscanned")
                await self.record(durable=False)

    async def decide_request(self) -> HttpProblem | None:
        """Read, name and decide the request; return why it cannot be, answer it where it is denied."""
        state, worker = self._state, self._worker
        began = time.perf_counter()
        read = request_in(
            state.request_bytes, self._scope, self._route, limit_bytes=worker.settings.limits.decoded_bytes
        )
        if isinstance(read, HttpProblem):
            return read
        state.request, body = read
        owner = credential_of(self._headers)
        session = worker.sessions.name(state.request, body, headers=self._headers, owner=owner)
        labels = (*self._client.labels, f"client:{self._client.name}") if self._client else ()
        state.principal = Principal(session, plain_name(state.request.model or self._route.model), labels)
        if worker.policy.denies_all:
            return _NO_POLICY
        # The files are broken and the last good policy decides: the record says so.
        if worker.policy.stale:
            state.add_gap(Phase.REQUEST, "policy_stale")
        if state.request.stream and worker.writer.failure is not None and self._store_closed:
            # A stream cannot be taken back once it runs; recording this very rejection tells whether the store is back.
            worker.metrics.count_failure("store", opened=False)
            self._is_store_counted = True
            return _NO_RECORD
        audit = await worker.audit(request_input(state.request, metadata=self._metadata(), trace=state.id))
        record = state.decide(audit)
        blocks = state.add_phase(audit, record)
        worker.metrics.observe_added(Phase.REQUEST, time.perf_counter() - began)
        if blocks:
            await self.deny(record.decision)
        return None

    async def forward(self) -> None:
        """Ask the provider and pass its response on."""
        state, worker = self._state, self._worker
        stream = state.request is not None and state.request.stream
        asked = forward_request(
            self._scope,
            provider=self._provider,
            has_keys=worker.keys is not None,
            body=state.request_bytes,
            reading=ResponseReading.EVENTS if stream else ResponseReading.WHOLE,
        )
        response: UpstreamResponse | None = None
        passage: StreamPassage | None = None
        tail = b""
        body: tuple[bytes, bytes | None] | HttpProblem = (b"", b"")
        try:
            # A client that goes away cancels the upstream request: nobody would read the response.
            async with ClientWatch(self._receive, self._scope):
                began = time.perf_counter()
                response = await self._provider.pool.send(asked)
                worker.metrics.observe_upstream(time.perf_counter() - began)
                state.upstream_status = response.status
                if is_stream(response, asked_for=stream):
                    seal = TextSeal(next(worker.salts), keep=worker.disclosures is not None)
                    passage = StreamPassage(worker, state, response, out=self._out, seal=seal)
                    tail = await passage.run()
                else:
                    body = await collect_body(response, limit_bytes=worker.settings.limits.decoded_bytes)
        except UpstreamError as exc:
            await self.upstream_failed(exc)
            return
        except ClientGoneError:
            if response is not None:
                await response.body.aclose()
            await self.client_left(passage)
            return
        if passage is not None and passage.body is None:
            await self.end_stream(passage, tail)
        elif response is not None:
            if passage is not None and passage.body is not None:
                # What was no stream was read to its end, and decoded on the way.
                kept = tuple(pair for pair in response.headers if pair[0] != b"content-encoding")
                response, body = replace(response, headers=kept), (passage.body, passage.body)
            await self.decide_response(response, body)

    async def decide_response(self, response: UpstreamResponse, body: tuple[bytes, bytes | None] | HttpProblem) -> None:
        """Decide a whole response and send it as it came."""
        if isinstance(body, HttpProblem):
            await self.answer_error(body)
            return
        state, worker = self._state, self._worker
        began = time.perf_counter()
        raw, plain = body
        seal = TextSeal(next(worker.salts), keep=worker.disclosures is not None)
        seal.add(raw)
        state.seal_response(seal)
        # What cannot be read cannot be decided: it passes only where no rule could withhold it, and then with a gap.
        if plain is None and state.holds:
            await self.answer_error(_UNREADABLE)
            return
        state.response = read_whole_response(plain or b"", self._route.shape, status=response.status)
        given = response_input(state.response, state.request, metadata=self._metadata(), trace=state.id)
        state.verdict = response_verdict(given)
        audit = await worker.audit(given)
        record = state.decide(audit)
        size = len(raw if plain is None else plain)
        blocks = state.add_phase(audit, record, Coverage(StreamMode.WHOLE, 0 if plain is None else size, size))
        if plain is None:
            state.add_gap(Phase.RESPONSE, "unscanned")
        self._remember()
        worker.metrics.observe_added(Phase.RESPONSE, time.perf_counter() - began)
        if blocks:
            await self.deny(record.decision)
            return
        state.status = response.status
        # On record before the first byte goes out: with `closed` no response is sent that the log does not have.
        if not await self.record(durable=False):
            await self._out.answer(problem_response(_NO_RECORD, self._route.shape))
            return
        ours = response_headers(state.decisions, passport=state.id, session=state.principal.session)
        kept = [pair for pair in response.headers if pair[0] not in _WRITTEN_HERE]
        await self._out.answer(HttpResponse(response.status, raw, (*kept, *ours)))

    async def end_stream(self, passage: StreamPassage, tail: bytes) -> None:
        """End a stream, once it is on record."""
        state = self._state
        passage.conclude()
        self._remember()
        state.status = state.upstream_status
        # The stream's last bytes wait for the record; without it, the stream ends as an error.
        if not await self.record(durable=state.blocked):
            tail = cut_event(self._route.shape, _NO_RECORD.message)
        if not self._out.begun:
            await self._out.start(state.upstream_status or _OK, passage.head())
        await self._out.piece(tail, more=False)

    async def client_left(self, passage: StreamPassage | None) -> None:
        """Record an exchange whose client went away."""
        log_event(LogEvent.CLIENT_GONE, shape=self._route.label)
        if passage is not None:
            await passage.client_left()
            passage.conclude()
        else:
            self._state.add_gap(Phase.RESPONSE, "client_gone")
        await self.record(durable=False)

    async def upstream_failed(self, exc: UpstreamError) -> None:
        """Answer for a provider that did not."""
        state, worker = self._state, self._worker
        state.fault = exc.fault
        worker.metrics.count_upstream_failure(exc)
        log_event(LogEvent.UPSTREAM_FAILED, fault=exc.fault, timeout=getattr(exc, "which", None))
        # Nothing came back: the verdict on a missing response is `failed`, never `complied`.
        state.verdict = classify(None)
        late = isinstance(exc, UpstreamTimeoutError)
        code = "upstream_timeout" if late else f"upstream_{exc.fault}"
        sentence = "The provider did not answer in time." if late else "The provider could not be asked."
        await self.answer_error(HttpProblem(504 if late else 502, code, sentence), blocked=False)

    async def deny(self, decision: Decision) -> None:
        """Answer in place of the provider, once the denial is on record."""
        state, shape = self._state, self._route.shape
        state.blocked = True
        named = {"passport": state.id, "session": state.principal.session}
        if self._worker.settings.deny is DenyStyle.ERROR:
            response = denial_response(decision, shape, **named)
        elif state.request is not None and state.request.stream:
            response = refusal_stream(decision, shape, **named)
        else:
            response = refusal_response(decision, shape, model=state.principal.model, **named)
        state.status = response.status
        # The client will get its denial whatever the store does, so this record must not be dropped: it is durable first.
        await self.record(durable=True)
        await self._out.answer(response)

    async def answer_error(self, problem: HttpProblem, *, blocked: bool = True) -> None:
        """Record and answer what cannot be served."""
        state = self._state
        state.blocked = blocked
        state.status = problem.status
        await self.record(durable=False)
        await self._out.answer(problem_response(problem, self._route.shape))

    async def record(self, *, durable: bool) -> bool:
        """Put the exchange on record; return whether it may go on: it is, or the settings let it go on without."""
        state, worker = self._state, self._worker
        self._is_recorded = True
        kept = await worker.record(state, durable=durable)
        if not kept and self._store_closed and not state.blocked and not self._out.begun:
            state.status = _NO_RECORD.status
        worker.publish(state)
        client = state.client.name if state.client else None
        worker.metrics.count_response(self._route.label, state.status or _CLIENT_LEFT, client=client)
        if kept or self._is_store_counted:
            return kept
        worker.metrics.count_failure("store", opened=not self._store_closed)
        log_event(LogEvent.FAILED_CLOSED if self._store_closed else LogEvent.FAILED_OPEN, part="store")
        if not self._store_closed:
            # There is no record to put this gap on: only the metrics have it.
            worker.metrics.count_gap(Phase.RESPONSE, "unrecorded")
        return not self._store_closed

    def _remember(self) -> None:
        """Take note of a response that later requests may refer back to, as only one API lets them."""
        state = self._state
        if self._route.shape is Shape.OPENAI_RESPONSES and state.response is not None:
            owner = credential_of(self._headers)
            self._worker.sessions.remember(state.response.id, state.principal.session, owner=owner)

    def _metadata(self) -> dict[str, str]:
        principal = self._state.principal
        found = {"model_id": principal.model, "session_id": principal.session}
        return found | ({"user_id": self._client.name} if self._client else {})
