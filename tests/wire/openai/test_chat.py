"""OpenAI chat: each row of the provider table and each dialect, both ways, streamed and not, against the real client."""

from __future__ import annotations

from typing import Any

import pytest
from tests.wire.openai.chat_bodies import ERRORS, LENIENT, NO, REQUESTS, STRICT, TURNS, answer, body, error

from demur.errors import ShapeError
from demur.model.exchange import (
    Choice,
    Finish,
    Message,
    OpaquePart,
    ProviderError,
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
from demur.wire.openai import chat as openai_chat

CODEC: Codec = openai_chat


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (STRICT["plain"], ()),
        (STRICT["refusal"], (Signal(SignalKind.REFUSAL_FIELD, "choices[0].message.refusal", NO, 0),)),
        (STRICT["two choices"], (Signal(SignalKind.REFUSAL_FIELD, "choices[1].message.refusal", NO, 1),)),
        (STRICT["filter stop"], (Signal(SignalKind.FILTER_STOP, "choices[0].finish_reason", "content_filter", 0),)),
        (LENIENT["Cohere v1 toxic"], (Signal(SignalKind.FILTER_STOP, "choices[0].finish_reason", "ERROR_TOXIC", 0),)),
        (LENIENT["failed"], (Signal(SignalKind.ERROR, "choices[0].finish_reason", "error", 0),)),
        (LENIENT["error beside choices"], (Signal(SignalKind.ERROR, "error.code", "server_error"),)),
        (body(answer(refusal="")), ()),
        (
            body(answer(content=[{"type": "refusal", "refusal": NO}])),
            (Signal(SignalKind.REFUSAL_FIELD, "choices[0].message.content[0].refusal", NO, 0),),
        ),
    ],
)
def test_signals(given: JsonObject, expected: tuple[Signal, ...]) -> None:
    """What the provider says is a signal at its exact path; an empty refusal says nothing."""
    assert CODEC.read_response(given).signals == expected


GUARD = "Request blocked by guardrail"


@pytest.mark.parametrize(
    ("status", "given", "signal", "read"),
    [
        (
            400,
            ERRORS["policy"][1],
            Signal(SignalKind.PROMPT_BLOCK, "error.code", "content_policy_violation"),
            ProviderError(NO, "content_policy_violation", "invalid_request_error"),
        ),
        (400, ERRORS["invalid prompt"][1], Signal(SignalKind.PROMPT_BLOCK, "error.code", "invalid_prompt"), None),
        (429, ERRORS["rate limit"][1], Signal(SignalKind.ERROR, "error.code", "rate_limit_exceeded"), None),
        (500, ERRORS["server"][1], Signal(SignalKind.ERROR, "error.type", "server_error"), None),
        (500, ERRORS["message only"][1], Signal(SignalKind.ERROR, "error.message", "oops"), ProviderError("oops")),
        (400, error(type="content_filter"), Signal(SignalKind.PROMPT_BLOCK, "error.type", "content_filter"), None),
        (404, {"error": "no such model"}, Signal(SignalKind.ERROR, "error", "no such model"), None),
        (403, {"error": GUARD}, Signal(SignalKind.PROMPT_BLOCK, "error", GUARD), ProviderError(GUARD)),
        (
            403,
            {"object": "error", "message": GUARD, "type": "guardrail", "code": 3000},
            Signal(SignalKind.PROMPT_BLOCK, "code", "3000", detail=GUARD),
            ProviderError(GUARD, "3000", "guardrail"),
        ),
        (403, {"message": "wrong key"}, Signal(SignalKind.ERROR, "message", "wrong key"), ProviderError("wrong key")),
        (200, {"object": "error", "message": "x", "code": 400}, Signal(SignalKind.ERROR, "code", "400"), None),
        (422, {"detail": [{"loc": []}]}, Signal(SignalKind.ERROR, "detail", '[{"loc":[]}]'), None),
        (502, {}, Signal(SignalKind.ERROR, "status", "502"), ProviderError("")),
        (400, error(innererror="odd", code=7), Signal(SignalKind.ERROR, "error.code", "7"), ProviderError("no", "7")),
    ],
)
def test_error_signals(status: int, given: JsonObject, signal: Signal, read: ProviderError | None) -> None:
    """Every error has one signal: a prompt block where policy stopped it, an error otherwise."""
    response = CODEC.read_response(given, status=status)
    assert (response.choices, response.signals, response.status) == ((), (signal,), status)
    assert read is None or response.error == read
    again = CODEC.read_response(CODEC.write_response(response), status=status)
    assert (again.error, again.signals[0].kind) == (response.error, signal.kind)


@pytest.mark.parametrize(
    ("raw", "finish"),
    [
        ("stop", Finish.STOP),
        ("length", Finish.LENGTH),
        ("tool_calls", Finish.TOOL),
        ("function_call", Finish.TOOL),
        ("content_filter", Finish.CONTENT_FILTER),
        ("ERROR_TOXIC", Finish.CONTENT_FILTER),
        ("COMPLETE", Finish.STOP),
        ("load", Finish.UNKNOWN),
        (None, None),
    ],
)
def test_finish(raw: str | None, finish: Finish | None) -> None:
    """A finish reason keeps the provider's own word beside ours; words from elsewhere are unknown, not errors."""
    choice = CODEC.read_response(body(answer(content="x", finish=raw))).choices[0]
    assert (choice.finish_raw, choice.finish) == (raw, finish)


@pytest.mark.parametrize(
    ("finish", "raw", "written"),
    [
        (Finish.STOP, "end_turn", "stop"),
        (Finish.REFUSAL, "refusal", "stop"),
        (Finish.CONTENT_FILTER, None, "content_filter"),
        (Finish.UNKNOWN, "odd", "odd"),
        (Finish.UNKNOWN, None, "unknown"),
    ],
)
def test_another_providers_word_is_translated(finish: Finish, raw: str | None, written: str) -> None:
    """A finish word of another shape is written as this shape's word for the same."""
    response = Response("m", (Choice(0, (TextPart("x"),), finish, raw),))
    assert CODEC.write_response(response)["choices"][0]["finish_reason"] == written


def parts_of(given: JsonObject) -> tuple[Any, ...]:
    """Return the parts of the only choice."""
    (choice,) = CODEC.read_response(given).choices
    return choice.parts


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (STRICT["refusal beside text"], (TextPart("Well."), RefusalPart(NO))),
        (STRICT["thoughts"], (ThinkingPart("Two and two."), TextPart("Four."))),
        (body(answer(content="a", reasoning="b")), (ThinkingPart("b"), TextPart("a"))),
        (body(answer(content="", reasoning={"odd": 1})), ()),
        (
            body(answer(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "b"}]}, "a", ""])),
            (ThinkingPart("b"), TextPart("a")),
        ),
        (body(answer(content=[{"type": "text", "text": ""}, {"type": "refusal", "refusal": ""}])), ()),
        (body(answer(content=[{"type": "thinking", "thinking": []}, 5])), (OpaquePart("unknown", b"5"),)),
        (body(answer(function_call={"name": "f", "arguments": "{}"})), (ToolCallPart("", "f", "{}"),)),
        (body(answer(tool_calls=[{"id": "x"}])), (ToolCallPart("x", "", ""),)),
        (
            body(answer(tool_calls=[{"function": {"name": "f", "arguments": {"a": 1}}}])),
            (ToolCallPart("", "f", '{"a":1}'),),
        ),
        (body({"index": 0, "text": "old", "finish_reason": "stop"}), (TextPart("old"),)),
        (
            {"id": "c", "message": {"role": "assistant", "content": "v2"}, "finish_reason": "COMPLETE"},
            (TextPart("v2"),),
        ),
        ({"text": "v1", "finish_reason": "COMPLETE"}, (TextPart("v1"),)),
        (
            {"model": "o", "message": {"content": "hi", "thinking": "hm"}, "done_reason": "stop"},
            (ThinkingPart("hm"), TextPart("hi")),
        ),
    ],
)
def test_dialects(given: JsonObject, parts: tuple[Any, ...]) -> None:
    """What Mistral, vLLM, DeepSeek, Cohere and Ollama say is read, and is the same once written OpenAI's way."""
    assert parts_of(given) == parts
    assert parts_of(CODEC.write_response(CODEC.read_response(given))) == parts


def test_a_bare_toxic_answer_is_a_filter_stop() -> None:
    """Cohere's first API says so at the top of the body."""
    (signal,) = CODEC.read_response({"text": "", "finish_reason": "ERROR_TOXIC"}).signals
    assert signal == Signal(SignalKind.FILTER_STOP, "finish_reason", "ERROR_TOXIC", 0)


def test_head_and_usage() -> None:
    """Model, id, time and tokens are read; empty ones are absent."""
    read = CODEC.read_response(STRICT["two choices"])
    assert (read.model, read.id, read.created_s, read.usage) == ("gpt-x", "chatcmpl-1", 1700000000, Usage(3, 5))
    empty = CODEC.read_response({"id": "", "created": 0, "model": "", "choices": [], "usage": {"tokens": 1}})
    assert (empty.model, empty.id, empty.created_s, empty.usage) == ("", None, None, None)


def test_roles_and_parts_of_a_request() -> None:
    """Every role is a message, every text a text part, all else opaque."""
    read = CODEC.read_request(REQUESTS["all turns"])
    assert (read.model, read.stream, read.n) == ("m", True, 2)
    assert [message.role for message in read.messages] == [turn["role"] for turn in TURNS]
    assert read.messages[2] == Message("user", (TextPart("hi"),), "ann")
    kinds = [part.kind for part in read.messages[3].parts if isinstance(part, OpaquePart)]
    assert kinds == ["text.cache_control", "image_url", "input_audio", "file"]
    assert read.messages[4].parts == (ToolCallPart("call_1", "look", '{"q": "x"}'),)
    assert read.messages[5].parts == (ToolResultPart("call_1", "42"),)
    assert read.messages[6].parts == (ToolResultPart("c", "a"), ToolResultPart("c", "b"))
    assert read.messages[8].parts == (RefusalPart(NO),)
    assert read.prompt == "hi\nwhat is this?"


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ({"messages": []}, False),
        ({"messages": [5]}, False),
        ({"messages": [{"role": "user", "content": [{"text": "bedrock"}]}]}, False),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, False),
        ({"messages": [{"role": "user", "content": ["hi"]}]}, True),
        ({"system": "x", "messages": [{"role": "user", "content": "hi"}]}, False),
        ({"contents": []}, False),
    ],
)
def test_other_shapes_are_left_alone(given: JsonObject, *, ours: bool) -> None:
    """A request of another shape is not taken for this one."""
    assert CODEC.reads_request(given) is ours


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ({"type": "error", "error": {"type": "overloaded_error"}}, False),
        ({"error": {"code": 400, "status": "INVALID_ARGUMENT"}}, False),
        ({"output": [], "error": {}}, False),
        ({"message": "hi"}, False),
        ({"message": {"content": "hi"}, "done_reason": "stop"}, True),
        ({"object": "error", "message": "x"}, True),
    ],
)
def test_other_answers_are_left_alone(given: JsonObject, *, ours: bool) -> None:
    """A response or error of another shape is not taken for this one."""
    assert CODEC.reads_response(given) is ours


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "`choices`: expected a list, got nothing"),
        ({"error": ""}, "`choices`: expected a list, got nothing"),
        ({"choices": {}}, "`choices`: expected a list, got an object"),
        (body(answer(content=5)), r"`choices\[0\].message.content`: expected a list, got a number"),
        (body(answer(refusal=[])), r"`choices\[0\].message.refusal`: expected a string, got a list"),
        (body(answer(content=[{"type": "text"}])), r"`choices\[0\].message.content\[0\].text`: expected a value"),
    ],
)
def test_bad_bodies_name_the_path(given: JsonObject, message: str) -> None:
    """A field of the wrong kind is named by its path."""
    with pytest.raises(ShapeError, match=message):
        CODEC.read_response(given)


@pytest.mark.parametrize("role", ["user", "system", "assistant", "developer", "tool", ""])
@pytest.mark.parametrize("text", ["hello", "", '{"a": 1}'])
def test_a_turn_is_read_alike_however_it_is_spelt(role: str, text: str) -> None:
    """A role and a text, which are read at a glance, come to what they do with an empty field beside them."""
    plain = {"model": "m", "messages": [{"role": role, "content": text}], "top_p": 1}
    beside = {"model": "m", "messages": [{"role": role, "content": text, "name": None}], "top_p": 1}
    assert CODEC.read_request(plain) == CODEC.read_request(beside)
