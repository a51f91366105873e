"""Laws of taking decoded JSON apart, of what the codecs share, and of turning what a caller holds into JSON."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum
from types import MappingProxyType
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from google.genai import types as genai
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionMessage
from pydantic import BaseModel

from demur.errors import ShapeError
from demur.model.exchange import Choice, Finish, OpaquePart, Response, Signal, SignalKind, TextPart, Usage
from demur.wire.fields import (
    Field,
    arguments_of,
    canonical,
    cut,
    decode,
    encode,
    extra_inputs,
    finish_word,
    input_of,
    join_path,
    only_choice,
    opaque,
    plain,
    put,
    root,
    tool_input,
    usage_of,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)

BODY = {"a": [{"b": "x", "n": 3, "f": True, "none": None}], "whole": 3.0}


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda top: top.need("a").text(), "`a`: expected a string, got a list"),
        (lambda top: next(top.each("a")).text_at("n"), "`a[0].n`: expected a string, got a number"),
        (lambda top: next(top.each("a")).integer_at("f"), "`a[0].f`: expected a whole number, got true or false"),
        (lambda top: next(top.each("a")).integer_at("b"), "`a[0].b`: expected a whole number, got a string"),
        (lambda top: next(top.each("a")).flag_at("n"), "`a[0].n`: expected true or false, got a number"),
        (lambda top: next(top.each("a")).need("none"), "`a[0].none`: expected a value, got nothing"),
        (lambda top: top.need("missing"), "`missing`: expected a value, got nothing"),
        (lambda top: top.need("whole").get("x"), "`whole`: expected an object, got a number"),
        (lambda top: next(top.each("a")).each("b").__next__(), "`a[0].b`: expected a list, got a string"),
        (lambda _: root([1]), "the body: expected an object, got a list"),
        (lambda _: root(None), "the body: expected an object, got nothing"),
        (lambda _: Field({}, "x").text(), "`x`: expected a string, got an object"),
        (lambda _: Field(object(), "x").text(), "`x`: expected a string, got something that is not JSON"),
    ],
)
def test_a_wrong_kind_names_its_path(ask: Callable[[Field], object], message: str) -> None:
    """A field of the wrong kind is a shape error with the path, the expectation and what is there."""
    with pytest.raises(ShapeError) as caught:
        ask(root(BODY))
    assert caught.value.what == message


def test_right_kinds_come_back() -> None:
    """Values of the right kind come back as they are, null as absent, and a whole float as an integer."""
    item = next(root(BODY).each("a"))
    assert (item.text_at("b"), item.integer_at("n"), item.flag_at("f"), item.text_at("none")) == ("x", 3, True, None)
    assert (item.integer_at("none"), item.flag_at("none"), item.tag_at("n")) == (None, None, "")
    assert root(BODY).integer_at("whole") == 3
    assert [key for key, _ in item.fields()] == ["b", "n", "f"]
    assert list(root(BODY).each("missing")) == []
    assert (item.is_object, item.is_list, root(BODY).need("a").is_list) == (True, False, True)


def test_opaque_keeps_the_json() -> None:
    """An opaque part has the type as its kind and the value as compact JSON in its own order."""
    assert opaque(Field({"type": "image_url", "a": 1})) == OpaquePart("image_url", b'{"type":"image_url","a":1}')
    assert opaque(Field(5)) == OpaquePart("unknown", b"5")
    assert opaque(Field({"type": "x"}), "tool_call.x").kind == "tool_call.x"


def test_canonical_json_is_sorted() -> None:
    """Canonical JSON does not depend on the order of the fields, at any depth."""
    assert canonical({"b": 1, "a": {"d": 2, "c": 3}}) == b'{"a":{"c":3,"d":2},"b":1}'


def test_values_are_put_at_paths() -> None:
    """Objects and lists on the way are made; gaps in a list are empty objects."""
    body: dict[str, Any] = {}
    put(body, join_path(join_path("a", "x.y"), 1) + ".b", value=1)
    put(body, 'a["x.y"][1].c', value=2)
    put(body, "l[0]", value=3)
    assert body == {"a": {"x.y": [{}, {"b": 1, "c": 2}]}, "l": [3]}


@pytest.mark.parametrize("value", ["\ud800", {1: object()}, object()])
def test_what_cannot_be_written_is_a_shape_error(value: Any) -> None:
    """Python values that JSON cannot hold are shape errors, not crashes."""
    with pytest.raises(ShapeError, match="expected plain JSON"):
        encode(value)


def test_endless_nesting_is_a_shape_error() -> None:
    """A value that holds itself is a shape error."""
    value: list[Any] = []
    value.append(value)
    with pytest.raises(ShapeError, match=r"`a\.b`: expected plain JSON"):
        Field(value, "a.b").json()


@pytest.mark.parametrize("text", ["", "{", b"\xff", '"\\ud800"', "[" * 100_000])
def test_what_is_no_json_is_a_shape_error(text: str | bytes) -> None:
    """Text that is not JSON is a shape error."""
    with pytest.raises(ShapeError, match="expected JSON"):
        decode(text)


@given(JSON)
def test_encode_then_decode(value: Any) -> None:
    """What was encoded decodes to the same value."""
    assert decode(encode(value)) == value


WORDS = {"end": Finish.STOP, "halt": Finish.STOP}
DEFAULTS = dict.fromkeys(Finish, "end")


@given(st.text(), st.integers(0, 9))
def test_pieces_make_the_text(text: str, piece_chars: int) -> None:
    """Pieces joined are the text, each within its size, none of them empty."""
    pieces = list(cut(text, piece_chars))
    assert "".join(pieces) == text
    assert all(0 < len(piece) <= (piece_chars or len(text)) for piece in pieces)


@pytest.mark.parametrize(
    ("arguments", "value"), [('{"a":1}', {"a": 1}), ("", {}), ('{"a', '{"a'), ("[1]", "[1]"), ("word", "word")]
)
def test_arguments_are_an_object_or_the_text_they_are(arguments: str, value: object) -> None:
    """Only a JSON object is decoded; a call that was cut off stays text."""
    assert input_of(arguments) == value
    assert arguments_of(Field(value)) == arguments or not arguments
    assert arguments_of(None) == "{}"
    assert tool_input([arguments], start={"s": 1}) == (value if arguments else {"s": 1})


def test_a_finish_word_is_kept_while_it_means_the_finish() -> None:
    """The provider's own word is written where it fits, the shape's word otherwise, none where there is no finish."""
    kept = Choice(0, (), Finish.STOP, "halt")
    foreign = Choice(0, (), Finish.STOP, "alien")
    unknown = Choice(0, (), Finish.UNKNOWN, "alien")
    words = [finish_word(c, WORDS, defaults=DEFAULTS) for c in (kept, foreign, unknown, Choice(0, ()))]
    assert words == ["halt", "end", "alien", None]


def test_inputs_beside_the_shapes_own_are_kept() -> None:
    """Input fields that the shape does not read are kept as canonical JSON; empty ones say nothing."""
    body = {"documents": [{"b": 1, "a": 2}], "messages": [], "prompt": "", "query": None, "top_p": 1}
    assert extra_inputs(body, own="messages") == (OpaquePart("documents", b'[{"a":2,"b":1}]'),)


def test_counts_that_are_absent_are_zero() -> None:
    """Usage without one of its counts has a zero there; no usage is none."""
    assert usage_of(Field({"a": 2}), asked="a", answered="b") == Usage(2, 0)
    assert usage_of(None, asked="a", answered="b") is None


def test_a_blocked_prompt_stays_visible_without_a_choice() -> None:
    """A shape that has one choice is given a filtered one for a blocked prompt, and an open one for nothing at all."""
    block = Signal(SignalKind.PROMPT_BLOCK, "promptFeedback.blockReason", "SAFETY")
    assert only_choice(Response("m", signals=(block,))).finish is Finish.CONTENT_FILTER
    assert only_choice(Response("m")).finish is None
    assert only_choice(Response("m", (Choice(0, (TextPart("a"),)),))).text == "a"


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
