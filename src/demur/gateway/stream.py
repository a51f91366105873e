"""One streamed response on its way: read as it comes, held back where a rule could withhold it, recorded as it ended.

The head goes out with the first byte that may, so that what turns out to be no stream is still answered whole; the last
bytes wait for the record. What was not scanned is never recorded as scanned.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from demur.audit.builtin import response_verdict
from demur.audit.inputs import response_input
from demur.detect.check import classify
from demur.errors import InputError, ShapeError, UpstreamError, UpstreamProtocolError
from demur.gateway.guard.guard import open_guard
from demur.gateway.guard.values import FinishReason, GuardEnd, GuardLimits, GuardMode
from demur.gateway.responses import OUR_HEADERS, cut_event, denial_of, response_headers
from demur.gateway.settings import OnFailure, StreamWord
from demur.gateway.state import ENFORCED
from demur.gateway.upstream import coding_of
from demur.http.content_coding import body_decoder
from demur.io.log import LogEvent, log_event
from demur.model.claim import Phase
from demur.wire.fields import ServerEvent
from demur.wire.shapes import CODECS

if TYPE_CHECKING:
    from demur.audit.inputs import AuditorInput
    from demur.gateway.guard.values import GuardStep, ScanText
    from demur.gateway.settings import StreamingPart
    from demur.gateway.state import ExchangeState, TextSeal
    from demur.gateway.worker import Worker
    from demur.http.asgi import TimedSender
    from demur.http.upstream import Headers, UpstreamResponse
    from demur.model.claim import Audit
    from demur.model.exchange import Response, Shape
    from demur.model.passport import PhaseRecord
    from demur.wire.sse import RawEvent

__all__ = ["StreamPassage", "guard_mode"]

# Characters, as they came, that the longest phrase of our own packs can take (see `detect.stream`).
_MAX_PHRASE_CHARS = 400
_READ_EVERY_BYTES = 64 * 1024
_NO_LENGTH = OUR_HEADERS | {b"content-length", b"content-encoding"}
_CUT = "The provider broke the answer off."


def guard_mode(part: StreamingPart, *, holds: bool) -> tuple[GuardMode, int]:
    """Return how a stream passes where a rule may withhold it or none can, and how long the window is."""
    if part.mode is not StreamWord.AUTO:
        return GuardMode(part.mode.value), part.window_chars
    mode = GuardMode.WINDOW if holds else GuardMode.PASS
    return mode, max(part.window_chars, _MAX_PHRASE_CHARS)


class _Transcript:
    """What the codec makes of the events that the guard has split: read many at a time, so that no token waits for it."""

    def __init__(self, shape: Shape) -> None:
        self._reader = CODECS[shape].open_stream()
        self._waiting: list[RawEvent] = []
        self._size = 0
        self._response: Response | None = None

    def add(self, event: RawEvent) -> None:
        """Take an event; nothing more is taken once somebody asked for the response."""
        if self._response is None and event.is_event:
            self._waiting.append(event)
            self._size += len(event.raw)
            if self._size > _READ_EVERY_BYTES:
                self._read()

    def response(self) -> Response:
        """Return what has arrived."""
        if self._response is None:
            self._read()
            self._response = self._reader.close()
        return self._response

    def _read(self) -> None:
        for event in self._waiting:
            data = event.data or ""
            text = data if isinstance(data, str) else data.decode("utf-8", errors="replace")
            try:
                self._reader.feed(ServerEvent(text, event.event))
            except ShapeError:
                # A spoilt event is passed on, and scanned as text by the guard; the codec has no use for it.
                continue
        self._waiting.clear()
        self._size = 0


class StreamPassage:
    """One streamed response on its way."""

    def __init__(
        self, worker: Worker, state: ExchangeState, response: UpstreamResponse, *, out: TimedSender, seal: TextSeal
    ) -> None:
        limits = worker.settings.limits
        self._worker, self._state, self._response, self._out = worker, state, response, out
        self._shape = state.route.shape
        self._mode, window = guard_mode(worker.settings.streaming, holds=state.holds)
        guarded = GuardLimits(event_bytes=limits.sse_line_bytes, stream_bytes=limits.decoded_bytes)
        self._transcript = _Transcript(self._shape)
        self._guard = open_guard(
            self._shape, mode=self._mode, window_chars=window, limits=guarded, on_event=self._transcript.add
        )
        self._seal = seal
        self._last: tuple[Audit, PhaseRecord] | None = None
        self._final: AuditorInput | None = None
        self._added_s = 0.0
        self.body: bytes | None = None

    async def run(self) -> bytes:
        """Pass the stream on; return the bytes that wait for the record. `body` is set where it was no stream.

        Raise the `UpstreamError` that cut such a body, as reading any whole response does, unless the settings let it pass.
        """
        coding = coding_of(self._response)
        # The guard itself limits what is plain, so this limit only has to be beyond it.
        limit_bytes = 2 * self._worker.settings.limits.decoded_bytes
        decoder = body_decoder(coding, limit_bytes=limit_bytes) if coding else None
        cut: UpstreamError | None = None
        try:
            async for raw in self._response.body:
                piece = raw if decoder is None else decoder.decode(raw)
                self._seal.add(piece)
                step = await self._settle(self._guard.feed(piece))
                if step.end is not None:
                    await self._response.body.aclose()
                    return step.send
        except UpstreamError as exc:
            cut = exc
        except InputError as exc:
            # Compressed bytes that do not decompress: the rest cannot be read, so it is not passed on.
            await self._response.body.aclose()
            cut = UpstreamProtocolError("the provider's answer does not decompress")
            cut.__cause__ = exc
        step = self._guard.finish(FinishReason.END if cut is None else FinishReason.CUT)
        if cut is not None:
            self._note_cut(cut, is_body=step.body is not None)
        step = await self._settle(step)
        self.body = step.body
        if step.end is not GuardEnd.CUT or self._worker.settings.failure.upstream is OnFailure.OPEN:
            return step.send
        # A stream that was cut ends as an error; the half of an event that `pass` has sent along is taken back.
        half = self._guard.account.unread_bytes if self._mode is GuardMode.PASS else 0
        whole = step.send[: len(step.send) - half] if half else step.send
        return whole + cut_event(self._shape, _CUT)

    async def client_left(self) -> None:
        """Take note that the client went away; one that has heard the end may, and the response is still scanned."""
        if not self._transcript.response().complete:
            self._guard.finish(FinishReason.CLIENT_GONE)
            return
        step = self._guard.finish(FinishReason.END)
        while step.due is not None:
            record = await self._scan(step.due)
            step = self._guard.verdict(allow=record.decision.effect not in ENFORCED)

    def conclude(self) -> None:
        """Put what became of the stream into the exchange's state."""
        state, account = self._state, self._guard.account
        state.streamed = True
        if self._final is not None:
            # The response that the final scan saw is the one that goes on record, with the verdict of that scan.
            state.response = self._final.response
            state.verdict = response_verdict(self._final) if account.events else None
        else:
            state.response = self._transcript.response()
            state.verdict = classify(state.response) if account.events else None
        state.seal_response(self._seal)
        coverage = account.coverage
        if self._last is not None:
            state.add_phase(*self._last, coverage)
        ends = {GuardEnd.CUT: "upstream_cut", GuardEnd.CLIENT_GONE: "client_gone", GuardEnd.LIMIT: "beyond_limits"}
        if account.end in ends:
            state.add_gap(Phase.RESPONSE, ends[account.end])
        elif coverage.scanned_bytes < coverage.total_bytes:
            state.add_gap(Phase.RESPONSE, "unscanned")
        if account.denied and self._mode is GuardMode.PASS:
            state.add_gap(Phase.RESPONSE, "unenforced")
        state.blocked = state.blocked or account.end in (GuardEnd.DENY, GuardEnd.LIMIT)
        self._worker.metrics.observe_added(Phase.RESPONSE, self._added_s)

    def head(self) -> list[tuple[bytes, bytes]]:
        """Return the headers of the response: the provider's, and ours."""
        kept: Headers = tuple(pair for pair in self._response.headers if pair[0] not in _NO_LENGTH)
        state = self._state
        return [*kept, *response_headers(state.decisions, passport=state.id, session=state.principal.session)]

    async def _settle(self, step: GuardStep) -> GuardStep:
        """Send and scan until nothing more can be done now; bytes that end the stream are left to the caller."""
        while True:
            if step.end is not None:
                return step
            if step.send:
                if not self._out.begun:
                    await self._out.start(self._response.status, self.head())
                await self._out.piece(step.send)
            if step.due is None:
                return step
            record = await self._scan(step.due)
            blocks = record.decision.effect in ENFORCED
            step = self._guard.verdict(allow=not blocks, denial=denial_of(record.decision) if blocks else None)

    async def _scan(self, due: ScanText) -> PhaseRecord:
        began = time.perf_counter()
        state = self._state
        response = due.response(self._transcript.response() if due.final else None)
        metadata = {"model_id": state.principal.model, "session_id": state.principal.session}
        given = response_input(response, state.request, metadata=metadata, trace=state.id)
        if due.final:
            self._final = given
        audit = await self._worker.audit(given)
        record = state.decide(audit)
        self._last = (audit, record)
        self._added_s += time.perf_counter() - began
        return record

    def _note_cut(self, exc: UpstreamError, *, is_body: bool) -> None:
        """Take note of a cut; raise it where nothing was sent yet and the settings want an error."""
        if is_body and self._worker.settings.failure.upstream is OnFailure.CLOSED:
            # Whoever answers in the provider's place takes note of it as well.
            raise exc
        self._state.fault = exc.fault
        self._worker.metrics.count_upstream_failure(exc)
        log_event(LogEvent.UPSTREAM_FAILED, fault=exc.fault, timeout=getattr(exc, "which", None))
        if is_body:
            # A body is not concluded as a stream is, where its gap would be put on record.
            self._state.add_gap(Phase.RESPONSE, "upstream_cut")
