"""The framing of `application/vnd.amazon.eventstream`: bytes to events and back, wherever the network cuts them.

A message is a prelude (total length, headers length, CRC-32 of both), headers, a payload, and the CRC-32 of all before it;
numbers are big-endian. A wrong checksum or a malformed header is a `ShapeError`, a length beyond the limits a
`SizeLimitError`; a stream that ends inside a message is a value, `StreamEnd(complete=False)`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING
from zlib import crc32

from demur.errors import InputError, ShapeError, SizeLimitError
from demur.wire.fields import ServerEvent, decode, event_of
from demur.wire.sse import StreamEnd

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["MEDIA_TYPE", "Decoder", "frame"]

MEDIA_TYPE = "application/vnd.amazon.eventstream"

_PRELUDE = struct.Struct("!III")
_CRC = struct.Struct("!I")
_FRAME_BYTES = _PRELUDE.size + _CRC.size
# The limits are those of botocore.
_MAX_HEADERS_BYTES = 128 * 2**10
_MAX_PAYLOAD_BYTES = 24 * 2**20
_STRING = 7
# The sizes of header values by their type; byte arrays (6) and strings (7) carry their own.
_FIXED_BYTES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_SIZED = (6, _STRING)
_MAX_NAME_BYTES = 255
_MAX_VALUE_BYTES = 2**15 - 1


class Decoder:
    """Bytes in by `feed`, events out; `close` says whether the stream ended where it may."""

    def __init__(
        self, *, max_headers_bytes: int = _MAX_HEADERS_BYTES, max_payload_bytes: int = _MAX_PAYLOAD_BYTES
    ) -> None:
        self._max_headers_bytes = max_headers_bytes
        self._max_payload_bytes = max_payload_bytes
        self._held = bytearray()

    def feed(self, chunk: bytes) -> tuple[ServerEvent, ...]:
        """Return the events that this chunk completes."""
        self._held += chunk
        events: list[ServerEvent] = []
        start = 0
        try:
            while (end := self._end_of_message(start)) is not None:
                events.append(_event(bytes(self._held[start:end])))
                start = end
        except InputError:
            # Good messages before a bad one come out first, or what is read would depend on the chunking.
            if not events:
                raise
        del self._held[:start]
        return tuple(events)

    def close(self) -> StreamEnd:
        """Return whether the stream ended between messages, and what was left over if not."""
        return StreamEnd(complete=not self._held, pending=bytes(self._held))

    def _end_of_message(self, start: int) -> int | None:
        """Return where the message that starts here ends, None where its bytes are not all here."""
        if len(self._held) - start < _PRELUDE.size:
            return None
        total, headers, checksum = _PRELUDE.unpack_from(self._held, start)
        _check(self._held[start : start + 8], checksum)
        payload = total - headers - _FRAME_BYTES
        if payload < 0:
            raise ShapeError(f"a message of {total} bytes cannot hold {headers} bytes of headers")
        # Checked before anything of that size is held.
        if headers > self._max_headers_bytes or payload > self._max_payload_bytes:
            raise SizeLimitError(
                f"a message of the event stream holds {total} bytes", hint="raise the limits to read it"
            )
        return start + total if len(self._held) - start >= total else None


def frame(event: ServerEvent) -> bytes:
    """Return the event as one message; names that end in `Exception` are the service's exceptions."""
    name = event.event or "unknown"
    if name == "error":
        # An error that the service did not model has no payload: code and message are headers.
        body = decode(event.data)
        said = [str(body.get(key, "")) for key in ("__type", "message")] if isinstance(body, dict) else ["", ""]
        return _message({":error-code": said[0], ":error-message": said[1], ":message-type": "error"}, b"")
    kind = "exception" if name.endswith("Exception") else "event"
    headers = {f":{kind}-type": name, ":content-type": "application/json", ":message-type": kind}
    return _message(headers, event.data.encode("utf-8", errors="replace"))


def _event(message: bytes) -> ServerEvent:
    _, headers_bytes, _ = _PRELUDE.unpack_from(message)
    _check(message[: -_CRC.size], _CRC.unpack_from(message, len(message) - _CRC.size)[0])
    payload_start = _PRELUDE.size + headers_bytes
    headers = dict(_headers(message[_PRELUDE.size : payload_start]))
    kind = headers.get(":message-type", "event")
    if kind == "error":
        body = {"__type": headers.get(":error-code", ""), "message": headers.get(":error-message", "")}
        return event_of(body, "error")
    data = _text(message[payload_start : -_CRC.size], "the payload")
    return ServerEvent(data=data, event=headers.get(f":{kind}-type") or None)


def _headers(block: bytes) -> Iterator[tuple[str, str]]:
    """Yield the headers that are strings; the others are stepped over."""
    at = 0
    try:
        while at < len(block):
            name_end = at + 1 + block[at]
            name, kind = block[at + 1 : name_end], block[name_end]
            at = name_end + 1
            if kind in _SIZED:
                size = int.from_bytes(block[at : at + 2])
                at += 2
            else:
                size = _FIXED_BYTES[kind]
            if at + size > len(block):
                raise ShapeError("a header of the event stream runs past the end of the headers")
            if kind == _STRING:
                yield _text(name, "a header's name"), _text(block[at : at + size], "a header")
            at += size
    except (IndexError, KeyError) as exc:
        raise ShapeError("the headers of the event stream are malformed") from exc


def _message(headers: Mapping[str, str], payload: bytes) -> bytes:
    block = b""
    for name, value in headers.items():
        name_bytes, value_bytes = name.encode(), value.encode("utf-8", errors="replace")
        if len(name_bytes) > _MAX_NAME_BYTES or len(value_bytes) > _MAX_VALUE_BYTES:
            raise ShapeError(f"`{name}`: expected at most {_MAX_VALUE_BYTES} bytes in a header, got {len(value_bytes)}")
        block += struct.pack("!B", len(name_bytes)) + name_bytes
        block += struct.pack("!BH", _STRING, len(value_bytes)) + value_bytes
    prelude = struct.pack("!II", _FRAME_BYTES + len(block) + len(payload), len(block))
    message = prelude + _CRC.pack(crc32(prelude)) + block + payload
    return message + _CRC.pack(crc32(message))


def _check(data: bytes | bytearray, checksum: int) -> None:
    if crc32(data) != checksum:
        raise ShapeError("the event stream is damaged: a checksum does not match")


def _text(data: bytes, what: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise ShapeError(f"{what} of the event stream: expected UTF-8") from exc
