"""What a method is handed, wherever it comes from."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from demur.audit.subjects import handed_to, read_subject, subject_of_response
from demur.detect.check import classify
from demur.errors import ShapeError
from demur.model.claim import Phase
from demur.model.exchange import Choice, Response, TextPart, ThinkingPart
from demur.wire.shapes import read_exchange

CHAT = {"model": "m", "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]}
ANSWERS: dict[str, dict[str, Any]] = {
    "text": {
        "choices": [{"message": {"role": "assistant", "content": "I can't help with that."}, "finish_reason": "stop"}]
    },
    "refusal field": {"choices": [{"message": {"content": None, "refusal": "I can't."}, "finish_reason": "stop"}]},
    "filter": {"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}]},
    "tool call": {
        "choices": [
            {
                "message": {
                    "content": None,
                    "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
                },
                "finish_reason": "tool_calls",
            }
        ]
    },
    "two choices": {
        "choices": [
            {"index": 0, "message": {"content": "Paris."}, "finish_reason": "stop"},
            {"index": 1, "message": {"content": "I'm sorry, but I can't help with that."}, "finish_reason": "stop"},
        ]
    },
    "anthropic": {"type": "message", "role": "assistant", "content": [], "stop_reason": "refusal", "model": "c"},
    "gemini block": {"promptFeedback": {"blockReason": "SAFETY"}},
    "error": {"error": {"message": "busy", "type": "server_error", "code": None}},
}


@pytest.mark.parametrize(
    "given",
    [
        "hello",
        {"prompt": "hello"},
        {"prompt": "hello", "model": "m"},
        CHAT,
        CHAT["messages"],
        {"system": "be brief", "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]},
        {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]},
        {"model": "m", "input": "hello"},
        {"question": "hello"},
    ],
)
def test_a_prompt_is_read_from_every_shape(given: object) -> None:
    """`prompt` is the user's text, whether a text, a mapping or a provider's request was sent."""
    handed = handed_to(read_subject(Phase.REQUEST, {"input": given, "metadata": {"session_id": "s", "n": 1}}))
    assert handed["prompt"] == "hello"
    assert {"role": "user", "content": "hello"} in handed["messages"]  # type: ignore[operator]  # a list of turns
    assert handed["metadata"] == {"session_id": "s", "n": "1"}


def test_the_model_falls_back_to_the_metadata() -> None:
    """A text has no model of its own; the metadata may name one."""
    handed = handed_to(read_subject(Phase.REQUEST, {"input": "hello", "metadata": {"model_id": "m"}}))
    assert handed["model"] == "m"


def test_turns_that_contradict_the_prompt_are_not_believed() -> None:
    """Where a mapping's messages say something else than its prompt, the prompt is what is audited."""
    given = {"prompt": "hello", "messages": [{"role": "user", "content": "something else"}]}
    handed = handed_to(read_subject(Phase.REQUEST, {"input": given}))
    assert handed["messages"] == [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize("name", ANSWERS)
def test_content_is_always_text(name: str) -> None:
    """`content` can be lower-cased, whatever the answer was."""
    handed = handed_to(read_subject(Phase.RESPONSE, {"output": ANSWERS[name]}))
    assert isinstance(handed["content"], str)


@pytest.mark.parametrize("name", ANSWERS)
def test_a_mapping_of_ours_reads_back(name: str) -> None:
    """An auditor behind HTTP comes to the verdict that one in the process comes to."""
    response = read_exchange(ANSWERS[name]).response
    assert isinstance(response, Response)
    sent = msgspec.json.decode(msgspec.json.encode(subject_of_response(response).output))
    again = read_subject(Phase.RESPONSE, {"output": sent}).answered
    assert again is not None
    assert classify(again) == classify(response)


def test_what_a_response_says_is_handed_on() -> None:
    """Refusal, finish reason, tool calls and all choices are there to be read."""
    refused = handed_to(read_subject(Phase.RESPONSE, {"output": ANSWERS["refusal field"], "input": "hello"}))
    assert (refused["content"], refused["refusal"], refused["finish_reason"]) == ("", "I can't.", "stop")
    assert refused["prompt"] == "hello"
    called = handed_to(read_subject(Phase.RESPONSE, {"output": ANSWERS["tool call"]}))
    assert called["tool_calls"] == [{"id": "1", "name": "f", "arguments": "{}"}]
    both = handed_to(read_subject(Phase.RESPONSE, {"output": ANSWERS["two choices"]}))
    assert both["content"] == "Paris.\n\nI'm sorry, but I can't help with that."


def test_thoughts_are_handed_on_apart() -> None:
    """What the model thought aloud is text to be read, in whole and choice by choice, and never part of the answer."""
    thoughts = (ThinkingPart("They ask for Paris."), ThinkingPart("I can't help with that."))
    response = Response("m", (Choice(0, (*thoughts, TextPart("Paris."))), Choice(1, (ThinkingPart("Hm."),))))
    subject = subject_of_response(response)
    handed: Any = handed_to(subject)
    assert (handed["content"], handed["thinking"]) == ("Paris.", "They ask for Paris.\nI can't help with that.\n\nHm.")
    assert [choice["thinking"] for choice in handed["choices"]] == [
        "They ask for Paris.\nI can't help with that.",
        "Hm.",
    ]
    sent = msgspec.json.decode(msgspec.json.encode(subject.output))
    again = handed_to(read_subject(Phase.RESPONSE, {"output": sent}))
    assert (again["content"], again["thinking"]) == (handed["content"], handed["thinking"])


@pytest.mark.parametrize(
    ("given", "content"),
    [("hi", "hi"), ({"content": "hi"}, "hi"), ({"content": None, "refusal": "no"}, ""), ({"response": "hi"}, "hi")],
)
def test_plain_answers_are_read(given: object, content: str) -> None:
    """A text and a mapping with `content` are answers too; null is no text."""
    assert handed_to(read_subject(Phase.RESPONSE, {"output": given}))["content"] == content


def test_other_phases_hand_on_what_was_sent() -> None:
    """In the artifact and execution phases a method gets the fields as they were sent."""
    subject = read_subject(Phase.EXECUTION, {"input": {"tool": "rm"}, "output": "done"})
    handed = handed_to(subject)
    assert (handed["tool"], handed["content"]) == ("rm", "done")


def test_every_method_has_its_own_mapping() -> None:
    """What one auditor writes into its mapping, another does not see."""
    subject = read_subject(Phase.REQUEST, {"input": "hello"})
    handed_to(subject)["prompt"] = "changed"
    assert handed_to(subject)["prompt"] == "hello"


@pytest.mark.parametrize(
    ("phase", "data"),
    [
        (Phase.REQUEST, {}),
        (Phase.REQUEST, {"input": 7}),
        (Phase.REQUEST, {"input": {"strange": True}}),
        (Phase.REQUEST, {"input": "x", "metadata": []}),
        (Phase.RESPONSE, {"input": "x"}),
        (Phase.RESPONSE, {"output": ["x"]}),
        (Phase.RESPONSE, {"output": {"strange": True}}),
        (Phase.RESPONSE, {"output": {"content": "x", "signals": [{"kind": "mood"}]}}),
        (Phase.RESPONSE, {"output": {"content": "x", "signals": [], "choices": ["x"]}}),
        (Phase.RESPONSE, {"output": {"response": None}}),
        (Phase.ARTIFACT, {}),
    ],
)
def test_what_cannot_be_read_is_said(phase: Phase, data: dict[str, object]) -> None:
    """Data without a subject is a `ShapeError` and nothing else."""
    with pytest.raises(ShapeError):
        read_subject(phase, data)
