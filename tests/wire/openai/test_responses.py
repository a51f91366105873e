"""OpenAI Responses: each row of the provider table, both ways, streamed and not, against the real client."""

from __future__ import annotations

from typing import Any

import pytest
from tests.wire.openai.responses_bodies import BODIES, CALL, ERRORS, NO, REQUESTS, body, message, reasoning, refusal

from demur.errors import ShapeError
from demur.model.exchange import (
    Choice,
    Finish,
    Message,
    OpaquePart,
    RefusalPart,
    Response,
    Signal,
    SignalKind,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
)
from demur.wire.fields import Codec, JsonObject
from demur.wire.openai import responses as openai_responses

CODEC: Codec = openai_responses


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (BODIES["plain"], ()),
        (BODIES["refusal"], (Signal(SignalKind.REFUSAL_FIELD, "output[0].content[0].refusal", NO, 0),)),
        (BODIES["refusal after thought"], (Signal(SignalKind.REFUSAL_FIELD, "output[1].content[0].refusal", NO, 0),)),
        (BODIES["text and refusal"], (Signal(SignalKind.REFUSAL_FIELD, "output[0].content[1].refusal", NO, 0),)),
        (BODIES["filtered"], (Signal(SignalKind.FILTER_STOP, "incomplete_details.reason", "content_filter", 0),)),
        (BODIES["length"], ()),
        (BODIES["failed"], (Signal(SignalKind.ERROR, "error.code", "server_error"),)),
        (BODIES["failed in silence"], (Signal(SignalKind.ERROR, "status", "failed", 0),)),
        *(
            (
                body(status="failed", error={"code": code, "message": NO}),
                (Signal(SignalKind.PROMPT_BLOCK, "error.code", code),),
            )
            for code in (
                "invalid_prompt",
                "bio_policy",
                "misalignment_policy_violation",
                "image_content_policy_violation",
            )
        ),
        (ERRORS["invalid prompt"][1], (Signal(SignalKind.PROMPT_BLOCK, "error.code", "invalid_prompt"),)),
        (body(message(refusal(""))), ()),
    ],
)
def test_signals(given: JsonObject, expected: tuple[Signal, ...]) -> None:
    """What the provider says is a signal at its exact path."""
    assert CODEC.read_response(given).signals == expected


@pytest.mark.parametrize(
    ("name", "finish", "raw"),
    [
        ("plain", Finish.STOP, "completed"),
        ("tools", Finish.TOOL, "completed"),
        ("filtered", Finish.CONTENT_FILTER, "content_filter"),
        ("length", Finish.LENGTH, "max_output_tokens"),
        ("failed", Finish.ERROR, "failed"),
        ("cancelled", Finish.UNKNOWN, "cancelled"),
    ],
)
def test_finish(name: str, finish: Finish, raw: str) -> None:
    """The finish is the reason of an incomplete response, else its status."""
    (choice,) = CODEC.read_response(BODIES[name]).choices
    assert (choice.index, choice.finish, choice.finish_raw) == (0, finish, raw)


@pytest.mark.parametrize(
    ("finish", "raw", "status", "reason"),
    [
        (Finish.STOP, "end_turn", "completed", None),
        (Finish.REFUSAL, "refusal", "completed", None),
        (Finish.LENGTH, "length", "incomplete", "max_output_tokens"),
        (Finish.CONTENT_FILTER, None, "incomplete", "content_filter"),
        (Finish.UNKNOWN, None, "incomplete", None),
        (None, None, "completed", None),
    ],
)
def test_another_providers_word_is_translated(
    finish: Finish | None, raw: str | None, *, status: str, reason: str | None
) -> None:
    """A finish of another shape is written as this shape says the same."""
    written = CODEC.write_response(Response("m", (Choice(0, (), finish, raw),)))
    assert (written["status"], (written["incomplete_details"] or {}).get("reason")) == (status, reason)


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (BODIES["thought"], (ThinkingPart("Two and two."), TextPart("Four."))),
        (BODIES["text and refusal"], (TextPart("Well."), RefusalPart(NO))),
        (BODIES["refusal after thought"], (ThinkingPart(""), RefusalPart(NO))),
        (BODIES["two messages"], (TextPart("Looking."), OpaquePart("item.message", b"{}"), RefusalPart(NO))),
        (body(CALL), (ToolCallPart("call_1", "look", '{"q": "x"}'),)),
        (body(reasoning("a", "b")), (ThinkingPart("a\nb"),)),
        (body(reasoning(content=[{"type": "reasoning_text", "text": "raw"}])), (ThinkingPart("raw"),)),
        (body({"role": "assistant", "content": "short"}), (TextPart("short"),)),
        (body({"odd": 1}), (OpaquePart("item.unknown", b'{"odd":1}'),)),
    ],
)
def test_parts(given: JsonObject, parts: tuple[Any, ...]) -> None:
    """Items become parts in order, and are the same once written."""
    read = CODEC.read_response(given)
    assert read.choices[0].parts == parts
    assert CODEC.read_response(CODEC.write_response(read)).choices[0].parts == parts


def test_head_and_usage() -> None:
    """Model, id, time and tokens are read; what is always sent is not kept."""
    read = CODEC.read_response(BODIES["thought"])
    assert (read.model, read.id, read.created_s, read.usage) == ("gpt-x", "resp_1", 1700000000, Usage(3, 5))
    bare = Response("gpt-x", (Choice(0, (TextPart("hi"),), Finish.STOP, "completed"),), usage=Usage(1, 2))
    assert CODEC.read_response(CODEC.write_response(bare)) == bare
    assert CODEC.read_response(body(created_at=1.5)).created_s == 1
    assert CODEC.read_response(body(created_at=None, usage={"odd": 1})).usage is None


def test_a_response_that_still_runs_is_not_complete() -> None:
    """A background response that is asked for too early has no finish and is not complete."""
    read = CODEC.read_response(body(status="queued"))
    assert (read.complete, read.choices[0].finish) == (False, None)
    assert CODEC.write_response(read)["status"] == "in_progress"
    assert CODEC.write_response(Response("m"))["output"] == []


def test_roles_and_parts_of_a_request() -> None:
    """Instructions lead as the system message, and every item is a message with its role."""
    read = CODEC.read_request(REQUESTS["all items"])
    assert [turn.role for turn in read.messages] == [
        *("system", "user", "user", "developer", "assistant", "assistant"),
        *("tool", "tool", "tool", "assistant", "assistant", "tool", "assistant"),
        *("assistant", "tool", "tool"),
    ]
    assert read.messages[0] == Message("system", (TextPart("Be kind."),))
    assert read.messages[4].parts == (TextPart("Hello."), RefusalPart(NO))
    assert read.messages[5].parts == (ToolCallPart("call_1", "look", '{"q": "x"}'),)
    assert read.messages[7].parts == (ToolResultPart("c", "a"), OpaquePart("input_image", b'{"type":"input_image"}'))
    assert read.prompt == "hi\nsee"
    assert CODEC.read_request({"model": "m"}).messages == ()


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ({"input": "hi", "output": "ho"}, False),
        ({"model": "m", "input": "hi", "output": []}, False),
        ({"model": "m", "input": {"a": 1}}, False),
        ({"model": "m", "messages": []}, False),
    ],
)
def test_other_shapes_are_left_alone(given: JsonObject, *, ours: bool) -> None:
    """A request or row of another shape is not taken for this one."""
    assert CODEC.reads_request(given) is ours


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "`output`: expected a list, got nothing"),
        ({"output": {}}, "`output`: expected a list, got an object"),
        (body(message({"type": "refusal"})), r"`output\[0\].content\[0\].refusal`: expected a value"),
        (body(incomplete_details="x"), "`incomplete_details`: expected an object, got a string"),
        (body(created_at=float("inf")), "`created_at`: expected a whole number"),
    ],
)
def test_bad_bodies_name_the_path(given: JsonObject, expected: str) -> None:
    """A field of the wrong kind is named by its path."""
    with pytest.raises(ShapeError, match=expected):
        CODEC.read_response(given)
