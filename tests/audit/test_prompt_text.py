"""What of a request auditors are handed as its prompt."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from demur.audit.prompt_text import asked_words
from demur.model.exchange import Message, Request, Shape, TextPart
from demur.wire.shapes import CODECS

PICTURE = base64.b64encode(bytes(range(256)) * 4).decode()
TEXT_FILE = "data:text/plain;base64," + base64.b64encode(b"words in a file").decode()


def words(content: Any, shape: Shape = Shape.ANTHROPIC, role: str = "user") -> str:
    return asked_words(CODECS[shape].read_request({"model": "m", "messages": [{"role": role, "content": content}]}))


@pytest.mark.parametrize("role", ["system", "developer", "assistant"])
def test_the_operator_and_the_model_are_not_the_prompt(role: str) -> None:
    """Turns of the operator and of the model are left out, by exactly their roles."""
    assert words("said", Shape.OPENAI_CHAT, role) == ""
    assert words("said", Shape.OPENAI_CHAT, role.title()) == "said"


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "found"}]}, "found"),
        ({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a b"}}, "a b"),
        ({"type": "search_result", "title": "t", "content": [{"type": "text", "text": "c"}]}, "t\nc"),
        ({"type": "file", "file": {"file_data": TEXT_FILE}}, "words in a file"),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}, ""),
        ({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}, ""),
        ({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}, ""),
    ],
)
def test_parts_are_read_for_their_words(part: dict[str, Any], said: str) -> None:
    """Results, documents and files of text are words; pictures and addresses are none."""
    assert words([part]) == said


def test_a_word_broken_by_parts_is_read_whole() -> None:
    """Parts that end in the middle of a word are read with and without the seam, others only one a line."""
    assert words([{"type": "text", "text": "se"}, {"type": "text", "text": "cret"}]) == "se\ncret\nsecret"
    assert words([{"type": "text", "text": "one."}, {"type": "text", "text": "Two"}]) == "one.\nTwo"


def test_items_and_templates_are_read() -> None:
    """Items of an unknown kind and a template's values are words, unless the model wrote them."""
    items = [{"type": "odd", "role": "user", "content": "a"}, {"type": "odd", "role": "assistant", "content": "b"}]
    body = {"model": "m", "input": items, "prompt": {"id": "p", "variables": {"x": "c"}}}
    assert asked_words(CODECS[Shape.OPENAI_RESPONSES].read_request(body)) == "a\nc"


def test_plain_turns_are_the_prompt_as_ever() -> None:
    """A request of plain turns has the prompt that it always had."""
    turns = (
        Message("user", (TextPart("a"),)),
        Message("assistant", (TextPart("b"),)),
        Message("user", (TextPart("c"),)),
    )
    request = Request("m", turns)
    assert asked_words(request) == request.prompt == "a\nc"


def test_fields_beside_the_conversation_are_read() -> None:
    """Words in another input field than the shape's own are part of the prompt; the operator's turns are not."""
    turns = [{"role": "system", "content": "rules"}, {"role": "user", "content": "a"}]
    chat = {"model": "m", "messages": turns, "documents": [{"text": "b"}], "input": None, "query": "", "top_p": 1}
    assert asked_words(CODECS[Shape.OPENAI_CHAT].read_request(chat)) == "a\nb"
    assert asked_words(CODECS[Shape.OPENAI_RESPONSES].read_request({"model": "m", "input": turns})) == "a"
