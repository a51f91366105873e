"""Decides what of a streamed response may reach the client now, and what must be scanned first.

A guard does no scanning of its own: it says when a scan is due, and the caller answers by `verdict`; between the two, the
caller may feed on.

    feed(chunk) ─▶ step: send these bytes; scan this text ─▶ verdict(allow) ─▶ step … finish(reason) ─▶ last step

In the modes that hold back (`window`, `buffer`) no character is sent before a scan saw it together with all that its strand
has brought. With a window as long as a phrase, not one character of a phrase that a scan denies is sent (`strands` names the
one exception). Events keep their order and their bytes. In `pass` every event is sent as it comes, the one final scan comes
too late to stop anything, and the account says so.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from demur.errors import SizeLimitError, UsageError
from demur.gateway.guard.endings import ENDINGS
from demur.gateway.guard.events import Body, read_body, read_event
from demur.gateway.guard.strands import Extent, Ledger
from demur.gateway.guard.values import Denial, FinishReason, GuardAccount, GuardEnd, GuardLimits, GuardMode, GuardStep
from demur.wire.sse import EventSplitter, raw_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from demur.gateway.guard.values import ScanText
    from demur.model.exchange import Shape
    from demur.wire.sse import RawEvent

__all__ = ["StreamGuard", "open_guard"]

_BLANK = b"\xef\xbb\xbf \t\r\n"
# How a body begins that is JSON or HTML; no line of an event stream does.
_NO_STREAM = (b"{", b"[", b"<", b'"')
_IDLE = GuardStep()
_WITHHELD = Denial("denied")
_TOO_LONG = "The answer was withheld because it is beyond the limits of this gateway."


class _HeldEvent(msgspec.Struct, frozen=True):
    """An event that waits: its bytes, its JSON, where its text ends, and whether it ends the answer."""

    raw: bytes
    body: Body | None
    extents: list[Extent]
    last: bool


def open_guard(
    shape: Shape,
    *,
    mode: GuardMode,
    window_chars: int = 200,
    scan_every_chars: int = 200,
    limits: GuardLimits | None = None,
    on_event: Callable[[RawEvent], None] = lambda _event: None,
) -> StreamGuard:
    """Return a guard for one streamed response of this format; `on_event` gets each event as it is taken in."""
    if shape not in ENDINGS:
        raise UsageError(f"there is no stream guard for `{shape}`", hint=f"guarded are {', '.join(ENDINGS)}")
    if window_chars < 0 or scan_every_chars < 1:
        raise UsageError("a window has no negative length, and a scan is due after one character at the earliest")
    return StreamGuard(
        shape, mode, window_chars, scan_every_chars=scan_every_chars, limits=limits or GuardLimits(), on_event=on_event
    )


class StreamGuard:
    """One streamed answer on its way to a client; made by `open_guard`."""

    def __init__(
        self,
        shape: Shape,
        mode: GuardMode,
        window_chars: int,
        *,
        scan_every_chars: int,
        limits: GuardLimits,
        on_event: Callable[[RawEvent], None],
    ) -> None:
        self._on_event = on_event
        self._shape, self._mode, self._limits = shape, mode, limits
        self._scan_every = scan_every_chars if mode is GuardMode.WINDOW else None
        self._splitter = EventSplitter(limits.event_bytes)
        self._ledger = Ledger(window_chars, limits)
        self._ending = ENDINGS[shape]()
        self._held: deque[_HeldEvent] = deque()
        self._held_bytes = self._stream_bytes = self._events = self._scans = 0
        self._out: list[bytes] = []
        self._lead: bytes | None = b""
        self._body: bytearray | None = None
        self._asked: ScanText | None = None
        self._received_all = self._sent_all = self._settled = self._denied = False
        self._closing: FinishReason | None = None
        self._end: GuardEnd | None = None
        self._unread_bytes = 0

    @property
    def account(self) -> GuardAccount:
        """What was received, scanned and released so far."""
        unread = self._unread_bytes if self._end else len(self._splitter.rest)
        strands = self._ledger.accounts()
        return GuardAccount(self._mode, self._end, self._denied, self._scans, self._events, unread, strands)

    def feed(self, chunk: bytes) -> GuardStep:
        """Take bytes of the provider; return what may be sent by now and whether a scan is due."""
        if self._end is not None:
            return GuardStep(end=self._end)
        if self._closing is not None:
            raise UsageError("a stream that was finished takes no more bytes")
        self._stream_bytes += len(chunk)
        if self._lead is not None and not self._begins(chunk):
            return _IDLE if self._stream_bytes <= self._limits.held_bytes else self._too_long("the body is too long")
        if self._body is not None:
            self._body += chunk
            return _IDLE if len(self._body) <= self._limits.held_bytes else self._too_long("the body is too long")
        return self._feed_events(chunk)

    def verdict(self, *, allow: bool, denial: Denial | None = None) -> GuardStep:
        """Answer the scan that was due last; return what may be sent now."""
        if self._end is not None:
            return GuardStep(end=self._end)
        if self._asked is None:
            raise UsageError("no scan is due", hint="a verdict answers the `due` of an earlier step")
        self._settled = self._settled or self._asked.final
        self._asked = None
        self._scans += 1
        self._ledger.settle()
        if not allow:
            self._denied = True
            # In `pass` everything has been sent by now; the account says that the denial came too late.
            if self._mode is not GuardMode.PASS:
                return self._stop(GuardEnd.DENY, denial or _WITHHELD)
        return self._advance()

    def finish(self, reason: FinishReason) -> GuardStep:
        """Take note that no more bytes come; return the last scan that is due, or the last bytes."""
        if self._end is not None or self._closing is not None:
            return GuardStep(end=self._end)
        if reason is FinishReason.CLIENT_GONE:
            self._unread_bytes = len(self._splitter.rest)
            return self._over(GuardEnd.CLIENT_GONE)
        if self._body is not None:
            return GuardStep(end=self._over(GuardEnd(reason)).end, body=bytes(self._body))
        try:
            self._closing = self._take_rest(reason)
        except SizeLimitError as exc:
            return self._too_long(exc.what)
        self._ledger.end_all()
        return self._advance()

    def _begins(self, chunk: bytes) -> bool:
        """Return whether it can be told by now what this stream is; what came before is taken in with the chunk."""
        lead = (self._lead or b"") + chunk
        start = lead.lstrip(_BLANK)
        if not start:
            self._lead = lead
            return False
        before, self._lead = self._lead or b"", None
        if start.startswith(_NO_STREAM):
            # A JSON error with status 200 is handed back whole, to be audited as a response that was not streamed.
            self._body = bytearray(before)
        elif before:
            self._take_all(self._splitter.feed(before))
        return True

    def _feed_events(self, chunk: bytes) -> GuardStep:
        limits = self._limits
        try:
            self._take_all(self._splitter.feed(chunk))
        except SizeLimitError as exc:
            return self._too_long(exc.what)
        # Limits end the stream as withheld: a response that cannot be held or scanned must not pass unread.
        if self._splitter.overflow:
            return self._too_long(f"an event is longer than {limits.event_bytes} bytes")
        if self._stream_bytes > limits.stream_bytes:
            return self._too_long(f"the stream is longer than {limits.stream_bytes} bytes")
        if self._held and (
            self._held_bytes > limits.held_bytes or self._ledger.received - self._ledger.released > limits.held_chars
        ):
            return self._too_long("more is held back than the limits allow")
        return self._advance()

    def _take_all(self, events: list[RawEvent]) -> None:
        for event in events:
            self._take(event)

    def _take(self, event: RawEvent) -> None:
        self._on_event(event)
        body = read_body(event)
        said = read_event(event, body, shape=self._shape)
        self._events += 1
        extents = self._ledger.add(said)
        if body is not None:
            self._ending.note_received(body)
        if said.last:
            self._received_all = True
            self._ledger.end_all()
        # An event is sent whole or not at all, so that nothing has ever to be rewritten.
        held = _HeldEvent(event.raw, body, extents, said.last)
        if self._mode is GuardMode.PASS or (
            self._mode is GuardMode.WINDOW and not self._held and not extents and not said.last
        ):
            self._send(held)
        else:
            self._held.append(held)
            self._held_bytes += len(event.raw)

    def _take_rest(self, reason: FinishReason) -> FinishReason:
        """Take in an event that only its blank line is missing of; return how the stream ended, looking closer."""
        rest = (self._lead or b"") + self._splitter.rest
        if self._mode is GuardMode.PASS:
            self._out.append(rest)
        if not rest.strip(_BLANK):
            if rest and self._mode is not GuardMode.PASS:
                # The LF of a last CRLF whose CR already ended its line.
                self._held.append(_HeldEvent(rest, None, [], last=False))
            return reason
        event = raw_event(rest + b"\n\n")
        whole = reason is FinishReason.END and (read_body(event) is not None or event.data in (b"[DONE]", "[DONE]"))
        if not whole or self._mode is GuardMode.PASS:
            self._unread_bytes = len(rest)
            return reason if whole else FinishReason.CUT
        self._take(event)
        return reason

    def _advance(self) -> GuardStep:
        """Send what is free, ask for the scan that is due, and end where the end has come."""
        while self._held:
            first = self._held[0]
            # The event that ends the response waits for the final scan, the one that sees all of it; so does all in `buffer`.
            waits = (first.last or self._mode is GuardMode.BUFFER) and not self._settled
            if waits or not self._ledger.is_free(first.extents):
                break
            self._held_bytes -= len(first.raw)
            self._send(self._held.popleft())
        due = None
        if self._asked is None:
            over = self._closing is not None or (self._received_all and self._mode is not GuardMode.PASS)
            left = self._ledger.received - self._ledger.scanned
            enough = self._scan_every is not None and left >= self._scan_every
            if enough or (over and (left or not self._settled)):
                due = self._asked = self._ledger.ask(final=over)
            elif self._closing is not None:
                return self._over(GuardEnd(self._closing))
        if self._out or due is not None:
            return GuardStep(self._take_out(), due)
        return _IDLE

    def _send(self, held: _HeldEvent) -> None:
        self._out.append(held.raw)
        if held.extents:
            self._ledger.release(held.extents)
        if held.body is not None:
            self._ending.note_sent(held.body)
        if held.last:
            self._sent_all = True

    def _take_out(self) -> bytes:
        out = self._out[0] if len(self._out) == 1 else b"".join(self._out)
        self._out.clear()
        return out

    def _too_long(self, why: str) -> GuardStep:
        return self._stop(GuardEnd.LIMIT, Denial(why, _TOO_LONG))

    def _stop(self, end: GuardEnd, denial: Denial) -> GuardStep:
        """End the stream in the provider's words, unless it has ended; what is held is never sent."""
        self._unread_bytes = len(self._splitter.rest)
        # What has ended does not end again: the client may hold the real end already.
        if not self._sent_all:
            self._out.append(self._ending.write(end, denial))
        return self._over(end)

    def _over(self, end: GuardEnd) -> GuardStep:
        self._end, self._asked = end, None
        self._held.clear()
        return GuardStep(self._take_out(), end=end)
