"""AWS's binary event stream: our codec against botocore's, both ways, in any chunking, damaged and cut off."""

from __future__ import annotations

import struct
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import ShapeError, SizeLimitError
from demur.wire.eventstream import Decoder, frame
from demur.wire.fields import ServerEvent
from demur.wire.sse import StreamEnd

NAMES = st.sampled_from(["messageStart", "contentBlockDelta", "metadata", "throttlingException"])
EVENTS = st.lists(st.builds(ServerEvent, data=st.text(), event=NAMES), max_size=5)
HELLO = ServerEvent('{"delta":{"text":"héllo"}}', event="contentBlockDelta")
FAILED = ServerEvent('{"__type":"InternalFailure","message":"broken"}', event="error")


def framed(headers: bytes, payload: bytes = b"{}") -> bytes:
    """Return a message with these raw headers and good checksums."""
    prelude = struct.pack("!II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack("!I", crc32(prelude)) + headers + payload
    return message + struct.pack("!I", crc32(message))


def header(name: bytes, kind: int, value: bytes) -> bytes:
    """Return one raw header."""
    return bytes([len(name)]) + name + bytes([kind]) + value


def decoded(data: bytes, chunk_bytes: int = 0) -> tuple[ServerEvent, ...]:
    """Return the events in the bytes, fed whole or in chunks."""
    decoder = Decoder()
    size = chunk_bytes or max(len(data), 1)
    events = [e for at in range(0, len(data), size) for e in decoder.feed(data[at : at + size])]
    assert decoder.close() == StreamEnd(complete=True)
    return tuple(events)


@given(EVENTS, st.integers(1, 40))
def test_any_chunking_gives_the_same_events(events: list[ServerEvent], chunk_bytes: int) -> None:
    """Events that are encoded and decoded, in chunks of any size, are the same events."""
    assert list(decoded(b"".join(map(frame, events)), chunk_bytes)) == events


@given(EVENTS)
def test_botocore_reads_what_is_written(events: list[ServerEvent]) -> None:
    """The buffer of botocore finds the same names and payloads, and accepts every checksum."""
    buffer = EventStreamBuffer()
    buffer.add_data(b"".join(map(frame, events)))
    messages = list(buffer)
    assert [m.payload.decode() for m in messages] == [e.data for e in events]
    names = [m.headers.get(":event-type", m.headers.get(":exception-type")) for m in messages]
    assert names == [e.event for e in events]


def test_an_error_message_is_an_event_of_that_name() -> None:
    """An error's code and message, which are headers, become the JSON that other errors have, and go back."""
    buffer = EventStreamBuffer()
    buffer.add_data(frame(FAILED))
    told = {":error-code": "InternalFailure", ":error-message": "broken", ":message-type": "error"}
    assert next(buffer).headers == told
    assert decoded(frame(FAILED)) == (FAILED,)
    assert decoded(frame(ServerEvent("[]", event="error")))[0].data == '{"__type":"","message":""}'


def test_headers_of_every_type_are_stepped_over() -> None:
    """Headers that are no strings are legal and do not hide the event's name."""
    sizes = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
    others = b"".join(header(b"h%d" % kind, kind, b"\1" * size) for kind, size in sizes.items())
    blob = header(b"blob", 6, b"\0\2\xff\xfe")
    name = header(b":event-type", 7, b"\0\4ping")
    message = framed(others + blob + name, b"{}")
    buffer = EventStreamBuffer()
    buffer.add_data(message)
    assert next(buffer).headers[":event-type"] == "ping"
    assert decoded(message) == (ServerEvent("{}", event="ping"),)
    assert decoded(framed(b"")) == (ServerEvent("{}"),)


@pytest.mark.parametrize("at", range(len(frame(HELLO))))
def test_a_damaged_byte_is_noticed(at: int) -> None:
    """Whichever byte is flipped, no event comes out of the message."""
    data = bytearray(frame(HELLO))
    data[at] ^= 0x10
    with pytest.raises((ShapeError, SizeLimitError)):
        Decoder().feed(bytes(data) + b"\0" * 64)


@pytest.mark.parametrize("at", range(1, len(frame(HELLO))))
def test_a_cut_off_stream_is_a_value(at: int) -> None:
    """A stream that ends inside a message gives the events before it, and what is pending."""
    decoder = Decoder()
    data = frame(HELLO)
    assert decoder.feed(data + data[:at]) == (HELLO,)
    assert decoder.close() == StreamEnd(complete=False, pending=data[:at])


@pytest.mark.parametrize(
    "headers",
    [
        header(b"x", 42, b""),
        header(b"x", 7, b"\0\x09short"),
        header(b"x", 7, b"\0\1\xff"),
        header(b"\xff", 7, b"\0\1x"),
        b"\x09x",
        b"\1",
    ],
    ids=["unknown type", "too long", "value not UTF-8", "name not UTF-8", "name too long", "no type"],
)
def test_malformed_headers_are_shape_errors(headers: bytes) -> None:
    """Headers that contradict themselves are named as such, checksums or not."""
    with pytest.raises(ShapeError):
        Decoder().feed(framed(headers))


def test_a_payload_is_text() -> None:
    """A payload that is not UTF-8 is a shape error."""
    with pytest.raises(ShapeError, match="UTF-8"):
        Decoder().feed(framed(b"", b"\xff"))


def test_lengths_that_contradict_each_other_are_shape_errors() -> None:
    """A message cannot be shorter than its own headers and checksums."""
    prelude = struct.pack("!II", 20, 10)
    with pytest.raises(ShapeError, match="cannot hold"):
        Decoder().feed(prelude + struct.pack("!I", crc32(prelude)))


@pytest.mark.parametrize(("total", "headers"), [(2**31, 0), (2**20, 2**19)])
def test_lengths_are_bounded_before_anything_is_held(total: int, headers: int) -> None:
    """A length beyond the limits is refused at the prelude, not after the bytes have arrived."""
    prelude = struct.pack("!II", total, headers)
    with pytest.raises(SizeLimitError):
        Decoder().feed(prelude + struct.pack("!I", crc32(prelude)))


def test_limits_are_settings() -> None:
    """A lower limit refuses what the default lets through."""
    with pytest.raises(SizeLimitError):
        Decoder(max_payload_bytes=4).feed(frame(HELLO))


def test_a_name_that_no_header_holds_is_a_shape_error() -> None:
    """A header's value has 15 bits of length."""
    with pytest.raises(ShapeError, match="at most 32767 bytes"):
        frame(ServerEvent("{}", event="x" * 40_000))


def test_an_event_without_a_name_gets_one() -> None:
    """The framing needs a name; events that have none are called unknown."""
    assert decoded(frame(ServerEvent("{}"))) == (ServerEvent("{}", event="unknown"),)


def test_events_before_the_damage_come_out_first() -> None:
    """A damaged message does not take those before it along, and is refused from then on."""
    decoder = Decoder()
    damaged = frame(HELLO)[:-1] + b"?"
    assert decoder.feed(frame(HELLO) + damaged) == (HELLO,)
    assert not decoder.close().complete
    for chunk in (b"", frame(HELLO)):
        with pytest.raises(ShapeError, match="damaged"):
            decoder.feed(chunk)
