"""Logs of providers' own responses beyond the table of examples."""

from __future__ import annotations

from typing import Any

import pytest
from tests.formats import examples as made
from tests.formats.example import QUESTION, read_all, read_one

from demur.detect.check import classify
from demur.errors import ShapeError
from demur.formats.registry import format_of
from demur.model.exchange import Shape
from demur.model.verdict import Outcome


@pytest.mark.parametrize(
    ("row", "key"),
    [
        ({"id": "q-1", "response": made.chat()}, "q-1"),
        ({"id": 1, "response": made.chat()}, "1"),
        ({"id": "chatcmpl-1", "response": made.chat()}, None),
        ({"id": "msg_1", "response": made.claude()}, None),
        (made.chat(), None),
        ({**made.chat(), "custom_id": "q-1"}, "q-1"),
        ({**made.chat(), "sample_id": "q-1"}, "q-1"),
        ({**made.chat(), "metadata": {"question_id": "q-1"}}, "q-1"),
        ({"custom_id": "x" * 500, "response": made.chat()}, "x" * 500),
    ],
)
def test_only_the_callers_id_pairs(row: dict[str, Any], key: str | None) -> None:
    """An id that a provider gave its response is new with every call, and pairs nothing."""
    assert read_one("openai-chat", row).exchange.id == key


@pytest.mark.parametrize(
    "row",
    [
        {"response": made.chat()},
        {"result": made.chat()},
        {"response": {"status_code": 200, "body": made.chat()}},
        {"response_body": made.chat()},
    ],
)
def test_a_response_is_found_where_it_is_held(row: dict[str, Any]) -> None:
    """A response under a field of the row is known and read as one that is the row itself."""
    found = format_of(row)
    assert found is not None
    assert found.NAME == "openai-chat"
    assert classify(read_one("openai-chat", row).exchange.response).outcome is Outcome.COMPLIED


def test_fields_are_the_callers_and_the_responses() -> None:
    """Metadata, model and day of a row are fields; prompts, ids and sessions are none."""
    row = {"id": "q", "session_id": "s", "prompt": QUESTION, "metadata": {"category": "c"}, "response": made.chat()}
    assert read_one("openai-chat", row).fields == (
        ("model", "gpt-4o-mini"),
        ("category", "c"),
        ("day", "2023-11-14"),
        ("created", "1700000000"),
        ("metadata.category", "c"),
    )


def test_a_mixed_log_is_read_by_each_shape() -> None:
    """The format that a file was taken for does not spoil another provider's rows in it."""
    bodies = (made.chat(), made.claude(), made.gemini(), made.converse())
    shapes = [read_one("openai-chat", {"response": body}).exchange.shape for body in bodies]
    assert shapes == [Shape.OPENAI_CHAT, Shape.ANTHROPIC, Shape.GEMINI, Shape.BEDROCK]


def test_a_system_text_beside_the_messages_is_kept() -> None:
    """Anthropic's callers log the system text in a field of its own."""
    request = read_one("anthropic", {"system": "Be kind.", "messages": made.ASKED, **made.claude()}).exchange.request
    assert request is not None
    assert [(m.role, m.text) for m in request.messages] == [("system", "Be kind."), ("user", QUESTION)]
    assert request.model == "claude-sonnet-4-5"


@pytest.mark.parametrize(
    ("row", "outcome"),
    [
        ({"response": None}, Outcome.FAILED),
        ({"response": {}}, Outcome.FAILED),
        ({}, Outcome.FAILED),
        ({"response": None, "error": "timed out"}, Outcome.FAILED),
        ({"response": None, "error": "400: content_policy_violation"}, Outcome.FILTERED),
        ({"status_code": 500, "response": {"error": {"message": "x", "code": "y"}}}, Outcome.FAILED),
    ],
)
def test_a_row_without_an_answer_failed(row: dict[str, Any], outcome: Outcome) -> None:
    """What came to nothing is neither refusal nor answer, unless a policy stopped it."""
    traced = read_one("openai-chat", {"messages": made.ASKED, **row})
    assert classify(traced.exchange.response).outcome is outcome
    assert traced.exchange.request is not None


@pytest.mark.parametrize(
    "row",
    [
        {"response": "I will.", "error": {"message": "retried once", "type": "note"}},
        {"text": "I will.", "message": {"x": 1}},
        {"type": "message", "role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"message": "hello"},
        {"error": {"why": "unknown"}},
    ],
)
def test_other_rows_are_no_providers(row: dict[str, Any]) -> None:
    """A row that only looks a little like a response is left to the other formats."""
    found = format_of(row)
    assert found is None or found.NAME == "flat"


def test_a_row_of_something_else_is_an_error() -> None:
    """Without a response, a request or an error there is nothing to read."""
    with pytest.raises(ShapeError, match="no response of gemini; expected one as the row itself or under response"):
        read_all("gemini", [{"x": 1}])
