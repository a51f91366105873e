"""A row that somebody wrote by hand: a prompt field and a response field, each plain text.

Laws: the field names are those that people use; a null response is a row whose answer is missing, not an empty answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.errors import ShapeError
from demur.model.exchange import Choice, Exchange, Message, Request, Response, TextPart

if TYPE_CHECKING:
    from demur.wire.interface import JsonObject

__all__ = ["PROMPT_FIELDS", "RESPONSE_FIELDS", "read_flat", "read_prompt", "reads_flat"]

PROMPT_FIELDS = ("prompt", "instruction", "question", "input")
RESPONSE_FIELDS = ("response", "output", "completion", "answer", "text")


def reads_flat(body: JsonObject) -> bool:
    """Return whether a row has a response field that is text or null."""
    field = _first(body, RESPONSE_FIELDS)
    return field is not None and (body[field] is None or isinstance(body[field], str))


def read_flat(body: JsonObject) -> Exchange:
    """Return the exchange in a flat row; `id` and `session_id` are kept where they are text or numbers."""
    answer = _first(body, RESPONSE_FIELDS)
    if answer is None:
        raise ShapeError("no response field", hint=f"name it one of {', '.join(RESPONSE_FIELDS)}")
    text = body[answer]
    response = None if text is None else _response(str(text), _label(body, "model"))
    session = _label(body, "session_id") or _label(body, "conversation_id")
    return Exchange(None, response, read_prompt(body), _label(body, "id") or _label(body, "custom_id"), session)


def read_prompt(body: JsonObject) -> Request | None:
    """Return the request in a row's prompt field, None where it has none that is text."""
    asked = _first(body, PROMPT_FIELDS)
    prompt = body[asked] if asked else None
    return (
        Request(_label(body, "model") or "", (Message("user", (TextPart(prompt),)),))
        if isinstance(prompt, str)
        else None
    )


def _response(text: str, model: str | None) -> Response:
    return Response(model or "", (Choice(0, (TextPart(text),)),))


def _first(body: JsonObject, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in body), None)


def _label(body: JsonObject, name: str) -> str | None:
    value = body.get(name)
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
