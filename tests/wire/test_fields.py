"""Laws of taking decoded JSON apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import ShapeError
from demur.model.exchange import OpaquePart
from demur.wire.fields import Field, canonical, decode, encode, join_path, opaque, put, root

if TYPE_CHECKING:
    from collections.abc import Callable

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
