"""What goes into a stream guard and what comes out of it, as values.

A step says all that the caller has to do: send, scan, stop. An account counts characters as they were received, scanned
and released, so that no record can claim a scan that did not happen.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from demur.model.exchange import (
    Channel,
    Choice,
    OpaquePart,
    RefusalPart,
    Response,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from demur.model.passport import Coverage, StreamMode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.exchange import Part

__all__ = [
    "CharCount",
    "Denial",
    "FinishReason",
    "GuardAccount",
    "GuardEnd",
    "GuardLimits",
    "GuardMode",
    "GuardStep",
    "ScanText",
    "StrandAccount",
    "StrandText",
]


_TEXT_PARTS = ((Channel.THINKING, ThinkingPart), (Channel.TEXT, TextPart), (Channel.REFUSAL, RefusalPart))


class GuardMode(StrEnum):
    """When the pieces of an answer may go on to the client."""

    PASS = "pass"  # noqa: S105 — a mode's name, no password
    """At once; the text is scanned when all of it has gone."""
    WINDOW = "window"
    """When they lie a window behind what has been scanned."""
    BUFFER = "buffer"
    """When the whole answer has been decided."""


class FinishReason(StrEnum):
    """Why no more bytes will come from the provider."""

    END = "end"
    CUT = "cut"
    CLIENT_GONE = "client_gone"


class GuardEnd(StrEnum):
    """How a guarded stream ended."""

    END = "end"
    CUT = "cut"
    """The provider broke off; what had been scanned was sent, an event cut in half was not."""
    CLIENT_GONE = "client_gone"
    DENY = "deny"
    LIMIT = "limit"
    """The stream was longer, wider or coarser than its limits."""


@dataclass(frozen=True, slots=True)
class GuardLimits:
    """How much one stream may make us hold or read; the default event is that of `wire.sse`."""

    event_bytes: int = 16 * 2**20
    """One event, and so each of its lines."""
    held_chars: int = 2**20
    held_bytes: int = 64 * 2**20
    """Held events with all that stands around their text."""
    text_chars: int = 4 * 2**20
    stream_bytes: int = 2**30
    choices: int = 128
    strands: int = 1024


@dataclass(frozen=True, slots=True)
class Denial:
    """Why an answer is not sent: the reason for machines, a sentence for people, the rules that fired."""

    reason: str
    message: str = "The answer was withheld by policy."
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StrandText:
    """The text of one strand so far; the first `scanned` characters were in an earlier scan.

    `place` tells strands of a channel apart: the tool call's or the block's number, the name of an unknown field.
    """

    choice: int
    channel: Channel
    place: str
    text: str
    scanned: int


@dataclass(frozen=True, slots=True)
class ScanText:
    """What is to be scanned now; `final` where it is the whole answer, or all that will come of it."""

    strands: tuple[StrandText, ...]
    final: bool = False

    @property
    def choices(self) -> tuple[int, ...]:
        """The choices that have said something."""
        return tuple(sorted({strand.choice for strand in self.strands}))

    def joined(self, choice: int, channel: Channel) -> str:
        """Return a channel's text as a client puts it together: its blocks in their order, nothing between them."""
        return "".join(s.text for s in self.strands if s.choice == choice and s.channel is channel)

    def response(self, known: Response | None = None) -> Response:
        """Return what is to be scanned as a response: the texts are those here, all else is what the codec knows by then."""
        head = known or Response("")
        by_index = {choice.index: choice for choice in head.choices}
        choices = []
        for index in sorted({*self.choices, *by_index}):
            choice = by_index.get(index) or Choice(index, ())
            choices.append(msgspec.structs.replace(choice, parts=tuple(self._parts(index, choice))))
        return msgspec.structs.replace(head, choices=tuple(choices))

    def _parts(self, index: int, known: Choice) -> Iterator[Part]:
        for channel, kind in _TEXT_PARTS:
            text = self.joined(index, channel)
            if text:
                yield kind(text)
        # Calls and opaque parts have names and ids that no strand has; a call without arguments has no strand at all.
        yield from (part for part in known.parts if isinstance(part, ToolCallPart | OpaquePart))
        read = {part.arguments for part in known.parts if isinstance(part, ToolCallPart)}
        for strand in self.strands:
            if strand.choice == index and strand.channel is Channel.TOOL and strand.text not in read:
                yield ToolCallPart(strand.place, "", strand.text)

    def seen(self, choice: int, channel: Channel) -> int:
        """Return how many characters of `joined` come before the first that was never scanned."""
        count = 0
        for strand in self.strands:
            if strand.choice == choice and strand.channel is channel:
                count += strand.scanned
                # Only what precedes the first unscanned character counts: a later strand may have been scanned already.
                if strand.scanned < len(strand.text):
                    break
        return count


@dataclass(frozen=True, slots=True)
class GuardStep:
    """What to do now: send these bytes, scan this text and answer by `verdict`, stop where there is an `end`.

    `body` is an answer that was no event stream at all (a JSON error with status 200), whole and unscanned: it is the
    caller's to audit as an unstreamed answer.
    """

    send: bytes = b""
    due: ScanText | None = None
    end: GuardEnd | None = None
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class CharCount:
    """Characters that came, that a scan saw, and that the client got."""

    received: int
    scanned: int
    released: int

    @property
    def withheld(self) -> int:
        """How many characters the client did not get."""
        return self.received - self.released


@dataclass(frozen=True, slots=True)
class StrandAccount:
    """The characters of one strand, counted; the bytes are those of their UTF-8."""

    choice: int
    channel: Channel
    place: str
    received: int
    scanned: int
    released: int
    received_bytes: int
    scanned_bytes: int


@dataclass(frozen=True, slots=True)
class GuardAccount:
    """What became of a stream; `unread_bytes` is an event that never ended, neither scanned nor (but in pass) sent."""

    mode: GuardMode
    end: GuardEnd | None
    denied: bool
    scans: int
    events: int
    unread_bytes: int
    strands: tuple[StrandAccount, ...]

    def chars(self, choice: int | None = None) -> CharCount:
        """Return the characters of one choice, or of all."""
        mine = [s for s in self.strands if choice is None or s.choice == choice]
        return CharCount(sum(s.received for s in mine), sum(s.scanned for s in mine), sum(s.released for s in mine))

    @property
    def coverage(self) -> Coverage:
        """The account as a passport states it: the strands named are those that were scanned to their end."""
        # An event that never ended counts as received and not scanned: no record may claim a scan of it.
        received = sum(s.received_bytes for s in self.strands) + self.unread_bytes
        partly = {s.channel for s in self.strands if s.scanned < s.received}
        whole = sorted({s.channel for s in self.strands} - partly)
        return Coverage(_STREAM_MODES[self.mode], sum(s.scanned_bytes for s in self.strands), received, tuple(whole))


_STREAM_MODES = {
    GuardMode.PASS: StreamMode.PASSED,
    GuardMode.WINDOW: StreamMode.WINDOWED,
    GuardMode.BUFFER: StreamMode.HELD,
}
