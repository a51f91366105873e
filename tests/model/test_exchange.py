"""The values of an exchange are values: they cannot change, and are told apart by what they hold."""

from __future__ import annotations

import pickle

import msgspec
import pytest

from demur.model.exchange import (
    Choice,
    Exchange,
    Finish,
    Message,
    OpaquePart,
    RefusalPart,
    Request,
    Response,
    Shape,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
)

REQUEST = Request("m", (Message("user", (TextPart("hello"), OpaquePart("image", b"{}"))),))
RESPONSE = Response("m", (Choice(0, (TextPart("hi"), ToolCallPart("c", "f", "{}")), Finish.STOP, "stop"),))
VALUES = (
    *(TextPart("a"), RefusalPart("a"), ThinkingPart("a"), ToolCallPart("a", "b", "c"), ToolResultPart("a", "b")),
    *(OpaquePart("a", b""), Usage(1, 2), REQUEST, REQUEST.messages[0], RESPONSE, RESPONSE.choices[0]),
    Exchange(Shape.OPENAI_CHAT, RESPONSE, REQUEST),
)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_an_exchange_never_changes(value: msgspec.Struct) -> None:
    """No field can be set, and an equal value hashes alike, also one that came from another process."""
    name = value.__struct_fields__[0]
    with pytest.raises(AttributeError):
        setattr(value, name, "other")
    again = pickle.loads(pickle.dumps(value))  # noqa: S301 — of our own making
    assert (again, hash(again), repr(again)) == (value, hash(value), repr(value))


def test_parts_of_the_same_words_are_still_of_their_kind() -> None:
    """A refusal is not equal to a text of the same words, and each is matched by its kind and its fields in order."""
    assert len({TextPart("no"), RefusalPart("no"), ThinkingPart("no"), TextPart("no")}) == 3
    match RefusalPart("no"):
        case TextPart(text):
            pytest.fail(f"a refusal was taken for the text {text}")
        case RefusalPart(text):
            assert text == "no"
    assert repr(ToolCallPart("c", "f", "{}")) == "ToolCallPart(id='c', name='f', arguments='{}')"
