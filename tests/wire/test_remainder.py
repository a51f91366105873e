"""What readers leave unread is kept by path and put back, and never undoes what was written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import ShapeError
from demur.wire.remainder import join, put, restore, unread

NAMES = st.text(max_size=4) | st.sampled_from(["a.b", "a[0]", '"', "[", "]", ".", "\\"])
TREES = st.recursive(
    st.integers() | st.text("ab", min_size=1, max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
)
OBJECTS = st.dictionaries(NAMES, TREES, max_size=4)


@given(OBJECTS)
def test_what_was_not_written_comes_back_whole(body: dict[str, Any]) -> None:
    """Nothing written at all is everything kept, whatever the names."""
    assert restore({}, unread(body, {})) == body


@given(OBJECTS, OBJECTS)
def test_putting_back_is_stable(body: dict[str, Any], written: dict[str, Any]) -> None:
    """What is put back leaves nothing unread, unless a list would have to change its words."""
    kept = unread(body, written)
    again = restore(restore({}, unread(written, {})), kept)
    assert set(written) <= set(again)
    assert restore(again, unread(body, again)) == again


def test_what_is_written_wins() -> None:
    """A value that was written is never replaced, and a field whose place is gone is left out."""
    rest = unread({"m": [{"t": "old", "x": 1}, {"y": 2}]}, {"m": [{"t": "old"}, {}]})
    assert rest == b'{"m[0].x":1,"m[1].y":2}'
    assert restore({"m": [{"t": "new"}]}, rest) == {"m": [{"t": "new", "x": 1}]}
    assert restore({"m": {"t": "new"}}, rest) == {"m": {"t": "new"}}


def test_a_list_comes_back_whole_where_its_words_are_the_same() -> None:
    """Items that a list lost come back with it, unless a text in it has been edited."""
    body = {"content": [{"text": "a"}, {"image": 1}, {"text": None}, 7]}
    rest = unread(body, {"content": [{"text": "a"}]})
    assert restore({"content": [{"text": "a"}]}, rest) == body
    assert restore({"content": [{"text": "edited"}]}, rest) == {"content": [{"text": "edited"}]}


def test_an_empty_text_is_no_word() -> None:
    """A list that was written with an empty text before its items comes back as it was."""
    body = {"output": [{"type": None, "text": "a"}, {"type": "input_image"}]}
    written = {"output": [{"type": "input_text", "text": ""}, *body["output"]]}
    rest = unread(body, written)
    assert restore(written, rest) == body


def test_null_and_empty_say_nothing() -> None:
    """Null and empty strings are not kept; zero, false and empty containers are."""
    kept = unread({"a": None, "b": "", "c": 0, "d": False, "e": {}, "f": []}, {})
    assert kept == b'{"c":0,"d":false,"e":{},"f":[]}'


def test_nesting_has_an_end() -> None:
    """A body nested deeper than can be compared is a shape error."""
    body: dict[str, Any] = {}
    written: dict[str, Any] = {}
    inner, twin = body, written
    for _ in range(5000):
        inner["a"], twin["a"] = {}, {}
        inner, twin = inner["a"], twin["a"]
    with pytest.raises(ShapeError, match="nested too deeply"):
        unread(body, written)


def test_values_are_put_at_paths() -> None:
    """Objects and lists on the way are made; gaps in a list are empty objects."""
    body: dict[str, Any] = {}
    put(body, join(join("a", "x.y"), 1) + ".b", value=1)
    put(body, 'a["x.y"][1].c', value=2)
    put(body, "l[0]", value=3)
    assert body == {"a": {"x.y": [{}, {"b": 1, "c": 2}]}, "l": [3]}


def test_a_rest_is_an_object() -> None:
    """Anything but a JSON object cannot be put back."""
    with pytest.raises(ShapeError):
        restore({}, b"[]")
    assert restore({"a": 1}, b'{"":2}') == {"a": 1}
