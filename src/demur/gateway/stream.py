"""How does a streamed answer pass: read as it comes, held back where a rule could withhold it, recorded as it ended?

Laws: those of `pipeline.guard`; the head goes out with the first byte that may, so that what turns out to be no stream is still
answered whole; the last bytes wait for the record; a stream that was cut, left or too long is recorded as such, and what was
not scanned is never recorded as scanned.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from demur.audit.inputs import response_input
from demur.detect.check import classify
from demur.errors import InputError, ShapeError, SizeLimitError, UpstreamError, UpstreamProtocolError
from demur.gateway.answers import OUR_HEADERS, answer_headers, cut_event, denial_of
from demur.gateway.arrival import coding_of
from demur.gateway.guard.guard import open_guard
from demur.gateway.guard.values import FinishReason, GuardEnd, GuardLimits, GuardMode
from demur.gateway.passporting import scanned_response, weigh
from demur.gateway.settings import OnFailure, StreamWord
from demur.http.content_coding import body_decoder
from demur.io.log import LogEvent, log_event
from demur.model.claim import Phase
from demur.wire.shapes import CODECS
from demur.wire.sse import Decoder

if TYPE_CHECKING:
    from demur.gateway.guard.values import GuardStep, ScanText
    from demur.gateway.passporting import Weighed
    from demur.gateway.record import Dossier, TextSeal
    from demur.gateway.settings import StreamingPart
    from demur.gateway.worker import GatewayParts
    from demur.http.client import TimedSender
    from demur.http.content_coding import BodyDecoder
    from demur.http.upstream import Headers, UpstreamResponse
    from demur.model.exchange import Response, Shape

__all__ = ["StreamPassage", "guard_mode"]

_LONGEST_PHRASE = 400
"""Characters, as they came, that the longest phrase of our own packs can take (see `pipeline.stream`)."""
_READ_AT_ONCE_BYTES = 64 * 1024
_NO_LENGTH = OUR_HEADERS | {b"content-length", b"content-encoding"}
_CUT = "The provider broke the answer off."


def guard_mode(part: StreamingPart, *, holds: bool) -> tuple[GuardMode, int]:
    """Return how a stream passes where a rule may withhold it or none can, and how long the window is."""
    if part.mode is not StreamWord.AUTO:
        return GuardMode(part.mode.value), part.window_chars
    mode = GuardMode.WINDOW if holds else GuardMode.PASS
    return mode, max(part.window_chars, _LONGEST_PHRASE)


class _Transcript:
    """What the codec makes of a stream: read in large pieces, so that no token waits for it."""

    def __init__(self, shape: Shape, line_bytes: int) -> None:
        self._decoder = Decoder(max_line_bytes=line_bytes)
        self._reader = CODECS[shape].open_stream()
        self._waiting: list[bytes] = []
        self._size = 0
        self._response: Response | None = None

    def add(self, piece: bytes) -> None:
        """Take a piece; nothing more is taken once somebody asked for the response."""
        if self._response is None:
            self._waiting.append(piece)
            self._size += len(piece)
            if self._size > _READ_AT_ONCE_BYTES:
                self._read()

    def response(self) -> Response:
        """Return what has arrived."""
        if self._response is None:
            self._read()
            self._response = self._reader.close()
        return self._response

    def _read(self) -> None:
        piece = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        try:
            events = self._decoder.feed(piece)
        except SizeLimitError:
            # The guard has the same limit and ends the stream by it.
            return
        for event in events:
            try:
                self._reader.feed(event)
            except ShapeError:
                # A spoilt event is passed on, and scanned as text by the guard; the codec has no use for it.
                continue


class StreamPassage:
    """One streamed answer on its way."""

    def __init__(
        self, parts: GatewayParts, dossier: Dossier, answer: UpstreamResponse, *, out: TimedSender, seal: TextSeal
    ) -> None:
        limits = parts.settings.limits
        self._parts, self._dossier, self._answer, self._out = parts, dossier, answer, out
        self._shape = dossier.route.shape
        self._mode, window = guard_mode(parts.settings.streaming, holds=dossier.holds)
        guarded = GuardLimits(event_bytes=limits.sse_line_bytes, stream_bytes=limits.decoded_bytes)
        self._guard = open_guard(self._shape, mode=self._mode, window_chars=window, limits=guarded)
        self._transcript = _Transcript(self._shape, limits.sse_line_bytes)
        self._seal = seal
        self._last: Weighed | None = None
        self._added_s = 0.0
        self.body: bytes | None = None

    async def run(self) -> bytes:
        """Pass the stream on; return the bytes that wait for the record. `body` is set where it was no stream.

        Raise the `UpstreamError` that cut such a body, as reading any whole answer does, unless the settings let it pass.
        """
        decoder = self._decoder()
        cut: UpstreamError | None = None
        try:
            async for raw in self._answer.body:
                piece = raw if decoder is None else decoder.decode(raw)
                self._seal.add(piece)
                self._transcript.add(piece)
                step = await self._settled(self._guard.feed(piece))
                if step.end is not None:
                    await self._answer.body.aclose()
                    return step.send
        except UpstreamError as exc:
            cut = exc
        except InputError as exc:
            # Compressed bytes that do not decompress: the rest cannot be read, so it is not passed on.
            await self._answer.body.aclose()
            cut = UpstreamProtocolError("the provider's answer does not decompress")
            cut.__cause__ = exc
        step = self._guard.finish(FinishReason.END if cut is None else FinishReason.CUT)
        if cut is not None:
            self._broke_off(cut, is_body=step.body is not None)
        step = await self._settled(step)
        self.body = step.body
        return self._tail(step)

    async def gone(self) -> None:
        """Take note that the client went away; one that has heard the end may, and the answer is still scanned."""
        if not self._transcript.response().complete:
            self._guard.finish(FinishReason.CLIENT_GONE)
            return
        step = self._guard.finish(FinishReason.END)
        while step.due is not None:
            self._last = await self._scanned(step.due)
            step = self._guard.verdict(allow=not self._last.blocks)

    def conclude(self) -> None:
        """Put what became of the stream into the dossier."""
        dossier, account = self._dossier, self._guard.account
        dossier.streamed = True
        dossier.response = self._transcript.response()
        dossier.verdict = classify(dossier.response) if account.events else None
        dossier.answered, behind = self._seal.close()
        dossier.disclosures += [behind] if behind else []
        coverage = account.coverage
        if self._last is not None:
            dossier.decided(self._last, coverage)
        ends = {GuardEnd.CUT: "upstream_cut", GuardEnd.CLIENT_GONE: "client_gone", GuardEnd.LIMIT: "beyond_limits"}
        if account.end in ends:
            dossier.gap(Phase.RESPONSE, ends[account.end])
        elif coverage.scanned_bytes < coverage.total_bytes:
            dossier.gap(Phase.RESPONSE, "unscanned")
        if account.denied and self._mode is GuardMode.PASS:
            dossier.gap(Phase.RESPONSE, "unenforced")
        dossier.blocked = dossier.blocked or account.end in (GuardEnd.DENY, GuardEnd.LIMIT)
        self._parts.metrics.added(Phase.RESPONSE, self._added_s)

    def _decoder(self) -> BodyDecoder | None:
        """Return what takes the coding off, None where there is none; the guard itself limits what is plain."""
        coding = coding_of(self._answer)
        if not coding:
            return None
        return body_decoder(coding, limit_bytes=2 * self._parts.settings.limits.decoded_bytes)

    async def _settled(self, step: GuardStep) -> GuardStep:
        """Send and scan until nothing more can be done now; bytes that end the stream are left to the caller."""
        while True:
            if step.end is not None:
                return step
            if step.send:
                await self._sent(step.send)
            if step.due is None:
                return step
            self._last = await self._scanned(step.due)
            denial = denial_of(self._last.decision) if self._last.blocks else None
            step = self._guard.verdict(allow=not self._last.blocks, denial=denial)

    async def _sent(self, piece: bytes) -> None:
        if not self._out.begun:
            await self._out.start(self._answer.status, self.head())
        await self._out.piece(piece)

    def head(self) -> list[tuple[bytes, bytes]]:
        """Return the headers of the answer: the provider's, and ours."""
        kept: Headers = tuple(pair for pair in self._answer.headers if pair[0] not in _NO_LENGTH)
        dossier = self._dossier
        ours = answer_headers(dossier.decisions, passport=dossier.passport, session=dossier.asker.session)
        return [*kept, *ours]

    async def _scanned(self, due: ScanText) -> Weighed:
        began = time.perf_counter()
        dossier = self._dossier
        response = scanned_response(due, self._transcript.response() if due.final else None)
        metadata = {"model_id": dossier.asker.model, "session_id": dossier.asker.session}
        given = response_input(response, dossier.request, metadata=metadata, trace=dossier.passport)
        audit = await self._parts.audit(given)
        weighed = weigh(dossier.gate, audit, asker=dossier.asker)
        self._added_s += time.perf_counter() - began
        return weighed

    def _broke_off(self, exc: UpstreamError, *, is_body: bool) -> None:
        """Take note of a cut; raise it where nothing was sent yet and the settings want an error."""
        if is_body and self._parts.settings.failure.upstream is OnFailure.CLOSED:
            # Whoever answers in the provider's place takes note of it as well.
            raise exc
        self._dossier.fault = exc.fault
        self._parts.metrics.upstream_failed(exc)
        log_event(LogEvent.UPSTREAM_FAILED, fault=exc.fault, timeout=getattr(exc, "which", None))
        if is_body:
            # A body is not concluded as a stream is, where its gap would be put on record.
            self._dossier.gap(Phase.RESPONSE, "upstream_cut")

    def _tail(self, step: GuardStep) -> bytes:
        """Return the last bytes; a stream that was cut ends as an error, or as it broke off, by the settings."""
        if step.end is not GuardEnd.CUT or self._parts.settings.failure.upstream is OnFailure.OPEN:
            return step.send
        half = self._guard.account.unread_bytes if self._mode is GuardMode.PASS else 0
        whole = step.send[: len(step.send) - half] if half else step.send
        return whole + cut_event(self._shape, _CUT)
