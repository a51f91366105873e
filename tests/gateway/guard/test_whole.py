"""A whole answer is read to its last word, also where a glance says that there is nothing beside its text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.gateway.guard.events import READERS
from demur.gateway.guard.whole import read_whole_response
from demur.model.exchange import Shape, TextPart

WORDS = st.sampled_from(["", "hello", "how are you", "assistant", "stop", None, 1, [], {}, ["a b"], {"text": "c d"}])
NAMES = st.sampled_from(
    [
        *("id", "object", "model", "system_fingerprint", "service_tier", "usage", "index", "logprobs", "finish_reason"),
        *("role", "content", "refusal", "annotations", "text", "delta", "note", "reasoning_content", "message"),
    ]
)
BESIDE = st.dictionaries(NAMES, WORDS, max_size=2)


def answer(
    message: dict[str, object] | None = None,
    choice: dict[str, object] | None = None,
    beside: dict[str, object] | None = None,
) -> dict[str, object]:
    """Return an answer such as most are, and what is given."""
    said = {"role": "assistant", "content": "Of course."} | (message or {})
    one = {"index": 0, "message": said, "finish_reason": "stop"} | (choice or {})
    whole = {"id": "c-1", "object": "chat.completion", "created": 1, "model": "m", "choices": [one]}
    return whole | (beside or {})


@given(BESIDE, BESIDE, BESIDE)
def test_no_string_that_a_client_may_show_goes_unread(
    message: dict[str, object], choice: dict[str, object], beside: dict[str, object]
) -> None:
    """Whatever stands beside the text, all that the stream guard would count as said is in a part of the answer."""
    body = answer(message, choice, beside)
    response = read_whole_response(json.dumps(body).encode(), Shape.OPENAI_CHAT, status=200)
    held = [str(getattr(part, "text", "")) for each in response.choices for part in each.parts]
    held += [signal.value for signal in response.signals]
    held += [f"{response.error.message} {response.error.code} {response.error.kind}"] if response.error else []
    told = READERS[Shape.OPENAI_CHAT](body, None)
    assert [piece.text for piece in told.pieces if not any(piece.text in text for text in held)] == []


@pytest.mark.parametrize(
    "body",
    [
        answer({"role": "how are you"}),
        answer({"note": "how are you"}),
        answer(None, {"note": "how are you"}),
        answer(None, None, {"note": "how are you"}),
    ],
    ids=["role", "message", "choice", "body"],
)
def test_words_in_an_unknown_place_are_added_to_the_text(body: dict[str, object]) -> None:
    """One field more than an ordinary answer has, and its words are a part of the first choice."""
    response = read_whole_response(json.dumps(body).encode(), Shape.OPENAI_CHAT, status=200)
    assert response.choices[0].parts == (TextPart("Of course."), TextPart("how are you"))


def test_an_ordinary_answer_is_its_text() -> None:
    """Fields that are null or empty, and counts, add nothing."""
    body = answer({"refusal": None, "annotations": []}, {"logprobs": None}, {"service_tier": "default", "usage": None})
    response = read_whole_response(json.dumps(body).encode(), Shape.OPENAI_CHAT, status=200)
    assert [choice.parts for choice in response.choices] == [(TextPart("Of course."),)]
