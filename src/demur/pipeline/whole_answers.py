"""What does a whole answer say, so that nothing in it goes unread?

A codec reads what a shape defines. A provider may say more, in fields of its own, and a client may show them; so every string
that the stream guard would count as said is looked for, and what the codec has left is added to the text.

Laws: no answer raises: what is no JSON, or of no shape, is one text; an error stays an error.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from demur.errors import InputError
from demur.model.exchange import Choice, OpaquePart, ProviderError, Response, Shape, TextPart, ToolResultPart
from demur.model.verdict import Signal, SignalKind
from demur.pipeline.guard_text import READERS
from demur.wire.document import parse_json
from demur.wire.openai_chat import read_bare_response
from demur.wire.shapes import CODECS

if TYPE_CHECKING:
    from demur.model.exchange import Part

__all__ = ["read_answer"]

_FAILED = 400


def read_answer(body: bytes, shape: Shape, *, status: int) -> Response:
    """Return the answer in a body, whatever it is."""
    try:
        found = parse_json(body)
        if not isinstance(found, dict):
            return _bare_text(body, status)
        # What no reader needs to write it again (`rest`) is a third of the work.
        is_chat = shape is Shape.OPENAI_CHAT
        response = read_bare_response(found, status) if is_chat else CODECS[shape].read_response(found, status=status)
    except (InputError, RecursionError):
        return _bare_text(body, status)
    left = _left_over(found, response, shape)
    if not left:
        return response
    first, *others = response.choices or (Choice(0, ()),)
    return replace(response, choices=(replace(first, parts=(*first.parts, *map(TextPart, left))), *others))


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


def _bare_text(body: bytes, status: int) -> Response:
    text = body.decode("utf-8", errors="replace")
    if status < _FAILED:
        return Response("", (Choice(0, (TextPart(text),)),) if text.strip() else (), status=status)
    signal = Signal(SignalKind.ERROR, "status", str(status))
    return Response("", (), (signal,), ProviderError(text), status=status)
