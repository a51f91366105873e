"""OpenAI Responses, streamed, spoilt, and read by the real client."""

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
from tests.wire.loopback import answering
from tests.wire.openai.responses_bodies import ASKED, BODIES, ERRORS

from demur.errors import ShapeError
from demur.model.exchange import (
    Channel,
    Choice,
    Delta,
    OpaquePart,
    ProviderError,
    RefusalPart,
    Response,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from demur.wire import sse
from demur.wire.fields import Codec, JsonObject, decode, encode, plain
from demur.wire.openai import responses as openai_responses

CODEC: Codec = openai_responses


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
    assert closed.choices[0].parts == (TextPart("a"), RefusalPart("no"), ThinkingPart("hm"), ToolCallPart("", "", "{}"))
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


def on_the_wire(response: Response) -> bytes:
    """Return the bytes of the streamed response."""
    return b"".join(sse.encode(event) for event in CODEC.write_stream(response, piece_chars=3))


@pytest.mark.parametrize("name", BODIES)
def test_the_client_reads_the_answer(name: str) -> None:
    """The real client reads what is written, and what it hands out is the same response."""
    response = CODEC.read_response(BODIES[name])
    with answering(encode(CODEC.write_response(response))) as stub, client(stub.url) as door:
        answered = door.responses.create(**ASKED)
    assert bare(CODEC.read_response(plain(answered))) == bare(response)
    assert CODEC.read_request(stub.bodies[0]) == CODEC.read_request(ASKED)


@pytest.mark.heavy
@pytest.mark.parametrize("name", BODIES)
def test_the_client_reads_the_stream(name: str) -> None:
    """The real client reads every event, and the events it hands out are the same response."""
    response = CODEC.read_response(BODIES[name])
    with answering(on_the_wire(response), content_type="text/event-stream") as stub, client(stub.url) as door:
        events = [plain(event) for event in door.responses.create(**ASKED, stream=True)]
    assert bare(laws.streamed(CODEC, told(*events))) == bare(response)


@pytest.mark.parametrize("name", ["plain", "refusal", "tools", "thought", "text and refusal"])
def test_the_clients_own_assembly_agrees(name: str) -> None:
    """The client's stream helper assembles the same answer as our reader."""
    response = CODEC.read_response(BODIES[name])
    with (
        answering(on_the_wire(response), content_type="text/event-stream") as stub,
        client(stub.url) as door,
        door.responses.stream(**ASKED) as stream,
    ):
        final = stream.get_final_response()
    assert CODEC.read_response(plain(final)).choices == response.choices


def test_the_client_raises_on_errors() -> None:
    """An error body is the client's error, with its code."""
    status, failed = ERRORS["invalid prompt"]
    written = CODEC.write_response(CODEC.read_response(failed, status=status))
    with (
        answering(encode(written), status=status) as stub,
        client(stub.url) as door,
        pytest.raises(sdk.BadRequestError) as caught,
    ):
        door.responses.create(**ASKED)
    assert caught.value.code == "invalid_prompt"
