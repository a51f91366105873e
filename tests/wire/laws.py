"""The laws that every shape keeps, as functions for the tables of each shape's tests."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
from hypothesis import strategies as st

from demur.errors import ShapeError
from demur.model.exchange import Response
from demur.wire import fields, sse
from demur.wire.fields import Codec, JsonObject

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)
UNKNOWN: JsonObject = {"x_unknown": {"deep": ["\ud800", 2**70, None]}}
"""A field from the future, with values that strict JSON encoders do not take."""
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner))


def check_plain(codec: Codec, body: JsonObject, *, status: int = 200) -> None:
    """Reading what was written gives the same value; unknown fields are ignored, and the body is left as it is."""
    before = copy.deepcopy(body)
    response = codec.read_response(body, status=status)
    written = codec.write_response(response)
    assert body == before
    assert codec.reads_response(body)
    assert codec.reads_response(written)
    assert codec.read_response(written, status=status) == response
    assert codec.read_response({**body, **UNKNOWN}, status=status) == response


def check_request(codec: Codec, body: JsonObject) -> None:
    """A request is known as one of its shape; unknown fields are ignored, and the body is left as it is."""
    before = copy.deepcopy(body)
    assert codec.reads_request(body)
    assert codec.read_request({**body, **UNKNOWN}) == codec.read_request(body)
    assert body == before


def streamed(codec: Codec, events: Iterable[sse.ServerEvent]) -> Response:
    """Return what a reader makes of the events."""
    reader = codec.open_stream()
    for event in events:
        reader.feed(event)
    return reader.close()


def check_stream(codec: Codec, body: JsonObject) -> None:
    """A response that is streamed and read, in whole texts or in pieces, is the same; so is its every text."""
    response = codec.read_response(body)
    for piece_chars in (0, 1, 5):
        assert streamed(codec, codec.write_stream(response, piece_chars=piece_chars)) == response


def check_cut_off(codec: Codec, body: JsonObject) -> None:
    """A stream that ends before its last event closes to a value that is not complete, and streams as itself."""
    events = list(codec.write_stream(codec.read_response(body), piece_chars=4))
    for end in range(len(events)):
        cut = streamed(codec, events[:end])
        assert not cut.complete
        assert not streamed(codec, codec.write_stream(cut)).complete


def check_deltas(codec: Codec, body: JsonObject) -> None:
    """The text deltas of a stream, joined, are the texts of the answer."""
    response = codec.read_response(body)
    reader = codec.open_stream()
    deltas = [d for event in codec.write_stream(response, piece_chars=3) for d in reader.feed(event)]
    for choice in response.choices:
        joined = "".join(d.text for d in deltas if d.channel == "text" and d.choice == choice.index)
        assert joined == choice.text.replace("\n", "") == joined.replace("\n", "")


def check_errors_in_stream(codec: Codec, body: JsonObject, *, error: JsonObject) -> None:
    """An error in mid-stream keeps what had arrived, is not complete, and streams as itself."""
    failure, answer = codec.read_response(error), codec.read_response(body)
    cut_off = [*codec.write_stream(msgspec.structs.replace(answer, complete=False))]
    broken = streamed(codec, [*cut_off, *codec.write_stream(failure)])
    assert broken.choices[0].parts == answer.choices[0].parts
    assert (broken.error, broken.complete) == (failure.error, False)
    assert broken.signals[-1:] == failure.signals
    assert streamed(codec, codec.write_stream(broken)) == broken


def check_never_raises(codec: Codec, junk: Any) -> None:
    """Whatever the JSON, a reader gives a value that round-trips, or raises `ShapeError`."""
    if isinstance(junk, dict):
        assert codec.reads_request(junk) in (True, False)
        assert codec.reads_response(junk) in (True, False)
    with contextlib.suppress(ShapeError):
        codec.read_request(junk)
    with contextlib.suppress(ShapeError):
        # What a shape cannot leave out is filled in by the first writing; from then on nothing changes.
        response = codec.read_response(codec.write_response(codec.read_response(junk)))
        assert codec.read_response(codec.write_response(response)) == response
        streamed(codec, codec.write_stream(response, piece_chars=2))


def check_stream_never_raises(codec: Codec, events: list[sse.ServerEvent]) -> None:
    """Whatever the events, a reader gives a value or raises `ShapeError`."""
    with contextlib.suppress(ShapeError):
        streamed(codec, events)


@st.composite
def spoilt(draw: st.DrawFn, bodies: Mapping[str, JsonObject]) -> JsonObject:
    """Draw one of the bodies with one or two of its values replaced by any JSON."""
    body = copy.deepcopy(bodies[draw(st.sampled_from(sorted(bodies)))])
    for _ in range(draw(st.integers(1, 2))):
        holder, key = draw(st.sampled_from(list(_places(body))))
        holder[key] = draw(JSON)
    return body


@st.composite
def spoilt_events(draw: st.DrawFn, codec: Codec, bodies: Mapping[str, JsonObject]) -> list[sse.ServerEvent]:
    """Draw the stream of one of the bodies with one event's JSON spoilt, and perhaps an event lost."""
    body = bodies[draw(st.sampled_from(sorted(bodies)))]
    written = codec.write_stream(codec.read_response(body), piece_chars=4)
    events = [event for event in written if event.data != "[DONE]"]
    at = draw(st.integers(0, len(events) - 1))
    decoded = {"event": fields.decode(events[at].data)}
    holder, key = draw(st.sampled_from(list(_places(decoded))))
    holder[key] = draw(JSON)
    with contextlib.suppress(ShapeError):
        events[at] = replace(events[at], data=fields.encode(decoded["event"]).decode())
    if draw(st.booleans()):
        del events[draw(st.integers(0, len(events) - 1))]
    return events


def _places(node: Any) -> Iterable[tuple[Any, Any]]:
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in pairs:
        yield node, key
        yield from _places(value)
