"""What an event says: every string that may be words is read, in the strand that a client will join it to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.guard.conformance import on_wire
from tests.wire.laws import JSON

from demur.gateway.guard.events import EventText, Piece, read_body, read_event
from demur.model.exchange import Channel, Shape
from demur.wire.sse import Decoder, EventSplitter, RawEvent, raw_event

CHAT, RESPONSES, MESSAGES = Shape.OPENAI_CHAT, Shape.OPENAI_RESPONSES, Shape.ANTHROPIC
TEXT, TOOL, THINKING = Channel.TEXT, Channel.TOOL, Channel.THINKING


def told(shape: Shape, body: Any, name: str | None = None) -> EventText:
    frame = raw_event(on_wire(body, name))
    return read_event(frame, read_body(frame), shape=shape)


def chat(**delta: Any) -> Any:
    return {"choices": [{"index": 1.0, "delta": delta}]}


GROWING: dict[str, tuple[Shape, Any, list[Piece]]] = {
    "content": (CHAT, chat(role="assistant", content="a"), [Piece(1, TEXT, "", "a")]),
    "parts": (CHAT, chat(content=[{"type": "text", "text": "a"}]), [Piece(1, TEXT, "", "a")]),
    "thoughts in parts": (
        CHAT,
        chat(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "a"}]}]),
        [Piece(1, THINKING, "", "a")],
    ),
    "call": (
        CHAT,
        chat(tool_calls=[{"index": 2, "id": "c", "function": {"name": "f", "arguments": "{"}}]),
        [Piece(1, TOOL, "2.function.arguments", "{")],
    ),
    "custom call": (CHAT, chat(tool_calls=[{"custom": {"input": "ls"}}]), [Piece(1, TOOL, "0.custom.input", "ls")]),
    "legacy call": (CHAT, chat(function_call={"arguments": "{"}), [Piece(1, TOOL, "~.function_call.arguments", "{")]),
    "legacy text": (CHAT, {"choices": [{"index": 0, "text": "a"}]}, [Piece(0, TEXT, "", "a")]),
    "transcript": (CHAT, chat(audio={"data": "AA", "transcript": "a"}), [Piece(1, TEXT, "~.audio.transcript", "a")]),
    "code": (
        RESPONSES,
        {"type": "response.code_interpreter_call_code.delta", "output_index": 1, "delta": "x"},
        [Piece(0, TOOL, "1..response.code_interpreter_call_code.delta", "x")],
    ),
    "unknown event": (
        RESPONSES,
        {"type": "response.dream.grown", "dream": {"words": "x"}},
        [Piece(0, TEXT, "~response.dream.grown.dream.words", "x")],
    ),
    "block that starts with text": (
        MESSAGES,
        {"type": "content_block_start", "index": 3, "content_block": {"type": "text", "text": "a"}},
        [Piece(0, TEXT, "3", "a")],
    ),
    "unknown delta": (
        MESSAGES,
        {"type": "content_block_delta", "index": 3, "delta": {"type": "dream_delta", "dream": "a"}},
        [Piece(0, TEXT, "3..dream", "a")],
    ),
    "unknown message event": (MESSAGES, {"type": "dream", "words": "x"}, [Piece(0, TEXT, "~dream.words", "x")]),
}
WHOLE: dict[str, tuple[Shape, Any, list[str]]] = {
    "message so far": (CHAT, {"choices": [{"index": 0, "delta": {}, "message": {"content": "a"}}]}, ["a"]),
    "beside the choices": (CHAT, {"choices": [], "citations": ["u", "v"]}, ["u", "v"]),
    "chat error": (CHAT, {"error": {"message": "m", "type": "t"}}, ["m"]),
    "item": (RESPONSES, {"type": "response.output_item.done", "item": {"id": "i", "action": {"query": "q"}}}, ["q"]),
    "annotation": (RESPONSES, {"type": "response.output_text.annotation.added", "annotation": {"title": "t"}}, ["t"]),
    "failure": (RESPONSES, {"type": "response.failed", "response": {"error": {"message": "m"}}}, ["m"]),
    "citation": (
        MESSAGES,
        {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": {"cited": "c"}}},
        ["c"],
    ),
    "server tool": (
        MESSAGES,
        {"type": "content_block_start", "index": 0, "content_block": {"type": "x_result", "content": [{"title": "t"}]}},
        ["t"],
    ),
    "refusal": (
        MESSAGES,
        {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": {"explanation": "e"}}},
        ["e"],
    ),
    "message error": (MESSAGES, {"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, ["m"]),
}
SILENT: dict[str, tuple[Shape, Any]] = {
    "role": (CHAT, chat(role="assistant", content="", refusal=None)),
    "usage": (CHAT, {"id": "x", "choices": [], "usage": {"total_tokens": 1}, "provider": "p"}),
    "annotations of a filter": (CHAT, {"choices": [{"delta": {}, "content_filter_results": {"hate": {"s": "safe"}}}]}),
    "created": (RESPONSES, {"type": "response.created", "response": {"instructions": "i", "output": []}}),
    "picture": (RESPONSES, {"type": "response.image_generation_call.partial_image", "partial_image_b64": "AA"}),
    "sound": (RESPONSES, {"type": "response.audio.delta", "delta": "AA"}),
    "nothing": (RESPONSES, {"type": "response.output_text.delta", "delta": ""}),
    "ping": (MESSAGES, {"type": "ping"}),
    "start": (MESSAGES, {"type": "message_start", "message": {"id": "m", "content": []}}),
    "tool's name": (
        MESSAGES,
        {"type": "content_block_start", "content_block": {"type": "tool_use", "name": "f", "input": {}}},
    ),
    "signature": (MESSAGES, {"type": "content_block_delta", "delta": {"type": "signature_delta", "signature": "s"}}),
    "no delta": (MESSAGES, {"type": "content_block_delta"}),
    "no block": (MESSAGES, {"type": "content_block_start"}),
    "empty text": (MESSAGES, {"type": "content_block_delta", "delta": {"type": "text_delta", "text": ""}}),
}


@pytest.mark.parametrize("name", GROWING)
def test_what_grows(name: str) -> None:
    """A piece that continues a strand names the strand as finely as the wire does."""
    shape, body, pieces = GROWING[name]
    assert list(told(shape, body).pieces) == pieces


@pytest.mark.parametrize("name", WHOLE)
def test_what_stands_alone(name: str) -> None:
    """A text that is no delta is a whole one."""
    shape, body, texts = WHOLE[name]
    pieces = told(shape, body).pieces
    assert [piece.text for piece in pieces] == texts
    assert not any(piece.grows for piece in pieces)


@pytest.mark.parametrize("name", SILENT)
def test_what_says_nothing(name: str) -> None:
    """Ids, names, pictures, signatures and the request's own words are no text of the answer."""
    shape, body = SILENT[name]
    assert told(shape, body).pieces == ()


def test_what_ends() -> None:
    """A finish reason closes its choice; the last event of a shape closes all."""
    assert told(CHAT, {"choices": [{"index": 2, "finish_reason": "stop"}]}) == EventText(closes=(2,))
    assert told(MESSAGES, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}) == EventText(closes=(0,))
    assert told(MESSAGES, {"type": "message_stop"}).last
    assert told(RESPONSES, {"type": "response.incomplete", "response": {}}).last
    assert read_event(RawEvent(b"", " [DONE]"), None, shape=CHAT) == EventText(last=True)


def test_what_is_no_json_is_read_all_the_same() -> None:
    """Half a surrogate pair is JSON to most clients; what is none to any is text as it stands; blanks are nothing."""
    half = raw_event(b'data: {"choices": [{"delta": {"content": "a\\ud83d"}}]}\n\n')
    assert read_event(half, read_body(half), shape=CHAT).pieces == (Piece(0, TEXT, "", "a\ud83d"),)
    for raw, text in ((b"data: oh no\n\n", "oh no"), (b"data: [1]\n\n", "[1]"), (b"Bad gateway\n\n", "Bad gateway")):
        frame = raw_event(raw)
        assert read_event(frame, read_body(frame), shape=CHAT).pieces == (Piece(0, TEXT, "~unread", text),)
    for raw in (b"data:  \n\n", b": note\nretry: 3\n\n", b"\n\n"):
        frame = raw_event(raw)
        assert read_event(frame, read_body(frame), shape=CHAT) == EventText()


@given(JSON, st.sampled_from([CHAT, RESPONSES, MESSAGES]), st.sampled_from(["", "error", "content_block_delta"]))
def test_reading_never_raises(junk: Any, shape: Shape, kind: str) -> None:
    """Whatever the JSON, there is an answer."""
    body = {"type": kind, "choices": [junk, {"delta": junk}], "delta": junk, "response": junk, "item": junk}
    assert isinstance(read_event(RawEvent(b"", "x"), body, shape=shape), EventText)


BLOCKS = [b"data: a", b"event: e\ndata: b", b": note", b"data: c\ndata: d", b"id: 1", b"data:e", b"", b"data: \xc3\xb6"]


@given(st.lists(st.sampled_from(BLOCKS), max_size=8), st.sampled_from([b"\n", b"\r\n", b"\r"]), st.data())
def test_frames_are_the_events_with_every_byte_kept(blocks: list[bytes], end: bytes, data: st.DataObject) -> None:
    """For any chunking, frames and rest join to what was fed, and say what the decoder of the wire says."""
    stream = b"".join((block + b"\n\n").replace(b"\n", end) for block in blocks) + b"data: rest"
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)))))
    splitter = EventSplitter(1000)
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    frames = [frame for chunk in chunks for frame in splitter.feed(chunk)]
    assert b"".join(frame.raw for frame in frames) + splitter.rest == stream
    said = [f.data.decode() if isinstance(f.data, bytes) else f.data for f in frames if f.data is not None]
    assert said == [event.data for event in Decoder().feed(stream)]
    assert not splitter.overflow


def test_a_frame_beyond_the_limit_is_never_built() -> None:
    """Frames before it are given, and the splitter says that it overflowed."""
    splitter = EventSplitter(12)
    assert [f.raw for f in splitter.feed(b"data: a\n\ndata: " + b"b" * 20 + b"\n\n")] == [b"data: a\n\n"]
    assert splitter.overflow
