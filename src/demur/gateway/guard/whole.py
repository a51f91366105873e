"""Reads a whole response so that nothing in it goes unread.

A codec reads what a format defines. A provider may say more, in fields of its own, and a client may show them; so every
string that the stream guard would count as said is looked for, and what the codec has left is added to the text.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from demur.errors import InputError
from demur.gateway.guard.events import CHAT_KEYS, READERS, read_body, read_event
from demur.gateway.guard.strands import Ledger
from demur.gateway.guard.values import GuardLimits
from demur.model.exchange import (
    Choice,
    OpaquePart,
    ProviderError,
    Response,
    Shape,
    Signal,
    SignalKind,
    TextPart,
    ToolCallPart,
)
from demur.wire.fields import parse_json
from demur.wire.shapes import CODECS
from demur.wire.sse import EventSplitter, raw_event

__all__ = ["read_whole_response"]

_FAILED = 400
_SEVERAL = 2
_CHOICE_KEYS = frozenset({"index", "message", "finish_reason", "logprobs"})
# A body is whole, and was limited when it was gathered.
_NO_LIMITS = GuardLimits(event_bytes=2**40, text_chars=2**40, choices=2**40, strands=2**40)


def read_whole_response(body: bytes, shape: Shape, *, status: int) -> Response:
    """Return the response in a body, whatever it is: what is no JSON, or of no known format, is one text."""
    try:
        found = parse_json(body)
        if not isinstance(found, dict):
            return _bare_text(body, shape, status)
        response = CODECS[shape].read_response(found, status=status)
    except (InputError, RecursionError):
        return _bare_text(body, shape, status)
    if any(len(choice.parts) >= _SEVERAL for choice in response.choices):
        response = replace(response, choices=tuple(map(_with_one_text, response.choices)))
    left = [] if shape is Shape.OPENAI_CHAT and _has_only_text(found) else _left_over(found, response, shape)
    if not left:
        return response
    first, *others = response.choices or (Choice(0, ()),)
    return replace(response, choices=(replace(first, parts=(*first.parts, *map(TextPart, left))), *others))


def _has_only_text(found: dict[str, Any]) -> bool:
    """Return whether a chat response has no words but one text per choice, as most have."""
    # To find the same by gathering every string costs as much as reading the response.
    choices = found.get("choices")
    if not isinstance(choices, list) or not found.keys() <= CHAT_KEYS:
        return False
    for choice in choices:
        message = choice.get("message")
        if not choice.keys() <= _CHOICE_KEYS or not isinstance(message, dict):
            return False
        others = [value for name, value in message.items() if name not in ("role", "content")]
        if message.get("role") not in ("assistant", None) or not isinstance(message.get("content"), str) or any(others):
            return False
    return True


def _left_over(found: dict[str, Any], response: Response, shape: Shape) -> list[str]:
    """Return the strings in a body that stand in no part of what was read."""
    # The reader of the Responses API reads events; a whole response is what its last event holds.
    whole: dict[str, object] = {"type": "response.completed", "response": found}
    whole = whole if shape is Shape.OPENAI_RESPONSES else found
    said = READERS[shape](whole, None)
    parts = [part for choice in response.choices for part in choice.parts if not isinstance(part, OpaquePart)]
    known = [part.arguments if isinstance(part, ToolCallPart) else part.text for part in parts]
    if response.error is not None:
        known += [word for word in (response.error.message, response.error.code, response.error.kind) if word]
    known += [signal.value for signal in response.signals]
    texts = dict.fromkeys(piece.text for piece in said.pieces)
    return [text for text in texts if not any(text in held for held in known)]


def _with_one_text(choice: Choice) -> Choice:
    """Return a choice whose text is one part, with nothing between its pieces: as in a stream, and as clients join them."""
    texts = [part.text for part in choice.parts if isinstance(part, TextPart)]
    if len(texts) < _SEVERAL:
        return choice
    at = next(n for n, part in enumerate(choice.parts) if isinstance(part, TextPart))
    others = [part for part in choice.parts if not isinstance(part, TextPart)]
    return replace(choice, parts=(*others[:at], TextPart("".join(texts)), *others[at:]))


def _bare_text(body: bytes, shape: Shape, status: int) -> Response:
    text = body.decode("utf-8", errors="replace")
    # An error stays an error, whatever its body says.
    if status >= _FAILED:
        signal = Signal(SignalKind.ERROR, "status", str(status))
        return Response("", (), (signal,), ProviderError(text), status=status)
    if not text.strip():
        return Response("", (), status=status)
    read = _read_by_lines(body, shape)
    first, *others = read.choices or (Choice(0, ()),)
    return replace(read, choices=(replace(first, parts=(*first.parts, TextPart(text))), *others), status=status)


def _read_by_lines(body: bytes, shape: Shape) -> Response:
    """Return what a client reads that looks for events, or for one JSON per line, in what is neither.

    The headers of a response may say one thing and its client do another.
    """
    ledger = Ledger(0, _NO_LIMITS)
    frames = EventSplitter(_NO_LIMITS.event_bytes).feed(body + b"\n\n") if b"data:" in body else []
    rows = [row.strip(b" \t,[]") for row in body.splitlines() if row.lstrip(b" \t,[").startswith(b"{")]
    if len(rows) < _SEVERAL:
        try:
            found = parse_json(body)
        except (InputError, RecursionError):
            found = None
        rows = [msgspec.json.encode(row) for row in found] if isinstance(found, list) else []
    for frame in (*frames, *(raw_event(b"data: " + row + b"\n\n") for row in rows)):
        read = read_body(frame)
        if read is not None:
            ledger.add(read_event(frame, read, shape=shape))
    return ledger.ask(final=True).response()
