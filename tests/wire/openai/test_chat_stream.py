"""OpenAI chat, streamed, spoilt, and read by the real client."""

from __future__ import annotations

import contextlib
from typing import Any

import openai as sdk
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import BaseModel
from tests.plain_http import openai_http
from tests.wire import laws
from tests.wire.loopback import answering
from tests.wire.openai.chat_bodies import ASKED, CALL, ERRORS, NO, STRICT

from demur.errors import ShapeError
from demur.model.exchange import (
    Channel,
    Choice,
    Delta,
    Finish,
    RefusalPart,
    Response,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from demur.wire import sse
from demur.wire.fields import Codec, JsonObject, decode, encode, plain
from demur.wire.openai import chat as openai_chat

CODEC: Codec = openai_chat


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
    assert closed.choices[0].parts == (
        ThinkingPart("hm!"),
        TextPart("a"),
        RefusalPart("no"),
        ToolCallPart("c", "f", "{}"),
    )
    assert closed.choices[1].parts == (TextPart("old"),)


def test_calls_without_an_index_and_legacy_calls() -> None:
    """A call that comes whole needs no index, and the old single function call is a call without id."""
    whole = delta(tool_calls=[CALL, {**CALL, "id": "call_2"}, {"function": {"arguments": "!"}}])
    first, second = laws.streamed(CODEC, told(whole)).choices[0].parts
    assert (first, second) == (
        ToolCallPart("call_1", "look", '{"q": "x"}'),
        ToolCallPart("call_2", "look", '{"q": "x"}!'),
    )
    legacy = told(delta(function_call={"name": "f"}), delta(function_call={"arguments": {"a": 1}}))
    assert laws.streamed(CODEC, legacy).choices[0].parts == (ToolCallPart("", "f", '{"a":1}'),)


def test_unknown_fields_of_a_stream_are_ignored() -> None:
    """Audio, log probabilities and fields from the future change nothing in what a stream says."""
    first, second = delta(content="a", audio={"data": "AA"}), delta(content="b", audio={"data": "BB"})
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


def on_the_wire(response: Response) -> bytes:
    """Return the bytes of the streamed response."""
    return b"".join(sse.encode(event) for event in CODEC.write_stream(response, piece_chars=3))


def client(url: str) -> sdk.OpenAI:
    """Return the real client."""
    return sdk.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0, http_client=openai_http())


@pytest.mark.parametrize("name", STRICT)
def test_the_client_reads_the_answer(name: str) -> None:
    """The real client reads what is written, and what it hands out is the same response."""
    response = CODEC.read_response(STRICT[name])
    with answering(encode(CODEC.write_response(response))) as stub, client(stub.url) as door:
        completion = door.chat.completions.create(**ASKED)
    assert CODEC.read_response(plain(completion)) == response
    assert CODEC.read_request(stub.bodies[0]) == CODEC.read_request(ASKED)


@pytest.mark.parametrize("name", STRICT)
def test_the_client_reads_the_stream(name: str) -> None:
    """The real client reads every chunk, and the chunks it hands out are the same response."""
    response = CODEC.read_response(STRICT[name])
    with answering(on_the_wire(response), content_type="text/event-stream") as stub, client(stub.url) as door:
        chunks = [plain(chunk) for chunk in door.chat.completions.create(**ASKED, stream=True)]
    closed = laws.streamed(CODEC, [*told(*chunks), sse.ServerEvent("[DONE]")])
    assert closed == response


@pytest.mark.parametrize("name", ["plain", "refusal", "tools", "two choices", "thoughts"])
def test_the_clients_own_assembly_agrees(name: str) -> None:
    """The client's stream helper assembles the same answer as our reader."""
    response = CODEC.read_response(STRICT[name])
    with (
        answering(on_the_wire(response), content_type="text/event-stream") as stub,
        client(stub.url) as door,
        door.chat.completions.stream(**ASKED) as stream,
    ):
        final = stream.get_final_completion()
    assert CODEC.read_response(plain(final)).choices == response.choices


class Reply(BaseModel):
    """What a structured answer would hold."""

    word: str


def test_the_client_raises_on_a_filter_stop() -> None:
    """A filter stop makes the client's parsing fail as it does with the real service; a refusal is handed out."""
    filtered = encode(CODEC.write_response(CODEC.read_response(STRICT["filter stop"])))
    with answering(filtered) as stub, client(stub.url) as door, pytest.raises(sdk.ContentFilterFinishReasonError):
        door.chat.completions.parse(**ASKED, response_format=Reply)
    refused = encode(CODEC.write_response(CODEC.read_response(STRICT["refusal"])))
    with answering(refused) as stub, client(stub.url) as door:
        assert door.chat.completions.parse(**ASKED, response_format=Reply).choices[0].message.refusal == NO


def test_the_client_raises_on_errors() -> None:
    """An error body is the client's error, with its code; in a stream it is raised too."""
    status, failed = ERRORS["policy"]
    written = CODEC.write_response(CODEC.read_response(failed, status=status))
    with (
        answering(encode(written), status=status) as stub,
        client(stub.url) as door,
        pytest.raises(sdk.BadRequestError) as caught,
    ):
        door.chat.completions.create(**ASKED)
    assert caught.value.code == "content_policy_violation"
    wire = on_the_wire(CODEC.read_response(failed))
    with answering(wire, content_type="text/event-stream") as stub, client(stub.url) as door:
        stream = door.chat.completions.create(**ASKED, stream=True)
        with pytest.raises(sdk.APIError, match=NO):
            list(stream)
