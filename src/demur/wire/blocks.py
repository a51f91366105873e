"""What do the shapes whose messages are lists of blocks share: Anthropic, Gemini and Bedrock?

Laws: a tool's arguments are compact JSON text in the model and an object on the wire; an argument text that is no JSON
object (a call that was cut off) stays the text it is. A choice keeps its provider's own finish word as long as that
word means the choice's `finish`; otherwise the shape's word for that finish is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from demur.errors import ShapeError
from demur.model.exchange import Choice, Finish, OpaquePart, SignalKind, Usage
from demur.wire.fields import Field, canonical, decode, encode, root
from demur.wire.sse import ServerEvent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from demur.model.exchange import Response
    from demur.wire.interface import JsonObject

__all__ = [
    "SYSTEM_ROLES",
    "arguments_of",
    "cut",
    "event_body",
    "event_of",
    "extra_inputs",
    "finish_word",
    "input_of",
    "only_choice",
    "present",
    "tool_input",
    "usage_of",
]

SYSTEM_ROLES = frozenset({"system", "developer"})
_INPUT_FIELDS = ("prompt", "messages", "input", "inputs", "documents", "query")
"""Top-level fields from which a provider, or a server that imitates one, may read words of a request."""


def arguments_of(field: Field | None) -> str:
    """Return a tool call's arguments as compact JSON; none are an empty object, text stays as it is."""
    if field is None:
        return "{}"
    return field.text() if field.is_text else field.json().decode()


def input_of(arguments: str) -> Any:
    """Return the object in a tool call's arguments, or the text itself where it is no JSON object."""
    if not arguments:
        return {}
    try:
        value = decode(arguments)
    except ShapeError:
        return arguments
    return value if isinstance(value, dict) else arguments


def tool_input(pieces: list[str], *, start: Any) -> Any:
    """Return the input that arrived in pieces, or what the block started with where none did."""
    text = "".join(pieces)
    return input_of(text) if text else start


def cut(text: str, piece_chars: int) -> Iterator[str]:
    """Yield the text in pieces of at most `piece_chars` characters, whole where that is 0; nothing of an empty text."""
    size = piece_chars if piece_chars > 0 else max(len(text), 1)
    for start in range(0, len(text), size):
        yield text[start : start + size]


def event_of(body: JsonObject, name: str | None = None) -> ServerEvent:
    """Return the stream event that holds this JSON."""
    return ServerEvent(data=encode(body).decode(), event=name)


def event_body(event: ServerEvent) -> Field:
    """Return the JSON object in a stream event."""
    return root(decode(event.data))


def finish_word(choice: Choice, words: Mapping[str, Finish], *, defaults: Mapping[Finish, str]) -> str | None:
    """Return the word to write for why a choice ended; None where it has not."""
    if choice.finish is None:
        return None
    raw = choice.finish_raw
    if raw is not None and words.get(raw, Finish.UNKNOWN) == choice.finish:
        return raw
    return defaults[choice.finish]


def only_choice(response: Response) -> Choice:
    """Return the choice for a shape that has one; a blocked prompt without an answer is one that a filter cut off."""
    if response.choices:
        return response.choices[0]
    blocked = any(signal.kind is SignalKind.PROMPT_BLOCK for signal in response.signals)
    return Choice(0, (), Finish.CONTENT_FILTER if blocked else None)


def extra_inputs(body: JsonObject, *, own: str) -> tuple[OpaquePart, ...]:
    """Return the input fields of a request's body that its shape does not read; `own` is the one that it does."""
    return tuple(
        [
            OpaquePart(name, canonical(body[name]))
            for name in _INPUT_FIELDS
            if name in body and name != own and body[name] not in (None, "")
        ]
    )


def usage_of(field: Field | None, *, asked: str, answered: str) -> Usage | None:
    """Return the tokens counted under these two names; a count that is absent is zero."""
    if field is None:
        return None
    return Usage(field.integer_at(asked) or 0, field.integer_at(answered) or 0)


def present(**fields: Any) -> JsonObject:
    """Return an object of the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}
