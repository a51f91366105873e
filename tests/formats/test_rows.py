"""Conversations and rows of columns beyond the table of examples."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.formats.example import ANSWER, QUESTION, REFUSAL, read_all, read_one

from demur.detect.check import classify
from demur.errors import ShapeError
from demur.formats.registry import format_of
from demur.model.verdict import Outcome


def test_the_last_answer_is_the_answer() -> None:
    """In a long conversation the assistant's last turn is judged, and all before it is the request."""
    said = [
        ("system", "Be kind."),
        ("user", "Hello."),
        ("assistant", REFUSAL),
        ("user", QUESTION),
        ("assistant", ANSWER),
    ]
    turns = [{"role": role, "content": text} for role, text in said]
    traced = read_one("messages", {"messages": turns, "model": "m", "category": "c"})
    assert traced.exchange.request is not None
    assert [m.role for m in traced.exchange.request.messages] == ["system", "user", "assistant", "user"]
    assert classify(traced.exchange.response).outcome is Outcome.COMPLIED
    assert traced.fields == (("model", "m"), ("category", "c"))


@pytest.mark.parametrize("speaker", ["gpt", "assistant", "chatgpt", "bot", "model"])
def test_every_name_of_the_assistant(speaker: str) -> None:
    """ShareGPT's dialects call the assistant by many names."""
    row = {"conversations": [{"from": "human", "value": QUESTION}, {"from": speaker, "value": REFUSAL}]}
    assert classify(read_one("sharegpt", row).exchange.response).outcome is Outcome.REFUSED


def test_conversations_of_roles() -> None:
    """TRL takes `role` and `content` under `conversations` as well."""
    row = {"conversations": [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]}
    found = format_of(row)
    assert found is not None
    assert found.NAME == "sharegpt"
    assert classify(read_one("sharegpt", row).exchange.response).outcome is Outcome.COMPLIED


@pytest.mark.parametrize(
    ("row", "outcome"),
    [
        *(({"response": ANSWER, "is_refusal": true}, Outcome.REFUSED) for true in (True, 1, "yes")),
        ({"response": None, "is_refusal": True}, Outcome.REFUSED),
        ({"response": ANSWER, "is_refusal": "0"}, Outcome.COMPLIED),
        ({"response": ANSWER, "refusal": "0"}, Outcome.COMPLIED),
        ({"response": ANSWER, "refusal": "no"}, Outcome.COMPLIED),
        ({"response": ANSWER, "refusal": "No, I will not."}, Outcome.REFUSED),
        ({"response": REFUSAL, "refusal": False, "label": False}, Outcome.REFUSED),
        ({"response": ANSWER, "label": 1}, Outcome.COMPLIED),
        ({"response": "", "label": "x"}, Outcome.EMPTY),
    ],
)
def test_a_truth_column_says_refusal_only_where_it_is_true(row: dict[str, Any], outcome: Outcome) -> None:
    """A true flag is a refusal; a false one leaves the text to be read; a label counts only as a truth value."""
    assert classify(read_one("flat", row).exchange.response).outcome is outcome


def test_columns_are_fields() -> None:
    """Every column but the texts, the ids and the session can cut a run."""
    row = {"id": 1, "prompt": "p", "response": "r", "lang": "de", "score": 0.5, "label": "x", "session_id": "s"}
    assert read_one("flat", row).fields == (("language", "de"), ("lang", "de"), ("score", "0.5"), ("label", "x"))


@pytest.mark.parametrize(
    ("held", "outcome"),
    [
        ({"role": "assistant", "content": REFUSAL}, Outcome.REFUSED),
        ({"choices": [{"message": {"content": None, "refusal": REFUSAL}}]}, Outcome.REFUSED),
        ([{"type": "text", "text": ANSWER}], Outcome.COMPLIED),
        ([REFUSAL], Outcome.REFUSED),
        ({"weird": REFUSAL}, Outcome.UNREAD),
        ({}, Outcome.UNREAD),
        ([[REFUSAL]], Outcome.UNREAD),
        (7, Outcome.UNREAD),
        (True, Outcome.UNREAD),
    ],
    ids=["message", "response", "parts", "texts", "unknown", "nothing", "lists", "number", "truth"],
)
def test_an_answer_that_is_no_text_is_read_or_unread(held: Any, outcome: Outcome) -> None:
    """A response column with an object is read where its form is known; otherwise it is a row that was not read."""
    row = {"id": "q-1", "prompt": QUESTION, "response": held}
    found = format_of(row)
    assert found is not None
    traced = read_one("flat", row)
    assert classify(traced.exchange.response).outcome is outcome
    assert (traced.exchange.id, traced.exchange.request and traced.exchange.request.prompt) == ("q-1", QUESTION)


def test_what_stands_beside_an_object_still_counts() -> None:
    """A stop word or a flag of the row is heard, whatever the response column holds."""
    row = {"response": {"content": ANSWER}, "finish_reason": "content_filter"}
    assert classify(read_one("flat", row).exchange.response).outcome is Outcome.FILTERED
    assert classify(read_one("flat", {"response": 7, "is_refusal": True}).exchange.response).outcome is Outcome.REFUSED


@pytest.mark.parametrize(
    ("row", "outcome"),
    [
        ({"error": "timeout"}, Outcome.FAILED),
        ({"id": 1, "prompt": QUESTION, "error": {"why": "rate limit"}}, Outcome.FAILED),
        ({"prompt": QUESTION, "error": "content_filter"}, Outcome.FILTERED),
    ],
    ids=["error", "prompt and error", "filter"],
)
def test_a_row_with_only_an_error_is_a_failure(row: dict[str, Any], outcome: Outcome) -> None:
    """A row that has an error and nothing else is known, and is what the error says."""
    found = format_of(row)
    assert found is not None
    assert found.NAME == "flat"
    assert classify(read_one("flat", row).exchange.response).outcome is outcome


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("flat", "no response field"),
        ("messages", "`messages`: expected a list"),
        ("sharegpt", "`conversations`: expected"),
    ],
)
def test_a_row_of_something_else_is_an_error(name: str, what: str) -> None:
    """A row without the format's own field is named by it."""
    with pytest.raises(ShapeError, match=what):
        read_all(name, [{"x": 1}])


def _chat(text: object, **more: object) -> dict[str, object]:
    return {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"} | more]
    }


STRANGE = [{"type": "text", "text": ANSWER}, {"type": "strange", "value": "whatever it says"}]


@pytest.mark.parametrize(
    ("cell", "outcome"),
    [
        (_chat(REFUSAL), Outcome.REFUSED),
        (_chat(ANSWER), Outcome.COMPLIED),
        (_chat(STRANGE), Outcome.UNREAD),
        (_chat(None, finish_reason="content_filter"), Outcome.FILTERED),
        ({"type": "message", "role": "assistant", "content": [], "stop_reason": "refusal"}, Outcome.REFUSED),
        ({"candidates": [{"finishReason": "SAFETY"}]}, Outcome.FILTERED),
        ({"candidates": [{"finishReason": "FinishReason.SAFETY"}]}, Outcome.FILTERED),
        ({"output": {"message": {"role": "assistant", "content": [{"text": REFUSAL}]}}}, Outcome.REFUSED),
        ({"object": "response", "status": "completed", "output": [], "output_text": REFUSAL}, Outcome.REFUSED),
        ({"error": {"message": "slow down", "type": "rate_limit"}}, Outcome.FAILED),
        ({"role": "assistant", "content": None, "refusal": REFUSAL}, Outcome.REFUSED),
        ({"role": "assistant", "content": None, "body": ANSWER}, Outcome.UNREAD),
        (STRANGE, Outcome.UNREAD),
        ([{"type": "text", "text": REFUSAL}], Outcome.REFUSED),
        ({"title": "Bread", "steps": ["Knead the dough."]}, Outcome.COMPLIED),
        ({"message": "Knead the dough."}, Outcome.COMPLIED),
        ({"error": "none at all"}, Outcome.COMPLIED),
        ([{"type": "step", "words": "Knead the dough."}], Outcome.COMPLIED),
    ],
    ids=lambda value: str(value) if isinstance(value, Outcome) else None,
)
def test_a_cell_of_json(cell: object, outcome: Outcome) -> None:
    """A provider's response as a JSON string is read as the response; JSON of the model's own is its text."""
    for text in (json.dumps(cell), f"\n {json.dumps(cell, indent=1)}"):
        assert classify(read_one("flat", {"id": "1", "response": text}).exchange.response).outcome is outcome


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        *((word, Outcome.FAILED) for word in ("NULL", "null", "NA", "NaN", "nan", "None", " None\n")),
        *((word, Outcome.UNREAD) for word in ("{}", "[]", "[REDACTED]", "[object Object]")),
        *((word, Outcome.COMPLIED) for word in ("None of them.", "Nantes", "[1, 2, 3]", "Na")),
    ],
)
def test_a_cell_that_stands_for_nothing(text: str, outcome: Outcome) -> None:
    """A table's word for nothing is a missing response, a shell or a mark one that was not stored."""
    assert classify(read_one("flat", {"id": "1", "response": text}).exchange.response).outcome is outcome


@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        ({"finish_reason": "stop", "stop_reason": "refusal"}, Outcome.REFUSED),
        ({"finish_reason": "stop", "done_reason": "content_filter"}, Outcome.FILTERED),
        ({"finishReason": "SAFETY"}, Outcome.FILTERED),
        ({"stopReason": "guardrail_intervened"}, Outcome.FILTERED),
        ({"finish_reason": ["content_filter"]}, Outcome.FILTERED),
        ({"finish_reason": "content filter"}, Outcome.FILTERED),
        ({"finish_reason": "refused"}, Outcome.REFUSED),
        ({"refusal": 1}, Outcome.REFUSED),
        ({"refusal": 1.0}, Outcome.REFUSED),
        ({"refusal": {"text": REFUSAL}}, Outcome.REFUSED),
        ({"refusal": [REFUSAL]}, Outcome.REFUSED),
        ({"refusal": 0}, Outcome.COMPLIED),
        ({"refusal": []}, Outcome.COMPLIED),
    ],
)
def test_every_word_of_the_provider_counts(more: dict[str, Any], outcome: Outcome) -> None:
    """Of several stop fields the strictest decides, whatever its spelling; so does a refusal column of any type."""
    assert classify(read_one("flat", {"response": ANSWER, **more}).exchange.response).outcome is outcome


@pytest.mark.parametrize("first", ["", "  ", None, [], {}], ids=["empty", "blank", "null", "list", "object"])
def test_the_first_column_that_holds_something_is_the_response(first: object) -> None:
    """An empty response column does not hide the one beside it."""
    row = {"prompt": QUESTION, "response": first, "output": REFUSAL}
    assert classify(read_one("flat", row).exchange.response).outcome is Outcome.REFUSED


@pytest.mark.parametrize("calls", [[{"x": 1}], [{}], [5], [REFUSAL], [{"function": {"arguments": "{}"}}]])
def test_calls_beside_a_row_that_name_nothing(calls: list[Any]) -> None:
    """What stands for a call and does not say what it calls is `unread`."""
    row = {"response": "", "tool_calls": calls}
    assert classify(read_one("flat", row).exchange.response).outcome is Outcome.UNREAD
