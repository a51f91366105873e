"""Anthropic Messages: each row of the provider table, both ways, streamed and not, against the real client."""

from __future__ import annotations

from typing import Any

import anthropic as sdk
import pytest
from anthropic.types import Message as SdkMessage
from anthropic.types import RawMessageStreamEvent
from pydantic import TypeAdapter
from tests.plain_http import anthropic_http
from tests.wire import laws
from tests.wire.loopback import serving, streaming

from demur.errors import ShapeError
from demur.model.exchange import (
    Choice,
    Finish,
    Message,
    ProviderError,
    RefusalPart,
    Request,
    Response,
    Signal,
    SignalKind,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
)
from demur.wire import anthropic, sse
from demur.wire.fields import Codec, JsonObject, decode, encode, plain

CODEC: Codec = anthropic

ASKED: Any = {"model": "claude-x", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


def message(*content: JsonObject, stop: str | None = "end_turn", **more: Any) -> JsonObject:
    """Return a message body as the API answers it."""
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": list(content)}
    usage = {"input_tokens": 3, "output_tokens": 5}
    return {**head, "stop_reason": stop, "stop_sequence": None, "usage": usage, **more}


def text(words: str) -> JsonObject:
    """Return a text block."""
    return {"type": "text", "text": words}


def refusal(category: str | None, explanation: str | None = None) -> JsonObject:
    """Return a refused message with its details."""
    details = {"type": "refusal", "category": category, "explanation": explanation}
    return message(text("I cannot help with that."), stop="refusal", stop_details=details)


CATEGORIES = ("cyber", "bio", "frontier_llm", "reasoning_extraction", "general_harms", None)
FINISHES = {
    **dict.fromkeys(("end_turn", "stop_sequence", "pause_turn"), Finish.STOP),
    **dict.fromkeys(("max_tokens", "model_context_window_exceeded"), Finish.LENGTH),
    "tool_use": Finish.TOOL,
    "refusal": Finish.REFUSAL,
    "from_the_future": Finish.UNKNOWN,
}
THINKING = {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {"city": "Zürich", "days": [1, 2.5, None]}}
DOCUMENT = {"document_index": 0, "document_title": "t", "start_char_index": 0, "end_char_index": 2}
CITED = {**text("It is so."), "citations": [{"type": "char_location", "cited_text": "so", **DOCUMENT}]}
# Opaque parts keep the order of their fields; this is the order in which the SDK dumps them.
SEARCH = {"id": "srvtoolu_1", "input": {"query": "q"}, "name": "web_search", "type": "server_tool_use"}

BODIES: dict[str, JsonObject] = {
    "plain": message(text("Hello, “world”.")),
    "empty": message(),
    "empty text": message(text("")),
    "two texts": message(text("one"), text("two")),
    "thinking, text, tool": message(THINKING, text("I look."), CALL, stop="tool_use"),
    "a tool without arguments": message({**CALL, "input": {}}, stop="tool_use"),
    "cited": message(CITED),
    "opaque": message({"data": "eHl6", "type": "redacted_thinking"}, SEARCH, text("Found.")),
    "more usage": message(
        text("Hi"), usage={"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 7, "service_tier": "batch"}
    ),
    "a stop sequence": message(text("Hi"), stop="stop_sequence", stop_sequence="END"),
    "refused at once": message(stop="refusal"),
} | {f"refusal: {category}": refusal(category, category and f"about {category}") for category in CATEGORIES}

OVERLOADED: JsonObject = {
    "type": "error",
    "error": {"type": "overloaded_error", "message": "Overloaded", "details": None},
    "request_id": "req_1",
}


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_refusal_is_a_signal_with_its_category(category: str | None) -> None:
    """`stop_reason: refusal` is a signal, its category and explanation come from `stop_details`."""
    response = anthropic.read_response(refusal(category, "because"))
    expected = Signal(SignalKind.REFUSAL_STOP, "stop_reason", "refusal", choice=0, category=category, detail="because")
    assert response.signals == (expected,)
    assert (response.choices[0].finish, response.choices[0].finish_raw) == (Finish.REFUSAL, "refusal")


@pytest.mark.parametrize(("word", "finish"), FINISHES.items())
def test_each_stop_reason_has_its_meaning(word: str, finish: Finish) -> None:
    """Every stop reason of the API is read into our vocabulary and written as the same word."""
    response = anthropic.read_response(message(text("x"), stop=word))
    assert response.choices[0].finish is finish
    assert bool(response.signals) == (word == "refusal")
    assert anthropic.write_response(response)["stop_reason"] == word
    assert laws.streamed(CODEC, anthropic.write_stream(response)) == response


@pytest.mark.parametrize("finish", Finish)
def test_a_finish_of_another_shape_becomes_a_word_of_this_one(finish: Finish) -> None:
    """A foreign finish word is never written; a filter is written as a refusal, so that it stays visible."""
    body = anthropic.write_response(Response("m", (Choice(0, (RefusalPart("no"),), finish, "alien"),)))
    assert body["stop_reason"] in FINISHES if finish is not Finish.UNKNOWN else body["stop_reason"] == "alien"
    assert (body["stop_reason"] == "refusal") == (finish in (Finish.REFUSAL, Finish.CONTENT_FILTER))
    assert body["content"] == [text("no")]
    SdkMessage.model_validate(body if finish is not Finish.UNKNOWN else {**body, "stop_reason": None})


def test_an_error_body_is_a_response_with_an_error() -> None:
    """An error's type and message are kept, and it is a signal."""
    response = anthropic.read_response(OVERLOADED, status=529)
    assert response.error == ProviderError("Overloaded", kind="overloaded_error")
    assert response.signals == (Signal(SignalKind.ERROR, "error.type", "overloaded_error"),)
    assert (response.id, response.status, response.choices) == ("req_1", 529, ())


def test_an_unknown_id_and_usage_are_written_as_the_client_needs_them() -> None:
    """A response that knows little is still a message that the SDK's type accepts."""
    body = anthropic.write_response(Response("m"))
    assert SdkMessage.model_validate(body).usage.output_tokens == 0
    assert anthropic.read_response(body).id is None


def test_parts_are_read_for_what_they_are() -> None:
    """Text, thoughts and tool calls become their parts, with a call's arguments as compact JSON."""
    parts = anthropic.read_response(BODIES["thinking, text, tool"]).choices[0].parts
    arguments = '{"city":"Zürich","days":[1,2.5,null]}'
    assert parts == (ThinkingPart("Let me see."), TextPart("I look."), ToolCallPart("toolu_1", "look_up", arguments))
    assert anthropic.read_response(BODIES["plain"]).usage == Usage(3, 5)


def test_a_tool_call_cut_off_keeps_its_arguments_as_text() -> None:
    """Arguments that are no JSON yet are kept as they arrived."""
    response = anthropic.read_response(message(CALL, stop="tool_use"))
    events = list(anthropic.write_stream(response, piece_chars=9))
    cut = laws.streamed(CODEC, events[:3])
    assert cut.choices[0].parts == (ToolCallPart("toolu_1", "look_up", '{"city":"'),)
    assert laws.streamed(CODEC, anthropic.write_stream(cut)) == cut


PICTURE: JsonObject = {"type": "image", "source": {"type": "url", "url": "u"}}
REQUESTS: dict[str, JsonObject] = {
    "small": ASKED,
    "system text": {"model": "c", "max_tokens": 1, "system": "Be brief.", "messages": [], "stream": True},
    "system blocks": {
        "model": "c",
        "max_tokens": 1,
        "system": [text("One."), {**text("Two."), "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": [text("hi")]}],
        "metadata": {"user_id": "u"},
    },
    "tools": {
        "model": "c",
        "max_tokens": 1,
        "tools": [{"name": "look_up", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": [PICTURE, text("what?")]},
            {"role": "assistant", "content": [THINKING, CALL]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "rain", "is_error": False},
                    {"type": "tool_result", "tool_use_id": "toolu_2"},
                    {"type": "tool_result", "tool_use_id": "toolu_3", "content": [text("a"), PICTURE, text("b")]},
                ],
            },
        ],
    },
}


def test_the_system_field_is_a_leading_message() -> None:
    """System text and blocks open the conversation; tool results carry their text."""
    assert anthropic.read_request(REQUESTS["system text"]) == Request(
        "c", (Message("system", (TextPart("Be brief."),)),), stream=True
    )
    results = anthropic.read_request(REQUESTS["tools"]).messages[-1].parts
    said = {"toolu_1": "rain", "toolu_2": "", "toolu_3": "a\nb"}
    assert results == tuple(ToolResultPart(call, text) for call, text in said.items())


@pytest.mark.parametrize(
    "body",
    [
        {"model": "gpt", "messages": [{"role": "user", "content": "hi"}]},
        {"model": "gpt", "messages": [{"role": "tool", "content": "hi", "tool_call_id": "1"}]},
        {"model": "gpt", "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}], "tools": [{}]},
        {"messages": "hi", "model": "claude"},
        {"contents": []},
    ],
)
def test_other_requests_are_not_taken_for_ours(body: JsonObject) -> None:
    """A chat completion that looks alike is left to its own shape."""
    assert not anthropic.reads_request(body)


@pytest.mark.parametrize(
    "body", [{}, {"type": "error", "error": "x"}, {"error": {"message": "x"}}, {"type": "message", "content": "x"}]
)
def test_other_responses_are_not_taken_for_ours(body: JsonObject) -> None:
    """Only a message or a typed error is this API's."""
    assert not anthropic.reads_response(body)


def test_pings_and_unknown_events_are_passed_over() -> None:
    """A ping, an event or a delta from the future changes nothing."""
    response = anthropic.read_response(BODIES["plain"])
    events = list(anthropic.write_stream(response))
    extra: list[JsonObject] = [
        {"type": "ping"},
        {"type": "new_event"},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "new_delta"}},
    ]
    fed = events[:2] + [sse.ServerEvent(encode(e).decode(), event=e["type"]) for e in extra] + events[2:]
    assert laws.streamed(CODEC, fed) == response


def test_a_delta_needs_its_block() -> None:
    """A delta for a block that never started is an error that names it."""
    delta = {"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta", "text": "x"}}
    with pytest.raises(ShapeError, match="started, got 3"):
        anthropic.open_stream().feed(sse.ServerEvent(encode(delta).decode()))


def test_a_stream_without_its_start_is_read_as_far_as_it_goes() -> None:
    """Blocks and an ending without `message_start` are a response without a model."""
    events = list(anthropic.write_stream(anthropic.read_response(BODIES["plain"])))[1:]
    response = laws.streamed(CODEC, events)
    assert (response.model, response.choices[0].text) == ("", "Hello, “world”.")
    assert response.usage == Usage(0, 5)


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_the_sdk_types_accept_what_is_written(body: JsonObject) -> None:
    """Every message and every event validates as the SDK's own type, and reads back as the same value."""
    response = anthropic.read_response(body)
    parsed = SdkMessage.model_validate(anthropic.write_response(response))
    assert anthropic.read_response(plain(parsed)) == response
    events: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
    for event in anthropic.write_stream(response, piece_chars=4):
        events.validate_python(decode(event.data))


def client_of(url: str) -> sdk.Anthropic:
    """Return a client that talks to the stub."""
    return sdk.Anthropic(base_url=url, api_key="none", max_retries=0, http_client=anthropic_http())


@pytest.mark.heavy
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_the_real_client_reads_what_is_written(body: JsonObject) -> None:
    """The client's message, plain and streamed, is the response that was served."""
    response = anthropic.read_response(body)
    with serving(CODEC, response) as stub, client_of(stub.url) as client:
        assert anthropic.read_response(plain(client.messages.create(**ASKED))) == response
        assert anthropic.reads_request(stub.bodies[0])
        assert stub.paths == ["/v1/messages"]
    with streaming(CODEC, response) as stub, client_of(stub.url) as client, client.messages.stream(**ASKED) as stream:
        assert anthropic.read_response(plain(stream.get_final_message())) == response


def test_the_real_client_raises_on_errors() -> None:
    """An error body is the client's own exception, plain and streamed."""
    failure = anthropic.read_response(OVERLOADED, status=529)
    with (
        serving(CODEC, failure, status=529) as stub,
        client_of(stub.url) as client,
        pytest.raises(sdk.APIStatusError, match="Overloaded"),
    ):
        client.messages.create(**ASKED)
    with (
        streaming(CODEC, failure) as stub,
        client_of(stub.url) as client,
        pytest.raises(sdk.APIStatusError, match="Overloaded"),
        client.messages.stream(**ASKED) as stream,
    ):
        stream.get_final_message()
