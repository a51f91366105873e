r"""Where does one event of a stream end and the next begin, with every byte kept?

`wire.sse` tells what events say; a guard must also send them on exactly as they came, comments and odd line ends
included. So a frame is all bytes up to and with a blank line.

Laws: the frames and the rest, joined, are the bytes that were fed; any chunking gives frames with the same data in the
same order (a LF that a chunk boundary parts from its CR opens the next frame, where it is an empty line and says
nothing); work is linear in the bytes; a frame longer than the limit is never built, `overflow` says so instead.
"""

from __future__ import annotations

import re

import msgspec

from demur.wire.sse import Decoder

__all__ = ["FrameSplitter", "RawEvent", "frame_of"]

# Atomic, so that one CRLF is never taken for two line ends.
_BOUNDARY = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_LINE = re.compile(rb"\r\n|\r|\n")
_HALF_BOUNDARY = 3
_FIELDS = frozenset({b"data", b"event", b"id", b"retry"})


class RawEvent(msgspec.Struct, frozen=True, gc=False):
    """The bytes of one event, and what they say; `data` is None where there is nothing but comments and field names."""

    raw: bytes
    data: bytes | str | None
    event: str | None = None
    beside: str = ""
    """What stands in lines that are no event stream's, and in names of events that are no names."""


class FrameSplitter:
    """Bytes in by `feed`, frames out; `rest` is what stands in an event that has not ended."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held = bytearray()
        self._searched = 0
        self.overflow = False

    @property
    def rest(self) -> bytes:
        """The bytes after the last whole frame."""
        return bytes(self._held)

    def feed(self, chunk: bytes) -> list[RawEvent]:
        """Return the frames that this chunk completes."""
        whole = len(chunk) - 2
        if not self._held and whole <= self._max_bytes and chunk.find(b"\n\n") == whole >= 0 and b"\r" not in chunk:
            # One event a chunk, as servers flush them: nothing is copied.
            return [frame_of(chunk)]
        self._held += chunk
        return self._cut()

    def _cut(self) -> list[RawEvent]:
        frames, start = [], 0
        while (found := _BOUNDARY.search(self._held, max(start, self._searched))) is not None:
            if found.end() - start > self._max_bytes:
                break
            frames.append(frame_of(bytes(self._held[start : found.end()])))
            start = found.end()
        del self._held[:start]
        # The last line end may be the first half of a boundary whose other half comes with the next chunk.
        self._searched = max(0, len(self._held) - _HALF_BOUNDARY)
        self.overflow = len(self._held) > self._max_bytes
        return frames


def frame_of(raw: bytes) -> RawEvent:
    """Return the frame in these bytes; the two common spellings are read without a decoder."""
    last = len(raw) - 2
    if b"\r" not in raw and raw.endswith(b"\n\n"):
        if raw.startswith(b"data: ") and raw.find(b"\n") == last:
            return RawEvent(raw, raw[6:last])
        first = raw.find(b"\n")
        if raw.startswith(b"event: ") and raw.startswith(b"data: ", first + 1) and raw.find(b"\n", first + 1) == last:
            name = raw[7:first]
            if b" " not in name:
                return RawEvent(raw, raw[first + 7 : last], name.decode("utf-8", errors="replace"))
    return _odd_frame(raw)


def _odd_frame(raw: bytes) -> RawEvent:
    size = len(raw) + 1
    events = Decoder(max_line_bytes=size, max_event_bytes=size).feed(raw)
    # A line that is neither a comment nor a field is no event stream's; what it says counts as said.
    stray = b"\n".join(line for line in _LINE.split(raw) if _is_stray(line)).decode("utf-8", errors="replace")
    if events:
        return RawEvent(raw, events[0].data, events[0].event, stray)
    return RawEvent(raw, stray or None)


def _is_stray(line: bytes) -> bool:
    """Return whether a line says something beside data; a name or an id has no blanks, a sentence has."""
    if not line or line.startswith(b":"):
        return False
    field, _, value = line.partition(b":")
    return field not in _FIELDS or (field != b"data" and b" " in value.strip())
