"""OpenAI Responses: each row of the provider table, both ways, streamed, spoilt, and read by the real client."""

from __future__ import annotations

import contextlib
from typing import Any

import openai as sdk
import pytest
from msgspec.structs import replace
from openai.types.responses import Response as SdkResponse
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter
from tests.plain_http import openai_http
from tests.wire import laws
from tests.wire.loopback import serving, streaming
from tests.wire.openai.chat_bodies import NO
from tests.wire.openai.responses_bodies import ASKED, BODIES, CALL, ERRORS, REQUESTS, body, message, reasoning, refusal

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
from demur.wire.openai import responses as openai_responses

CODEC: Codec = openai_responses
POLICY_CODES = ("invalid_prompt", "bio_policy", "misalignment_policy_violation", "image_content_policy_violation")


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
            for code in POLICY_CODES
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
    "given",
    [
        {"input": "hi", "output": "ho"},
        {"model": "m", "input": "hi", "output": []},
        {"model": "m", "input": {"a": 1}},
        {"model": "m", "messages": []},
    ],
)
def test_other_shapes_are_left_alone(given: JsonObject) -> None:
    """A request or row of another shape is not taken for this one."""
    assert not CODEC.reads_request(given)


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


def told(*events: JsonObject) -> list[sse.ServerEvent]:
    """Return these events."""
    return [sse.ServerEvent(encode(event).decode(), event.get("type")) for event in events]


def test_deltas_of_every_strand() -> None:
    """Every piece is a delta of its strand; a text that only comes when done is news then, and not twice."""
    reader = CODEC.open_stream()
    place = {"output_index": 0, "content_index": 0}
    events = told(
        {"type": "response.output_text.delta", "delta": "a", **place},
        {"type": "response.output_text.done", "text": "a", **place},
        {"type": "response.refusal.done", "refusal": "no", "output_index": 0, "content_index": 1},
        {"type": "response.reasoning_summary_text.delta", "delta": "hm", "output_index": 1, "summary_index": 0},
        {"type": "response.function_call_arguments.delta", "delta": "{}", "output_index": 2},
        {"type": "response.audio.delta", "delta": "AAAA"},
        {"type": "response.output_text.annotation.added"},
        {"type": "response.output_text.delta", "delta": "", **place},
    )
    assert [d for event in events for d in reader.feed(event)] == [
        Delta(0, Channel.TEXT, "a"),
        Delta(0, Channel.REFUSAL, "no"),
        Delta(0, Channel.THINKING, "hm"),
        Delta(0, Channel.TOOL, "{}"),
    ]
    assert reader.feed(sse.ServerEvent("[DONE]")) == ()
    closed = reader.close()
    # A call whose name never came is no call that anybody could make.
    nameless = OpaquePart("item.nameless_call", b'{"type":"function_call","arguments":"{}"}')
    assert closed.choices[0].parts == (TextPart("a"), RefusalPart("no"), ThinkingPart("hm"), nameless)
    assert not closed.complete


def test_an_unnamed_event_is_read_by_its_name_on_the_wire() -> None:
    """Where the JSON has no type the event's own name counts, and a bare error is an error."""
    reader = CODEC.open_stream()
    assert reader.feed(sse.ServerEvent('{"delta": "a"}', "response.output_text.delta")) == (
        Delta(0, Channel.TEXT, "a"),
    )
    failed = laws.streamed(CODEC, [sse.ServerEvent('{"error": {"message": "oops"}}')])
    assert (failed.error, failed.complete) == (ProviderError("oops"), True)


@pytest.mark.parametrize("depth", [300, 480, 900])
def test_deep_nesting_never_crashes(depth: int) -> None:
    """An item that is nested without end gives a value or a shape error, streamed or not."""
    deep = '{"a":' * depth + "1" + "}" * depth
    item = f'{{"type": "message", "content": [{deep}], "x": {deep}}}'
    added = f'{{"type": "response.output_item.added", "item": {item}}}'
    laws.check_stream_never_raises(CODEC, [sse.ServerEvent(added)])
    with contextlib.suppress(ShapeError):
        laws.check_never_raises(CODEC, decode(f'{{"output": [{item}, {deep}]}}'))


def test_nothing_at_all_is_a_response_that_is_not_complete() -> None:
    """A stream without events closes to an empty response."""
    assert CODEC.open_stream().close() == Response("", (Choice(0, ()),), complete=False)


@pytest.mark.parametrize("name", BODIES)
def test_the_sdk_accepts_what_is_written(name: str) -> None:
    """What is written is what the client's own types expect, and its objects are read back."""
    response = CODEC.read_response(BODIES[name])
    accepted = SdkResponse.model_validate(CODEC.write_response(response))
    assert bare(CODEC.read_response(plain(accepted))) == bare(response)
    known: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    for event in CODEC.write_stream(response, piece_chars=4):
        known.validate_python(decode(event.data))
    for status, failed in ERRORS.values():
        for event in CODEC.write_stream(CODEC.read_response(failed, status=status)):
            assert event.event == "error"


def bare(response: Response) -> Response:
    """Return the response without what the client does not keep in order: the JSON of opaque parts."""
    choices = tuple(
        replace(c, parts=tuple(replace(p, body=b"") if isinstance(p, OpaquePart) else p for p in c.parts))
        for c in response.choices
    )
    return replace(response, choices=choices)


def client(url: str) -> sdk.OpenAI:
    """Return the real client."""
    return sdk.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0, http_client=openai_http())


@pytest.mark.parametrize("name", BODIES)
def test_the_client_reads_the_answer(name: str) -> None:
    """The real client reads what is written, and what it hands out is the same response."""
    response = CODEC.read_response(BODIES[name])
    with serving(CODEC, response) as stub, client(stub.url) as door:
        answered = door.responses.create(**ASKED)
    assert bare(CODEC.read_response(plain(answered))) == bare(response)
    assert CODEC.read_request(stub.bodies[0]) == CODEC.read_request(ASKED)


@pytest.mark.heavy
@pytest.mark.parametrize("name", BODIES)
def test_the_client_reads_the_stream(name: str) -> None:
    """The real client reads every event, and the events it hands out are the same response."""
    response = CODEC.read_response(BODIES[name])
    with streaming(CODEC, response) as stub, client(stub.url) as door:
        events = [plain(event) for event in door.responses.create(**ASKED, stream=True)]
    assert bare(laws.streamed(CODEC, told(*events))) == bare(response)


@pytest.mark.parametrize("name", ["plain", "refusal", "tools", "thought", "text and refusal"])
def test_the_clients_own_assembly_agrees(name: str) -> None:
    """The client's stream helper assembles the same answer as our reader."""
    response = CODEC.read_response(BODIES[name])
    with streaming(CODEC, response) as stub, client(stub.url) as door, door.responses.stream(**ASKED) as stream:
        final = stream.get_final_response()
    assert CODEC.read_response(plain(final)).choices == response.choices


def test_the_client_raises_on_errors() -> None:
    """An error body is the client's error, with its code."""
    status, failed = ERRORS["invalid prompt"]
    with (
        serving(CODEC, CODEC.read_response(failed, status=status), status=status) as stub,
        client(stub.url) as door,
        pytest.raises(sdk.BadRequestError) as caught,
    ):
        door.responses.create(**ASKED)
    assert caught.value.code == "invalid_prompt"
