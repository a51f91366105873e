"""What one event of a stream says to the client, strand by strand.

A guard may release only what was scanned, so this reads more than a codec does: every string of an event counts as said,
wherever it is, unless its name is known to hold no words. Strands are as fine as the wire tells them apart, so that
interleaved tool calls or blocks never hide a phrase from each other. Reading never raises.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

from demur.model.exchange import Channel, Shape
from demur.wire.openai.parts import THOUGHTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from demur.wire.sse import RawEvent

__all__ = ["CHAT_KEYS", "READERS", "Body", "EventText", "Piece", "index_in", "read_body", "read_event"]

Body = dict[str, object]


class Piece(msgspec.Struct, frozen=True, gc=False):
    """Some characters of one strand.

    One that `grows` continues its strand as the client will join it; others are whole texts that repeat or are by themselves
    (the `done` events of the Responses API, citations, errors).
    """

    choice: int
    channel: Channel
    place: str
    text: str
    grows: bool = True


class EventText(msgspec.Struct, frozen=True):
    """What one event says: its pieces, the choices it ends, and whether nothing more is to come."""

    pieces: tuple[Piece, ...] = ()
    closes: tuple[int, ...] = ()
    last: bool = False


# Names of fields that hold no words for the reader; log-probabilities stand in the event of the text they repeat.
_SILENT = frozenset(
    {
        *("b64_json", "call_id", "category", "content_filter_results", "created", "data", "encrypted_content"),
        *(
            "expires_at",
            "fingerprint",
            "finish_reason",
            "format",
            "id",
            "index",
            "item_id",
            "logprobs",
            "model",
            "name",
        ),
        *("native_finish_reason", "obfuscation", "object", "partial_image_b64", "phase", "prompt_filter_results"),
        *("provider", "result", "role", "service_tier", "signature", "status", "stop_reason", "stop_sequence"),
        *("system_fingerprint", "timestamp", "tool_use_id", "type", "usage"),
    }
)

_NOTHING = EventText()
_MAX_INDEX_DIGITS = 9
CHAT_KEYS = frozenset({"id", "object", "created", "model", "system_fingerprint", "choices", "usage", "service_tier"})
"""The fields of a chat response or chunk; none but `choices` holds words."""
_CHOICE_KEYS = frozenset({"index", "delta", "finish_reason", "logprobs", "content_filter_results"})
_DELTAS = {"content": Channel.TEXT, "refusal": Channel.REFUSAL} | dict.fromkeys(THOUGHTS, Channel.THINKING)
_CHANNELS = _DELTAS | {
    "arguments": Channel.TOOL,
    "input": Channel.TOOL,
    "partial_json": Channel.TOOL,
    "code": Channel.TOOL,
    "summary": Channel.THINKING,
}
_RESPONSES_STRANDS = {
    "response.output_text.delta": Channel.TEXT,
    "response.refusal.delta": Channel.REFUSAL,
    "response.reasoning_text.delta": Channel.THINKING,
    "response.reasoning_summary_text.delta": Channel.THINKING,
    "response.function_call_arguments.delta": Channel.TOOL,
    "response.audio.transcript.delta": Channel.TEXT,
}
_RESPONSES_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_RESPONSES_WHOLES = (".done", ".added")
_MESSAGE_WHOLES = frozenset({"message_start", "message_delta", "content_block_stop", "error"})
_BLOCK_DELTAS = {
    "text_delta": ("text", Channel.TEXT),
    "thinking_delta": ("thinking", Channel.THINKING),
    "input_json_delta": ("partial_json", Channel.TOOL),
}


def index_in(body: Body, key: str = "index") -> int:
    """Return a number that tells choices, blocks or items apart; 0 where there is none."""
    found = body.get(key)
    if isinstance(found, int):
        return found
    # `1.0` and `"1"` are how some servers write it.
    if isinstance(found, str) and len(found) <= _MAX_INDEX_DIGITS and found.isascii() and found.isdecimal():
        return int(found)
    return int(found) if isinstance(found, float) and found.is_integer() else 0


def read_body(event: RawEvent) -> Body | None:
    """Return the JSON object in an event, None where there is none."""
    data = event.data
    if not data:
        return None
    try:
        body = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        # Half a surrogate pair or a NaN is JSON enough for most clients, and for Python's own reader.
        try:
            body = json.loads(data if isinstance(data, str) else data.decode("utf-8", errors="replace"))
        except (ValueError, RecursionError):
            return None
    return body if isinstance(body, dict) else None


def read_event(event: RawEvent, body: Body | None, *, shape: Shape) -> EventText:
    """Return what an event says in a stream of this format; `body` is its JSON object, as far as it has one."""
    if body is not None:
        read = READERS[shape](body, event.event)
    else:
        data = event.data or ""
        text = data if isinstance(data, str) else data.decode("utf-8", errors="replace")
        if text.strip() in ("", "[DONE]"):
            read = EventText(last=True) if text.strip() else _NOTHING
        else:
            # What is no JSON is one piece, all of it.
            read = EventText((Piece(0, Channel.TEXT, "~unread", text),))
    if not event.beside:
        return read
    return EventText((*read.pieces, Piece(0, Channel.TEXT, "~stray", f"{event.beside}\n")), read.closes, read.last)


def _read_chat_chunk(body: Body, _event: str | None) -> EventText:
    pieces: list[Piece] = []
    closes: list[int] = []
    choices = body.get("choices")
    for choice in choices if isinstance(choices, list) else (choices,):
        if isinstance(choice, dict) and choices is not choice:
            _read_chat_choice(choice, pieces, closes)
        else:
            pieces += (Piece(0, c, "~odd", text) for _, c, text in _strings(choice))
    if not body.keys() <= CHAT_KEYS:
        rest = {key: value for key, value in body.items() if key not in CHAT_KEYS}
        pieces += (Piece(0, c, "~beside", text, grows=False) for _, c, text in _strings(rest))
    return EventText(tuple(pieces), tuple(closes)) if pieces or closes else _NOTHING


def _read_chat_choice(choice: Body, pieces: list[Piece], closes: list[int]) -> None:
    index = index_in(choice)
    delta = choice.get("delta")
    if isinstance(delta, dict):
        _read_chat_delta(delta, index, pieces)
    else:
        pieces += (Piece(index, c, "", text) for _, c, text in _strings(delta))
    if not choice.keys() <= _CHOICE_KEYS:
        for key, value in choice.items():
            if key == "text" and isinstance(value, str) and value:
                pieces.append(Piece(index, Channel.TEXT, "", value))
            elif key not in _CHOICE_KEYS:
                # Some servers repeat the message so far beside each delta.
                pieces += (Piece(index, c, "~beside", text, grows=False) for _, c, text in _strings({key: value}))
    if choice.get("finish_reason") is not None:
        closes.append(index)


def _read_chat_delta(delta: Body, index: int, pieces: list[Piece]) -> None:
    for key, value in delta.items():
        if not value or key == "role":
            continue
        if isinstance(value, str) and key in _DELTAS:
            pieces.append(Piece(index, _DELTAS[key], "" if key in ("content", "refusal") else key, value))
        elif key == "tool_calls" and isinstance(value, list):
            for position, call in enumerate(value):
                at = call.get("index", position) if isinstance(call, dict) else position
                pieces += (Piece(index, Channel.TOOL, f"{at}{path}", text) for path, _, text in _strings(call))
        elif key == "content":
            # Lists of parts: their texts continue one another, as with a plain string.
            pieces += (Piece(index, c or Channel.TEXT, "", text) for _, c, text in _strings(value))
        else:
            pieces += (Piece(index, c, f"~{path}", text) for path, c, text in _strings({key: value}))


def _read_response_event(body: Body, event: str | None) -> EventText:
    kind = body.get("type") or event
    kind = kind if isinstance(kind, str) else ""
    delta = body.get("delta")
    if isinstance(delta, str):
        if not delta or (kind == "response.audio.delta" and " " not in delta):
            return _NOTHING
        part = body.get("content_index", body.get("summary_index", ""))
        place = f"{body.get('output_index', body.get('item_id', 0))}.{part}"
        channel = _RESPONSES_STRANDS.get(kind)
        if channel is None:
            channel, place = Channel.TOOL, f"{place}.{kind}"
        return EventText((Piece(0, channel, place, delta),))
    response = body.get("response")
    if isinstance(response, dict):
        # The rest of the response repeats the request, instructions included: nothing that the model said.
        said: object = {key: response.get(key) for key in ("output", "output_text", "error")}
    else:
        said = body
    known = isinstance(response, dict) or kind.endswith(_RESPONSES_WHOLES) or kind in ("error", "")
    pieces = tuple(_beyond_deltas(said, "" if known else kind))
    last = kind in _RESPONSES_ENDS
    return EventText(pieces, (0,) if last else (), last) if pieces or last else _NOTHING


def _read_message_event(body: Body, event: str | None) -> EventText:
    kind = body.get("type") or event
    if kind == "content_block_delta":
        return EventText(tuple(_read_block_delta(body.get("delta"), body.get("index"))))
    if kind == "content_block_start":
        return EventText(tuple(_read_block_start(body.get("content_block"), body.get("index"))))
    said: object = body
    if kind == "message_stop":
        return EventText(tuple(_beyond_deltas(said, "")), (0,), last=True)
    if kind == "message_start":
        message = body.get("message")
        said = message.get("content") if isinstance(message, dict) else message
    pieces = tuple(_beyond_deltas(said, "" if kind in _MESSAGE_WHOLES else str(kind)))
    delta = body.get("delta")
    stops = kind == "message_delta" and isinstance(delta, dict) and delta.get("stop_reason") is not None
    return EventText(pieces, (0,) if stops else ()) if pieces or stops else _NOTHING


def _read_block_delta(delta: object, index: object) -> Iterator[Piece]:
    if not isinstance(delta, dict):
        yield from (Piece(0, c, str(index), text) for _, c, text in _strings(delta))
        return
    kind = delta.get("type")
    known = _BLOCK_DELTAS.get(kind) if isinstance(kind, str) else None
    text = delta.get(known[0]) if known is not None else None
    if known is not None and isinstance(text, str):
        if text:
            yield Piece(0, known[1], str(index), text)
    elif kind == "citations_delta":
        yield from (Piece(0, c, "~whole", text, grows=False) for _, c, text in _strings(delta))
    elif kind != "signature_delta":
        yield from (Piece(0, c, f"{index}.{path}", text) for path, c, text in _strings(delta))


def _read_block_start(block: object, index: object) -> Iterator[Piece]:
    if not isinstance(block, dict):
        return
    for name, channel in (("text", Channel.TEXT), ("thinking", Channel.THINKING)):
        text = block.get(name)
        if isinstance(text, str) and text:
            yield Piece(0, channel, str(index), text)
    rest = {key: value for key, value in block.items() if key not in ("text", "thinking")}
    yield from (Piece(0, c, "~whole", text, grows=False) for _, c, text in _strings(rest))


def _beyond_deltas(said: object, unknown: str) -> Iterator[Piece]:
    """Yield what an event says that is no delta: whole texts, or strands of its own where its kind is not known."""
    texts: list[str] = []
    for path, channel, text in _strings(said):
        if unknown:
            yield Piece(0, channel, f"~{unknown}{path}", text)
        else:
            yield Piece(0, channel, "~whole", text, grows=False)
            if channel is Channel.TEXT and path.endswith(".text"):
                texts.append(text)
    if len(texts) > 1:
        # Clients put the parts of an answer together with nothing between them.
        yield Piece(0, Channel.TEXT, "~whole", "".join(texts), grows=False)


def _strings(value: object, path: str = "", channel: Channel = Channel.TEXT) -> Iterator[tuple[str, Channel, str]]:
    """Yield every string in a value that may be words: the names that led to it, its channel, itself."""
    stack: list[tuple[object, str, Channel]] = [(value, path, channel)]
    while stack:
        found, path, channel = stack.pop()
        if isinstance(found, str):
            if found:
                yield path, channel, found
        elif isinstance(found, dict):
            # Under the name of an id or a picture there may be words after all: neither of them has blanks.
            said = [
                (key, item)
                for key, item in found.items()
                if key not in _SILENT or (isinstance(item, str) and " " in item)
            ]
            stack += [(item, f"{path}.{key}", _CHANNELS.get(key, channel)) for key, item in reversed(said)]
        elif isinstance(found, list):
            stack += [(item, path, channel) for item in reversed(found)]


READERS: Mapping[Shape, Callable[[Body, str | None], EventText]] = {
    Shape.OPENAI_CHAT: _read_chat_chunk,
    Shape.AZURE: _read_chat_chunk,
    Shape.OPENAI_RESPONSES: _read_response_event,
    Shape.ANTHROPIC: _read_message_event,
}
"""How the events of each shape are read; a shape that is not here has no guard."""
