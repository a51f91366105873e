"""Outputs of tools that are not a message."""

from __future__ import annotations

from typing import Any

import pytest
from tests.formats import examples_tools as made
from tests.formats.example import REFUSAL, answer_of

from demur.detect.check import classify
from demur.formats.responses import response_in


@pytest.mark.parametrize(
    ("output", "outcome", "cause"),
    [
        ({"colour": "blue"}, "unread", "not_text"),
        ([{"colour": "blue"}], "unread", "not_text"),
        ({}, "unread", "not_stored"),
        ('{"colour": "blue"}', "complied", "text"),
        ({"parsed": {"colour": "blue"}, "parsing_error": None}, "complied", "text"),
        ({"answer": REFUSAL}, "refused", "text"),
        ([], "empty", None),
    ],
    ids=["object", "list", "nothing", "json_text", "parsed", "wrapped", "no_parts"],
)
def test_an_object_is_an_answer_only_where_the_tool_says_so(output: Any, outcome: str, cause: str | None) -> None:
    """An object of unknown structure was not read; a text is the answer as written, and a declared structure its JSON."""
    verdict = classify(response_in(output))
    assert (verdict.outcome, verdict.cause) == (outcome, cause)


def test_every_tool_of_objects_says_so() -> None:
    """A row whose output is an object that we do not know is unread in a tool's log too."""
    assert classify(answer_of("braintrust", made.braintrust_row(output={"colour": "blue"}))).outcome == "unread"


@pytest.mark.parametrize(
    ("output", "outcome"),
    [
        ({"content": {"parts": [{"text": REFUSAL}], "role": "model"}, "finish_reason": "STOP"}, "refused"),
        ({"content": {"parts": [{"function_call": {"args": {}, "name": "look"}}], "role": "model"}}, "complied"),
        ({"finish_reason": "SAFETY"}, "filtered"),
        ({"error_code": "PROHIBITED_CONTENT", "error_message": "blocked"}, "filtered"),
        ({"error_code": "RESOURCE_EXHAUSTED", "error_message": "slow down"}, "failed"),
    ],
    ids=["refusal", "call", "filter", "block", "error"],
)
def test_googles_agent_development_kit_is_read(output: dict[str, Any], outcome: str) -> None:
    """`LlmResponse` of google-adk 1.12 keeps a content's parts, or a code where there is no content."""
    response = response_in({**output, "usage_metadata": {"total_token_count": 45}})
    assert classify(response).outcome == outcome


CALL = {"function": {"name": "look", "arguments": {}}, "id": "c1", "type": "function"}


@pytest.mark.parametrize(
    "output",
    [
        {"role": "assistant", "content": "", "additional_kwargs": {"tool_calls": [CALL], "refusal": None}},
        [{"role": "assistant", "content": [CALL], "finish_reason": "tool_calls"}],
        {"role": "assistant", "content": '[{"function": {"name": "look"}, "id": "c1", "type": "function"}]'},
        [{"toolCallType": "function", "toolCallId": "c1", "toolName": "look", "args": "{}"}],
        [{"type": "tool-call", "toolCallId": "c1", "toolName": "look", "input": {}}],
    ],
    ids=["langgraph", "koog", "koog_text", "ai_sdk_4", "ai_sdk_5"],
)
def test_calls_are_calls_in_each_frameworks_spelling(output: Any) -> None:
    """A tool call that a framework wrote in its own way is a call, and no text."""
    response = response_in(output)
    assert response is not None
    assert classify(response).outcome == "complied"
    assert [(type(part).__name__, part.name) for part in response.choices[0].parts] == [("ToolCallPart", "look")]  # type: ignore[union-attr]
