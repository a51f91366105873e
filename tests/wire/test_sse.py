"""Laws of the event stream codec."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import ShapeError, SizeLimitError
from demur.wire.fields import ServerEvent
from demur.wire.sse import Decoder, StreamEnd, encode

LINE = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=20)
EVENT = st.builds(
    ServerEvent,
    data=st.lists(LINE, min_size=1, max_size=3).map("\n".join),
    event=st.none() | LINE.filter(bool),
    id=st.none() | LINE.filter(bool),
    retry_ms=st.none() | st.integers(0, 10**6),
)
# Bytes that mean something to the format, so that random streams are not just noise.
STREAM = st.lists(
    st.sampled_from(
        [b"data", b":", b" ", b"\r", b"\n", b"\r\n", b"event", b"id", b"retry", b"1", "é😀".encode(), b"\xff"]
    )
    | st.binary(max_size=3),
    max_size=40,
).map(b"".join)


def decode_all(chunks: list[bytes]) -> tuple[list[ServerEvent], StreamEnd]:
    """Return all events of the chunks, and how the stream ended."""
    decoder = Decoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return events, decoder.close()


@pytest.mark.parametrize(
    ("wire", "events"),
    [
        (b"data: a\n\n", [ServerEvent("a")]),
        (b"data:a\r\n\r\n", [ServerEvent("a")]),
        (b"data:  a\r\r", [ServerEvent(" a")]),
        (b"data: a\ndata: b\n\n", [ServerEvent("a\nb")]),
        (b"data\n\n", [ServerEvent("")]),
        (b"data:\ndata\n\n", [ServerEvent("\n")]),
        (b"\xef\xbb\xbfdata: a\n\n", [ServerEvent("a")]),
        (b": keep-alive\n\ndata: a\n: more\ndata: b\n\n", [ServerEvent("a\nb")]),
        (b"event: ping\nid: 7\nretry: 250\ndata: a\n\n", [ServerEvent("a", "ping", "7", 250)]),
        (b"event: ping\n\ndata: a\n\n", [ServerEvent("a")]),
        (b"retry: soon\nid: a\0b\nunknown: x\ndata: a\n\n", [ServerEvent("a")]),
        (b"data: \xff\n\n", [ServerEvent("\ufffd")]),
        (b"\n\n\n", []),
    ],
)
def test_the_rules_of_the_format(wire: bytes, events: list[ServerEvent]) -> None:
    """Every rule of the event stream format holds, byte by byte as well as in one piece."""
    assert decode_all([wire]) == (events, StreamEnd(complete=True))
    assert decode_all([wire[i : i + 1] for i in range(len(wire))]) == (events, StreamEnd(complete=True))


@pytest.mark.parametrize(
    ("wire", "pending"),
    [(b"data: a\n\ndata: b", b"data: b"), (b"data: a\n", b"data: a"), (b"data: a\nda", b"data: a\nda")],
)
def test_a_cut_off_stream_is_a_value(wire: bytes, pending: bytes) -> None:
    """A stream that ends inside an event says so and hands out what is left."""
    assert decode_all([wire])[1] == StreamEnd(complete=False, pending=pending)


@given(STREAM, st.lists(st.integers(0, 120), max_size=8))
def test_any_chunking_gives_the_same_events(wire: bytes, cuts: list[int]) -> None:
    """Where the bytes are cut changes neither the events nor the end."""
    places = sorted({0, len(wire), *(cut for cut in cuts if cut < len(wire))})
    chunks = [wire[a:b] for a, b in pairwise(places)]
    assert decode_all([*chunks, b""]) == decode_all([wire]) == decode_all([wire[i : i + 1] for i in range(len(wire))])


@given(st.lists(EVENT, max_size=5))
def test_encode_then_decode(events: list[ServerEvent]) -> None:
    """What was encoded decodes to the same events."""
    assert decode_all([encode(event) for event in events]) == (events, StreamEnd(complete=True))


def test_carriage_returns_in_data_become_line_feeds() -> None:
    """The format cannot hold a carriage return in data, so it travels as a line feed."""
    assert decode_all([encode(ServerEvent("a\r\nb\rc"))])[0] == [ServerEvent("a\nb\nc")]


@pytest.mark.parametrize("event", [ServerEvent("", event="a\nb"), ServerEvent("", id="a\rb"), ServerEvent("", id="\0")])
def test_a_name_is_one_line(event: ServerEvent) -> None:
    """An event name or id that would break the framing is refused."""
    with pytest.raises(ShapeError, match="expected one line"):
        encode(event)


def test_what_is_held_back_is_bounded() -> None:
    """A line or an event beyond the limit is a size error, however it is cut."""
    with pytest.raises(SizeLimitError, match="a line of the event stream is longer than 10 bytes"):
        Decoder(max_line_bytes=10).feed(b"data: abcdefg")
    decoder = Decoder(max_line_bytes=10)
    for _ in range(10):
        decoder.feed(b"x")
    with pytest.raises(SizeLimitError, match="a line"):
        decoder.feed(b"x")
    with pytest.raises(SizeLimitError, match="an event of the stream is longer than 20 bytes"):
        Decoder(max_event_bytes=20).feed(b"data: abcd\n" * 3)


def test_comments_are_not_held_back() -> None:
    """Keep-alives without end cost nothing."""
    decoder = Decoder(max_event_bytes=20)
    decoder.feed(b": ping\n" * 100)
    assert decoder.close() == StreamEnd(complete=True)
