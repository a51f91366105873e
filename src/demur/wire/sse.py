r"""How do bytes become server-sent events, and events bytes, wherever the network cuts them?

The rules are those of the WHATWG event stream (https://html.spec.whatwg.org/multipage/server-sent-events.html): lines
end in LF, CR or CRLF, a blank line ends an event, comments and unknown fields are skipped, a block without data is no
event, bytes that are not UTF-8 become U+FFFD. One difference: an `id` belongs to the event that carried it and is not
repeated on later ones.

Laws: any chunking of the same bytes gives the same events; work is linear in the bytes, however they are cut; what is
held back is bounded; a stream that ends inside an event is a value, `StreamEnd(complete=False)`;
`decode(encode(e)) == e` where no text holds a CR.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from demur.errors import ShapeError, SizeLimitError
from demur.wire.fields import ServerEvent

__all__ = ["Decoder", "EventSplitter", "RawEvent", "ServerEvent", "StreamEnd", "encode", "raw_event"]

_LINE_END = re.compile(rb"\r\n|\r|\n")
# Atomic, so that one CRLF is never taken for two line ends.
_BOUNDARY = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_HALF_BOUNDARY = 3
_FIELDS = frozenset({b"data", b"event", b"id", b"retry"})
_BOM = b"\xef\xbb\xbf"
_MAX_LINE_BYTES = 8 * 2**20
_MAX_EVENT_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """How a stream ended: `pending` is what stood in an event that was never finished."""

    complete: bool
    pending: bytes = b""


class Decoder:
    """Bytes in by `feed`, events out; `close` says whether the stream ended where it may.

    The limits bound what a hostile or broken server can make us hold: one line, and all lines of one event.
    """

    def __init__(self, *, max_line_bytes: int = _MAX_LINE_BYTES, max_event_bytes: int = _MAX_EVENT_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._max_event_bytes = max_event_bytes
        self._line = bytearray()
        self._block: list[bytes] = []
        self._block_bytes = 0
        self._at_start = True
        self._after_cr = False

    def feed(self, chunk: bytes) -> tuple[ServerEvent, ...]:
        """Return the events that this chunk completes."""
        if not chunk:
            return ()
        events = []
        # A CR already ended its line; the LF of the same CRLF may come a chunk later and ends nothing.
        start = 1 if self._after_cr and chunk.startswith(b"\n") else 0
        for end in _LINE_END.finditer(chunk, start):
            self._extend_line(chunk[start : end.start()])
            event = self._end_line()
            if event is not None:
                events.append(event)
            start = end.end()
        self._after_cr = chunk.endswith(b"\r")
        self._extend_line(chunk[start:])
        return tuple(events)

    def close(self) -> StreamEnd:
        """Return whether the stream ended between events, and what was left over if not."""
        left = [*self._block, bytes(self._line)] if self._line else self._block
        return StreamEnd(complete=not left, pending=b"\n".join(left))

    def _extend_line(self, piece: bytes) -> None:
        if len(self._line) + len(piece) > self._max_line_bytes:
            raise SizeLimitError(f"a line of the event stream is longer than {self._max_line_bytes} bytes")
        self._line += piece

    def _end_line(self) -> ServerEvent | None:
        line = bytes(self._line)
        self._line.clear()
        if self._at_start:
            line = line.removeprefix(_BOM)
            self._at_start = False
        if not line:
            block, self._block, self._block_bytes = self._block, [], 0
            return _parse(block)
        if not line.startswith(b":"):
            self._keep(line)
        return None

    def _keep(self, line: bytes) -> None:
        self._block_bytes += len(line)
        if self._block_bytes > self._max_event_bytes:
            raise SizeLimitError(f"an event of the stream is longer than {self._max_event_bytes} bytes")
        self._block.append(line)


def encode(event: ServerEvent) -> bytes:
    """Return the event as it stands on the wire, blank line included."""
    lines = [f"{name}: {_one_line(name, value)}" for name, value in (("event", event.event), ("id", event.id)) if value]
    if event.retry_ms is not None:
        lines.append(f"retry: {event.retry_ms}")
    data = event.data.replace("\r\n", "\n").replace("\r", "\n")
    lines += [f"data: {line}" for line in data.split("\n")]
    return ("\n".join(lines) + "\n\n").encode("utf-8", errors="replace")


def _one_line(name: str, value: str) -> str:
    if any(char in value for char in "\r\n\0"):
        raise ShapeError(f"`{name}` of an event: expected one line, got {value!r}")
    return value


def _parse(block: list[bytes]) -> ServerEvent | None:
    """Return the event in the lines between two blank ones, None where they hold no data."""
    data: list[str] = []
    event = identity = None
    retry_ms = None
    for line in block:
        name, _, rest = line.decode("utf-8", errors="replace").partition(":")
        value = rest.removeprefix(" ")
        if name == "data":
            data.append(value)
        elif name == "event":
            event = value or None
        elif name == "id" and "\0" not in value:
            identity = value or None
        elif name == "retry" and value.isascii() and value.isdigit():
            retry_ms = int(value[:18])
    return ServerEvent("\n".join(data), event, identity, retry_ms) if data else None


class RawEvent(msgspec.Struct, frozen=True, gc=False):
    """The bytes of one event, and what they say; `data` is None where there is nothing but comments and field names."""

    raw: bytes
    data: bytes | str | None
    event: str | None = None
    is_event: bool = True
    """Whether these bytes are an event by the format's rules; if not, `data` is what a lenient client may still read."""
    beside: str = ""
    """What stands in lines that are no event stream's, and in names of events that are no names."""


class EventSplitter:
    """Bytes in by `feed`, raw events out: all bytes up to and with a blank line; `rest` is an event that has not ended.

    The events and the rest, joined, are the bytes that were fed. A LF that a chunk boundary parts from its CR opens the next
    event, where it is an empty line and says nothing. An event longer than the limit is never built, `overflow` says so.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held = bytearray()
        self._searched = 0
        self.overflow = False

    @property
    def rest(self) -> bytes:
        """The bytes after the last whole event."""
        return bytes(self._held)

    def feed(self, chunk: bytes) -> list[RawEvent]:
        """Return the events that this chunk completes."""
        whole = len(chunk) - 2
        if not self._held and whole <= self._max_bytes and chunk.find(b"\n\n") == whole >= 0 and b"\r" not in chunk:
            # One event per chunk, as servers flush them: nothing is copied.
            return [raw_event(chunk)]
        self._held += chunk
        return self._cut()

    def _cut(self) -> list[RawEvent]:
        events, start = [], 0
        while (found := _BOUNDARY.search(self._held, max(start, self._searched))) is not None:
            if found.end() - start > self._max_bytes:
                break
            events.append(raw_event(bytes(self._held[start : found.end()])))
            start = found.end()
        del self._held[:start]
        # The last line end may be the first half of a boundary whose other half comes with the next chunk.
        self._searched = max(0, len(self._held) - _HALF_BOUNDARY)
        self.overflow = len(self._held) > self._max_bytes
        return events


def raw_event(raw: bytes) -> RawEvent:
    """Return the event in these bytes; the two common spellings are read without a decoder."""
    last = len(raw) - 2
    if b"\r" not in raw and raw.endswith(b"\n\n"):
        if raw.startswith(b"data: ") and raw.find(b"\n") == last:
            return RawEvent(raw, raw[6:last])
        first = raw.find(b"\n")
        if raw.startswith(b"event: ") and raw.startswith(b"data: ", first + 1) and raw.find(b"\n", first + 1) == last:
            name = raw[7:first]
            if b" " not in name:
                return RawEvent(raw, raw[first + 7 : last], name.decode("utf-8", errors="replace"))
    return _odd_event(raw)


def _odd_event(raw: bytes) -> RawEvent:
    size = len(raw) + 1
    events = Decoder(max_line_bytes=size, max_event_bytes=size).feed(raw)
    # A line that is neither a comment nor a field is no event stream's; what it says counts as said.
    stray = b"\n".join(line for line in _LINE_END.split(raw) if _is_stray(line)).decode("utf-8", errors="replace")
    if events:
        return RawEvent(raw, events[0].data, events[0].event, beside=stray)
    return RawEvent(raw, stray or None, is_event=False)


def _is_stray(line: bytes) -> bool:
    """Return whether a line says something beside data; a name or an id has no blanks, a sentence has."""
    if not line or line.startswith(b":"):
        return False
    field, _, value = line.partition(b":")
    return field not in _FIELDS or (field != b"data" and b" " in value.strip())
