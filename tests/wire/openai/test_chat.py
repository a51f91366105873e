"""OpenAI chat: each row of the provider table and each dialect, both ways, streamed, spoilt, and read by the real client."""

from __future__ import annotations

import contextlib
from typing import Any

import openai as sdk
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import BaseModel
from tests.plain_http import openai_http
from tests.wire import laws
from tests.wire.loopback import serving, streaming
from tests.wire.openai.chat_bodies import ASKED, CALL, ERRORS, LENIENT, NO, REQUESTS, STRICT, TURNS, answer, body, error

from demur.errors import ShapeError
from demur.model.exchange import (
    Channel,
    Choice,
    Delta,
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
from demur.wire import sse
from demur.wire.fields import Codec, JsonObject, decode, encode, plain
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
        (
            body(answer(content=None, provider_specific_fields={"refusal": NO})),
            (Signal(SignalKind.REFUSAL_FIELD, "choices[0].message.provider_specific_fields.refusal", NO, 0),),
        ),
        (
            body(answer(content=None, refusal=NO, provider_specific_fields={"refusal": NO})),
            (Signal(SignalKind.REFUSAL_FIELD, "choices[0].message.refusal", NO, 0),),
        ),
        (body(answer(provider_specific_fields={"refusal": None})), ()),
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
        (body(answer(tool_calls=[{"id": "x"}])), (OpaquePart("tool_call.nameless", b'{"id":"x"}'),)),
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


def told(*chunks: Any) -> list[sse.ServerEvent]:
    """Return the events of these chunks."""
    return [sse.ServerEvent(encode(chunk).decode()) for chunk in chunks]


def delta(index: int | None = 0, **fields: Any) -> JsonObject:
    """Return a chunk with one delta."""
    return {"id": "x", "choices": [{"index": index, "delta": fields, "finish_reason": None}]}


def test_deltas_of_every_strand() -> None:
    """Every piece of an answer is a delta of its strand, as it arrives."""
    reader = CODEC.open_stream()
    chunks = told(
        delta(role="assistant", content="", refusal=None),
        delta(reasoning_content="hm"),
        delta(content="a"),
        delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "!"}]}]),
        delta(refusal="no"),
        delta(tool_calls=[{"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": "{}"}}]),
        {"choices": [{"index": 1, "text": "old"}]},
    )
    assert [d for event in chunks for d in reader.feed(event)] == [
        Delta(0, Channel.THINKING, "hm"),
        Delta(0, Channel.TEXT, "a"),
        Delta(0, Channel.THINKING, "!"),
        Delta(0, Channel.REFUSAL, "no"),
        Delta(0, Channel.TOOL, "{}"),
        Delta(1, Channel.TEXT, "old"),
    ]
    assert reader.feed(sse.ServerEvent("")) == reader.feed(sse.ServerEvent("[DONE]")) == ()
    closed = reader.close()
    assert closed.complete
    call = ToolCallPart("c", "f", "{}")
    assert closed.choices[0].parts == (ThinkingPart("hm!"), TextPart("a"), RefusalPart("no"), call)
    assert closed.choices[1].parts == (TextPart("old"),)


def test_calls_without_an_index_and_legacy_calls() -> None:
    """A call that comes whole needs no index, and the old single function call is a call without id."""
    whole = delta(tool_calls=[CALL, {**CALL, "id": "call_2"}, {"function": {"arguments": "!"}}])
    first, second = laws.streamed(CODEC, told(whole)).choices[0].parts
    assert first == ToolCallPart("call_1", "look", '{"q": "x"}')
    assert second == ToolCallPart("call_2", "look", '{"q": "x"}!')
    legacy = told(delta(function_call={"name": "f"}), delta(function_call={"arguments": {"a": 1}}))
    assert laws.streamed(CODEC, legacy).choices[0].parts == (ToolCallPart("", "f", '{"a":1}'),)


def test_unknown_fields_of_a_stream_are_ignored() -> None:
    """Log probabilities and fields from the future change nothing in what a stream says."""
    first, second = delta(content="a", strange={"data": "AA"}), delta(content="b", strange={"data": "BB"})
    first["choices"][0]["logprobs"], second["service_tier"] = {"content": [1]}, "b"
    assert laws.streamed(CODEC, told(first, second)) == laws.streamed(CODEC, told(delta(content="ab")))


def test_adjacent_texts_share_a_line_each_when_streamed() -> None:
    """Two texts of another shape stay two unstreamed, and read the same when streamed."""
    response = Response("m", (Choice(0, (TextPart("a"), TextPart("b")), Finish.STOP, "stop"),))
    assert CODEC.read_response(CODEC.write_response(response)) == response
    closed = laws.streamed(CODEC, CODEC.write_stream(response))
    assert closed.choices[0].parts == (TextPart("a\nb"),)
    assert closed.choices[0].text == response.choices[0].text


@pytest.mark.parametrize("chunk", [{"id": 5}, {"created": "x"}, {"usage": []}, {"error": 5}, {"choices": [5]}, []])
def test_a_bad_chunk_is_an_error_at_once(chunk: Any) -> None:
    """A chunk of the wrong kind raises when it is fed, not at the end."""
    reader = CODEC.open_stream()
    (event,) = told(chunk)
    with pytest.raises(ShapeError):
        reader.feed(event)


@pytest.mark.parametrize("depth", [300, 480, 900])
def test_deep_nesting_never_crashes(depth: int) -> None:
    """A field that is nested without end gives a value or a shape error, streamed or not."""
    nested = "[" * depth + "]" * depth
    deep = '{"a":' * depth + "1" + "}" * depth
    for wire in (
        f'{{"x": {deep}, "choices": [{{"message": {{"content": [{nested}], "y": {deep}}}}}]}}',
        f'{{"x": {deep}}}',
    ):
        laws.check_stream_never_raises(CODEC, [sse.ServerEvent(wire), sse.ServerEvent(wire)])
        with contextlib.suppress(ShapeError):
            laws.check_never_raises(CODEC, decode(wire))


def test_nothing_at_all_is_a_response_that_is_not_complete() -> None:
    """A stream without events closes to an empty response."""
    assert CODEC.open_stream().close() == Response("", complete=False)


@pytest.mark.parametrize("name", STRICT)
def test_the_sdk_accepts_what_is_written(name: str) -> None:
    """What is written is what the client's own types expect, and its objects are read back."""
    response = CODEC.read_response(STRICT[name])
    completion = ChatCompletion.model_validate(CODEC.write_response(response))
    assert CODEC.read_response(plain(completion)) == response
    for event in CODEC.write_stream(response, piece_chars=4):
        if event.data != "[DONE]":
            ChatCompletionChunk.model_validate(decode(event.data))


def client(url: str) -> sdk.OpenAI:
    """Return the real client."""
    return sdk.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0, http_client=openai_http())


@pytest.mark.parametrize("name", STRICT)
def test_the_client_reads_the_answer(name: str) -> None:
    """The real client reads what is written, and what it hands out is the same response."""
    response = CODEC.read_response(STRICT[name])
    with serving(CODEC, response) as stub, client(stub.url) as door:
        completion = door.chat.completions.create(**ASKED)
    assert CODEC.read_response(plain(completion)) == response
    assert CODEC.read_request(stub.bodies[0]) == CODEC.read_request(ASKED)


@pytest.mark.parametrize("name", STRICT)
def test_the_client_reads_the_stream(name: str) -> None:
    """The real client reads every chunk, and the chunks it hands out are the same response."""
    response = CODEC.read_response(STRICT[name])
    with streaming(CODEC, response) as stub, client(stub.url) as door:
        chunks = [plain(chunk) for chunk in door.chat.completions.create(**ASKED, stream=True)]
    closed = laws.streamed(CODEC, [*told(*chunks), sse.ServerEvent("[DONE]")])
    assert closed == response


@pytest.mark.parametrize("name", ["plain", "refusal", "tools", "two choices", "thoughts"])
def test_the_clients_own_assembly_agrees(name: str) -> None:
    """The client's stream helper assembles the same answer as our reader."""
    response = CODEC.read_response(STRICT[name])
    with streaming(CODEC, response) as stub, client(stub.url) as door, door.chat.completions.stream(**ASKED) as stream:
        final = stream.get_final_completion()
    assert CODEC.read_response(plain(final)).choices == response.choices


class Reply(BaseModel):
    """What a structured answer would hold."""

    word: str


def test_the_client_raises_on_a_filter_stop() -> None:
    """A filter stop makes the client's parsing fail as it does with the real service; a refusal is handed out."""
    filtered, refused = (CODEC.read_response(STRICT[name]) for name in ("filter stop", "refusal"))
    with serving(CODEC, filtered) as stub, client(stub.url) as door, pytest.raises(sdk.ContentFilterFinishReasonError):
        door.chat.completions.parse(**ASKED, response_format=Reply)
    with serving(CODEC, refused) as stub, client(stub.url) as door:
        assert door.chat.completions.parse(**ASKED, response_format=Reply).choices[0].message.refusal == NO


def test_the_client_raises_on_errors() -> None:
    """An error body is the client's error, with its code; in a stream it is raised too."""
    status, failed = ERRORS["policy"]
    failure = CODEC.read_response(failed, status=status)
    with (
        serving(CODEC, failure, status=status) as stub,
        client(stub.url) as door,
        pytest.raises(sdk.BadRequestError) as caught,
    ):
        door.chat.completions.create(**ASKED)
    assert caught.value.code == "content_policy_violation"
    with streaming(CODEC, CODEC.read_response(failed)) as stub, client(stub.url) as door:
        stream = door.chat.completions.create(**ASKED, stream=True)
        with pytest.raises(sdk.APIError, match=NO):
            list(stream)


def test_a_recording_is_put_together_from_its_pieces() -> None:
    """Sound and transcript of a spoken answer come in pieces, and are one part in the end."""
    pieces = ({"id": "a", "transcript": "I "}, {"data": "AA", "transcript": "can"}, {"data": "BB"})
    read = laws.streamed(CODEC, told(*(delta(audio=piece) for piece in pieces)))
    assert read.choices[0].parts == (OpaquePart("audio", b'{"id":"a","transcript":"I can","data":"AABB"}'),)
