"""What does a whole answer say, so that nothing in it goes unread?

A codec reads what a shape defines. A provider may say more, in fields of its own, and a client may show them; so every string
that the stream guard would count as said is looked for, and what the codec has left is added to the text.

Laws: no answer raises: what is no JSON, or of no shape, is one text, and whatever a client that reads lines could put together
from it (events, one JSON a line, a list of chunks) is another, for its headers may say one thing and its client do another;
the text parts of an answer are one text with nothing between them, as in a stream and as clients join them; an error stays
an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from demur.errors import InputError
from demur.gateway.guard.frames import FrameSplitter, frame_of
from demur.gateway.guard.strands import Ledger
from demur.gateway.guard.text import READERS, read_body, tell
from demur.gateway.guard.values import GuardLimits
from demur.gateway.passporting import scanned_response
from demur.model.exchange import (
    Choice,
    OpaquePart,
    ProviderError,
    Response,
    Shape,
    Signal,
    SignalKind,
    TextPart,
    ToolResultPart,
)
from demur.wire.document import parse_json
from demur.wire.openai.chat import read_bare_response
from demur.wire.shapes import CODECS

if TYPE_CHECKING:
    from demur.model.exchange import Part

__all__ = ["read_answer"]

_FAILED = 400
_SEVERAL = 2
_PLAIN_ANSWER = frozenset(
    {"id", "object", "created", "model", "choices", "usage", "system_fingerprint", "service_tier"}
)
_PLAIN_CHOICE = frozenset({"index", "message", "finish_reason", "logprobs"})
_PLAIN_MESSAGE = frozenset({"role", "content"})
_PLAIN_ROLES = ("assistant", None)
_NO_LIMITS = GuardLimits(event_bytes=2**40, text_chars=2**40, choices=2**40, strands=2**40)
"""A body is whole, and was limited when it was gathered."""


def read_answer(body: bytes, shape: Shape, *, status: int) -> Response:
    """Return the answer in a body, whatever it is."""
    try:
        found = parse_json(body)
        if not isinstance(found, dict):
            return _bare_text(body, shape, status)
        # What no reader needs to write it again (`rest`) is a third of the work.
        is_chat = shape is Shape.OPENAI_CHAT
        response = read_bare_response(found, status) if is_chat else CODECS[shape].read_response(found, status=status)
    except (InputError, RecursionError):
        return _bare_text(body, shape, status)
    if any(len(choice.parts) >= _SEVERAL for choice in response.choices):
        response = replace(response, choices=tuple(map(_with_one_text, response.choices)))
    left = [] if is_chat and _is_plain_chat(found) else _left_over(found, response, shape)
    if not left:
        return response
    first, *others = response.choices or (Choice(0, ()),)
    return replace(response, choices=(replace(first, parts=(*first.parts, *map(TextPart, left))), *others))


def _is_plain_chat(found: dict[str, Any]) -> bool:
    """Return whether an answer has no field but those that most have: a text, all of which is read, and no other words.

    To find the same by gathering every string costs as much as reading the answer.
    """
    choices = found.get("choices")
    return (
        isinstance(choices, list)
        and found.keys() <= _PLAIN_ANSWER
        and all(choice.keys() <= _PLAIN_CHOICE and _is_plain_message(choice.get("message")) for choice in choices)
    )


def _is_plain_message(message: object) -> bool:
    if not isinstance(message, dict) or message.get("role") not in _PLAIN_ROLES:
        return False
    return isinstance(message.get("content"), str) and all(
        name in _PLAIN_MESSAGE or not value for name, value in message.items()
    )


def _left_over(found: dict[str, Any], response: Response, shape: Shape) -> list[str]:
    """Return the strings in a body that stand in no part of what was read."""
    whole: dict[str, object] = {"type": "response.completed", "response": found}
    whole = whole if shape is Shape.OPENAI_RESPONSES else found
    told = READERS[shape](whole, None)
    known = [text for choice in response.choices for part in choice.parts for text in _texts_of(part)]
    if response.error is not None:
        known += [word for word in (response.error.message, response.error.code, response.error.kind) if word]
    known += [signal.value for signal in response.signals]
    said = dict.fromkeys(piece.text for piece in told.pieces)
    return [text for text in said if not any(text in held for held in known)]


def _texts_of(part: Part) -> tuple[str, ...]:
    if isinstance(part, OpaquePart):
        return ()
    if isinstance(part, ToolResultPart):
        return (part.text,)
    return (part.text,) if hasattr(part, "text") else (part.arguments,)


def _with_one_text(choice: Choice) -> Choice:
    """Return a choice whose text is one part."""
    texts = [part.text for part in choice.parts if isinstance(part, TextPart)]
    if len(texts) < _SEVERAL:
        return choice
    at = next(n for n, part in enumerate(choice.parts) if isinstance(part, TextPart))
    others = [part for part in choice.parts if not isinstance(part, TextPart)]
    return replace(choice, parts=(*others[:at], TextPart("".join(texts)), *others[at:]))


def _bare_text(body: bytes, shape: Shape, status: int) -> Response:
    text = body.decode("utf-8", errors="replace")
    if status >= _FAILED:
        signal = Signal(SignalKind.ERROR, "status", str(status))
        return Response("", (), (signal,), ProviderError(text), status=status)
    if not text.strip():
        return Response("", (), status=status)
    heard = _heard_by_lines(body, shape)
    first, *others = heard.choices or (Choice(0, ()),)
    return replace(heard, choices=(replace(first, parts=(*first.parts, TextPart(text))), *others), status=status)


def _heard_by_lines(body: bytes, shape: Shape) -> Response:
    """Return what a client hears that looks for events, or for one JSON a line, in what is neither."""
    ledger = Ledger(0, _NO_LIMITS)
    frames = FrameSplitter(_NO_LIMITS.event_bytes).feed(body + b"\n\n") if b"data:" in body else []
    rows = [
        b"data: " + row.strip(b" \t,[]") + b"\n\n" for row in body.splitlines() if row.lstrip(b" \t,[").startswith(b"{")
    ]
    for frame in (*frames, *map(frame_of, rows if len(rows) > 1 else _rows_of_list(body))):
        read = read_body(frame)
        if read is not None:
            ledger.add(tell(frame, read, shape=shape))
    return scanned_response(ledger.ask(final=True))


def _rows_of_list(body: bytes) -> list[bytes]:
    try:
        found = parse_json(body)
    except (InputError, RecursionError):
        return []
    return [b"data: " + msgspec.json.encode(row) + b"\n\n" for row in found] if isinstance(found, list) else []
