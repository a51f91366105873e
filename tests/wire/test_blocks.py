"""What the shapes with content blocks share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.model.exchange import Choice, Finish, OpaquePart, Response, Signal, SignalKind, TextPart, Usage
from demur.wire.fields import (
    Field,
    arguments_of,
    cut,
    extra_inputs,
    finish_word,
    input_of,
    only_choice,
    tool_input,
    usage_of,
)

WORDS = {"end": Finish.STOP, "halt": Finish.STOP}
DEFAULTS = dict.fromkeys(Finish, "end")


@given(st.text(), st.integers(0, 9))
def test_pieces_make_the_text(text: str, piece_chars: int) -> None:
    """Pieces joined are the text, each within its size, none of them empty."""
    pieces = list(cut(text, piece_chars))
    assert "".join(pieces) == text
    assert all(0 < len(piece) <= (piece_chars or len(text)) for piece in pieces)


@pytest.mark.parametrize(
    ("arguments", "value"), [('{"a":1}', {"a": 1}), ("", {}), ('{"a', '{"a'), ("[1]", "[1]"), ("word", "word")]
)
def test_arguments_are_an_object_or_the_text_they_are(arguments: str, value: object) -> None:
    """Only a JSON object is decoded; a call that was cut off stays text."""
    assert input_of(arguments) == value
    assert arguments_of(Field(value)) == arguments or not arguments
    assert arguments_of(None) == "{}"
    assert tool_input([arguments], start={"s": 1}) == (value if arguments else {"s": 1})


def test_a_finish_word_is_kept_while_it_means_the_finish() -> None:
    """The provider's own word is written where it fits, the shape's word otherwise, none where there is no finish."""
    kept = Choice(0, (), Finish.STOP, "halt")
    foreign = Choice(0, (), Finish.STOP, "alien")
    unknown = Choice(0, (), Finish.UNKNOWN, "alien")
    words = [finish_word(c, WORDS, defaults=DEFAULTS) for c in (kept, foreign, unknown, Choice(0, ()))]
    assert words == ["halt", "end", "alien", None]


def test_inputs_beside_the_shapes_own_are_kept() -> None:
    """Input fields that the shape does not read are kept as canonical JSON; empty ones say nothing."""
    body = {"documents": [{"b": 1, "a": 2}], "messages": [], "prompt": "", "query": None, "top_p": 1}
    assert extra_inputs(body, own="messages") == (OpaquePart("documents", b'[{"a":2,"b":1}]'),)


def test_counts_that_are_absent_are_zero() -> None:
    """Usage without one of its counts has a zero there; no usage is none."""
    assert usage_of(Field({"a": 2}), asked="a", answered="b") == Usage(2, 0)
    assert usage_of(None, asked="a", answered="b") is None


def test_a_blocked_prompt_stays_visible_without_a_choice() -> None:
    """A shape that has one choice is given a filtered one for a blocked prompt, and an open one for nothing at all."""
    block = Signal(SignalKind.PROMPT_BLOCK, "promptFeedback.blockReason", "SAFETY")
    assert only_choice(Response("m", signals=(block,))).finish is Finish.CONTENT_FILTER
    assert only_choice(Response("m")).finish is None
    assert only_choice(Response("m", (Choice(0, (TextPart("a"),)),))).text == "a"
