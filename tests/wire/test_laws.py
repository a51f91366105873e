"""The laws that every provider's format keeps, over the bodies of all of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire import laws, test_anthropic, test_azure
from tests.wire.bedrock import test_converse as test_bedrock
from tests.wire.gemini import test_generate as test_gemini
from tests.wire.openai import chat_bodies, responses_bodies

from demur.model.exchange import Shape
from demur.wire.fields import JsonObject
from demur.wire.shapes import CODECS

BODIES: dict[Shape, dict[str, JsonObject]] = {
    Shape.ANTHROPIC: test_anthropic.BODIES,
    Shape.AZURE: test_azure.BODIES,
    Shape.BEDROCK: test_bedrock.BODIES,
    Shape.GEMINI: test_gemini.BODIES,
    Shape.OPENAI_CHAT: chat_bodies.BODIES,
    Shape.OPENAI_RESPONSES: responses_bodies.BODIES | responses_bodies.LENIENT,
}
REQUESTS: dict[Shape, dict[str, JsonObject]] = {
    Shape.ANTHROPIC: test_anthropic.REQUESTS,
    Shape.AZURE: {"own data": test_azure.OWN_DATA},
    Shape.BEDROCK: test_bedrock.REQUESTS,
    Shape.GEMINI: test_gemini.REQUESTS,
    Shape.OPENAI_CHAT: chat_bodies.REQUESTS,
    Shape.OPENAI_RESPONSES: responses_bodies.REQUESTS,
}
ERRORS: dict[Shape, dict[str, tuple[int, JsonObject]]] = {
    Shape.ANTHROPIC: {"overloaded": (529, test_anthropic.OVERLOADED)},
    Shape.AZURE: {name: (400, failed) for name, failed in test_azure.ERRORS.items()},
    Shape.BEDROCK: {"throttled": (429, test_bedrock.THROTTLED)},
    Shape.GEMINI: {"invalid": (400, test_gemini.INVALID)},
    Shape.OPENAI_CHAT: chat_bodies.ERRORS,
    Shape.OPENAI_RESPONSES: responses_bodies.ERRORS,
}
SHAPES = pytest.mark.parametrize("shape", Shape)
EACH_BODY = pytest.mark.parametrize(
    ("shape", "body"), [pytest.param(s, body, id=f"{s} {name}") for s in Shape for name, body in BODIES[s].items()]
)


@EACH_BODY
def test_what_is_written_means_what_was_read(shape: Shape, body: JsonObject) -> None:
    """A body is written as it was read, streamed or not, whatever unknown fields it has."""
    laws.check_plain(CODECS[shape], body)
    laws.check_stream(CODECS[shape], body)


@EACH_BODY
def test_a_stream_may_end_anywhere(shape: Shape, body: JsonObject) -> None:
    """A stream cut at any event closes to an incomplete response, and the deltas of a whole one are its texts."""
    laws.check_cut_off(CODECS[shape], body)
    laws.check_deltas(CODECS[shape], body)


@pytest.mark.parametrize(
    ("shape", "body"), [pytest.param(s, body, id=f"{s} {name}") for s in Shape for name, body in REQUESTS[s].items()]
)
def test_a_request_is_known_and_read(shape: Shape, body: JsonObject) -> None:
    """A request is read, whatever its parts carry and whatever fields are new."""
    laws.check_request(CODECS[shape], body)


@pytest.mark.parametrize(
    ("shape", "error"), [pytest.param(s, error, id=f"{s} {name}") for s in Shape for name, error in ERRORS[s].items()]
)
def test_errors_are_read_and_written(shape: Shape, error: tuple[int, JsonObject]) -> None:
    """An error body means the same once written, and a stream may hold it, alone or after half a response."""
    codec, (status, failed) = CODECS[shape], error
    response = codec.read_response(failed, status=status)
    assert codec.read_response(codec.write_response(response), status=status) == response
    laws.check_stream(codec, failed)
    plain = next(body for body in BODIES[shape].values() if codec.read_response(body).choices)
    if len(codec.read_response(failed).signals) == 1:
        laws.check_errors_in_stream(codec, plain, error=failed)


@SHAPES
@given(junk=laws.JSON)
def test_readers_raise_shape_errors_only(shape: Shape, junk: Any) -> None:
    """Arbitrary JSON gives a value or a shape error."""
    laws.check_never_raises(CODECS[shape], junk)


@pytest.mark.heavy
@SHAPES
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_spoilt_bodies_never_crash(shape: Shape, data: st.DataObject) -> None:
    """A real body with a value of the wrong kind gives a value or a shape error."""
    asked = {f"asked {name}": body for name, body in REQUESTS[shape].items()}
    failed = {f"failed {name}": body for name, (_, body) in ERRORS[shape].items()}
    laws.check_never_raises(CODECS[shape], data.draw(laws.spoilt(BODIES[shape] | asked | failed)))


@pytest.mark.heavy
@SHAPES
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_spoilt_streams_never_crash(shape: Shape, data: st.DataObject) -> None:
    """A real stream with a value of the wrong kind gives a value or a shape error."""
    laws.check_stream_never_raises(CODECS[shape], data.draw(laws.spoilt_events(CODECS[shape], BODIES[shape])))
