"""Laws of turning what a caller holds into JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum
from types import MappingProxyType
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from google.genai import types as genai
from openai.types.chat import ChatCompletion, ChatCompletionMessage
from pydantic import BaseModel

from demur.errors import ShapeError
from demur.wire.fields import plain


class Colour(Enum):
    """An enumeration that is no string."""

    RED = "red"


class Stubborn(BaseModel):
    """A model that holds what JSON cannot."""

    value: Any


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"a": [1, 2.5, None, True, "x"]}, {"a": [1, 2.5, None, True, "x"]}),
        ([{"a": 1}], [{"a": 1}]),
        (({"a": 1},), [{"a": 1}]),
        (MappingProxyType({"a": MappingProxyType({"b": 1})}), {"a": {"b": 1}}),
        ('{"a": 1}', {"a": 1}),
        (b'[{"a": 1}]', [{"a": 1}]),
        (bytearray(b'{"a": "\xc3\xa9"}'), {"a": "é"}),
        (
            {"blob": b"\x00\x01", "at": datetime(2026, 1, 2, tzinfo=UTC)},
            {"blob": "AAE=", "at": "2026-01-02T00:00:00+00:00"},
        ),
        ({"colour": Colour.RED}, {"colour": "red"}),
    ],
)
def test_json_like_values_become_json(given: Any, expected: Any) -> None:
    """Dicts, lists, mappings and JSON text become decoded JSON."""
    assert plain(given) == expected


def test_openai_objects_keep_what_the_server_sent() -> None:
    """An OpenAI object becomes its body, unknown fields and values included, without the nulls."""
    body = {
        "id": "x",
        "choices": [{"index": 0, "finish_reason": "odd", "message": {"role": "assistant"}}],
        "new": {"a": None},
    }
    assert plain(ChatCompletion.construct(None, **body)) == body


def test_models_inside_a_dict_are_taken_apart_too() -> None:
    """A request that holds an SDK's message is as good as one of dicts alone."""
    message = ChatCompletionMessage(role="assistant", content="hi")
    assert plain({"messages": [message]}) == {"messages": [{"role": "assistant", "content": "hi"}]}


def test_anthropic_objects() -> None:
    """An Anthropic object becomes its body."""
    body = {"id": "m", "content": [{"type": "text", "text": "x"}], "stop_reason": "refusal"}
    assert plain(AnthropicMessage.construct(None, **body)) == body


def test_gemini_objects_are_camel_case() -> None:
    """A Gemini object has the names of the wire, and the values that JSON arguments hold stay null."""
    call = genai.FunctionCall(name="f", args={"a": None})
    part = genai.Part(function_call=call)
    candidate = genai.Candidate(finish_reason=genai.FinishReason.SAFETY, content=genai.Content(parts=[part]))
    response = genai.GenerateContentResponse(candidates=[candidate], sdk_http_response=genai.HttpResponse(headers={}))
    content = {"parts": [{"functionCall": {"name": "f", "args": {"a": None}}}]}
    assert plain(response) == {"candidates": [{"finishReason": "SAFETY", "content": content}]}


@pytest.mark.parametrize("given", [None, 5, object(), "I can't help with that.", b"\xff", "5", ChatCompletion])
def test_anything_else_is_a_shape_error(given: Any) -> None:
    """What is no response is refused with a line that says what was expected."""
    with pytest.raises(ShapeError, match="expected a provider's response: a dict, an SDK object or JSON text"):
        plain(given)


def test_a_strange_value_names_its_path() -> None:
    """A value inside that is no JSON is named by its path."""
    with pytest.raises(ShapeError, match=r"`a\[1\]\.b`: expected JSON, got a object"):
        plain({"a": [1, {"b": object()}]})
    with pytest.raises(ShapeError, match="`a`: expected names that are strings, got 5"):
        plain({"a": {5: 1}})
    with pytest.raises(ShapeError, match="the body: expected names that are strings"):
        plain({5: 1})


def test_a_value_that_holds_itself_is_a_shape_error() -> None:
    """Endless nesting is refused."""
    given: dict[str, Any] = {}
    given["self"] = given
    with pytest.raises(ShapeError, match="nested too deeply"):
        plain(given)


def test_a_model_that_is_no_json_is_a_shape_error() -> None:
    """A model that cannot become JSON is refused by its name."""
    with pytest.raises(ShapeError, match="`Stubborn` does not turn into JSON"):
        plain(Stubborn(value=object()))
