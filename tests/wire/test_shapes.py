"""A body that does not say where it came from is recognised by its fields."""

from __future__ import annotations

from typing import Any

import pytest
from tests.wire import test_anthropic, test_azure
from tests.wire.bedrock import test_converse as test_bedrock
from tests.wire.gemini import test_generate as test_gemini
from tests.wire.openai import chat_bodies, responses_bodies

from demur.errors import ShapeError
from demur.model.exchange import Shape
from demur.wire.fields import ServerEvent
from demur.wire.shapes import CODECS, read_exchange, read_stream, shape_of_request, shape_of_response

USER = [{"role": "user", "content": "hi"}]
CHAT = chat_bodies.body(chat_bodies.answer(content="hello"))
AZURE = test_azure.body(test_azure.answer(content="hello"), prompt={})
AZURE_ERROR: dict[str, Any] = {
    "error": {"code": "content_filter", "message": "filtered", "innererror": {"code": "ResponsibleAIPolicyViolation"}}
}
RESPONSES = responses_bodies.body(responses_bodies.message(responses_bodies.text("hello")))
ANTHROPIC = test_anthropic.message(test_anthropic.text("hello"))
GEMINI = test_gemini.answer({"text": "hello"})
BEDROCK = test_bedrock.answer({"text": "hello"})
RESPONSE_BODIES = [
    (CHAT, Shape.OPENAI_CHAT),
    (RESPONSES, Shape.OPENAI_RESPONSES),
    (AZURE, Shape.AZURE),
    (AZURE_ERROR, Shape.AZURE),
    (ANTHROPIC, Shape.ANTHROPIC),
    ({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, Shape.ANTHROPIC),
    (GEMINI, Shape.GEMINI),
    ({"promptFeedback": {"blockReason": "SAFETY"}}, Shape.GEMINI),
    (BEDROCK, Shape.BEDROCK),
    ({"error": {"message": "busy", "type": "server_error", "param": None, "code": None}}, Shape.OPENAI_CHAT),
    ({"foo": 1}, None),
    ({}, None),
]
REQUEST_BODIES = [
    ({"model": "m", "messages": USER}, Shape.OPENAI_CHAT),
    ({"model": "m", "input": "hi"}, Shape.OPENAI_RESPONSES),
    ({"model": "m", "max_tokens": 5, "system": "be kind", "messages": USER}, Shape.ANTHROPIC),
    ({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}, Shape.GEMINI),
    ({"modelId": "m", "messages": [{"role": "user", "content": [{"text": "hi"}]}]}, Shape.BEDROCK),
    ({"foo": 1}, None),
]


@pytest.mark.parametrize(("body", "shape"), RESPONSE_BODIES)
def test_a_response_is_recognised(body: dict[str, Any], shape: Shape | None) -> None:
    """Each provider's answer or error body is known by fields that only it has."""
    assert shape_of_response(body) is shape


@pytest.mark.parametrize(("body", "shape"), REQUEST_BODIES)
def test_a_request_is_recognised(body: dict[str, Any], shape: Shape | None) -> None:
    """Each provider's request is known by fields that only it has."""
    assert shape_of_request(body) is shape


@pytest.mark.parametrize(
    ("body", "shape"), [b for b in RESPONSE_BODIES if b[1] and not b[0].get("error") and "promptFeedback" not in b[0]]
)
@pytest.mark.parametrize("wrap", ["bare", "response", "batch"])
def test_an_exchange_is_read_bare_or_wrapped(body: dict[str, Any], shape: Shape, wrap: str) -> None:
    """A response is found at the top, under `response`, or in a batch row's `response.body`, with its request and id."""
    asked = {"model": "m", "messages": USER}
    bodies: dict[str, dict[str, Any]] = {
        "bare": body,
        "response": {"id": "row", "request": asked, "response": body},
        "batch": {"custom_id": "row", "request": asked, "response": {"status_code": 200, "body": body}},
    }
    read = read_exchange(bodies[wrap])
    assert read.shape is shape
    assert read.response is not None
    assert read.response.choices[0].text == "hello"
    if wrap != "bare":
        assert read.id == "row"
        assert read.request is not None
        assert read.request.prompt == "hi"


def test_a_wrapped_errors_status_is_kept() -> None:
    """The HTTP status beside a body is the response's status."""
    read = read_exchange({"custom_id": "a", "response": {"status_code": 400, "body": AZURE_ERROR}})
    assert read.response is not None
    assert (read.shape, read.response.status) == (Shape.AZURE, 400)


def test_unknown_shapes_are_told_with_their_fields() -> None:
    """The error lists what was found and what was expected, at the top and inside a wrapper."""
    with pytest.raises(ShapeError, match="unknown shape with the fields `foo`, `bar`; expected a response of azure"):
        read_exchange({"foo": 1, "bar": 2})
    with pytest.raises(ShapeError, match="unknown shape with the fields `foo`"):
        read_exchange({"response": {"foo": 1}})


@pytest.mark.parametrize(
    ("body", "shape"), [b for b in RESPONSE_BODIES if b[1] and b[0] != AZURE_ERROR and not b[0].get("error")]
)
def test_a_captured_stream_is_recognised(body: dict[str, Any], shape: Shape) -> None:
    """The events that a shape writes are recognised as its own and read back."""
    response = CODECS[shape].read_response(body)
    read = read_stream(tuple(CODECS[shape].write_stream(response)))
    assert read.response is not None
    assert read.response.complete
    assert [c.text for c in read.response.choices] == [c.text for c in response.choices]
    if shape is not Shape.AZURE:
        assert read.shape is shape


def test_a_stream_that_says_nothing_is_refused() -> None:
    """Events of no shape are an error, not an empty answer."""
    with pytest.raises(ShapeError, match="a stream of no known shape"):
        read_stream((ServerEvent("[1]"), ServerEvent("hello"), ServerEvent("[DONE]")))
